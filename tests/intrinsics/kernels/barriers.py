"""Barriers in shared memory, and fences."""

import numpy as np
from numba import cuda

from hopper_numba.intrinsics import fence, mbarrier, tma
from hopper_numba.shared import SharedLayout, barriers

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


@case(
    "fence.proxy_async",
    "fence.proxy_async_shared_cta",
    "fence.proxy_async_shared_cluster",
    "fence.proxy_async_global",
    "fence.acq_rel_cta",
    "fence.acq_rel_cluster",
    "fence.acq_rel_gpu",
    sass=("FENCE.VIEW.ASYNC", "MEMBAR"),
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
    out[128 + t] = given[128 + t]
