"""Odd seeds from 5 on delay a part of the kernel as long as anything else can go on, in turns of five."""

import random

import numpy as np
import pytest
from numba import cuda, float32

from hopper_numba import interpreter
from hopper_numba.interpreter.victims import Victim
from hopper_numba.intrinsics import fence, mbarrier, timer, tma, wgmma
from hopper_numba.shared import SharedLayout, barriers, tile
from hopper_numba.tensor_map import TensorMap

WARP_GROUP, WORK, WARP, OLDEST, BLOCK = ([5 + 2 * i + 10 * j for j in range(6)] for i in range(5))
OTHERS = [0, 1, 2, 3, *range(4, 40, 2)]


def run(kernel, *args, threads=128, shared=0, seed=0, cluster=1):
    """Without looking for hazards: what the schedule makes of them is what counts here."""
    interpreter.run(kernel, args, cluster, threads, dynamic_shared=shared, seed=seed, cluster=cluster, check=False)


# Which seeds ---------------------------------------------------------------------------------------------------------


def test_of_every_four_seeds_from_4_on_two_have_a_victim():
    with_victim = [seed for seed in range(24) if Victim(seed, random.Random(seed))]
    assert with_victim == [*range(5, 24, 2)]


def test_a_seed_gives_one_victim_for_each_cluster():
    def kernel(first, position):
        if cuda.threadIdx.x % 32 == 0:
            first[cuda.blockIdx.x, position[cuda.blockIdx.x]] = cuda.threadIdx.x
            position[cuda.blockIdx.x] += 1

    def order(seed):
        first, position = np.zeros((8, 8), np.int32), np.zeros(8, np.int32)
        interpreter.run(kernel, (first, position), 8, 256, seed=seed, check=False)
        return first.tolist()

    assert order(9) == order(9)
    assert len({row[-1] for row in order(9)}) > 2  # the last one of each block


# Who is late ---------------------------------------------------------------------------------------------------------


def absent(size, threads, seed, cluster=1):
    """Which of two parts of so many threads had not even begun when the other had done a lot."""

    def kernel(begun, absent):
        if cuda.grid(1) % size == 0:
            part = cuda.grid(1) // size
            begun[part] = 1
            for _ in range(2000):
                begun[2] = part
            if begun[part ^ 1] == 0:
                absent[part ^ 1] = 1

    begun, found = np.zeros(3, np.int32), np.zeros(2, np.int32)
    run(kernel, begun, found, threads=threads, seed=seed, cluster=cluster)
    return np.flatnonzero(found).tolist()


CASES = [(WARP_GROUP, 128, 256, 1), (WARP, 32, 64, 1), (BLOCK, 32, 32, 2)]


@pytest.mark.parametrize(("seeds", "size", "threads", "cluster"), CASES, ids=["warp group", "warp", "block"])
def test_what_goes_wrong_only_where_one_is_late_does_so(seeds, size, threads, cluster):
    found = [absent(size, threads, seed, cluster) for seed in seeds]
    assert all(len(one) == 1 for one in found)
    assert {one[0] for one in found} == {0, 1}
    # no other schedule of this many shows it
    assert not any(absent(size, threads, seed, cluster) for seed in OTHERS)


def test_where_there_is_one_warp_group_a_warp_is_late_and_where_there_is_one_warp_a_thread():
    assert all(len(absent(32, 64, seed)) == 1 for seed in WARP_GROUP)
    assert all(len(absent(1, 2, seed)) == 1 for seed in WARP_GROUP + WARP + BLOCK)


@pytest.mark.parametrize("seed", WARP_GROUP[:2] + WARP[:2])
def test_nobody_is_late_where_there_is_one_thread(seed):
    def kernel(out):
        out[0] = 1

    out = np.zeros(1, np.int32)
    run(kernel, out, threads=1, seed=seed)
    assert out[0] == 1


# Others that wait for the one that is late ---------------------------------------------------------------------------

SHARED = SharedLayout(ready=barriers(2))


def wait_by_mbarrier(smem, flag):
    mbarrier.wait(smem.ready[0], 0)


def poll(smem, flag):
    while not mbarrier.test_wait(smem.ready[0], 0):
        pass


def poll_and_sleep(smem, flag):
    while not mbarrier.test_wait(smem.ready[0], 0):
        timer.nanosleep(20)


def spin(smem, flag):
    while flag[0] == 0:
        pass


def spin_and_sleep(smem, flag):
    while flag[0] == 0:
        timer.nanosleep(20)


def spin_and_write(smem, flag):
    while flag[0] == 0:
        flag[1] = flag[1] + 1


@pytest.mark.parametrize("wait", [wait_by_mbarrier, poll, poll_and_sleep, spin, spin_and_sleep, spin_and_write])
@pytest.mark.parametrize("seed", WARP[:4])
def test_who_waits_for_the_one_that_is_late_gets_there(wait, seed):
    def kernel(flag, out):
        smem = SHARED.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.ready[0], 1)
        cuda.syncthreads()
        if cuda.threadIdx.x == 32:
            flag[0] = 1
            mbarrier.arrive(smem.ready[0], 1)
        elif cuda.threadIdx.x < 32:
            wait(smem, flag)
            out[cuda.threadIdx.x] = flag[0]

    flag, out = np.zeros(2, np.int64), np.zeros(32, np.int64)
    run(kernel, flag, out, threads=64, shared=SHARED.nbytes, seed=seed)
    assert out.all()


@pytest.mark.parametrize("seed", WARP_GROUP[:2] + WORK[:1] + WARP[:2] + OLDEST[:1] + BLOCK[:2])
def test_a_deadlock_is_one_whoever_is_late(seed):
    def kernel():
        smem = SHARED.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.ready[0], 1)
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            while not mbarrier.test_wait(smem.ready[0], 0):
                pass
        else:
            mbarrier.wait(smem.ready[0], 0)

    with pytest.raises(interpreter.DeadlockError, match=r"1 of 1 arrivals missing"):
        run(kernel, threads=64, shared=SHARED.nbytes, seed=seed)


# Which work is late --------------------------------------------------------------------------------------------------

LOADS = 6
BOXES = SharedLayout(tiles=tile(np.float32, (LOADS, 4, 32), swizzle=None), loaded=barriers(LOADS))
BOX = tile(np.float32, (4, 32), swizzle=None)


def test_the_oldest_load_is_late():
    def kernel(source, missing):
        smem = BOXES.open()
        for i in range(LOADS):
            mbarrier.init(smem.loaded[i], 1)
        fence.mbarrier_init()
        for i in range(LOADS):
            mbarrier.arrive_expect_tx(smem.loaded[i], smem.tiles[i].nbytes)
            tma.load(smem.tiles[i], source, (0, 0), smem.loaded[i])
        for i in range(1, LOADS):
            mbarrier.wait(smem.loaded[i], 0)
        missing[0] = not mbarrier.test_wait(smem.loaded[0], 0)
        mbarrier.wait(smem.loaded[0], 0)

    def is_missing(seed):
        missing = np.zeros(1, np.int32)
        run(kernel, TensorMap(np.zeros((4, 32), np.float32), BOX), missing, threads=1, shared=BOXES.nbytes, seed=seed)
        return bool(missing[0])

    assert all(is_missing(seed) for seed in OLDEST)
    assert not all(is_missing(seed) for seed in OTHERS)


K = 16
PRODUCTS = SharedLayout(
    a=tile(np.float16, (64, K), swizzle=32), b=tile(np.float16, (8, K), swizzle=32), loaded=barriers(), free=barriers()
)


def refill(a, b, out):
    """One warp group multiplies and tells too early that A is free; the other then loads A anew."""
    smem = PRODUCTS.open()
    if cuda.threadIdx.x == 0:
        mbarrier.init(smem.loaded, 1)
        mbarrier.init(smem.free, 128)
        fence.mbarrier_init()
    cuda.syncthreads()
    if cuda.threadIdx.x == 128:
        mbarrier.arrive_expect_tx(smem.loaded, smem.a.nbytes + smem.b.nbytes)
        tma.load(smem.a, a, (0, 0), smem.loaded)
        tma.load(smem.b, b, (0, 0), smem.loaded)
        mbarrier.wait(smem.free, 0)
        mbarrier.arrive_expect_tx(smem.loaded, smem.a.nbytes)
        tma.load(smem.a, a, (0, 64), smem.loaded)
        mbarrier.wait(smem.loaded, 1)
    if cuda.threadIdx.x < 128:
        mbarrier.wait(smem.loaded, 0)
        acc = wgmma.zeros(float32, 8)
        wgmma.fence()
        acc = wgmma.mma(smem.a, smem.b.T, acc)
        wgmma.commit_group()
        mbarrier.arrive(smem.free, 1)
        for _ in range(100):
            mbarrier.test_wait(smem.free, 1)  # of a phase that is long over: others may run
        acc = wgmma.wait_group(acc, 0)
        wgmma.for_each_pair(keep, acc, (out,))


@cuda.jit(device=True)
def keep(row, column, low, high, out):
    out[row, column] = low
    out[row, column + 1] = high


def test_the_matrix_unit_is_late():
    a = np.concatenate([np.ones((64, K), np.float16), np.zeros((64, K), np.float16)])
    b = np.ones((8, K), np.float16)
    members = PRODUCTS.members

    def is_spoilt(seed):
        out = np.zeros((64, 8), np.float32)
        maps = TensorMap(a, members["a"]), TensorMap(b, members["b"])
        try:
            run(refill, *maps, out, threads=256, shared=PRODUCTS.nbytes, seed=seed)
        except interpreter.InterpreterError:
            return True  # A was read while the load was on its way
        return not (out == K).all()

    late = [seed for seed in WORK if is_spoilt(seed)]
    assert late, "no victim was the group that multiplies"
    assert late != WORK, "every victim was"
