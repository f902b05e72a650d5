"""What is made of measurements: whether a product is right, its row of results, and its line of the table."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# What the ladder's tutorial publishes of its V6, for outputs of variance 1 at K = 8192. It gives mean and p99 to four
# digits after the point, so half of the last one is added.
FLOAT16_LIMITS = {"mean_error": 0.0023 + 0.00005, "p99_error": 0.0117 + 0.00005, "max_error": 0.055}
SIZE_OF_LIMITS, SHORT_K = (8192, 8192, 8192), 64
# A maximum over other outputs is another: over those of 10240 x 10240 x 10240, seed 0, cuBLAS's is 1.2 times what its
# maximum at 8192 x 8192 x 8192 lets expect.
MAXIMUM_ELSEWHERE = 1.5

TITLES = (
    *("name", "M x N x K", "TFLOPS", "of cuBLAS", "(range)", "MHz"),
    *("sustained", "MHz", "W", "max error", "mean error"),
)
COLUMNS = "{:<14}{:<20}{:>8}{:>11}{:>16}{:>7}{:>11}{:>7}{:>6}{:>11}{:>12}"


@dataclasses.dataclass(frozen=True)
class Timing:
    """Mean seconds of a call, and the board meanwhile.

    Attributes
    ----------
    seconds : float
    state : dict
        ``sm_mhz``, of a burst as it ends; ``watts``, not of a burst.
    """

    seconds: float
    state: Mapping[str, float]


def why_wrong(accumulate: str, errors: Mapping[str, float], cublas: Mapping[str, float], size: Sequence[int]) -> str:
    """Why a product is wrong.

    Parameters
    ----------
    accumulate : str
        "float32": no less accurate than cuBLAS, but for a percent. "float16": within `FLOAT16_LIMITS`.
    errors : dict
        ``max_error``, ``mean_error`` and ``p99_error`` against float64; for "float16" of outputs of variance 1.
    cublas : dict
        cuBLAS's, for "float32".
    size : sequence of int
        M, N and K.

    Returns
    -------
    str
        Empty if it is right.
    """
    if accumulate == "float16":
        # Every step rounds a sum whose variance has grown to its share of 1: errors grow as the root of the number of
        # steps, of which a short K has relatively more, as the result is rounded too.
        scale = math.sqrt((size[-1] + SHORT_K) / (SIZE_OF_LIMITS[-1] + SHORT_K))
        limits = {name: limit * scale for name, limit in FLOAT16_LIMITS.items()}
        if tuple(size) != SIZE_OF_LIMITS:
            limits["max_error"] *= MAXIMUM_ELSEWHERE
    else:
        limits = {name: 1.01 * cublas[name] for name in ("max_error", "mean_error")}
    return "; ".join(  # `not <=`, so that a NaN is wrong
        f"{name} {errors[name]:.3g}, more than {limit:.3g}"
        for name, limit in limits.items()
        if not errors[name] <= limit
    )


Lap = tuple[Timing, Timing, Timing]
"""A run of cuBLAS, one of ours, and one of cuBLAS again."""


def figures(prefix: str, tflops: Callable[[float], float], laps: Sequence[Lap]) -> dict[str, Any]:
    """Medians, ranges and ratios of a row.

    Parameters
    ----------
    prefix : str
        Of the keys.
    tflops : function
        Of seconds.
    laps : sequence of Lap
        A ratio's cuBLAS is the mean of the two around ours.

    Returns
    -------
    dict
    """
    ratios = [(before.seconds + after.seconds) / 2 / own.seconds for before, own, after in laps]
    ours = [own for _, own, _ in laps]
    theirs = [timing for before, _, after in laps for timing in (before, after)]
    found: dict[str, Any] = {f"{prefix}ratio": statistics.median(ratios), f"{prefix}ratios": ratios}
    for whose, timings in ((prefix, ours), (f"cublas_{prefix}", theirs)):
        speeds = [tflops(timing.seconds) for timing in timings]
        found[f"{whose}tflops"] = statistics.median(speeds)
        found[f"{whose}tflops_range"] = [min(speeds), max(speeds)]
        found[f"{whose}state"] = {
            name: statistics.median(timing.state[name] for timing in timings) for name in timings[0].state
        }
    return found


def line(row: Mapping[str, Any]) -> str:
    """A row as a line under `TITLES`; one that was not timed says why."""
    size = f"{row['m']} x {row['n']} x {row['k']}"
    if "failed" in row:
        return f"{row['name']:<14}{size:<20}left out: {row['failed']}"
    if "wrong" in row:
        return f"{row['name']:<14}{size:<20}WRONG, not timed: {row['wrong']}"
    return COLUMNS.format(
        row["name"],
        size,
        f"{row['tflops']:.0f}",
        f"{row['ratio']:.3f}",
        f"{min(row['ratios']):.3f} to {max(row['ratios']):.3f}",
        f"{row['state']['sm_mhz']:.0f}",
        f"{row['sustained_ratio']:.3f}",
        f"{row['sustained_state']['sm_mhz']:.0f}",
        f"{row['sustained_state']['watts']:.0f}",
        *errors_of(row, digits=3),
    )


def errors_of(row: Mapping[str, Any], digits: int, whose: str = "") -> list[str]:
    """The largest error and the mean in words: ours, or another's by the beginning of the keys. JSON has no NaN."""
    errors = (row[f"{whose}{name}"] for name in ("max_error", "mean_error"))
    return ["nan" if error is None else f"{error:.{digits}g}" for error in errors]
