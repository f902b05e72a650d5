"""Clusters in the interpreter: who a block is, the barrier of a cluster, other blocks' shared memory, misuse."""

import numpy as np
import pytest
from numba import cuda

from hopper_numba import interpreter
from hopper_numba.intrinsics import cluster, fence, mbarrier, memory
from hopper_numba.shared import SharedLayout, barriers, tile

SHARED = SharedLayout(words=tile("uint32", (4, 64), swizzle=None), bar=barriers(2))
SEEDS = range(6)


def run(kernel, *args, grid=2, threads=32, seed=0, size=2):
    interpreter.run(kernel, args, grid, threads, dynamic_shared=SHARED.nbytes, seed=seed, cluster=size)


def raises(error, match, kernel, *args, **launch):
    """The error, which has a place in this file, for every seed."""
    for seed in SEEDS:
        with pytest.raises(error, match=match) as caught:
            run(kernel, *args, seed=seed, **launch)
        assert caught.value.filename == __file__
        assert caught.value.line > 0
    return caught.value


# Who a block is ------------------------------------------------------------------------------------------------------


def places(out):
    if cuda.threadIdx.x == 0:
        block = cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)
        out[block, 0], out[block, 1] = cluster.rank(), cluster.size()
        for i in range(3):
            out[block, 2 + i], out[block, 5 + i] = cluster.block_index()[i], cluster.shape()[i]
            out[block, 8 + i], out[block, 11 + i] = cluster.index()[i], cluster.count()[i]


def test_three_clusters_of_two_blocks():
    out = np.zeros((6, 14), int)
    run(places, out, grid=6, threads=1)
    for block, found in enumerate(out):
        assert found.tolist() == [block % 2, 2, block % 2, 0, 0, 2, 1, 1, block // 2, 0, 0, 3, 1, 1]


def test_clusters_of_three_dimensions():
    grid, size = (4, 4, 3), (2, 2, 1)
    out = np.zeros((48, 14), int)
    run(places, out, grid=grid, threads=1, size=size)
    for block, found in enumerate(out):
        at = np.array([block % 4, block // 4 % 4, block // 16])
        within = at % size
        wanted = [[within[0] + 2 * within[1], 4], within, size, at // size, np.array(grid) // size]
        assert found.tolist() == np.concatenate(wanted).tolist()


def test_a_launch_without_clusters_is_one_of_single_blocks():
    def kernel(out):
        out[cuda.blockIdx.x, cuda.threadIdx.x] = cluster.size() + cluster.rank() + 10 * cluster.index()[0]
        cluster.sync()

    out = np.zeros((3, 32), int)
    run(kernel, out, grid=3, size=1)
    assert (out == 1 + 10 * np.arange(3)[:, None]).all()


# The barrier of the cluster ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_meet_again_and_again(seed):
    def kernel(out, rounds):
        smem = SHARED.open()
        t, rank = cuda.threadIdx.x, cluster.rank()
        cluster.sync()
        after = cluster.map_shared(smem.words, (rank + 1) % cluster.size())
        for i in range(rounds):
            cluster.st_shared_b32(after.address(0, t), 100 * i + rank)
            if i % 2:
                cluster.sync()
            else:
                cluster.arrive()
                cluster.wait()
            out[cuda.blockIdx.x, i, t] = cluster.ld_shared_b32(smem.words.address(0, t))
            if t % 3:  # lanes of a warp, at several places
                cluster.sync_unaligned()
            else:
                cluster.arrive_relaxed_unaligned()
                cluster.wait_unaligned()

    out = np.zeros((6, 5, 64), int)
    run(kernel, out, 5, grid=6, threads=64, seed=seed, size=3)
    wanted = 100 * np.arange(5) + ((np.arange(6) + 2) % 3)[:, None]
    assert (out == wanted[:, :, None]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_waits_for_threads_that_exited(seed):
    def kernel(out):
        t = cuda.threadIdx.x
        if t >= 64 or cluster.rank() == 1:
            if t % 2:
                cluster.arrive_unaligned()
            return
        cluster.sync()
        cluster.sync()
        out[t] = 1

    out = np.zeros(96, int)
    run(kernel, out, threads=96, seed=seed)
    assert out.sum() == 64


def test_a_wait_without_an_arrival():
    def alone():
        if cuda.threadIdx.x == 5:
            cluster.wait_unaligned()

    def together():
        cluster.wait()

    def again():
        cluster.sync()
        cluster.wait()

    message = "thread {} waits at the barrier of the cluster without cluster.arrive before"
    raises(interpreter.BarrierError, message.format(5), alone)
    error = raises(interpreter.BarrierError, message.format(0), together)
    assert "warp 0, 32 threads" in str(error)
    raises(interpreter.BarrierError, message.format(0), again)


def test_a_second_arrival_before_the_wait():
    def alone():
        if cuda.threadIdx.x == 5:
            cluster.arrive_unaligned()
            cluster.arrive_relaxed_unaligned()

    def together():
        cluster.arrive()
        cluster.sync()

    message = "thread {} arrives at the barrier of the cluster again; cluster.wait must come between"
    raises(interpreter.BarrierError, message.format(5), alone)
    raises(interpreter.BarrierError, message.format(0), together)


def test_a_part_of_a_warp_comes_to_an_aligned_barrier():
    def kernel():
        if cuda.threadIdx.x < 16:
            cluster.sync()

    raises(interpreter.DivergenceError, "cluster.sync is executed by part of warp 0", kernel)


def test_a_block_that_never_arrives():
    def kernel():
        smem = SHARED.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.bar[0], 1)
        cuda.syncthreads()
        if cluster.rank() == 1 and cuda.threadIdx.x >= 32:
            mbarrier.wait(smem.bar[0], 0)
        cluster.sync()

    text = str(raises(interpreter.DeadlockError, "no thread can run", kernel, threads=64))
    first, second = text.split("block (1, 0, 0):\n")
    lacking = "on the barrier of the cluster: arrivals missing of block (1, 0, 0), warp 1, 32 threads"
    assert f"warps 0 to 1, 64 threads: at {__file__}" in first
    assert lacking in first
    assert lacking in second
    assert "on barrier bar[0], phase 0 (parity 0): 1 of 1 arrivals missing" in second


def test_an_arrival_that_only_some_threads_of_each_block_make():
    def kernel():
        if cuda.threadIdx.x < 32:
            cluster.sync()
        else:
            cuda.syncthreads()

    error = raises(interpreter.DeadlockError, "no thread can run", kernel, threads=64)
    assert "arrivals missing of block (0, 0, 0), warp 1, 32 threads; block (1, 0, 0), warp 1, 32 threads" in str(error)


# Shared memory of other blocks ---------------------------------------------------------------------------------------


def test_everything_that_hangs_on_a_view_hangs_on_it_where_it_is_mapped():
    shared = SharedLayout(ring=tile("uint32", (2, 16, 64)), bar=barriers(3))

    def kernel(out):
        smem = shared.open()
        cluster.sync()
        for rank in range(cluster.size()):
            peer = cluster.map_shared(smem, rank)
            pairs = (
                (smem.bar[2], peer.bar[2]),
                (smem.bar[2], cluster.map_shared(smem.bar[2], rank)),
                (smem.ring[1], cluster.map_shared(smem.ring, rank)[1]),
                (smem.ring[1].address(5, 37), peer.ring[1].address(5, 37)),
                (smem.ring[1].address(5, 37), cluster.map_shared(smem.ring[1].T, rank).address(37, 5)),
                (smem.ring[0].part(8, 16, 1, 3).address(1, 2), peer.ring[0].part(8, 16, 1, 3).address(1, 2)),
            )
            for i in range(cuda.threadIdx.x, len(pairs), cuda.blockDim.x):
                own, mapped = pairs[i]
                out[cluster.rank(), rank, i] = (
                    own.description == mapped.description
                    and (own.base ^ mapped.base) == (rank + 1) << 24
                    and cluster.shared_rank(mapped) == rank
                    and cluster.shared_rank(own) == cluster.rank()
                )
        cluster.sync()

    out = np.zeros((2, 2, 6), int)
    interpreter.run(kernel, (out,), 2, 32, dynamic_shared=shared.nbytes, cluster=2)
    assert out.all()


def test_a_rank_outside_the_cluster():
    def kernel():
        cluster.map_shared(SHARED.open().bar[0], 2)

    raises(interpreter.OutOfBoundsError, "no block of rank 2 in this cluster: it has 2, from 0 on", kernel)


def use_of_a_block_that_ended(use):
    """A kernel whose block 1, of one thread, ends; block 0 uses its shared memory a while after."""
    use = cuda.jit(device=True)(use)

    def kernel(flag):
        smem = SHARED.open()
        cluster.sync_unaligned()
        if cluster.rank() == 1:
            memory.st_release_gpu_b32(memory.address_of(flag, (0,)), 1)
            return
        while memory.ld_acquire_gpu_b32(memory.address_of(flag, (0,))) == 0:
            pass
        for _ in range(100):
            cuda.syncthreads()
        use(cluster.map_shared(smem, 1))

    return kernel


def test_a_block_whose_threads_have_exited_has_no_shared_memory():
    def load(peer):
        cluster.ld_shared_b32(peer.words.address(0, 0))

    def store(peer):
        cluster.st_shared_v4_b32(peer.words.address(0, 0), (1, 2, 3, 4))

    def asynchronous_store(peer):
        cluster.st_async_b32(peer.words.address(0, 0), 1, peer.bar[0])

    def arrive(peer):
        mbarrier.arrive_remote(peer.bar[0], 1)

    def count(peer):
        mbarrier.complete_tx_remote(peer.bar[0], 1)

    for use in (load, store, asynchronous_store, arrive, count):
        message = (
            r"the shared memory of block \(1, 0, 0\) is gone: its threads have exited; cluster.sync before its end"
        )
        with pytest.raises(interpreter.OutOfBoundsError, match=message) as caught:
            run(use_of_a_block_that_ended(use), np.zeros(1, np.uint32), threads=1)
        assert caught.value.block == (0, 0, 0)


def misuses():
    def misaligned(smem, peer):
        cluster.ld_shared_v4_b32(peer.words.address(0, 2))

    def misaligned_store(smem, peer):
        cluster.st_shared_v2_b32(peer.words.address(0, 1), (1, 2))

    def misaligned_asynchronous_store(smem, peer):
        cluster.st_async_b64(peer.words.address(0, 1), 1, peer.bar[0])

    def unwritten(smem, peer):
        cluster.ld_shared_b32(peer.words.address(3, 1))

    def not_initialised(smem, peer):
        mbarrier.arrive_remote(peer.bar[1], 1)

    def too_many(smem, peer):
        mbarrier.arrive_remote_relaxed(peer.bar[0], 3)

    def dropped(smem, peer):
        mbarrier.arrive_drop_remote(peer.bar[0], 2)

    def two_blocks(smem, peer):
        cluster.st_async_b32(peer.words.address(0, 0), 1, smem.bar[0])

    def bytes_for_no_barrier(smem, peer):
        cluster.st_async_b32(peer.words.address(0, 0), 1, peer.bar[1])

    def twice(smem, peer):
        cluster.st_async_b32(peer.words.address(0, 0), 1, peer.bar[0])
        cluster.st_async_b32(peer.words.address(0, 0), 1, peer.bar[0])
        cluster.st_async_b32(peer.words.address(0, 0), 1, peer.bar[0])

    def wait_elsewhere(smem, peer):
        mbarrier.wait(peer.bar[0], 0)

    misaligned_, overrun, of_peer = interpreter.MisalignedError, interpreter.PhaseOverrunError, r"of block \(1, 0, 0\)"
    return [
        (misaligned, misaligned_, "must be a multiple of 16 bytes"),
        (misaligned_store, misaligned_, "must be a multiple of 8 bytes"),
        (misaligned_asynchronous_store, misaligned_, "multiples of 8 bytes"),
        (unwritten, interpreter.UninitialisedReadError, "nobody has written"),
        (not_initialised, overrun, rf"barrier bar\[1\] {of_peer} is arrived on before mbarrier.init"),
        (too_many, overrun, rf"barrier bar\[0\] {of_peer}: 3 arrivals in phase 0, which takes only 2 more\n"),
        (dropped, overrun, rf"barrier bar\[0\] {of_peer}: dropping 2 of the 2 arrivals of later phases leaves none"),
        (two_blocks, interpreter.BarrierError, r"barrier bar\[0\] is block \(0, 0, 0\)'s; .* \(1, 0, 0\)"),
        (bytes_for_no_barrier, overrun, rf"barrier bar\[1\] {of_peer} is given to cluster.st_async_b32 before"),
        (twice, interpreter.OverwriteError, "still to write"),
        (wait_elsewhere, TypeError, "mbarrier.wait: barrier must lie in the block's own shared memory"),
    ]


@pytest.mark.parametrize(("misuse", "error", "message"), misuses(), ids=lambda v: getattr(v, "__name__", ""))
def test_a_misuse_names_the_block(misuse, error, message):
    misuse = cuda.jit(device=True)(misuse)

    def kernel():
        smem = SHARED.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.bar[0], 2)
            fence.mbarrier_init()
        cluster.sync()
        if cluster.rank() == 0 and cuda.threadIdx.x == 0:
            misuse(smem, cluster.map_shared(smem, 1))
        cluster.sync()

    with pytest.raises(error, match=message):
        run(kernel)


def test_an_arrival_too_many_names_those_before_it():
    def kernel():
        smem = SHARED.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.bar[0], 3)
            fence.mbarrier_init()
        cluster.sync()
        if cluster.rank() == 1 and cuda.threadIdx.x == 5:
            mbarrier.arrive(smem.bar[0], 1)
        cluster.sync()
        if cluster.rank() == 0 and cuda.threadIdx.x == 0:
            mbarrier.arrive_remote(cluster.map_shared(smem, 1).bar[0], 1)
            mbarrier.arrive_remote(cluster.map_shared(smem, 1).bar[0], 2)
        cluster.sync()

    message = r"1 more; thread 5 of block \(1, 0, 0\) and thread 0 arrived in it before\n"
    with pytest.raises(interpreter.PhaseOverrunError, match=message):
        run(kernel)


# Asynchronous stores -------------------------------------------------------------------------------------------------


def send(expected, waits, reads):
    """A kernel whose block 0 sends 8 bytes to block 1, which expects `expected`; who waits, and who reads when."""

    def kernel(out):
        smem = SHARED.open()
        t, rank = cuda.threadIdx.x, cluster.rank()
        if t == 0:
            mbarrier.init(smem.bar[0], 1)
            fence.mbarrier_init()
            if rank == 1:
                mbarrier.arrive_expect_tx(smem.bar[0], expected)
        cluster.sync()
        if rank == 0 and t == 0:
            peer = cluster.map_shared(smem, 1)
            cluster.st_async_v2_b32(peer.words.address(0, 2), (7, 8), peer.bar[0])
        cluster.sync()
        if rank == 1:
            if waits:
                mbarrier.wait_cluster(smem.bar[0], 0)
            if reads and t == 0:
                out[0], out[1] = cluster.ld_shared_v2_b32(smem.words.address(0, 2))
        cluster.sync()

    return kernel


@pytest.mark.parametrize("seed", SEEDS)
def test_an_asynchronous_store_is_there_when_its_barrier_says_so(seed):
    out = np.zeros(2, int)
    run(send(8, True, True), out, seed=seed)
    assert out.tolist() == [7, 8]


def test_an_asynchronous_store_is_read_too_early():
    with pytest.raises(interpreter.ReadBeforeArrivalError, match="still to write"):
        run(send(8, False, True), np.zeros(2, int))


def test_an_asynchronous_store_that_nobody_waits_for():
    message = r"block \(1, 0, 0\) ended before this cluster.st_async_v2_b32 arrived: nobody waits for barrier bar\[0\]"
    with pytest.raises(interpreter.UnfinishedError, match=message) as caught:
        run(send(8, False, False), np.zeros(2, int))
    assert caught.value.block == (0, 0, 0)


def test_a_block_ends_before_an_asynchronous_store_arrives():
    """The other goes on, until it waits for something else that is asynchronous."""

    def kernel():
        smem = SHARED.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.bar[0], 1)
            fence.mbarrier_init()
        cluster.sync()
        peer = cluster.map_shared(smem, 1)
        if cluster.rank() == 0 and cuda.threadIdx.x == 0:
            cluster.st_async_b32(peer.words.address(0, 2), 7, peer.bar[0])
        cluster.sync()
        if cluster.rank() == 0:
            mbarrier.wait(smem.bar[0], 0)

    message = r"block \(1, 0, 0\) ended before this cluster.st_async_b32 arrived"
    with pytest.raises(interpreter.UnfinishedError, match=message):
        run(kernel)


@pytest.mark.parametrize(
    ("expected", "lacks"), [(12, "4 of 12 bytes missing"), (4, "8 bytes arrived where 4 are expected")]
)
def test_wrong_bytes_are_told_in_the_block_that_waits(expected, lacks):
    error = raises(interpreter.DeadlockError, "no thread can run", send(expected, True, True), np.zeros(2, int))
    text = str(error).split("block (1, 0, 0):\n")[1]
    assert f"on barrier bar[0], phase 0 (parity 0): {lacks}" in text


# Arrivals on other blocks' barriers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_ring_over_two_blocks_hands_over_every_item_in_order(seed):
    """Block 0 fills places in block 1, which gives them back."""

    def kernel(out, items):
        smem = SHARED.open()
        t, rank = cuda.threadIdx.x, cluster.rank()
        if t == 0:
            mbarrier.init(smem.bar[0], 1)  # full, in block 1
            mbarrier.init(smem.bar[1], 32)  # empty, in block 0
            fence.mbarrier_init()
        cluster.sync()
        peer = cluster.map_shared(smem, 1 - rank)
        for item in range(items):
            if rank == 0 and t == 0:
                mbarrier.wait_cluster(smem.bar[1], (item & 1) ^ 1)
                cluster.st_shared_b32(peer.words.address(0, 0), 100 + item)
                mbarrier.arrive_remote(peer.bar[0], 1)
            elif rank == 1:
                while not mbarrier.try_wait_cluster(smem.bar[0], item & 1):
                    pass
                out[item, t] = cluster.ld_shared_b32(smem.words.address(0, 0))
                mbarrier.arrive_remote_cta(peer.bar[1], 1)
        cluster.sync()

    out = np.zeros((7, 32), int)
    run(kernel, out, 7, seed=seed)
    assert (out == 100 + np.arange(7)[:, None]).all()
