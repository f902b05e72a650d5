"""Clusters of 2 and of 4 blocks: who a block is, its peers' shared memory and barriers. No block leaves before all have
ended: each kernel ends with a barrier of the cluster.
"""

import numpy as np
from numba import cuda, uint64

from hopper_numba.intrinsics import cluster, fence, mbarrier
from hopper_numba.intrinsics.ptx import member
from hopper_numba.shared import SharedLayout, barriers, tile

from .cases import GIVEN, THREADS, T, case, placed

SIZES = (2, 4)
WORDS = SharedLayout(words=tile("uint32", (4, THREADS), swizzle=None), ring=tile("uint32", (2, 8, 32)), bar=barriers(6))
ORDERED = "MEMBAR.ALL.GPU"


def by_block(n, values_of):
    """`out` where each block of `n` writes 256 words, or fewer: those that `values_of` gives of its rank."""
    return lambda: placed(*[(256 * rank, np.concatenate(values_of(rank))) for rank in range(n)])


def add_places(n):
    """Ranks, shapes, indices."""

    @case(
        *(f"cluster.{name}" for name in ("rank", "size", "block_index", "shape", "index", "count")),
        "cluster.map_shared",
        "cluster.shared_rank",
        "cluster.sync",
        cluster=n,
        shared=WORDS,
        sass=("SR_CgaCtaId", "UCGABAR_ARV", "UCGABAR_WAIT"),
        out=by_block(
            n, lambda rank: ([rank, n, rank, 0, 0, n, 1, 1, 0, 0, 0, 1, 1, 1, rank, (rank + 1) % n, (rank + 1) % n],)
        ),
    )
    @member(f"places_{n}")
    def places(given, out):
        smem = WORDS.open()
        if cuda.threadIdx.x == 0:
            rank, at = cluster.rank(), 256 * cluster.rank()
            peer = cluster.map_shared(smem, (rank + 1) % n)
            out[at], out[at + 1] = rank, cluster.size()
            out[at + 2], out[at + 3], out[at + 4] = cluster.block_index()
            out[at + 5], out[at + 6], out[at + 7] = cluster.shape()
            out[at + 8], out[at + 9], out[at + 10] = cluster.index()
            out[at + 11], out[at + 12], out[at + 13] = cluster.count()
            out[at + 14], out[at + 15] = cluster.shared_rank(smem.bar[1]), cluster.shared_rank(peer)
            out[at + 16] = cluster.shared_rank(peer.words.address(3, 5))
        cluster.sync()


def written(rank):
    """What a block writes to its neighbour: 128 words one by one, 64 in pairs, 64 in fours."""
    return GIVEN[:256] + 100 * rank


def add_peers(n):
    """Loads and stores of neighbours' shared memory, of every width; what its own neighbour wrote and what it wrote."""

    def found(rank):
        return written((rank - 1) % n)[:192], written((rank - 2) % n)[192:]

    @case(
        *(f"cluster.{way}_shared_{width}" for way in ("ld", "st") for width in ("b32", "v2_b32", "v4_b32")),
        "cluster.map_shared",
        "cluster.sync",
        cluster=n,
        shared=WORDS,
        sass=(r"ST\.E ", r"ST\.E\.64", r"ST\.E\.128", r"LD\.E ", r"LD\.E\.64", r"LD\.E\.128", ORDERED),
        out=by_block(n, found),
    )
    @member(f"peers_{n}")
    def peers(given, out):
        smem = WORDS.open()
        t, rank = cuda.threadIdx.x, cluster.rank()
        more, at = 100 * rank, 256 * rank
        cluster.sync()  # all have begun
        words = cluster.map_shared(smem.words, (rank + 1) % n)
        cluster.st_shared_b32(words.address(0, t), given[t] + more)
        if t < 32:
            i = 128 + 2 * t
            cluster.st_shared_v2_b32(words.address(1, 2 * t), (given[i] + more, given[i + 1] + more))
        elif t < 48:
            i = 4 * (t - 32)
            a, b = (given[192 + i] + more, given[193 + i] + more), (given[194 + i] + more, given[195 + i] + more)
            cluster.st_shared_v4_b32(words.address(2, i), (a[0], a[1], b[0], b[1]))
        cluster.sync()
        out[at + t] = cluster.ld_shared_b32(smem.words.address(0, t))
        if t < 32:
            i = at + 128 + 2 * t
            out[i], out[i + 1] = cluster.ld_shared_v2_b32(smem.words.address(1, 2 * t))
        elif t < 48:
            before = cluster.map_shared(smem.words, (rank + n - 1) % n)
            i = at + 192 + 4 * (t - 32)
            out[i], out[i + 1], out[i + 2], out[i + 3] = cluster.ld_shared_v4_b32(before.address(2, 4 * (t - 32)))
        cluster.sync()


def add_views(n):
    """Stages, parts, transposes and single elements of a neighbour's swizzled tile."""

    @case(
        "cluster.map_shared",
        "cluster.st_shared_b32",
        "cluster.ld_shared_b32",
        cluster=n,
        shared=WORDS,
        out=by_block(n, lambda rank: (GIVEN[:256] + 10 * ((rank - 1) % n),)),
    )
    @member(f"views_{n}")
    def views(given, out):
        smem = WORDS.open()
        t, rank = cuda.threadIdx.x, cluster.rank()
        row, column = t // 32, t % 32
        cluster.sync()
        stage = cluster.map_shared(smem, (rank + 1) % n).ring[1]
        cluster.st_shared_b32(stage.T.address(column, row), given[t] + 10 * rank)
        part = stage.part(8, 16, 0, column // 16)
        cluster.st_shared_b32(part.address(4 + row, column % 16), given[128 + t] + 10 * rank)
        cluster.sync()
        out[256 * rank + t] = cluster.ld_shared_b32(smem.ring[1].address(row, column))
        out[256 * rank + 128 + t] = cluster.ld_shared_b32(smem.ring[1].address(4 + row, column))
        cluster.sync()


def add_meetings(n):
    """The barrier of the cluster in two steps, and of warps that come to it at different places."""

    @case(
        *(
            f"cluster.{name}{how}"
            for name in ("arrive", "arrive_relaxed", "wait", "sync")
            for how in ("", "_unaligned")
        ),
        cluster=n,
        shared=WORDS,
        sass=("UCGABAR_ARV", "UCGABAR_WAIT", ORDERED),
        out=by_block(n, lambda rank: (GIVEN[T] + (rank - 1) % n, GIVEN[T] + 9 * ((rank + 1) % n))),
    )
    @member(f"meetings_{n}")
    def meetings(given, out):
        smem = WORDS.open()
        t, rank = cuda.threadIdx.x, cluster.rank()
        cluster.arrive_relaxed()
        cluster.wait()
        after = cluster.map_shared(smem.words, (rank + 1) % n)
        cluster.st_shared_b32(after.address(0, t), given[t] + rank)
        cluster.arrive()
        before = cluster.map_shared(smem.words, (rank + n - 1) % n)
        cluster.st_shared_b32(before.address(1, t), given[t] + 9 * rank)
        cluster.wait()
        out[256 * rank + t] = cluster.ld_shared_b32(smem.words.address(0, t))
        if t < 64:
            cluster.arrive_unaligned()
            cluster.wait_unaligned()
        else:
            cluster.sync_unaligned()
        out[256 * rank + 128 + t] = cluster.ld_shared_b32(smem.words.address(1, t))
        if t < 64:
            cluster.arrive_relaxed_unaligned()
            cluster.wait_unaligned()
        else:
            cluster.sync()


@cuda.jit(device=True)
def begin(bar, t, counts):
    """One thread initialises the barriers; then all blocks have begun, and their barriers too."""
    if t == 0:
        for i in range(6):
            mbarrier.init(bar[i], counts[i])
        fence.mbarrier_init()
    cluster.sync()


def add_ring(n):
    """Arrivals on neighbours' barriers: a store released by one, the place given back by others; bytes by hand."""

    @case(
        "mbarrier.arrive_remote",
        "mbarrier.arrive_remote_relaxed",
        "mbarrier.arrive_remote_cta",
        "mbarrier.arrive_expect_tx_remote",
        "mbarrier.expect_tx_remote",
        "mbarrier.complete_tx",
        "mbarrier.complete_tx_remote",
        "mbarrier.wait_cluster",
        cluster=n,
        shared=WORDS,
        sass=(r"SYNCS.ARRIVE.*\.RED", "SYNCS.ARRIVE.*A0TX", "SYNCS.ARRIVE.*A0TR", "CCTL.IVALL", ORDERED),
        out=by_block(n, lambda rank: (GIVEN[T] + (rank - 1) % n, GIVEN[T] + 9 * ((rank - 1) % n))),
    )
    @member(f"ring_{n}")
    def ring(given, out):
        smem = WORDS.open()
        t, rank = cuda.threadIdx.x, cluster.rank()
        begin(smem.bar, t, (THREADS, 2 * THREADS, THREADS, 1, 1, 1))
        after, before = cluster.map_shared(smem, (rank + 1) % n), cluster.map_shared(smem, (rank + n - 1) % n)
        if t == 0:
            mbarrier.expect_tx_remote(after.bar[3], 48)
        cluster.st_shared_b32(after.words.address(0, t), given[t] + rank)
        mbarrier.arrive_remote(after.bar[0], 1)
        mbarrier.wait_cluster(smem.bar[0], 0)
        out[256 * rank + t] = cluster.ld_shared_b32(smem.words.address(0, t))
        mbarrier.arrive_remote_relaxed(before.bar[1], 1)
        mbarrier.arrive_remote_cta(before.bar[1], 1)
        mbarrier.wait_cluster(smem.bar[1], 0)
        cluster.st_shared_b32(after.words.address(0, t), given[t] + 9 * rank)
        mbarrier.arrive_remote(after.bar[2], 1)
        if t == 0:
            mbarrier.arrive_expect_tx_remote(after.bar[3], 16)
            mbarrier.complete_tx_remote(after.bar[3], 40)
            mbarrier.complete_tx(smem.bar[3], 24)
        mbarrier.wait_cluster(smem.bar[2], 0)
        mbarrier.wait_cluster(smem.bar[3], 0)
        out[256 * rank + 128 + t] = cluster.ld_shared_b32(smem.words.address(0, t))
        cluster.sync()


def add_waits(n):
    """Every wait that acquires from the cluster: for own arrivals and a neighbour's, on a barrier each."""

    @case(
        *(f"mbarrier.{name}_cluster" for name in ("wait", "test_wait", "try_wait", "try_wait_for")),
        "mbarrier.test_wait_state_cluster",
        "mbarrier.try_wait_state_cluster",
        cluster=n,
        shared=WORDS,
        sass=("SYNCS.PHASECHK.*TRYWAIT", "CCTL.IVALL"),
        out=by_block(n, lambda rank: (GIVEN[T] + (rank - 1) % n, np.full(THREADS, 5))),
    )
    @member(f"waits_{n}")
    def waits(given, out):
        smem = WORDS.open()
        t, rank = cuda.threadIdx.x, cluster.rank()
        twice = 2 * THREADS
        begin(smem.bar, t, (twice, twice, twice, twice, twice, twice))
        after = cluster.map_shared(smem, (rank + 1) % n)
        cluster.st_shared_b32(after.words.address(0, t), given[t] + rank)
        for i in range(6):
            mbarrier.arrive_remote(after.bar[i], 1)
        tested, tried = mbarrier.arrive(smem.bar[0], 1), mbarrier.arrive(smem.bar[1], 1)
        while not mbarrier.test_wait_state_cluster(smem.bar[0], tested):
            pass
        while not mbarrier.try_wait_state_cluster(smem.bar[1], tried):
            pass
        for i in range(2, 6):
            mbarrier.arrive(smem.bar[i], 1)
        while not mbarrier.test_wait_cluster(smem.bar[2], 0):
            pass
        while not mbarrier.try_wait_cluster(smem.bar[3], 0):
            pass
        while not mbarrier.try_wait_for_cluster(smem.bar[4], 0, 1000):
            pass
        mbarrier.wait_cluster(smem.bar[5], 0)
        out[256 * rank + t] = cluster.ld_shared_b32(smem.words.address(0, t))
        out[256 * rank + 128 + t] = (
            mbarrier.test_wait_cluster(smem.bar[5], 0)
            + 2 * mbarrier.test_wait_cluster(smem.bar[5], 1)
            + 4 * mbarrier.try_wait_cluster(smem.bar[0], 0)
        )
        cluster.sync()


def add_async(n):
    """Asynchronous stores of every width to a neighbour, whose barrier expects and counts their bytes."""
    nbytes = 128 * 4 + 16 * (8 + 8 + 16)

    @case(
        *(f"cluster.st_async_{width}" for width in ("b32", "v2_b32", "v4_b32", "b64")),
        "mbarrier.arrive_expect_tx",
        "mbarrier.wait_cluster",
        cluster=n,
        shared=WORDS,
        sass=(r"STAS ", r"STAS\.64", r"STAS\.128"),
        out=by_block(n, lambda rank: (written((rank - 1) % n),)),
    )
    @member(f"async_{n}")
    def stores(given, out):
        smem = WORDS.open()
        t, rank = cuda.threadIdx.x, cluster.rank()
        begin(smem.bar, t, (1, 1, 1, 1, 1, 1))
        if t == 0:
            mbarrier.arrive_expect_tx(smem.bar[0], nbytes)
        after, more = cluster.map_shared(smem, (rank + 1) % n), 100 * rank
        words, bar = after.words, after.bar[0]
        cluster.st_async_b32(words.address(0, t), given[t] + more, bar)
        if t < 16:
            i = 2 * t
            cluster.st_async_v2_b32(words.address(1, i), (given[128 + i] + more, given[129 + i] + more), bar)
            both = uint64(given[160 + i] + more) | uint64(given[161 + i] + more) << uint64(32)
            cluster.st_async_b64(words.address(1, 32 + i), both, bar)
            i = 4 * t
            a, b = (given[192 + i] + more, given[193 + i] + more), (given[194 + i] + more, given[195 + i] + more)
            cluster.st_async_v4_b32(words.address(1, 64 + i), (a[0], a[1], b[0], b[1]), bar)
        mbarrier.wait_cluster(smem.bar[0], 0)
        out[256 * rank + t] = cluster.ld_shared_b32(smem.words.address(0, t))
        out[256 * rank + 128 + t] = cluster.ld_shared_b32(smem.words.address(1, t))
        cluster.sync()


def add_leavers(n):
    """A barrier of block 0 on which each block arrives, the last one only once."""

    @case(
        "mbarrier.arrive_drop_remote",
        "mbarrier.arrive_remote",
        "mbarrier.test_wait_cluster",
        cluster=n,
        shared=WORDS,
        sass=(r"SYNCS.ARRIVE.*\.RED\.OPTOUT", ORDERED),
        out=lambda: placed((0, [0, 1, 1, 1])),
    )
    @member(f"leavers_{n}")
    def leavers(given, out):
        smem = WORDS.open()
        t, rank = cuda.threadIdx.x, cluster.rank()
        begin(smem.bar, t, (n, 1, 1, 1, 1, 1))
        first = cluster.map_shared(smem.bar[0], 0)
        if rank == 0 and t == 0:
            out[0] = mbarrier.test_wait_cluster(smem.bar[0], 0)
        cluster.sync()
        for phase in range(3):
            if t == 0:
                if rank < n - 1:
                    mbarrier.arrive_remote(first, 1)
                elif phase == 0:
                    mbarrier.arrive_drop_remote(first, 1)
                if rank == 0:
                    mbarrier.wait_cluster(smem.bar[0], phase & 1)
                    out[1 + phase] = mbarrier.test_wait_cluster(smem.bar[0], phase & 1)
            cluster.sync()


for add in (add_places, add_peers, add_views, add_meetings, add_ring, add_waits, add_async, add_leavers):
    for size in SIZES:
        add(size)
