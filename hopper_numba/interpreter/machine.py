"""The machine that an instruction's meaning calls (`hopper_numba.intrinsics.machine`): one for each launch."""

from __future__ import annotations

import contextvars
import functools
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from greenlet import GreenletExit, greenlet

from hopper_numba.intrinsics.tiles import Shared
from hopper_numba.intrinsics.types import MAPPED_SHIFT, GlobalElement, SharedView

from .barriers import Barrier, NamedBarrier
from .block import Block, Thread
from .copies import Load, Store
from .deadlock import stuck
from .errors import DivergenceError, InterpreterError, OutOfBoundsError, PhaseOverrunError, UnfinishedError
from .matrices import Accumulator, MatrixUnit, zeros
from .memory import BASE
from .scheduler import Scheduler
from .source import Site, raised_at, role, site_of


class Machine:
    """Runs the blocks of a launch.

    Parameters
    ----------
    grid, block : tuple of int
        Three extents each.
    dynamic_shared : int
        Bytes of dynamic shared memory of a block.
    seed : int
        Of the schedule.

    Attributes
    ----------
    thread : Thread or None
        The one that runs.
    acting : Together or None
        The warp or warp group whose instruction is being executed.
    budget : int
        Steps until the thread is interrupted. Arrays count it down themselves, being the hottest.
    spins : int
        Interruptions since anything but a read happened.
    to_come : int
        Blocks of the grid that have not begun to run.
    """

    def __init__(self, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_shared: int, seed: int) -> None:
        self.grid, self.block_shape, self.dynamic = grid, block, dynamic_shared
        self.thread: Any = None
        self.acting: Any = None
        self.spins = 0
        self.to_come = math.prod(grid)
        self.blocks: list[Block] = []
        self.scheduler = Scheduler(self, seed, lambda: stuck(self, self.blocks))
        self.budget = self.scheduler.next_interruption()

    # Running --------------------------------------------------------------------------------------------------------

    def run(self, function: Callable, args: tuple, places: list[tuple[tuple[int, int, int], int]]) -> None:
        """Run co-resident blocks: `places` are their indices and their ranks in the cluster."""
        self.blocks = [Block(self, index, rank, self.block_shape, self.dynamic) for index, rank in places]
        self.to_come -= len(places)
        threads = [thread for block in self.blocks for thread in block.threads]
        for thread in threads:
            thread.greenlet = greenlet(functools.partial(self._execute, thread, function, args))
            # a greenlet's context is empty otherwise, and lacks `running` and NumPy's errstate
            thread.greenlet.gr_context = contextvars.copy_context()
            thread.resume = thread.greenlet.switch
        try:
            self.scheduler.run(threads)
            for block in self.blocks:
                self._finish(block)
        finally:
            self._kill(threads)
            self.scheduler.work.clear()

    def _execute(self, thread: Thread, function: Callable, args: tuple) -> None:
        """What the greenlet of a thread does."""
        try:
            function(*args)
            thread.block.thread_exited(thread)
        except GreenletExit:
            raise
        except InterpreterError:
            raise
        except Exception as error:
            error.add_note(f"  at {raised_at(thread, error)}\n  in {self._where(thread)}")
            raise

    def _kill(self, threads: list[Thread]) -> None:
        """End the threads that an error left behind; they refer to the machine, and it to them."""
        for thread in threads:
            if thread.greenlet is not None and not thread.greenlet.dead:
                thread.greenlet.throw(GreenletExit)
            thread.greenlet = thread.resume = None

    def _finish(self, block: Block) -> None:
        """Check that a block whose threads have exited left nothing behind."""
        work = [operation for operation in self.scheduler.work if getattr(operation, "memory", None) is block.memory]
        for operation in work:
            if isinstance(operation, Load):
                raise self.fault(
                    UnfinishedError,
                    f"the block ended before this TMA load arrived: nobody waits for barrier {operation.barrier.name}, "
                    f"phase {operation.barrier.phase}",
                    site=operation.site,
                )
        for unit in block.matrix_units.values():
            unit.finish()
        for thread in block.threads:
            for store in (*thread.open_bulk, *(store for group in thread.bulk for store in group)):
                if not store.was_awaited:
                    missing = "tma.commit_group and " if store in thread.open_bulk else ""
                    raise self.fault(
                        UnfinishedError,
                        "the block ended while this TMA store may still read its shared memory: "
                        f"{missing}tma.wait_group_read must come before",
                        site=store.site,
                    )
                store.write()

    # Faults ---------------------------------------------------------------------------------------------------------

    def _where(self, thread: Thread) -> str:
        who = f"thread {thread.index} (warp {thread.warp}, lane {thread.lane})"
        if self.acting is not None and thread is self.thread:
            who = f"{self.acting}, {self.acting.size} threads"
        return f"block {thread.block.index}, {who}"

    def fault(
        self,
        kind: type[InterpreterError],
        message: str,
        *,
        site: Site | None = None,
        issued: Site | None = None,
        threads: Iterable[int] = (),
    ) -> InterpreterError:
        """The error `kind`, with the place in the kernel: of `site`, or where the running thread is.

        Parameters
        ----------
        kind : type
        message : str
        site : Site, optional
            Of the instruction at fault, if it was executed earlier.
        issued : Site, optional
            Of another instruction that plays a part.
        threads : iterable of int
            Which executed `site`, if not one thread did.
        """
        if site is None and self.thread is not None:
            site = site_of(self.thread, sys._getframe(1))
        lines = [message]
        if site is None:
            return kind(message)
        who = self._where(site.thread)
        if threads:
            who = f"block {site.thread.block.index}, {role(threads)}"
        lines += [f"  at {site}", f"  in {who}"]
        if issued is not None:
            lines.append(f"  begun at {issued}")
        return kind(
            "\n".join(lines),
            block=site.thread.block.index,
            thread=None if threads else site.thread.index,
            filename=site.filename,
            line=site.line,
        )

    def site(self) -> Site:
        """Where the running thread is."""
        return site_of(self.thread, sys._getframe(1))

    def frame_of(self, thread: Thread) -> Any:
        """The innermost frame of a thread."""
        return sys._getframe(1) if thread is self.thread else thread.greenlet.gr_frame

    # Scheduling -----------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Count a read of the running thread: others may run before it."""
        self.budget -= 1
        if self.budget < 0:
            self.pause()

    def step(self) -> None:
        """Count a step that is no mere read."""
        self.tick()
        self.spins = 0

    def pause(self) -> None:
        """Let others run now."""
        self.budget = self.scheduler.next_interruption()
        self.spins += 1
        if self.acting is not None:
            return  # the rest of a warp waits for it
        if self.spins % 1000 == 0:
            self.scheduler.spinning(self.spins)
        self.scheduler.yield_now()

    def fence(self, kind: str) -> None:
        """A fence: orders nothing here, where all memory is one; `kind` is for a checker of hazards."""
        self.step()

    def collective(self, scope: str, meaning: Callable[[list], list], operands: Any) -> Any:
        """Execute `meaning` once, for all threads of the warp or warp group, of which this is one."""
        thread = self.thread
        if scope == "warp":
            return thread.block.warps[thread.warp].execute(meaning, operands)
        return thread.block.warp_groups[thread.warp_group].execute(meaning, operands)

    def sleep(self, nanoseconds: int) -> None:
        """Let others run for so long."""
        self.scheduler.sleep(nanoseconds)

    def clock(self) -> int:
        """Cycles, two a nanosecond."""
        return 2 * self.nanoseconds()

    def nanoseconds(self) -> int:
        """The time, which events move on."""
        self.tick()
        self.scheduler.now += 1
        return self.scheduler.now

    # Memory ---------------------------------------------------------------------------------------------------------

    def dynamic_shared(self, description: Shared) -> SharedView:
        """The block's dynamic shared memory as a description says."""
        if description.nbytes > self.dynamic:
            raise self.fault(
                OutOfBoundsError,
                f"{description} takes {description.nbytes} bytes of dynamic shared memory; the launch has "
                f"{self.dynamic}",
            )
        self.thread.block.layouts[BASE] = description
        return SharedView(description, BASE)

    def map_shared(self, address: int, rank: int) -> int:
        """The address, among those of the cluster, of what lies at `address` in the block of this rank."""
        if rank >= len(self.blocks):
            raise self.fault(
                OutOfBoundsError, f"no block of rank {rank} in this cluster: it has {len(self.blocks)}, from 0 on"
            )
        return (rank + 1) << MAPPED_SHIFT | address

    def locate(self, address: int) -> tuple[Block, int]:
        """The block whose shared memory an address is in, and the address there."""
        rank = address >> MAPPED_SHIFT
        if not rank:
            return self.thread.block, address
        block = self.blocks[rank - 1]
        if not block.live:
            raise self.fault(
                OutOfBoundsError,
                f"the shared memory of block {block.index} is gone: its threads have exited; cluster.sync before its "
                "end keeps it",
            )
        return block, address & (1 << MAPPED_SHIFT) - 1

    def shared_load(self, address: int, nbytes: int) -> np.ndarray:
        """A copy of bytes of shared memory, at a multiple of their number."""
        self.tick()
        block, within = self.locate(address)
        return block.memory.load(within, nbytes)

    def shared_store(self, address: int, data: Any) -> None:
        """Write bytes to shared memory, at a multiple of their number."""
        self.step()
        found = np.frombuffer(data, np.uint8)
        block, within = self.locate(address)
        block.memory.store(within, found, len(found))

    def global_load(self, element: GlobalElement, nbytes: int) -> np.ndarray:
        """A copy of bytes of an argument."""
        self.tick()
        return element.array.load_bytes(element, nbytes)

    def global_store(self, element: GlobalElement, data: Any) -> None:
        """Write bytes to an argument."""
        self.step()
        element.array.store_bytes(element, np.frombuffer(data, np.uint8))

    # Barriers -------------------------------------------------------------------------------------------------------

    def barrier(self, address: int) -> Barrier:
        """The mbarrier at an address; initialised or not."""
        block, within = self.locate(address)
        return block.barriers.get(within) or Barrier(self, block, within)

    def named_barrier(self, number: int) -> NamedBarrier:
        """A named barrier of the block."""
        block = self.thread.block
        found = block.named.get(number)
        if found is None:
            found = block.named[number] = NamedBarrier(self, block, number)
        return found

    # TMA ------------------------------------------------------------------------------------------------------------

    def tma_load(self, tile: SharedView, tensor_map: Any, coordinates: tuple[int, ...], barrier_address: int) -> None:
        """Begin to load a tile, panel by panel."""
        self.step()
        barrier, site = self.barrier(barrier_address), self.site()
        if not barrier.count:
            raise self.fault(PhaseOverrunError, f"barrier {barrier.name} is given to tma.load before mbarrier.init")
        for panel in range(tile.description.panels):
            self.scheduler.work.append(
                Load(self, tile.description, tile.base, panel, tensor_map, coordinates, site, barrier=barrier)
            )

    def tma_store(self, tensor_map: Any, coordinates: tuple[int, ...], tile: SharedView) -> None:
        """Begin to store a tile, panel by panel."""
        self.step()
        site = self.site()
        for panel in range(tile.description.panels):
            store = Store(self, tile.description, tile.base, panel, tensor_map, coordinates, site)
            self.thread.open_bulk.append(store)
            self.scheduler.work.append(store)

    def bulk_commit(self) -> None:
        """Close a group of this thread's bulk stores."""
        self.step()
        thread = self.thread
        thread.bulk.append(thread.open_bulk)
        thread.open_bulk = []

    def bulk_wait(self, n: int, read: bool) -> None:
        """Wait until all but the last `n` groups of this thread have read their tiles, or are complete."""
        self.step()
        groups = self.thread.bulk
        for group in groups[: max(0, len(groups) - n)]:
            for store in group:
                store.was_awaited = True
                if read:
                    store.read()
                    continue
                store.write()
                if store in self.scheduler.work:
                    self.scheduler.work.remove(store)
        if not read:
            del groups[: max(0, len(groups) - n)]

    # WGMMA ----------------------------------------------------------------------------------------------------------

    def accumulator(self, dtype: np.dtype, n: int) -> Accumulator:
        """A 64 x `n` accumulator of zeros: this thread's part."""
        return Accumulator(zeros(dtype, n), self.thread.index % 128, in_flight=False)

    def _unit(self) -> MatrixUnit:
        units, number = self.thread.block.matrix_units, self.thread.warp_group
        if number not in units:
            units[number] = MatrixUnit(self, number)
        return units[number]

    def wgmma(self, a: SharedView, b: SharedView, acc: Accumulator) -> Accumulator:
        """Begin to multiply and add; the accumulator in flight."""
        return self.collective("warp group", self._multiply, (a, b, acc))

    def _multiply(self, lanes: list[tuple]) -> list[Accumulator]:
        a, b, acc = lanes[0]
        for other_a, other_b, other in lanes:
            if other_a.base != a.base or other_b.base != b.base or other.matrix is not acc.matrix:
                raise self.fault(
                    DivergenceError, "wgmma.mma: the threads of the warp group name different tiles or accumulators"
                )
        unit = self._unit()
        if not unit.queue:
            self.scheduler.work.append(unit)
        result = unit.issue(a, b, acc.matrix, self.site())
        return [Accumulator(result, thread, in_flight=True) for thread in range(128)]

    def wgmma_fence(self) -> None:
        """Order register accesses; nothing to do here, but all must take part."""
        self.collective("warp group", _nothing, ())

    def wgmma_commit(self) -> None:
        """Close a group of multiplications."""
        self.collective("warp group", self._commit, ())

    def _commit(self, lanes: list[tuple]) -> list[None]:
        self._unit().committed += 1
        return _nothing(lanes)

    def wgmma_wait(self, acc: Any, n: int) -> Any:
        """Wait for all but the last `n` groups; the accumulators, ready where `n` is 0."""
        return self.collective("warp group", self._wait, (acc, n))

    def _wait(self, lanes: list[tuple]) -> list[Any]:
        n, unit = lanes[0][1], self._unit()
        unit.wait(n)
        first = lanes[0][0]
        for part in first if isinstance(first, tuple) else (first,):
            unit.dropped.pop(id(part.matrix), None)
        if not unit.queue and unit in self.scheduler.work:
            self.scheduler.work.remove(unit)
        return [
            tuple(self._waited(part, n) for part in acc) if isinstance(acc, tuple) else self._waited(acc, n)
            for acc, n in lanes
        ]

    def _waited(self, acc: Accumulator, n: int) -> Accumulator:
        if n == 0 and acc.matrix.value is None:
            raise self.fault(
                UnfinishedError,
                "wgmma.wait_group(acc, 0): acc is of a multiplication that this warp group has not closed with "
                "wgmma.commit_group",
                issued=acc.matrix.site,
            )
        return Accumulator(acc.matrix, acc.thread, in_flight=n > 0)


def _nothing(lanes: list) -> list:
    return [None] * len(lanes)
