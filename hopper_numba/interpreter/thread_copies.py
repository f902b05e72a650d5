"""cp.async: copies of a few bytes, which a thread begins and waits for, and arrivals on a barrier that follow them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopper_numba.intrinsics.types import GlobalElement

from .errors import MisalignedError, UnfinishedError
from .memory import COPIED


class Copy:
    """A copy on its way: nobody may touch its place until it is there.

    Parameters
    ----------
    machine : Machine
    address : int
        Of the destination, in the block's shared memory.
    source : GlobalElement
    nbytes : int
        Written.
    given : int
        Read; the rest is zeros.

    Attributes
    ----------
    was_awaited : bool
        Whether its thread waited for it, or it arrived on a barrier.
    """

    wakes = False

    def __init__(self, machine: Any, address: int, source: GlobalElement, nbytes: int, given: int) -> None:
        self.machine, self.memory, self.site = machine, machine.thread.block.memory, machine.site()
        self.source, self.nbytes, self.given = source, nbytes, given
        if address % nbytes:
            raise machine.fault(
                MisalignedError,
                f"cannot copy to shared address {address:#x}: it must be a multiple of {nbytes} bytes",
            )
        if given:
            source.array.check_bytes("read", source, given, alignment=nbytes)
        self.places = np.arange(address, address + nbytes)
        self.memory.claim(self.places, 1, f"{nbytes} bytes at {address:#x}", COPIED)
        self.was_awaited = self.is_complete = False
        if machine.checker is not None:
            self._check(machine.checker)

    def _check(self, checker: Any) -> None:
        """Let the checker of hazards know; these copies act through the generic proxy."""
        queue = checker.copies(self.site.thread)
        work = {"site": self.site, "actor": queue.actor, "time": queue.begin(), "is_async": False}
        if self.given:
            checker.asynchronous(self.source.array.states(self.source, self.given), False, False, **work)
        checker.asynchronous(self.memory.shadow.run(int(self.places[0]), self.nbytes), True, True, **work)

    def step(self) -> bool:
        """Copy, once."""
        if not self.is_complete:
            data = np.zeros(self.nbytes, np.uint8)
            if self.given:
                data[: self.given] = self.source.array.load_bytes(self.source, self.given, alignment=self.nbytes)
            self.memory.deliver(self.places, 1, data)
            self.is_complete = True
        return True

    def writes(self, memory: Any, address: int) -> bool:
        """Whether it is still to write a byte of a block's memory."""
        return self.memory is memory and address in self.places

    def completes_on(self) -> str:
        """Nothing: its thread waits for it."""
        return ""

    def wait(self) -> None:
        """Copy now, unless that is done."""
        self.was_awaited = True
        if not self.is_complete:
            self.step()
            self.machine.scheduler.work.remove(self)


class Arrival:
    """An arrival on a barrier, which comes when copies are complete."""

    wakes = True

    def __init__(self, machine: Any, barrier: Any, copies: list[Copy]) -> None:
        self.machine, self.barrier, self.copies, self.site = machine, barrier, copies, machine.site()
        self.is_complete = False
        checker = machine.checker
        self._queue = (checker.copies(machine.thread).actor, checker.copies(machine.thread).begun) if checker else None

    def step(self) -> bool:
        """Complete the copies, and arrive."""
        for copy in self.copies:
            copy.wait()
        if self._queue is not None:
            self.barrier.history.copied(*self._queue)
        self.barrier.arrive_for_copies(self.site.thread, self._fault)
        self.is_complete = True
        return True

    def _fault(self, kind: type, message: str) -> Exception:
        return self.machine.fault(kind, message, site=self.site)


class ThreadCopies:
    """What a thread began to copy.

    Parameters
    ----------
    machine : Machine

    Attributes
    ----------
    open : list of Copy
        In no group yet.
    groups : list of list of Copy
        Committed, and not waited for.
    arrivals : list of Arrival
        That may still come.
    """

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.open: list[Copy] = []
        self.groups: list[list[Copy]] = []
        self.arrivals: list[Arrival] = []

    def begin(self, address: int, source: GlobalElement, nbytes: int, given: int) -> None:
        """Begin a copy of `nbytes` bytes, of which `given` are read."""
        self.machine.step()
        copy = Copy(self.machine, address, source, nbytes, given)
        self.open.append(copy)
        self.machine.scheduler.work.append(copy)

    def commit(self) -> None:
        """Close a group."""
        self.machine.step()
        self.groups.append(self.open)
        self.open = []
        if self.machine.checker is not None:
            self.machine.checker.copies(self.machine.thread).commit()

    def wait(self, n: int) -> None:
        """Wait for all groups but the last `n`."""
        self.machine.step()
        if self.machine.checker is not None:
            self.machine.checker.copies(self.machine.thread).wait(self.machine.checker, n)
        end = max(0, len(self.groups) - n)
        for group in self.groups[:end]:
            for copy in group:
                copy.wait()
        del self.groups[:end]

    def wait_all(self) -> None:
        """Wait for all copies."""
        self.commit()
        self.wait(0)

    def arrive(self, address: int, increments: bool) -> None:
        """Arrive on the barrier at an address once the copies so far are complete; first let it expect that."""
        barrier = self.machine.barrier(address)
        barrier.expect_arrival(increments)
        barrier.history.promised()
        self.open = [copy for copy in self.open if not copy.was_awaited]
        self.arrivals = [arrival for arrival in self.arrivals if not arrival.is_complete]
        arrival = Arrival(self.machine, barrier, self._pending())
        self.arrivals.append(arrival)
        self.machine.scheduler.work.append(arrival)

    def _pending(self) -> list[Copy]:
        return [copy for group in (*self.groups, self.open) for copy in group if not copy.was_awaited]

    def finish(self) -> None:
        """Check, at the block's end, that all was waited for."""
        for arrival in self.arrivals:
            if not arrival.is_complete:
                barrier = arrival.barrier
                raise self.machine.fault(
                    UnfinishedError,
                    f"the block ended before this arrival came: nobody waits for barrier {barrier.name}, phase "
                    f"{barrier.phase}",
                    site=arrival.site,
                )
        for copy in self._pending():
            missing = "cp_async.commit_group and " if copy in self.open else ""
            raise self.machine.fault(
                UnfinishedError,
                f"the block ended while this copy may still be on its way: {missing}cp_async.wait_group, "
                "cp_async.wait_all, or an arrival on a barrier, must come before",
                site=copy.site,
            )
