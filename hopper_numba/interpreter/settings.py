"""Whether kernels are interpreted, chosen around a call or by the environment."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


@dataclasses.dataclass(frozen=True)
class Settings:
    """How kernels are interpreted.

    Attributes
    ----------
    seed : int
        Of the schedule.
    """

    seed: int = 0


_chosen: ContextVar[Settings | None] = ContextVar("hopper_numba_interpret", default=None)


@contextmanager
def interpret(seed: int = 0) -> Iterator[Settings]:
    """Interpret the kernels that are launched inside, on the CPU.

    It holds for the calling context only: other threads, and other asyncio tasks, launch as before.

    A kernel that ends without an error is not proved right. Found are deadlocks, wrong counts of arrivals and bytes,
    reads of shared memory that nobody wrote or whose load has not arrived, writes to it meanwhile, bounds, alignment,
    divergence, accumulators in flight and work left unfinished at a block's end. Not found yet are missing fences,
    tiles overwritten while a TMA store or WGMMA still reads them, and data races; these only may show, as wrong results
    under some seeds. Try several: ``for seed in range(8)``.

    Parameters
    ----------
    seed : int
        One seed gives one schedule. 0 completes all asynchronous work as late as can be; others complete some of it
        early, and let threads run in other orders.

    Raises
    ------
    ValueError
        If `seed` is no integer of at least 0.
    """
    settings = Settings(_check_seed(seed, "interpret: seed"))
    token = _chosen.set(settings)
    try:
        yield settings
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
