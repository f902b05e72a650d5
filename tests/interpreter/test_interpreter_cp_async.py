"""cp.async in the interpreter: when bytes arrive, for whom, and what is done too early; flags in global memory."""

import numpy as np
import pytest
from numba import cuda, uint8, uint32, uint64

from hopper_numba import interpreter
from hopper_numba.intrinsics import cp_async, mbarrier, memory
from hopper_numba.shared import SharedLayout, barriers, tile

SEEDS = range(8)
WORDS = np.arange(100, 228, dtype=np.uint32)
LAYOUT = SharedLayout(rows=tile("uint32", (8, 32)), arrived=barriers(), other=barriers())


def run(kernel, *args, threads=1, seed=0):
    interpreter.run(kernel, args, 1, threads, dynamic_shared=LAYOUT.nbytes, seed=seed)


def raised(kind, kernel, *args, threads=1, seed=0):
    with pytest.raises(kind) as caught:
        run(kernel, *args, threads=threads, seed=seed)
    return str(caught.value)


# Arrival -------------------------------------------------------------------------------------------------------------


def test_a_read_before_the_wait_is_reported():
    def kernel(words):
        row = cuda.shared.array(4, uint32)
        cp_async.copy_ca_4(row[1:], memory.address_of(words, (0,)))
        cp_async.commit_group()
        row[0] = row[1]
        cp_async.wait_group(0)

    text = raised(interpreter.ReadBeforeArrivalError, kernel, WORDS)
    assert "cannot read shared.array(4, uint32)[1]: a copy by cp.async is still to write" in text
    assert "row[0] = row[1]" in text


def test_a_write_before_the_wait_is_reported():
    def kernel(words):
        row = cuda.shared.array(4, uint32)
        cp_async.copy_ca_4(row, memory.address_of(words, (0,)))
        row[0] = 1

    assert "a copy by cp.async is still to write" in raised(interpreter.OverwriteError, kernel, WORDS)


def test_a_copy_over_one_on_its_way_is_reported():
    def kernel(words):
        row = cuda.shared.array(4, uint32, alignment=16)
        cp_async.copy_ca_4(row[3:], memory.address_of(words, (0,)))
        cp_async.copy_ca_16(row, memory.address_of(words, (0,)))

    text = raised(interpreter.OverwriteError, kernel, WORDS)
    assert "cannot write 16 bytes at 0x" in text
    assert "cp_async.copy_ca_16(row" in text


def test_a_copy_over_a_barrier_is_reported():
    def kernel(words):
        bar = cuda.shared.array(1, uint64)
        mbarrier.init(bar, 1)
        cp_async.copy_ca_8(bar, memory.address_of(words, (0,)))

    assert "are a barrier's" in raised(interpreter.BarrierError, kernel, WORDS)


def test_a_copy_arrives_early_or_late():
    """Its source may not change meanwhile: some schedules read it before, some after."""

    def kernel(source, out):
        row = cuda.shared.array(1, uint32)
        if cuda.threadIdx.x == 0:
            cp_async.copy_ca_4(row, memory.address_of(source, (0,)))
        for _ in range(64):
            cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            source[0] = 2
            cp_async.wait_all()
            out[0] = row[0]

    found = set()
    for seed in range(24):
        source, out = np.ones(1, np.uint32), np.zeros(1, np.uint32)
        with interpreter.interpret(collect=True) as under:
            run(kernel, source, out, threads=2, seed=seed)
        found.add(int(out[0]))
        assert [hazard.kind for hazard in under.hazards] == ["data-race"]
        assert "cp_async.wait_group" in under.hazards[0].advice
    assert found == {1, 2}


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_all_but_the_last_groups_are_waited_for(ahead):
    def kernel(words, out, n):
        row = cuda.shared.array(4, uint32)
        for group in range(3):
            cp_async.copy_ca_4(row[group:], memory.address_of(words, (group,)))
            cp_async.commit_group()
        cp_async.copy_ca_4(row[3:], memory.address_of(words, (3,)))
        cp_async.wait_group(ahead)
        for i in range(n):
            out[i] = row[i]
        cp_async.wait_all()

    out = np.zeros(4, np.uint32)
    run(kernel, WORDS, out, 3 - ahead)
    assert out[: 3 - ahead].tolist() == WORDS[: 3 - ahead].tolist()
    raised(interpreter.ReadBeforeArrivalError, kernel, WORDS, out, 4 - ahead)


def test_another_threads_wait_does_not_count():
    def kernel(words, out):
        row = cuda.shared.array(1, uint32)
        if cuda.threadIdx.x == 0:
            cp_async.copy_ca_4(row, memory.address_of(words, (0,)))
            cp_async.commit_group()
        cuda.syncthreads()
        if cuda.threadIdx.x == 1:
            cp_async.wait_all()
            out[0] = row[0]

    raised(interpreter.ReadBeforeArrivalError, kernel, WORDS, np.zeros(1, np.uint32), threads=2)


# The block's end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_that_nobody_waited_for_is_reported(seed):
    def kernel(words, commits):
        row = cuda.shared.array(1, uint32)
        cp_async.copy_ca_4(row, memory.address_of(words, (0,)))
        if commits:
            cp_async.commit_group()
        cuda.syncthreads()

    begin = "the block ended while this copy may still be on its way: "
    text = raised(interpreter.UnfinishedError, kernel, WORDS, 0, seed=seed)
    assert f"{begin}cp_async.commit_group and cp_async.wait_group, cp_async.wait_all" in text
    assert "cp_async.copy_ca_4(row" in text
    assert f"{begin}cp_async.wait_group, " in raised(interpreter.UnfinishedError, kernel, WORDS, 1, seed=seed)


def test_an_arrival_that_nobody_waited_for_is_reported():
    def kernel(words):
        smem = LAYOUT.open()
        mbarrier.init(smem.arrived, 1)
        cp_async.copy_ca_4(smem.rows.address(0, 0), memory.address_of(words, (0,)))
        cp_async.mbarrier_arrive_noinc(smem.arrived)

    text = raised(interpreter.UnfinishedError, kernel, WORDS)
    assert "ended before this arrival came: nobody waits for barrier arrived, phase 0" in text
    assert "cp_async.mbarrier_arrive_noinc(" in text


# Zeros, alignment, bounds --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "size"), [("copy_ca_4", 4), ("copy_ca_8", 8), ("copy_ca_16", 16), ("copy_cg_16", 16)])
def test_the_rest_is_zeros_and_nothing_behind_is_touched(name, size):
    copy = getattr(cp_async, name)

    def kernel(source, out, given):
        row = cuda.shared.array(32, uint8, alignment=16)
        for i in range(32):
            row[i] = 255
        copy(row[size:], memory.address_of(source, (size,)), given)
        cp_async.wait_all()
        for i in range(32):
            out[i] = row[i]

    source = np.arange(1, 33, dtype=np.uint8)
    for given in range(size + 1):
        out = np.zeros(32, np.uint8)
        run(kernel, source, out, given)
        wanted = np.full(32, 255)
        wanted[size : 2 * size] = 0
        wanted[size : size + given] = source[size : size + given]
        assert out.tolist() == wanted.tolist()
    with pytest.raises(TypeError, match=rf"cp_async\.{name}: source_nbytes must be 0 to {size}; got {size + 1}"):
        run(kernel, source, np.zeros(32, np.uint8), size + 1)


def test_what_is_not_read_may_lie_outside():
    def kernel(source, out, index, given):
        row = cuda.shared.array(4, uint32, alignment=16)
        cp_async.copy_ca_16(row, memory.address_of(source, (index,)), given)
        cp_async.wait_all()
        for i in range(4):
            out[i] = row[i]

    out = np.zeros(4, np.uint32)
    run(kernel, WORDS[:6], out, 4, 8)
    assert out.tolist() == [104, 105, 0, 0]
    run(kernel, WORDS[:6], out, 400, 0)
    assert out.tolist() == [0, 0, 0, 0]
    assert "cannot read 12 bytes at source[4]" in raised(interpreter.OutOfBoundsError, kernel, WORDS[:6], out, 4, 12)


def test_a_source_with_gaps_is_read_as_it_lies():
    def kernel(source, out):
        row = cuda.shared.array(4, uint32, alignment=16)
        cp_async.copy_ca_16(row, memory.address_of(source, (1, 0)))
        cp_async.wait_all()
        for i in range(4):
            out[i] = row[i]

    out = np.zeros(4, np.uint32)
    run(kernel, WORDS[:32].reshape(4, 8)[:, :4], out)
    assert out.tolist() == WORDS[8:12].tolist()
    raised(interpreter.OutOfBoundsError, kernel, WORDS[:32].reshape(4, 8)[:, :3], out)


def test_misaligned_copies_are_reported():
    def kernel(source, at, to):
        row = cuda.shared.array(8, uint32, alignment=16)
        cp_async.copy_ca_16(row[to:], memory.address_of(source, (at,)), 4)
        cp_async.wait_all()

    source = np.zeros(16, np.uint32)
    assert source.__array_interface__["data"][0] % 16 == 0
    run(kernel, source, 4, 4)
    text = raised(interpreter.MisalignedError, kernel, source, 1, 4)
    assert "at source[1]: its address must be a multiple of 16; got one that is 4 beyond" in text
    assert "must be a multiple of 16 bytes" in raised(interpreter.MisalignedError, kernel, source, 4, 2)


def test_a_destination_outside_is_reported():
    def kernel(source):
        row = cuda.shared.array(5, uint32, alignment=16)
        cp_async.copy_ca_8(row[4:], memory.address_of(source, (0,)))

    assert "is outside" in raised(interpreter.OutOfBoundsError, kernel, WORDS)


# Barriers ------------------------------------------------------------------------------------------------------------


def consume(arrive, count):
    """A kernel whose warp 0 copies, and whose thread 32 waits on a barrier and reads it all."""

    def kernel(words, out):
        smem, raw = LAYOUT.open(), cuda.shared.array(0, uint32)
        t = cuda.threadIdx.x
        if t == 0:
            mbarrier.init(smem.arrived, count)
        cuda.syncthreads()
        if t < 32:
            cp_async.copy_ca_4(smem.rows.address(0, t), memory.address_of(words, (t,)))
            cp_async.commit_group()
            cp_async.copy_ca_4(smem.rows.address(1, t), memory.address_of(words, (32 + t,)))
            arrive(smem.arrived)
        elif t == 32:
            mbarrier.wait(smem.arrived, 0)
            for i in range(32):
                out[i] = raw[i]
                out[32 + i] = raw[32 + (i ^ 4)]

    return kernel


def arrive_twice(barrier):
    cp_async.mbarrier_arrive(barrier)
    mbarrier.arrive(barrier, 1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("arrive", [cp_async.mbarrier_arrive_noinc, arrive_twice])
def test_who_waits_on_the_barrier_may_read(seed, arrive):
    out = np.zeros(64, np.uint32)
    run(consume(arrive, 32), WORDS, out, threads=64, seed=seed)
    assert out.tolist() == WORDS[:64].tolist()


def test_the_thread_does_not_wait_for_its_arrival():
    def kernel(words, out):
        smem = LAYOUT.open()
        mbarrier.init(smem.arrived, 1)
        cp_async.copy_ca_4(smem.rows.address(0, 0), memory.address_of(words, (0,)))
        cp_async.mbarrier_arrive_noinc(smem.arrived)
        out[0] = mbarrier.test_wait(smem.arrived, 0)
        mbarrier.wait(smem.arrived, 0)
        out[1] = mbarrier.test_wait(smem.arrived, 0)
        cp_async.mbarrier_arrive(smem.arrived)
        out[2] = mbarrier.test_wait(smem.arrived, 1)
        mbarrier.arrive(smem.arrived, 1)
        mbarrier.wait(smem.arrived, 1)

    found = set()
    for seed in range(32):
        out = np.full(3, 7, np.uint32)
        run(kernel, WORDS, out, seed=seed)
        found.add(tuple(out.tolist()))
    assert (0, 1, 0) in found
    assert found <= {(0, 1, 0), (1, 1, 0)}


def test_the_incrementing_arrival_keeps_the_phase_open():
    def kernel(words, out):
        smem = LAYOUT.open()
        mbarrier.init(smem.arrived, 1)
        cp_async.copy_ca_4(smem.rows.address(0, 0), memory.address_of(words, (0,)))
        cp_async.mbarrier_arrive(smem.arrived)
        mbarrier.wait(smem.arrived, 0)

    text = raised(interpreter.DeadlockError, kernel, WORDS, np.zeros(1, np.uint32))
    assert "barrier arrived, phase 0 (parity 0): 1 of 1 arrivals missing" in text


def test_an_arrival_too_many_is_reported_where_it_was_begun():
    def kernel(words):
        smem = LAYOUT.open()
        mbarrier.init(smem.arrived, 1)
        mbarrier.expect_tx(smem.arrived, 16)
        cp_async.copy_ca_4(smem.rows.address(0, 0), memory.address_of(words, (0,)))
        cp_async.mbarrier_arrive_noinc(smem.arrived)
        mbarrier.arrive(smem.arrived, 1)
        mbarrier.wait(smem.arrived, 0)

    text = raised(interpreter.PhaseOverrunError, kernel, WORDS)
    assert "barrier arrived: copies arrive in phase 0, which takes no more arrivals" in text
    assert "cp_async.mbarrier_arrive_noinc(smem.arrived)" in text


@pytest.mark.parametrize("arrive", [cp_async.mbarrier_arrive, cp_async.mbarrier_arrive_noinc])
def test_a_barrier_that_is_not_initialised_is_refused(arrive):
    def kernel():
        arrive(LAYOUT.open().arrived)

    text = raised(interpreter.PhaseOverrunError, kernel)
    assert "barrier arrived is given to copies before mbarrier.init" in text


def test_copies_that_a_barrier_told_of_need_no_wait_and_others_do():
    def kernel(words):
        smem = LAYOUT.open()
        mbarrier.init(smem.arrived, 1)
        cp_async.copy_ca_4(smem.rows.address(0, 0), memory.address_of(words, (0,)))
        cp_async.mbarrier_arrive_noinc(smem.arrived)
        cp_async.copy_ca_4(smem.rows.address(1, 0), memory.address_of(words, (1,)))
        mbarrier.wait(smem.arrived, 0)

    text = raised(interpreter.UnfinishedError, kernel, WORDS)
    assert "cp_async.copy_ca_4(smem.rows.address(1, 0)" in text


# Flags ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scope", ["gpu", "sys"])
def test_who_polls_a_flag_lets_others_set_it(seed, scope):
    load = getattr(memory, f"ld_acquire_{scope}_b32")
    add = getattr(memory, f"red_release_{scope}_add_u32")

    def kernel(flag, data, out):
        t = cuda.threadIdx.x
        if t < 32:
            while load(memory.address_of(flag, (0,))) != 32:
                pass
            out[t] = data[31 - t]
        else:
            data[t - 32] = 100 + t
            add(memory.address_of(flag, (0,)), 1)

    flag, data, out = (np.zeros(n, np.uint32) for n in (1, 32, 32))
    interpreter.run(kernel, (flag, data, out), 1, 64, seed=seed)
    assert out.tolist() == list(range(163, 131, -1))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plain_read_of_a_flag_is_reported_though_an_acquiring_one_follows(seed):
    def kernel(flag, out):
        if cuda.threadIdx.x == 0:
            out[0] = flag[0]
            out[1] = memory.ld_acquire_gpu_b32(memory.address_of(flag, (0,)))
        else:
            memory.st_release_gpu_b32(memory.address_of(flag, (0,)), 1)

    with pytest.raises(interpreter.HazardError) as caught:
        interpreter.run(kernel, (np.zeros(1, np.uint32), np.zeros(2, np.uint32)), 1, 2, seed=seed)
    assert caught.value.kind == "data-race"


def test_a_flag_that_nobody_sets_is_a_deadlock():
    def kernel(flag):
        while memory.ld_acquire_gpu_b32(memory.address_of(flag, (0,))) == 0:
            pass

    text = raised(interpreter.DeadlockError, kernel, np.zeros(1, np.uint32), seed=1)
    assert "while memory.ld_acquire_gpu_b32(" in text


def test_ordered_accesses_are_checked():
    def load(words):
        memory.ld_acquire_gpu_b64(memory.address_of(words, (1,)))

    def store(words):
        memory.st_release_gpu_b32(memory.address_of(words, (128,)), 1)

    def add(words):
        memory.red_release_sys_add_u64(memory.address_of(words, (127,)), 1)

    words = np.zeros(128, np.uint32)
    assert "cannot read 8 bytes at words[1]: its address" in raised(interpreter.MisalignedError, load, words)
    assert "cannot write 4 bytes at words[128]" in raised(interpreter.OutOfBoundsError, store, words)
    raised(interpreter.MisalignedError, add, words)
