"""A block of threads and what they share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .arrays import SharedArray, nbytes_of
from .barriers import Barrier, NamedBarrier
from .collectives import Together, WarpSync
from .errors import RegisterBudgetError
from .memory import BASE, SharedMemory
from .source import Site

REGISTERS = 65536
"""Of an SM (CUDA C++ Programming Guide, "Compute Capabilities")."""


class Thread:
    """A thread of a block.

    Attributes
    ----------
    index : int
        Its number in the block, x fastest.
    lane, warp, warp_group : int
    number : int
        Its number in the cluster.
    position : tuple of int
        ``cuda.threadIdx``.
    block : Block
    waiting : tuple or None
        What it waits for, and a detail for the description.
    exited : bool
    open_bulk, bulk : list
        Bulk stores not committed yet; groups of committed ones.
    copies : ThreadCopies or None
        What it copies with cp.async, if it does.
    begun : set
        The places that it may pass once and has.
    """

    __slots__ = (
        "begun",
        "block",
        "bulk",
        "copies",
        "exited",
        "greenlet",
        "index",
        "lane",
        "number",
        "open_bulk",
        "position",
        "resume",
        "waiting",
        "warp",
        "warp_group",
    )

    def __init__(self, block: Block, index: int, position: tuple[int, int, int]) -> None:
        self.block, self.index, self.position = block, index, position
        self.lane, self.warp, self.warp_group = index % 32, index // 32, index // 128
        self.number = block.rank * math.prod(block.shape) + index
        self.waiting: tuple[Any, Any] | None = None
        self.exited = False
        self.open_bulk: list[Any] = []
        self.bulk: list[list[Any]] = []
        self.copies: Any = None
        self.begun: set[tuple[Any, int]] = set()
        self.greenlet: Any = None
        self.resume: Any = None

    def __repr__(self) -> str:
        return f"<thread {self.index} of block {self.block.index}>"


class Block:
    """A block: its threads, its shared memory, its barriers.

    Parameters
    ----------
    machine : Machine
    index : tuple of int
        ``cuda.blockIdx``.
    rank : int
        In its cluster.
    shape : tuple of int
        ``cuda.blockDim``.
    dynamic_shared : int
        Bytes.

    Attributes
    ----------
    size, live : int
        Threads; threads that have not exited.
    layouts : dict of int to Shared
        What the kernel says its shared memory is, by where that begins.
    """

    def __init__(
        self, machine: Any, index: tuple[int, int, int], rank: int, shape: tuple[int, int, int], dynamic_shared: int
    ) -> None:
        self.machine, self.index, self.rank, self.shape = machine, index, rank, shape
        places = [(x, y, z) for z in range(shape[2]) for y in range(shape[1]) for x in range(shape[0])]
        self.threads = [Thread(self, i, place) for i, place in enumerate(places)]
        self.size = self.live = len(places)
        self.memory = SharedMemory(
            machine.statics, dynamic_shared, machine.fault, is_checked=machine.checker is not None
        )
        self.memory.begun_at, self.memory.place = self.begun_at, self.place
        self.barriers: dict[int, Barrier] = {}
        self.named: dict[int, NamedBarrier] = {}
        self.layouts: dict[int, Any] = {}
        self._static: dict[tuple, SharedArray] = {}
        self.warps = [Together(machine, "warp", part, 32) for part in self._parts(32)]
        self.warp_groups = [Together(machine, "warp group", part, 128) for part in self._parts(128)]
        self.warp_syncs = [WarpSync(machine, part) for part in self._parts(32)]
        self.matrix_units: dict[int, Any] = {}
        self.registers: dict[int, tuple[int, Site]] = {}

    def _parts(self, size: int) -> list[list[Thread]]:
        return [self.threads[i : i + size] for i in range(0, self.size, size)]

    def thread_exited(self, thread: Thread) -> None:
        """Count a thread out, at its end."""
        thread.exited = True
        self.live -= 1
        for barrier in self.named.values():
            barrier.thread_exited()
        self.warp_syncs[thread.warp].thread_exited()
        self.machine.cluster_barrier.thread_exited(thread)

    def begun_at(self, address: int) -> str:
        """Where the copy began that is still to write a byte, and the barrier that it completes on, for reports."""
        for work in self.machine.scheduler.work:
            writes = getattr(work, "writes", None)
            if writes is not None and writes(self.memory, address):
                return f"\n  begun at {work.site}{work.completes_on()}"
        return ""

    def check_registers(self) -> None:
        """Refuse what its warp groups ask for by setmaxnreg, if the block cannot have been launched with as much."""
        if not self.registers:
            return
        at_launch = min(255, REGISTERS // self.size) // 8 * 8
        parts = [
            (min(128, self.size - first), self.registers.get(first // 128, (at_launch, None))[0])
            for first in range(0, self.size, 128)
        ]
        needed = sum(size * count for size, count in parts)
        if needed > at_launch * self.size:
            terms = " + ".join(f"{count} x {size}" for size, count in parts)
            raise self.machine.fault(
                RegisterBudgetError,
                f"the warp groups of block {self.index} want more registers than it can have, and would wait for ever: "
                f"{terms} = {needed} > {at_launch} x {self.size} = {at_launch * self.size}; a group that executes no "
                "setmaxnreg keeps what it was launched with",
                site=max(self.registers.values(), key=lambda asked: asked[0])[1],
            )

    def static_array(
        self, site: tuple, name: str, shape: tuple[int, ...], dtype: np.dtype, alignment: int
    ) -> SharedArray:
        """The static shared array that a place in the source declares, one for the block."""
        key = (*site, shape, dtype.name, alignment)
        if key not in self._static:
            nbytes = nbytes_of(shape, dtype)
            address = self.machine.statics.address(key, nbytes, alignment)
            self.memory.allow(address, nbytes)
            self._static[key] = SharedArray.at(self.machine, name, self.memory, address, shape, dtype)
        return self._static[key]

    def dynamic_array(self, name: str, dtype: np.dtype) -> SharedArray:
        """All dynamic shared memory as an array."""
        shape = (self.memory.dynamic // dtype.itemsize,)
        return SharedArray.at(self.machine, name, self.memory, BASE, shape, dtype)

    def name_of(self, address: int) -> str:
        """What the layout calls a place in shared memory, or its address."""
        return self._named(address) or f"at {address:#x}"

    def place(self, address: int) -> str:
        """A place in shared memory: its address, and what the layout calls it."""
        name = self._named(address)
        return f"{address:#x} ({name})" if name else f"{address:#x}"

    def _named(self, address: int) -> str:
        """What the layout calls a place in shared memory; empty if nothing."""
        for base, layout in self.layouts.items():
            if name := _name_within(layout, address - base):
                return name
        for array in self._static.values():
            within = address - array.shared_address
            if 0 <= within < array.nbytes:
                return f"{array.name}[{within // array.itemsize}]"
        return ""


def _name_within(layout: Any, offset: int) -> str:
    """What lies so many bytes from the beginning of a layout: ``pipe.full[2]``; empty if nothing does."""
    for name, member in getattr(layout, "members", {}).items():
        within = offset - layout.offsets[name]
        if 0 <= within < member.nbytes:
            if inner := _name_within(member, within):
                return f"{name}.{inner}"
            count = getattr(member, "count", None)
            return name if count is None else f"{name}[{within // (member.nbytes // count)}]"
    return ""
