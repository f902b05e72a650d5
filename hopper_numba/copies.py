"""Memory on the GPU for results and operands, and copies from and to the host."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from cuda.bindings import driver
from cuda.core import Buffer, Device, DeviceMemoryResource, MemoryResource

from hopper_numba.arrays import ArrayView, DeviceArray, c_order
from hopper_numba.device import check
from hopper_numba.streams import on_device, stream_of


class ExportedMemory(MemoryResource):
    """Memory whose freeing waits for the device.

    Consumers of DLPack and of the CUDA array interface drop it while work of theirs, on streams unknown here, is still
    queued. So it cannot come from a pool that hands it out again in the order of one stream.
    """

    def __init__(self, device: int) -> None:
        self._device = device

    def allocate(self, size: int, *, stream: Any = None) -> Buffer:
        with on_device(self._device):
            status, pointer = driver.cuMemAlloc(max(size, 1))
            if status != driver.CUresult.CUDA_SUCCESS:
                raise MemoryError(f"{size} bytes on GPU {self._device}: {status.name}")
            return Buffer.from_handle(pointer, size, mr=self)

    def deallocate(self, ptr: Any, size: int, *, stream: Any = None) -> None:
        with on_device(self._device):
            (status,) = driver.cuMemFree(ptr)
            check(status, "cuMemFree")

    @property
    def is_device_accessible(self) -> bool:
        return True

    @property
    def is_host_accessible(self) -> bool:
        return False

    @property
    def device_id(self) -> int:
        return self._device


def scratch(layout: ArrayView, stream: int) -> DeviceArray:
    """GPU memory for use on one stream; the GPU is current."""
    Device(layout.device).set_current()  # cuda.core wants to have done so itself
    nbytes = math.prod(layout.shape) * layout.dtype.itemsize
    memory = DeviceMemoryResource(layout.device).allocate(nbytes, stream=stream_of(stream))
    return layout.at(int(memory.handle), memory, stream)


def to_device(array: np.ndarray, device: int, stream: int) -> DeviceArray:
    """Copy a NumPy array of any strides to a GPU, into C order; `device` is current. Returns when it is read."""
    packed = np.ascontiguousarray(array)
    result = scratch(c_order(packed.shape, packed.dtype, device), stream)
    result.owner.copy_from(_host_buffer(packed), stream=stream_of(stream))
    stream_of(stream).sync()  # where the array is pinned, the copy has only begun
    return result


def to_host(result: DeviceArray, array: np.ndarray) -> None:
    """Copy what `scratch` gave to a NumPy array of any strides, when its stream has written it."""
    packed = array if array.flags.c_contiguous else np.empty(array.shape, array.dtype)
    stream = stream_of(result.stream or 0)
    result.owner.copy_to(_host_buffer(packed), stream=stream)
    stream.sync()
    if packed is not array:
        array[...] = packed


def _host_buffer(array: np.ndarray) -> Buffer:
    return Buffer.from_handle(array.__array_interface__["data"][0], array.nbytes, owner=array)
