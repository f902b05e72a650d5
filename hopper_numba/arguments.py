"""A kernel's arguments as the driver takes them, by Numba's calling convention, and the launch bound to them."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda.bindings import driver
from numba.cuda import types
from numba.cuda.np.numpy_support import from_dtype

from hopper_numba.arrays import DeviceArray
from hopper_numba.device import check
from hopper_numba.kinds import device_array
from hopper_numba.tensor_map import TensorMap

ADDRESS = 4  # which of an array's parameters is its address


def as_parameters(value: Any, name: str) -> tuple[types.Type, list, int | None]:
    """An argument's Numba type, the parameters that Numba's calling convention makes of it, and its device."""
    find = _ARGUMENTS.get(type(value))
    if find is not None:
        return find(value)
    if isinstance(value, np.generic):
        return from_dtype(value.dtype), [value], None
    try:
        return _array(device_array(value, name))
    except TypeError as error:
        raise TypeError(f"a kernel takes arrays in GPU memory, numbers and TensorMaps: {error}") from None


def _array(array: DeviceArray) -> tuple[types.Type, list, int | None]:
    shape, itemsize = array.shape, array.dtype.itemsize
    # Numba's calling convention: meminfo, parent, nitems, itemsize, data, shape, strides
    values = [0, 0, math.prod(shape), itemsize, array.ptr, *shape, *array.strides]
    return _array_type(array.dtype, len(shape), array.is_contiguous), values, array.device


@functools.cache
def _array_type(dtype: np.dtype, ndim: int, is_contiguous: bool) -> types.Array:
    return types.Array(from_dtype(dtype), ndim, "C" if is_contiguous else "A")


def _tensor_map(tensor_map: TensorMap) -> tuple[types.Type, list, int | None]:
    return tensor_map.numba_type, [tensor_map.encoded()], tensor_map.device


_ARGUMENTS: dict[type, Callable[[Any], tuple[types.Type, list, int | None]]] = {
    TensorMap: _tensor_map,
    DeviceArray: _array,
    bool: lambda value: (types.boolean, [value], None),
    int: lambda value: (types.int64, [_fitting(value)], None),
    float: lambda value: (types.float64, [value], None),
}


def _fitting(value: int) -> int:
    if not -(1 << 63) <= value < 1 << 63:
        raise OverflowError(f"a kernel takes integers of 64 bits; got {value}")
    return value


@dataclasses.dataclass(frozen=True)
class Configuration:
    """What is launched how: a loaded kernel, its extents, bytes of dynamic shared memory, and a stream's handle."""

    function: driver.CUfunction
    grid: tuple[int, ...]
    block: tuple[int, ...]
    cluster: tuple[int, ...]
    shared_nbytes: int
    stream: int

    def call(self, parameters: int) -> tuple[Callable, tuple]:
        """The driver's function that launches it, and that function's arguments; `parameters` is their address."""
        extents = (*self.grid, 1, 1)[:3] + (*self.block, 1, 1)[:3]
        if math.prod(self.cluster) == 1:
            return driver.cuLaunchKernel, (self.function, *extents, self.shared_nbytes, self.stream, parameters, 0)
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        cluster = attribute.value.clusterDim
        cluster.x, cluster.y, cluster.z = (*self.cluster, 1, 1)[:3]
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = extents[:3]
        config.blockDimX, config.blockDimY, config.blockDimZ = extents[3:]
        config.sharedMemBytes, config.hStream = self.shared_nbytes, self.stream
        config.attrs, config.numAttrs = [attribute], 1
        return driver.cuLaunchKernelEx, (config, self.function, parameters, 0)


class BoundLaunch:
    """A launch with its arguments; calling it launches on its device, which must be the current one.

    Repeated, it costs what the driver does: the arguments stay where the driver reads them.

    Attributes
    ----------
    device : int
        Ordinal.
    """

    __slots__ = ("_addresses", "_call", "_launch", "_parameters", "_pointers", "device")

    def __init__(
        self,
        configuration: Configuration,
        parameters: list[Any],
        addresses: list[int],
        device: int,
    ) -> None:
        self.device, self._addresses = device, addresses
        self._parameters = [_in_memory(value) for value in parameters]
        self._pointers = (ctypes.c_void_p * len(parameters))(*(_pointer(value) for value in self._parameters))
        self._launch, self._call = configuration.call(ctypes.addressof(self._pointers))

    def replace_address(self, position: int, address: int) -> None:
        """Let the array at this position of the arguments be another of the same shape, strides and dtype."""
        self._parameters[self._addresses[position]].value = address

    def __call__(self) -> None:
        (status,) = self._launch(*self._call)
        check(status, "cuLaunchKernel")


def _in_memory(value: Any) -> Any:
    """A parameter as the driver reads it."""
    if isinstance(value, bool):
        return ctypes.c_bool(value)
    if isinstance(value, int):
        return ctypes.c_int64(value)
    if isinstance(value, float):
        return ctypes.c_double(value)
    return ctypes.create_string_buffer(value.tobytes(), value.nbytes) if isinstance(value, np.generic) else value


def _pointer(parameter: Any) -> int:
    return parameter.getPtr() if isinstance(parameter, driver.CUtensorMap) else ctypes.addressof(parameter)
