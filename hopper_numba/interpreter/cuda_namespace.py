"""What `numba.cuda` is in an interpreted kernel.

A kernel may use ``threadIdx``, ``blockIdx``, ``blockDim``, ``gridDim`` (``.x``, ``.y``, ``.z``), ``grid(n)``,
``gridsize(n)``, ``laneid``, ``warpsize``, ``syncthreads()``, ``syncwarp(mask)``, ``shared.array(shape, dtype,
alignment=…)`` with shape 0 for dynamic shared memory, and ``local.array(shape, dtype)``. Everything else is refused by
its name, whether it is reached as ``cuda.name`` or imported.
"""

from __future__ import annotations

import operator
import sys
from typing import Any, NoReturn

import numba.cuda
import numpy as np

from .arrays import KernelArray, LocalArray, extents
from .scalars import scalar_type
from .source import kernel_frame

ALLOWED = ["threadIdx", "blockIdx", "blockDim", "gridDim", "grid", "gridsize", "laneid", "warpsize", "syncthreads"]
ALLOWED += ["syncwarp", "shared", "local"]


class _Place:
    """``threadIdx`` or ``blockIdx``: of the running thread."""

    __slots__ = ("_find",)

    def __init__(self, find: Any) -> None:
        self._find = find

    @property
    def x(self) -> int:
        return self._find()[0]

    @property
    def y(self) -> int:
        return self._find()[1]

    @property
    def z(self) -> int:
        return self._find()[2]


class _Lane:
    """``laneid`` by itself: a number that differs from thread to thread."""

    __slots__ = ("_machine",)

    def __init__(self, machine: Any) -> None:
        self._machine = machine

    def __index__(self) -> int:
        return self._machine.thread.lane

    __int__ = __hash__ = __index__


def _of_lane(operate: Any) -> Any:
    return lambda lane, other: operate(lane.__index__(), other)


def _of_other(operate: Any) -> Any:
    return lambda lane, other: operate(other, lane.__index__())


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift"):
    setattr(_Lane, f"__{_name.strip('_')}__", _of_lane(getattr(operator, _name)))
    setattr(_Lane, f"__r{_name.strip('_')}__", _of_other(getattr(operator, _name)))
for _name in ("lt", "le", "eq", "ne", "gt", "ge"):
    setattr(_Lane, f"__{_name}__", _of_lane(getattr(operator, _name)))


class Refused:
    """A member of numba.cuda that the interpreter does not have."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"the interpreter has no cuda.{self._name}; a kernel may use cuda.{', cuda.'.join(ALLOWED)}"
        )

    __call__ = __getitem__ = __enter__ = __iter__ = _refuse

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        Refused(f"{self._name}.{name}")._refuse()

    def __repr__(self) -> str:
        return f"<cuda.{self._name}, refused>"


class _Shared:
    """``cuda.shared``."""

    def __init__(self, machine: Any) -> None:
        self._machine = machine

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> KernelArray:
        """The block's array that this place in the source declares; of shape 0: all dynamic shared memory."""
        dtype, block = _dtype(dtype), self._machine.thread.block
        found = extents(shape)
        name = f"shared.array({shape}, {dtype})"
        if found == (0,):
            return block.dynamic_array(name, dtype)
        frame = kernel_frame(sys._getframe(1))
        # each copy of a function has globals of its own: functions that a factory makes share all else
        site = (id(frame.f_globals), id(frame.f_code), frame.f_lasti) if frame is not None else ()
        return block.static_array(site, name, found, dtype, max(alignment or 1, dtype.itemsize))

    def __getattr__(self, name: str) -> NoReturn:
        Refused(f"shared.{name}")._refuse()


class _Local:
    """``cuda.local``."""

    def __init__(self, machine: Any) -> None:
        self._machine = machine

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> LocalArray:
        """An array of the running thread."""
        dtype = _dtype(dtype)
        return LocalArray.of(self._machine, f"local.array({shape}, {dtype})", extents(shape), dtype)

    def __getattr__(self, name: str) -> NoReturn:
        Refused(f"local.{name}")._refuse()


class CudaNamespace:
    """The stand-in of `numba.cuda` in the copies of a kernel's functions.

    Parameters
    ----------
    machine : Machine
    """

    warpsize = 32

    def __init__(self, machine: Any) -> None:
        self._machine = machine
        self.threadIdx = _Place(lambda: machine.thread.position)
        self.blockIdx = _Place(lambda: machine.thread.block.index)
        self.blockDim = _Place(lambda: machine.block_shape)
        self.gridDim = _Place(lambda: machine.grid)
        self.shared, self.local = _Shared(machine), _Local(machine)

    @property
    def laneid(self) -> int:
        return self._machine.thread.lane

    def grid(self, ndim: int) -> Any:
        """The place of the running thread in the whole grid."""
        thread = self._machine.thread
        places = [
            i * n + t for i, n, t in zip(thread.block.index, self._machine.block_shape, thread.position, strict=True)
        ]
        return _first(places, ndim, "grid")

    def gridsize(self, ndim: int) -> Any:
        """The extents of the whole grid in threads."""
        machine = self._machine
        return _first([g * b for g, b in zip(machine.grid, machine.block_shape, strict=True)], ndim, "gridsize")

    def syncthreads(self) -> None:
        """Wait for all threads of the block that have not exited."""
        self._machine.named_barrier(0).sync()

    def syncwarp(self, mask: int = 0xFFFFFFFF) -> None:
        """Wait for the threads of the warp that `mask` names."""
        thread = self._machine.thread
        thread.block.warp_syncs[thread.warp].sync(int(mask))

    def member(self, name: str) -> Any:
        """What ``from numba.cuda import name`` gives."""
        if name == "laneid":
            return _Lane(self._machine)
        return getattr(self, name) if name in ALLOWED else Refused(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        scalar = scalar_type(getattr(numba.cuda, name, None))
        if scalar is not None:
            return scalar
        return Refused(name)._refuse()


def _first(places: list[int], ndim: int, name: str) -> Any:
    if ndim not in (1, 2, 3):
        raise ValueError(f"cuda.{name}: ndim must be 1, 2 or 3; got {ndim!r}")
    return places[0] if ndim == 1 else tuple(places[:ndim])


def _dtype(dtype: Any) -> np.dtype:
    scalar = scalar_type(dtype if not isinstance(dtype, np.dtype) else dtype.type)
    if scalar is None:
        raise TypeError(f"dtype must be a scalar type; got {dtype!r}")
    return scalar.dtype
