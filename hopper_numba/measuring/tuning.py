"""Tuning: candidates of a stage that fit and are right run against each other and cuBLAS; the fastest is written."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

import hopper_numba
from hopper_numba.device import default_device, require_hopper
from hopper_numba.matmul import STAGES
from hopper_numba.measuring.candidates import Candidate, examine_all
from hopper_numba.measuring.problem import Contender, Problem, accuracy
from hopper_numba.measuring.race import Lap, race, ratio, ratios, winner
from hopper_numba.measuring.timing import burst
from hopper_numba.stages.config import Config, add_choice

COOLDOWN = 0.3  # seconds of rest before a burst
COLUMNS = "  {:<44}{:>7}{:>9}{:>11}{:>17}  {}"
TITLES = ("config", "rounds", "TFLOPS", "of cuBLAS", "range", "")


def tune(stages: Sequence[str], size: Sequence[int], dtype: np.dtype, path: Path) -> bool:
    """Tune stages, print what was found, and write each choice as soon as it is made.

    Parameters
    ----------
    stages : sequence of str
    size : sequence of int
        M, N and K of the product.
    dtype : numpy.dtype
    path : Path
        Of the choices; those of other boards and stages stay.

    Returns
    -------
    bool
        Whether a config was found for every stage.
    """
    device = default_device()
    board = require_hopper(device).name
    candidates = [(stage, config) for stage in stages for config in STAGES[stage].SPACE]
    reasons = dict(tqdm(examine_all(candidates, dtype), "compiling", len(candidates), leave=False))
    torch.cuda.set_device(device)
    m, n, k = size
    problem = Problem(m, n, k, getattr(torch, dtype.name))
    print(f"{board}, {m} x {n} x {k} {dtype}", flush=True)
    missing = []
    for stage in stages:
        print(f"\n{stage}")
        calls = _right_ones(stage, _fitting(stage, reasons), problem)
        if not calls:
            print("  no candidate is left", flush=True)
            missing.append(stage)
            continue
        add_choice(path, board, stage, _fastest(stage, calls, problem))
        print(f"  written to {path}", flush=True)
    return not missing


def _fitting(stage: str, reasons: dict[Candidate, str]) -> list[Config]:
    """The configs of a stage that are worth timing; why the others are not is printed."""
    for config in STAGES[stage].SPACE:
        if reason := reasons[stage, config]:
            print(f"  {config}: {reason}")
    return [config for config in STAGES[stage].SPACE if not reasons[stage, config]]


def _right_ones(stage: str, configs: Sequence[Config], problem: Problem) -> dict[Config, Callable[[], Any]]:
    """The calls of those configs whose results are right; which are not is printed."""
    function = getattr(hopper_numba, f"matmul_{stage}")
    calls: dict[Config, Callable[[], Any]] = {}
    for config in configs:
        multiply = functools.partial(function, config=config)
        contender = Contender(stage, multiply, STAGES[stage].ACCUMULATE)
        _, reason = accuracy(problem, contender)
        if reason:
            print(f"  {config}: WRONG: {reason}")
        else:
            calls[config] = contender.bound(problem)
    return calls


def _fastest(stage: str, calls: dict[Config, Callable[[], Any]], problem: Problem) -> Config:
    """The config that is the fastest; how fast they are is printed. One without a rival is not timed."""
    if len(calls) == 1:
        (chosen,) = calls
        print(f"  {chosen}: the only one left, and not timed")
        return chosen
    with tqdm(desc=stage, unit=" bursts", leave=False) as bar:

        def timed(call: Callable[[], Any]) -> float:
            bar.update()
            return burst(call, COOLDOWN).seconds

        laps = race(calls, problem.cublas, timed)
    chosen = winner(laps)
    _print_table(laps, chosen, problem)
    return chosen


def _print_table(laps: dict[Config, list[Lap]], chosen: Config, problem: Problem) -> None:
    """A row for each config, the fastest first."""
    print(COLUMNS.format(*TITLES).rstrip())
    for config in sorted(laps, key=lambda config: ratio(laps[config]), reverse=True):
        found = ratios(laps[config])
        row = (
            str(config),
            len(found),
            f"{problem.tflops(statistics.median(own for own, _ in laps[config])):.0f}",
            f"{ratio(laps[config]):.3f}",
            f"{min(found):.3f} to {max(found):.3f}",
            "chosen" if config == chosen else "",
        )
        print(COLUMNS.format(*row).rstrip())
