"""The picture of the ladder: a bar for each stage, cuBLAS and the board's peak as lines."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

# Published dense float16 and bfloat16 TFLOPS, by the name that the driver gives
PEAKS = {"NVIDIA H200": 989.4, "NVIDIA H100 80GB HBM3": 989.4}
# colours that the colour-blind tell apart
COLOURS = {"float32": "#0072B2", "float16": "#E69F00"}
CUBLAS_COLOUR, PEAK_COLOUR = "#009E73", "#555555"
PEER_ALPHA = 0.45


def plot(results: Mapping[str, Any], path: Path) -> None:
    """Draw the rows that were timed, sizes side by side.

    Parameters
    ----------
    results : dict
        As `hopper-numba bench` writes it as JSON.
    path : Path
        The picture; its ending says of which kind.

    Raises
    ------
    ValueError
        If no row was timed.
    """
    sizes: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in results["rows"]:
        if "tflops" in row:
            sizes.setdefault((row["m"], row["n"], row["k"], row["dtype"]), []).append(row)
    if not sizes:
        raise ValueError("no row was timed, so there is nothing to plot")
    figure = Figure(figsize=(1.5 + sum(0.9 * max(len(rows), 4) for rows in sizes.values()), 4.8), layout="constrained")
    widths = [len(rows) for rows in sizes.values()]
    (panels,) = figure.subplots(1, len(sizes), sharey=True, squeeze=False, width_ratios=widths)
    board = results["environment"]["board"]
    peak = PEAKS.get(board)
    for axes, ((m, n, k, dtype), rows) in zip(panels, sizes.items(), strict=True):
        axes.set_title(f"{board}, {m} × {n} × {k}, {dtype}")
        _bars(axes, rows)
        _line(axes, statistics.median(row["cublas_tflops"] for row in rows), "cuBLAS", CUBLAS_COLOUR, "-")
        if peak:
            _line(axes, peak, "published peak", PEAK_COLOUR, "--")
    tallest = max(row["tflops"] for rows in sizes.values() for row in rows)
    panels[0].set_ylim(0, 1.12 * max(peak or 0, tallest))
    panels[0].set_ylabel("TFLOPS in bursts")
    handles = [
        Patch(color=colour, label=f"{accumulate} accumulators")
        for accumulate, colour in COLOURS.items()
        if any(row["accumulate"] == accumulate for rows in sizes.values() for row in rows)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    # without the version of matplotlib, so that the same figures make the same file
    figure.savefig(path, dpi=150, metadata={"Software": None} if path.suffix == ".png" else None)


def _bars(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    bars = axes.bar([row["name"].replace("-", "\n") for row in rows], [row["tflops"] for row in rows])
    for bar, row in zip(bars, rows, strict=True):
        bar.set_color(COLOURS[row["accumulate"]])
        is_stage = row["name"].startswith("v")
        bar.set_alpha(1.0 if is_stage else PEER_ALPHA)
        axes.annotate(
            f"{row['tflops']:.0f}\n{row['ratio']:.2f}×",
            bar.get_center(),  # where cuBLAS's line does not run
            ha="center",
            va="center",
            color="white" if is_stage and row["accumulate"] == "float32" else "black",
            fontsize=9,
        )
    axes.spines[["top", "right"]].set_visible(False)


def _line(axes: Axes, height: float, label: str, colour: str, style: str) -> None:
    axes.axhline(height, color=colour, linestyle=style, linewidth=1.5)
    axes.annotate(
        f"{label} {height:.0f}",
        (0, height),
        xycoords=("axes fraction", "data"),
        xytext=(4, 3),
        textcoords="offset points",
        color=colour,
        fontsize=9,
    )
