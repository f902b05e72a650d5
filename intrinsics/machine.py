"""Where an instruction's meaning on the CPU finds the machine that runs it.

An instruction's body calls `machine()`; the interpreter sets it while it runs a kernel's threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_current: ContextVar[Any] = ContextVar("hopper_numba_machine", default=None)


def machine() -> Any:
    """The machine running this thread.

    Raises
    ------
    RuntimeError
        Outside a kernel.
    """
    found = _current.get()
    if found is None:
        raise RuntimeError(
            "no kernel is being interpreted here: instructions can only be executed by a kernel's threads"
        )
    return found


def is_running() -> bool:
    """Whether a machine is running this thread."""
    return _current.get() is not None


@contextmanager
def running(current: Any) -> Iterator[None]:
    """Make `current` the machine of the instructions executed inside."""
    token = _current.set(current)
    try:
        yield
    finally:
        _current.reset(token)


def warp(meaning: Callable[[list], list], *operands: Any) -> Any:
    """Execute `meaning` once for the 32 lanes of a warp: it takes their operand tuples, and returns their results."""
    return machine().collective("warp", meaning, operands)


def warp_group(meaning: Callable[[list], list], *operands: Any) -> Any:
    """As `warp`, for the 128 threads of a warp group."""
    return machine().collective("warp group", meaning, operands)
