"""TMA: tiles, tensor maps, coordinates."""

from numba import cuda, uint32
from numba.cuda import types

from hopper_numba.intrinsics import memory, tma

from .cases import TALL, refused

A_MAP = "must be a TensorMap(array, tile), or the uint64 array of its to_device()"


@refused(
    "tma.load: tensor_map is of another tile than tile(bfloat16, (64, 64), swizzle 128)",
    "TensorMap[float16, 64x64, 128]",
)
def map_of_another_dtype(smem, m, out, n):
    tma.load(smem.bf16, m, (0, 0), smem.bar)


@refused(
    "tma.store: tensor_map is of another tile than tile(float16, (64, 64), C order)", "TensorMap[float16, 64x64, 128]"
)
def map_of_another_swizzle(smem, m, out, n):
    tma.store(m, (0, 0), smem.plain)


@refused("tma.load: coordinates must be 2 integers, as many as tile(float16, (64, 64), swizzle 128) has; got 3")
def three_coordinates(smem, m, out, n):
    tma.load(smem.a, m, (0, 0, 0), smem.bar)


@refused("tma.load: coordinates must be an integer (s32); got float64")
def float_coordinates(smem, m, out, n):
    tma.load(smem.a, m, (0, 0.5), smem.bar)


@refused("tma.load: tile must be a whole tile as it lies in memory; got tile(float16, (64, 64), swizzle 128).T")
def transposed_tile(smem, m, out, n):
    tma.load(smem.a.T, m, (0, 0), smem.bar)


@refused("tma.load: tile must be a whole tile as it lies in memory; got tile(float16, (64, 16), swizzle 128, panels")
def part_of_a_tile(smem, m, out, n):
    tma.load(smem.a.part(64, 16, 0, 0), m, (0, 0), smem.bar)


@refused("tma.load: tile must be a tile; got barrier")
def barrier_for_a_tile(smem, m, out, n):
    tma.load(smem.bar, m, (0, 0), smem.bar)


@refused(
    "tma.store: tile must be a view of shared memory: memory.view makes one of a shared array; got array(uint32, 1d, C)"
)
def raw_array_for_a_tile(smem, m, out, n):
    tma.store(m, (0, 0), cuda.shared.array(1024, uint32))


@refused(f"tma.prefetch_descriptor: tensor_map {A_MAP}; got int64")
def integer_for_a_map(smem, m, out, n):
    tma.prefetch_descriptor(n)


@refused(f"tma.prefetch_descriptor: tensor_map {A_MAP}; got array(float16, 2d, C)")
def matrix_for_a_map(smem, m, out, n):
    tma.prefetch_descriptor(cuda.shared.array((64, 64), types.float16))


@refused("tma.load: tile must have a box of at most 256 elements along a dimension; got (64, 264)")
def tall_tile(smem, m, out, n):
    tma.load(memory.view(cuda.shared.array(16896, types.float16), TALL), m, (0, 0), smem.bar)
