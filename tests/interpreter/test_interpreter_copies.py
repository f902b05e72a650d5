"""TMA in the interpreter: which bytes go where, and when."""

import functools
import math

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, uint8

from hopper_numba import interpreter
from hopper_numba.intrinsics import fence, mbarrier, memory, tma
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

    for wait, expected in ((1, 0), (0, 1.0586)):
        written[:] = -1
        seen = np.zeros(1, np.float16)
        run(kernel, TensorMap(written, SHARED.members["tile"]), seen, wait)
        assert seen[0] == -1
        assert (written == np.float16(expected)).all()


def test_only_the_older_groups_are_waited_for():
    out = np.zeros((16, 64), np.float16)

    def kernel(c, seen):
        smem = SHARED.open()
        raw = cuda.shared.array(0, uint8)
        for i in range(smem.tile.nbytes):
            raw[i] = 0x3C
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
        mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes + 16)
        tma.load(smem.tile, a, (0, 0), smem.loaded)
        mbarrier.wait(smem.loaded, 0)

    with pytest.raises(interpreter.DeadlockError, match=r"barrier loaded, phase 0 .*: 16 of 1040 bytes missing"):
        run(kernel, whole())


def test_fewer_bytes_expected_than_issued_is_a_deadlock_that_says_so():
    def kernel(a):
        smem = SHARED.open()
        mbarrier.init(smem.loaded, 1)
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
