"""WGMMA: the matrix unit of a warp group, and accumulators, which are values."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from hopper_numba.intrinsics.machine import machine
from hopper_numba.intrinsics.tiles import Tile
from hopper_numba.intrinsics.types import SharedView

from .errors import AccumulatorInFlightError, DivergenceError, UnfinishedError
from .source import Site


class Matrix:
    """What a warp group's accumulator holds: known at once, or when the multiplication that gives it is done."""

    __slots__ = ("dtype", "n", "site", "value")

    def __init__(self, dtype: np.dtype, n: int, value: np.ndarray | None, site: Site | None = None) -> None:
        self.dtype, self.n, self.value, self.site = dtype, n, value, site


@functools.cache
def zeros(dtype: np.dtype, n: int) -> Matrix:
    """The matrix of zeros, one for all threads: those of a warp group are seen to hold the same."""
    value = np.zeros((64, n), dtype)
    value.flags.writeable = False
    return Matrix(dtype, n, value)


@functools.cache
def _places(thread: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and even columns of the pairs that a thread of a warp group holds, in the order of its registers."""
    pairs = np.arange(n // 4)
    rows = 16 * (thread // 32) + thread % 32 // 4 + 8 * (pairs % 2)
    return rows, 2 * (thread % 4) + 8 * (pairs // 2)


class Accumulator:
    """The part of a 64 x `n` accumulator that a thread holds.

    Parameters
    ----------
    matrix : Matrix
    thread : int
        In its warp group.
    in_flight : bool
        Whether `wait_group` must come before it is read.
    """

    __slots__ = ("in_flight", "matrix", "thread")

    def __init__(self, matrix: Matrix, thread: int, in_flight: bool) -> None:
        self.matrix, self.thread, self.in_flight = matrix, thread, in_flight

    @property
    def accumulator_shape(self) -> tuple[int, int]:
        return (64, self.matrix.n)

    @property
    def dtype(self) -> np.dtype:
        return self.matrix.dtype

    @property
    def n(self) -> int:
        return self.matrix.n

    def pairs(self) -> Iterator[tuple[int, int, tuple]]:
        """Row, even column and values of the pairs of neighbours held, in the order of the registers.

        Values are two float32, or one integer with two float16.
        """
        if self.in_flight or self.matrix.value is None:
            raise machine().fault(
                AccumulatorInFlightError,
                "an accumulator is read in flight: acc = wgmma.wait_group(acc, 0) must come before, of the same acc",
                issued=self.matrix.site,
            )
        rows, columns = _places(self.thread, self.n)
        low, high = self.matrix.value[rows, columns], self.matrix.value[rows, columns + 1]
        values: Iterator[tuple]
        if self.dtype == np.float32:
            values = zip(low, high, strict=True)
        else:
            packed = low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << 16
            values = ((v,) for v in packed.tolist())
        return zip(rows.tolist(), columns.tolist(), values, strict=True)

    def __repr__(self) -> str:
        return f"<{'in flight' if self.in_flight else 'accumulator'}: {self.dtype} 64x{self.n}>"


@functools.lru_cache(maxsize=4096)
def _elements(tile: Tile, base: int) -> np.ndarray:
    """Where the elements of a tile lie, as indices from address 0, in the order of its shape."""
    _, (rows, columns) = tile.address()
    height, width = tile.shape
    offsets = sum(term(np.arange(height)) for term in rows)[:, None] + sum(term(np.arange(width)) for term in columns)
    return tile.swizzled(base + offsets) // tile.itemsize


class Multiplication:
    """A product on its way: its operands are read when it is done."""

    __slots__ = ("a", "addend", "b", "group", "memory", "result", "site", "unit")

    def __init__(self, unit: MatrixUnit, group: int, a: SharedView, b: SharedView, addend: Matrix, site: Site) -> None:
        self.unit, self.group, self.a, self.b, self.addend, self.site = unit, group, a, b, addend, site
        self.memory = site.thread.block.memory
        self.result = Matrix(addend.dtype, addend.n, None, site)

    def _fault(self, kind: type, message: str) -> Exception:
        first = 128 * self.unit.number
        return self.unit.machine.fault(kind, message, site=self.site, threads=range(first, first + 128))

    def _read(self, view: SharedView) -> np.ndarray:
        tile = view.description
        elements = _elements(tile, view.base)
        found = self.memory.gather(elements, tile.itemsize, f"{tile} by wgmma.mma", self._fault)
        return found.view(tile.dtype).astype(np.float32)

    def execute(self) -> None:
        """Multiply."""
        product = self._read(self.a) @ self._read(self.b)
        addend = self.addend.value
        if addend is None:
            raise self._fault(DivergenceError, "wgmma.mma: acc is in flight in another warp group")
        # a float16 accumulator is rounded by each instruction
        self.result.value = np.add(addend, product, dtype=np.float32).astype(self.addend.dtype, copy=False)


class MatrixUnit:
    """The multiplications of a warp group that are in flight, in order.

    Parameters
    ----------
    machine : Machine
    number : int
        Of the warp group.

    Attributes
    ----------
    dropped : dict
        Results that were given neither to a wait nor to a further multiplication, by their ids.
    """

    wakes = False

    def __init__(self, machine: Any, number: int) -> None:
        self.machine, self.number = machine, number
        self.queue: collections.deque[Multiplication] = collections.deque()
        self.committed = 0
        self.dropped: dict[int, Matrix] = {}

    def issue(self, a: SharedView, b: SharedView, addend: Matrix, site: Site) -> Matrix:
        """Begin a multiplication; the matrix that it will give."""
        operation = Multiplication(self, self.committed, a, b, addend, site)
        self.queue.append(operation)
        self.dropped.pop(id(addend), None)
        self.dropped[id(operation.result)] = operation.result
        return operation.result

    def step(self) -> bool:
        """Do the oldest one; whether it was the last."""
        if self.queue:
            self.queue.popleft().execute()
        return not self.queue

    def wait(self, n: int) -> None:
        """Do all but the last `n` groups."""
        while self.queue and self.queue[0].group < self.committed - n:
            self.queue.popleft().execute()

    def finish(self) -> None:
        """At the block's end: nothing may be in flight, no result left where it was."""
        if self.queue:
            site = self.queue[0].site
            raise self.machine.fault(
                UnfinishedError,
                f"the block ended with {len(self.queue)} wgmma.mma of warp group {self.number} in flight; "
                "wgmma.commit_group and wgmma.wait_group(acc, 0) must come before",
                site=site,
            )
        for matrix in self.dropped.values():
            raise self.machine.fault(
                UnfinishedError,
                "the result of this wgmma.mma was given neither to wgmma.wait_group nor to a further wgmma.mma: "
                "acc = wgmma.mma(a, b, acc) returns the accumulator, it does not change the one that it is given",
                site=matrix.site,
                threads=range(128 * self.number, 128 * self.number + 128),
            )
