"""`jit`: `numba.cuda.jit` with what Hopper needs and Numba-CUDA's dispatcher lacks.

A kernel is compiled for sm_90a by way of LTO-IR (`compile.py`), takes tensor maps as parameters, opens more than 48 KB
of shared memory, and is refused before the launch where its budgets cannot hold.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from cuda.bindings import driver
from cuda.core import LEGACY_DEFAULT_STREAM, Device, Kernel, LaunchConfig, ObjectCode, Stream, launch
from numba.cuda import types
from numba.cuda.dispatcher import CUDADispatcher
from numba.cuda.np.numpy_support import from_dtype

from hopper_numba import interpreter
from hopper_numba.arrays import DeviceArray, device_array
from hopper_numba.compile import Compiled, Resources, compile_kernel
from hopper_numba.device import require_hopper
from hopper_numba.fingerprint import reached
from hopper_numba.shared import SharedLayout
from hopper_numba.tensor_map import TensorMap

SHARED_NBYTES = 227 * 1024
"""Bytes of shared memory that a block of compute capability 9.0 may have (CUDA C++ Programming Guide)."""

REGISTERS = 64 * 1024
"""32-bit registers of an SM of compute capability 9.0, likewise."""


def jit(
    function: FunctionType | None = None,
    *,
    threads: int,
    shared: SharedLayout | None = None,
    min_blocks: int = 1,
    fastmath: bool = False,
) -> Any:
    """Make a kernel of a function, for Hopper.

    Parameters
    ----------
    function : function
        As for ``numba.cuda.jit``; device functions are made by that.
    threads : int
        Threads of a block, 1 to 1024.
    shared : SharedLayout, optional
        The block's dynamic shared memory, at most 227 KiB.
    min_blocks : int
        Blocks that shall fit on an SM at once: limits the registers of a thread.
    fastmath : bool

    Returns
    -------
    HopperKernel
        Launched by ``kernel[grid, block, stream](…)``.

    Raises
    ------
    TypeError, ValueError
        For an argument that breaks a rule, with its value.
    """
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 1024:
        raise ValueError(f"jit: threads must be 1 to 1024; got {threads!r}")
    if isinstance(min_blocks, bool) or not isinstance(min_blocks, int) or not 1 <= min_blocks <= 32:
        raise ValueError(f"jit: min_blocks must be 1 to 32; got {min_blocks!r}")
    if shared is not None and not isinstance(shared, SharedLayout):
        raise TypeError(f"jit: shared must be a SharedLayout; got {shared!r}")
    if shared is not None and shared.nbytes > SHARED_NBYTES:
        raise ValueError(f"jit: shared memory of a block is at most {SHARED_NBYTES} bytes; {shared.budget()}")

    def decorate(function: FunctionType) -> HopperKernel:
        return HopperKernel(function, threads, shared, min_blocks, fastmath)

    return decorate(function) if function is not None else decorate


class HopperKernel(CUDADispatcher):
    """A kernel for Hopper; made by `jit`.

    Attributes
    ----------
    threads : int
        Threads of a block.
    shared : SharedLayout or None
    compiled : dict of tuple to Compiled
        By signature.
    """

    def __init__(
        self, function: FunctionType, threads: int, shared: SharedLayout | None, min_blocks: int, fastmath: bool
    ) -> None:
        super().__init__(function, {"fastmath": fastmath})
        self.threads, self.shared, self.min_blocks = threads, shared, min_blocks
        self.compiled: dict[tuple, Compiled] = {}
        self._loaded: dict[tuple, Kernel] = {}
        self._configs: dict[tuple, LaunchConfig] = {}

    @property
    def shared_nbytes(self) -> int:
        """Bytes of dynamic shared memory of a block."""
        return self.shared.nbytes if self.shared is not None else 0

    @property
    def signatures(self) -> list[tuple]:
        return list(self.compiled)

    def compile(self, sig: tuple) -> Compiled:
        """Compile for a tuple of argument types; needs no GPU.

        Warns
        -----
        PtxasWarning
            For what ptxas found.

        Raises
        ------
        ValueError
            If the kernel's registers or shared memory exceed what an SM has.
        """
        signature = tuple(sig)
        if signature not in self.compiled:
            compiled = compile_kernel(
                self.py_func, signature, self.threads, self.min_blocks, self.targetoptions["fastmath"]
            )
            self._check_shared(compiled.resources)
            self._check_registers(compiled)
            self.compiled[signature] = compiled
        return self.compiled[signature]

    def _check_shared(self, resources: Resources) -> None:
        total = self.shared_nbytes + resources.static_shared
        if total > SHARED_NBYTES:
            raise ValueError(
                f"{self.__name__}: shared memory of a block is at most {SHARED_NBYTES} bytes; got {resources.static_shared} "
                f"static + {self.shared_nbytes} dynamic = {total}"
            )

    def _check_registers(self, compiled: Compiled) -> None:
        """Refuse what would hang: a `setmaxnreg.inc` waits until the block's pool has the registers."""
        if not {"warp.setmaxnreg_inc", "warp.setmaxnreg_dec"} & reached(self.py_func):
            return
        counts = [int(n) for n in re.findall(r"setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32\s+(\d+)", compiled.ptx)]
        groups, at_launch = self.threads // 128, compiled.resources.registers
        if self.threads < 128:
            raise ValueError(f"{self.__name__}: setmaxnreg takes whole warp groups; got {self.threads} threads a block")
        # at least one warp group executes each of them, the others the least
        needed = 128 * (sum(counts) + (groups - len(counts)) * min(counts)) if groups >= len(counts) else 0
        pool = at_launch * self.threads
        if needed > pool:
            raise ValueError(
                f"{self.__name__}: setmaxnreg asks for {' + '.join(map(str, counts))} registers a thread in {groups} warp "
                f"groups, {needed} at least; the block's pool is {at_launch} x {self.threads} threads = {pool}"
            )

    def _only(self) -> Compiled:
        if len(self.compiled) != 1:
            raise ValueError(
                f"{self.__name__} is compiled for {len(self.compiled)} signatures; kernel.compiled has them all"
            )
        return next(iter(self.compiled.values()))

    @property
    def ptx(self) -> str:
        """PTX of the one signature compiled."""
        return self._only().ptx

    @property
    def sass(self) -> str:
        """Machine code of the one signature compiled."""
        return self._only().sass

    @property
    def resources(self) -> Resources:
        """Registers, shared memory and spills of the one signature compiled."""
        return self._only().resources

    def __getitem__(self, configuration: Any) -> Launch:
        """``kernel[grid, block, stream]``, as Numba has it; `block` and `stream` may be left out.

        Parameters
        ----------
        configuration : tuple or int
            `grid`: an int or a tuple of 1 to 3, in blocks. Alone, a tuple grid is written ``kernel[(x, y),]``.
            `block`: must be `threads`. `stream`: a handle, or an object with ``__cuda_stream__``.
        """
        grid, block, stream = (*configuration, None, None)[:3] if isinstance(configuration, tuple) else (configuration, None, None)
        return Launch(self, _dimensions("grid", grid), self._block(block), stream)

    def configure(self, griddim: Any, blockdim: Any = None, stream: Any = None, sharedmem: int = 0) -> Launch:
        """As ``kernel[griddim, blockdim, stream]``."""
        return self[griddim, blockdim, stream]

    def _block(self, block: Any) -> tuple[int, ...]:
        if block is None:
            return (self.threads,)
        dimensions = _dimensions("block", block)
        if math.prod(dimensions) != self.threads:
            raise ValueError(
                f"{self.__name__}: block must have threads={self.threads} threads; got {block}. A grid alone is written "
                "kernel[(x, y),]"
            )
        return dimensions

    def load(self, signature: tuple, device: int) -> Kernel:
        """The kernel of a signature, loaded for a device."""
        found = self._loaded.get((signature, device))
        if found is None:
            compiled = self.compile(signature)
            found = ObjectCode.from_cubin(compiled.cubin).get_kernel(compiled.name)
            if self.shared_nbytes > 48 * 1024:
                attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                (status,) = driver.cuKernelSetAttribute(attribute, self.shared_nbytes, int(found.handle), device)
                if status != driver.CUresult.CUDA_SUCCESS:
                    raise RuntimeError(f"{self.__name__}: cuKernelSetAttribute({self.shared_nbytes}): {status.name}")
            self._loaded[signature, device] = found
        return found

    def launch_config(self, grid: tuple[int, ...], block: tuple[int, ...]) -> LaunchConfig:
        """The launch's configuration, made once for each grid."""
        found = self._configs.get((grid, block))
        if found is None:
            found = self._configs[grid, block] = LaunchConfig(grid=grid, block=block, shmem_size=self.shared_nbytes)
        return found


class Launch:
    """A kernel with its grid, block and stream; calling it launches."""

    __slots__ = ("block", "grid", "kernel", "stream")

    def __init__(self, kernel: HopperKernel, grid: tuple[int, ...], block: tuple[int, ...], stream: Any) -> None:
        self.kernel, self.grid, self.block, self.stream = kernel, grid, block, stream

    def __call__(self, *args: Any) -> None:
        """Launch, or interpret where that was chosen.

        Raises
        ------
        TypeError
            For an argument that no kernel takes.
        ValueError
            For arguments on several devices, and for budgets that cannot hold.
        RuntimeError
            If there is no Hopper GPU.
        """
        kernel = self.kernel
        if interpreter.active() is not None:
            interpreter.run(kernel.py_func, args, self.grid, self.block, dynamic_shared=kernel.shared_nbytes)
            return
        signature, parameters, device = [], [], None
        for position, argument in enumerate(args):
            ty, values, on = _argument(argument, position)
            signature.append(ty)
            parameters += values
            if on is not None and on != device:
                if device is not None:
                    raise ValueError(f"{kernel.__name__}: arguments are on devices {device} and {on}")
                device = on
        if device is None:
            device = Device().device_id
        set_device(device)
        loaded = kernel.load(tuple(signature), device)
        launch(as_stream(self.stream), kernel.launch_config(self.grid, self.block), loaded, *parameters)


def set_device(ordinal: int) -> None:
    """Make a Hopper GPU this thread's current device."""
    require_hopper(ordinal).set_current()


def as_stream(stream: Any) -> Any:
    """A stream as cuda.core takes it: from None (the legacy default stream), a handle, or a stream of another library.

    Raises
    ------
    TypeError
        If it is none of these.
    """
    if stream is None:
        return LEGACY_DEFAULT_STREAM
    if isinstance(stream, Stream) or hasattr(stream, "__cuda_stream__"):
        return stream
    if isinstance(stream, int):
        return _stream_of(stream)
    raise TypeError(f"stream must be a handle or an object with __cuda_stream__; got {stream!r}")


@functools.lru_cache(maxsize=64)
def _stream_of(handle: int) -> Stream:
    return Stream.from_handle(handle) if handle else LEGACY_DEFAULT_STREAM


# Arguments -----------------------------------------------------------------------------------------------------------


def _argument(value: Any, position: int) -> tuple[types.Type, list, int | None]:
    """An argument's Numba type, the parameters that Numba's calling convention makes of it, and its device."""
    find = _ARGUMENTS.get(type(value))
    if find is not None:
        return find(value)
    if isinstance(value, np.generic):
        return from_dtype(value.dtype), [value], None
    try:
        return _array(device_array(value))
    except TypeError as error:
        raise TypeError(f"argument {position} is no array, number or TensorMap: {error}") from None


def _array(array: DeviceArray) -> tuple[types.Type, list, int | None]:
    shape, itemsize = array.shape, array.dtype.itemsize
    values = [0, 0, math.prod(shape), itemsize, array.ptr, *shape, *array.strides]
    return _array_type(array.dtype, len(shape), array.is_contiguous), values, array.device


@functools.cache
def _array_type(dtype: np.dtype, ndim: int, is_contiguous: bool) -> types.Array:
    return types.Array(from_dtype(dtype), ndim, "C" if is_contiguous else "A")


def _tensor_map(tensor_map: TensorMap) -> tuple[types.Type, list, int | None]:
    return tensor_map.numba_type, [tensor_map.descriptor()], tensor_map.device


_ARGUMENTS: dict[type, Callable[[Any], tuple[types.Type, list, int | None]]] = {
    TensorMap: _tensor_map,
    DeviceArray: _array,
    bool: lambda value: (types.boolean, [value], None),
    int: lambda value: (types.int64, [value], None),
    float: lambda value: (types.float64, [value], None),
}


def _dimensions(name: str, extents: Any) -> tuple[int, ...]:
    found = extents if isinstance(extents, tuple) else (extents,)
    if not 1 <= len(found) <= 3 or not all(isinstance(n, int | np.integer) and n > 0 for n in found):
        raise ValueError(f"{name} must be one to three positive integers; got {extents!r}")
    return found
