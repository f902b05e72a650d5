"""Kernels that are right by the manual or by common practice, and must not be reported; and near misses of them."""

import numpy as np
import pytest
from findings import findings, outcome
from numba import cuda, float32, uint32

from hopper_numba import SharedLayout, TensorMap, barriers, tile
from hopper_numba.intrinsics import cluster, cp_async, fence, mbarrier, memory, timer, tma, warp, wgmma

WORDS = tile("uint32", (8, 32), swizzle=None)
RING = SharedLayout(words=WORDS, full=barriers(), empty=barriers())
SEEDS = range(4)


def found(kernel, args, threads, shared=RING, **launch):
    """What each of a few seeds finds."""
    return {outcome(findings(kernel, args, shared, threads, seed=seed, **launch)) for seed in SEEDS}


# Between blocks ------------------------------------------------------------------------------------------------------


def test_a_counter_of_blocks_that_have_written_their_part():
    def kernel(parts, counter, out):
        block = cuda.blockIdx.x
        parts[block] = block
        memory.red_release_gpu_add_u32(memory.address_of(counter, (0,)), 1)
        if block == 2:
            while memory.ld_acquire_gpu_b32(memory.address_of(counter, (0,))) < 3:
                timer.nanosleep(20)
            out[0] = parts[0] + parts[1] + parts[2]

    args = (np.zeros(3, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32))
    assert found(kernel, args, 1, grid=3) == {"ok"}
    assert args[2].tolist() == [3]


def handed_on(mistake):
    """Block 0 writes and raises a flag, block 1 waits for it and reads; block 2 reads too, if that is the mistake."""
    early, unsynchronised, third = (mistake == name for name in ("early", "unsynchronised", "third"))

    @cuda.jit(device=True)
    def raise_flag(flag):
        if cuda.threadIdx.x == 0:
            memory.st_release_gpu_b32(memory.address_of(flag, (0,)), 1)

    def kernel(out, flag):
        t, block = cuda.threadIdx.x, cuda.blockIdx.x
        if block == 0:
            if early:
                raise_flag(flag)
            out[t] = 1
            if not unsynchronised:
                cuda.syncthreads()
            if not early:
                raise_flag(flag)
        elif block == 1:
            if t == 0:
                while memory.ld_acquire_gpu_b32(memory.address_of(flag, (0,))) == 0:
                    timer.nanosleep(20)
            cuda.syncthreads()
            out[32 + t] = out[31 - t]
        elif third:
            out[64 + t] = out[t]

    return kernel


@pytest.mark.parametrize(
    ("mistake", "kind"), [("", "ok"), ("early", "data-race"), ("unsynchronised", "data-race"), ("third", "data-race")]
)
def test_what_a_block_releases_to_another(mistake, kind):
    assert found(handed_on(mistake), (np.zeros(96, np.uint32), np.zeros(1, np.uint32)), 32, grid=3) == {kind}


# Rings ---------------------------------------------------------------------------------------------------------------


def test_copies_of_a_warp_that_arrive_on_a_barrier():
    def kernel(source, out):
        smem, t = RING.open(), cuda.threadIdx.x
        if t == 0:
            mbarrier.init(smem.full, 32)
            mbarrier.init(smem.empty, 32)
        cuda.syncthreads()
        for i in range(3):
            if t >= 32:
                mbarrier.wait(smem.empty, i & 1 ^ 1)
                cp_async.copy_ca_4(smem.words.address(0, t - 32), memory.address_of(source, (i, t - 32)))
                cp_async.mbarrier_arrive_noinc(smem.full)
            else:
                mbarrier.wait(smem.full, i & 1)
                out[i, t] = memory.ld_shared_b32(smem.words.address(0, t))
                mbarrier.arrive(smem.empty, 1)

    source, out = np.arange(96, dtype=np.uint32).reshape(3, 32), np.zeros((3, 32), np.uint32)
    assert found(kernel, (source, out), 64) == {"ok"}
    assert (out == source).all()


HALVES = SharedLayout(tiles=tile("float16", (2, 64, 64)), full=barriers(2), empty=barriers(2))


@cuda.jit(device=True)
def keep(row, column, low, high, out):
    out[row, column] = low
    out[row, column + 1] = high


def elected(by_instruction):
    """A warp waits for a stage, one of its threads loads it; a warp group multiplies and one thread gives it back."""

    def kernel(a, out):
        smem, t = HALVES.open(), cuda.threadIdx.x
        if t == 0:
            for stage in range(2):
                mbarrier.init(smem.full[stage], 1)
                mbarrier.init(smem.empty[stage], 1)
            fence.mbarrier_init()
        cuda.syncthreads()
        if t >= 128:
            for i in range(4):
                stage = i % 2
                mbarrier.wait(smem.empty[stage], i // 2 & 1 ^ 1)
                leads = warp.elect_one() if by_instruction else t == 128
                if leads:
                    mbarrier.arrive_expect_tx(smem.full[stage], smem.tiles[0].nbytes)
                    tma.load(smem.tiles[stage], a, (0, 0), smem.full[stage])
        else:
            acc = wgmma.zeros(float32, 64)
            for i in range(4):
                stage = i % 2
                mbarrier.wait(smem.full[stage], i // 2 & 1)
                wgmma.fence()
                for k in range(4):
                    part = smem.tiles[stage].part(64, 16, 0, k)
                    acc = wgmma.mma(part, part.T, acc)
                wgmma.commit_group()
                acc = wgmma.wait_group(acc, 0)
                if t == 0:
                    mbarrier.arrive(smem.empty[stage], 1)
            wgmma.for_each_pair(keep, acc, (out,))

    return kernel


@pytest.mark.parametrize(("by_instruction", "kind"), [(True, "ok"), (False, "phase-overrun")])
def test_a_warp_that_waits_and_a_thread_of_it_that_loads(by_instruction, kind):
    """`elect_one` waits for the whole warp; without it the others may miss the phase that they wait for."""
    tiles = TensorMap(np.ones((64, 64), np.float16), tile("float16", (64, 64)))
    out = np.zeros((64, 64), np.float32)
    assert found(elected(by_instruction), (tiles, out), 160, HALVES) == {kind}


def multicast_ring(arrive, wait):
    def kernel(a, out):
        smem, t, rank = RING.open(), cuda.threadIdx.x, cluster.rank()
        if t == 0:
            mbarrier.init(smem.full, 1)
            mbarrier.init(smem.empty, 2)
            fence.mbarrier_init()
        cluster.sync()
        for i in range(3):
            if t == 0:
                mbarrier.arrive_expect_tx(smem.full, smem.words.nbytes)
                if rank == 0:
                    wait(smem.empty, i & 1 ^ 1)
                    tma.load(smem.words, a, (0, 0), smem.full, multicast=0b11)
            mbarrier.wait(smem.full, i & 1)
            out[rank, i, t] = memory.ld_shared_b32(smem.words.address(0, t))
            fence.proxy_async_shared_cta()
            cuda.syncthreads()
            if t == 0:
                arrive(cluster.map_shared(smem.empty, 0), 1)
        cluster.sync()

    return kernel


@pytest.mark.parametrize(
    ("arrive", "wait", "kind"),
    [
        (mbarrier.arrive_remote, mbarrier.wait_cluster, "ok"),
        (mbarrier.arrive_remote_cta, mbarrier.wait, "undecided"),
        (mbarrier.arrive_remote_cta, mbarrier.wait_cluster, "undecided"),
        (mbarrier.arrive_remote_relaxed, mbarrier.wait, "undecided"),
    ],
)
def test_a_multicast_ring_whose_stage_is_given_back(arrive, wait, kind):
    """CUTLASS arrives and waits at the scope of the block: what was read is over, and the manual leaves it at that."""
    args = (TensorMap(np.zeros((8, 32), np.uint32), WORDS), np.zeros((2, 3, 32), np.uint32))
    assert found(multicast_ring(arrive, wait), args, 32, grid=2, cluster=2) == {kind}


def test_states_that_no_byte_is_in_are_forgotten(monkeypatch):
    """Every round of a long loop makes states of its own; few are in use at a time."""
    from hopper_numba.interpreter.hazards import checker

    monkeypatch.setattr(checker, "REMEMBERED", 500)
    counts = []
    tidy = checker.Checker.tidy
    monkeypatch.setattr(checker.Checker, "tidy", lambda self: (tidy(self), counts.append(self.states.count)))

    def kernel(out):
        shared, t = cuda.shared.array(64, uint32), cuda.threadIdx.x
        for i in range(60):
            shared[t] = i
            cuda.syncthreads()
            out[t] = shared[63 - t]
            cuda.syncthreads()

    assert found(kernel, (np.zeros(64, np.uint32),), 64) == {"ok"}
    assert max(counts) < 1500
