"""Clusters: views of another block's shared memory, and what takes them."""

from numba import cuda, float32, uint32, uint64

from hopper_numba.intrinsics import cluster, matrix, mbarrier, tma

from .cases import refused

OWN = "must lie in the block's own shared memory; got"


# What is mapped ------------------------------------------------------------------------------------------------------


@refused("cluster.map_shared: view must be a view of shared memory: memory.view makes one of a shared array; got int64")
def mapping_of_a_number(smem, m, out, n):
    cluster.map_shared(n, 0)


@refused(
    "cluster.map_shared: view must be a view of shared memory: memory.view makes one of a shared array; got array("
)
def mapping_of_an_array(smem, m, out, n):
    cluster.map_shared(cuda.shared.array(2, uint64), 0)


@refused(f"cluster.map_shared: view {OWN} ClusterShared[barriers(2)]")
def mapping_of_what_is_mapped(smem, m, out, n):
    cluster.map_shared(cluster.map_shared(smem.bars, 0), 1)


@refused("cluster.map_shared: rank must be an integer (u32); got float64")
def float_rank(smem, m, out, n):
    cluster.map_shared(smem.a, 1.0)


@refused("cluster.map_shared: rank must be a u32, 0 to 4294967295; got -1")
def negative_rank(smem, m, out, n):
    cluster.map_shared(smem.a, -1)


@refused("cluster.map_shared: missing a required argument: 'rank'; it is cluster.map_shared(view, rank)")
def no_rank(smem, m, out, n):
    cluster.map_shared(smem.a)


@refused(
    "cluster.shared_rank: view must be a view of shared memory: memory.view makes one of a shared array; got array("
)
def rank_of_global_memory(smem, m, out, n):
    cluster.shared_rank(out)


@refused("tile(float16, (64, 64), swizzle 128).address(row, column) takes integers; got address(int64)")
def address_of_one_index(smem, m, out, n):
    cluster.ld_shared_b32(cluster.map_shared(smem.a, 0).address(n))


# What the block's own instructions do not take -----------------------------------------------------------------------


@refused(f"mbarrier.wait: barrier {OWN} ClusterShared[barrier]")
def wait_on_another_blocks_barrier(smem, m, out, n):
    mbarrier.wait(cluster.map_shared(smem.bar, 1), 0)


@refused(f"mbarrier.try_wait_state_cluster: barrier {OWN} ClusterShared[barrier]")
def state_of_another_blocks_barrier(smem, m, out, n):
    mbarrier.try_wait_state_cluster(cluster.map_shared(smem.bars, 1)[0], uint64(n))


@refused(f"mbarrier.init: barrier {OWN} ClusterShared[barrier]")
def another_blocks_barrier_initialised(smem, m, out, n):
    mbarrier.init(cluster.map_shared(smem, 1).bar, 1)


@refused(f"mbarrier.arrive: barrier {OWN} ClusterShared[barrier]")
def arrival_with_a_state(smem, m, out, n):
    mbarrier.arrive(cluster.map_shared(smem.bar, 1), 1)


@refused(f"mbarrier.expect_tx: barrier {OWN} ClusterShared[barrier]")
def bytes_of_another_block(smem, m, out, n):
    mbarrier.expect_tx(cluster.map_shared(smem.bar, 1), 16)


@refused(f"matrix.ldmatrix_x4: row {OWN} ClusterShared[element of float16]")
def row_of_another_block(smem, m, out, n):
    matrix.ldmatrix_x4(cluster.map_shared(smem.a, 1).address(0, 0))


@refused(f"tma.store: tile {OWN} ClusterShared[tile(float16, (64, 64), swizzle 128)]")
def tile_of_another_block_stored(smem, m, out, n):
    tma.store(m, (0, 0), cluster.map_shared(smem.a, 1))


# What the cluster's instructions do not take -------------------------------------------------------------------------


@refused("mbarrier.arrive_remote: barrier must be one barrier; got barriers(2)")
def all_barriers_of_another_block(smem, m, out, n):
    mbarrier.arrive_remote(cluster.map_shared(smem.bars, 1), 1)


@refused("mbarrier.arrive_remote_cta: count must be 1 to 1048575; got 0")
def no_arrival(smem, m, out, n):
    mbarrier.arrive_remote_cta(cluster.map_shared(smem.bar, 1), 0)


@refused("mbarrier.complete_tx_remote: nbytes must be 0 to 1048575; got 1048576")
def too_many_bytes(smem, m, out, n):
    mbarrier.complete_tx_remote(cluster.map_shared(smem.bar, 1), 1048576)


@refused("mbarrier.arrive_drop: count must be an integer (u32); got float64")
def half_an_arrival(smem, m, out, n):
    mbarrier.arrive_drop(smem.bar, 0.5)


@refused("cluster.ld_shared_b32: address must be an element's address, tile.address(…); got tile(float16")
def load_of_a_tile(smem, m, out, n):
    cluster.ld_shared_b32(cluster.map_shared(smem.a, 1))


@refused("cluster.st_shared_v2_b32: value must be a tuple of 2 u32; got UniTuple(uint32 x 4)")
def store_of_too_many(smem, m, out, n):
    x = uint32(n)
    cluster.st_shared_v2_b32(smem.a.address(0, 0), (x, x, x, x))


@refused("cluster.st_shared_b32: value must be an integer (u32); got float32")
def store_of_a_float(smem, m, out, n):
    cluster.st_shared_b32(smem.a.address(0, 0), float32(n))


@refused("cluster.st_async_b32: barrier must be one barrier; got element of float16")
def store_with_no_barrier(smem, m, out, n):
    row = cluster.map_shared(smem.a, 1).address(0, 0)
    cluster.st_async_b32(row, uint32(n), row)
