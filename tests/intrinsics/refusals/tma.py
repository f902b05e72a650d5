"""TMA: tiles, tensor maps, coordinates."""

from numba import cuda, uint32
from numba.cuda import types

from hopper_numba.intrinsics import cluster, memory, tma

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


# Blocks and policies -------------------------------------------------------------------------------------------------


@refused("tma.load: multicast must be 1 to 65535; got 0")
def load_to_no_block(smem, m, out, n):
    tma.load(smem.a, m, (0, 0), smem.bar, 0)


@refused("tma.load: multicast must be 1 to 65535; got 65536")
def load_to_a_17th_block(smem, m, out, n):
    tma.load(smem.a, m, (0, 0), smem.bar, multicast=65536)


@refused("tma.load: multicast must be an integer (u16); got float64")
def float_mask(smem, m, out, n):
    tma.load(smem.a, m, (0, 0), smem.bar, multicast=2.0)


@refused("tma.load: cache_policy must be an integer (u64); got float64")
def fraction_for_a_policy(smem, m, out, n):
    tma.load(smem.a, m, (0, 0), smem.bar, cache_policy=0.5)


@refused("tma.store: tile must lie in the block's own shared memory; got ClusterShared[tile(float16, (64, 64), swizzle")
def store_of_another_blocks_tile(smem, m, out, n):
    tma.store(m, (0, 0), cluster.map_shared(smem.a, 1))


@refused("tma.prefetch: tensor_map is of another tile than tile(bfloat16, (64, 64), swizzle 128)")
def prefetch_for_another_tile(smem, m, out, n):
    tma.prefetch(smem.bf16, m, (0, 0))


@refused(
    "tma.prefetch: tile must be a whole tile as it lies in memory; got tile(float16, (64, 16), swizzle 128, panels"
)
def prefetch_for_a_part(smem, m, out, n):
    tma.prefetch(smem.a.part(64, 16, 0, 0), m, (0, 0))


# Reductions ----------------------------------------------------------------------------------------------------------


@refused("tma.reduce_xor: tile must be of uint32, int32, uint64; got tile(float16, (64, 64), swizzle 128)")
def bits_of_halves(smem, m, out, n):
    tma.reduce_xor(m, (0, 0), smem.a)


@refused("tma.reduce_inc: tile must be of uint32; got tile(float16, (64, 64), swizzle 128)")
def increment_of_halves(smem, m, out, n):
    tma.reduce_inc(m, (0, 0), smem.a)


@refused("tma.reduce_max: tile must be of uint32, int32, uint64, int64, float16, bfloat16; got tile(float32, (64, 32)")
def maximum_of_floats(smem, m, out, n):
    tma.reduce_max(m, (0, 0), smem.f32)


@refused("tma.reduce_add: tensor_map is of another tile than tile(float32, (64, 32), swizzle 128)")
def sum_into_another_tensor(smem, m, out, n):
    tma.reduce_add(m, (0, 0), smem.f32)
