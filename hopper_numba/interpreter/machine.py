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

from .barriers import Barrier, ClusterBarrier, NamedBarrier
from .block import Block, Thread
from .copies import DTYPES, Box, Combine, Load, Place, Run, Store, Value, combining, named
from .deadlock import stuck
from .errors import (
    BarrierError,
    DivergenceError,
    HazardError,
    InterpreterError,
    OutOfBoundsError,
    PhaseOverrunError,
    UnfinishedError,
    WrongRoleError,
)
from .hazards import Checker
from .matrices import Accumulator, Fragment, MatrixUnit, Product, elements_of, whole, zeros
from .memory import BASE, StaticLayout
from .scheduler import Scheduler
from .source import Site, kernel_frame, raised_at, role, site_of
from .thread_copies import ThreadCopies


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
    cluster : tuple of int
        Three extents, in blocks.

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
    blocks : list of Block
        Of the running cluster, by rank.
    cluster_barrier : ClusterBarrier
        Its barrier.
    checker : Checker or None
        Of hazards.
    """

    def __init__(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_shared: int,
        seed: int,
        cluster: tuple[int, int, int],
        report: Callable[[Any], None] | None = None,
    ) -> None:
        self.grid, self.block_shape, self.dynamic, self.cluster = grid, block, dynamic_shared, cluster
        self.checker = Checker(self, report) if report is not None else None
        self.thread: Any = None
        self.acting: Any = None
        self.spins = 0
        self.to_come = math.prod(grid)
        self.blocks: list[Block] = []
        self.statics = StaticLayout(dynamic_shared, self.fault)
        self.cluster_barrier = ClusterBarrier(self, self.blocks)
        self.scheduler = Scheduler(self, seed, lambda: stuck(self, self.blocks))
        self.budget = self.scheduler.next_interruption()

    # Running --------------------------------------------------------------------------------------------------------

    def run(self, function: Callable, args: tuple, places: list[tuple[tuple[int, int, int], int]]) -> None:
        """Run co-resident blocks: `places` are their indices and their ranks in the cluster."""
        if self.checker is not None:
            self.checker.begin(len(places) * math.prod(self.block_shape))
        self.blocks = [Block(self, index, rank, self.block_shape, self.dynamic) for index, rank in places]
        self.cluster_barrier = ClusterBarrier(self, self.blocks)
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
            if self.checker is not None and not thread.block.live:
                self.checker.exited(thread.block)
        except GreenletExit:
            raise
        except InterpreterError:
            raise
        except IndexError as error:  # of a view, or of a tuple
            raise self.fault(OutOfBoundsError, str(error), site=raised_at(thread, error)) from error
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
        for operation in self.scheduler.work:
            if isinstance(operation, Load):
                operation.check_unfinished(block)
        for barrier in block.barriers.values():
            barrier.finish()
        block.check_registers()
        for unit in block.matrix_units.values():
            unit.finish()
        for thread in block.threads:
            if thread.copies is not None:
                thread.copies.finish()
            for store in (*thread.open_bulk, *(store for group in thread.bulk for store in group)):
                if not store.was_awaited:
                    missing = "tma.commit_group and " if store in thread.open_bulk else ""
                    raise self.fault(
                        UnfinishedError,
                        f"block {block.index} ended while this {named(store.site)} may still read its shared memory: "
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
        kind: type[HazardError],
        message: str,
        *,
        site: Site | None = None,
        issued: Site | None = None,
        threads: Iterable[int] = (),
        advice: str = "",
    ) -> HazardError:
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
        advice : str, optional
            What to do about it.
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
        if advice:
            lines.append(f"  {advice}")
        return kind(
            "\n".join(lines),
            advice=advice,
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
        """A fence: orders nothing here, where all memory is one; `kind` is for the checker of hazards."""
        self.step()
        if self.checker is not None:
            self.checker.fence(self.thread, kind)

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

    def set_registers(self, count: int) -> None:
        """Let each thread of the warp group have so many registers, from the block's pool."""
        thread = self.thread
        thread.block.registers[thread.warp_group] = (count, self.site())

    def wrong_role(self, role: Any, who: str) -> HazardError:
        """The error of a thread that does what `who` has to do, which have another role."""
        return self.fault(WrongRoleError, f"for the pipeline's {who}, {role}; the executing thread is none of them")

    def begin_once(self, what: str) -> None:
        """Refuse that the running thread passes this place in the kernel's source again."""
        frame: Any = kernel_frame(sys._getframe(1))
        place = (frame, frame.f_lasti)  # of this call of the function
        if place in self.thread.begun:
            raise self.fault(
                BarrierError, f"{what}: once for a thread, not in a loop: compiled, it is one and the same"
            )
        self.thread.begun.add(place)

    def kept_already(self) -> HazardError:
        """The error of a consumer of a pipeline that would lose the stage that it keeps."""
        return self.fault(
            BarrierError, "a stage is kept already, and would be lost: consumer_release_previous() must come before"
        )

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

    def shared_rank(self, address: int) -> int:
        """The rank of the block that an address is in."""
        rank = address >> MAPPED_SHIFT
        return rank - 1 if rank else self.thread.block.rank

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

    def shared_load(self, address: int, nbytes: int, lane: int | None = None) -> np.ndarray:
        """A copy of bytes of shared memory, at a multiple of their number; read by a lane of the acting warp."""
        self.tick()
        block, within = self.locate(address)
        found = block.memory.load(within, nbytes)
        self._touch_shared(block, within, nbytes, False, lane)
        return found

    def shared_store(self, address: int, data: Any, lane: int | None = None) -> None:
        """Write bytes to shared memory, at a multiple of their number; by a lane of the acting warp."""
        self.step()
        found = np.frombuffer(data, np.uint8)
        block, within = self.locate(address)
        block.memory.store(within, found, len(found))
        self._touch_shared(block, within, len(found), True, lane)

    def _touch_shared(self, block: Block, address: int, nbytes: int, is_write: bool, lane: int | None) -> None:
        if self.checker is not None:
            thread = self.thread if lane is None else self.acting.members[lane]
            shadow: Any = block.memory.shadow
            states = shadow.run(address, nbytes)
            access = self.checker.generic(states, is_write, True, sys._getframe(1), thread)
            if block is not thread.block:
                self.checker.reached(block, access)

    def global_load(self, element: GlobalElement, nbytes: int) -> np.ndarray:
        """A copy of bytes of an argument."""
        self.tick()
        found = element.array.load_bytes(element, nbytes)
        self._touch_global(element, nbytes, is_write=False)
        return found

    def global_acquire(self, element: GlobalElement, nbytes: int) -> np.ndarray:
        """As `global_load`, of what others may be about to write: they run before."""
        self.pause()
        found = element.array.load_bytes(element, nbytes)
        if self.checker is not None:
            self.checker.acquire_from(element.array.location(element), self.thread)
        self._touch_global(element, nbytes, is_write=False, is_atomic=True)
        return found

    def global_store(self, element: GlobalElement, data: Any) -> None:
        """Write bytes to an argument."""
        self.step()
        self._store_global(element, data)

    def global_release(self, element: GlobalElement, data: Any) -> None:
        """As `global_store`, releasing what the thread did before."""
        self.step()
        if self.checker is not None:
            self.checker.release_to(element.array.location(element), self.thread, keeps=False)
        self._store_global(element, data, is_atomic=True)

    def _store_global(self, element: GlobalElement, data: Any, is_atomic: bool = False) -> None:
        found = np.frombuffer(data, np.uint8)
        element.array.store_bytes(element, found)
        self._touch_global(element, len(found), True, is_atomic)

    def global_update(self, element: GlobalElement, dtype: np.dtype, update: Callable[[int], int]) -> None:
        """Replace an unsigned number of an argument by the low bits of what `update` makes of it, atomically."""
        self.step()
        if self.checker is not None:
            self.checker.release_to(element.array.location(element), self.thread, keeps=True)
        old = int(element.array.load_bytes(element, dtype.itemsize).view(dtype)[0])
        new = update(old) & (1 << 8 * dtype.itemsize) - 1
        self._store_global(element, np.array([new], dtype).tobytes(), is_atomic=True)

    def _touch_global(self, element: GlobalElement, nbytes: int, is_write: bool, is_atomic: bool = False) -> None:
        if self.checker is not None:
            states = element.array.states(element, nbytes)
            self.checker.generic(states, is_write, False, sys._getframe(1), self.thread, is_atomic)

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

    # Bulk copies ----------------------------------------------------------------------------------------------------

    def tma_load(
        self,
        tile: SharedView,
        tensor_map: Any,
        coordinates: tuple[int, ...],
        barrier: int,
        multicast: int | None = None,
    ) -> None:
        """Begin to load a tile, panel by panel; to all blocks of `multicast`."""
        self.step()
        site, description = self.site(), tile.description
        for block, within, reported in self._destinations(tile.base, barrier, multicast):
            for panel in range(description.panels):
                box = Box(tensor_map.array, description, panel, coordinates)
                place = Place.of_panel(block, within, description, panel, site)
                self._load(Load(self, site, box, place, reported))

    def tma_store(
        self, tensor_map: Any, coordinates: tuple[int, ...], tile: SharedView, operation: str | None = None
    ) -> None:
        """Begin to store a tile, panel by panel, or to reduce it."""
        self.step()
        site, description = self.site(), tile.description
        combine = combining(operation, description.dtype) if operation else None
        for panel in range(description.panels):
            place = Place.of_panel(self.thread.block, tile.base, description, panel, site)
            box = Box(tensor_map.array, description, panel, coordinates)
            self._store(Store(self, site, place, box, combine))

    def bulk_load(
        self, destination: int, source: GlobalElement, nbytes: int, barrier: int, multicast: int | None = None
    ) -> None:
        """Begin to load bytes; to all blocks of `multicast`."""
        self.step()
        site, run = self.site(), Run(source, nbytes, "read")
        for block, within, reported in self._destinations(destination, barrier, multicast):
            place = Place.of_bytes(block, within, nbytes, site)
            self._load(Load(self, site, run, place, reported))

    def bulk_store(
        self, destination: GlobalElement, source: int, nbytes: int, reduction: tuple[str, str] | None = None
    ) -> None:
        """Begin to store bytes, or to reduce elements: by an operation, of a type of PTX."""
        self.step()
        site, run = self.site(), Run(destination, nbytes, "write")
        place = Place.of_bytes(self.thread.block, source, nbytes, site)
        self._store(Store(self, site, place, run, _combining(reduction)))

    def bulk_send(
        self, destination: int, source: int, nbytes: int, barrier: int, reduction: tuple[str, str] | None = None
    ) -> None:
        """Begin to copy bytes to a block of the cluster, or to reduce elements there."""
        self.step()
        site = self.site()
        own = Place.of_bytes(self.thread.block, source, nbytes, site)
        for block, within, reported in self._destinations(destination, barrier, None):
            place = Place.of_bytes(block, within, nbytes, site)
            self._load(Load(self, site, own, place, reported, _combining(reduction)))

    def bulk_prefetch(self, source: GlobalElement, nbytes: int) -> None:
        """Check what is prefetched: there is no cache."""
        self.tick()
        Run(source, nbytes, "prefetch")

    def store_async(self, address: int, data: bytes, barrier: int) -> None:
        """Begin to store the bytes of registers to a block of the cluster, at a multiple of their number."""
        self.step()
        site = self.site()
        for block, within, reported in self._destinations(address, barrier, None):
            place = Place.of_bytes(block, within, len(data), site, alignment=len(data))
            self._load(Load(self, site, Value(data), place, reported))

    def _destinations(
        self, address: int, barrier_address: int, multicast: int | None
    ) -> list[tuple[Block, int, Barrier]]:
        """The blocks that get a copy, where in their shared memory, and on which of their barriers."""
        pairs = [(address, barrier_address)]
        if multicast is not None:
            ranks = [rank for rank in range(16) if multicast >> rank & 1]
            pairs = [
                (self.map_shared(self.locate(address)[1], rank), self.map_shared(self.locate(barrier_address)[1], rank))
                for rank in ranks
            ]
        found = []
        for place, reported in pairs:
            (block, within), barrier = self.locate(place), self.barrier(reported)
            if barrier.block is not block:
                raise self.fault(
                    BarrierError,
                    f"barrier {barrier.name} is block {barrier.block.index}'s; what it reports goes to block "
                    f"{block.index}: they must be in one block",
                )
            if not barrier.count:
                raise self.fault(
                    PhaseOverrunError,
                    f"barrier {barrier.name} is given to {named(self.site())} before mbarrier.init",
                )
            found.append((block, within, barrier))
        return found

    def _load(self, load: Load) -> None:
        if self.checker is not None:
            load.check(self.checker)
        self.scheduler.work.append(load)

    def _store(self, store: Store) -> None:
        if self.checker is not None:
            store.check(self.checker, self.checker.bulk(self.thread))
        self.thread.open_bulk.append(store)
        self.scheduler.work.append(store)

    def bulk_commit(self) -> None:
        """Close a group of this thread's bulk stores."""
        self.step()
        thread = self.thread
        if self.checker is not None:
            self.checker.bulk(thread).commit()
        thread.bulk.append(thread.open_bulk)
        thread.open_bulk = []

    def bulk_wait(self, n: int, read: bool) -> None:
        """Wait until all but the last `n` groups of this thread have read their tiles, or are complete."""
        self.step()
        if self.checker is not None:
            self.checker.bulk(self.thread).wait(self.checker, n, reads_only=read)
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

    @property
    def copies(self) -> ThreadCopies:
        """What the running thread copies with cp.async."""
        thread = self.thread
        if thread.copies is None:
            thread.copies = ThreadCopies(self)
        return thread.copies

    # WGMMA ----------------------------------------------------------------------------------------------------------

    def accumulator(self, dtype: np.dtype, n: int) -> Accumulator:
        """A 64 x `n` accumulator of zeros: this thread's part."""
        return Accumulator(zeros(dtype, n), self.thread.index % 128, in_flight=False, touched=self.fences())

    def fragment(self, dtype: np.dtype, registers: tuple[int, ...]) -> Fragment:
        """A matrix A in registers: this thread's part."""
        return Fragment(dtype, registers, touched=self.fences())

    def fences(self) -> int:
        """How often the thread's warp group has executed ``wgmma.fence``."""
        unit = self.thread.block.matrix_units.get(self.thread.warp_group)
        return unit.fences if unit is not None else 0

    def _unit(self) -> MatrixUnit:
        units, number = self.thread.block.matrix_units, self.thread.warp_group
        if number not in units:
            units[number] = MatrixUnit(self, number)
        return units[number]

    def wgmma(self, a: Any, b: SharedView, acc: Accumulator, scale_d: bool, negate_a: bool, negate_b: bool) -> Any:
        """Begin to multiply and add; the accumulator in flight."""
        return self.collective("warp group", self._multiply, (a, b, acc, scale_d, negate_a != negate_b))

    def _multiply(self, lanes: list[tuple]) -> list[Accumulator]:
        a, b, acc, scale_d, negate = lanes[0]
        for other_a, other_b, other, other_scale, _ in lanes:
            same_a = getattr(other_a, "base", None) == getattr(a, "base", None)  # a fragment has none
            if not same_a or other_b.base != b.base or other.matrix is not acc.matrix or other_scale != scale_d:
                raise self.fault(
                    DivergenceError,
                    "wgmma.mma: the threads of the warp group name different tiles or accumulators, or differ in "
                    "scale_d",
                )
        unit = self._unit()
        if self.checker is not None:
            self._check_product(self.checker, unit, lanes)
        if not unit.queue:
            self.scheduler.work.append(unit)
        fragment = a if isinstance(a, Fragment) else None
        left = whole([lane[0] for lane in lanes]) if fragment else a
        result = unit.issue(Product(left, b, acc.matrix, scale_d, negate), fragment, self.site())
        return [Accumulator(result, thread, in_flight=True) for thread in range(128)]

    def _check_product(self, checker: Checker, unit: MatrixUnit, lanes: list[tuple]) -> None:
        """Let the checker of hazards know of a multiplication."""
        group, site, queue = self.acting, self.site(), checker.unit(self.thread)
        time = queue.begin()
        a, b, acc = lanes[0][:3]
        for operand in (a, b):
            if isinstance(operand, SharedView):
                place = Place(group.members[0].block, elements_of(operand), operand.description.itemsize, "")
                place.check(checker, False, site=site, actor=queue.actor, time=time, group=group)
        for part in (a, acc):
            if getattr(part, "touched", -1) >= unit.fences:
                checker.report_registers(site, group, "fragment" if part is a else "accumulator")

    def wgmma_fence(self) -> None:
        """Order register accesses; all must take part."""
        self.collective("warp group", self._fence, ())

    def _fence(self, lanes: list[tuple]) -> list[None]:
        self._unit().fences += 1
        return _nothing(lanes)

    def wgmma_commit(self) -> None:
        """Close a group of multiplications."""
        self.collective("warp group", self._commit, ())

    def _commit(self, lanes: list[tuple]) -> list[None]:
        self._unit().committed += 1
        if self.checker is not None:
            self.checker.unit(self.thread).commit()
        return _nothing(lanes)

    def wgmma_wait(self, acc: Any, n: int) -> Any:
        """Wait for all but the last `n` groups; what `acc` is, accumulators ready where `n` is 0."""
        return self.collective("warp group", self._wait, (acc, n))

    def _wait(self, lanes: list[tuple]) -> list[Any]:
        (first, n), unit = lanes[0], self._unit()
        if self.checker is not None:
            self.checker.unit(self.thread).wait(self.checker, n)
        unit.wait(first if isinstance(first, tuple) else (first,), n)
        if not unit.queue and unit in self.scheduler.work:
            self.scheduler.work.remove(unit)
        return [
            tuple(self._waited(part, n) for part in acc) if isinstance(acc, tuple) else self._waited(acc, n)
            for acc, n in lanes
        ]

    def _waited(self, acc: Any, n: int) -> Any:
        if isinstance(acc, Fragment):
            return acc
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


def _combining(reduction: tuple[str, str] | None) -> Combine | None:
    return combining(reduction[0], DTYPES[reduction[1]]) if reduction else None
