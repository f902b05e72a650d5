"""Who a thread is, registers, named barriers, clocks."""

import numpy as np
from numba import cuda, uint32

from hopper_numba.intrinsics import barrier, grid, timer, warp

from .cases import GIVEN, THREADS, T, case, placed

W = np.arange(256)


@case(
    "warp.lane_index",
    "warp.warp_index",
    "warp.warp_group_index",
    "warp.elect_one",
    threads=256,
    sass=("SR_LANEID", "ELECT"),
    out=lambda: placed((0, W % 32 | W // 32 << 8 | W // 128 << 16 | (W % 32 == 0) << 24)),
)
def who(given, out):
    elected = uint32(1) if warp.elect_one() else uint32(0)
    t = cuda.threadIdx.x
    out[t] = warp.lane_index() | warp.warp_index() << 8 | warp.warp_group_index() << 16 | elected << 24


@case(
    "warp.shfl_bfly",
    sass=("SHFL.BFLY",),
    out=lambda: placed(
        (0, GIVEN[T ^ 5]),
        (128, GIVEN[T ^ (1 + T % 32 // 16)]),
        (256, np.repeat(GIVEN[:128].reshape(4, 32).sum(axis=1), 32)),
    ),
)
def butterfly(given, out):
    t = cuda.threadIdx.x
    out[t] = warp.shfl_bfly(given[t], 5)
    out[128 + t] = warp.shfl_bfly(given[t], 1 + t % 32 // 16)
    total, mask = given[t], 16
    while mask > 0:
        total += warp.shfl_bfly(total, mask)
        mask //= 2
    out[256 + t] = total


@case(
    "warp.setmaxnreg_inc",
    "warp.setmaxnreg_dec",
    threads=256,
    registers=(40, 256),
    sass=("USETMAXREG.DEALLOC", "USETMAXREG.TRY_ALLOC"),
    out=lambda: placed((128, GIVEN[128:256])),
)
def registers(given, out):
    if warp.warp_group_index() == 0:
        warp.setmaxnreg_dec(40)
    else:
        warp.setmaxnreg_inc(256)
        out[cuda.threadIdx.x] = given[cuda.threadIdx.x]


@case(
    "barrier.sync",
    "barrier.arrive",
    sass=("BAR.SYNC.* 0x1, 0x80", "BAR.ARV 0x2, 0x80"),
    out=lambda: placed((0, GIVEN[127 - T]), (128, (GIVEN[:128] + T)[64:])),
)
def named_barriers(given, out):
    values, sums = cuda.shared.array(THREADS, uint32), cuda.shared.array(THREADS, uint32)
    t = cuda.threadIdx.x
    values[t] = given[t]
    barrier.sync(1, 128)
    out[t] = values[127 - t]
    if t < 64:
        barrier.sync(2, 128)
        out[128 + t] = sums[64 + t]
    else:
        sums[t] = given[t] + t
        barrier.arrive(2, 128)


@case(
    "grid.wait",
    "grid.launch_dependents",
    sass=("ACQBULK", "PREEXIT"),
    out=lambda: placed((0, GIVEN[T])),
)
def dependent(given, out):
    grid.wait()
    out[cuda.threadIdx.x] = given[cuda.threadIdx.x]
    grid.launch_dependents()


@case(
    "timer.nanosleep",
    "timer.globaltimer",
    "timer.clock64",
    sass=("NANOSLEEP 0x64", "SR_CLOCKLO", "SR_GLOBALTIMERLO"),
    out=lambda: placed((0, np.ones(128))),
)
def clocks(given, out):
    cycles, time = timer.clock64(), timer.globaltimer()
    timer.nanosleep(100)
    out[cuda.threadIdx.x] = timer.clock64() >= cycles and timer.globaltimer() >= time
