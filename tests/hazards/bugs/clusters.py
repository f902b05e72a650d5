"""Blocks of a cluster that rely on each other's shared memory and barriers."""

from numba import cuda

from hopper_numba.intrinsics import cluster, fence, mbarrier, tma

from .bug import WORDS, bug, late

BOTH = 3


@bug("phase-overrun", r"add fence\.mbarrier_init\(\)", blocks=2, cluster=2)
def barriers_of_the_cluster_not_fenced(fixed):
    """A relaxed arrival at the cluster's barrier is enough, behind the fence."""

    def kernel(tensor, array, words):
        smem, t, rank = WORDS.open(), cuda.threadIdx.x, cluster.rank()
        if t == 0:
            mbarrier.init(smem.bars[0], 1)  # (1)
            if fixed:
                fence.mbarrier_init()
        cluster.arrive_relaxed()
        cluster.wait()
        if t == 0:
            mbarrier.arrive_remote(cluster.map_shared(smem.bars[0], rank ^ 1), 1)  # (2)
            mbarrier.wait_cluster(smem.bars[0], 0)
        cluster.sync()

    return kernel


@bug("deadlock", r"block \(1, 0, 0\)", blocks=2, cluster=2)
def peer_that_never_expects_its_bytes(fixed):
    """A multicast load reports to the barrier of each block that it goes to."""

    def kernel(tensor, array, words):
        smem, t, rank = WORDS.open(), cuda.threadIdx.x, cluster.rank()
        if t == 0:
            mbarrier.init(smem.bars[0], 1)
            fence.mbarrier_init()
        cluster.sync()
        if t == 0 and (fixed or rank == 0):
            mbarrier.arrive_expect_tx(smem.bars[0], smem.tile.nbytes)
        if t == 0 and rank == 0:
            tma.load(smem.tile, tensor, (0, 0), smem.bars[0], multicast=BOTH)
        mbarrier.wait(smem.bars[0], 0)  # (2)
        cluster.sync()  # (2)

    return kernel


@bug("overwrite-while-read", r"add a barrier between the two", blocks=2, cluster=2)
def multicast_refill_that_asks_only_its_own_block(fixed):
    """The stage is free where the loading block has read it; the other block has not said so."""

    def kernel(tensor, array, words):
        smem, t, rank = WORDS.open(), cuda.threadIdx.x, cluster.rank()
        if t == 0:
            mbarrier.init(smem.bars[0], 1)
            mbarrier.init(smem.bars[1], 64 if fixed else 32)
            fence.mbarrier_init()
        cluster.sync()
        for k in range(2):
            if t == 0:
                mbarrier.arrive_expect_tx(smem.bars[0], smem.tile.nbytes)
            cuda.syncthreads()
            if t == 0 and rank == 0:
                if k > 0:
                    mbarrier.wait_cluster(smem.bars[1], 0)
                late()
                tma.load(smem.tile, tensor, (0, k), smem.bars[0], multicast=BOTH)  # (2)
            mbarrier.wait(smem.bars[0], k)
            words[64 * k + 32 * rank + t] = cluster.ld_shared_b32(smem.tile.address(0, t))  # (1)
            fence.proxy_async()
            if fixed or rank == 0:
                mbarrier.arrive_remote(cluster.map_shared(smem.bars[1], 0), 1)
        cluster.sync()

    return kernel


@bug("data-race", r"add a barrier between the two", blocks=2, cluster=2)
def relaxed_arrival_behind_data(fixed):
    """What was written to the other block is not released."""

    def kernel(tensor, array, words):
        smem, t, rank = WORDS.open(), cuda.threadIdx.x, cluster.rank()
        cluster.sync()
        cluster.st_shared_b32(cluster.map_shared(smem.tile, rank ^ 1).address(0, t), t)  # (1)
        if fixed:
            cluster.arrive()
        else:
            cluster.arrive_relaxed()
        cluster.wait()
        words[32 * rank + t] = cluster.ld_shared_b32(smem.tile.address(0, t))  # (2)
        cluster.sync()

    return kernel


@bug("data-race", r"add a barrier between the two", blocks=2, cluster=2)
def wait_of_the_blocks_scope_for_data_of_another(fixed):
    """The other block releases to the cluster; this one acquires from its own block."""

    def kernel(tensor, array, words):
        smem, t, rank = WORDS.open(), cuda.threadIdx.x, cluster.rank()
        if t == 0:
            mbarrier.init(smem.bars[0], 32)
            fence.mbarrier_init()
        cluster.sync()
        cluster.st_shared_b32(cluster.map_shared(smem.tile, rank ^ 1).address(0, t), t)  # (1)
        mbarrier.arrive_remote(cluster.map_shared(smem.bars[0], rank ^ 1), 1)
        if fixed:
            mbarrier.wait_cluster(smem.bars[0], 0)
        else:
            mbarrier.wait(smem.bars[0], 0)
        words[32 * rank + t] = cluster.ld_shared_b32(smem.tile.address(0, t))  # (2)
        cluster.sync()

    return kernel


@bug("out-of-bounds", r"cluster\.sync before its end keeps it", blocks=2, cluster=2)
def block_that_ends_while_the_other_reads_it(fixed):
    """Nothing keeps a block's shared memory there for the rest of its cluster."""

    def kernel(tensor, array, words):
        smem, t, rank = WORDS.open(), cuda.threadIdx.x, cluster.rank()
        cluster.st_shared_b32(smem.tile.address(0, t), t)
        cluster.sync()
        if rank == 0:
            late()
            words[t] = cluster.ld_shared_b32(cluster.map_shared(smem.tile, 1).address(0, t))  # (2)
        if fixed:
            cluster.sync()

    return kernel


@bug("unfinished-at-exit", r"add cluster\.sync\(\) behind this", blocks=2, cluster=2)
def block_that_may_end_while_the_other_reads_it(fixed):
    """The same where the other one happens to come first: nothing makes it so."""

    def kernel(tensor, array, words):
        smem, t, rank = WORDS.open(), cuda.threadIdx.x, cluster.rank()
        cluster.st_shared_b32(smem.tile.address(0, t), t)
        cluster.sync()
        if rank == 0:
            words[t] = cluster.ld_shared_b32(cluster.map_shared(smem.tile, 1).address(0, t))  # (2)
        else:
            late()
        if fixed:
            cluster.arrive_relaxed()
            cluster.wait()

    return kernel


@bug("unfinished-at-exit", r"add cluster\.sync\(\) behind this", blocks=2, cluster=2)
def last_arrival_on_the_barrier_of_a_block_that_ends(fixed):
    """The stages of the last round are given back to a producer that does not wait for that."""

    def kernel(tensor, array, words):
        smem, t, rank = WORDS.open(), cuda.threadIdx.x, cluster.rank()
        if t == 0:
            mbarrier.init(smem.bars[0], 32)
            fence.mbarrier_init()
        cluster.sync()
        if rank == 0:
            mbarrier.arrive_remote(cluster.map_shared(smem.bars[0], 1), 1)  # (2)
        else:
            late()
            if fixed:
                mbarrier.wait_cluster(smem.bars[0], 0)

    return kernel


@bug("overwrite-in-flight", r"mbarrier\.wait|wait for the barrier", blocks=2, cluster=2)
def st_async_to_a_place_not_given_back(fixed):
    """A second value goes to a mailbox before the first one has come."""

    def kernel(tensor, array, words):
        smem, t, rank = WORDS.open(), cuda.threadIdx.x, cluster.rank()
        if t == 0:
            mbarrier.init(smem.bars[0], 1)
            mbarrier.init(smem.bars[1], 1)
            fence.mbarrier_init()
        cluster.sync()
        if t == 0 and rank == 0:
            there, bar = cluster.map_shared(smem.tile, 1), cluster.map_shared(smem.bars[0], 1)
            for i in range(2):
                if fixed and i > 0:
                    mbarrier.wait_cluster(smem.bars[1], 0)
                cluster.st_async_b32(there.address(0, 0), i, bar)  # (2)
        if t == 0 and rank == 1:
            for i in range(2):
                mbarrier.arrive_expect_tx(smem.bars[0], 4)
                mbarrier.wait_cluster(smem.bars[0], i)
                words[i] = cluster.ld_shared_b32(smem.tile.address(0, 0))
                mbarrier.arrive_remote(cluster.map_shared(smem.bars[1], 0), 1)
        cluster.sync()

    return kernel
