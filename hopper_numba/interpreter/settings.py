"""Whether kernels are interpreted, chosen around a call or by the environment."""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .errors import HazardError


@dataclasses.dataclass(frozen=True)
class Settings:
    """How kernels are interpreted.

    Attributes
    ----------
    seed : int
        Of the schedule.
    check : bool
        Whether hazards are looked for.
    collect : bool
        Whether they are kept in `hazards`, instead of raised.
    hazards : list of HazardError
        Those found so far, and what the PTX manual leaves undecided.
    launches : collections.Counter of str
        How often each kernel was launched, by its name.
    """

    seed: int = 0
    check: bool = True
    collect: bool = False
    hazards: list[HazardError] = dataclasses.field(default_factory=list, compare=False)
    launches: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter, compare=False)

    def report(self, hazard: HazardError) -> None:
        """Keep a hazard, or raise it if it is an error and none are collected."""
        if hazard.is_error and not self.collect:
            raise hazard
        self.hazards.append(hazard)
        if _watcher.get() is not self:
            witness(hazard)


_chosen: ContextVar[Settings | None] = ContextVar("hopper_numba_interpret", default=None)
_watcher: ContextVar[Settings | None] = ContextVar("hopper_numba_watch", default=None)


@contextmanager
def interpret(seed: int = 0, *, check: bool = True, collect: bool = False) -> Iterator[Settings]:
    """Interpret the kernels that are launched inside, on the CPU.

    It holds for the calling context only: other threads, and other asyncio tasks, launch as before.

    A kernel that ends without an error is not proved right. Found are deadlocks, wrong counts of arrivals and bytes,
    reads of shared memory that nobody wrote, bounds, alignment, divergence, accumulators in flight and work left
    unfinished at a block's end; and hazards, accesses that nothing orders: fences that are missing, tiles read before
    their load has arrived or overwritten while TMA or WGMMA still reads them, data races. Branches that a schedule does
    not take are not checked, so try several: ``for seed in range(8)``.

    Parameters
    ----------
    seed : int
        One seed gives one schedule. 0 completes all asynchronous work as late as can be; others complete some of it
        early, and let threads run in other orders. 5, 7, 9 and so on each delay a part of the kernel as long as
        anything else can go on: a warp group, a warp, a block of the cluster, or asynchronous work.
    check : bool
        Whether hazards are looked for, which takes longer.
    collect : bool
        Whether hazards are kept in the `hazards` of what this gives, instead of the first one raised.

    Yields
    ------
    Settings
        Its `hazards` also has, in any case, what the PTX manual leaves undecided.

    Raises
    ------
    HazardError
        By a launch inside. Of those that are collected none is raised but what ends a launch, such as a deadlock.
    ValueError
        If `seed` is no integer of at least 0.
    """
    settings = Settings(_check_seed(seed, "interpret: seed"), check or _watcher.get() is not None, collect)
    with _chosen_to_be(settings):
        yield settings


@contextmanager
def watch(seed: int) -> Iterator[Settings]:
    """As ``interpret(seed, collect=True)``, of all that is interpreted inside, with settings of its own too.

    Its `hazards` has what a launch raised as well, whatever becomes of that inside.
    """
    settings = Settings(_check_seed(seed, "watch: seed"), collect=True)
    token = _watcher.set(settings)
    try:
        with _chosen_to_be(settings):
            yield settings
    finally:
        _watcher.reset(token)


def witness(hazard: HazardError) -> None:
    """Tell `watch`, if it is around, of a hazard."""
    if (watcher := _watcher.get()) is not None:
        watcher.hazards.append(hazard)


def count_launch(settings: Settings, name: str) -> None:
    """Count a launch of a kernel, for `watch` too."""
    settings.launches[name] += 1
    if (watcher := _watcher.get()) is not None and watcher is not settings:
        watcher.launches[name] += 1


@contextmanager
def _chosen_to_be(settings: Settings) -> Iterator[None]:
    token = _chosen.set(settings)
    try:
        yield
    finally:
        _chosen.reset(token)


def active() -> Settings | None:
    """How kernels are interpreted here; None where the GPU runs them.

    Without `interpret`, HOPPER_NUMBA_INTERPRET=1 turns it on, with the seed HOPPER_NUMBA_SEED; both are read once.

    Raises
    ------
    ValueError
        For another value of these variables than 0 or 1, and an integer.
    """
    return _chosen.get() or environment()


@functools.cache  # every launch asks, and reading a variable costs more than the rest of it
def environment() -> Settings | None:
    """What the environment chooses."""
    wanted = os.environ.get("HOPPER_NUMBA_INTERPRET", "")
    if wanted in ("", "0"):
        return None
    if wanted != "1":
        raise ValueError(f"HOPPER_NUMBA_INTERPRET must be 0 or 1; got {wanted!r}")
    seed = os.environ.get("HOPPER_NUMBA_SEED", "0")
    return Settings(_check_seed(int(seed) if seed.isdecimal() else seed, "HOPPER_NUMBA_SEED"))


def _check_seed(seed: object, name: str) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"{name} must be an integer of at least 0; got {seed!r}")
    return seed
