"""Numba's and NumPy's scalar types as a kernel calls them: conversions as the GPU does them.

Integers are Python's, as wide as they need to be: Numba's own promotion ends at 64 bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hopper_numba.intrinsics.tiles import ELEMENT_TYPES, NUMBA_NAMES, as_dtype


class Scalar:
    """A scalar type that kernels call to convert, and pass where a dtype is wanted.

    Attributes
    ----------
    name : str
    dtype : numpy.dtype
    """

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype, self.name, self.__name__ = dtype, dtype.name, dtype.name

    def __call__(self, value: Any = 0) -> Any:
        return convert(value, self.dtype)

    def __eq__(self, other: object) -> bool:
        return getattr(other, "name", None) == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


def wrap(value: int, dtype: np.dtype) -> int:
    """The low bits of `value`, as an integer of `dtype`."""
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def convert(value: Any, dtype: np.dtype) -> Any:
    """`value` as a kernel would hold it after a conversion to `dtype`: integers are Python's.

    Integers wrap; floats that are out of range become the nearest that there is, and NaN 0.
    """
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        low = -(1 << bits - 1) if dtype.kind == "i" else 0
        high = low + (1 << bits) - 1
        try:
            number = int(value)
        except ValueError:
            if not math.isnan(value):
                raise
            return 0
        except OverflowError:
            return high if value > 0 else low
        if low <= number <= high:
            return number
        return wrap(number, dtype) if isinstance(value, int | np.integer) else low if number < low else high
    return bool(value) if dtype.kind == "b" else dtype.type(value)


def loaded(value: Any) -> Any:
    """An array's element as a kernel holds it: Numba promotes integers, so they are Python's."""
    kind = value.dtype.kind
    return int(value) if kind in "iu" else bool(value) if kind == "b" else value


def scalar_type(value: Any) -> Scalar | None:
    """The stand-in of a Numba or NumPy scalar type; None for anything else."""
    if isinstance(value, Scalar):
        return value
    if isinstance(value, type):
        if not issubclass(value, np.generic):
            return None
        name = value.__name__
    elif type(value).__module__.startswith("numba."):
        name = getattr(value, "name", "")
        name = NUMBA_NAMES.get(name, name)
    else:
        return None
    if name in ("bool", "bool_"):
        return Scalar(np.dtype(bool))
    return Scalar(as_dtype(name)) if name in ELEMENT_TYPES else None
