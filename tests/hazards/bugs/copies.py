"""cp.async: copies that a thread waits for, and others read."""

from numba import cuda

from hopper_numba.intrinsics import cluster, cp_async, fence, memory, tma

from .bug import WORDS, bug, late


@bug("read-before-arrival", r"add cp_async\.wait_group by the thread that copies, then a barrier")
def copies_read_by_others_without_a_barrier(fixed):
    """Each thread waits for its own copies, and reads those of its neighbour."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        cp_async.copy_ca_4(smem.tile.address(0, t), memory.address_of(words, (t,)))  # (1)
        cp_async.commit_group()
        cp_async.wait_group(0)
        if fixed:
            cuda.syncthreads()
        else:
            late()
        words[256 + t] = cluster.ld_shared_b32(smem.tile.address(0, (t + 1) % 32))  # (2)

    return kernel


@bug("read-before-arrival", r"a copy by cp\.async is still to write")
def copies_waited_for_with_one_group_in_flight(fixed):
    """The group that is read is the newest, which wait_group(1) leaves in flight."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        cp_async.copy_ca_4(smem.tile.address(0, t), memory.address_of(words, (t,)))
        cp_async.commit_group()
        if fixed:
            cp_async.wait_group(0)
        else:
            cp_async.wait_group(1)
        cuda.syncthreads()
        words[256 + t] = cluster.ld_shared_b32(smem.tile.address(0, (t + 1) % 32))  # (2)
        cp_async.wait_group(0)

    return kernel


@bug("missing-proxy-fence", r"add fence\.proxy_async_shared_cta\(\) by the threads that wrote")
def copies_stored_by_tma_unfenced(fixed):
    """Copies by cp.async are of the generic proxy, for all that they are asynchronous."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        cp_async.copy_ca_4(smem.tile.address(0, t), memory.address_of(words, (t,)))  # (1)
        cp_async.commit_group()
        cp_async.wait_group(0)
        if fixed:
            fence.proxy_async_shared_cta()
        cuda.syncthreads()
        if t == 0:
            tma.store(tensor, (0, 0), smem.tile)  # (2)
            tma.commit_group()
            tma.wait_group(0)

    return kernel


@bug("data-race", r"add a barrier between the two")
def stage_copied_to_while_others_read_it(fixed):
    """The ring of copies lacks the barrier at the end of its round."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        for k in range(2):
            if k > 0 and t == 5:
                late()
            cp_async.copy_ca_4(smem.tile.address(0, t), memory.address_of(words, (32 * k + t,)))  # (2)
            cp_async.commit_group()
            cp_async.wait_group(0)
            cuda.syncthreads()
            words[256 + 32 * k + t] = cluster.ld_shared_b32(smem.tile.address(0, (t + 1) % 32))  # (1)
            if fixed:
                cuda.syncthreads()
            else:
                late()

    return kernel
