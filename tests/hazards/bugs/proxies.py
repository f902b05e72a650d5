"""Fences between the generic and the async proxy, and TMA stores that are not waited for."""

from numba import cuda

from hopper_numba.intrinsics import cluster, fence, mbarrier, tma

from .bug import WORDS, bug, initialise, late


@bug("missing-proxy-fence", r"add fence\.proxy_async_shared_cta\(\) by the threads that wrote")
def epilogue_without_a_fence(fixed):
    """All write their part of the tile and meet; one stores it."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        cluster.st_shared_b32(smem.tile.address(0, t), t)  # (1)
        if fixed:
            fence.proxy_async_shared_cta()
        cuda.syncthreads()
        if t == 0:
            tma.store(tensor, (0, 0), smem.tile)  # (2)
            tma.commit_group()
            tma.wait_group(0)

    return kernel


@bug("missing-proxy-fence", r"add fence\.proxy_async_shared_cta\(\) by the threads that wrote")
def only_one_of_the_writers_fences(fixed):
    """A fence is of what its own thread did."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        cluster.st_shared_b32(smem.tile.address(0, t), t)  # (1)
        if fixed or t == 0:
            fence.proxy_async_shared_cta()
        cuda.syncthreads()
        if t == 0:
            tma.store(tensor, (0, 0), smem.tile)  # (2)
            tma.commit_group()
            tma.wait_group(0)

    return kernel


@bug("missing-proxy-fence", r"add fence\.proxy_async_global\(\) by the threads that wrote")
def workspace_fenced_as_shared_memory(fixed):
    """Partial sums go to global memory by ordinary stores, and are loaded by TMA."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        initialise(smem, 1)
        array[0, t] = t  # (1)
        if fixed:
            fence.proxy_async_global()
        else:
            fence.proxy_async_shared_cta()
        cuda.syncthreads()
        if t == 0:
            mbarrier.arrive_expect_tx(smem.bars[0], smem.tile.nbytes)
            tma.load(smem.tile, tensor, (0, 0), smem.bars[0])  # (2)
            mbarrier.wait(smem.bars[0], 0)

    return kernel


@bug("overwrite-while-read", r"add tma\.wait_group_read by the thread that stores, then a barrier")
def staging_buffer_used_again_at_once(fixed):
    """The buffer of an epilogue is written again while the store of the part before reads it."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        for part in range(2):
            if fixed and t == 0:
                tma.wait_group_read(0)
            cuda.syncthreads()
            cluster.st_shared_b32(smem.tile.address(0, t), t)  # (2)
            fence.proxy_async_shared_cta()
            cuda.syncthreads()
            if t == 0:
                tma.store(tensor, (0, part), smem.tile)  # (1)
                tma.commit_group()
        if t == 0:
            tma.wait_group(0)

    return kernel


@bug("overwrite-while-read", r"add tma\.wait_group_read by the thread that stores, then a barrier")
def the_wait_for_a_store_by_another_thread(fixed):
    """Bulk groups are each thread's own: the wait of one that has none waits for nothing."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        cluster.st_shared_b32(smem.tile.address(0, t), t)
        fence.proxy_async_shared_cta()
        cuda.syncthreads()
        if t == 0:
            tma.store(tensor, (0, 0), smem.tile)  # (1)
            tma.commit_group()
        if t == (0 if fixed else 1):
            tma.wait_group_read(0)
        cuda.syncthreads()
        cluster.st_shared_b32(smem.tile.address(0, t), t + 1)  # (2)
        if t == 0:
            tma.wait_group(0)

    return kernel


@bug("overwrite-while-read", r"add tma\.wait_group_read by the thread that stores, then a barrier")
def one_group_too_many_left_in_flight(fixed):
    """With two buffers in turn one group may be in flight, not two."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        for part in range(3):
            if t == 0:
                if fixed:
                    tma.wait_group_read(1)
                else:
                    tma.wait_group_read(2)
            cuda.syncthreads()
            staging = smem.other if part % 2 else smem.tile
            cluster.st_shared_b32(staging.address(0, t), t)  # (2)
            fence.proxy_async_shared_cta()
            cuda.syncthreads()
            if t == 0:
                tma.store(tensor, (0, part), staging)  # (1)
                tma.commit_group()
        if t == 0:
            tma.wait_group(0)

    return kernel


@bug("data-race", r"tma\.wait_group by the thread that stores")
def result_of_a_store_read_after_its_reads(fixed):
    """wait_group_read says that the tile has been read, not that the tensor has been written."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        cluster.st_shared_b32(smem.tile.address(0, t), t)
        fence.proxy_async_shared_cta()
        cuda.syncthreads()
        if t == 0:
            tma.store(tensor, (0, 0), smem.tile)  # (1)
            tma.commit_group()
            if fixed:
                tma.wait_group(0)
            else:
                tma.wait_group_read(0)
        cuda.syncthreads()
        words[t] = array[0, t]  # (2)
        if t == 0:
            tma.wait_group(0)

    return kernel


@bug("overwrite-while-read", r"add a barrier between the two")
def refill_of_a_tile_that_others_still_read(fixed):
    """Ordinary reads of a stage, by all lanes, and the next load by one of them."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        initialise(smem, 1)
        for k in range(2):
            if t == 0:
                late()
                mbarrier.arrive_expect_tx(smem.bars[0], smem.tile.nbytes)
                tma.load(smem.tile, tensor, (0, k), smem.bars[0])  # (2)
            mbarrier.wait(smem.bars[0], k & 1)
            words[32 * k + t] = cluster.ld_shared_b32(smem.tile.address(0, t))  # (1)
            if fixed:
                fence.proxy_async_shared_cta()
                cuda.syncthreads()

    return kernel


@bug("unfinished-at-exit", r"tma\.wait_group_read must come before")
def block_ends_while_its_tile_is_stored(fixed):
    """Shared memory goes with the block, whether a store has read it or not."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        cluster.st_shared_b32(smem.tile.address(0, t), t)
        fence.proxy_async_shared_cta()
        cuda.syncthreads()
        if t == 0:
            tma.store(tensor, (0, 0), smem.tile)  # (2)
            tma.commit_group()
            if fixed:
                tma.wait_group_read(0)

    return kernel
