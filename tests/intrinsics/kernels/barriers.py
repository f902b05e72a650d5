"""Barriers in shared memory, and fences."""

import numpy as np
from numba import cuda, uint32

from hopper_numba.intrinsics import fence, mbarrier, tma
from hopper_numba.shared import SharedLayout, barriers, tile

from .cases import GIVEN, THREADS, case, placed

TWO = SharedLayout(loaded=barriers(2))


@case(
    "mbarrier.init",
    "mbarrier.arrive",
    "mbarrier.wait",
    "mbarrier.test_wait",
    "mbarrier.try_wait",
    "mbarrier.try_wait_for",
    "mbarrier.inval",
    "fence.mbarrier_init",
    shared=TWO,
    sass=("SYNCS.EXCH.64", "SYNCS.ARRIVE", "SYNCS.PHASECHK.*TRYWAIT", "SYNCS.CCTL.IV"),
    out=lambda: placed((0, np.ones(256)), (256, np.zeros(128))),
)
def phases(given, out):
    bar = TWO.open().loaded
    t = cuda.threadIdx.x
    if t == 0:
        mbarrier.init(bar[0], THREADS)
        mbarrier.init(bar[1], 2 * THREADS)
        fence.mbarrier_init()
    cuda.syncthreads()
    out[t] = mbarrier.test_wait(bar[1], 1)
    mbarrier.arrive(bar[1], 2)
    mbarrier.wait(bar[1], 0)
    out[128 + t] = mbarrier.test_wait(bar[1], 0)
    out[256 + t] = mbarrier.test_wait(bar[1], 1)
    for phase in range(3):
        mbarrier.arrive(bar[0], 1)
        while not mbarrier.try_wait(bar[0], phase & 1):
            pass
    mbarrier.arrive(bar[0], 1)
    while not mbarrier.try_wait_for(bar[0], 1, 1000):
        pass
    cuda.syncthreads()
    if t == 0:
        mbarrier.inval(bar[0])
        mbarrier.inval(bar[1])


@case(
    "mbarrier.init",
    "mbarrier.arrive",
    "mbarrier.wait",
    "tma.commit_group",
    "tma.wait_group",
    shared=TWO,
    out=lambda: placed((0, GIVEN[:128])),
)
def keywords(given, out):
    bar = TWO.open().loaded
    t = cuda.threadIdx.x
    if t == 0:
        mbarrier.init(bar[0], count=THREADS)
        mbarrier.init(count=1, barrier=bar[1])
        tma.commit_group()
        tma.wait_group(n=0)
    cuda.syncthreads()
    mbarrier.arrive(bar[0], count=1)
    mbarrier.wait(parity=0, barrier=bar[0])
    out[t] = given[t]


@case(
    "mbarrier.arrive_expect_tx",
    "mbarrier.expect_tx",
    "mbarrier.test_wait_state",
    "mbarrier.try_wait_state",
    shared=TWO,
    out=lambda: placed((0, [1, 1, 0])),
)
def states(given, out):
    bar = TWO.open().loaded
    t = cuda.threadIdx.x
    if t == 0:
        mbarrier.init(bar[0], 1)
        mbarrier.init(bar[1], 1)
        mbarrier.expect_tx(bar[1], 0)
        fence.mbarrier_init()
    cuda.syncthreads()
    if t == 32:
        first, second = mbarrier.arrive(bar[0], 1), mbarrier.arrive_expect_tx(bar[1], 0)
        out[0] = mbarrier.test_wait_state(bar[0], first)
        out[1] = mbarrier.try_wait_state(bar[1], second)
        third = mbarrier.arrive_expect_tx(bar[0], 16)
        out[2] = mbarrier.test_wait_state(bar[0], third)
        mbarrier.complete_tx(bar[0], 16)


@case(
    "mbarrier.arrive_drop",
    "mbarrier.arrive_drop_expect_tx",
    "mbarrier.complete_tx",
    shared=TWO,
    sass=("SYNCS.ARRIVE.*OPTOUT", "SYNCS.ARRIVE.*A0TX"),
    out=lambda: placed((0, [0, 1, 0, 0, 1, 0, 1]), (128, GIVEN[128:192])),
)
def drops(given, out):
    """One thread counts all of three phases, of 4, 3 and 2 arrivals; then half the block leaves a barrier."""
    bar = TWO.open().loaded
    t = cuda.threadIdx.x
    if t == 0:
        mbarrier.init(bar[0], 4)
        mbarrier.init(bar[1], THREADS)
        state = mbarrier.arrive_drop(bar[0], 1)
        out[0] = mbarrier.test_wait_state(bar[0], state)
        mbarrier.arrive(bar[0], 3)
        out[1] = mbarrier.test_wait_state(bar[0], state)
        state = mbarrier.arrive(bar[0], 2)
        out[2] = mbarrier.test_wait_state(bar[0], state)
        mbarrier.arrive_drop_expect_tx(bar[0], 16)
        out[3] = mbarrier.test_wait_state(bar[0], state)
        mbarrier.complete_tx(bar[0], 16)
        out[4] = mbarrier.test_wait_state(bar[0], state)
        state = mbarrier.arrive(bar[0], 1)
        out[5] = mbarrier.test_wait_state(bar[0], state)
        mbarrier.arrive(bar[0], 1)
        out[6] = mbarrier.test_wait_state(bar[0], state)
    cuda.syncthreads()
    if t >= 64:
        mbarrier.arrive_drop(bar[1], 1)
    else:
        for phase in range(3):
            mbarrier.arrive(bar[1], 1)
            mbarrier.wait(bar[1], phase & 1)
        out[128 + t] = given[128 + t]


@case(
    "fence.proxy_async",
    "fence.proxy_async_shared_cta",
    "fence.proxy_async_shared_cluster",
    "fence.proxy_async_global",
    "fence.acq_rel_cta",
    "fence.acq_rel_cluster",
    "fence.acq_rel_gpu",
    "fence.acq_rel_sys",
    sass=("FENCE.VIEW.ASYNC", "MEMBAR", "MEMBAR.ALL.SYS"),
    out=lambda: placed((0, GIVEN[:256])),
)
def fences(given, out):
    t = cuda.threadIdx.x
    out[t] = given[t]
    fence.proxy_async()
    fence.proxy_async_shared_cta()
    fence.proxy_async_shared_cluster()
    fence.proxy_async_global()
    fence.acq_rel_cta()
    fence.acq_rel_cluster()
    fence.acq_rel_gpu()
    fence.acq_rel_sys()
    out[128 + t] = given[128 + t]


BOX = tile("float16", (64,))
LOADED = SharedLayout(tile=BOX, loaded=barriers())


@case(
    *(f"fence.proxy_tensormap_{what}_{scope}" for what in ("release", "acquire") for scope in fence.SCOPES),
    shared=LOADED,
    box=BOX,
    in_memory=True,
    sass=("MEMBAR.ALL.SYS", "UTMACCTL.IV", "UTMALDG.1D"),
    out=lambda: placed((0, np.arange(8, 72).astype(np.float16).view(np.uint32))),
)
def maps_in_memory(source, target, given, out):
    smem, words = LOADED.open(), cuda.shared.array(0, uint32)
    t = cuda.threadIdx.x
    if t == 0:
        fence.proxy_tensormap_release_cta()
        fence.proxy_tensormap_release_cluster()
        fence.proxy_tensormap_release_gpu()
        fence.proxy_tensormap_release_sys()
        fence.proxy_tensormap_acquire_cta(source)
        fence.proxy_tensormap_acquire_cluster(source)
        fence.proxy_tensormap_acquire_gpu(source)
        fence.proxy_tensormap_acquire_sys(source)
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
        tma.load(smem.tile, source, (8,), smem.loaded)
    cuda.syncthreads()
    mbarrier.wait(smem.loaded, 0)
    if t < 32:
        out[t] = words[t]
