"""What was last done to each byte of a memory: the last write, and the reads since.

Bytes that saw the same accesses have the same state, a number; so an access to a whole tile is mostly one comparison.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable

import numpy as np

from ..source import Site


@dataclasses.dataclass(eq=False, slots=True)
class Access:
    """A read or a write, of any number of bytes.

    Attributes
    ----------
    actor, time : int
        Who did it when; of asynchronous work, when it is complete.
    is_write : bool
    is_async : bool
        Whether it acts through the async proxy.
    is_atomic : bool
        Whether it may meet other atomic ones.
    run : int
        Which of the clusters, that run one after another, did it.
    site : Site
    threads : tuple of int
        Those that executed it, in their block: the first, and how many.
    what : str
        ``tma.load``, for reports.
    detail : str
        On which barrier, in which phase, it is over.
    """

    actor: int
    time: int
    is_write: bool
    is_async: bool
    is_atomic: bool
    run: int
    site: Site
    threads: tuple[int, int]
    what: str
    detail: str = ""


Check = Callable[[Access], None]


class States:
    """The states that bytes can be in, shared by all memories of a launch."""

    def __init__(self) -> None:
        self._held: list[tuple[Access | None, tuple[Access, ...]]] = [(None, ())]
        self._numbers: dict[tuple, int] = {(None, ()): 0}
        self._after: dict[tuple[int, Access], int] = {}

    def touch(self, bytes_: np.ndarray, access: Access, check: Check) -> None:
        """Let an access happen to bytes, given by their states; `check` is called with what it may conflict with."""
        first = int(bytes_.flat[0]) if bytes_.size else 0
        if _are_all(bytes_, first):
            after = self._next(first, access, check)
            if after != first:
                bytes_[...] = after
            return
        found, places = np.unique(bytes_, return_inverse=True)
        bytes_[...] = np.array([self._next(int(s), access, check) for s in found], np.int32)[places].reshape(
            bytes_.shape
        )

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._held)

    def keep(self, memories: list[np.ndarray]) -> None:
        """Forget the states that no byte of these memories is in."""
        used = np.unique(np.concatenate([np.zeros(1, np.int32), *map(np.unique, memories)]))
        numbers = np.zeros(len(self._held), np.int32)
        numbers[used] = np.arange(len(used))
        for memory in memories:
            memory[...] = numbers[memory]
        self._held = [self._held[state] for state in used]
        self._numbers = {held: number for number, held in enumerate(self._held)}
        self._after.clear()

    def _next(self, state: int, access: Access, check: Check) -> int:
        after = self._after.get((state, access))
        if after is None:
            write, reads = self._held[state]
            for prior in (*reads, write) if access.is_write else (write,):
                if prior is not None:
                    check(prior)
            held: tuple[Access | None, tuple[Access, ...]]
            if access.is_write:
                held = (access, ())
            else:
                # in the place of the one before: threads that poll in any order must not make states without end
                kept = tuple(access if _covers(access, read) else read for read in reads)
                held = (write, kept if access in kept else (*kept, access))
            after = self._numbers.setdefault(held, len(self._held))
            if after == len(self._held):
                self._held.append(held)
            self._after[state, access] = after
        return after


def _are_all(bytes_: np.ndarray, state: int) -> bool:
    """Whether bytes have this state."""
    if bytes_.size <= 16:  # the most frequent: one element; twenty times as fast so
        return bytes_.tobytes() == state.to_bytes(4, sys.byteorder) * bytes_.size
    return bool((bytes_ == state).all())


def _covers(later: Access, earlier: Access) -> bool:
    """Whether who has seen the later of two reads has seen the earlier one."""
    return (later.run, later.actor, later.is_async, later.is_atomic) == (
        earlier.run,
        earlier.actor,
        earlier.is_async,
        earlier.is_atomic,
    )


class Shadow:
    """The states of the bytes of a memory.

    Parameters
    ----------
    nbytes : int
    """

    def __init__(self, nbytes: int) -> None:
        self.states = np.zeros(nbytes, np.int32)

    def run(self, begin: int, nbytes: int) -> np.ndarray:
        """The states of bytes one after another."""
        return self.states[begin : begin + nbytes]

    def array(self, begin: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> np.ndarray:
        """The states of an array's bytes, with an axis more for those of an element."""
        return np.lib.stride_tricks.as_strided(
            self.states[begin:], (*shape, itemsize), (*(4 * stride for stride in strides), 4)
        )
