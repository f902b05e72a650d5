"""Rings of stages between a producer, which loads, and warp groups, which multiply; and accumulators."""

from numba import cuda, float32

from hopper_numba.intrinsics import mbarrier, tma, wgmma

from .bug import RING, WARP_GROUP, bug, initialise_ring, late


@cuda.jit(device=True)
def keep(row, column, low, high, words):
    words[row] = low


@bug("overwrite-while-read", r"add wgmma\.wait_group by the warp group that multiplies", RING, WARP_GROUP + 1)
def stage_released_with_its_product_in_flight(fixed):
    """wait_group(acc, 1) keeps the newest product in flight: the stage that it lets go is the one before."""

    def kernel(tensor, array, words):
        smem, t = RING.open(), cuda.threadIdx.x
        initialise_ring(smem, 1)
        if t == WARP_GROUP:
            for k in range(4):
                mbarrier.wait(smem.empty[k % 2], k // 2 & 1 ^ 1)
                mbarrier.arrive_expect_tx(smem.full[k % 2], smem.b[0].nbytes)
                tma.load(smem.b[k % 2], tensor, (16 * k, 0), smem.full[k % 2])  # (2)
        else:
            a = wgmma.fragment("float16", (0, 0, 0, 0))
            acc = wgmma.zeros(float32, 8)
            for k in range(4):
                mbarrier.wait(smem.full[k % 2], k // 2 & 1)
                wgmma.fence()
                acc = wgmma.mma(a, smem.b[k % 2].T, acc)  # (1)
                wgmma.commit_group()
                acc, a = wgmma.wait_group((acc, a), 1)
                released = k - 1 if fixed else k
                if t == 0 and released >= 0:
                    mbarrier.arrive(smem.empty[released % 2], 1)
            wgmma.wait_group((acc, a), 0)

    return kernel


@bug("overwrite-while-read", r"add wgmma\.wait_group by the warp group that multiplies", RING, WARP_GROUP + 1)
def stage_released_before_the_wait(fixed):
    """The arrival on `empty` stands before the wait for the product that reads the stage."""

    def kernel(tensor, array, words):
        smem, t = RING.open(), cuda.threadIdx.x
        initialise_ring(smem, 1)
        if t == WARP_GROUP:
            for k in range(3):
                mbarrier.wait(smem.empty[k % 2], k // 2 & 1 ^ 1)
                mbarrier.arrive_expect_tx(smem.full[k % 2], smem.b[0].nbytes)
                tma.load(smem.b[k % 2], tensor, (16 * k, 0), smem.full[k % 2])  # (2)
        else:
            a = wgmma.fragment("float16", (0, 0, 0, 0))
            acc = wgmma.zeros(float32, 8)
            for k in range(3):
                mbarrier.wait(smem.full[k % 2], k // 2 & 1)
                wgmma.fence()
                acc = wgmma.mma(a, smem.b[k % 2].T, acc)  # (1)
                wgmma.commit_group()
                if not fixed and t == 0:
                    mbarrier.arrive(smem.empty[k % 2], 1)
                acc, a = wgmma.wait_group((acc, a), 0)
                if fixed and t == 0:
                    mbarrier.arrive(smem.empty[k % 2], 1)

    return kernel


@bug("overwrite-while-read", r"add wgmma\.wait_group by the warp group that multiplies", RING, 2 * WARP_GROUP + 1)
def one_warp_groups_wait_for_both(fixed):
    """Two warp groups multiply by the same stage; only the first one gives it back."""

    def kernel(tensor, array, words):
        smem, t = RING.open(), cuda.threadIdx.x
        initialise_ring(smem, 2 if fixed else 1)
        if t == 2 * WARP_GROUP:
            for k in range(3):
                mbarrier.wait(smem.empty[k % 2], k // 2 & 1 ^ 1)
                late()
                mbarrier.arrive_expect_tx(smem.full[k % 2], smem.b[0].nbytes)
                tma.load(smem.b[k % 2], tensor, (16 * k, 0), smem.full[k % 2])  # (2)
        else:
            a = wgmma.fragment("float16", (0, 0, 0, 0))
            acc = wgmma.zeros(float32, 8)
            for k in range(3):
                mbarrier.wait(smem.full[k % 2], k // 2 & 1)
                wgmma.fence()
                acc = wgmma.mma(a, smem.b[k % 2].T, acc)  # (1)
                wgmma.commit_group()
                acc, a = wgmma.wait_group((acc, a), 0)
                if t == 0 or (fixed and t == WARP_GROUP):
                    mbarrier.arrive(smem.empty[k % 2], 1)

    return kernel


@bug("overwrite-while-read", r"add wgmma\.wait_group by the warp group that multiplies", RING, WARP_GROUP)
def next_tile_loaded_without_meeting(fixed):
    """One thread of the warp group loads the next tile where it should first wait for the product."""

    def kernel(tensor, array, words):
        smem, t = RING.open(), cuda.threadIdx.x
        initialise_ring(smem, 1)
        a = wgmma.fragment("float16", (0, 0, 0, 0))
        acc = wgmma.zeros(float32, 8)
        for k in range(2):
            if t == 0:
                mbarrier.arrive_expect_tx(smem.full[0], smem.b[0].nbytes)
                tma.load(smem.b[0], tensor, (16 * k, 0), smem.full[0])  # (2)
            mbarrier.wait(smem.full[0], k & 1)
            wgmma.fence()
            acc = wgmma.mma(a, smem.b[0].T, acc)  # (1)
            wgmma.commit_group()
            if fixed:
                acc, a = wgmma.wait_group((acc, a), 0)
        wgmma.wait_group((acc, a), 0)

    return kernel


@bug("deadlock", r"full\[0\], phase 0 \(parity 0\): 1 of 1 arrivals missing", RING, WARP_GROUP + 1)
def producer_begins_with_the_wrong_parity(fixed):
    """A fresh barrier counts as if the phase of parity 1 had passed; a single iteration is enough to hang."""

    def kernel(tensor, array, words):
        smem, t = RING.open(), cuda.threadIdx.x
        initialise_ring(smem, 1)
        if t == WARP_GROUP:
            mbarrier.wait(smem.empty[0], 1 if fixed else 0)  # (1)
            mbarrier.arrive_expect_tx(smem.full[0], smem.b[0].nbytes)
            tma.load(smem.b[0], tensor, (0, 0), smem.full[0])
        else:
            mbarrier.wait(smem.full[0], 0)  # (2)
            if t == 0:
                mbarrier.arrive(smem.empty[0], 1)

    return kernel


@bug("read-before-arrival", r"wait for the (barrier|phase) that it completes", RING, WARP_GROUP + 1)
def consumer_begins_with_the_wrong_parity(fixed):
    """The wait for parity 1 returns at once: the only iteration multiplies what has not come."""

    def kernel(tensor, array, words):
        smem, t = RING.open(), cuda.threadIdx.x
        initialise_ring(smem, 1)
        if t == WARP_GROUP:
            mbarrier.arrive_expect_tx(smem.full[0], smem.b[0].nbytes)
            tma.load(smem.b[0], tensor, (0, 0), smem.full[0])  # (1)
            mbarrier.wait(smem.full[0], 0)
        else:
            mbarrier.wait(smem.full[0], 0 if fixed else 1)
            late()
            a = wgmma.fragment("float16", (0, 0, 0, 0))
            acc = wgmma.zeros(float32, 8)
            wgmma.fence()
            acc = wgmma.mma(a, smem.b[0].T, acc)  # (2)
            wgmma.commit_group()
            wgmma.wait_group((acc, a), 0)

    return kernel


@bug("read-before-arrival", r"wait for the (barrier|phase) that it completes", RING, WARP_GROUP)
def parity_that_never_turns(fixed):
    """Right for the first tile, and for one tile only: the second wait sees the first tile's phase."""

    def kernel(tensor, array, words):
        smem, t = RING.open(), cuda.threadIdx.x
        initialise_ring(smem, 1)
        a = wgmma.fragment("float16", (0, 0, 0, 0))
        acc = wgmma.zeros(float32, 8)
        for k in range(2):
            if t == 0:
                mbarrier.arrive_expect_tx(smem.full[0], smem.b[0].nbytes)
                tma.load(smem.b[0], tensor, (16 * k, 0), smem.full[0])  # (1)
            cuda.syncthreads()
            mbarrier.wait(smem.full[0], k & 1 if fixed else 0)
            wgmma.fence()
            acc = wgmma.mma(a, smem.b[0].T, acc)  # (2)
            wgmma.commit_group()
            acc, a = wgmma.wait_group((acc, a), 0)
        mbarrier.wait(smem.full[0], 1)

    return kernel


@bug("missing-wgmma-fence", r"add wgmma\.fence\(\) before it", RING, WARP_GROUP)
def accumulator_read_then_used_again(fixed):
    """An epilogue reads the sums of a tile; the next tile adds to the same registers."""

    def kernel(tensor, array, words):
        smem, t = RING.open(), cuda.threadIdx.x
        initialise_ring(smem, 1)
        if t == 0:
            mbarrier.arrive_expect_tx(smem.full[0], smem.b[0].nbytes)
            tma.load(smem.b[0], tensor, (0, 0), smem.full[0])
        mbarrier.wait(smem.full[0], 0)
        a = wgmma.fragment("float16", (0, 0, 0, 0))
        acc = wgmma.zeros(float32, 8)
        wgmma.fence()
        for _ in range(2):
            acc = wgmma.mma(a, smem.b[0].T, acc)  # (2)
            wgmma.commit_group()
            acc, a = wgmma.wait_group((acc, a), 0)
            if t % 4 == 0:
                wgmma.for_each_pair(keep, acc, (words,))
            if fixed:
                wgmma.fence()

    return kernel


@bug("missing-wgmma-fence", r"add wgmma\.fence\(\) before it", RING, WARP_GROUP)
def fragment_computed_behind_the_fence(fixed):
    """The fence orders the registers as they were before it."""

    def kernel(tensor, array, words):
        smem, t = RING.open(), cuda.threadIdx.x
        initialise_ring(smem, 1)
        if t == 0:
            mbarrier.arrive_expect_tx(smem.full[0], smem.b[0].nbytes)
            tma.load(smem.b[0], tensor, (0, 0), smem.full[0])
        mbarrier.wait(smem.full[0], 0)
        acc = wgmma.zeros(float32, 8)
        if not fixed:
            wgmma.fence()
        a = wgmma.fragment("float16", (t, t, t, t))
        if fixed:
            wgmma.fence()
        acc = wgmma.mma(a, smem.b[0].T, acc)  # (2)
        wgmma.commit_group()
        wgmma.wait_group((acc, a), 0)

    return kernel


@bug("accumulator-in-flight", r"wgmma\.wait_group\(acc, 0\) must come before", RING, WARP_GROUP)
def accumulator_read_with_a_group_in_flight(fixed):
    """The wait leaves one group in flight, and that is the one of this accumulator."""

    def kernel(tensor, array, words):
        smem, t = RING.open(), cuda.threadIdx.x
        initialise_ring(smem, 1)
        if t == 0:
            mbarrier.arrive_expect_tx(smem.full[0], smem.b[0].nbytes)
            tma.load(smem.b[0], tensor, (0, 0), smem.full[0])
        mbarrier.wait(smem.full[0], 0)
        a = wgmma.fragment("float16", (0, 0, 0, 0))
        acc = wgmma.zeros(float32, 8)
        wgmma.fence()
        acc = wgmma.mma(a, smem.b[0].T, acc)  # (1)
        wgmma.commit_group()
        acc, a = wgmma.wait_group((acc, a), 0 if fixed else 1)
        if t % 4 == 0:
            wgmma.for_each_pair(keep, acc, (words,))  # (2)

    return kernel
