"""TMA: a box of each rank, in and out."""

import itertools

import numpy as np
from numba import cuda

from hopper_numba.intrinsics import fence, mbarrier, tma
from hopper_numba.shared import SharedLayout, barriers, tile

from .cases import case

SHAPES = {1: (64,), 2: (16, 128), 3: (2, 8, 64), 4: (2, 2, 8, 64), 5: (2, 1, 2, 8, 64)}


def copied(shape, first, second):
    """What a copy leaves in the target: the box at `first`, zeros where it reaches over, at `second`."""

    def target(source):
        found = np.zeros_like(source)
        for at in itertools.product(*map(range, shape)):
            to = tuple(i + s for i, s in zip(at, second[::-1], strict=True))
            of = tuple(i + f for i, f in zip(at, first[::-1], strict=True))
            if all(i < n for i, n in zip(to, found.shape, strict=True)):
                found[to] = source[of] if all(i < n for i, n in zip(of, source.shape, strict=True)) else 0
        return found

    return target


def add_copy(rank):
    """A kernel that copies a box of `rank` dimensions in and out, to other coordinates."""
    box = tile("float16", SHAPES[rank])
    shared = SharedLayout(tile=box, loaded=barriers())
    first = (8, 5, 1, 0, 1)[:rank]
    second = (16, 0, 0, 1, 0)[:rank]

    @case(
        "tma.load",
        "tma.store",
        "tma.prefetch_descriptor",
        "tma.commit_group",
        "tma.wait_group",
        "tma.wait_group_read",
        shared=shared,
        box=box,
        target=copied(box.shape, first, second),
        sass=(f"UTMALDG.{rank}D", f"UTMASTG.{rank}D", "UTMACCTL.PF", "UTMACMDFLUSH", "DEPBAR.LE SB0"),
    )
    def copy(source, target, given, out):
        smem = shared.open()
        if cuda.threadIdx.x == 0:
            tma.prefetch_descriptor(source)
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
            mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
            tma.load(smem.tile, source, first, smem.loaded)
        cuda.syncthreads()
        mbarrier.wait(smem.loaded, 0)
        if cuda.threadIdx.x == 0:
            tma.store(target, second, smem.tile)
            tma.commit_group()
            tma.wait_group_read(0)
            tma.wait_group(0)

    copy.__name__ = f"copy_{rank}d"


for rank in SHAPES:
    add_copy(rank)
