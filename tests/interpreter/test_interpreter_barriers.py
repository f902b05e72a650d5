"""Barriers in the interpreter: phases, counts, misuse."""

import numpy as np
import pytest
from numba import cuda, uint64

from hopper_numba import interpreter
from hopper_numba.intrinsics import barrier, mbarrier, timer
from hopper_numba.shared import SharedLayout, barriers

SHARED = SharedLayout(one=barriers(), full=barriers(2))
SEEDS = range(6)


def run(kernel, *args, threads=64, seed=0, check=None):
    interpreter.run(kernel, args, 1, threads, dynamic_shared=SHARED.nbytes, seed=seed, check=check)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_ring_of_two_barriers_hands_over_every_item_in_order(seed):
    """Warp 0 fills, warp 1 empties; a barrier for each direction."""
    shared = SharedLayout(full=barriers(2), empty=barriers(2))

    def kernel(out, items):
        smem = shared.open()
        slots = cuda.shared.array(2, np.int32)
        if cuda.threadIdx.x == 0:
            for i in range(2):
                mbarrier.init(smem.full[i], 1)
                mbarrier.init(smem.empty[i], 32)
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            for item in range(items):
                mbarrier.wait(smem.empty[item % 2], (item // 2 + 1) & 1)
                slots[item % 2] = 100 + item
                mbarrier.arrive(smem.full[item % 2], 1)
        elif cuda.threadIdx.x >= 32:
            for item in range(items):
                mbarrier.wait(smem.full[item % 2], item // 2 & 1)
                out[item, cuda.threadIdx.x - 32] = slots[item % 2]
                mbarrier.arrive(smem.empty[item % 2], 1)

    out = np.zeros((7, 32), np.int32)
    interpreter.run(kernel, (out, 7), 1, 64, dynamic_shared=shared.nbytes, seed=seed)
    assert (out == 100 + np.arange(7)[:, None]).all()


def test_a_fresh_barrier_counts_as_if_phase_1_had_passed():
    def kernel(out):
        smem = SHARED.open()
        mbarrier.init(smem.one, 2)
        out[0] = mbarrier.test_wait(smem.one, 1)
        out[1] = mbarrier.test_wait(smem.one, 0)
        state = mbarrier.arrive(smem.one, 1)
        out[2] = mbarrier.test_wait_state(smem.one, state)
        mbarrier.arrive(smem.one, 1)
        out[3] = mbarrier.test_wait_state(smem.one, state)
        out[4] = mbarrier.test_wait(smem.one, 0)
        out[5] = mbarrier.test_wait(smem.one, 1)
        mbarrier.arrive(smem.one, 2)
        out[6] = mbarrier.test_wait(smem.one, 1)
        mbarrier.inval(smem.one)
        mbarrier.init(smem.one, 5)
        out[7] = mbarrier.test_wait(smem.one, 0)

    out = np.full(8, 9, np.int32)
    run(kernel, out, threads=1)
    assert out.tolist() == [1, 0, 0, 1, 1, 0, 1, 0]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_thread_that_polls_lets_others_arrive(seed):
    def kernel(out):
        smem = SHARED.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.one, 31)
        cuda.syncthreads()
        if cuda.threadIdx.x:
            mbarrier.arrive(smem.one, 1)
        else:
            while not mbarrier.test_wait(smem.one, 0):
                timer.nanosleep(20)
            out[0] = 1

    out = np.zeros(1, np.int32)
    run(kernel, out, threads=32, seed=seed)
    assert out[0] == 1


def test_a_barrier_takes_fewer_arrivals_from_the_phase_after_a_drop_on():
    def kernel(out):
        smem = SHARED.open()
        mbarrier.init(smem.one, 4)
        mbarrier.arrive_drop(smem.one, 1)
        mbarrier.arrive(smem.one, 2)
        out[0] = mbarrier.test_wait(smem.one, 0)
        mbarrier.arrive_drop_expect_tx(smem.one, 8)
        out[1] = mbarrier.test_wait(smem.one, 0)
        mbarrier.complete_tx(smem.one, 8)
        out[2] = mbarrier.test_wait(smem.one, 0)
        for phase in range(1, 4):
            mbarrier.arrive(smem.one, 1)
            out[2 * phase + 1] = mbarrier.test_wait(smem.one, phase & 1)
            mbarrier.arrive(smem.one, 1)
            out[2 * phase + 2] = mbarrier.test_wait(smem.one, phase & 1)
        mbarrier.inval(smem.one)
        mbarrier.init(smem.one, 3)
        mbarrier.arrive(smem.one, 2)
        out[9] = mbarrier.test_wait(smem.one, 0)

    out = np.full(10, 9, np.int32)
    run(kernel, out, threads=1)
    assert out.tolist() == [0, 0, 1, 0, 1, 0, 1, 0, 1, 0]


def test_bytes_may_be_reported_before_they_are_expected():
    def kernel(out):
        smem = SHARED.open()
        mbarrier.init(smem.one, 2)
        mbarrier.complete_tx(smem.one, 24)
        mbarrier.expect_tx(smem.one, 8)
        mbarrier.arrive(smem.one, 1)
        out[0] = mbarrier.test_wait(smem.one, 0)
        mbarrier.arrive_expect_tx(smem.one, 16)
        out[1] = mbarrier.test_wait(smem.one, 0)

    out = np.full(2, 9, np.int32)
    run(kernel, out, threads=1)
    assert out.tolist() == [0, 1]


def test_more_bytes_than_expected_are_told():
    def kernel():
        smem = SHARED.open()
        mbarrier.init(smem.one, 1)
        mbarrier.complete_tx(smem.one, 24)
        mbarrier.arrive_expect_tx(smem.one, 16)
        mbarrier.wait(smem.one, 0)

    with pytest.raises(interpreter.DeadlockError, match="24 bytes arrived where 16 are expected"):
        run(kernel, threads=1)


def test_a_deadlock_counts_arrivals_of_the_phase_that_lacks_them():
    def kernel():
        smem = SHARED.open()
        mbarrier.init(smem.one, 5)
        mbarrier.arrive_drop(smem.one, 2)
        mbarrier.wait(smem.one, 0)

    with pytest.raises(interpreter.DeadlockError, match="3 of 5 arrivals missing"):
        run(kernel, threads=1)


def test_a_loop_with_a_timeout_ends():
    def kernel(out):
        smem = SHARED.open()
        mbarrier.init(smem.one, 2)
        start = timer.globaltimer()
        while not mbarrier.test_wait(smem.one, 0) and timer.globaltimer() - start < 1_000_000:
            pass
        out[0] = 1

    out = np.zeros(1, np.int32)
    run(kernel, out, threads=1)
    assert out[0] == 1


def misuses():
    def before_init(smem):
        mbarrier.arrive(smem.one, 1)

    def too_many(smem):
        mbarrier.init(smem.full[1], 2)
        mbarrier.arrive(smem.full[1], 3)

    def twice(smem):
        mbarrier.init(smem.one, 1)
        mbarrier.init(smem.one, 1)

    def after_inval(smem):
        mbarrier.init(smem.one, 1)
        mbarrier.inval(smem.one)
        mbarrier.wait(smem.one, 0)

    def of_another_barrier(smem):
        mbarrier.init(smem.full[0], 1)
        mbarrier.init(smem.full[1], 1)
        mbarrier.test_wait_state(smem.full[1], mbarrier.arrive(smem.full[0], 1))

    def of_an_older_phase(smem):
        mbarrier.init(smem.one, 1)
        state = mbarrier.arrive(smem.one, 1)
        mbarrier.arrive(smem.one, 1)
        mbarrier.try_wait_state(smem.one, state)

    def too_many_bytes(smem):
        mbarrier.init(smem.one, 1)
        mbarrier.expect_tx(smem.one, 2**20 - 1)
        mbarrier.expect_tx(smem.one, 1)

    def one_too_many(smem):
        mbarrier.init(smem.one, 1)
        mbarrier.arrive_expect_tx(smem.one, 128)
        mbarrier.complete_tx(smem.one, 32)
        mbarrier.arrive(smem.one, 1)

    def bytes_that_nobody_expects(smem):
        mbarrier.init(smem.one, 1)
        mbarrier.complete_tx(smem.one, 16)
        mbarrier.arrive(smem.one, 1)
        mbarrier.arrive(smem.one, 1)

    def all_dropped(smem):
        mbarrier.init(smem.one, 3)
        mbarrier.arrive_drop(smem.one, 1)
        mbarrier.arrive_drop(smem.one, 2)

    def too_many_dropped(smem):
        mbarrier.init(smem.one, 3)
        mbarrier.arrive(smem.one, 2)
        mbarrier.arrive_drop(smem.one, 2)

    def dropped_before(smem):
        mbarrier.init(smem.one, 3)
        mbarrier.arrive_drop(smem.one, 1)
        mbarrier.arrive(smem.one, 2)
        mbarrier.arrive(smem.one, 3)

    def too_many_bytes_reported(smem):
        mbarrier.init(smem.one, 1)
        mbarrier.complete_tx(smem.one, 2**20 - 1)
        mbarrier.complete_tx(smem.one, 1)

    def bytes_before_init(smem):
        mbarrier.complete_tx(smem.one, 1)

    overrun, misuse = "phase-overrun", "barrier-misuse"
    return [
        (
            before_init,
            r"barrier one is arrived on before mbarrier.init; one thread does that, .* and a barrier of the block",
            overrun,
        ),
        (too_many, r"barrier full\[1\]: 3 arrivals in phase 0, which takes only 2 more\n", overrun),
        (
            one_too_many,
            r"takes only 0 more; thread 0 arrived in it before; 96 of 128 bytes missing\n",
            overrun,
        ),
        (bytes_that_nobody_expects, "in it before; 16 bytes arrived where 0 are expected\n", overrun),
        (twice, "barrier one is initialised already", overrun),
        (after_inval, "barrier one is waited for before", overrun),
        (of_another_barrier, r"barrier full\[1\] is tested with 0x[0-9a-f]+, which no arrival on it returned", misuse),
        (of_an_older_phase, "barrier one, in phase 2, is tested with a state of phase 0", misuse),
        (all_dropped, "barrier one: dropping 2 of the 2 arrivals of later phases leaves none", overrun),
        (too_many_dropped, "barrier one: 2 arrivals in phase 0, .* 1 more; thread 0 arrived in it before\n", overrun),
        (dropped_before, "barrier one: 3 arrivals in phase 1, which takes only 2 more\n", overrun),
        (too_many_bytes_reported, "barrier one counts at most 1048575 bytes that nobody expects yet", misuse),
        (bytes_before_init, "barrier one is told of bytes before mbarrier.init", overrun),
        (too_many_bytes, "barrier one can expect 1048575 bytes at once; got 1048576", misuse),
    ]


@pytest.mark.parametrize(("misuse", "message", "kind"), misuses(), ids=lambda v: getattr(v, "__name__", ""))
def test_a_misuse_names_the_barrier(misuse, message, kind):
    misuse = cuda.jit(device=True)(misuse)

    def kernel():
        misuse(SHARED.open())

    with pytest.raises(interpreter.BarrierError, match=message) as caught:
        run(kernel, threads=1)
    assert caught.value.line > 0
    assert caught.value.thread == 0
    assert caught.value.kind == kind
    assert caught.value.filename == __file__


def test_a_barrier_is_no_data():
    def kernel(out):
        smem = SHARED.open()
        raw = cuda.shared.array(0, uint64)
        mbarrier.init(smem.one, 1)
        out[0] = raw[0]

    with pytest.raises(interpreter.BarrierError, match="are a barrier's"):
        run(kernel, np.zeros(1, np.uint64), threads=1)


def test_barriers_in_a_numba_array_have_its_name():
    def kernel():
        bars = cuda.shared.array(4, uint64)
        mbarrier.init(bars[2:], 1)
        mbarrier.wait(bars[2:], 0)

    with pytest.raises(interpreter.DeadlockError, match=r"shared.array\(4, uint64\)\[2\], phase 0"):
        run(kernel, threads=1)


def test_a_waiter_that_is_two_phases_late():
    """Parity cannot tell them apart: it waits in vain on a GPU. One that is in time only by chance is a hazard."""

    def kernel(out):
        smem = SHARED.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.one, 1)
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            mbarrier.wait(smem.one, 0)
            out[0] = 1
        elif cuda.threadIdx.x == 1:
            mbarrier.arrive(smem.one, 1)
            mbarrier.arrive(smem.one, 1)

    for check, in_time in ((False, {"passed"}), (True, set())):
        outcomes = set()
        for seed in range(30):
            out = np.zeros(1, np.int32)
            try:
                run(kernel, out, threads=2, seed=seed, check=check)
            except interpreter.InterpreterError as error:
                outcomes.add(error.kind)
            else:
                outcomes.add("passed")
        assert outcomes == {"deadlock", "phase-overrun"} | in_time


# Named barriers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_threads_that_arrive_do_not_wait_and_those_that_sync_do(seed):
    def kernel(out):
        slot = cuda.shared.array(1, np.int32)
        if cuda.threadIdx.x < 32:
            if cuda.threadIdx.x == 0:
                slot[0] = 7
            cuda.syncwarp()
            barrier.arrive(1, 64)
        else:
            barrier.sync(1, 64)
            out[cuda.threadIdx.x - 32] = slot[0]

    out = np.zeros(32, np.int32)
    run(kernel, out, seed=seed)
    assert (out == 7).all()


def test_syncthreads_does_not_wait_for_threads_that_exited():
    def kernel(out):
        if cuda.threadIdx.x < 40:
            return
        cuda.syncthreads()
        out[cuda.threadIdx.x] = 1

    out = np.zeros(64, np.int32)
    run(kernel, out)
    assert out.sum() == 24


def test_two_counts_on_one_named_barrier_are_refused():
    def kernel():
        barrier.sync(3, 64 if cuda.threadIdx.x < 32 else 32)

    with pytest.raises(interpreter.BarrierError, match="named barrier 3 is used with"):
        run(kernel)


def test_a_count_that_is_no_multiple_of_a_warp_is_refused():
    def kernel():
        barrier.sync(3, threads)

    threads = 96
    with pytest.raises(interpreter.BarrierError, match="up to the block's 64; got 96"):
        run(kernel)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wait", [True, False])
def test_a_named_barrier_counts_whole_warps_only(wait, seed):
    """Half of each of two warps would be 32 threads; the hardware counts 64, or hangs."""

    def kernel():
        if cuda.threadIdx.x % 32 < 16:
            if wait:
                barrier.sync(1, 32)
            else:
                barrier.arrive(1, 32)

    name = "sync" if wait else "arrive"
    with pytest.raises(interpreter.DivergenceError, match=rf"barrier\.{name} is executed by part of warp") as caught:
        run(kernel, seed=seed)
    assert f"barrier.{name}(1, 32)" in str(caught.value)


def test_lanes_that_name_different_barriers_are_reported():
    def kernel():
        barrier.sync(1 + cuda.threadIdx.x % 2, 64)

    with pytest.raises(interpreter.DivergenceError, match="lanes of a warp name different barriers"):
        run(kernel)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_named_barrier_is_used_again_and_again(seed):
    def kernel(out):
        slots = cuda.shared.array(64, np.int32)
        t = cuda.threadIdx.x
        total = 0
        for i in range(4):
            slots[t] = t + i
            barrier.sync(1, 64)
            total += slots[63 - t]
            barrier.sync(2 if i % 2 else 1, 64)
        out[t] = total

    out = np.zeros(64, np.int32)
    run(kernel, out, seed=seed)
    assert (out == 4 * np.arange(63, -1, -1) + 6).all()
