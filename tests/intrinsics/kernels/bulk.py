"""Bulk copies: runs of bytes, in and out, to other blocks, and combined with what is there."""

import ml_dtypes
import numpy as np
from numba import cuda, uint32

from hopper_numba.intrinsics import bulk, cache, cluster, fence, mbarrier, memory, tma
from hopper_numba.shared import SharedLayout, barriers, tile

from .cases import GIVEN, case, placed
from .copies import COMBINED

RUNS = SharedLayout(
    whole=tile("uint32", (8, 32), None),
    vector=tile("uint32", (64,)),
    rows=tile("float16", (8, 64)),
    loaded=barriers(),
)


@case(
    "bulk.load",
    "bulk.store",
    "bulk.prefetch",
    shared=RUNS,
    sass=(
        r"UBLKCP.S.G \[UR\d+\], \[UR\d+\], UR\d+\n",
        r"UBLKCP.S.G .*, desc\[",
        r"UBLKCP.S.G.MULTICAST .*, desc\[",
        r"UBLKCP.G.S \[UR\d+\], \[UR\d+\], UR\d+\n",
        r"UBLKCP.G.S .*, desc\[",
        r"UBLKPF.L2 \[UR\d+\], UR\d+\n",
        r"UBLKPF.L2 .*, desc\[",
    ),
    out=lambda: placed((0, GIVEN[256:512]), (256, GIVEN[4:12]), (300, GIVEN[64:80]), (320, GIVEN[100:104])),
)
def runs(given, out):
    smem = RUNS.open()
    array = cuda.shared.array(32, uint32, alignment=16)
    if cuda.threadIdx.x == 0:
        first, last = cache.evict_first(), cache.evict_last(0.25)
        bulk.prefetch(memory.address_of(given, (0,)), 4096)
        bulk.prefetch(memory.address_of(given, (256,)), 1024, last)
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, 1024 + 256 + 64 + 16)
        bulk.load(smem.whole, memory.address_of(given, (256,)), 1024, smem.loaded)
        bulk.load(smem.vector, memory.address_of(given, (0,)), 256, smem.loaded, cache_policy=first)
        bulk.load(smem.rows.address(2, 0), memory.address_of(given, (64,)), 64, smem.loaded, 1, last)
        bulk.load(array[4:], memory.address_of(given, (100,)), 2 * out.shape[0] // 128, smem.loaded)
        mbarrier.wait(smem.loaded, 0)
        bulk.store(memory.address_of(out, (0,)), smem.whole, 1024)
        bulk.store(memory.address_of(out, (256,)), smem.vector.address(4), 32, first)
        bulk.store(memory.address_of(out, (300,)), smem.rows.address(2, 0), 64)
        bulk.store(memory.address_of(out, (320,)), array[4:], 16)
        tma.commit_group()
        tma.wait_group(0)


# To other blocks -----------------------------------------------------------------------------------------------------


def add_multicast(blocks):
    """Each block loads a part for all of them; all write out what they got."""
    words = 256 // blocks
    shared = SharedLayout(parts=tile("uint32", (blocks, words), None), loaded=barriers())

    @case(
        "bulk.load",
        "cluster.sync",
        shared=shared,
        cluster=blocks,
        sass=(r"UBLKCP.S.G.MULTICAST \[UR\d+\], \[UR\d+\], UR\d+\n",),
        out=lambda: placed((0, np.tile(GIVEN[:256], blocks))),
    )
    def bulk_multicast(given, out):
        smem = shared.open()
        rank = cluster.rank()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
            mbarrier.arrive_expect_tx(smem.loaded, smem.parts.nbytes)
        cluster.sync()
        if cuda.threadIdx.x == 0:
            part = memory.address_of(given, (words * rank,))
            bulk.load(smem.parts.address(rank, 0), part, 4 * words, smem.loaded, 2**blocks - 1)
        mbarrier.wait(smem.loaded, 0)
        if cuda.threadIdx.x == 0:
            bulk.store(memory.address_of(out, (256 * rank,)), smem.parts, 1024)
            tma.commit_group()
            tma.wait_group(0)
        cluster.sync()

    bulk_multicast.__name__ = f"bulk_multicast_{blocks}"


for blocks in (2, 4):
    add_multicast(blocks)

BLOCKS = 4
RING = SharedLayout(source=tile("uint32", (64,)), target=tile("uint32", (64,)), loaded=barriers(), sent=barriers())


@case(
    "bulk.send",
    "cluster.map_shared",
    shared=RING,
    cluster=BLOCKS,
    sass=("UBLKCP.S.S",),
    out=lambda: placed((0, np.roll(GIVEN[:256], 64))),
)
def send_on(given, out):
    smem = RING.open()
    rank = cluster.rank()
    if cuda.threadIdx.x == 0:
        mbarrier.init(smem.loaded, 1)
        mbarrier.init(smem.sent, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, 256)
        mbarrier.arrive_expect_tx(smem.sent, 256)
        bulk.load(smem.source, memory.address_of(given, (64 * rank,)), 256, smem.loaded)
        mbarrier.wait(smem.loaded, 0)
    cluster.sync()
    if cuda.threadIdx.x == 0:
        after = cluster.map_shared(smem, (rank + 1) % BLOCKS)
        bulk.send(after.target, smem.source, 256, after.sent)
    mbarrier.wait_cluster(smem.sent, 0)
    if cuda.threadIdx.x == 0:
        bulk.store(memory.address_of(out, (64 * rank,)), smem.target, 256)
        tma.commit_group()
        tma.wait_group(0)
    cluster.sync()


# Reductions ----------------------------------------------------------------------------------------------------------

WORDS = 16
"""Of each reduction: 64 bytes."""
NUMPY = {
    **{"u32": "uint32", "s32": "int32", "u64": "uint64", "s64": "int64", "b32": "uint32", "b64": "uint64"},
    **{"f16": "float16", "bf16": ml_dtypes.bfloat16, "f32": "float32", "f64": "float64"},
}
OLD = {
    "u": [5, 0, 7, 7, 2**31, 2**32 - 1, 12, 3],
    "s": [5, -5, 7, -2, -(2**31), 2**31 - 1, -12, 3],
    "b": [0b1100, 0xFFFF0000, 0, 2**32 - 1, 0x12345678, 1, 2**31, 3],
    "f": [1.5, -2.0, 2048, 256, -0.25, 96, 1e-7, -3],
}
NEW = {
    "u": [9, 4, 7, 6, 2**31, 1, 2**32 - 1, 0],
    "s": [-9, 4, 7, -1, -1, 1, 12, -3],
    "b": [0b1010, 0x00FFFF00, 5, 1, 0x0F0F0F0F, 2**31, 2**31, 0],
    "f": [0.25, 3.0, 1, 1, -4, -97, 3e-7, 5],
}
"""Equal ones, sums that overflow, sums of halves that are rounded, subnormal halves."""


def numbers(values, dtype, turn):
    """64 bytes of a type, as words: the values from number `turn` on."""
    array = np.array(np.roll(np.array(values, object), -turn).tolist()).astype(NUMPY[dtype])
    return np.tile(array, 64 // array.nbytes).view(np.uint32) if array.nbytes < 64 else array.view(np.uint32)


def operands(names, turn=0):
    """The words that the reductions find, and those that they are given."""
    dtypes = [name.rpartition("_")[2] for name in names]
    kinds = [dtype.replace("bf", "f")[0] for dtype in dtypes]
    return (
        np.concatenate([numbers(of[kind], dtype, turn) for kind, dtype in zip(kinds, dtypes, strict=True)])
        for of in (OLD, NEW)
    )


def combined(names, old, new):
    """The words that the reductions leave, by Python's numbers."""
    found = []
    for i, name in enumerate(names):
        operation, dtype = name.split("_")[-2:]
        part = slice(WORDS * i, WORDS * (i + 1))
        both = (words[part].view(NUMPY[dtype]).tolist() for words in (old, new))
        values = [COMBINED[operation](*pair) for pair in zip(*both, strict=True)]
        if dtype[0] in "usb" and dtype != "bf16":
            values = [value % 2 ** int(dtype[1:]) for value in values]
            found.append(np.array(values, f"uint{dtype[1:]}").view(np.uint32))
        else:
            found.append(np.array(values, np.float64).astype(NUMPY[dtype]).view(np.uint32))
    return np.concatenate(found)


def add_reductions(number, *names):
    """Six reductions to global memory."""
    first, second, third, fourth, fifth, sixth = (getattr(bulk, name) for name in names)
    old, new = operands(names)
    words = WORDS * len(names)

    @case(
        *(f"bulk.{name}" for name in names),
        given=placed((0, new)),
        start=placed((0, old)),
        sass=(*(rf"UBLKRED.G.S.{name.split('_')[1].upper()}" for name in names), r"UBLKRED.G.S.* desc\["),
        out=lambda: placed((0, combined(names, old, new))),
    )
    def bulk_reductions(given, out):
        source = cuda.shared.array(words, uint32, alignment=16)
        if cuda.threadIdx.x < words:
            source[cuda.threadIdx.x] = given[cuda.threadIdx.x]
        fence.proxy_async_shared_cta()
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            first(memory.address_of(out, (0,)), source, 64)
            second(memory.address_of(out, (16,)), source[16:], 64)
            third(memory.address_of(out, (32,)), source[32:], 64)
            fourth(memory.address_of(out, (48,)), source[48:], 64)
            fifth(memory.address_of(out, (64,)), source[64:], 64)
            sixth(memory.address_of(out, (80,)), source[80:], 64, cache.evict_first())
            tma.commit_group()
            tma.wait_group(0)

    bulk_reductions.__name__ = f"bulk_reductions_{number}"


add_reductions(0, *(f"reduce_add_{dtype}" for dtype in ("u32", "s32", "u64", "f32", "f64", "f16")))
add_reductions(1, "reduce_add_bf16", *(f"reduce_min_{dtype}" for dtype in ("u32", "s32", "u64", "s64", "f16")))
add_reductions(2, "reduce_min_bf16", *(f"reduce_max_{dtype}" for dtype in ("u32", "s32", "u64", "s64", "f16")))
add_reductions(
    3, "reduce_max_bf16", "reduce_inc_u32", "reduce_dec_u32", "reduce_and_b32", "reduce_or_b32", "reduce_xor_b32"
)
add_reductions(
    4, "reduce_and_b64", "reduce_or_b64", "reduce_xor_b64", "reduce_add_f32", "reduce_inc_u32", "reduce_add_u64"
)

SLOTS = tile("uint32", (6 * WORDS,))


def add_sent_reductions(number, *names):
    """Six reductions to the other block's shared memory, of different numbers in each."""
    first, second, third, fourth, fifth, sixth = (getattr(bulk, name) for name in names)
    shared = SharedLayout(sent=barriers())
    old, new = zip(*(operands(names, turn) for turn in range(2)), strict=True)
    words, nbytes = SLOTS.shape[0], SLOTS.nbytes

    @case(
        *(f"bulk.{name}" for name in names),
        shared=shared,
        cluster=2,
        given=placed(*((512 * rank, new[rank]) for rank in range(2))),
        start=placed(*((512 * rank, old[rank]) for rank in range(2))),
        sass=tuple(rf"UBLKRED.S.S.{name.split('_')[2].upper()}" for name in names),
        out=lambda: placed(*((512 * rank, combined(names, old[rank], new[1 - rank])) for rank in range(2))),
    )
    def sent_reductions(given, out):
        smem = shared.open()
        source, target = (
            cuda.shared.array(words, uint32, alignment=128),
            cuda.shared.array(words, uint32, alignment=128),
        )
        t, rank = cuda.threadIdx.x, cluster.rank()
        if t < words:
            source[t] = given[512 * rank + t]
            target[t] = out[512 * rank + t]
        if t == 0:
            mbarrier.init(smem.sent, 1)
            fence.mbarrier_init()
            mbarrier.arrive_expect_tx(smem.sent, nbytes)
        fence.proxy_async()
        cluster.sync()
        if t == 0:
            other = cluster.map_shared(memory.view(target, SLOTS), 1 - rank)
            sent = cluster.map_shared(smem.sent, 1 - rank)
            first(other.address(0), source, 64, sent)
            second(other.address(16), source[16:], 64, sent)
            third(other.address(32), source[32:], 64, sent)
            fourth(other.address(48), source[48:], 64, sent)
            fifth(other.address(64), source[64:], 64, sent)
            sixth(other.address(80), source[80:], 64, sent)
        mbarrier.wait_cluster(smem.sent, 0)
        if t < words:
            out[512 * rank + t] = target[t]
        cluster.sync()

    sent_reductions.__name__ = f"sent_reductions_{number}"


add_sent_reductions(
    0, *(f"send_reduce_{name}" for name in ("add_u32", "add_s32", "add_u64", "min_u32", "min_s32", "max_u32"))
)
add_sent_reductions(
    1, *(f"send_reduce_{name}" for name in ("max_s32", "inc_u32", "dec_u32", "and_b32", "or_b32", "xor_b32"))
)
