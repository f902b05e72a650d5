"""Barriers: mbarrier objects in shared memory, and the sixteen named barriers of a block."""

from __future__ import annotations

from typing import Any

from .errors import BarrierError

MAX_COUNT = (1 << 20) - 1
"""Arrivals, and bytes, that a phase may take (PTX ISA, "Contents of the mbarrier object")."""


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
    pending : int
        Arrivals that this phase still lacks.
    expected, reported : int
        Bytes of this phase.
    phase : int
        Number of the phase, from 0.
    """

    __slots__ = ("address", "block", "count", "expected", "machine", "pending", "phase", "reported", "waiters")

    def __init__(self, machine: Any, block: Any, address: int) -> None:
        self.machine, self.block, self.address = machine, block, address
        self.count = self.pending = self.expected = self.reported = self.phase = 0
        self.waiters: list[Any] = []

    @property
    def name(self) -> str:
        """As the shared memory's layout has it, or its address."""
        return self.block.name_of(self.address)

    def init(self, count: int) -> None:
        """Begin phase 0 of `count` arrivals."""
        self.machine.step()
        if self.count:
            raise self._fault(f"barrier {self.name} is initialised already; mbarrier.inval must come before")
        if not 1 <= count <= MAX_COUNT:
            raise self._fault(f"barrier {self.name} must count 1 to {MAX_COUNT} arrivals; got {count}")
        self.block.memory.claim_barrier(self.address)
        self.block.barriers[self.address] = self
        self.count = self.pending = count
        self.expected = self.reported = self.phase = 0

    def inval(self) -> None:
        """End the barrier; its bytes are ordinary ones again."""
        self._use("invalidated")
        if self.waiters:
            raise self._fault(f"barrier {self.name} is invalidated while {len(self.waiters)} threads wait on it")
        del self.block.barriers[self.address]
        self.block.memory.release_barrier(self.address)
        self.count = 0

    def arrive(self, count: int = 1, expect_tx: int = 0) -> int:
        """Expect `expect_tx` bytes, then arrive `count` times; the phase that this was."""
        self._use("arrived on")
        phase = self.phase
        if count < 1 or count > self.pending:
            raise self._fault(
                f"barrier {self.name}: {count} arrivals in phase {phase}, which takes only {self.pending} more"
            )
        self._expect(expect_tx)
        self.pending -= count
        self._complete_phase()
        return phase

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

    def complete(self, nbytes: int, fault: Any = None) -> None:
        """Count `nbytes` that arrived; `fault` makes errors, where no thread does this."""
        if not self.count:
            raise (fault or self._raise)(
                BarrierError, f"{nbytes} bytes arrived for barrier {self.name}, which is not initialised"
            )
        self.reported += nbytes
        if self.reported - self.expected > MAX_COUNT:
            raise (fault or self._raise)(
                BarrierError, f"barrier {self.name} counts at most {MAX_COUNT} bytes that nobody expects yet"
            )
        self._complete_phase()

    def _complete_phase(self) -> None:
        if self.pending or self.expected != self.reported:
            return
        self.phase += 1
        self.pending = self.count
        self.expected = self.reported = 0
        self.machine.scheduler.wake(self.waiters)

    def test(self, parity: int) -> bool:
        """Whether the phase of this parity has completed."""
        self._use("tested")
        self._check(parity)
        return self.machine.scheduler.polled(self.phase & 1 != parity, (self, parity))

    def test_token(self, token: int) -> bool:
        """Whether the phase has completed in which `arrive` gave this token."""
        self._use("tested")
        return self.machine.scheduler.polled(self.phase != token, (self, token & 1))

    def wait(self, parity: int) -> None:
        """Wait until the phase of this parity has completed."""
        self._use("waited for")
        self._check(parity)
        # a waiter that wakes late may have missed a phase, as on the GPU
        while self.phase & 1 == parity:
            self.waiters.append(self.machine.thread)
            self.machine.scheduler.block((self, parity))

    def _check(self, parity: int) -> None:
        if parity not in (0, 1):
            raise self._fault(f"barrier {self.name}: parity must be 0 or 1; got {parity}")

    def _use(self, what: str) -> None:
        self.machine.step()
        if not self.count:
            raise self._fault(f"barrier {self.name} is {what} before mbarrier.init")

    def _raise(self, kind: type, message: str) -> Exception:
        return self.machine.fault(kind, message)

    def _fault(self, message: str) -> Exception:
        return self.machine.fault(BarrierError, message)

    def describe(self, parity: int) -> str:
        """What a wait for `parity` lacks."""
        lacks = []
        if self.pending:
            lacks.append(f"{self.pending} of {self.count} arrivals missing")
        if self.expected > self.reported:
            lacks.append(f"{self.expected - self.reported} of {self.expected} bytes missing")
        if self.reported > self.expected:
            lacks.append(f"{self.reported} bytes arrived where {self.expected} are expected")
        return f"on barrier {self.name}, phase {self.phase} (parity {parity}): {', '.join(lacks)}"


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
        self.arrived = 0
        self.threads: int | None = None
        self.waiters: list[Any] = []

    def sync(self, threads: int | None = None) -> None:
        """Arrive, and wait until `threads` threads have; None: all of the block that have not exited."""
        self.machine.step()
        self._arrive(threads)
        if not self._complete():
            self.waiters.append(self.machine.thread)
            self.machine.scheduler.block((self, None))

    def arrive(self, threads: int | None) -> None:
        """Arrive without waiting."""
        self.machine.step()
        if threads is None:
            raise self.machine.fault(BarrierError, f"named barrier {self.number}: arrive takes a number of threads")
        self._arrive(threads)
        self._complete()

    def _arrive(self, threads: int | None) -> None:
        if threads is not None and (threads < 32 or threads % 32 or threads > -(-self.block.size // 32) * 32):
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
        self.arrived += 1

    def _complete(self) -> bool:
        if self.arrived < (self.threads or self.block.live):
            return False
        self.arrived = 0
        self.machine.scheduler.wake(self.waiters)
        return True

    def thread_exited(self) -> None:
        """Whoever waits for all threads no longer waits for those that exited."""
        if self.arrived and self.threads is None:
            self._complete()

    def describe(self, detail: Any) -> str:
        """What the waiting threads lack."""
        total = self.threads or self.block.live
        return f"on named barrier {self.number}: {total - self.arrived} of {total} threads missing"
