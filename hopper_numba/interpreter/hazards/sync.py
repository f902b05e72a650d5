"""What barriers know of the threads that come to them: who released what, who may go on knowing it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .clocks import HAPPENED, INITIALISED, LATE_SHARED, RELAXED, ROWS, SEEN, SHARED, Channel, only
from .shadow import Access


class Meeting:
    """At a barrier whose threads wait for each other: a named one, that of a cluster, a warp's.

    Parameters
    ----------
    checker : Checker
    """

    def __init__(self, checker: Any) -> None:
        self._checker, self._channel = checker, Channel()

    def arrived(self, threads: list[Any], relaxed: bool = False) -> None:
        """Threads have arrived."""
        channel, clocks = self._channel, self._checker.clocks
        for thread in threads:
            if relaxed:
                channel.release(self._checker.released(thread, relaxed))
            else:
                channel.pending = clocks.release_into(channel.pending, thread.number)

    def completed(self, phase: int) -> None:
        """All that were waited for have."""
        self._channel.complete(phase)
        self._checker.tidy()

    def passed(self, thread: Any, phase: int) -> None:
        """A thread goes on."""
        self._channel.acquire(self._checker.clocks, thread.number, phase)


class NoMeeting:
    """Where nothing is checked."""

    def arrived(self, threads: list[Any], relaxed: bool = False) -> None: ...

    def completed(self, phase: int) -> None: ...

    def passed(self, thread: Any, phase: int) -> None: ...


def meeting(machine: Any) -> Meeting | NoMeeting:
    """What a barrier of the machine keeps."""
    return Meeting(machine.checker) if machine.checker is not None else NoMeeting()


class Phases:
    """At an mbarrier.

    Parameters
    ----------
    checker : Checker
    barrier : Barrier

    Attributes
    ----------
    actor : int
        What completes the copies that the barrier counts: those of a phase at the phase's number plus 1.
    """

    def __init__(self, checker: Any, barrier: Any) -> None:
        self._checker, self._barrier = checker, barrier
        self.actor = checker.clocks.new_actor()
        self._of_block, self._of_cluster = Channel(), Channel()
        self._seen: dict[int, tuple[int, Access]] = {}
        self._uses: dict[int, Access] = {}
        self._made = self._access("mbarrier.init")

    def _access(self, what: str) -> Access:
        """An access of the running thread to the barrier."""
        thread = self._checker.machine.thread
        return Access(
            thread.number,
            self._checker.clocks.now(thread.number),
            True,
            False,
            True,
            self._checker.run,
            self._checker.machine.site(),
            (thread.index, 1),
            what,
        )

    def used(self) -> None:
        """The running thread uses it: the initialisation must be visible to it."""
        thread = self._checker.machine.thread
        if thread.number == self._made.actor:
            return
        title = "is used before its initialisation is visible"
        if thread.block is self._barrier.block:
            self._require((SEEN, INITIALISED), None, title, "cuda.syncthreads()")
        else:
            needed = "fence.mbarrier_init() by the thread that initialises, then cluster.sync(),"
            self._require((INITIALISED, SHARED), SEEN, title, needed)

    def given_to_copy(self) -> None:
        """A copy that the running thread begins reports to it: the async proxy must see the initialisation."""
        needed = "fence.mbarrier_init() by the thread that initialises, then a barrier,"
        title = "is given to a copy, and its initialisation is not fenced"
        self._require((INITIALISED, SHARED), LATE_SHARED, title, needed)
        self.promised()

    def promised(self) -> None:
        """The phase completes behind what the running thread has begun, so behind what it knows to be over."""
        known = only(self._checker.released(self._checker.machine.thread), (HAPPENED,))
        self._of_block.release(known)
        self._of_cluster.release(known)

    def ended(self) -> None:
        """The running thread invalidates it: the others' uses must be over."""
        thread = self._checker.machine.thread
        own = slice(thread.number, thread.number + 1)
        for number, use in self._uses.items():
            if not self._checker.clocks.has_seen(own, HAPPENED, number, use.time):
                self._checker.report(
                    "phase-overrun",
                    f"barrier {self._barrier.name} is invalidated while others may still use it",
                    "a barrier between the two",
                    self._access("mbarrier.inval"),
                    use,
                )

    def _require(self, rows: tuple[int, ...], undecided: int | None, title: str, needed: str) -> None:
        """Report, unless the running thread has seen the initialisation in one of these ways."""
        thread, made = self._checker.machine.thread, self._made
        own = slice(thread.number, thread.number + 1)
        if any(self._checker.clocks.has_seen(own, row, made.actor, made.time) for row in rows):
            return
        is_error = undecided is None or not self._checker.clocks.has_seen(own, undecided, made.actor, made.time)
        self._checker.report(
            "phase-overrun" if is_error else "undecided-order",
            f"barrier {self._barrier.name} {title}{'' if is_error else ' in a way that the PTX manual leaves open'}",
            f"{needed} between the two",
            self._access("use"),
            made,
            is_error,
        )

    def arrived(self, order: str) -> None:
        """The running thread arrives: ``release.cta``, ``release.cluster`` or ``relaxed.cluster``."""
        thread = self._checker.machine.thread
        use = self._uses[thread.number] = self._access("arrival")
        is_own = thread.block is self._barrier.block
        if not is_own:
            self._checker.reached(self._barrier.block, use)
        released = self._checker.released(thread, order.startswith("relaxed"))
        over = released if is_own else only(released.copy(), RELAXED)
        to_cluster = released if order == "release.cluster" else over
        self._of_block.release(over)
        self._of_cluster.release(to_cluster)

    def copied(self, actor: int, time: int) -> None:
        """Copies arrive, which an actor has completed up to a time."""
        released = np.zeros((ROWS, self._checker.clocks.actors), np.int32)
        released[[SEEN, HAPPENED], actor] = time
        self._of_block.release(released)
        self._of_cluster.release(released)

    def completed(self, phase: int) -> None:
        """A phase is complete: its arrivals must know that whoever saw the one before has."""
        pending = self._of_cluster.pending
        for number, (seen, access) in self._seen.items():
            if seen == phase - 1 and pending is not None and pending[HAPPENED, number] < access.time:
                self._checker.report(
                    "phase-overrun",
                    f"barrier {self._barrier.name} may complete phase {phase} before this wait for phase {seen} "
                    "has seen that one complete: nothing orders the wait before the arrivals",
                    "an arrival behind the wait, that those who arrive for the next phase wait for",
                    access,
                    None,
                )
        self._seen.clear()
        for channel in (self._of_block, self._of_cluster):
            released = np.zeros((ROWS, self._checker.clocks.actors), np.int32)
            released[:, self.actor] = phase + 1
            channel.release(released)
            channel.complete(phase)
        self._checker.tidy()

    def observed(self, phase: int, scope: str) -> None:
        """The running thread has seen a phase complete."""
        thread = self._checker.machine.thread
        channel = self._of_block if scope == "cta" else self._of_cluster
        channel.acquire(self._checker.clocks, thread.number, phase)
        if phase < 0:
            return
        access = self._uses[thread.number] = self._access("mbarrier.wait")
        self._seen[thread.number] = (phase, access)
        self._checker.clocks.tick(thread.number)


class NoPhases:
    """Where nothing is checked."""

    actor = -1

    def used(self) -> None: ...

    def given_to_copy(self) -> None: ...

    def promised(self) -> None: ...

    def ended(self) -> None: ...

    def arrived(self, order: str) -> None: ...

    def copied(self, actor: int, time: int) -> None: ...

    def completed(self, phase: int) -> None: ...

    def observed(self, phase: int, scope: str) -> None: ...
