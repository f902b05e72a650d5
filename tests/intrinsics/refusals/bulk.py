"""Bulk copies: addresses and sizes."""

from numba import cuda, uint64

from hopper_numba.intrinsics import bulk, cluster, memory

from .cases import refused

AN_ADDRESS = "must be an element's address, tile.address(…), or a whole tile in C order"


@refused("bulk.load: nbytes must be 16 to 4294967280 in steps of 16; got 24")
def size_off_the_step(smem, m, out, n):
    bulk.load(smem.plain, memory.address_of(out, (0,)), 24, smem.bar)


@refused("bulk.store: nbytes must be 16 to 4294967280 in steps of 16; got 0")
def no_bytes(smem, m, out, n):
    bulk.store(memory.address_of(out, (0,)), smem.plain, 0)


@refused("bulk.prefetch: nbytes must be an integer (u32); got float64")
def float_size(smem, m, out, n):
    bulk.prefetch(memory.address_of(out, (0,)), 16.0)


@refused(f"bulk.load: destination {AN_ADDRESS}; got tile(float16, (64, 64), swizzle 128)")
def swizzled_tile_for_bytes(smem, m, out, n):
    bulk.load(smem.a, memory.address_of(out, (0,)), 64, smem.bar)


@refused(f"bulk.store: source {AN_ADDRESS}; got tile(float16, (64, 64), C order).T")
def transposed_tile_for_bytes(smem, m, out, n):
    bulk.store(memory.address_of(out, (0,)), smem.plain.T, 64)


@refused(f"bulk.store: source {AN_ADDRESS}; got tile(float16, (64, 16), C order, panels")
def part_for_bytes(smem, m, out, n):
    bulk.store(memory.address_of(out, (0,)), smem.plain.part(64, 16, 0, 0), 64)


@refused(f"bulk.reduce_add_u32: source {AN_ADDRESS}; got barrier")
def barrier_for_bytes(smem, m, out, n):
    bulk.reduce_add_u32(memory.address_of(out, (0,)), smem.bar, 16)


@refused("bulk.load: source must be an element's address, address_of(array, …); got array(uint32, 1d, C)")
def array_for_a_global_address(smem, m, out, n):
    bulk.load(smem.plain, out, 64, smem.bar)


@refused("bulk.store: destination must be an element's address, address_of(array, …); got Shared[element of float16]")
def shared_address_for_a_global_one(smem, m, out, n):
    bulk.store(smem.plain.address(0, 0), smem.plain.address(0, 8), 16)


@refused("bulk.send: destination must be a view of shared memory or a shared array; got GlobalElement")
def send_to_global_memory(smem, m, out, n):
    bulk.send(memory.address_of(out, (0,)), smem.plain, 16, smem.bar)


@refused(
    "bulk.send: source must lie in the block's own shared memory; got ClusterShared[tile(float16, (64, 64), C order"
)
def send_of_another_blocks_bytes(smem, m, out, n):
    bulk.send(smem.plain, cluster.map_shared(smem.plain, 1), 16, smem.bar)


@refused("bulk.send_reduce_add_u64: barrier must be one barrier; got barriers(2)")
def sent_to_two_barriers(smem, m, out, n):
    bulk.send_reduce_add_u64(smem.plain, smem.plain, 16, smem.bars)


@refused("bulk.load: multicast must be 1 to 65535; got -1")
def bulk_load_to_all_blocks(smem, m, out, n):
    bulk.load(cuda.shared.array(2, uint64), memory.address_of(out, (0,)), 16, smem.bar, -1)


@refused("bulk.send: too many positional arguments; it is bulk.send(destination, source, nbytes, barrier)")
def send_with_a_policy(smem, m, out, n):
    bulk.send(smem.plain, smem.plain, 16, smem.bar, n)
