"""Barriers that count wrongly, or are used before, behind or beside what they are for."""

from numba import cuda

from hopper_numba.intrinsics import barrier, cluster, fence, mbarrier, tma, warp

from .bug import WORDS, bug, initialise, late


@bug("tx-mismatch", r"expects 128 bytes; copies of 256 were issued in it")
def bytes_of_one_tile_expected_for_two(fixed):
    """The phase is complete as soon as the bytes of either tile are there."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        initialise(smem, 1)
        if t == 0:
            mbarrier.arrive_expect_tx(smem.bars[0], smem.tile.nbytes * (2 if fixed else 1))
            tma.load(smem.tile, tensor, (0, 0), smem.bars[0])  # (2)
            tma.load(smem.other, tensor, (0, 1), smem.bars[0])  # (2)
        mbarrier.wait(smem.bars[0], 0)
        for loaded in (smem.tile, smem.other):
            words[t] += cluster.ld_shared_b32(loaded.address(0, t))

    return kernel


@bug("tx-mismatch", r"expects 256 bytes; copies of 128 were issued in it")
def bytes_of_two_tiles_expected_for_one(fixed):
    """The second tile is loaded under a condition that its bytes are expected without."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        initialise(smem, 1)
        if t == 0:
            mbarrier.arrive_expect_tx(smem.bars[0], smem.tile.nbytes * (1 if fixed else 2))
            tma.load(smem.tile, tensor, (0, 0), smem.bars[0])
        mbarrier.wait(smem.bars[0], 0)  # (2)

    return kernel


@bug("deadlock", r"31 of 32 arrivals missing")
def count_of_a_warp_and_one_arrival(fixed):
    """Initialised for every thread of the consumer; one elected thread arrives."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        initialise(smem, 1 if fixed else 32)
        if t == 1:
            mbarrier.arrive(smem.bars[0], 1)
        mbarrier.wait(smem.bars[0], 0)  # (2)

    return kernel


@bug("phase-overrun", r"add an arrival behind the wait", threads=64)
def arrival_by_every_thread_for_a_count_of_one(fixed):
    """Each arrival is a phase: the barrier runs ahead of who waits for one of them."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        initialise(smem, 1)
        if t < 32:
            mbarrier.wait(smem.bars[0], 0)  # (2)
        elif fixed:
            if t == 32:
                mbarrier.arrive(smem.bars[0], 1)
        elif t < 35:
            mbarrier.arrive(smem.bars[0], 1)

    return kernel


@bug("phase-overrun", r"2 arrivals in phase 0, which takes only 1 more")
def more_arrivals_than_the_phase_takes(fixed):
    """An arrival for each of two tiles, where the barrier counts one thread."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        initialise(smem, 1)
        if t == 0:
            mbarrier.arrive(smem.bars[0], 1 if fixed else 2)  # (2)
        mbarrier.wait(smem.bars[0], 0)

    return kernel


@bug("phase-overrun", r"add an arrival behind the wait", threads=64)
def producer_that_does_not_wait_for_empty(fixed):
    """It arms the barrier again though the consumer may not have seen the phase before."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        initialise(smem, 1)
        if t == 0:
            mbarrier.arrive_expect_tx(smem.bars[0], smem.tile.nbytes)
            tma.load(smem.tile, tensor, (0, 0), smem.bars[0])
            if fixed:
                mbarrier.wait(smem.bars[1], 0)
            late()
            mbarrier.arrive_expect_tx(smem.bars[0], smem.other.nbytes)
            tma.load(smem.other, tensor, (0, 1), smem.bars[0])
        elif t == 32:
            mbarrier.wait(smem.bars[0], 0)  # (2)
            if fixed:
                mbarrier.arrive(smem.bars[1], 1)
            mbarrier.wait(smem.bars[0], 1)

    return kernel


@bug("phase-overrun", r"add cuda\.syncthreads\(\) between the two")
def barrier_used_before_its_initialisation_is_visible(fixed):
    """The barrier of the block behind the initialisation is missing."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        if t == 0:
            mbarrier.init(smem.bars[0], 1)  # (1)
        if fixed:
            cuda.syncthreads()
        if t == 1:
            late()
            mbarrier.arrive(smem.bars[0], 1)  # (2)

    return kernel


@bug("phase-overrun", r"add fence\.mbarrier_init\(\) by the thread that initialises")
def barrier_given_to_tma_unfenced(fixed):
    """The async proxy counts the bytes: it has to see the initialisation too."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        if t == 0:
            mbarrier.init(smem.bars[0], 1)  # (1)
            if fixed:
                fence.mbarrier_init()
        cuda.syncthreads()
        if t == 1:
            mbarrier.arrive_expect_tx(smem.bars[0], smem.tile.nbytes)
            tma.load(smem.tile, tensor, (0, 0), smem.bars[0])  # (2)
            mbarrier.wait(smem.bars[0], 0)

    return kernel


@bug("phase-overrun", r"add a barrier between the two")
def barrier_initialised_again_while_another_waits(fixed):
    """Each tile begins with fresh barriers; who has waited for the last one does not wait for the others."""

    def kernel(tensor, array, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        initialise(smem, 1)
        if t == 0:
            mbarrier.arrive(smem.bars[0], 1)
        mbarrier.wait(smem.bars[0], 0)  # (1)
        if fixed:
            cuda.syncthreads()
        if t == 0:
            late()
            mbarrier.inval(smem.bars[0])  # (2)
            mbarrier.init(smem.bars[0], 1)

    return kernel


@bug("barrier-misuse", r"named barrier 1 is used with 64 threads; 32 arrived for 96", threads=96)
def named_barrier_with_two_numbers_of_threads(fixed):
    """One warp names all three, the two others only themselves."""

    def kernel(tensor, array, words):
        t = cuda.threadIdx.x
        if t < 32:
            barrier.arrive(1, 96)
        else:
            late()
            barrier.sync(1, 96 if fixed else 64)  # (2)

    return kernel


@bug("deadlock", r"named barrier 1: 32 of 96 threads missing", threads=96)
def named_barrier_that_one_warp_never_reaches(fixed):
    """The number of threads is the block's, and the producer's warp is elsewhere."""

    def kernel(tensor, array, words):
        if cuda.threadIdx.x >= 32:
            barrier.sync(1, 64 if fixed else 96)  # (2)

    return kernel


@bug("divergent-collective", r"executed by part of warp 0")
def elect_one_in_a_branch(fixed):
    """elect.sync names all 32 lanes, and some of them are not there."""

    def kernel(tensor, array, words):
        t = cuda.threadIdx.x
        if fixed:
            if warp.elect_one():
                words[0] = 1
        elif t < 16 and warp.elect_one():  # (2)
            words[0] = 1

    return kernel
