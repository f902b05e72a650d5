"""What a block leaves behind at its end: bytes that nobody waits for, phases that still expect some."""

import numpy as np
import pytest
from numba import cuda, uint32

from hopper_numba import SharedLayout, TensorMap, barriers, interpreter, tile
from hopper_numba.interpreter import InterpreterError, LeftoverPhaseError, RegisterBudgetError, UnfinishedError
from hopper_numba.intrinsics import cluster, fence, mbarrier, memory, tma, warp

ROWS = SharedLayout(rows=tile("float16", (8, 64)), words=tile("uint32", (8, 32)), loaded=barriers())
MAP = TensorMap(np.ones((8, 64), np.float16), ROWS.members["rows"])
SEEDS = range(12)


def run(kernel, *args, blocks=2, seed=0, threads=32):
    interpreter.run(kernel, args, blocks, threads, dynamic_shared=ROWS.nbytes, seed=seed, cluster=blocks)


def begin(nbytes):
    """A barrier that expects bytes, in every block of the cluster."""

    @cuda.jit(device=True)
    def expect(smem):
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
            mbarrier.arrive_expect_tx(smem.loaded, nbytes)
        cluster.sync()

    return expect


EXPECTING, WITHOUT_BYTES, TOO_MANY = begin(1024), begin(0), begin(2048)


def load_that_nobody_waits_for(source):
    smem = ROWS.open()
    EXPECTING(smem)
    if cuda.threadIdx.x == 0 and cluster.rank() == 0:
        tma.load(smem.rows, source, (0, 0), smem.loaded)
        mbarrier.wait(smem.loaded, 0)
    if cuda.threadIdx.x == 0 and cluster.rank() == 1:
        tma.load(smem.rows, source, (0, 0), smem.loaded)
    cluster.sync()


def multicast_that_one_block_waits_for(source):
    smem = ROWS.open()
    EXPECTING(smem)
    if cluster.rank() == 0:
        if cuda.threadIdx.x == 0:
            tma.load(smem.rows, source, (0, 0), smem.loaded, multicast=0b11)
        mbarrier.wait(smem.loaded, 0)
    cluster.sync()


def store_that_nobody_waits_for(source):
    smem = ROWS.open()
    begin_bytes_of_a_word(smem)
    peer = cluster.map_shared(smem, 1 - cluster.rank())
    if cuda.threadIdx.x == 0:
        cluster.st_async_b32(peer.words.address(0, 0), 7, peer.loaded)
    cluster.sync()


begin_bytes_of_a_word = begin(4)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "kernel", [load_that_nobody_waits_for, multicast_that_one_block_waits_for, store_that_nobody_waits_for]
)
def test_bytes_that_nobody_waits_for(kernel, seed):
    with pytest.raises(UnfinishedError) as caught:
        run(kernel, MAP, seed=seed)
    assert caught.value.kind == "unfinished-at-exit"
    assert "ended" in str(caught.value) and "loaded" in str(caught.value)


def bytes_that_never_come(source):
    TOO_MANY(ROWS.open())
    cluster.sync()


def bytes_that_a_peer_does_not_expect(source):
    smem = ROWS.open()
    if cluster.rank() == 0:
        EXPECTING(smem)
    else:
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
        cluster.sync()
    if cluster.rank() == 0:
        if cuda.threadIdx.x == 0:
            tma.load(smem.rows, source, (0, 0), smem.loaded, multicast=0b11)
        mbarrier.wait(smem.loaded, 0)
    cluster.sync()


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_that_never_come(seed):
    with pytest.raises(LeftoverPhaseError, match=r"barrier loaded.*, phase 0, has 0 of 2048 bytes that it expects"):
        run(bytes_that_never_come, MAP, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_that_nobody_expects(seed):
    with pytest.raises(InterpreterError) as caught:
        run(bytes_that_a_peer_does_not_expect, MAP, seed=seed)
    assert caught.value.kind in ("leftover-phase", "unfinished-at-exit")


WORDS = tile("uint32", (32,), None)


def arrays_that_one_block_declares_more_of(out):
    t, rank = cuda.threadIdx.x, cluster.rank()
    if rank == 1:
        pad = cuda.shared.array(32, uint32, alignment=128)
        pad[t] = 1
    array = cuda.shared.array(32, uint32, alignment=128)
    array[t] = t + 1000 * rank
    cluster.sync()
    if rank == 0:
        out[t] = memory_of_the_other(array, t)
    cluster.sync()


@cuda.jit(device=True)
def memory_of_the_other(array, t):
    return cluster.ld_shared_b32(cluster.map_shared(memory.view(array, WORDS), 1).address(t))


@pytest.mark.parametrize("seed", range(4))
def test_a_static_array_lies_at_the_same_place_in_every_block(seed):
    out = np.zeros(32, np.uint32)
    run(arrays_that_one_block_declares_more_of, out, seed=seed)
    assert out.tolist() == list(range(1000, 1032))


def asks(consumers, producer_gives_back):
    def kernel():
        if warp.warp_group_index() == 0:
            if producer_gives_back:
                warp.setmaxnreg_dec(40)
        else:
            warp.setmaxnreg_inc(consumers)

    return kernel


@pytest.mark.parametrize(
    ("consumers", "gives_back", "message"),
    [
        (240, True, r"40 x 128 \+ 240 x 128 \+ 240 x 128 = 66560 > 168 x 384 = 64512"),
        (232, False, r"168 x 128 \+ 232 x 128 \+ 232 x 128 = 80896 > 168 x 384 = 64512"),
    ],
)
def test_more_registers_than_the_block_can_have(consumers, gives_back, message):
    with pytest.raises(RegisterBudgetError, match=message) as caught:
        interpreter.run(asks(consumers, gives_back), (), 1, 384)
    assert caught.value.kind == "register-budget" and caught.value.line
    interpreter.run(asks(232, True), (), 1, 384)
