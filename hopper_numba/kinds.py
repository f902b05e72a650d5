"""NumPy, CuPy, Torch, JAX and Numba arrays, and all others that speak DLPack or the CUDA array interface, in and out.

A `Kind` knows one library: how to view its arrays, on which stream it works just now, how to allocate a result. No
library is imported here: one that made an array is in ``sys.modules``. A type is looked up by its module's name once.
"""

from __future__ import annotations

import functools
import math
import sys
from typing import Any

import ml_dtypes
import numpy as np
from cuda.core.utils import StridedMemoryView

from hopper_numba.arrays import DLPACK_CPU, DLPACK_CUDA, ArrayView, DeviceArray, HostArray
from hopper_numba.copies import ExportedMemory
from hopper_numba.streams import NO_ORDER, stream_handle, stream_of


def view(obj: Any, name: str = "array", stream: int = NO_ORDER) -> HostArray | DeviceArray:
    """Tell where an array of any kind lies.

    Parameters
    ----------
    obj : array
    name : str, optional
        What messages call it.
    stream : int, optional
        Handle of the stream that will use it: an array that is read by DLPack has its producer's work put in order
        before that.

    Returns
    -------
    HostArray or DeviceArray

    Raises
    ------
    TypeError
        If it is no array, or one whose memory does not hold its elements as they are.
    """
    return kind_of(obj, name).view(obj, name, stream)


def device_array(obj: Any, name: str = "array") -> DeviceArray:
    """As `view`, of an array in GPU memory.

    Raises
    ------
    TypeError
        As `view`, and for host memory.
    """
    found = view(obj, name)
    if not isinstance(found, DeviceArray):
        raise TypeError(f"{name} must be in GPU memory; got a {_type_name(obj)} in host memory")
    return found


class Kind:
    """A kind of arrays, here the one of which only the protocols are known: DLPack and the CUDA array interface.

    Attributes
    ----------
    waits : bool
        Whether work on such arrays has to be finished before a call returns: their memory may be reused as soon as
        they are dropped, and their library cannot be told of a stream.
    copied : bool
        Whether they lie in host memory and are copied to the GPU and back.
    """

    waits = True
    copied = False

    def view(self, obj: Any, name: str, stream: int) -> HostArray | DeviceArray:
        try:
            if not hasattr(obj, "__dlpack__"):  # its stream is known, see `stream`
                memory = StridedMemoryView.from_cuda_array_interface(obj, stream_ptr=NO_ORDER)
                return self._of_memory(memory, memory.dtype, obj)
            place = obj.__dlpack_device__()[0]
            if place == DLPACK_CPU:
                return _host_view(np.from_dlpack(obj))
            if place != DLPACK_CUDA:
                raise BufferError(f"its memory is of DLPack's device type {int(place)}")
            memory = StridedMemoryView.from_dlpack(obj, stream_ptr=stream or 1)  # 0 is no stream there
            return self._of_memory(memory, memory.dtype, obj)
        except (BufferError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            raise TypeError(f"{name}, a {_type_name(obj)}, cannot be read as GPU memory: {error}") from error

    def glance(self, obj: Any) -> tuple[int, tuple] | None:
        """The address, and what tells the geometry in the library's own terms; None: only `view` tells.

        Cheaper than `view`, for arrays in GPU memory that nothing speaks against.
        """
        return None

    def _of_memory(self, memory: StridedMemoryView, dtype: np.dtype, obj: Any) -> DeviceArray:
        shape, counts = memory.shape, memory.strides
        if counts is None:
            counts = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        strides = tuple(count * dtype.itemsize for count in counts)
        # the DLPack capsule that holds the memory dies with `memory`
        return DeviceArray(memory.ptr, shape, strides, dtype, memory.device_id, memory.readonly, (memory, obj))

    def stream(self, obj: Any) -> int | None:
        """Handle of the stream on which the library works with `obj` just now; None if `view` orders its work."""
        if hasattr(obj, "__dlpack__"):
            return None
        found = obj.__cuda_array_interface__.get("stream")
        return None if found is None else stream_handle(found)

    def empty(self, like: Any, layout: ArrayView, stream: int) -> HostArray | DeviceArray:
        """Memory for a result, not yet written.

        Parameters
        ----------
        like : array
            Of this kind, on the same device.
        layout : ArrayView
            Shape, strides, dtype and device; without an address.
        stream : int
            Handle of the stream that will write it.
        """
        if layout.device is None:
            return _host_view(np.empty(layout.shape, layout.dtype))
        memory = ExportedMemory(layout.device).allocate(math.prod(layout.shape) * layout.dtype.itemsize)
        return layout.at(int(memory.handle), memory, stream)

    def deliver(self, result: HostArray | DeviceArray) -> Any:
        """Make an array of this kind of what `empty` gave, now that the work that writes it is queued."""
        return result.owner if isinstance(result, HostArray) else result

    def written(self, obj: Any) -> None:
        """Tell the library that its array `obj` was overwritten."""


class OwnKind(Kind):
    """`DeviceArray` and `HostArray` themselves."""

    waits = False  # freeing a DeviceArray's memory waits for the device

    def glance(self, obj: Any) -> tuple[int, tuple] | None:
        return None if obj.device is None else (obj.ptr, (obj.shape, obj.strides, obj.dtype, obj.device))

    def view(self, obj: Any, name: str, stream: int) -> HostArray | DeviceArray:
        return obj

    def stream(self, obj: Any) -> int | None:
        return getattr(obj, "stream", None)


class NumPyKind(Kind):
    """NumPy arrays."""

    waits = False
    copied = True

    def stream(self, obj: Any) -> int | None:
        return None

    def view(self, obj: Any, name: str, stream: int) -> HostArray | DeviceArray:
        if isinstance(obj, np.ma.MaskedArray):
            raise TypeError(f"{name} must not be a masked array: masks are not heeded. Pass its filled(…)")
        return _host_view(obj)

    def empty(self, like: Any, layout: ArrayView, stream: int) -> HostArray | DeviceArray:
        return _host_view(np.empty(layout.shape, layout.dtype))


class StandInKind(NumPyKind):
    """Arrays in host memory that stand in for Numba's device arrays (`hopper_numba.stand_ins`)."""

    def deliver(self, result: HostArray | DeviceArray) -> Any:
        return result.owner.view(sys.modules["hopper_numba.stand_ins"].StandInArray)


class TorchKind(Kind):
    """Torch tensors. They work on ``torch.cuda.current_stream()``."""

    waits = False

    def __init__(self) -> None:
        self.torch = torch = sys.modules["torch"]
        self.strided = torch.strided
        self.dtypes = {
            getattr(torch, name): np.dtype(name)
            for name in ("float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64")
        }
        self.dtypes[torch.bfloat16] = np.dtype(ml_dtypes.bfloat16)
        # torch.cuda.current_stream makes a Stream object, for 2 us more
        self._stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
            lambda device: torch.cuda.current_stream(device).cuda_stream
        )

    def view(self, obj: Any, name: str, stream: int) -> HostArray | DeviceArray:
        dtype = self.dtypes.get(obj.dtype)
        if dtype is None or obj.requires_grad or obj.is_neg() or obj.layout is not self.strided:
            dtype = self._check(obj, name, dtype)
        if not obj.is_cuda:
            return self._host(obj, name)
        itemsize = dtype.itemsize
        return DeviceArray(
            obj.data_ptr(),
            tuple(obj.shape),
            tuple([count * itemsize for count in obj.stride()]),
            dtype,
            obj.get_device(),
            False,
            obj,
        )

    def glance(self, obj: Any) -> tuple[int, tuple] | None:
        if obj.requires_grad or not obj.is_cuda or obj.is_neg() or obj.layout is not self.strided:
            return None
        return obj.data_ptr(), (obj.shape, obj.stride(), obj.dtype, obj.get_device())

    def _check(self, obj: Any, name: str, dtype: np.dtype | None) -> np.dtype:
        if obj.layout is not self.strided:
            raise TypeError(f"{name} must be a dense tensor; got layout {obj.layout}")
        if dtype is None:
            raise TypeError(f"{name}: no kernel takes tensors of {obj.dtype}")
        if obj.is_neg():
            raise TypeError(f"{name} holds its elements with the sign yet to be changed; pass its resolve_neg()")
        if obj.requires_grad and self.torch.is_grad_enabled():
            raise TypeError(
                f"{name} requires a gradient, and none is recorded here; pass its detach(), or call under "
                "torch.no_grad()"
            )
        return dtype

    def _host(self, obj: Any, name: str) -> HostArray:
        if obj.device.type != "cpu":
            raise TypeError(f"{name} must be a tensor in GPU or host memory; got one on {obj.device}")
        obj = obj.detach()
        if obj.dtype is self.torch.bfloat16:  # Torch gives NumPy no bfloat16
            return _host_view(obj.view(self.torch.int16).numpy().view(ml_dtypes.bfloat16))
        return _host_view(obj.numpy())

    def stream(self, obj: Any) -> int | None:
        device = obj.get_device()
        return self._stream(device) if device >= 0 else None

    def empty(self, like: Any, layout: ArrayView, stream: int) -> HostArray | DeviceArray:
        device = layout.device
        if device is None:
            return super().empty(like, layout, stream)
        if stream == self._stream(device):
            tensor = like.new_empty(layout.shape)
        else:
            # on the stream that writes it: Torch hands out memory that earlier work of its stream may still use
            cuda = self.torch.cuda
            with cuda.stream(cuda.ExternalStream(stream, device) if stream else cuda.default_stream(device)):
                tensor = like.new_empty(layout.shape)
        return layout.at(tensor.data_ptr(), tensor)

    def deliver(self, result: HostArray | DeviceArray) -> Any:
        if isinstance(result, DeviceArray):
            return result.owner
        if result.dtype == ml_dtypes.bfloat16:
            return self.torch.from_numpy(result.owner.view(np.int16)).view(self.torch.bfloat16)
        return self.torch.from_numpy(result.owner)

    def written(self, obj: Any) -> None:
        if not obj.is_inference():
            self.torch.autograd.graph.increment_version(obj)  # so that a backward pass that needs the old values fails


class CuPyKind(Kind):
    """CuPy arrays. They work on ``cupy.cuda.get_current_stream()``."""

    waits = False

    def __init__(self) -> None:
        self.cupy = sys.modules["cupy"]

    def view(self, obj: Any, name: str, stream: int) -> HostArray | DeviceArray:
        memory = obj.data
        return DeviceArray(memory.ptr, obj.shape, obj.strides, obj.dtype, memory.device_id, False, obj)

    def stream(self, obj: Any) -> int | None:
        return self.cupy.cuda.get_current_stream(obj.data.device_id).ptr

    def empty(self, like: Any, layout: ArrayView, stream: int) -> HostArray | DeviceArray:
        cuda = self.cupy.cuda
        if stream == cuda.get_current_stream(layout.device).ptr:
            array = self.cupy.empty(layout.shape, layout.dtype)
        else:
            wrap = getattr(cuda.Stream, "from_external", None)  # since CuPy 14, which deprecates the other
            # CuPy's memory belongs to streams, as Torch's does
            with wrap(stream_of(stream)) if wrap else cuda.ExternalStream(stream, layout.device):
                array = self.cupy.empty(layout.shape, layout.dtype)
        return layout.at(array.data.ptr, array)

    def deliver(self, result: HostArray | DeviceArray) -> Any:
        return result.owner


class NumbaKind(Kind):
    """Numba device arrays. They work on their own stream, which is the legacy default stream unless it was given."""

    waits = False  # Numba's freeing waits for the device

    def __init__(self) -> None:
        self.cuda = sys.modules["numba.cuda"]

    def _of_memory(self, memory: StridedMemoryView, dtype: np.dtype, obj: Any) -> DeviceArray:
        return super()._of_memory(memory, obj.dtype, obj)  # the interface's typestr names no bfloat16

    def stream(self, obj: Any) -> int | None:
        return int(obj.stream)

    def empty(self, like: Any, layout: ArrayView, stream: int) -> HostArray | DeviceArray:
        own = self.cuda.external_stream(stream) if stream else 0
        array = self.cuda.device_array(layout.shape, layout.dtype, stream=own)
        return layout.at(array.device_ctypes_pointer.value or 0, array)

    def deliver(self, result: HostArray | DeviceArray) -> Any:
        return result.owner


class JaxKind(Kind):
    """JAX arrays, which cannot be written to. Results are imported by DLPack."""

    def view(self, obj: Any, name: str, stream: int) -> HostArray | DeviceArray:
        if {device.platform for device in obj.devices()} == {"cpu"}:
            return _host_view(np.asarray(obj))  # NumPy's DLPack takes no bfloat16
        found = super().view(obj, name, stream)
        found.readonly = True
        return found

    def deliver(self, result: HostArray | DeviceArray) -> Any:
        jax = sys.modules["jax"]
        return jax.numpy.asarray(result.owner) if isinstance(result, HostArray) else jax.dlpack.from_dlpack(result)


# By the top-level package and the name of a type, or of one that it is derived from
_KINDS: dict[tuple[str, str], type[Kind]] = {
    ("hopper_numba", "ArrayView"): OwnKind,
    ("hopper_numba", "StandInArray"): StandInKind,
    ("numpy", "ndarray"): NumPyKind,
    ("torch", "Tensor"): TorchKind,
    ("cupy", "ndarray"): CuPyKind,
    ("numba", "DeviceNDArrayBase"): NumbaKind,
    ("jaxlib", "ArrayImpl"): JaxKind,
}
_of_type: dict[type, Kind] = {}


@functools.cache
def _the(kind: Any) -> Kind:
    return kind()


def kind_of(obj: Any, name: str = "array") -> Kind:
    """The kind of an array; there is one object for each.

    Raises
    ------
    TypeError
        If `obj` is no array; the message calls it `name`.
    """
    kind = _of_type.get(type(obj))
    if kind is None:
        kind = _of_type[type(obj)] = _find_kind(obj, name)
    return kind


def _find_kind(obj: Any, name: str) -> Kind:
    for base in type(obj).__mro__:
        kind: Any = _KINDS.get((base.__module__.partition(".")[0], base.__name__))
        if kind is not None:
            return _the(kind)
    if hasattr(type(obj), "__dlpack__") or hasattr(type(obj), "__cuda_array_interface__"):
        return _the(Kind)
    raise TypeError(
        f"{name} must be an array of NumPy, CuPy, Torch, JAX or Numba, or one with __dlpack__ or "
        f"__cuda_array_interface__; got {_type_name(obj)}"
    )


def _type_name(obj: Any) -> str:
    return f"{type(obj).__module__}.{type(obj).__qualname__}".removeprefix("builtins.")


def _host_view(array: np.ndarray) -> HostArray:
    array = np.asarray(array)
    ptr, readonly = array.__array_interface__["data"]
    return HostArray(ptr, array.shape, array.strides, array.dtype, None, readonly, array)
