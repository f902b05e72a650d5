"""cp.async: copies by each thread, whole or filled with zeros; groups; arrivals on barriers."""

import numpy as np
from numba import cuda, uint32

from hopper_numba.intrinsics import cp_async, fence, mbarrier, memory
from hopper_numba.shared import SharedLayout, barriers, tile

from .cases import GIVEN, THREADS, T, case, placed

FEW = 64
OF_4, OF_8, OF_16, PAST_L1, ALL = 0, FEW, 3 * FEW, 7 * FEW, 11 * FEW
"""Where the words begin that are copied one, two and four at a time; how many there are."""


@case(
    "cp_async.copy_ca_4",
    "cp_async.copy_ca_8",
    "cp_async.copy_ca_16",
    "cp_async.copy_cg_16",
    "cp_async.wait_all",
    threads=FEW,
    sass=(r"LDGSTS\.E ", r"LDGSTS\.E\.64 ", r"LDGSTS\.E\.128 ", r"LDGSTS\.E\.BYPASS\.128 "),
    out=lambda: placed((OF_4, GIVEN[:64]), (OF_8, GIVEN[:128]), (OF_16, GIVEN[64:320]), (PAST_L1, GIVEN[320:576])),
)
def copied(given, out):
    words = cuda.shared.array(ALL, uint32, alignment=16)
    t = cuda.threadIdx.x
    cp_async.copy_ca_4(words[OF_4 + t :], memory.address_of(given, (t,)))
    cp_async.copy_ca_8(words[OF_8 + 2 * t :], memory.address_of(given, (2 * t,)))
    cp_async.copy_ca_16(words[OF_16 + 4 * t :], memory.address_of(given, (64 + 4 * t,)))
    cp_async.copy_cg_16(words[PAST_L1 + 4 * t :], memory.address_of(given, (320 + 4 * t,)), None)
    cp_async.wait_all()
    cuda.syncthreads()
    for i in range(t, ALL, FEW):
        out[i] = words[i]


def filled_words():
    """Each thread's words, of which as many bytes are left as it reads."""
    parts = []
    for begin, nbytes, first in ((OF_4, 4, 0), (OF_8, 8, 1), (OF_16, 16, 2), (PAST_L1, 16, 9)):
        read = (T[:FEW] + first) % (nbytes + 1)
        found = SCATTERED[: FEW * nbytes // 4].view(np.uint8).reshape(FEW, nbytes).copy()
        found[np.arange(nbytes) >= read[:, None]] = 0
        parts.append((begin, found.reshape(-1).view(np.uint32)))
    return placed(*parts)


SCATTERED = (np.arange(1024, dtype=np.uint64) * 0x9E3779B1 + 0x01010101).astype(np.uint32)


@case(
    "cp_async.copy_ca_4",
    "cp_async.copy_ca_8",
    "cp_async.copy_ca_16",
    "cp_async.copy_cg_16",
    threads=FEW,
    given=SCATTERED,
    sass=(r"LDGSTS\.E\.ZFILL", r"LDGSTS\.E\.64\.ZFILL", r"LDGSTS\.E\.128\.ZFILL", r"LDGSTS\.E\.BYPASS\.128\.ZFILL"),
    out=filled_words,
)
def filled(given, out):
    words = cuda.shared.array(ALL, uint32, alignment=16)
    t = cuda.threadIdx.x
    cp_async.copy_ca_4(words[OF_4 + t :], memory.address_of(given, (t,)), t % 5)
    cp_async.copy_ca_8(words[OF_8 + 2 * t :], memory.address_of(given, (2 * t,)), (t + 1) % 9)
    cp_async.copy_ca_16(words[OF_16 + 4 * t :], memory.address_of(given, (4 * t,)), (t + 2) % 17)
    nbytes = (t + 9) % 17
    cp_async.copy_cg_16(words[PAST_L1 + 4 * t :], source=memory.address_of(given, (4 * t,)), source_nbytes=nbytes)
    cp_async.wait_all()
    cuda.syncthreads()
    for i in range(t, ALL, FEW):
        out[i] = words[i]


@case(
    "cp_async.copy_ca_4",
    "cp_async.commit_group",
    "cp_async.wait_group",
    sass=("LDGDEPBAR", "DEPBAR.LE SB0, 0x2", "DEPBAR.LE SB0, 0x0"),
    out=lambda: placed((0, GIVEN[:768]), (768, GIVEN[768:896])),
)
def groups(given, out):
    """A ring of three stages: while one is read, two are on their way."""
    ring = cuda.shared.array((3, THREADS), uint32)
    t = cuda.threadIdx.x
    for step in range(2):
        cp_async.copy_ca_4(ring[step, t:], memory.address_of(given, (THREADS * step + t,)))
        cp_async.commit_group()
    for step in range(6):
        if step < 4:
            ahead = step + 2
            cp_async.copy_ca_4(ring[ahead % 3, t:], memory.address_of(given, (THREADS * ahead + t,)))
        cp_async.commit_group()
        cp_async.wait_group(2)
        out[THREADS * step + t] = ring[step % 3, t]
    cp_async.copy_ca_4(ring[0, t:], memory.address_of(given, (768 + t,)))
    cp_async.commit_group()
    cp_async.wait_group(0)
    out[768 + t] = ring[0, t]


ROWS = SharedLayout(rows=tile("uint32", (THREADS, 32)), arrived=barriers(2))


@case(
    "cp_async.copy_cg_16",
    "cp_async.mbarrier_arrive",
    "cp_async.mbarrier_arrive_noinc",
    shared=ROWS,
    sass=(r"ARRIVES\.LDGSTSBAR\.64\.ARVCNT", r"ARRIVES\.LDGSTSBAR\.64\.TRANSCNT"),
    out=lambda: placed((0, np.roll(GIVEN[:512].reshape(-1, 4), -1, axis=0).ravel()), (512, GIVEN[512:1024])),
)
def arrivals(given, out):
    """Each thread reads what another one copied: swizzled rows of 128 bytes."""
    words = cuda.shared.array(0, uint32)
    smem = ROWS.open()
    t = cuda.threadIdx.x
    other = (t + 1) % THREADS
    if t == 0:
        mbarrier.init(smem.arrived[0], THREADS)
        mbarrier.init(smem.arrived[1], THREADS)
        fence.mbarrier_init()
    cuda.syncthreads()
    cp_async.copy_cg_16(smem.rows.address(t, 4), memory.address_of(given, (4 * t,)))
    cp_async.mbarrier_arrive_noinc(smem.arrived[0])
    mbarrier.wait(smem.arrived[0], 0)
    for i in range(4):
        out[4 * t + i] = words[32 * other + 4 * (1 ^ other % 8) + i]
    cp_async.copy_cg_16(smem.rows.address(t, 0), memory.address_of(given, (512 + 4 * t,)))
    cp_async.mbarrier_arrive(smem.arrived[1])
    mbarrier.arrive(smem.arrived[1], 1)
    mbarrier.wait(smem.arrived[1], 0)
    for i in range(4):
        out[512 + 4 * other + i] = words[32 * other + 4 * (other % 8) + i]
