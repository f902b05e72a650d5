"""TensorMap on the host: what hardware would refuse is refused here, with the rule and the value."""

import ml_dtypes
import numpy as np
import pytest

from hopper_numba import TensorMap, tile

TILE = tile("float16", (64, 64))


def aligned(shape, dtype=np.float16, offset=0):
    """An array whose address is `offset` bytes above a multiple of 1024."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(nbytes + 2048, np.uint8)
    start = -memory.ctypes.data % 1024 + offset
    return memory[start : start + nbytes].view(dtype).reshape(shape)


def test_describes_any_view():
    array = aligned((100, 200))
    tensor_map = TensorMap(array[3:, 8:], TILE)
    assert (tensor_map.dtype, tensor_map.box, tensor_map.swizzle) == (np.float16, (64, 64), 128)
    assert tensor_map.array.base is not None and tensor_map.device is None


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_ranks(rank):
    description = tile("float32", (2,) * (rank - 2) + (8, 32) if rank > 1 else (32,))
    assert len(TensorMap(aligned((4,) * (rank - 1) + (64,), np.float32), description).box) == rank


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int8", "uint64"])
def test_dtypes(dtype):
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    TensorMap(aligned((64, 128 // dtype.itemsize), dtype), tile(dtype, (8, 128 // dtype.itemsize)))


def test_strides_of_extents_of_one_do_not_matter():
    array = aligned((64, 64))[:1]
    TensorMap(np.lib.stride_tricks.as_strided(array, (1, 64), (6, 2)), TILE)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TensorMap(aligned((64, 64), np.float32), TILE), "one dtype; got float32 and float16"),
        (lambda: TensorMap(aligned((64,)), TILE), r"must have 2 dimensions.*; got shape \(64,\)"),
        (lambda: TensorMap(aligned((64, 60)), TILE), "multiples of 16 bytes below 2.*40; got"),
        (lambda: TensorMap(aligned((64, 64))[:, ::2], TILE), "must be contiguous; got a stride of 4 bytes"),
        (lambda: TensorMap(aligned((64, 64)).T, TILE), "must be contiguous; got a stride of 128 bytes"),
        (lambda: TensorMap(aligned((64, 64))[::-1], TILE), "positive multiples of 16 bytes"),
        (lambda: TensorMap(np.broadcast_to(aligned((1, 64)), (64, 64)), TILE), "positive multiples of 16 bytes"),
        (lambda: TensorMap(aligned((64, 64), offset=8), TILE), "multiple of 16 bytes; got 0x"),
        (lambda: TensorMap(aligned((0, 64)), TILE), r"1 to 2\*\*32; got shape"),
        (lambda: TensorMap(aligned((512, 64)), tile("float16", (512, 64))), "at most 256 elements"),
        (lambda: TensorMap(aligned((64, 64)), TILE.T), "whole tile"),
        (lambda: TensorMap(aligned((64, 64)), TILE.part(64, 16)[0]), "whole tile"),
        (lambda: TensorMap(aligned((64, 64)), (64, 64)), r"must be a tile\(…\); got \(64, 64\)"),
        (lambda: TensorMap(aligned((4, 64, 128)), tile("float16", (4, 64, 128))), "must be as wide as its swizzle"),
        (lambda: TensorMap(aligned((2,) * 5 + (64,)), tile("float16", (2,) * 4 + (8, 64))), "1 to 5 dimensions"),
        (lambda: TensorMap("array", TILE), "array"),
    ],
)
def test_refusals(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_replace_address_keeps_the_geometry():
    tensor_map = TensorMap(aligned((64, 64)), TILE)
    other = aligned((64, 64))
    tensor_map.replace_address(other)
    assert tensor_map.array is other
    with pytest.raises(ValueError, match=r"shape must stay \(64, 64\); got \(32, 64\)"):
        tensor_map.replace_address(other[:32])
    with pytest.raises(ValueError, match="multiple of 16 bytes"):
        tensor_map.replace_address(aligned((64, 64), offset=2))


def test_a_launch_on_the_gpu_refuses_host_memory():
    with pytest.raises(TypeError, match="got ndarray in host memory"):
        TensorMap(aligned((64, 64)), TILE).encoded()
