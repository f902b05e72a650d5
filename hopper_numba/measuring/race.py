"""Timing candidates against each other and a reference, fairly: in turn, round after round.

Clocks and power drift while a GPU works, so what counts is the ratio to the reference's time in the same round, and of
those the median over the rounds. Each round begins with another runner. Who is clearly slower runs no more.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

ROUNDS, TRIALS = 7, 2  # in the trials all run, so that one lap that something disturbed decides nothing
SLACK = 0.95
"""Of the leader's worst ratio, what a runner's best must be after the trials and each later round, to run on."""

Runner = TypeVar("Runner", bound=Hashable)
Call = Callable[[], Any]
Lap = tuple[float, float]
"""A runner's seconds in a round, and the reference's."""


def race(calls: Mapping[Runner, Call], reference: Call, measure: Callable[[Call], float]) -> dict[Runner, list[Lap]]:
    """Time calls in turn with a reference.

    Parameters
    ----------
    calls : mapping
        Of runners to what they call; at least one.
    reference : function
    measure : function
        The seconds that a call takes.

    Returns
    -------
    dict
        The laps of each runner: `ROUNDS`, or fewer where it was clearly slower, or alone at last.
    """
    laps: dict[Runner, list[Lap]] = {runner: [] for runner in calls}
    running = list(calls)
    for turn in range(ROUNDS):
        order = [None, *running]
        first = turn % len(order)
        seconds = {
            runner: measure(reference if runner is None else calls[runner]) for runner in order[first:] + order[:first]
        }
        for runner in running:
            laps[runner].append((seconds[runner], seconds[None]))
        if turn + 1 >= TRIALS:
            leader = max(running, key=lambda runner: ratio(laps[runner]))
            needed = SLACK * min(ratios(laps[leader]))
            running = [runner for runner in running if max(ratios(laps[runner])) >= needed]
        if len(running) == 1:
            break
    return laps


def ratios(laps: list[Lap]) -> list[float]:
    """The reference's time over the runner's, by lap: more than 1 is faster."""
    return [reference / own for own, reference in laps]


def ratio(laps: list[Lap]) -> float:
    """The median of `ratios`."""
    return statistics.median(ratios(laps))


def winner(laps: Mapping[Runner, list[Lap]]) -> Runner:
    """Of those who ran to the end, the fastest."""
    return max(laps, key=lambda runner: (len(laps[runner]), ratio(laps[runner])))
