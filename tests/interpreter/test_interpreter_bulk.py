"""Bulk copies of bytes in the interpreter: which go where, when, and what is refused."""

import numpy as np
import pytest
from numba import cuda, uint8, uint32

from hopper_numba import interpreter
from hopper_numba.intrinsics import bulk, cluster, fence, mbarrier, memory, tma
from hopper_numba.shared import SharedLayout, barriers, tile

SEEDS = range(6)
SHARED = SharedLayout(words=tile(np.uint32, (64,)), more=tile(np.uint32, (64,)), loaded=barriers(), other=barriers())


def run(kernel, *args, seed=0, blocks=1):
    interpreter.run(kernel, args, blocks, 1, dynamic_shared=SHARED.nbytes, seed=seed, cluster=blocks)


def words(count=256):
    return np.arange(1, count + 1, dtype=np.uint32)


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_go_in_and_out_of_arrays_with_gaps_too(seed):
    source, target = words(512).reshape(8, 64), np.zeros((8, 64), np.uint32)

    def kernel(source, target):
        smem = SHARED.open()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, 96)
        bulk.load(smem.words, memory.address_of(source, (1, 4)), 32, smem.loaded)
        bulk.load(smem.words.address(8), memory.address_of(source, (2, 0)), 64, smem.loaded)
        mbarrier.wait(smem.loaded, 0)
        bulk.store(memory.address_of(target, (3, 12)), smem.words, 64)
        bulk.store(memory.address_of(target, (4, 0)), smem.words.address(16), 32)
        tma.commit_group()
        tma.wait_group(0)

    wide_in, wide_out = np.zeros((8, 80), np.uint32), np.zeros((8, 80), np.uint32)
    wide_in[:, :64] = source
    run(kernel, source, target, seed=seed)
    run(kernel, wide_in[:, :64], wide_out[:, :64], seed=seed)
    expected = np.zeros((8, 64), np.uint32)
    expected[3, 12:20], expected[3, 20:28], expected[4, :8] = source[1, 4:12], source[2, :8], source[2, 8:16]
    assert (target == expected).all()
    assert (wide_out[:, :64] == expected).all()
    assert (wide_out[:, 64:] == 0).all()


# When ----------------------------------------------------------------------------------------------------------------


def loading(then):
    """A kernel that does `then` while a load is on its way."""

    def kernel(source, out):
        smem = SHARED.open()
        raw = cuda.shared.array(0, uint8)
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, 64)
        bulk.load(smem.words, memory.address_of(source, (0,)), 64, smem.loaded)
        then(raw, out)
        mbarrier.wait(smem.loaded, 0)

    return kernel


@cuda.jit(device=True)
def read_the_last(raw, out):
    out[0] = raw[63]


@cuda.jit(device=True)
def write_the_first(raw, out):
    raw[0] = 1


@cuda.jit(device=True)
def read_behind(raw, out):
    raw[64] = 7
    out[0] = raw[64]


@pytest.mark.parametrize(
    ("then", "error"),
    [(read_the_last, interpreter.ReadBeforeArrivalError), (write_the_first, interpreter.OverwriteError)],
)
def test_bytes_on_their_way_are_not_touched(then, error):
    with pytest.raises(error, match="is still to write"):
        run(loading(then), words(), np.zeros(4, np.uint32))


def test_bytes_beside_them_are():
    out = np.zeros(4, np.uint32)
    run(loading(read_behind), words(), out)
    assert out[0] == 7


def test_a_load_that_nobody_waits_for_is_reported():
    def kernel(source):
        smem = SHARED.open()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        bulk.load(smem.words, memory.address_of(source, (0,)), 64, smem.loaded)

    with pytest.raises(
        interpreter.UnfinishedError, match=r"before this bulk\.load arrived: nobody waits for .* loaded"
    ):
        run(kernel, words())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("commit", "missing"), [(0, r"tma\.commit_group and"), (1, r": tma\.wait_group_read")])
def test_a_store_that_nobody_waits_for_is_reported(commit, missing, seed):
    def kernel(target):
        smem = SHARED.open()
        raw = cuda.shared.array(0, uint32)
        for i in range(4):
            raw[i] = i
        fence.proxy_async_shared_cta()
        bulk.store(memory.address_of(target, (0,)), smem.words, 16)
        if commit:
            tma.commit_group()

    with pytest.raises(interpreter.UnfinishedError, match=rf"this bulk\.store may still read .*{missing}"):
        run(kernel, words(), seed=seed)


def test_bytes_are_read_late_and_stored_later_still():
    target = np.zeros(4, np.uint32)

    def kernel(target, seen):
        smem = SHARED.open()
        raw = cuda.shared.array(0, uint32)
        for i in range(4):
            raw[i] = 1
        fence.proxy_async_shared_cta()
        bulk.store(memory.address_of(target, (0,)), smem.words, 16)
        tma.commit_group()
        raw[0] = 2
        tma.wait_group_read(0)
        raw[0] = 3
        seen[0] = target[0]
        tma.wait_group(0)
        seen[1] = target[0]

    seen = np.zeros(2, np.uint32)
    with interpreter.interpret(collect=True) as found:
        run(kernel, target, seen)
    assert seen.tolist() == [0, 2]
    assert [hazard.kind for hazard in found.hazards] == ["overwrite-while-read", "data-race"]


@pytest.mark.parametrize("seed", range(4))
def test_a_load_by_a_thread_that_missed_the_barrier_is_reported(seed):
    """Another thread's load, by the same line and for the same phase, is in order."""

    def kernel(source, out):
        smem = SHARED.open()
        raw, t = cuda.shared.array(0, uint32), cuda.threadIdx.x
        if t == 0:
            mbarrier.init(smem.loaded, 2)
            fence.mbarrier_init()
        cuda.syncthreads()
        if t == 0:
            for i in range(128):
                raw[i] = 0
            fence.proxy_async_shared_cta()
        else:
            for i in range(2000):  # it comes later, by chance
                out[0] = i
        mbarrier.arrive_expect_tx(smem.loaded, 256)
        bulk.load(raw[64 * t :], memory.address_of(source, (0,)), 256, smem.loaded)
        mbarrier.wait(smem.loaded, 0)

    with pytest.raises(interpreter.HazardError) as caught:
        interpreter.run(kernel, (words(), words()), 1, 2, dynamic_shared=SHARED.nbytes, seed=seed)
    assert caught.value.kind == "data-race"
    assert caught.value.thread == 1


# What is refused -----------------------------------------------------------------------------------------------------


def copier(copy):
    """A kernel that copies 32 bytes where it is told, `copy` by name, and waits."""

    def kernel(array, index, word, nbytes):
        smem = SHARED.open()
        raw = cuda.shared.array(0, uint32)
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        if copy == "load":
            mbarrier.arrive_expect_tx(smem.loaded, nbytes)
            bulk.load(raw[word:], memory.address_of(array, (index,)), nbytes, smem.loaded)
            mbarrier.wait(smem.loaded, 0)
        elif copy == "prefetch":
            bulk.prefetch(memory.address_of(array, (index,)), nbytes)
        else:
            for i in range(64):
                raw[i] = 100 + i
            fence.proxy_async_shared_cta()
            if copy == "store":
                bulk.store(memory.address_of(array, (index,)), raw[word:], nbytes)
            else:
                bulk.reduce_max_u32(memory.address_of(array, (index,)), raw[word:], nbytes)
            tma.commit_group()
            tma.wait_group(0)

    return kernel


COPIES = ["load", "store", "reduce", "prefetch"]


@pytest.mark.parametrize("copy", COPIES)
def test_what_is_in_bounds_and_aligned_is_copied(copy):
    array = words(64)
    run(copier(copy), array, 56, 4, 32)
    expected = words(64)
    if copy in ("store", "reduce"):
        expected[56:] = np.arange(104, 112)
    assert (array == expected).all()


@pytest.mark.parametrize("copy", COPIES)
def test_an_argument_is_not_left(copy):
    with pytest.raises(interpreter.OutOfBoundsError, match=r"cannot \w+ 48 bytes at array\[56\]: outside its shape"):
        run(copier(copy), words(64), 56, 4, 48)


@pytest.mark.parametrize("copy", COPIES)
def test_addresses_in_global_memory_are_multiples_of_16_bytes(copy):
    message = r"array\[2\]: its address must be a multiple of 16; got one that is 8 beyond"
    with pytest.raises(interpreter.MisalignedError, match=message) as caught:
        run(copier(copy), words(64), 2, 4, 32)
    assert "bulk." in str(caught.value)


@pytest.mark.parametrize("copy", COPIES[:3])
def test_addresses_in_shared_memory_are_multiples_of_16_bytes(copy):
    message = r"bulk\.\w+ takes shared addresses that are multiples of 16 bytes; got 0x408"
    with pytest.raises(interpreter.MisalignedError, match=message):
        run(copier(copy), words(64), 0, 2, 32)


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("nbytes", [0, 8, 24])
def test_sizes_are_multiples_of_16_bytes(copy, nbytes):
    with pytest.raises(TypeError, match=rf"bulk\.\w+: nbytes must be 16 to \d+ in steps of 16; got {nbytes}"):
        run(copier(copy), words(64), 0, 0, nbytes)


@pytest.mark.parametrize("nbytes", [80, 160_000])
def test_shared_memory_is_not_left(nbytes):
    def kernel(source, nbytes):
        last = cuda.shared.array(16, uint32, alignment=16)
        smem = SHARED.open()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        bulk.load(last, memory.address_of(source, (0,)), nbytes, smem.loaded)

    with pytest.raises(interpreter.OutOfBoundsError, match=r"cannot write .* is outside|shared memory ends at"):
        run(kernel, np.zeros(40_000, np.uint32), nbytes)


def test_a_load_over_a_barrier_is_refused():
    with pytest.raises(interpreter.BarrierError, match="are a barrier's"):
        run(copier("load"), words(256), 0, 0, 528)


def test_a_store_of_what_nobody_wrote_is_reported():
    with pytest.raises(interpreter.UninitialisedReadError, match=r"32 bytes by bulk\.store: nobody has written 0x500"):
        run(copier("store"), words(64), 0, 64, 32)


def test_a_load_to_a_barrier_that_is_not_initialised_is_refused():
    def kernel(source):
        smem = SHARED.open()
        bulk.load(smem.words, memory.address_of(source, (0,)), 64, smem.other)

    with pytest.raises(interpreter.PhaseOverrunError, match=r"barrier other is given to bulk\.load before"):
        run(kernel, words())


# Other blocks --------------------------------------------------------------------------------------------------------


def sender(then_ends=False, waits=True):
    """Block 0 sends 16 words to block 1, which may read them at once and writes out what it reads."""

    def kernel(source, out):
        smem = SHARED.open()
        raw = cuda.shared.array(0, uint32)
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        for i in range(16):
            raw[i] = source[i]
        fence.proxy_async_shared_cta()
        cluster.sync_unaligned()
        if cluster.rank() == 0:
            other = cluster.map_shared(smem, 1)
            bulk.send(other.more, smem.words, 64, other.loaded)
        if not then_ends:
            cluster.sync_unaligned()
        if cluster.rank() == 1:
            mbarrier.arrive_expect_tx(smem.loaded, 64)
            if waits:
                mbarrier.wait(smem.loaded, 0)
            for i in range(16):
                out[i] = raw[64 + i]
        if not then_ends:
            cluster.sync_unaligned()

    return kernel


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_are_sent(seed):
    out = np.zeros(16, np.uint32)
    run(sender(), words(), out, blocks=2, seed=seed)
    assert (out == words()[:16]).all()


def test_bytes_that_were_sent_are_not_read_before_they_arrive():
    with pytest.raises(interpreter.ReadBeforeArrivalError):
        run(sender(waits=False), words(), np.zeros(16, np.uint32), blocks=2)


def test_a_block_that_ends_before_its_bytes_have_left_is_reported():
    with pytest.raises(interpreter.UnfinishedError, match=r"block \(0, 0, 0\) ended before this bulk\.send arrived"):
        run(sender(then_ends=True), words(), np.zeros(16, np.uint32), blocks=2)


def sends(what):
    """A kernel that sends 64 bytes to the other block in a way that is wrong."""

    def kernel():
        smem = SHARED.open()
        raw = cuda.shared.array(0, uint32)
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, 64)
        if what != "unwritten":
            for i in range(16):
                raw[i] = i
        fence.proxy_async_shared_cta()
        cluster.sync_unaligned()
        other = cluster.map_shared(smem, 1 - cluster.rank())
        if what == "barrier":
            bulk.send(other.more, smem.words, 64, smem.loaded)
        elif what == "misaligned":
            bulk.send(other.more.address(2), smem.words, 64, other.loaded)
        elif what == "reduced":
            bulk.send_reduce_add_u32(other.more, smem.words, 64, other.loaded)
        else:
            bulk.send(other.more, smem.words, 64, other.loaded)
        mbarrier.wait(smem.loaded, 0)
        cluster.sync_unaligned()

    return kernel


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("barrier", interpreter.BarrierError, r"barrier loaded is block \(., 0, 0\)'s; .* they must be in one block"),
        ("misaligned", interpreter.MisalignedError, r"bulk\.send takes shared addresses that are multiples of 16"),
        ("unwritten", interpreter.UninitialisedReadError, r"64 bytes by bulk\.send: nobody has written 0x400"),
        ("reduced", interpreter.UninitialisedReadError, r"64 bytes by bulk\.send_reduce_add_u32: nobody has written"),
    ],
)
def test_what_cannot_be_sent_is_reported(what, error, message):
    with pytest.raises(error, match=message):
        run(sends(what), blocks=2)


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_that_reduce_to_one_place_lose_nothing(seed):
    def kernel(out):
        smem = SHARED.open()
        raw = cuda.shared.array(0, uint32)
        rank = cluster.rank()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        for i in range(16):
            raw[i], raw[64 + i] = 10**rank, 5
        fence.proxy_async_shared_cta()
        cluster.sync_unaligned()
        first = cluster.map_shared(smem, 0)
        bulk.send_reduce_add_u32(first.more, smem.words, 64, first.loaded)
        bulk.reduce_add_u32(memory.address_of(out, (16,)), smem.words, 64)
        tma.commit_group()
        tma.wait_group(0)
        if rank == 0:
            mbarrier.arrive_expect_tx(smem.loaded, 4 * 64)
            mbarrier.wait(smem.loaded, 0)
            for i in range(16):
                out[i] = raw[64 + i]
        cluster.sync_unaligned()

    out = np.full(32, 7, np.uint32)
    run(kernel, out, blocks=4, seed=seed)
    assert (out == np.repeat([1116, 1118], 16)).all()


def test_a_multicast_to_a_block_that_the_cluster_does_not_have_is_reported():
    def kernel(source, mask):
        smem = SHARED.open()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        cluster.sync_unaligned()
        bulk.load(smem.words, memory.address_of(source, (0,)), 64, smem.loaded, mask)

    with pytest.raises(interpreter.OutOfBoundsError, match="no block of rank 2 in this cluster: it has 2"):
        run(kernel, words(), 0b110, blocks=2)
    with pytest.raises(TypeError, match=r"bulk\.load: multicast must be 1 to 65535; got 0"):
        run(kernel, words(), 0, blocks=2)
