"""What lies in shared memory, described at compile time: tiles, barriers, and how an index becomes an address.

Everything here is plain Python. `types.py` gives these descriptions to Numba, the interpreter uses them as they are,
so a kernel's addresses come from one formula in both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from .machine import machine

SWIZZLES = (128, 64, 32, 0, None)
HALVES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
"""The floats of 16 bits by PTX's names."""
ELEMENT_TYPES = (
    *("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
)
NUMBA_NAMES = {"__nv_bfloat16": "bfloat16"}
"""Element types that Numba has under another name."""


def as_dtype(dtype: Any) -> np.dtype:
    """The NumPy dtype of a NumPy, ml_dtypes or Numba scalar type, or of a dtype's name.

    Raises
    ------
    TypeError
        If `dtype` is none of `ELEMENT_TYPES`.
    """
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", repr(dtype))
    name = NUMBA_NAMES.get(name, name)
    if name not in ELEMENT_TYPES:
        raise TypeError(f"dtype must be one of {', '.join(ELEMENT_TYPES)}; got {dtype!r}")
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


@dataclasses.dataclass(frozen=True)
class Term:
    """One summand of an address: ``(index // divisor) % modulus * stride`` bytes; a modulus of 0 means none."""

    stride: int
    divisor: int = 1
    modulus: int = 0

    def __call__(self, index: Any) -> Any:
        """Of an integer, or of an array of them."""
        quotient = index // self.divisor
        return (quotient % self.modulus if self.modulus else quotient) * self.stride


class Description:
    """What a kernel captures and knows when it is compiled. Printed, it tells all that it is.

    Attributes
    ----------
    constants : tuple of str
        The attributes that a kernel may read.
    """

    constants: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        if not cls.__module__.startswith("hopper_numba."):
            raise TypeError(
                f"{cls.__name__}: {cls.__bases__[0].__name__} takes no subclasses; kernels would be compiled as of it"
            )


class Shared(Description):
    """The description of something in shared memory. Subclasses say how attributes and items are found.

    Attributes
    ----------
    nbytes : int
        Bytes taken in shared memory.
    alignment : int
        Bytes its address is a multiple of.
    methods : dict of str to function
        What a view of it can do besides, when it is interpreted.
    """

    nbytes: int
    alignment: int
    methods: dict[str, Callable] = {}  # noqa: RUF012

    def attribute(self, name: str) -> tuple[Shared, int] | None:
        """The description and byte offset of the attribute `name`, or None."""
        return None

    def open(self) -> Any:
        """In a kernel: the block's dynamic shared memory, described so."""
        return machine().dynamic_shared(self)

    def item(self, indices: int) -> tuple[Shared, tuple[tuple[Term, ...], ...]]:
        """The description that `indices` indices select, and the terms of each index.

        Raises
        ------
        TypeError
            If it cannot be indexed so.
        """
        raise TypeError(f"{self} cannot be indexed")


@dataclasses.dataclass(frozen=True)
class Barriers(Shared):
    """`count` mbarrier objects of 8 bytes each; indexed where there are several. Made by `barriers`."""

    count: int | None = None

    @property
    def nbytes(self) -> int:
        return 8 * (self.count or 1)

    alignment = 8

    def item(self, indices: int) -> tuple[Shared, tuple[tuple[Term, ...], ...]]:
        if self.count is None or indices != 1:
            raise TypeError(f"{self} cannot be indexed with {indices} indices")
        return Barriers(), ((Term(8),),)

    def __str__(self) -> str:
        return "barrier" if self.count is None else f"barriers({self.count})"


@dataclasses.dataclass(frozen=True)
class Element(Shared):
    """The address of one element of a tile; what `Tile.address` gives."""

    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize

    @property
    def alignment(self) -> int:
        return self.dtype.itemsize

    def __str__(self) -> str:
        return f"element of {self.dtype}"


@dataclasses.dataclass(frozen=True)
class Tile(Shared):
    """A tile of elements, laid out as TMA writes it and WGMMA reads it. Made by `tile`.

    A tile of ``(rows, columns)`` is made of panels, each `rows` rows of one swizzle span; further dimensions in front
    count whole tiles.

    Attributes
    ----------
    dtype : numpy.dtype
    shape : tuple of int
        As indices count: of a transposed view the reverse of `stored_shape`.
    stored_shape : tuple of int
        As it lies in memory, rows by columns.
    swizzle : {128, 64, 32, 0, None}
        Span in bytes of the swizzle; 0: panels of 16 bytes, WGMMA's no-swizzle mode; None: C order, no panels.
    panel_nbytes : int
        Bytes from one panel to the next.
    transposed : bool
        Whether it is read as its transpose.
    sliced : bool
        Whether it is a part of a tile, hence not contiguous.
    """

    dtype: np.dtype
    stored_shape: tuple[int, ...]
    swizzle: int | None
    panel_nbytes: int
    transposed: bool = False
    sliced: bool = False

    constants = ("shape", "nbytes", "panels")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.stored_shape[::-1] if self.transposed else self.stored_shape

    @property
    def rows(self) -> int:
        """Of the tile as it lies in memory."""
        return self.stored_shape[-2] if len(self.stored_shape) > 1 else 1

    @property
    def columns(self) -> int:
        """Of the tile as it lies in memory."""
        return self.stored_shape[-1]

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def span(self) -> int:
        """Bytes of a row that lie next to each other: one panel's."""
        return self.columns * self.itemsize if self.swizzle is None else self.swizzle or 16

    @property
    def panels(self) -> int:
        return max(1, self.columns * self.itemsize // self.span)

    @property
    def alignment(self) -> int:
        return 8 * self.swizzle if self.swizzle else 128

    @property
    def nbytes(self) -> int:
        if self.sliced:
            raise TypeError(f"{self} is part of a tile and has no size of its own")
        return math.prod(self.shape) * self.itemsize

    @property
    def box(self) -> tuple[int, ...]:
        """Extents of one TMA box in elements, innermost first as PTX has them."""
        return (self.span // self.itemsize, *reversed(self.stored_shape[:-1]))

    @property
    def T(self) -> Tile:
        if len(self.shape) != 2:
            raise TypeError(f"only a tile of two dimensions has a transposed view; got {self}")
        return dataclasses.replace(self, transposed=not self.transposed)

    def attribute(self, name: str) -> tuple[Shared, int] | None:
        return (self.T, 0) if name == "T" else None

    def item(self, indices: int) -> tuple[Shared, tuple[tuple[Term, ...], ...]]:
        leading = len(self.shape) - 2
        if self.transposed or not 1 <= indices <= leading:
            raise TypeError(
                f"{self} takes {max(leading, 0)} indices, which pick a whole tile; got {indices}. Use .address(row, "
                "column) for an element, .part(rows, columns, i, j) for a part"
            )
        strides = [math.prod(self.shape[i + 1 :]) * self.itemsize for i in range(indices)]
        return dataclasses.replace(self, stored_shape=self.shape[indices:]), tuple((Term(s),) for s in strides)

    def address(self) -> tuple[Element, tuple[tuple[Term, ...], ...]]:
        """The terms of a (row, column) pair in the order of `shape`; `swizzled` is still to be applied."""
        if len(self.shape) > 2:
            raise TypeError(f"pick one tile of {self} first")
        per_panel = self.span // self.itemsize
        column = (Term(self.panel_nbytes, per_panel), Term(self.itemsize, 1, per_panel))
        terms = ((Term(self.span),), column) if len(self.shape) == 2 else (column,)
        return Element(self.dtype), terms[::-1] if self.transposed else terms

    def part(self, rows: int, columns: int) -> tuple[Tile, tuple[tuple[Term, ...], ...]]:
        """The part of `rows` by `columns`, as `shape` counts them, and the terms of its block indices.

        Raises
        ------
        ValueError
            If the parts do not divide the tile, or are not whole swizzle atoms.
        """
        if len(self.shape) != 2:
            raise TypeError(f"pick one tile of {self} first")
        if self.transposed:
            inner, terms = self.T.part(columns, rows)
            return inner.T, terms[::-1]
        per_panel = self.span // self.itemsize
        if rows < 1 or columns < 1 or self.rows % rows or self.columns % columns:
            raise ValueError(f"parts of {rows} x {columns} do not divide {self}")
        if self.swizzle is not None and rows % 8:
            raise ValueError(f"a part of {self} has whole swizzle atoms of 8 rows; got {rows} rows")
        if columns * self.itemsize % 16 or (columns % per_panel and per_panel % columns):
            raise ValueError(
                f"a part of {self} is a multiple of 16 bytes wide and divides, or is a multiple of, the panel of "
                f"{per_panel} columns; got {columns}"
            )
        in_panel = max(1, per_panel // columns)
        whole = max(1, columns // per_panel)
        column_terms = [Term(self.panel_nbytes * whole, in_panel)]
        if in_panel > 1:
            column_terms.append(Term(columns * self.itemsize, 1, in_panel))
        part = dataclasses.replace(self, stored_shape=(rows, columns), sliced=True)
        return part, ((Term(rows * self.span),), tuple(column_terms))

    def swizzled(self, address: Any) -> Any:
        """`address`, an integer or an array, with bits 7.. xored into bits 4.. (PTX ISA, "Swizzling Modes")."""
        mask = self.swizzle_mask
        return address ^ ((address & mask) >> 3)

    @property
    def swizzle_mask(self) -> int:
        """The address bits that are xored into those three below: 3, 2, 1 or 0 bits from bit 7 on."""
        return {128: 0x380, 64: 0x180, 32: 0x080}.get(self.swizzle or 0, 0)

    def __str__(self) -> str:
        mode = "C order" if self.swizzle is None else f"swizzle {self.swizzle}"
        view = f", panels {self.panel_nbytes} bytes apart" if self.sliced else ""
        return f"tile({self.dtype}, {self.stored_shape}, {mode}{view}){'.T' if self.transposed else ''}"


def check_box(tile: Tile) -> None:
    """Refuse a tile that TMA cannot copy.

    Raises
    ------
    ValueError
        With what the tile must be and what it is; the caller names who wants it.
    """
    if tile.transposed or tile.sliced:
        raise ValueError(f"must be a whole tile as it lies in memory; got {tile}")
    if len(tile.shape) > 5:
        raise ValueError(f"must have 1 to 5 dimensions; got {tile}")
    if len(tile.shape) > 2 and tile.panels > 1:
        raise ValueError(f"must be as wide as its swizzle where it has more than two dimensions; got {tile}")
    if max(tile.box) > 256:
        raise ValueError(f"must have a box of at most 256 elements along a dimension; got {tile.box} of {tile}")


def barriers(count: int | None = None) -> Barriers:
    """Describe `count` mbarriers in shared memory, or one that is not indexed.

    Parameters
    ----------
    count : int, optional
        At least 1.

    Raises
    ------
    ValueError
        If `count` is no positive integer.

    Notes
    -----
    PTX ISA, "Contents of the mbarrier object".
    """
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise ValueError(f"barriers: count must be a positive integer; got {count!r}")
    return Barriers(count)


def tile(dtype: Any, shape: tuple[int, ...], swizzle: int | None = 128) -> Tile:
    """Describe a tile in shared memory.

    Parameters
    ----------
    dtype : dtype or its name
        NumPy's, ml_dtypes' or Numba's.
    shape : tuple of int
        ``(rows, columns)`` in elements; dimensions in front count whole tiles (the stages of a ring). A vector of
        shape ``(columns,)`` is always in C order.
    swizzle : {128, 64, 32, 0, None}
        Bytes of the swizzle's span, by which a row is cut into panels. 0 cuts panels of 16 bytes, WGMMA's no-swizzle
        mode. None keeps C order, which WGMMA reads only where a row has 16 bytes.

    Returns
    -------
    Tile

    Raises
    ------
    TypeError, ValueError
        With the argument, its value and the rule.

    Notes
    -----
    PTX ISA, "Tensor swizzling modes" and "Shared Memory Matrix Layout".
    """
    dtype = as_dtype(dtype)
    if not isinstance(shape, tuple) or not shape or not all(isinstance(n, int) and n > 0 for n in shape):
        raise ValueError(f"tile: shape must be a tuple of positive integers; got {shape!r}")
    if swizzle not in SWIZZLES or isinstance(swizzle, bool):
        raise ValueError(f"tile: swizzle must be one of {SWIZZLES}; got {swizzle!r}")
    if len(shape) == 1:
        swizzle = None
    row = shape[-1] * dtype.itemsize
    if row % 16:
        raise ValueError(f"tile: a row must be a multiple of 16 bytes; got {shape[-1]} x {dtype} = {row} bytes")
    if swizzle is None:
        result = Tile(dtype, shape, None, math.prod(shape[-2:]) * dtype.itemsize)
        if len(shape) > 2 and result.panel_nbytes % 128:
            raise ValueError(f"tile: each tile of {shape} must be a multiple of 128 bytes; got {result.panel_nbytes}")
        return result
    span = swizzle or 16
    if row % span:
        fitting = next(s for s in (64, 32, 0) if row % (s or 16) == 0)
        raise ValueError(
            f"tile: a row must be a multiple of the swizzle's {span} bytes; got {row} bytes: "
            f"swizzle={fitting} fits them"
        )
    if shape[-2] % 8:
        raise ValueError(f"tile: rows must be a multiple of 8, the height of a swizzle atom; got {shape[-2]}")
    return Tile(dtype, shape, swizzle, shape[-2] * span)
