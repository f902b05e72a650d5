"""What warps and warp groups must do together."""

import numpy as np
import pytest
from numba import cuda

from hopper_numba import interpreter
from hopper_numba.intrinsics import device_function, mbarrier, wgmma
from hopper_numba.intrinsics.machine import warp
from hopper_numba.intrinsics.warp import elect_one
from hopper_numba.shared import SharedLayout, barriers

SEEDS = range(6)


@device_function(lambda *types: None)
def total(value):
    """The sum of the warp's values."""
    return warp(lambda lanes: [sum(v for (v,) in lanes)] * 32, value)


@device_function(lambda *types: None)
def largest(value):
    """The maximum of the warp's values."""
    return warp(lambda lanes: [max(v for (v,) in lanes)] * 32, value)


def run(kernel, *args, threads=64, seed=0, dynamic=0):
    interpreter.run(kernel, args, 1, threads, dynamic_shared=dynamic, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_lane_gets_its_result_whatever_the_order(seed):
    def kernel(out):
        t = cuda.threadIdx.x
        found = 0
        for i in range(5):
            found += total(t * i) * largest(t)
        out[t] = found

    out = np.zeros(64, np.int64)
    run(kernel, out, seed=seed)
    sums = np.arange(64).reshape(2, 32).sum(axis=1) * np.array([31, 63]) * 10
    assert (out.reshape(2, 32) == sums[:, None]).all()


def test_lanes_that_exited_are_named_with_those_that_wait():
    def kernel(out):
        t = cuda.threadIdx.x
        if t % 32 < 4 and t >= 32:
            return
        out[t] = total(t)

    with pytest.raises(interpreter.DivergenceError) as caught:
        run(kernel, np.zeros(64))
    text = str(caught.value)
    assert "part of warp 1: a whole warp of 32 threads must" in text
    assert "out[t] = total(t)" in text
    assert "absent: threads 32 to 35, exited" in text
    assert caught.value.kind == "divergent-collective"


@pytest.mark.parametrize("seed", SEEDS)
def test_lanes_at_another_collective_are_named(seed):
    def kernel(out):
        t = cuda.threadIdx.x
        if t < 16:
            out[t] = total(t)
        else:
            out[t] = largest(t)

    with pytest.raises(interpreter.DivergenceError, match="part of warp 0") as caught:
        run(kernel, np.zeros(64), seed=seed)
    assert "total(t)" in str(caught.value)
    assert "largest(t)" in str(caught.value)


def test_one_instruction_at_two_places_is_two():
    def kernel(out):
        t = cuda.threadIdx.x
        if t < 16:
            out[t] = total(t)
        else:
            out[t] = total(t)

    with pytest.raises(interpreter.DivergenceError):
        run(kernel, np.zeros(64))


@cuda.jit(device=True)
def elected():
    return elect_one()


@pytest.mark.parametrize("seed", SEEDS)
def test_two_calls_of_a_device_function_are_two_places(seed):
    def kernel(out):
        t = cuda.threadIdx.x
        if t < 16:
            out[t] = elected()
        else:
            out[t] = 1 - elected()

    with pytest.raises(interpreter.DivergenceError, match="part of warp 0") as caught:
        run(kernel, np.zeros(32), threads=32, seed=seed)
    text = str(caught.value)
    assert "return elect_one(), called at" in text
    assert f"called at {__file__}:{kernel.__code__.co_firstlineno + 3}: out[t] = elected()" in text
    assert "out[t] = 1 - elected()" in text


def test_one_call_of_a_device_function_is_one_place_however_often_it_is_reached():
    def kernel(out):
        t = cuda.threadIdx.x
        for _ in range(3):
            out[t] += elected()

    out = np.zeros(32, np.int64)
    run(kernel, out, threads=32)
    assert out.sum() == 3


def test_lanes_at_a_barrier_are_named():
    def kernel(out):
        t = cuda.threadIdx.x
        if t < 31:
            out[t] = total(t)
        cuda.syncthreads()

    with pytest.raises(interpreter.DivergenceError, match=r"absent: thread 31, at .*cuda\.syncthreads\(\)"):
        run(kernel, np.zeros(64))


def test_lanes_that_a_deadlock_keeps_away_are_not_blamed():
    shared = SharedLayout(never=barriers())

    def kernel(out):
        smem = shared.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.never, 1)
            mbarrier.wait(smem.never, 0)
        total(1)

    with pytest.raises(interpreter.DeadlockError, match="barrier never, phase 0") as caught:
        run(kernel, np.zeros(64), threads=32, dynamic=shared.nbytes)
    assert "for the rest of warp 0: 1 of 32 threads missing" in str(caught.value)


def test_a_warp_group_must_be_whole():
    def kernel():
        if cuda.threadIdx.x < 96:
            wgmma.fence()

    with pytest.raises(
        interpreter.DivergenceError, match=r"wgmma\.fence is executed by part of warp group 0"
    ) as caught:
        run(kernel, threads=128)
    assert "absent: warp 3, 32 threads, exited" in str(caught.value)
    with pytest.raises(interpreter.DivergenceError, match="the block has only 64 threads there"):
        run(kernel, threads=64)


@pytest.mark.parametrize("seed", SEEDS)
def test_syncwarp_orders_the_lanes_of_its_mask(seed):
    def kernel(out):
        slots = cuda.shared.array(32, np.int32)
        lane = cuda.laneid
        if lane < 8:
            slots[lane] = lane
            cuda.syncwarp(0xFF)
            out[lane] = slots[7 - lane]
        cuda.syncwarp()

    out = np.zeros(8, np.int32)
    run(kernel, out, threads=32, seed=seed)
    assert out.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


def test_a_lane_outside_the_mask_is_reported():
    def kernel():
        cuda.syncwarp(0xFFFF)

    with pytest.raises(interpreter.DivergenceError, match="mask 0xffff lacks the executing lane"):
        run(kernel, threads=32)
