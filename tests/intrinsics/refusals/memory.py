"""Ordered accesses to memory, and fences for tensor maps."""

from numba import float32

from hopper_numba.intrinsics import cluster, fence, memory

from .cases import refused


@refused("memory.ld_acquire_gpu_b32: address must be an element's address, address_of(array, …); got array(uint32, 1d")
def acquiring_load_of_an_array(smem, m, out, n):
    memory.ld_acquire_gpu_b32(out)


@refused("memory.ld_acquire_sys_b64: address must be an element's address, address_of(array, …); got Shared[")
def acquiring_load_of_shared_memory(smem, m, out, n):
    memory.ld_acquire_sys_b64(smem.a.address(0, 0))


@refused("memory.st_release_gpu_b32: value must be a u32, 0 to 4294967295; got 4294967296")
def releasing_store_of_33_bits(smem, m, out, n):
    memory.st_release_gpu_b32(memory.address_of(out, (0,)), 4294967296)


@refused("memory.st_release_sys_b64: value must be a u64, 0 to 18446744073709551615; got -1")
def releasing_store_of_a_negative_number(smem, m, out, n):
    memory.st_release_sys_b64(memory.address_of(out, (0,)), -1)


@refused("memory.red_release_gpu_add_u32: value must be an integer (u32); got float32")
def sum_of_floats(smem, m, out, n):
    memory.red_release_gpu_add_u32(memory.address_of(out, (0,)), float32(n))


@refused("memory.red_release_sys_min_u32: value must be a u32, 0 to 4294967295; got -1")
def lesser_of_a_negative_number(smem, m, out, n):
    memory.red_release_sys_min_u32(memory.address_of(out, (0,)), -1)


@refused("memory.red_release_gpu_add_u64: address must be an element's address, address_of(array, …); got int64")
def sum_at_a_number(smem, m, out, n):
    memory.red_release_gpu_add_u64(n, 1)


@refused(
    "fence.proxy_tensormap_acquire_gpu: tensor_map must lie in device memory, the uint64 array of its to_device(): a "
    "kernel's parameter does not change; got TensorMap[float16, 64x64, 128]"
)
def acquire_of_a_parameter(smem, m, out, n):
    fence.proxy_tensormap_acquire_gpu(m)


@refused(
    "fence.proxy_tensormap_acquire_sys: tensor_map must be a TensorMap(array, tile), or the uint64 array", "uint32"
)
def acquire_of_an_array(smem, m, out, n):
    fence.proxy_tensormap_acquire_sys(out)


@refused("fence.proxy_tensormap_release_cta: too many positional arguments")
def release_of_one_map(smem, m, out, n):
    fence.proxy_tensormap_release_cta(m)


@refused(
    "tile(float16, (64, 64), swizzle 128): elements are not assigned to; memory.st_shared_b32(tile.address(row, co"
)
def assigned_element(smem, m, out, n):
    smem.a[0, n] = 1


@refused(
    "memory.ld_shared_b32: address must lie in the block's own shared memory; got ClusterShared[element of float16]"
)
def own_load_from_a_peer(smem, m, out, n):
    out[0] = memory.ld_shared_b32(cluster.map_shared(smem, 1).a.address(0, 0))


@refused("memory.st_shared_v2_b32: values must be a tuple of 2 u32; got UniTuple(uint32 x 3)")
def three_for_two(smem, m, out, n):
    memory.st_shared_v2_b32(smem.a.address(0, 0), (out[0], out[1], out[2]))
