"""TMA: boxes of each rank, in and out, to several blocks, with policies, and combined with what is there."""

import itertools

import numpy as np
from numba import cuda

from hopper_numba.intrinsics import cache, cluster, fence, mbarrier, tma
from hopper_numba.shared import SharedLayout, barriers, tile

from .cases import case

SHAPES = {1: (64,), 2: (16, 128), 3: (2, 8, 64), 4: (2, 2, 8, 64), 5: (2, 1, 2, 8, 64)}


def box_at(source, shape, first):
    """The box at `first`, zeros where it reaches over."""
    found = np.zeros(shape, source.dtype)
    for at in itertools.product(*map(range, shape)):
        of = tuple(i + f for i, f in zip(at, first[::-1], strict=True))
        if all(i < n for i, n in zip(of, source.shape, strict=True)):
            found[at] = source[of]
    return found


def put(found, box, second):
    """Write the part of a box at `second` that lies inside."""
    for at in itertools.product(*map(range, box.shape)):
        to = tuple(i + s for i, s in zip(at, second[::-1], strict=True))
        if all(i < n for i, n in zip(to, found.shape, strict=True)):
            found[to] = box[at]


def copied(shape, first, second):
    """What a copy leaves in the target: the box at `first`, at `second`."""

    def target(source):
        found = np.zeros_like(source)
        put(found, box_at(source, shape, first), second)
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


# To several blocks ---------------------------------------------------------------------------------------------------


def add_multicast(blocks):
    """Each block loads a part for all of them; they store what they got side by side."""
    box = tile("float16", (8, 16), 32)
    shared = SharedLayout(parts=tile("float16", (blocks, 8, 16), 32), loaded=barriers())
    nbytes, everyone = shared.members["parts"].nbytes, 2**blocks - 1

    def target(source):
        found = np.zeros_like(source)
        for rank, part in itertools.product(range(blocks), repeat=2):
            put(found, box_at(source, box.shape, (16 * part, 8)), (64 * (rank % 2) + 16 * part, 8 * (rank // 2)))
        return found

    @case(
        "tma.load",
        "cluster.sync",
        shared=shared,
        box=box,
        cluster=blocks,
        target=target,
        sass=(r"UTMALDG.2D.MULTICAST \[UR\d+\], \[UR\d+\], UR\d+\n",),
    )
    def multicast(source, target, given, out):
        smem = shared.open()
        rank = cluster.rank()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
            mbarrier.arrive_expect_tx(smem.loaded, nbytes)
        cluster.sync()
        if cuda.threadIdx.x == 0:
            tma.load(smem.parts[rank], source, (16 * rank, 8), smem.loaded, everyone)
        mbarrier.wait(smem.loaded, 0)
        if cuda.threadIdx.x == 0:
            for part in range(blocks):
                tma.store(target, (64 * (rank % 2) + 16 * part, 8 * (rank // 2)), smem.parts[part])
            tma.commit_group()
            tma.wait_group(0)
        cluster.sync()

    multicast.__name__ = f"multicast_{blocks}"


for blocks in (2, 4):
    add_multicast(blocks)

FOR_OTHERS = SharedLayout(tile=tile("float16", (8, 64)), loaded=barriers())


def exchanged(source):
    found = np.zeros_like(source)
    for rank in range(2):
        put(found, box_at(source, (8, 64), (8 * (1 - rank), 3)), (64 * rank, 16))
    return found


@case(
    "tma.load",
    "cluster.map_shared",
    shared=FOR_OTHERS,
    box=FOR_OTHERS.members["tile"],
    cluster=2,
    target=exchanged,
)
def load_for_the_other_block(source, target, given, out):
    smem = FOR_OTHERS.open()
    rank = cluster.rank()
    if cuda.threadIdx.x == 0:
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
    cluster.sync()
    if cuda.threadIdx.x == 0:
        other = cluster.map_shared(smem, 1 - rank)
        tma.load(other.tile, source, (8 * rank, 3), other.loaded)
    mbarrier.wait(smem.loaded, 0)
    if cuda.threadIdx.x == 0:
        tma.store(target, (64 * rank, 16), smem.tile)
        tma.commit_group()
        tma.wait_group(0)
    cluster.sync()


# Policies and prefetches ---------------------------------------------------------------------------------------------

POLICIES = SharedLayout(tile=tile("uint32", (8, 64)), loaded=barriers())


def added(source):
    found = np.zeros_like(source)
    put(found, 2 * box_at(source, (8, 64), (64, 5)), (16, 8))
    return found


@case(
    "cache.evict_first",
    "cache.evict_last",
    "cache.evict_normal",
    "cache.evict_unchanged",
    "tma.load",
    "tma.store",
    "tma.reduce_add",
    "tma.prefetch",
    shared=POLICIES,
    box=POLICIES.members["tile"],
    target=added,
    sass=(
        r"UTMAPF.L2.2D \[UR\d+\], \[UR\d+\]\n",
        r"UTMAPF.L2.2D .*, desc\[",
        r"UTMALDG.2D .*, desc\[",
        r"UTMALDG.2D.MULTICAST .*, desc\[",
        r"UTMASTG.2D .*, desc\[",
        r"UTMAREDG.2D.ADD .*, desc\[",
    ),
)
def policies(source, target, given, out):
    smem = POLICIES.open()
    if cuda.threadIdx.x == 0:
        first, last = cache.evict_first(), cache.evict_last(0.5)
        normal, unchanged = cache.evict_normal(fraction=np.float32(given[0] + 1) / 8), cache.evict_unchanged(1.0)
        tma.prefetch(smem.tile, source, (64, 5))
        tma.prefetch(smem.tile, source, (0, 0), last)
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
        tma.load(smem.tile, source, (0, 0), smem.loaded, cache_policy=first)
        mbarrier.wait(smem.loaded, 0)
        mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
        tma.load(smem.tile, source, (64, 5), smem.loaded, 1, normal)
        mbarrier.wait(smem.loaded, 1)
        tma.store(target, (16, 8), smem.tile, last)
        tma.commit_group()
        tma.wait_group(0)
        tma.reduce_add(target, (16, 8), smem.tile, unchanged)
        tma.commit_group()
        tma.wait_group(0)


# Reductions ----------------------------------------------------------------------------------------------------------

COMBINED = {
    "add": lambda old, new: old + new,
    "min": min,
    "max": max,
    "inc": lambda old, new: old + 1 if old < new else 0,
    "dec": lambda old, new: new if old == 0 or old > new else old - 1,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
}
"""Of Python's numbers, which round nothing; the sums of halves are rounded to the nearest even one when stored."""


def add_reductions(dtype, shape, *operations):
    """Three boxes of the target that a second one is combined with; the last reaches over its end."""
    box, rank = tile(dtype, shape), len(shape)
    shared = SharedLayout(old=box, new=box, loaded=barriers())
    old, new = (16, 0, 0, 1, 0)[:rank], (8, 5, 1, 0, 1)[:rank]
    first, second, third = ((x, *(0, 1, 0, 1)[: rank - 1]) for x in (0, 64, 144))
    reduce_first, reduce_second, reduce_third = (getattr(tma, f"reduce_{name}") for name in operations)

    def target(source):
        found = np.zeros_like(source)
        pairs = [box_at(source, shape, at).ravel().tolist() for at in (old, new)]
        for at, operation in zip((first, second, third), operations, strict=True):
            put(found, np.array(list(map(COMBINED[operation], *pairs))).reshape(shape).astype(source.dtype), at)
        return found

    @case(
        *(f"tma.reduce_{name}" for name in operations),
        shared=shared,
        box=box,
        least=0 if dtype.startswith("u") else -1024,
        target=target,
        sass=tuple(rf"UTMAREDG.{rank}D.{name.upper()} \[UR\d+\], \[UR\d+\]\n" for name in operations),
    )
    def reductions(source, target, given, out):
        smem = shared.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
            mbarrier.arrive_expect_tx(smem.loaded, 2 * smem.old.nbytes)
            tma.load(smem.old, source, old, smem.loaded)
            tma.load(smem.new, source, new, smem.loaded)
            mbarrier.wait(smem.loaded, 0)
            tma.store(target, first, smem.old)
            tma.store(target, second, smem.old)
            tma.store(target, third, smem.old)
            tma.commit_group()
            tma.wait_group(0)
            reduce_first(target, first, smem.new)
            reduce_second(target, second, smem.new)
            reduce_third(target, third, smem.new)
            tma.commit_group()
            tma.wait_group(0)

    reductions.__name__ = f"reductions_{dtype}_{'_'.join(operations)}"


add_reductions("uint32", (16, 32), "add", "min", "max")
add_reductions("uint32", (16, 32), "inc", "dec", "and")
add_reductions("uint32", (32,), "or", "xor", "add")
add_reductions("int32", (32,), "add", "min", "max")
add_reductions("uint64", (2, 2, 8, 16), "add", "max", "xor")
add_reductions("int64", (8, 16), "min", "max", "min")
add_reductions("float64", (8, 16), "add", "add", "add")
add_reductions("float32", (8, 64), "add", "add", "add")
add_reductions("float16", (2, 8, 64), "add", "min", "max")
add_reductions("bfloat16", (2, 1, 2, 8, 64), "add", "min", "max")
