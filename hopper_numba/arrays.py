"""Where an array lies and how, whatever library made it; `kinds.py` tells it of each.

Views are made at every call, so they are cheap.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import ml_dtypes
import numpy as np
from cuda.core import Buffer
from cuda.core.utils import StridedMemoryView

from hopper_numba.streams import NO_ORDER, order


class ArrayView:
    """Where an array lies and how. Not to be changed; `view` makes it.

    Attributes
    ----------
    ptr : int
        Address of the first element.
    shape : tuple of int
    strides : tuple of int
        In bytes.
    dtype : numpy.dtype
        NumPy's or ml_dtypes'.
    device : int or None
        Ordinal of the GPU; None for host memory.
    readonly : bool
    owner : object
        Keeps the memory alive.
    """

    __slots__ = ("device", "dtype", "owner", "ptr", "readonly", "shape", "strides")

    def __init__(
        self,
        ptr: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype,
        device: int | None = None,
        readonly: bool = False,
        owner: Any = None,
    ) -> None:
        self.ptr = ptr
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.device = device
        self.readonly = readonly
        self.owner = owner

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in C order without gaps."""
        expected = self.dtype.itemsize
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != expected:
                return 0 in self.shape
            expected *= extent
        return True

    @property
    def span(self) -> int:
        """Bytes from the first element to behind the last, of positive strides."""
        return sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)) + self.dtype.itemsize

    def at(self, ptr: int, owner: Any, stream: int | None = None) -> DeviceArray:
        """A writable array of this layout at another address."""
        return DeviceArray(ptr, self.shape, self.strides, self.dtype, self.device, False, owner, stream)

    def __repr__(self) -> str:
        place = "host" if self.device is None else f"GPU {self.device}"
        return f"array({self.ptr:#x} on {place}, {self.shape}, strides {self.strides}, {self.dtype})"


class HostArray(ArrayView):
    """A view of host memory; its owner is a NumPy array of the same memory, shape, strides and dtype."""

    __slots__ = ()


class DeviceArray(ArrayView):
    """A view of GPU memory, and the result for kinds of arrays that have no allocator of their own.

    Exports the CUDA array interface and DLPack. The former has no code for bfloat16 and float8: they appear as void of
    their size, which no consumer takes for numbers.

    Attributes
    ----------
    stream : int or None
        Handle of the stream on which its contents are made; None: they are there, or `owner`'s library knows.
    """

    __slots__ = ("__weakref__", "stream")

    def __init__(
        self,
        ptr: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype,
        device: int | None = None,
        readonly: bool = False,
        owner: Any = None,
        stream: int | None = None,
    ) -> None:
        super().__init__(ptr, shape, strides, dtype, device, readonly, owner)
        self.stream = stream

    @property
    def T(self) -> DeviceArray:
        """The transposed view."""
        return DeviceArray(
            self.ptr,
            self.shape[::-1],
            self.strides[::-1],
            self.dtype,
            self.device,
            self.readonly,
            self,
            self.stream,
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        has_code = self.dtype.isbuiltin == 1
        return {
            "version": 3,
            "shape": self.shape,
            "strides": None if self.is_contiguous else self.strides,
            "typestr": self.dtype.str if has_code else f"|V{self.dtype.itemsize}",
            "data": (self.ptr, self.readonly),
            "stream": None if self.stream is None else self.stream or 1,  # 1 is the legacy default stream there
        }

    def __dlpack_device__(self) -> tuple[int, int | None]:
        return DLPACK_CUDA, self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export; the consumer's stream (None: the legacy default stream) waits for the contents."""
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"a DeviceArray exports its memory as it is; got copy={copy}, dl_device={dl_device}")
        if stream != NO_ORDER and self.stream is not None:
            order(self.stream, stream or 0, self.device)
        itemsize = self.dtype.itemsize
        is_bfloat16 = self.dtype == ml_dtypes.bfloat16
        memory = StridedMemoryView.from_buffer(
            Buffer.from_handle(self.ptr, math.prod(self.shape) * itemsize, owner=self),
            self.shape,
            tuple(stride // itemsize for stride in self.strides),
            dtype=np.dtype(np.uint16) if is_bfloat16 else self.dtype,
            is_readonly=self.readonly,
        )
        capsule = memory.__dlpack__(max_version=max_version)
        if is_bfloat16:
            _call_bfloat16(capsule)
        return capsule


DLPACK_CPU, DLPACK_CUDA, _DLPACK_BFLOAT = 1, 2, 4


def _call_bfloat16(capsule: Any) -> None:
    """Write bfloat16's type code into a DLPack capsule of uint16: cuda.core 1.2 imports bfloat16 but exports none."""
    # offsets of DLTensor.dtype.code in dlpack.h's two structs
    name, offset = b"dltensor_versioned", 52
    is_valid, pointer_of = ctypes.pythonapi.PyCapsule_IsValid, ctypes.pythonapi.PyCapsule_GetPointer
    is_valid.argtypes = pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)
    pointer_of.restype = ctypes.c_void_p
    if not is_valid(capsule, name):
        name, offset = b"dltensor", 20
    ctypes.c_uint8.from_address(pointer_of(capsule, name) + offset).value = _DLPACK_BFLOAT


def c_order(shape: tuple[int, ...], dtype: np.dtype, device: int | None) -> ArrayView:
    """The layout of an array in C order, at no address yet."""
    strides = tuple(math.prod(shape[i + 1 :]) * dtype.itemsize for i in range(len(shape)))
    return ArrayView(0, shape, strides, dtype, device)
