"""Who has seen what: a vector clock for each thread, with a row for each way of having seen.

An actor does things one after another: a thread, or what completes asynchronous work (the copies that a barrier counts,
a thread's bulk groups, the matrix unit of a warp group). A thread's clock holds, for each actor, up to which of its
doings the thread has seen. Rows differ in what brings it about:

=============  =========================================================================================================
SEEN           synchronisation: program order, barriers, acquiring what was released (PTX ISA, "Causality order")
SHARED         an access to shared memory, then fence.proxy_async by its thread, then synchronisation
GLOBAL         the same of global memory
LATE_SHARED    as SHARED, with a fence anywhere on the way: the manual has no rule for it
LATE_GLOBAL    the same of global memory
INITIALISED    mbarrier.init, then fence.mbarrier_init by its thread, then any arrival, relaxed ones too
HAPPENED       arrivals of any order and scope: enough to know that something is over, not for what it wrote
=============  =========================================================================================================
"""

from __future__ import annotations

import numpy as np

SEEN, SHARED, GLOBAL, LATE_SHARED, LATE_GLOBAL, INITIALISED, HAPPENED = range(7)
ROWS = 7
RELAXED = (INITIALISED, HAPPENED)
"""What an arrival that releases nothing passes on."""


class Clocks:
    """The clocks of the threads of a cluster.

    Parameters
    ----------
    threads : int
        Of all its blocks; they are the first actors.
    """

    def __init__(self, threads: int) -> None:
        self.actors = threads
        self._vectors = np.zeros((threads, ROWS, threads + 64), np.int32)
        self._times = [1] * threads  # each thread's own time once more: asked at every access
        own = np.arange(threads)
        self._vectors[own, SEEN, own] = self._vectors[own, HAPPENED, own] = 1

    def new_actor(self) -> int:
        """The number of an actor more."""
        capacity = self._vectors.shape[2]
        if self.actors == capacity:
            grown = np.zeros((*self._vectors.shape[:2], 2 * capacity), np.int32)
            grown[:, :, :capacity] = self._vectors
            self._vectors = grown
        self.actors += 1
        return self.actors - 1

    def now(self, thread: int) -> int:
        """The thread's own time."""
        return self._times[thread]

    def has_seen(self, threads: slice, row: int, actor: int, time: int) -> bool:
        """Whether all these threads have seen, in this way, what the actor did up to a time."""
        if threads.stop - threads.start == 1:  # mostly, and without the cost of an array
            return bool(self._vectors[threads.start, row, actor] >= time)
        return bool((self._vectors[threads, row, actor] >= time).all())

    def is_over(self, threads: slice, actor: int, time: int) -> bool:
        """Whether one of these threads knows that what the actor did up to a time is over."""
        return bool((self._vectors[threads, HAPPENED, actor] >= time).any())

    def tick(self, thread: int) -> None:
        """Let what the thread does from now on be later than what it has released."""
        self._times[thread] += 1
        self._vectors[thread, SEEN, thread] = self._vectors[thread, HAPPENED, thread] = self._times[thread]

    def complete(self, threads: slice, actor: int, time: int, is_async: bool = True) -> None:
        """Let threads have seen what an asynchronous actor did up to a time; of the async proxy, fenced."""
        for row in range(ROWS) if is_async else (SEEN, HAPPENED):
            seen = self._vectors[threads, row, actor]
            np.maximum(seen, time, out=seen)

    def fence(self, thread: int, row: int, late: int | None, actors: tuple[int, ...]) -> None:
        """Fence what these actors, the thread and those that act for it, did so far; `late`, also what it has seen."""
        vector = self._vectors[thread]
        for actor in actors:
            vector[row, actor] = vector[SEEN, actor]
        if late is not None:
            np.maximum(vector[late], vector[SEEN], out=vector[late])
        self.tick(thread)

    def released(self, thread: int, rows: tuple[int, ...] | None = None) -> np.ndarray:
        """A copy of what the thread has seen and done, in these rows; what it does from now on is later."""
        released = only(self._vectors[thread, :, : self.actors].copy(), rows)
        self.tick(thread)
        return released

    def release_into(self, pending: np.ndarray | None, thread: int) -> np.ndarray:
        """As `released`, added to what others released; in place where that is possible."""
        vector = self._vectors[thread, :, : self.actors]
        if pending is None or pending.shape[1] < self.actors:
            pending = merged(pending, vector.copy())
        else:
            np.maximum(pending, vector, out=pending)
        self.tick(thread)
        return pending

    def join(self, thread: int, released: np.ndarray) -> None:
        """Let the thread have seen what was released."""
        part = self._vectors[thread, :, : released.shape[1]]
        np.maximum(part, released, out=part)

    def meet(self, threads: slice) -> None:
        """Let threads know that each of them has come as far as here, nothing more."""
        row = self._vectors[threads, HAPPENED]
        row[...] = row.max(axis=0)


def only(released: np.ndarray, rows: tuple[int, ...] | None) -> np.ndarray:
    """What was released, in these rows; changes it."""
    if rows is not None:
        released[[row for row in range(ROWS) if row not in rows]] = 0
    return released


def merged(one: np.ndarray | None, other: np.ndarray) -> np.ndarray:
    """Both of what was released. Changes the one that knows of more actors."""
    if one is None:
        return other
    shorter, longer = (one, other) if one.shape[1] <= other.shape[1] else (other, one)
    part = longer[:, : shorter.shape[1]]
    np.maximum(part, shorter, out=part)
    return longer


class Channel:
    """What threads release at a barrier, by phase, until others acquire it."""

    __slots__ = ("_completed", "pending")

    def __init__(self) -> None:
        self.pending: np.ndarray | None = None
        self._completed: dict[int, np.ndarray | None] = {}

    def release(self, released: np.ndarray) -> None:
        """Release, in the phase that is not complete."""
        self.pending = merged(self.pending, released.copy())

    def complete(self, phase: int) -> None:
        """Let what was released be acquired, as that of a phase; two are remembered."""
        self._completed[phase] = self.pending
        self._completed.pop(phase - 2, None)
        self.pending = None

    def acquire(self, clocks: Clocks, thread: int, phase: int) -> None:
        """Let the thread have seen what was released in a phase."""
        released = self._completed.get(phase)
        if released is not None:
            clocks.join(thread, released)
