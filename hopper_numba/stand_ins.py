"""Stand-ins for what `numba.cuda` needs a GPU for, so that scripts run on the CPU as they are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numba.cuda
import numpy as np
from numba.cuda import jit
from numba.cuda.args import ArgHint
from numba.cuda.dispatcher import CUDADispatcher

from hopper_numba import interpreter

PLAIN_SHARED_NBYTES = 48 << 10
"""Dynamic shared memory that a plain kernel can have: Numba does not raise the limit."""

TASKS = 256
"""Threads of a block where ``forall`` leaves them to the driver."""


@contextmanager
def stand_ins() -> Iterator[None]:
    """Let plain ``cuda.jit`` kernels that are launched inside be interpreted, in all threads, and need no driver.

    Kernels are not compiled, and signatures not heeded. Arrays made by ``cuda.to_device`` and the like are
    in host memory, work on streams is done at once, and events take the host's time. How kernels are interpreted is
    for `interpret` to say. What has no stand-in still needs a GPU.
    """
    replaced = [(owner, name, vars(owner)[name]) for owner, names in _STAND_INS for name in names]
    for owner, names in _STAND_INS:
        for name, stand_in in names.items():
            setattr(owner, name, stand_in)
    try:
        yield
    finally:
        for owner, name, original in replaced:
            setattr(owner, name, original)


class StandInArray(np.ndarray):
    """The stand-in of a device array: a NumPy array that can also be copied as one in GPU memory is."""

    stream = 0

    def copy_to_host(self, ary: np.ndarray | None = None, stream: Any = 0) -> np.ndarray:
        """A copy as an ordinary array; `ary`, if it is given."""
        if ary is None:
            return np.array(self, subok=False)
        _check_alike(self, ary)
        ary[...] = self
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Take the elements of another array."""
        _check_alike(self, ary)
        self[...] = ary

    def is_c_contiguous(self) -> bool:
        """Whether it lies in C order without gaps."""
        return self.flags.c_contiguous

    def is_f_contiguous(self) -> bool:
        """Whether it lies in Fortran's order without gaps."""
        return self.flags.f_contiguous


def _check_alike(array: np.ndarray, other: Any) -> None:
    other = np.asarray(other)
    if array.dtype != other.dtype:
        raise TypeError(f"incompatible dtype: {array.dtype} and {other.dtype}")
    if array.shape != other.shape:
        raise ValueError(f"incompatible shape: {array.shape} and {other.shape}")


class Stream:
    """The stand-in of a stream: what is queued on it is done."""

    def __int__(self) -> int:
        return 0

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 0

    def synchronize(self) -> None:
        """Nothing to wait for."""

    @contextmanager
    def auto_synchronize(self) -> Iterator[Stream]:
        yield self


class Event:
    """The stand-in of an event: the host's time at which it was recorded."""

    def __init__(self, timing: bool = True) -> None:
        self._seconds: float | None = None

    def record(self, stream: Any = 0) -> None:
        """Take the time."""
        self._seconds = time.perf_counter()

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = 0) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, evtend: Event) -> float:
        """Milliseconds from this event to another."""
        if self._seconds is None or evtend._seconds is None:
            raise ValueError("both events must be recorded before the time between them is asked for")
        return (evtend._seconds - self._seconds) * 1e3


class Device:
    """The stand-in of the current device: a Hopper GPU as an H200 is."""

    id = 0
    name = b"the interpreter of hopper_numba"
    compute_capability = (9, 0)
    MULTIPROCESSOR_COUNT = 132
    WARP_SIZE = 32
    MAX_THREADS_PER_BLOCK = 1024


class Launch:
    """The stand-in of a plain kernel with its grid, block, stream and dynamic shared memory; calling it interprets."""

    def __init__(
        self, kernel: CUDADispatcher, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0
    ) -> None:
        if sharedmem > PLAIN_SHARED_NBYTES:
            raise ValueError(
                f"{kernel.__name__}: a plain cuda.jit kernel has at most {PLAIN_SHARED_NBYTES} bytes of dynamic shared "
                f"memory; got {sharedmem}. hopper_numba.jit(shared=…) takes more"
            )
        self.kernel, self.sharedmem = kernel, sharedmem
        self.grid, self.block = _extents(griddim), _extents(blockdim)

    def __call__(self, *args: Any) -> None:
        given = tuple(arg.value if isinstance(arg, ArgHint) else arg for arg in args)
        interpreter.run(self.kernel, given, self.grid, self.block, dynamic_shared=self.sharedmem)


def _extents(given: Any) -> Any:
    return tuple(given) if isinstance(given, list | tuple) else given


def _forall(kernel: CUDADispatcher, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Callable:
    if ntasks == 0:
        return lambda *args: None
    threads = tpb or TASKS
    return Launch(kernel, math.ceil(ntasks / threads), threads, stream, sharedmem)


def _to_device(obj: Any, stream: Any = 0, copy: bool = True, to: Any = None) -> StandInArray:
    if to is None:
        found = np.asarray(obj)
        to = np.empty_like(found, subok=False).view(StandInArray)
    if copy:
        to.copy_to_device(obj)
    return to


def _device_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: Any = "C", stream: Any = 0
) -> StandInArray:
    return StandInArray(shape, dtype, strides=strides, order=order)


def _device_array_like(ary: Any, stream: Any = 0) -> StandInArray:
    return np.empty_like(ary, subok=False).view(StandInArray)


def _pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: Any = "C") -> np.ndarray:
    return np.ndarray(shape, dtype, strides=strides, order=order)


def _pinned_array_like(ary: Any) -> np.ndarray:
    return np.empty_like(ary, subok=False)


@contextmanager
def _pinned(*arylist: Any) -> Iterator[None]:
    yield


def _jit(func_or_sig: Any = None, *args: Any, **kwargs: Any) -> Any:
    """As ``cuda.jit``; a signature would have it compile at once, and is left out."""
    return jit(func_or_sig if isinstance(func_or_sig, FunctionType) else None, *args, **kwargs)


def _configure(kernel: CUDADispatcher, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> Launch:
    return Launch(kernel, griddim, blockdim, stream, sharedmem)


_STAND_INS: list[tuple[Any, dict[str, Any]]] = [
    (
        numba.cuda,
        {
            "jit": _jit,
            "to_device": _to_device,
            "device_array": _device_array,
            "device_array_like": _device_array_like,
            "pinned_array": _pinned_array,
            "pinned_array_like": _pinned_array_like,
            "pinned": _pinned,
            "stream": Stream,
            "default_stream": Stream,
            "event": Event,
            "event_elapsed_time": Event.elapsed_time,
            "synchronize": lambda: None,
            "is_available": lambda: True,
            "get_current_device": Device,
        },
    ),
    (CUDADispatcher, {"configure": _configure, "forall": _forall}),
]
