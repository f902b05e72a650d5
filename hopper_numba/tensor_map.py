"""Tensor maps on the host: which box of which array TMA copies."""

from __future__ import annotations

from typing import Any

import numpy as np
from cuda.bindings import driver

from hopper_numba.arrays import DeviceArray
from hopper_numba.copies import to_device
from hopper_numba.device import check
from hopper_numba.interpreter import active
from hopper_numba.intrinsics.tiles import Tile, check_box
from hopper_numba.intrinsics.types import TensorMapType
from hopper_numba.kinds import view
from hopper_numba.streams import on_device


class TensorMap:
    """A tensor in global memory and the tile in shared memory that TMA copies boxes of it to and from.

    Passed to a kernel as an argument, it becomes a ``__grid_constant__`` parameter. It is checked here, on machines
    without a GPU too, and encoded at its first launch; it keeps its array alive.

    Parameters
    ----------
    array : array
        Of 1 to 5 dimensions, innermost contiguous. NumPy arrays can be interpreted only.
    tile : Tile
        With the array's dtype and number of dimensions.

    Attributes
    ----------
    array : array
        As given.
    tile : Tile
    dtype : numpy.dtype
    box : tuple of int
        Elements of one box, innermost first.
    swizzle : {128, 64, 32, 0, None}

    Raises
    ------
    TypeError, ValueError
        With the value and the rule, where hardware would refuse the map.

    Notes
    -----
    PTX ISA, "Tensor-map"; CUDA driver API, ``cuTensorMapEncodeTiled``.
    """

    def __init__(self, array: Any, tile: Tile) -> None:
        self.tile, self.array = tile, array
        self._view = view(array)
        _check_tile(tile)
        _check_array(self._view, tile)
        self.dtype, self.box, self.swizzle = tile.dtype, tile.box, tile.swizzle
        self.numba_type = TensorMapType(tile.dtype, tile.box, tile.swizzle)
        self._encoded: driver.CUtensorMap | None = None

    @property
    def device(self) -> int | None:
        """Ordinal of the device that holds the array; None for host memory."""
        return self._view.device

    def replace_address(self, array: Any) -> None:
        """Point to another array of the same shape, strides and dtype.

        Raises
        ------
        ValueError
            If the geometry differs or the address is not a multiple of 16.
        """
        replacing = view(array)
        for name in ("shape", "strides", "dtype", "device"):
            old, new = getattr(self._view, name), getattr(replacing, name)
            if old != new:
                raise ValueError(f"TensorMap.replace_address: {name} must stay {old}; got {new}")
        if replacing.ptr % 16:
            raise ValueError(f"TensorMap: the address must be a multiple of 16 bytes; got {replacing.ptr:#x}")
        # encoded anew: another thread may be launching with the old one
        self._view, self.array, self._encoded = replacing, array, None

    def move_to(self, address: int) -> None:
        """Point to another address, a multiple of 16, at once and in place, launches that are bound included.

        For a map of one thread, whose caller knows that the geometry is the same and keeps the array alive.
        """
        (status,) = driver.cuTensorMapReplaceAddress(self.encoded(), address)
        check(status, "cuTensorMapReplaceAddress")

    def encoded(self) -> driver.CUtensorMap:
        """The driver's form, for a launch.

        Raises
        ------
        TypeError
            If the array is in host memory.
        RuntimeError
            If the driver refuses the map.
        """
        if self._encoded is None:
            if self._view.device is None:
                raise TypeError(
                    f"TensorMap: a kernel on the GPU needs an array in its memory; got {type(self.array).__name__} in "
                    "host memory. Copy it to the GPU, or interpret the kernel (hopper_numba.interpret)"
                )
            status, self._encoded = driver.cuTensorMapEncodeTiled(
                _data_type(self.dtype),
                len(self.box),
                self._view.ptr,
                [driver.cuuint64_t(extent) for extent in reversed(self._view.shape)],
                # of a vector there are none, but the driver takes no empty list
                [driver.cuuint64_t(stride) for stride in reversed(_outer_strides(self._view) or [16])],
                [driver.cuuint32_t(extent) for extent in self.box],
                [driver.cuuint32_t(1)] * len(self.box),
                driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                _SWIZZLES[self.swizzle or 0],
                driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
            check(status, "cuTensorMapEncodeTiled")
        return self._encoded

    def to_device(self) -> DeviceArray | TensorMap:
        """A copy of the encoded map, 16 uint64 in device memory, for plain ``cuda.jit`` kernels.

        It holds the address that the map has now, and keeps the map's array alive. Raises as `encoded`. Under
        `interpret` the map itself, which interpreted kernels take.
        """
        if active() is not None:
            return self
        words = np.array([int(word) for word in self.encoded().opaque], np.uint64)
        device = int(self._view.device or 0)
        with on_device(device):
            copy = to_device(words, device, 0)
        return DeviceArray(copy.ptr, copy.shape, copy.strides, copy.dtype, copy.device, owner=(copy, self.array))

    def __repr__(self) -> str:
        return f"TensorMap({self._view.shape} {self.dtype}, {self.tile})"


_SWIZZLES = {
    128: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
    64: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_64B,
    32: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_32B,
    0: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
}


def _data_type(dtype: np.dtype) -> driver.CUtensorMapDataType:
    """TMA copies bits: a type it does not know goes as the unsigned integer of its size."""
    unknown = dtype.name in ("int8", "int16", "float8_e4m3fn", "float8_e5m2")
    name = f"uint{8 * dtype.itemsize}" if unknown else dtype.name
    return getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{name.upper()}")


def _check_tile(tile: Any) -> None:
    if not isinstance(tile, Tile):
        raise TypeError(f"TensorMap: tile must be a tile(…); got {tile!r}")
    try:
        check_box(tile)
    except ValueError as error:
        raise ValueError(f"TensorMap: tile {error}") from None


def _check_array(array: Any, tile: Tile) -> None:
    shape, strides = array.shape, array.strides
    if array.dtype != tile.dtype:
        raise TypeError(f"TensorMap: array and tile must have one dtype; got {array.dtype} and {tile.dtype}")
    if len(shape) != len(tile.shape):
        hint = ". A map for the stages of a ring takes the tile of one stage" if len(shape) < len(tile.shape) else ""
        raise ValueError(
            f"TensorMap: array must have {len(tile.shape)} dimensions, as {tile} has; got shape {shape}{hint}"
        )
    if not all(1 <= extent <= 1 << 32 for extent in shape):
        raise ValueError(f"TensorMap: every dimension of array must be 1 to 2**32; got shape {shape}")
    if array.ptr % 16:
        raise ValueError(f"TensorMap: the address of array must be a multiple of 16 bytes; got {array.ptr:#x}")
    if shape[-1] > 1 and strides[-1] != array.dtype.itemsize:
        raise ValueError(
            f"TensorMap: the last dimension of array must be contiguous; got a stride of {strides[-1]} bytes"
        )
    for extent, stride in zip(shape[:-1], strides[:-1], strict=True):
        if extent > 1 and (stride % 16 or not 0 < stride < 1 << 40):
            raise ValueError(
                f"TensorMap: strides of array must be positive multiples of 16 bytes below 2**40; got {strides}"
            )


def _outer_strides(array: Any) -> list[int]:
    """Strides of all dimensions but the last, as the driver takes them where an extent of 1 makes them meaningless."""
    strides = list(array.strides)
    strides[-1] = array.dtype.itemsize
    for i in reversed(range(len(strides) - 1)):
        if array.shape[i] == 1:
            strides[i] = -(-strides[i + 1] * array.shape[i + 1] // 16) * 16
    return strides[:-1]
