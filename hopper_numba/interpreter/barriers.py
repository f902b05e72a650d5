"""Barriers: mbarrier objects in shared memory, the sixteen named barriers of a block, the barrier of a cluster."""

from __future__ import annotations

import sys
from typing import Any

from hopper_numba.intrinsics.mbarrier import MAX_COUNT

from .errors import (
    BarrierError,
    DivergenceError,
    LeftoverPhaseError,
    PhaseOverrunError,
    TxMismatchError,
    UnfinishedError,
)
from .hazards import NoPhases, Phases, meeting
from .source import advice, role


class Barrier:
    """An mbarrier: phases that complete when their arrivals and bytes are all there.

    Parameters
    ----------
    machine : Machine
    block : Block
    address : int

    Attributes
    ----------
    count : int
        Arrivals of a phase; 0 where it is not initialised.
    dropped : int
        Arrivals by which the next phase takes fewer.
    pending : int
        Arrivals that this phase still lacks.
    expected, reported : int
        Bytes of this phase.
    phase : int
        Number of the phase, from 0.
    arrived : dict of Block to set of int
        Threads that arrived in this phase.
    issued : list of Copy
        Those that were begun in this phase, to report bytes to it.
    unseen : tuple of int and Copy, or None
        The last phase to which a copy reported bytes and that nobody has seen complete, and that copy.
    """

    __slots__ = (
        "address",
        "arrived",
        "block",
        "count",
        "dropped",
        "expected",
        "history",
        "issued",
        "machine",
        "pending",
        "phase",
        "reported",
        "unseen",
        "waiters",
    )

    def __init__(self, machine: Any, block: Any, address: int) -> None:
        self.machine, self.block, self.address = machine, block, address
        self.count = self.dropped = self.pending = self.expected = self.reported = self.phase = 0
        self.waiters: list[Any] = []
        self.history: Any = NoPhases()
        self.arrived: dict[Any, set[int]] = {}
        self.issued: list[Any] = []
        self.unseen: tuple[int, Any] | None = None

    @property
    def name(self) -> str:
        """As the shared memory's layout has it, or its address; and its block, unless that of the running thread."""
        thread, name = self.machine.thread, self.block.name_of(self.address)
        return name if thread is None or thread.block is self.block else f"{name} of block {self.block.index}"

    def init(self, count: int) -> None:
        """Begin phase 0 of `count` arrivals."""
        self.machine.step()
        if self.count:
            raise self._overrun(f"barrier {self.name} is initialised already; mbarrier.inval must come before")
        self.block.memory.claim_barrier(self.address)
        self.block.barriers[self.address] = self
        self.count = self.pending = count
        self.arrived.clear()
        self.dropped = self.expected = self.reported = self.phase = 0
        if self.machine.checker is not None:
            self.history = Phases(self.machine.checker, self)

    def inval(self) -> None:
        """End the barrier; its bytes are ordinary ones again."""
        self._use("invalidated")
        if self.waiters:
            raise self._overrun(f"barrier {self.name} is invalidated while {len(self.waiters)} threads wait on it")
        self.history.ended()
        del self.block.barriers[self.address]
        self.block.memory.release_barrier(self.address)
        self.count = 0

    def arrive(self, count: int = 1, expect_tx: int = 0, drops: bool = False, order: str = "release.cta") -> int:
        """Expect `expect_tx` bytes, then arrive `count` times; the state: the phase that this was, of which barrier.

        If it `drops`, later phases take that many arrivals fewer. `order` is what it releases, and to whom.
        """
        self._use("arrived on")
        phase = self.phase
        if count > self.pending:
            raise self._overrun(
                f"barrier {self.name}: {count} arrivals in phase {phase}, which takes only {self.pending} more"
                f"{self._so_far()}",
                advice(sys._getframe(), "overrun"),
            )
        if drops:
            self._drop(count)
        self._expect(expect_tx)
        self.pending -= count
        self._arrived_by(self.machine.thread)
        self.history.arrived(order)
        self._complete_phase()
        return self.address << 32 | phase

    def _so_far(self) -> str:
        """Who arrived in this phase, and what it lacks if not more of them."""
        if not self.arrived:
            return ""
        who = " and ".join(
            role(threads) + ("" if block is self.machine.thread.block else f" of block {block.index}")
            for block, threads in self.arrived.items()
        )
        return "; ".join(("", f"{who} arrived in it before", *self._missing_bytes()))

    def _arrived_by(self, thread: Any) -> None:
        self.arrived.setdefault(thread.block, set()).add(thread.index)

    def _drop(self, count: int) -> None:
        left = self.count - self.dropped - count
        if left < 1:
            raise self._overrun(
                f"barrier {self.name}: dropping {count} of the {left + count} arrivals of later phases leaves none, "
                "and a phase takes at least one"
            )
        self.dropped += count

    def expect_arrival(self, increments: bool) -> None:
        """Be given to copies, which are to arrive; if that `increments`, this phase takes one arrival more."""
        self._use("given to copies")
        if increments:
            if self.pending == MAX_COUNT:
                raise self._overrun(f"barrier {self.name}: a phase takes at most {MAX_COUNT} arrivals")
            self.pending += 1

    def arrive_for_copies(self, thread: Any, fault: Any) -> None:
        """Arrive once, for copies that `thread` began; `fault` makes errors."""
        if not self.count or not self.pending:
            raise fault(
                PhaseOverrunError,
                f"barrier {self.name}: copies arrive in phase {self.phase}, which takes no more arrivals"
                if self.count
                else f"copies arrived for barrier {self.name}, which is not initialised",
            )
        self.pending -= 1
        self._arrived_by(thread)
        self._complete_phase()

    def expect(self, nbytes: int) -> None:
        """Expect `nbytes` more in this phase."""
        self._use("told to expect bytes")
        self._expect(nbytes)

    def _expect(self, nbytes: int) -> None:
        self.expected += nbytes
        if self.expected - self.reported > MAX_COUNT:
            raise self._fault(
                f"barrier {self.name} can expect {MAX_COUNT} bytes at once; got {self.expected - self.reported}"
            )

    def complete_tx(self, nbytes: int) -> None:
        """Count `nbytes` that a thread says have arrived."""
        self._use("told of bytes")
        self.complete(nbytes)

    def complete(self, nbytes: int, copy: Any = None) -> None:
        """Count `nbytes` that arrived, by a copy or because the running thread says so."""
        fault = copy.fault if copy is not None else self._raise
        if copy is not None:
            self.unseen = (self.phase, copy)
        if not self.count:
            raise fault(PhaseOverrunError, f"{nbytes} bytes arrived for barrier {self.name}, which is not initialised")
        self.reported += nbytes
        if self.reported - self.expected > MAX_COUNT:
            raise fault(BarrierError, f"barrier {self.name} counts at most {MAX_COUNT} bytes that nobody expects yet")
        self._complete_phase()

    def bytes_issued(self) -> str:
        """What the phase expects, and what copies bring."""
        total = sum(copy.nbytes for copy in self.issued)
        expects = f"barrier {self.name}, phase {self.phase}, expects {self.expected} bytes"
        lines = [f"{expects}; copies of {total} were issued in it"]
        lines += [f"    {copy.nbytes} bytes by {copy.site}" for copy in self.issued]
        return "\n".join(lines)

    def _complete_phase(self) -> None:
        if self.pending or self.expected != self.reported:
            return
        late = [copy for copy in self.issued if not copy.is_complete]
        if late:
            raise late[0].fault(
                TxMismatchError, f"a phase completes before this has brought its bytes: {self.bytes_issued()}"
            )
        self.issued.clear()
        self.arrived.clear()
        self.history.completed(self.phase)
        self.phase += 1
        self.count -= self.dropped
        self.pending = self.count
        self.dropped = self.expected = self.reported = 0
        self.machine.scheduler.wake(self.waiters)

    def test(self, parity: int, scope: str = "cta") -> bool:
        """Whether the phase of this parity has completed; if so, acquire at a scope what was released in it."""
        self._use("tested")
        return self._answer(self.phase & 1 != parity, parity, scope)

    def _answer(self, is_complete: bool, parity: int, scope: str) -> bool:
        if is_complete:
            self._seen(scope)
        return self.machine.scheduler.polled(is_complete, (self, parity))

    def test_state(self, state: int, scope: str = "cta") -> bool:
        """As `test`, of the phase in which `arrive` gave this state."""
        self._use("tested")
        address, phase = state >> 32, state & 0xFFFFFFFF
        if address != self.address:
            raise self._fault(f"barrier {self.name} is tested with {state:#x}, which no arrival on it returned")
        if phase not in (self.phase, self.phase - 1):
            raise self._fault(
                f"barrier {self.name}, in phase {self.phase}, is tested with a state of phase {phase}: it tells "
                "only of the current phase and the one before"
            )
        return self._answer(self.phase != phase, phase & 1, scope)

    def wait(self, parity: int, scope: str = "cta") -> None:
        """Wait until the phase of this parity has completed, and acquire at a scope what was released in it."""
        self._use("waited for")
        begun = self.phase
        while self.phase & 1 == parity:
            if self.phase > begun:
                raise self._overrun(
                    f"barrier {self.name}: phase {begun}, for which this waits, and the next one have completed before "
                    f"it looked again; now it would wait for phase {self.phase}, which has the same parity"
                )
            self.waiters.append(self.machine.thread)
            self.machine.scheduler.block((self, parity))
        self._seen(scope)

    def _seen(self, scope: str) -> None:
        """The running thread has seen the last phase complete."""
        self.history.observed(self.phase - 1, scope)
        if self.unseen is not None and self.unseen[0] < self.phase:
            self.unseen = None

    def finish(self) -> None:
        """At the block's end: no bytes may be missing, and somebody must have waited for those that came."""
        if self.expected != self.reported:
            raise self.machine.fault(
                LeftoverPhaseError,
                f"block {self.block.index} ended while barrier {self.name}, phase {self.phase}, has {self.reported} of "
                f"{self.expected} bytes that it expects",
                site=self.unseen[1].site if self.unseen is not None else None,
            )
        if self.unseen is not None:
            phase, copy = self.unseen
            raise copy.fault(
                UnfinishedError,
                f"block {self.block.index} ended, and nobody had waited for what this brought: barrier {self.name}, "
                f"phase {phase}",
            )

    def _use(self, what: str) -> None:
        self.machine.step()
        if not self.count:
            raise self._overrun(
                f"barrier {self.name} is {what} before mbarrier.init; one thread does that, for a Pipeline by "
                "its init(), and a barrier of the block, or of the cluster, comes between"
            )
        self.history.used()

    def _raise(self, kind: type, message: str) -> Exception:
        return self.machine.fault(kind, message)

    def _fault(self, message: str) -> Exception:
        return self.machine.fault(BarrierError, message)

    def _overrun(self, message: str, said: str = "") -> Exception:
        return self.machine.fault(PhaseOverrunError, message, advice=said)

    def describe(self, parity: int) -> str:
        """What a wait for `parity` lacks."""
        lacks = [f"{self.pending} of {self.count} arrivals missing"] if self.pending else []
        lacks += self._missing_bytes()
        return f"on barrier {self.name}, phase {self.phase} (parity {parity}): {', '.join(lacks)}"

    def _missing_bytes(self) -> list[str]:
        """What the phase lacks beside arrivals, if anything."""
        if self.expected > self.reported:
            return [f"{self.expected - self.reported} of {self.expected} bytes missing"]
        if self.reported > self.expected:
            return [f"{self.reported} bytes arrived where {self.expected} are expected"]
        return []


class NamedBarrier:
    """One of the sixteen barriers of a block (PTX ISA, "bar, barrier"); `sync` of all threads is ``cuda.syncthreads``.

    Parameters
    ----------
    machine : Machine
    block : Block
    number : int
    """

    def __init__(self, machine: Any, block: Any, number: int) -> None:
        self.machine, self.block, self.number = machine, block, number
        self.arrived = self.completions = 0
        self.threads: int | None = None
        self.waiters: list[Any] = []
        self.history = meeting(machine)

    def sync(self) -> None:
        """Arrive as one thread, and wait for all of the block that have not exited."""
        self.machine.step()
        completions = self.completions
        self.history.arrived([self.machine.thread])
        self._arrive(1, None)
        self._wait(completions)

    def arrive_as_warp(self, threads: int, waits: bool) -> None:
        """Arrive together with the rest of the warp; if it `waits`, until `threads` threads have."""
        self.machine.step()
        completions = self.machine.collective("warp", _arrive, (self, threads))
        if waits:
            self._wait(completions)

    def _wait(self, completions: int) -> None:
        while self.completions == completions:
            self.waiters.append(self.machine.thread)
            self.machine.scheduler.block((self, None))
        self.history.passed(self.machine.thread, completions)

    def _arrive(self, count: int, threads: int | None) -> None:
        if threads is not None and (threads % 32 or not 32 <= threads <= self.block.size):
            raise self.machine.fault(
                BarrierError,
                f"named barrier {self.number}: threads must be a multiple of 32 up to the block's {self.block.size}; "
                f"got {threads}",
            )
        if self.arrived and threads != self.threads:
            raise self.machine.fault(
                BarrierError,
                f"named barrier {self.number} is used with {threads or 'all'} threads; {self.arrived} arrived for "
                f"{self.threads or 'all'}",
            )
        self.threads = threads
        self.arrived += count
        self._complete()

    def _complete(self) -> None:
        if self.arrived >= (self.threads or self.block.live):
            self.arrived = 0
            self.history.completed(self.completions)
            self.completions += 1
            self.machine.scheduler.wake(self.waiters)

    def thread_exited(self) -> None:
        """Whoever waits for all threads no longer waits for those that exited."""
        if self.arrived and self.threads is None:
            self._complete()

    def describe(self, detail: Any) -> str:
        """What the waiting threads lack."""
        total = self.threads or self.block.live
        return f"on named barrier {self.number}: {total - self.arrived} of {total} threads missing"


def _arrive(lanes: list[tuple]) -> list[int]:
    """The arrival of a whole warp; how often the barrier had completed before."""
    barrier, threads = lanes[0]
    if any(lane != lanes[0] for lane in lanes):
        raise barrier.machine.fault(
            DivergenceError, "the lanes of a warp name different barriers, or different numbers of threads"
        )
    completions = barrier.completions
    barrier.history.arrived(barrier.machine.acting.members)
    barrier._arrive(32, threads)
    return [completions] * 32


class ClusterBarrier:
    """The barrier of a cluster (PTX ISA, "barrier.cluster"): every thread of its blocks that has not exited arrives.

    Parameters
    ----------
    machine : Machine
    blocks : list of Block
    """

    def __init__(self, machine: Any, blocks: list[Any]) -> None:
        self.machine, self.blocks = machine, blocks
        self.phase = self.arrived = 0
        self.arrivals: dict[Any, int] = {}  # the phase in which a thread arrived that has not waited since
        self.waiters: list[Any] = []
        self.history = meeting(machine)

    def take_part(self, arrives: bool, waits: bool, as_warp: bool, relaxed: bool) -> None:
        """Arrive, wait or both: the running thread, or together with the rest of its warp."""
        self.machine.step()
        operands = (self, self.machine.thread, arrives, relaxed)
        if as_warp:
            self.machine.collective("warp", _take_part, operands)
        else:
            _take_part([operands])
        if waits:
            self._wait()

    def begin(self, threads: list[Any], arrives: bool, relaxed: bool) -> None:
        """Let threads arrive; or check, of those that are to wait, that they did."""
        for thread in threads:
            if arrives == (thread in self.arrivals):
                raise self.machine.fault(
                    BarrierError,
                    f"thread {thread.index} arrives at the barrier of the cluster again; cluster.wait must come between"
                    if arrives
                    else f"thread {thread.index} waits at the barrier of the cluster without cluster.arrive before",
                )
            if arrives:
                self.arrivals[thread] = self.phase
        if arrives:
            self.history.arrived(threads, relaxed)
            self.arrived += len(threads)
            self._complete()

    def _wait(self) -> None:
        thread = self.machine.thread
        while self.arrivals[thread] == self.phase:
            self.waiters.append(thread)
            self.machine.scheduler.block((self, None))
        self.history.passed(thread, self.arrivals.pop(thread))

    def _complete(self) -> None:
        if self.arrived and self.arrived >= sum(block.live for block in self.blocks):
            self.history.completed(self.phase)
            self.phase += 1
            self.arrived = 0
            self.machine.scheduler.wake(self.waiters)

    def thread_exited(self, thread: Any) -> None:
        """Nobody waits for a thread that exited."""
        if self.arrivals.pop(thread, None) == self.phase:
            self.arrived -= 1
        self._complete()

    def describe(self, detail: Any) -> str:
        """Who has not arrived."""
        missing = []
        for block in self.blocks:
            absent = [t.index for t in block.threads if not t.exited and self.arrivals.get(t) != self.phase]
            if absent:
                missing.append(f"block {block.index}, {role(absent)}")
        return f"on the barrier of the cluster: arrivals missing of {'; '.join(missing)}"


def _take_part(lanes: list[tuple]) -> list[None]:
    """What threads do that come to the barrier of the cluster together."""
    barrier, _, arrives, relaxed = lanes[0]
    barrier.begin([lane[1] for lane in lanes], arrives, relaxed)
    return [None] * len(lanes)
