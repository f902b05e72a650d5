"""Schedules: one for a seed, different ones for others; and the report when nobody can run."""

import threading
import time

import numpy as np
import pytest
from numba import cuda

from hopper_numba import interpreter
from hopper_numba.intrinsics import mbarrier, timer
from hopper_numba.shared import SharedLayout, barriers

SHARED = SharedLayout(full=barriers(2), empty=barriers(2))


def order(seed, threads=64):
    """In which order threads came to a place."""

    def kernel(order, position):
        cuda.syncthreads()
        order[position[0]] = cuda.threadIdx.x
        position[0] += 1

    found, position = np.full(threads, -1), np.zeros(1, np.int64)
    interpreter.run(kernel, (found, position), 1, threads, seed=seed, check=False)
    return found.tolist()


def test_a_seed_gives_one_schedule_and_seeds_differ():
    assert order(3) == order(3)
    assert len({tuple(order(seed)) for seed in range(8)}) == 8


def test_interruptions_let_unsynchronised_threads_see_each_others_half_done_work():
    def kernel(total):
        total[0] = total[0] + 1

    found = set()
    for seed in range(20):
        total = np.zeros(1, np.int64)
        interpreter.run(kernel, (total,), 1, 64, seed=seed, check=False)
        found.add(int(total[0]))
    assert len(found) > 1


def test_a_thread_that_spins_on_memory_does_not_keep_others_from_writing_it():
    def kernel(flag, out):
        if cuda.threadIdx.x:
            while flag[0] == 0:
                pass
            out[0] = flag[0]
        else:
            flag[0] = 5

    for seed in range(8):
        flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
        interpreter.run(kernel, (flag, out), 1, 2, seed=seed, check=False)
        assert out[0] == 5


def test_blocks_of_a_cluster_run_together_and_others_one_after_another():
    def kernel(flags):
        flags[cuda.blockIdx.x] = 1
        if cuda.blockIdx.x % 2 == 0:
            while flags[cuda.blockIdx.x + 1] == 0:
                pass

    flags = np.zeros(4, np.int32)
    interpreter.run(kernel, (flags,), 4, 1, cluster=2, check=False)
    assert flags.tolist() == [1, 1, 1, 1]
    with pytest.raises(ValueError, match=r"grid must be whole clusters of \(2, 1, 1\); got \(3, 1, 1\)"):
        interpreter.run(kernel, (flags,), 3, 1, cluster=2)


# Deadlock ------------------------------------------------------------------------------------------------------------


def stuck(kernel, *args, threads=288, seed=0):
    with pytest.raises(interpreter.DeadlockError) as caught:
        interpreter.run(kernel, args, (2, 1), threads, dynamic_shared=SHARED.nbytes, seed=seed)
    return str(caught.value), caught.value


@pytest.mark.parametrize("seed", range(4))
def test_who_waits_where_for_what_and_who_has_exited(seed):
    def kernel():
        smem = SHARED.open()
        t = cuda.threadIdx.x
        if t == 0:
            for i in range(2):
                mbarrier.init(smem.full[i], 1)
                mbarrier.init(smem.empty[i], 2)
        cuda.syncthreads()
        if t < 128:
            mbarrier.wait(smem.full[1], 0)
        elif t == 128:
            mbarrier.arrive_expect_tx(smem.full[0], 4096)
            mbarrier.arrive(smem.empty[1], 1)
            mbarrier.wait(smem.empty[1], 0)
        elif t >= 256:
            mbarrier.wait(smem.full[0], 0)
        else:
            return
        cuda.syncthreads()

    text, error = stuck(kernel, seed=seed)
    lines = [line.strip() for line in text.splitlines()]
    where = [line.split(": at ")[0] for line in lines if ": at " in line]
    assert where == ["warp group 0, 128 threads", "thread 128", "warp 8, 32 threads"]
    assert "warps 5 to 7 and threads 129 to 159, 127 threads: exited" in lines
    assert "on barrier full[1], phase 0 (parity 0): 1 of 1 arrivals missing" in lines
    assert "on barrier empty[1], phase 0 (parity 0): 1 of 2 arrivals missing" in lines
    assert "on barrier full[0], phase 0 (parity 0): 4096 of 4096 bytes missing" in lines
    assert f"{__file__}:" in text
    assert "mbarrier.wait(smem.full[1], 0)" in text
    assert (error.kind, error.block, error.filename) == ("deadlock", (0, 0, 0), __file__)


def test_the_second_phase_is_named():
    def kernel():
        smem = SHARED.open()
        mbarrier.init(smem.full[0], 1)
        mbarrier.arrive(smem.full[0], 1)
        mbarrier.wait(smem.full[0], 0)
        mbarrier.wait(smem.full[0], 1)

    text, _ = stuck(kernel, threads=1)
    assert "on barrier full[0], phase 1 (parity 1): 1 of 1 arrivals missing" in text


def test_syncthreads_that_some_do_not_reach():
    def kernel():
        smem = SHARED.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.full[0], 1)
            mbarrier.wait(smem.full[0], 0)
        cuda.syncthreads()

    text, _ = stuck(kernel, threads=64)
    assert "warp 1 and threads 1 to 31, 63 threads: at" in text
    assert "on named barrier 0: 1 of 64 threads missing" in text


def test_threads_that_poll_in_vain_are_stuck_too():
    def kernel():
        smem = SHARED.open()
        mbarrier.init(smem.full[0], 1)
        while not mbarrier.test_wait(smem.full[0], 0):
            pass

    text, _ = stuck(kernel, threads=1)
    assert "while not mbarrier.test_wait(smem.full[0], 0):" in text


def test_a_thread_that_only_sleeps_or_also_writes_is_not_stuck():
    def kernel(out):
        smem = SHARED.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.full[0], 1)
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            for _ in range(25_000):
                timer.nanosleep(1)
            for i in range(25_000):
                out[0] = i
                timer.nanosleep(1)
            mbarrier.arrive(smem.full[0], 1)
        elif cuda.threadIdx.x == 1:
            while not mbarrier.test_wait(smem.full[0], 0):
                timer.nanosleep(1)

    for threads in (1, 2):
        out = np.zeros(1, np.int32)
        interpreter.run(kernel, (out,), 1, threads, dynamic_shared=SHARED.nbytes)
        assert out[0] == 24_999


@pytest.mark.parametrize("seed", range(3))
def test_threads_that_sleep_between_tests_in_vain_are_stuck(seed):
    def kernel(flag):
        smem = SHARED.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.full[0], 1)
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            while flag[0] == 0:
                timer.nanosleep(20)
        else:
            while not mbarrier.test_wait(smem.full[0], 0):
                timer.nanosleep(20)

    with pytest.raises(interpreter.DeadlockError):
        interpreter.run(kernel, (np.zeros(1, np.int32),), 1, 2, dynamic_shared=SHARED.nbytes, seed=seed)


def test_blocks_that_have_not_run_are_told_of():
    def kernel(flags):
        if cuda.blockIdx.x == 0:
            while flags[1] == 0:
                timer.nanosleep(20)
        flags[cuda.blockIdx.x] = 1

    further = r"further blocks of the grid, 2, have not run: .* run one after another"
    with pytest.raises(interpreter.DeadlockError, match=further):
        interpreter.run(kernel, (np.zeros(3, np.int32),), 3, 1)
    interpreter.run(kernel, (np.zeros(3, np.int32),), 3, 1, cluster=3, check=False)


def test_no_blocks_are_told_of_where_all_have_begun():
    def kernel(flags):
        if cuda.blockIdx.x == 1:
            while flags[1] == 0:
                timer.nanosleep(20)

    with pytest.raises(interpreter.DeadlockError) as caught:
        interpreter.run(kernel, (np.zeros(3, np.int32),), 2, 1)
    assert "further blocks" not in str(caught.value)


@pytest.mark.parametrize("seed", range(3))
def test_threads_that_spin_on_memory_in_vain_are_stuck_soon(seed):
    def kernel(flag):
        while flag[0] == 0:
            pass

    begin = time.perf_counter()
    with pytest.raises(interpreter.DeadlockError, match=r"runs, and only reads") as caught:
        interpreter.run(kernel, (np.zeros(1, np.int32),), 1, 64, seed=seed)
    assert time.perf_counter() - begin < 30  # some 3 s; slower machines pass too
    assert "while flag[0] == 0:" in str(caught.value) or "pass" in str(caught.value)


# Errors of kernels ---------------------------------------------------------------------------------------------------


def test_what_a_kernel_raises_comes_with_its_place():
    def kernel(n):
        if cuda.grid(1) == 70:
            1 // n

    with pytest.raises(ZeroDivisionError) as caught:
        interpreter.run(kernel, (0,), 2, 64)
    (note,) = caught.value.__notes__
    place, who = note.splitlines()
    line = kernel.__code__.co_firstlineno + 2
    assert place == f"  at {__file__}:{line}: 1 // n"
    assert who == "  in block (1, 0, 0), thread 6 (warp 0, lane 6)"


def test_what_a_device_function_raises_comes_with_its_own_line():
    @cuda.jit(device=True)
    def pick(row):
        return row["first"]

    def kernel(row):
        pick(row)

    with pytest.raises(TypeError) as caught:
        interpreter.run(kernel, (np.zeros(3),), 1, 1)
    assert 'return row["first"]' in caught.value.__notes__[0]


def test_a_refused_operand_comes_with_its_place():
    def kernel(smem):
        mbarrier.init(smem, 1)

    with pytest.raises(TypeError, match=r"mbarrier\.init: barrier must be") as caught:
        interpreter.run(kernel, (3,), 1, 1)
    assert "thread 0" in caught.value.__notes__[0]
    assert f"{__file__}:{kernel.__code__.co_firstlineno + 1}: mbarrier.init(smem, 1)" in caught.value.__notes__[0]


def test_a_fault_leaves_no_thread_behind():
    def kernel(left):
        try:
            cuda.syncthreads()
            if cuda.threadIdx.x == 3:
                raise KeyError("three")
            cuda.syncthreads()
        finally:
            left[cuda.threadIdx.x] = 1

    left = np.zeros(8, np.int32)
    with pytest.raises(KeyError):
        interpreter.run(kernel, (left,), 1, 8)
    assert left[3] == 1


def test_launches_in_several_threads_do_not_meet():
    results = {}

    def launch(seed):
        results[seed] = [order(seed) for _ in range(3)]

    workers = [threading.Thread(target=launch, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(results[seed] == [order(seed)] * 3 for seed in range(4))
