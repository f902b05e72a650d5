"""Which part of a kernel a schedule delays, as long as anything else can go on."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

FIRST = 5
"""The first seed with a victim; each second one after it has one too."""


def _block(thread: Any) -> tuple[int, ...]:
    return (thread.block.rank,)


def _warp_group(thread: Any) -> tuple[int, ...]:
    return thread.block.rank, thread.warp_group


def _warp(thread: Any) -> tuple[int, ...]:
    return thread.block.rank, thread.warp


def _thread(thread: Any) -> tuple[int, ...]:
    return thread.block.rank, thread.index


UNITS = (_block, _warp_group, _warp, _thread)
"""Parts of a cluster, from large to small: of a thread, the part that it belongs to."""

TURNS: tuple[tuple[Callable[[Any], tuple[int, ...]] | None, bool], ...] = (
    (_warp_group, True),
    (_warp_group, False),
    (_warp, True),
    (None, False),
    (_block, True),
)
"""What seeds delay, in turn: which part, and whether its threads too; None: the oldest operation that wakes threads."""


class Victim:
    """What a schedule delays, chosen anew for each cluster.

    Seeds take turns: a warp group and its asynchronous work, the work of a warp group alone (its matrix unit, its
    copies), a warp and its work, the oldest TMA load, a block and its work. Where a cluster has only one such part, a
    smaller one is chosen.

    Parameters
    ----------
    seed : int
    draw : random.Random

    Attributes
    ----------
    threads : set of Thread
        Whose turns come last; always the same object.
    """

    def __init__(self, seed: int, draw: random.Random) -> None:
        self._draw = draw
        self._turn = TURNS[(seed - FIRST) // 2 % len(TURNS)] if seed >= FIRST and seed % 2 else None
        self.threads: set[Any] = set()
        self._workers: set[Any] = set()

    def __bool__(self) -> bool:
        return self._turn is not None

    def choose(self, threads: list[Any]) -> None:
        """Choose among the threads of a cluster."""
        self.threads.clear()
        if self._turn is None:
            return
        largest, with_threads = self._turn
        self._workers = set(self._part(threads, largest)) if largest is not None else set()
        if with_threads:
            self.threads |= self._workers

    def _part(self, threads: list[Any], largest: Callable) -> Sequence[Any]:
        for unit in UNITS[UNITS.index(largest) :]:
            parts: dict[tuple[int, ...], list[Any]] = {}
            for thread in threads:
                parts.setdefault(unit(thread), []).append(thread)
            if len(parts) > 1:
                return self._draw.choice([*parts.values()])
        return ()

    def delays(self, operation: Any, work: list[Any]) -> bool:
        """Whether an operation comes after others of `work`."""
        return operation is self._oldest(work) or operation.site.thread in self._workers

    def others(self, work: list[Any]) -> list[Any]:
        """The operations that come before those that are delayed."""
        oldest = self._oldest(work)
        return [one for one in work if one is not oldest and one.site.thread not in self._workers]

    def _oldest(self, work: list[Any]) -> Any:
        if self._turn is None or self._turn[0] is not None:
            return None
        return next((operation for operation in work if operation.wakes), None)

    def release(self) -> None:
        """Delay nothing any more."""
        self._turn = None
        self.threads.clear()
        self._workers.clear()
