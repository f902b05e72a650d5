"""WGMMA: the matrix unit of a warp group, and accumulators and fragments of A, which are values."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterator, Sequence
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
    touched : int
        How often the warp group had executed ``wgmma.fence`` when ordinary instructions last touched its registers.
    """

    __slots__ = ("in_flight", "matrix", "thread", "touched")

    def __init__(self, matrix: Matrix, thread: int, in_flight: bool, touched: int = -1) -> None:
        self.matrix, self.thread, self.in_flight, self.touched = matrix, thread, in_flight, touched

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

        Values are two float32 or two integers, or one integer with two float16.
        """
        if self.in_flight or self.matrix.value is None:
            raise machine().fault(
                AccumulatorInFlightError,
                "an accumulator is read in flight: acc = wgmma.wait_group(acc, 0) must come before, of the same acc",
                issued=self.matrix.site,
            )
        self.touched = machine().fences()
        rows, columns = _places(self.thread, self.n)
        low, high = self.matrix.value[rows, columns], self.matrix.value[rows, columns + 1]
        values: Iterator[tuple]
        if self.dtype == np.float32:
            values = zip(low, high, strict=True)
        elif self.dtype == np.int32:
            values = zip(low.tolist(), high.tolist(), strict=True)
        else:
            packed = low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << 16
            values = ((v,) for v in packed.tolist())
        return zip(rows.tolist(), columns.tolist(), values, strict=True)

    def blocks(self) -> Iterator[tuple[int, int, tuple]]:
        """First row and column of the blocks of 16 x 16 of the thread's warp, and the values held of each."""
        row, values = self.thread // 32 * 16, [value for _, _, pair in self.pairs() for value in pair]
        count = len(values) * 16 // self.n
        for block in range(self.n // 16):
            yield row, 16 * block, tuple(values[block * count : (block + 1) * count])

    def __repr__(self) -> str:
        return f"<{'in flight' if self.in_flight else 'accumulator'}: {self.dtype} 64x{self.n}>"


class Fragment:
    """The part of a matrix A of 64 rows of 32 bytes that a thread holds: four registers, as integers.

    It has a tile's `dtype`, `shape` and `transposed`.
    """

    __slots__ = ("dtype", "registers", "touched")
    transposed = False

    def __init__(self, dtype: np.dtype, registers: tuple[int, ...], touched: int) -> None:
        self.dtype, self.registers, self.touched = dtype, registers, touched

    @property
    def fragment_shape(self) -> tuple[int, int]:
        return (64, 32 // self.dtype.itemsize)

    shape = fragment_shape

    def __repr__(self) -> str:
        return f"<fragment: {self.dtype} {self.shape[0]}x{self.shape[1]}>"


def whole(fragments: list[Fragment]) -> np.ndarray:
    """The matrix of which the threads of a warp group hold fragments."""
    # axes: warp, lane // 4, lane % 4, then the registers' column half and row half
    held = np.array([fragment.registers for fragment in fragments], np.uint32).reshape(4, 8, 4, 2, 2)
    dtype = fragments[0].dtype
    return np.ascontiguousarray(held.transpose(0, 4, 1, 3, 2)).view(dtype).reshape(fragments[0].shape)


def numbers(elements: np.ndarray) -> np.ndarray:
    """Elements of an operand as the hardware multiplies them, in a type in which their products are exact."""
    if elements.dtype == np.float32:  # tf32
        return (elements.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return elements.astype(np.float64 if elements.dtype.kind in "iu" else np.float32)


@functools.lru_cache(maxsize=4096)
def _elements(tile: Tile, base: int) -> np.ndarray:
    """Where the elements of a tile lie, as indices from address 0, in the order of its shape."""
    _, (rows, columns) = tile.address()
    height, width = tile.shape
    offsets = sum(term(np.arange(height)) for term in rows)[:, None] + sum(term(np.arange(width)) for term in columns)
    return tile.swizzled(base + offsets) // tile.itemsize


def elements_of(operand: SharedView) -> np.ndarray:
    """Where the elements of an operand lie."""
    return _elements(operand.description, operand.base)


@dataclasses.dataclass(frozen=True)
class Product:
    """What a multiplication computes.

    Attributes
    ----------
    a : SharedView or numpy.ndarray
        In shared memory, or as registers held it.
    b : SharedView
    addend : Matrix
    scale_d : bool
        Whether `addend` is added.
    negate : bool
        Whether the product is negated: one of the operands is, and not the other.
    """

    a: SharedView | np.ndarray
    b: SharedView
    addend: Matrix
    scale_d: bool
    negate: bool


class Multiplication:
    """A product on its way: its operands in shared memory are read when it is done."""

    __slots__ = ("group", "memory", "product", "result", "site", "unit")

    def __init__(self, unit: MatrixUnit, group: int, product: Product, site: Site) -> None:
        self.unit, self.group, self.product, self.site = unit, group, product, site
        self.memory = site.thread.block.memory
        self.result = Matrix(product.addend.dtype, product.addend.n, None, site)

    def _fault(self, kind: type, message: str) -> Exception:
        return self.unit.fault(kind, message, self.site)

    def _read(self, operand: SharedView | np.ndarray) -> np.ndarray:
        if isinstance(operand, np.ndarray):
            return numbers(operand)
        tile = operand.description
        found = self.memory.gather(elements_of(operand), tile.itemsize, f"{tile} by wgmma.mma", self._fault)
        return numbers(found.view(tile.dtype))

    def execute(self) -> None:
        """Multiply."""
        product = self.product
        value = self._read(product.a) @ self._read(product.b)
        if product.negate:
            value = -value
        if product.scale_d:
            addend = product.addend.value
            if addend is None:
                raise self._fault(DivergenceError, "wgmma.mma: acc is in flight in another warp group")
            value = np.add(addend, value, dtype=value.dtype)
        if self.result.dtype == np.int32:
            value = value.astype(np.int64)  # of which int32 keeps the low bits
        # a float16 accumulator is rounded by each instruction
        self.result.value = value.astype(self.result.dtype, copy=False)


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
    held : dict
        Fragments, with the last multiplication that reads each, not given to a wait for it yet; by their ids.
    """

    wakes = False

    def __init__(self, machine: Any, number: int) -> None:
        self.machine, self.number = machine, number
        self.queue: collections.deque[Multiplication] = collections.deque()
        self.committed = self.fences = 0
        self.dropped: dict[int, Matrix] = {}
        self.held: dict[int, tuple[Fragment, Multiplication]] = {}

    @property
    def site(self) -> Site:
        """Of the oldest one."""
        return self.queue[0].site

    def fault(self, kind: type, message: str, site: Site | None) -> Exception:
        """The error of an instruction of this warp group."""
        first = 128 * self.number
        return self.machine.fault(kind, message, site=site, threads=range(first, first + 128))

    def issue(self, product: Product, fragment: Fragment | None, site: Site) -> Matrix:
        """Begin a multiplication, of a fragment if A is one; the matrix that it will give."""
        operation = Multiplication(self, self.committed, product, site)
        self.queue.append(operation)
        self.dropped.pop(id(product.addend), None)
        self.dropped[id(operation.result)] = operation.result
        if fragment is not None:
            self.held[id(fragment)] = fragment, operation
        return operation.result

    def step(self) -> bool:
        """Do the oldest one; whether it was the last."""
        if self.queue:
            self.queue.popleft().execute()
        return not self.queue

    def wait(self, parts: Sequence[Accumulator | Fragment], n: int) -> None:
        """Do all but the last `n` groups, for these accumulators and fragments."""
        while self.queue and self.queue[0].group < self.committed - n:
            self.queue.popleft().execute()
        for part in parts:
            if isinstance(part, Accumulator):
                self.dropped.pop(id(part.matrix), None)
            elif id(part) in self.held and self.held[id(part)][1] not in self.queue:
                del self.held[id(part)]

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
            raise self.fault(
                UnfinishedError,
                "the result of this wgmma.mma was given neither to wgmma.wait_group nor to a further wgmma.mma: "
                "acc = wgmma.mma(a, b, acc) returns the accumulator, it does not change the one that it is given",
                matrix.site,
            )
        for fragment, operation in self.held.values():
            raise self.fault(
                UnfinishedError,
                f"{fragment} was not given to the wgmma.wait_group that waits for this wgmma.mma: its registers may be "
                "used for something else before they are read; acc, a = wgmma.wait_group((acc, a), 0) keeps them",
                operation.site,
            )
