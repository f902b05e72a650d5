"""TMA in the interpreter: which bytes go where, and when."""

import functools
import math

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, uint8

from hopper_numba import interpreter
from hopper_numba.intrinsics import cache, cluster, fence, mbarrier, memory, tma
from hopper_numba.shared import SharedLayout, barriers, tile
from hopper_numba.tensor_map import TensorMap

SEEDS = range(6)


def loader(description):
    """A kernel that loads a tile and gives the bytes of shared memory as they lie."""
    shared = SharedLayout(tile=description, loaded=barriers())

    def kernel(source, out, at):
        smem = shared.open()
        raw = cuda.shared.array(0, uint8)
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
            mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
            tma.load(smem.tile, source, at, smem.loaded)
        cuda.syncthreads()
        mbarrier.wait(smem.loaded, 0)
        for i in range(cuda.threadIdx.x, smem.tile.nbytes, cuda.blockDim.x):
            out[i] = raw[i]

    return kernel, shared


def load(description, source, at, seed=0):
    kernel, shared = loader(description)
    out = np.zeros(description.nbytes, np.uint8)
    interpreter.run(kernel, (TensorMap(source, description), out, at), 1, 32, dynamic_shared=shared.nbytes, seed=seed)
    return out.view(source.dtype)


def padded_box(source, at, shape):
    """The box at `at` (innermost first), zeros outside: by asking for each coordinate whether it is inside."""
    places = [np.arange(begin, begin + n) for begin, n in zip(at[::-1], shape, strict=True)]
    inside = [(p >= 0) & (p < n) for p, n in zip(places, source.shape, strict=True)]
    found = source[np.ix_(*(p.clip(0, n - 1) for p, n in zip(places, source.shape, strict=True)))]
    is_inside = functools.reduce(np.logical_and.outer, inside)
    return np.where(is_inside, found, source.dtype.type(0))


def numbers(shape, dtype=np.float16):
    """Different small integers, none of them 0."""
    return (np.arange(math.prod(shape)) % 97 + 1).reshape(shape).astype(dtype)


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.uint8], ids=["f32", "bf16", "u8"])
def test_a_box_of_every_rank_arrives_in_c_order_with_zeros_outside(rank, dtype):
    shape = (2, 3, 2, 8, 16)[5 - rank :]
    source = numbers((3, 4, 5, 12, 32)[5 - rank :], dtype)
    description = tile(dtype, shape, swizzle=None)
    for at in ((0, 0, 0, 0, 0), (16, 2, 3, 1, 1), (24, -2, 4, -1, -1), (-8, 5, -1, 3, 2), (48, 7, 8, 9, 9)):
        found = load(description, source, at[:rank])
        assert (found.reshape(shape) == padded_box(source, at[:rank], shape)).all()


def swizzled_by_the_manual(matrix, span):
    """The bytes of a panel: 16-byte chunks of a row change places by the number of the 128-byte line they are in."""
    raw = np.ascontiguousarray(matrix).view(np.uint8)
    rows = raw.shape[0]
    lines = raw.reshape(rows * span // 128, 8, 16)
    out = np.empty_like(lines)
    for line in range(len(lines)):
        for chunk in range(8):
            flip = line % {128: 8, 64: 4, 32: 2, 16: 1}[span]
            out[line, chunk ^ flip] = lines[line, chunk]
    return out.ravel()


@pytest.mark.parametrize("swizzle", [128, 64, 32, 0])
@pytest.mark.parametrize("columns", [64, 128])
def test_every_swizzle_lies_as_the_manual_draws_it_panel_by_panel(swizzle, columns):
    source = numbers((40, 160))
    description = tile(np.float16, (16, columns), swizzle)
    span = swizzle or 16
    expected = padded_box(source, (32, 8), (16, columns))
    panels = [swizzled_by_the_manual(p, span) for p in np.split(expected, columns * 2 // span, axis=1)]
    assert (load(description, source, (32, 8)).view(np.uint8) == np.concatenate(panels)).all()


@pytest.mark.parametrize("swizzle", [128, 64, 32, 0, None])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_puts_back_what_a_load_brought_and_is_clipped(swizzle, seed):
    source = numbers((24, 128))
    out = np.full((20, 100), -1, np.float16)  # the box ends 4 rows and 28 columns further
    description = tile(np.float16, (24, 128), swizzle)
    shared = SharedLayout(tile=description, loaded=barriers())

    def kernel(a, c):
        smem = shared.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
            mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
            tma.load(smem.tile, a, (0, 0), smem.loaded)
            mbarrier.wait(smem.loaded, 0)
            tma.store(c, (-4, 2), smem.tile)
            tma.commit_group()
            tma.wait_group(0)

    wide = np.full((20, 104), -1, np.float16)
    maps = (TensorMap(source, description), TensorMap(wide[:, :100], description))
    interpreter.run(kernel, maps, 1, 1, dynamic_shared=shared.nbytes, seed=seed)
    out[2:, :100] = source[:18, 4:104]
    assert (wide[:, :100] == out).all()
    assert (wide[:, 100:] == -1).all()


def test_a_tensor_with_gaps_between_rows_is_read_and_written_in_place():
    memory = numbers((16, 256))
    source = memory[:, 64:128]
    assert (load(tile(np.float16, (8, 64), None), source, (0, 4)).reshape(8, 64) == memory[4:12, 64:128]).all()


def test_a_map_of_another_tile_is_refused():
    kernel, shared = loader(tile(np.float16, (8, 64)))
    other = TensorMap(numbers((8, 64)), tile(np.float16, (8, 64), None))
    with pytest.raises(TypeError, match=r"tma\.load: tensor_map is of another tile"):
        interpreter.run(kernel, (other, np.zeros(1024, np.uint8), (0, 0)), 1, 32, dynamic_shared=shared.nbytes)
    with pytest.raises(TypeError, match=r"tma\.load: coordinates must be 2 integers, as many as .* has; got 1"):
        interpreter.run(
            kernel,
            (TensorMap(numbers((8, 64)), tile(np.float16, (8, 64))), np.zeros(1024, np.uint8), (0,)),
            1,
            32,
            dynamic_shared=shared.nbytes,
        )


# When ----------------------------------------------------------------------------------------------------------------

SHARED = SharedLayout(tile=tile(np.float16, (8, 64), None), loaded=barriers(), other=barriers())


def run(kernel, *args, threads=1, seed=0):
    interpreter.run(kernel, args, 1, threads, dynamic_shared=SHARED.nbytes, seed=seed)


def whole(dtype=np.float16):
    return TensorMap(numbers((8, 64), dtype), SHARED.members["tile"])


def test_a_read_without_the_wait_finds_nothing_yet():
    def kernel(a, out):
        smem = SHARED.open()
        raw = cuda.shared.array(0, uint8)
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
        tma.load(smem.tile, a, (0, 0), smem.loaded)
        out[0] = raw[5]
        mbarrier.wait(smem.loaded, 0)

    with pytest.raises(interpreter.ReadBeforeArrivalError, match="wait for the barrier") as caught:
        run(kernel, whole(), np.zeros(1, np.uint8))
    assert "out[0] = raw[5]" in str(caught.value)
    assert caught.value.kind == "read-before-arrival"


def test_a_write_where_a_load_is_on_its_way_is_reported():
    def kernel(a):
        smem = SHARED.open()
        raw = cuda.shared.array(0, uint8)
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
        tma.load(smem.tile, a, (0, 0), smem.loaded)
        raw[5] = 1
        mbarrier.wait(smem.loaded, 0)

    with pytest.raises(interpreter.OverwriteError, match="still to write") as caught:
        run(kernel, whole())
    assert caught.value.kind == "overwrite-in-flight"


def test_a_block_that_ends_before_its_load_arrives_is_reported_with_the_load():
    def kernel(a):
        smem = SHARED.open()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
        tma.load(smem.tile, a, (0, 0), smem.loaded)

    with pytest.raises(interpreter.UnfinishedError, match="nobody waits for barrier loaded, phase 0") as caught:
        run(kernel, whole())
    assert "tma.load(smem.tile, a, (0, 0), smem.loaded)" in str(caught.value)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("commit", "missing"), [(0, r"tma\.commit_group and"), (1, r"tma\.wait_group_read")])
def test_a_block_that_ends_while_a_store_reads_is_reported(commit, missing, seed):
    def kernel(c):
        smem = SHARED.open()
        raw = cuda.shared.array(0, uint8)
        for i in range(smem.tile.nbytes):
            raw[i] = 0
        fence.proxy_async_shared_cta()
        tma.store(c, (0, 0), smem.tile)
        if commit:
            tma.commit_group()

    with pytest.raises(interpreter.UnfinishedError, match=missing):
        run(kernel, whole(), seed=seed)


def test_a_tile_is_read_late_and_a_store_written_later_still():
    written = np.full((8, 64), -1, np.float16)

    def kernel(c, seen, wait):
        smem = SHARED.open()
        raw = cuda.shared.array(0, uint8)
        for i in range(smem.tile.nbytes):
            raw[i] = 0
        fence.proxy_async_shared_cta()
        tma.store(c, (0, 0), smem.tile)
        tma.commit_group()
        if wait:
            tma.wait_group_read(0)
        for i in range(smem.tile.nbytes):
            raw[i] = 0x3C  # 0x3C3C is 1.0586
        seen[0] = written_now()
        tma.wait_group_read(0)

    def written_now():
        return written[0, 0]

    for wait, expected, hazards in ((1, 0, []), (0, 1.0586, ["overwrite-while-read"])):
        written[:] = -1
        seen = np.zeros(1, np.float16)
        with interpreter.interpret(collect=True) as found:
            run(kernel, TensorMap(written, SHARED.members["tile"]), seen, wait)
        assert seen[0] == -1
        assert (written == np.float16(expected)).all()
        assert [hazard.kind for hazard in found.hazards] == hazards


def test_only_the_older_groups_are_waited_for():
    out = np.zeros((16, 64), np.float16)

    def kernel(c, seen):
        smem = SHARED.open()
        raw = cuda.shared.array(0, uint8)
        for i in range(smem.tile.nbytes):
            raw[i] = 0x3C
        fence.proxy_async_shared_cta()
        tma.store(c, (0, 0), smem.tile)
        tma.commit_group()
        tma.store(c, (0, 8), smem.tile)
        tma.commit_group()
        tma.wait_group(1)
        seen[0], seen[1] = peek(0), peek(8)
        tma.wait_group(0)
        seen[2] = peek(8)

    def peek(row):
        return out[row, 0]

    seen = np.zeros(3, np.float16)
    run(kernel, TensorMap(out, SHARED.members["tile"]), seen)
    assert (seen != 0).tolist() == [True, False, True]


def test_a_store_of_what_nobody_wrote_is_reported():
    def kernel(c):
        smem = SHARED.open()
        tma.store(c, (0, 0), smem.tile)
        tma.commit_group()
        tma.wait_group(0)

    with pytest.raises(interpreter.UninitialisedReadError, match=r"by tma\.store: nobody has written 0x400"):
        run(kernel, whole())


def test_more_bytes_expected_than_issued_is_a_deadlock_that_says_so():
    def kernel(a):
        smem = SHARED.open()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes + 16)
        tma.load(smem.tile, a, (0, 0), smem.loaded)
        mbarrier.wait(smem.loaded, 0)

    with pytest.raises(interpreter.DeadlockError, match=r"barrier loaded, phase 0 .*: 16 of 1040 bytes missing"):
        run(kernel, whole())


def test_fewer_bytes_expected_than_issued_is_a_deadlock_that_says_so():
    def kernel(a):
        smem = SHARED.open()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, 1000)
        tma.load(smem.tile, a, (0, 0), smem.loaded)
        mbarrier.wait(smem.loaded, 0)

    with pytest.raises(interpreter.DeadlockError, match="1024 bytes arrived where 1000 are expected"):
        run(kernel, whole())


def test_a_load_to_a_barrier_that_is_not_initialised_is_refused():
    def kernel(a):
        smem = SHARED.open()
        tma.load(smem.tile, a, (0, 0), smem.other)

    with pytest.raises(interpreter.BarrierError, match="barrier other is given to"):
        run(kernel, whole())


def test_a_load_over_a_barrier_is_refused():
    description = SHARED.members["tile"]

    def kernel(a):
        raw = cuda.shared.array(0, np.uint64)
        mbarrier.init(raw[3:], 1)
        fence.mbarrier_init()
        tma.load(memory.view(raw, description), a, (0, 0), raw[3:])

    with pytest.raises(interpreter.BarrierError, match="are a barrier's"):
        run(kernel, whole())


@pytest.mark.parametrize(("dtype", "swizzle", "alignment"), [(np.float16, None, 128), (np.float16, 128, 1024)])
def test_a_tile_that_is_not_aligned_is_refused(dtype, swizzle, alignment):
    description = tile(dtype, (8, 64), swizzle)

    def view_at(offset):
        def kernel():
            memory.view(cuda.shared.array(0, uint8)[offset:], description)

        return kernel

    interpreter.run(view_at(alignment), (), 1, 1, dynamic_shared=4096)
    message = rf"memory\.view: array must be aligned to {alignment} bytes for tile.* it lies at 0x"
    with pytest.raises(ValueError, match=message) as caught:
        interpreter.run(view_at(alignment // 2), (), 1, 1, dynamic_shared=4096)
    assert "memory.view(cuda.shared.array(0, uint8)[offset:], description)" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match=r"memory\.view: array must have 1024 bytes for tile.*; got 896"):
        run_with(lambda: memory.view(cuda.shared.array(0, uint8)[:896], description))


def run_with(kernel, *args):
    interpreter.run(kernel, args, 1, 1, dynamic_shared=4096)


def test_a_view_of_an_argument_is_refused():
    description = tile(np.float16, (8, 64))
    with pytest.raises(TypeError, match=r"memory\.view: array must be a shared array; got <a: float16"):
        run_with(lambda a: memory.view(a, description), np.zeros((8, 64), np.float16))


# To blocks of a cluster ----------------------------------------------------------------------------------------------

PAIR = SharedLayout(tile=tile(np.float16, (8, 64), None), loaded=barriers())


def run_pair(kernel, *args, seed=0, blocks=2):
    interpreter.run(kernel, args, blocks, 1, dynamic_shared=PAIR.nbytes, seed=seed, cluster=blocks)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mask", [0b01, 0b10, 0b11, 0b1010])
def test_a_multicast_reaches_the_blocks_of_the_mask_and_their_barriers(mask, seed):
    got = np.zeros((4, 512), np.float16)

    def kernel(a, got):
        smem = PAIR.open()
        raw = cuda.shared.array(0, np.float16)
        rank = cluster.rank()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        cluster.sync_unaligned()
        if rank == 3:
            tma.load(smem.tile, a, (0, 0), smem.loaded, mask)
        if mask >> rank & 1:
            mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
            mbarrier.wait(smem.loaded, 0)
            for i in range(512):
                got[rank, i] = raw[i]
        cluster.sync_unaligned()

    run_pair(kernel, whole(), got, seed=seed, blocks=4)
    for rank in range(4):
        assert (got[rank] == (numbers((512,)) if mask >> rank & 1 else 0)).all()


def test_a_multicast_to_a_block_that_the_cluster_does_not_have_is_reported():
    def kernel(a, mask):
        smem = PAIR.open()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        cluster.sync_unaligned()
        tma.load(smem.tile, a, (0, 0), smem.loaded, mask)

    with pytest.raises(interpreter.OutOfBoundsError, match="no block of rank 2 in this cluster: it has 2"):
        run_pair(kernel, whole(), 0b101)
    with pytest.raises(TypeError, match=r"tma\.load: multicast must be 1 to 65535; got 0"):
        run_pair(kernel, whole(), 0)


def test_a_multicast_to_a_barrier_that_is_not_initialised_is_reported():
    def kernel(a):
        smem = PAIR.open()
        if cluster.rank() == 0:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
        cluster.sync_unaligned()
        if cluster.rank() == 0:
            tma.load(smem.tile, a, (0, 0), smem.loaded, 0b11)
        cluster.sync_unaligned()

    with pytest.raises(interpreter.PhaseOverrunError, match=r"barrier .* is given to tma\.load before mbarrier\.init"):
        run_pair(kernel, whole())


def test_a_read_before_another_blocks_multicast_arrives_is_reported():
    def kernel(a, out):
        smem = PAIR.open()
        raw = cuda.shared.array(0, uint8)
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
        cluster.sync_unaligned()
        if cluster.rank() == 0:
            tma.load(smem.tile, a, (0, 0), smem.loaded, 0b11)
        cluster.sync_unaligned()
        if cluster.rank() == 1:
            out[0] = raw[5]
        cluster.sync_unaligned()

    with pytest.raises(interpreter.ReadBeforeArrivalError, match="wait for the barrier"):
        run_pair(kernel, whole(), np.zeros(1, np.uint8))


@pytest.mark.parametrize("far", ["tile", "barrier"])
def test_a_tile_and_a_barrier_in_different_blocks_are_refused(far):
    def kernel(a):
        smem = PAIR.open()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        cluster.sync_unaligned()
        other = cluster.map_shared(smem, 1 - cluster.rank())
        if far == "tile":
            tma.load(other.tile, a, (0, 0), smem.loaded)
        else:
            tma.load(smem.tile, a, (0, 0), other.loaded)

    with pytest.raises(interpreter.BarrierError, match="they must be in one block"):
        run_pair(kernel, whole())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_block_that_ends_before_what_another_sends_it_arrives_is_reported(seed):
    def kernel(a):
        smem = PAIR.open()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        cluster.sync_unaligned()
        if cluster.rank() == 0:
            mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
            tma.load(smem.tile, a, (0, 0), smem.loaded, 0b11)
            mbarrier.wait(smem.loaded, 0)

    message = r"block \(1, 0, 0\) ended before this tma\.load arrived|the shared memory of block \(1, 0, 0\) is gone"
    with pytest.raises((interpreter.UnfinishedError, interpreter.OutOfBoundsError), match=message):
        run_pair(kernel, whole(), seed=seed)


# Reductions and prefetches -------------------------------------------------------------------------------------------


def reducer(operation, description, commit=True):
    """A kernel whose blocks load a tile and reduce it into a tensor."""
    shared = SharedLayout(tile=description, loaded=barriers())
    reduce = getattr(tma, f"reduce_{operation}")

    def kernel(a, c, at):
        smem = shared.open()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
        tma.load(smem.tile, a, (0, 0), smem.loaded)
        mbarrier.wait(smem.loaded, 0)
        reduce(c, at, smem.tile)
        if commit:
            tma.commit_group()
            tma.wait_group(0)

    return kernel, shared.nbytes


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_that_reduce_at_once_lose_nothing_and_what_lies_outside_is_dropped(seed):
    source = numbers((8, 32), np.uint32)
    wide = np.ones((12, 40), np.uint32)
    description = tile(np.uint32, (8, 32))
    kernel, nbytes = reducer("add", description)
    maps = (TensorMap(source, description), TensorMap(wide[:, :36], description))
    interpreter.run(kernel, (*maps, (12, -2)), 4, 1, dynamic_shared=nbytes, seed=seed, cluster=4)
    expected = np.ones((12, 40), np.uint32)
    expected[:6, 12:36] += 4 * source[2:, :24]
    assert (wide == expected).all()


SIGNED = [-3, 5, -5, 2, 7, -7, 0, 1]


@pytest.mark.parametrize(
    ("operation", "dtype", "old", "expected"),
    [
        ("add", np.int32, 2**31 - 3, [2**31 - 6, -(2**31) + 2, 2**31 - 8, 2**31 - 1, -(2**31) + 4]),
        ("min", np.int32, 1, [-3, 1, -5, 1, 1]),
        ("max", np.int64, -4, [-3, 5, -4, 2, 7]),
        ("min", ml_dtypes.bfloat16, 1, [-3, 1, -5, 1, 1]),
        ("add", np.float16, 2048, [2045, 2052, 2043, 2050, 2056]),  # 2053 and 2055 rounded to even
        ("or", np.int32, -8, [-3, -3, -5, -6, -1]),
        ("inc", np.uint32, 2, [3, 3, 3, 0, 3]),
        ("dec", np.uint32, 6, [5, 5, 5, 2, 5]),
        ("dec", np.uint32, 0, [2**32 - 3, 5, 2**32 - 5, 2, 7]),
    ],
)
def test_what_reductions_make_of_an_element(operation, dtype, old, expected):
    row = 128 // np.dtype(dtype).itemsize
    values = np.tile(SIGNED, row)[: 8 * row].reshape(8, row)
    source = (values % 2**32 if dtype is np.uint32 else values).astype(dtype)
    found = np.full((8, row), old, dtype)
    description = tile(dtype, (8, row))
    kernel, nbytes = reducer(operation, description)
    maps = (TensorMap(source, description), TensorMap(found, description))
    interpreter.run(kernel, (*maps, (0, 0)), 1, 1, dynamic_shared=nbytes)
    assert [int(x) for x in found[0, :5]] == expected


def test_a_reduction_that_nobody_waits_for_is_reported():
    description = tile(np.uint32, (8, 32))
    kernel, nbytes = reducer("add", description, commit=False)
    maps = [TensorMap(numbers((8, 32), np.uint32), description) for _ in range(2)]
    message = r"block .* ended while this tma\.reduce_add may still read .*: tma\.commit_group and"
    with pytest.raises(interpreter.UnfinishedError, match=message):
        interpreter.run(kernel, (*maps, (0, 0)), 1, 1, dynamic_shared=nbytes)


def test_a_type_that_a_reduction_does_not_have_is_refused():
    description = tile(np.float16, (8, 64))
    kernel, nbytes = reducer("xor", description)
    maps = [TensorMap(numbers((8, 64)), description) for _ in range(2)]
    with pytest.raises(TypeError, match=r"tma\.reduce_xor: tile must be of uint32, int32, uint64; got tile"):
        interpreter.run(kernel, (*maps, (0, 0)), 1, 1, dynamic_shared=nbytes)


def test_a_prefetch_touches_nothing_and_checks_its_tile():
    def kernel(a):
        smem = SHARED.open()
        tma.prefetch(smem.tile, a, (-1000, 1000), cache.evict_first(0.5))

    run(kernel, whole())
    with pytest.raises(TypeError, match=r"tma\.prefetch: tensor_map is of another tile"):
        run(kernel, TensorMap(numbers((8, 64)), tile(np.float16, (8, 64))))


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.5, float("nan")])
def test_a_policy_for_a_fraction_out_of_range_is_refused(fraction):
    def kernel(fraction):
        cache.evict_last(fraction)

    with pytest.raises(TypeError, match=r"cache\.evict_last: fraction must be above 0 and at most 1; got"):
        interpreter.run(kernel, (fraction,), 1, 1)


def test_a_read_before_arrival_names_where_the_copy_began_and_its_barrier():
    def kernel(a):
        smem = SHARED.open()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
        tma.load(smem.tile, a, (0, 0), smem.loaded)
        matrix_row = memory.ld_shared_b32(smem.tile.address(0, 0))
        mbarrier.wait(smem.loaded, 0)
        return matrix_row

    with pytest.raises(interpreter.ReadBeforeArrivalError) as caught:
        run(kernel, whole())
    text = str(caught.value)
    assert "begun at" in text and "tma.load(smem.tile, a, (0, 0), smem.loaded), on barrier loaded, phase 0" in text
