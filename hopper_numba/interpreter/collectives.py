"""What a warp or a warp group does together: its threads meet, the last one does it for all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .errors import DivergenceError
from .hazards import meeting
from .source import MARK, callers, role, site_of


class Together:
    """The threads of a warp or warp group, and the instruction at which some of them already are.

    Parameters
    ----------
    machine : Machine
    scope : {"warp", "warp group"}
    members : list of Thread
        In lane order.
    size : int
        Threads that a whole one has.
    """

    def __init__(self, machine: Any, scope: str, members: list[Any], size: int) -> None:
        self.machine, self.scope, self.members, self.size = machine, scope, members, size
        self.operands: list[Any] = [None] * size
        self.results: list[Any] = self.operands
        self.count = 0
        self.waiters: list[Any] = []
        self.meaning: Any = None
        self.at: list[Any] = []
        self.first = members[0].index

    def execute(self, meaning: Callable[[list], list], operands: Any) -> Any:
        """Meet; then the result of the executing thread."""
        thread = self.machine.thread
        # two calls of one device function are two places, so the callers count
        at: list[Any] = []
        frame: Any = sys._getframe(4)  # the instruction and what it calls lie between
        while frame is not None:
            if MARK in frame.f_globals:
                at += (frame.f_code, frame.f_lasti)
            frame = frame.f_back
        # a closure made anew by each thread has one code
        meant = getattr(meaning, "__code__", meaning)
        if self.count == 0:
            if len(self.members) < self.size:
                raise self.diverged([thread])
            self.meaning, self.at = meant, at
        elif self.meaning is not meant or self.at != at:
            # nobody can mend that, but once nobody can run it is known where everybody is
            self.machine.scheduler.block((self, None))
        position = thread.index - self.first
        self.operands[position] = operands
        self.count += 1
        if self.count < self.size:
            self.waiters.append(thread)
            self.machine.scheduler.block((self, None))
            return self.results[position]
        given, self.operands, self.count = self.operands, [None] * self.size, 0
        if self.machine.checker is not None:
            first = self.members[0].number
            self.machine.checker.clocks.meet(slice(first, first + self.size))
        self.machine.acting = self
        results = self.results = meaning(given)
        self.machine.acting = None
        self.machine.scheduler.wake(self.waiters)
        return results[position]

    def diverged(self, present: list[Any]) -> DivergenceError:
        """The error of an instruction that only the threads of `present` execute."""
        here = [site_of(t, self.machine.frame_of(t)) for t in present]
        what = here[0].instruction or here[0].text or "an instruction"
        lines = [f"{what} is executed by part of {self}: a whole {self.scope} of {self.size} threads must, together"]
        called = callers(self.machine.frame_of(present[0]))
        lines.append(f"    present: {role(t.index for t in present)} at {here[0]}{called}")
        groups: dict[tuple, list[int]] = {}
        for member in self.members:
            if member not in present:
                at = "exited"
                if not member.exited:
                    frame = self.machine.frame_of(member)
                    at = f"at {site_of(member, frame)}{callers(frame)}"
                groups.setdefault((at,), []).append(member.index)
        lines += [f"    absent: {role(threads)}, {at}" for (at,), threads in groups.items()]
        if len(self.members) < self.size:
            lines.append(f"    the block has only {len(self.members)} threads there")
        return self.machine.fault(DivergenceError, "\n".join(lines), site=here[0], threads=[t.index for t in present])

    def describe(self, detail: Any) -> str:
        """What the waiting threads lack."""
        return f"for the rest of {self}: {self.size - self.count} of {self.size} threads missing"

    def __str__(self) -> str:
        return f"{self.scope} {self.first // self.size}"


class WarpSync:
    """``cuda.syncwarp``: threads of a warp that name the same mask meet, wherever they are."""

    def __init__(self, machine: Any, members: list[Any]) -> None:
        self.machine, self.members = machine, members
        self.waiting: dict[int, list[Any]] = {}
        self._histories: dict[int, tuple[Any, list[int]]] = {}

    def sync(self, mask: int) -> None:
        """Wait for the threads of `mask` that have not exited."""
        self.machine.step()
        thread = self.machine.thread
        if not mask >> thread.lane & 1:
            raise self.machine.fault(DivergenceError, f"cuda.syncwarp: mask {mask:#x} lacks the executing lane")
        waiters = self.waiting.setdefault(mask, [])
        waiters.append(thread)
        history, completions = self._histories.setdefault(mask, (meeting(self.machine), [0]))
        phase = completions[0]
        history.arrived([thread])
        if not self._complete(mask, thread):
            self.machine.scheduler.block((self, mask))
        history.passed(thread, phase)

    def _complete(self, mask: int, thread: Any) -> bool:
        waiters = self.waiting[mask]
        if len(waiters) < len(self._wanted(mask)):
            return False
        if thread in waiters:
            waiters.remove(thread)
        history, completions = self._histories[mask]
        history.completed(completions[0])
        completions[0] += 1
        self.machine.scheduler.wake(waiters)
        return True

    def _wanted(self, mask: int) -> list[Any]:
        return [t for t in self.members if mask >> t.lane & 1 and not t.exited]

    def thread_exited(self) -> None:
        """Nobody waits for a thread that exited."""
        for mask, waiters in self.waiting.items():
            if waiters:
                self._complete(mask, None)

    def describe(self, mask: int) -> str:
        """What the waiting threads lack."""
        wanted = self._wanted(mask)
        return f"in syncwarp({mask:#x}): {len(wanted) - len(self.waiting[mask])} of {len(wanted)} threads missing"
