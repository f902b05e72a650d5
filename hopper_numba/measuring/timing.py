"""Fair timing of a product against cuBLAS: in one process, interleaved, cooled down, on random data.

A ratio is cuBLAS's time over ours, so more than 1 is faster. Boards differ and one ratio moves by some percent from
repeat to repeat: what counts are medians of ratios within one run.
"""

from __future__ import annotations

import functools
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hopper_numba.measuring import board, clock
from hopper_numba.measuring.problem import Contender, Problem, accuracy
from hopper_numba.measuring.results import Lap, Timing, figures

BURST, SUSTAINED_SECONDS, SUSTAINED_REPEATS = 30, 2.0, 3
INTERVAL = 0.05  # seconds between two looks at the board


def seconds(call: Callable[[], Any], count: int) -> float:
    """Mean time of `count` calls in a row, by events around them."""
    return _mean(_queued(call, count), count)


def burst(call: Callable[[], Any], cooldown: float) -> Timing:
    """Time 30 calls on a rested board, and look at its clock as they end.

    The clock is counted on the board: NVML's, like its power, is older than a burst is long. Of power nothing is said.
    """
    clock.sm_mhz()  # compiled now, so that it comes right behind the calls
    time.sleep(cooldown)
    events = _queued(call, BURST)
    mhz = clock.sm_mhz()
    return Timing(_mean(events, BURST), {"sm_mhz": mhz})


def sustained(call: Callable[[], Any]) -> Timing:
    """Time 2 seconds of calls without a pause; clock and power are what NVML says in the second half."""
    count = max(1, round(SUSTAINED_SECONDS / seconds(call, 3)))
    samples: list[dict[str, float]] = []
    is_over = threading.Event()

    def watch() -> None:
        samples.append(board.state())
        while not is_over.wait(INTERVAL):
            samples.append(board.state())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        mean = seconds(call, count)
    finally:
        is_over.set()
        watcher.join()
    late = samples[len(samples) // 2 :]
    return Timing(mean, {name: statistics.median(sample[name] for sample in late) for name in late[0]})


def compare(
    problem: Problem, contenders: Sequence[Contender], repeats: int, cooldown: float, tick: Callable[[], Any]
) -> list[dict[str, Any]]:
    """Rows of results: contenders against cuBLAS and each other.

    In every round all of them run, with cuBLAS before and after each. One that is wrong is not timed; its row has
    ``wrong``, which says why. A peer that fails on its first call has ``failed``, which says how.

    Parameters
    ----------
    problem : Problem
    contenders : sequence of Contender
    repeats : int
        Rounds of bursts; the rounds of sustained runs are `SUSTAINED_REPEATS`, or fewer.
    cooldown : float
        Seconds of rest before a burst.
    tick : function
        Called when a contender has been timed in a round.

    Returns
    -------
    list of dict
    """
    rows = [_checked(problem, contender) for contender in contenders]
    timed = [
        (row, contender.bound(problem))
        for row, contender in zip(rows, contenders, strict=True)
        if not row.keys() & {"wrong", "failed"}
    ]
    for call in (problem.cublas, *(call for _, call in timed)):
        seconds(call, 3)
    turns: dict[str, tuple[int, Callable[[Callable[[], Any]], Timing]]] = {
        "": (repeats, functools.partial(burst, cooldown=cooldown)),
        "sustained_": (min(repeats, SUSTAINED_REPEATS), sustained),
    }
    for prefix, (count, measure) in turns.items():
        laps: list[list[Lap]] = [[] for _ in timed]
        before = measure(problem.cublas)
        for _ in range(count):
            for (_, call), own in zip(timed, laps, strict=True):
                ours, after = measure(call), measure(problem.cublas)
                own.append((before, ours, after))
                before = after
                tick()
        for (row, _), own in zip(timed, laps, strict=True):
            row |= figures(prefix, problem.tflops, own)
    return rows


def _checked(problem: Problem, contender: Contender) -> dict[str, Any]:
    """The row of a contender as far as it goes without timing."""
    row: dict[str, Any] = {"name": contender.name, "m": problem.m, "n": problem.n, "k": problem.k}
    row |= {"dtype": str(problem.dtype).removeprefix("torch."), "accumulate": contender.accumulate}
    try:
        errors, wrong = accuracy(problem, contender)
    except Exception as error:  # whatever a peer's package raises
        if not contender.is_peer:
            raise
        return row | {"failed": f"{type(error).__name__}: {error}"}
    return row | errors | ({"wrong": wrong} if wrong else {})


def _queued(call: Callable[[], Any], count: int) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        call()
    stop.record()
    return start, stop


def _mean(events: tuple[torch.cuda.Event, torch.cuda.Event], count: int) -> float:
    start, stop = events
    stop.synchronize()
    return start.elapsed_time(stop) / 1e3 / count
