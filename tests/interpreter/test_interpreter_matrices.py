"""WGMMA in the interpreter, and a whole matrix product."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, float32, float64, int32, uint32

from hopper_numba import interpreter
from hopper_numba.interpreter.matrices import Accumulator, Matrix
from hopper_numba.intrinsics import fence, mbarrier, tma, wgmma
from hopper_numba.intrinsics.tiles import as_dtype
from hopper_numba.shared import SharedLayout, barriers, tile
from hopper_numba.tensor_map import TensorMap

SEEDS = range(4)


@cuda.jit(device=True)
def store_pair(row, column, low, high, c, first_row, first_column):
    m, n = first_row + row, first_column + column
    if m < c.shape[0] and n < c.shape[1]:
        c[m, n] = low
        c[m, n + 1] = high


def matmul(dtype, block_m=128, block_n=128, block_k=64, wait=True, sync=True):
    """A kernel that multiplies (M, K) by the transpose of (N, K)."""
    shared = SharedLayout(a=tile(dtype, (block_m, block_k)), b=tile(dtype, (block_n, block_k)), loaded=barriers())
    k16 = block_k // 16

    def kernel(a, b, c, k_tiles):
        smem = shared.open()
        first_row, first_column = cuda.blockIdx.x * block_m, cuda.blockIdx.y * block_n
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
        cuda.syncthreads()
        acc0 = wgmma.zeros(float32, block_n)
        acc1 = wgmma.zeros(float32, block_n)
        for k in range(k_tiles):
            if cuda.threadIdx.x == 0:
                mbarrier.arrive_expect_tx(smem.loaded, smem.a.nbytes + smem.b.nbytes)
                tma.load(smem.a, a, (k * block_k, first_row), smem.loaded)
                tma.load(smem.b, b, (k * block_k, first_column), smem.loaded)
            if wait:
                mbarrier.wait(smem.loaded, k & 1)
            wgmma.fence()
            for i in range(k16):
                acc0 = wgmma.mma(smem.a.part(64, 16, 0, i), smem.b.part(block_n, 16, 0, i).T, acc0)
                acc1 = wgmma.mma(smem.a.part(64, 16, 1, i), smem.b.part(block_n, 16, 0, i).T, acc1)
            wgmma.commit_group()
            acc0, acc1 = wgmma.wait_group((acc0, acc1), 0)
            if sync:
                cuda.syncthreads()
        wgmma.for_each_pair(store_pair, acc0, (c, first_row, first_column))
        wgmma.for_each_pair(store_pair, acc1, (c, first_row + 64, first_column))

    return kernel, shared


def multiply(m, n, k, dtype=np.float16, seed=0, **options):
    kernel, shared = matmul(dtype, **options)
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-4, 5, (rows, k)).astype(dtype) for rows in (m, n))
    c = np.full((m, n), np.nan, np.float32)
    maps = TensorMap(a, shared.members["a"]), TensorMap(b, shared.members["b"])
    grid = -(-m // 128), -(-n // 128)
    interpreter.run(kernel, (*maps, c, -(-k // 64)), grid, 128, dynamic_shared=shared.nbytes, seed=seed)
    return c, a.astype(np.float64) @ b.T.astype(np.float64)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_product_of_small_integers_is_exact_under_every_schedule(seed):
    found, expected = multiply(192, 320, 256, seed=seed)
    assert (found == expected).all()


@pytest.mark.parametrize(("m", "n", "k"), [(8, 8, 8), (128, 128, 64), (130, 136, 72)])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
def test_edges_are_zeros_on_the_way_in_and_left_alone_on_the_way_out(m, n, k, dtype):
    found, expected = multiply(m, n, k, dtype)
    assert (found == expected).all()


def test_a_product_before_the_operands_arrived_is_reported_where_it_was_issued():
    with pytest.raises(interpreter.HazardError) as caught:
        multiply(128, 128, 64, wait=False)
    assert caught.value.kind == "read-before-arrival"
    assert "warp group 0, 128 threads" in str(caught.value)
    assert "acc0 = wgmma.mma(" in str(caught.value)


def one_product(tile_a, tile_b, view_a, view_b, n, dtype=float32, steps=1, **options):
    """A kernel of one block that multiplies two tiles `steps` times."""
    shared = SharedLayout(a=tile_a, b=tile_b, loaded=barriers())

    def kernel(a, b, c):
        smem = shared.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
            mbarrier.arrive_expect_tx(smem.loaded, smem.a.nbytes + smem.b.nbytes)
            tma.load(smem.a, a, (0, 0), smem.loaded)
            tma.load(smem.b, b, (0, 0), smem.loaded)
        cuda.syncthreads()
        mbarrier.wait(smem.loaded, 0)
        acc = wgmma.zeros(dtype, n)
        wgmma.fence()
        for _ in range(steps):
            acc = wgmma.mma(view_a(smem.a), view_b(smem.b), acc, **options)
        wgmma.commit_group()
        acc = wgmma.wait_group(acc, 0)
        for row, column, values in acc.pairs():
            low, high = unpacked(values[0]) if len(values) == 1 else values
            c[row, column] = low
            c[row, column + 1] = high

    def unpacked(value):
        return np.array([value], np.uint32).view(np.float16)

    return kernel, shared


def run_one(a, b, tile_a, tile_b, view_a, view_b, n, **options):
    kernel, shared = one_product(tile_a, tile_b, view_a, view_b, n, **options)
    c = np.full((64, n), np.nan, np.float64)
    interpreter.run(kernel, (TensorMap(a, tile_a), TensorMap(b, tile_b), c), 1, 128, dynamic_shared=shared.nbytes)
    return c


def integers(*shape):
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float16)


@pytest.mark.parametrize("swizzle", [128, 64, 32, 0])
@pytest.mark.parametrize(("a_turned", "b_turned"), list(itertools.product([False, True], repeat=2)))
def test_both_majors_of_both_operands_in_every_swizzle(swizzle, a_turned, b_turned):
    a, b = integers(64, 64), integers(64, 72)[:, :64].copy()
    square = tile(np.float16, (64, 64), swizzle)
    step = 2  # columns 32 to 47 of K
    view_a = (lambda s: s.part(16, 64, step, 0).T) if a_turned else (lambda s: s.part(64, 16, 0, step))
    view_b = (lambda s: s.part(16, 64, step, 0)) if b_turned else (lambda s: s.part(64, 16, 0, step).T)
    left, right = (a.T if a_turned else a), (b if b_turned else b.T)
    found = run_one(a, b, square, square, view_a, view_b, 64)
    assert (found == left[:, 32:48].astype(np.float64) @ right[32:48].astype(np.float64)).all()


@pytest.mark.parametrize("n", [8, 24, 256])
def test_every_row_and_column_is_held_by_one_thread(n):
    a, b = integers(64, 16), integers(n, 16)
    flat = tile(np.float16, (64, 16), 32), tile(np.float16, (n, 16), 32)
    found = run_one(a, b, *flat, lambda s: s, lambda s: s.T, n)
    assert (found == a.astype(np.float64) @ b.T.astype(np.float64)).all()


def test_a_float16_accumulator_is_rounded_by_each_instruction():
    a, b = np.zeros((64, 16), np.float16), np.zeros((8, 16), np.float16)
    a[:, :2], b[:, :2] = (64, 1), (32, 1)  # 2049 a step
    flat = tile(np.float16, (64, 16), 32), tile(np.float16, (8, 16), 32)
    found = run_one(a, b, *flat, lambda s: s, lambda s: s.T, 8, dtype=np.float16, steps=3)
    assert (found == 6144).all()  # 2048, 4096, 6144; the sum of all, rounded once, is 6148


EIGHT_BITS = [
    *itertools.product(("float8_e4m3fn", "float8_e5m2"), ("float8_e4m3fn", "float8_e5m2"), ("float32", "float16")),
    *itertools.product(("int8", "uint8"), ("int8", "uint8"), ("int32",)),
]


@pytest.mark.parametrize("swizzle", [128, 64, 32, 0])
@pytest.mark.parametrize(("a", "b", "d"), [("float32", "float32", "float32"), *EIGHT_BITS])
def test_every_pair_of_types_in_every_swizzle(a, b, d, swizzle):
    a, b = (as_dtype(name) for name in (a, b))
    k, row = 32 // a.itemsize, 128 // a.itemsize
    rng = np.random.default_rng(2)
    left = rng.integers(0 if a == np.uint8 else -7, 256 if a == np.uint8 else 8, (64, row)).astype(a)
    right = rng.integers(-128 if b == np.int8 else 0, 8, (24, row)).astype(b)
    tiles = tile(a, (64, row), swizzle), tile(b, (24, row), swizzle)
    found = run_one(left, right, *tiles, lambda s: s.part(64, k, 0, 3), lambda s: s.part(24, k, 0, 3).T, 24, dtype=d)
    assert (found == left[:, 3 * k :].astype(np.float64) @ right[:, 3 * k :].T.astype(np.float64)).all()


def test_of_float32_elements_13_bits_are_cut_off():
    a, b = np.ones((64, 8), np.float32), np.ones((8, 8), np.float32)
    a[:, 0] = np.array([0x3F803FFF], np.uint32).view(np.float32)[0]  # 1 + 2**-10 and all lower bits
    b[:, 0] = np.array([0xBF801FFF], np.uint32).view(np.float32)[0]  # -1 and all lower bits
    flat = tile(np.float32, (64, 8), 32), tile(np.float32, (8, 8), 32)
    found = run_one(a, b, *flat, lambda s: s, lambda s: s.T, 8)
    assert (found == 6 - 2**-10).all()


def test_a_sum_of_int32_wraps():
    full = Matrix(np.dtype(np.int32), 8, np.full((64, 8), 2**31 - 10, np.int32))

    def kernel(c):
        smem = tiles.open()
        raw = cuda.shared.array(0, uint32)
        for i in range(cuda.threadIdx.x, tiles.nbytes // 4, 128):
            raw[i] = 0x01010101
        fence.proxy_async_shared_cta()
        cuda.syncthreads()
        acc = wgmma.mma(smem.a, smem.b.T, Accumulator(full, cuda.threadIdx.x, in_flight=False))
        wgmma.commit_group()
        wgmma.for_each_pair(store_pair, wgmma.wait_group(acc, 0), (c, 0, 0))

    tiles = SharedLayout(a=tile(np.int8, (64, 32), 32), b=tile(np.uint8, (8, 32), 32))
    c = np.zeros((64, 8), np.int32)
    interpreter.run(kernel, (c,), 1, 128, dynamic_shared=tiles.nbytes)
    assert (c == -(2**31) + 22).all()


@pytest.mark.parametrize(
    ("negate", "sign"), [((False, False), 1), ((True, False), -1), ((False, True), -1), ((True, True), 1)]
)
def test_operands_are_negated(negate, sign):
    a, b = integers(64, 16), integers(8, 16)
    flat = tile(np.float16, (64, 16), 32), tile(np.float16, (8, 16), 32)
    options = dict(zip(("negate_a", "negate_b"), negate, strict=True))
    found = run_one(a, b, *flat, lambda s: s, lambda s: s.T, 8, **options)
    assert (found == sign * (a.astype(np.float64) @ b.T.astype(np.float64))).all()


def test_a_false_scale_d_leaves_the_product_alone():
    a, b = integers(64, 16), integers(8, 16)
    flat = tile(np.float16, (64, 16), 32), tile(np.float16, (8, 16), 32)
    found = run_one(a, b, *flat, lambda s: s, lambda s: s.T, 8, steps=3, scale_d=np.bool_(False))
    assert (found == a.astype(np.float64) @ b.T.astype(np.float64)).all()


def test_operands_that_no_instruction_has_are_refused():
    flat = tile(np.float16, (64, 16), 32), tile(np.float16, (8, 16), 32)
    with pytest.raises(TypeError, match=r"wgmma\.mma: multiplies 64 x 16 by 16 x 16 into 64 x 16; got .* by \(16, 8\)"):
        run_one(integers(64, 16), integers(8, 16), *flat, lambda s: s, lambda s: s.T, 16)
    flat = tile(np.int16, (64, 16), 32), tile(np.int16, (8, 16), 32)
    with pytest.raises(TypeError, match=r"wgmma\.mma: a and b must be of one kind \(.*; got int16 and int16"):
        run_one(np.zeros((64, 16), "i2"), np.zeros((8, 16), "i2"), *flat, lambda s: s, lambda s: s.T, 8)
    tall = tile(np.int8, (64, 32), 32), tile(np.int8, (32, 64), 32)
    with pytest.raises(TypeError, match=r"wgmma\.mma: b must be K-major, a transposed view: only elements of 16 bits"):
        run_one(np.zeros((64, 32), "i1"), np.zeros((32, 64), "i1"), *tall, lambda s: s, lambda s: s, 64, dtype=int32)
    flat = tile(np.int8, (64, 32), 32), tile(np.int8, (8, 32), 32)
    zeros = np.zeros((64, 32), "i1"), np.zeros((8, 32), "i1")
    for options, message in (
        ({"negate_b": True}, "negate_b must be False: integers are not negated; got True"),
        ({"negate_a": 1}, "negate_a must be a compile-time bool; got 1"),
        ({"scale_d": 1}, "scale_d must be a bool; got 1"),
    ):
        with pytest.raises(TypeError, match=f"wgmma.mma: {message}"):
            run_one(*zeros, *flat, lambda s: s, lambda s: s.T, 8, dtype=int32, **options)


@pytest.mark.parametrize(
    ("dtype", "n", "message"),
    [
        (uint32, 64, "dtype must be float32, float16 or int32; got uint32"),
        (float64, 64, "dtype must be float32, float16 or int32; got float64"),
        ("float64", 64, "dtype must be float32, float16 or int32; got float64"),
        (float32, 12, "n must be 8 to 256 in steps of 8; got 12"),
        (int32, 40, "n must be 8, 16, 24 or 32 to 256 in steps of 16 for int32; got 40"),
    ],
)
def test_accumulators_that_no_instruction_has_are_refused(dtype, n, message):
    def kernel():
        wgmma.zeros(dtype, n)

    with pytest.raises(TypeError, match=f"wgmma.zeros: {message}") as caught:
        interpreter.run(kernel, (), 1, 128)
    assert "wgmma.zeros(dtype, n)" in caught.value.__notes__[0]


def test_arguments_of_a_function_over_pairs_are_a_tuple():
    def kernel(c):
        wgmma.for_each_pair(store_pair, wgmma.zeros(float32, 8), c)

    with pytest.raises(TypeError, match=r"wgmma\.for_each_pair: args must be a tuple; got <c: float32"):
        interpreter.run(kernel, (np.zeros((64, 8), np.float32),), 1, 128)


# In flight -----------------------------------------------------------------------------------------------------------

SHARED = SharedLayout(a=tile(np.float16, (64, 16), 32), b=tile(np.float16, (8, 16), 32))


def fill(value):
    """Every thread writes its part of both tiles: ones, in any order of the elements."""
    raw = cuda.shared.array(0, np.float16)
    for i in range(cuda.threadIdx.x, SHARED.nbytes // 2, 128):
        raw[i] = value
    fence.proxy_async_shared_cta()
    cuda.syncthreads()


fill = cuda.jit(device=True)(fill)


@cuda.jit(device=True)
def zeros():
    """An accumulator whose registers a product may take."""
    acc = wgmma.zeros(float32, 8)
    wgmma.fence()
    return acc


def run(kernel, *args, seed=0):
    interpreter.run(kernel, args, 1, 128, dynamic_shared=SHARED.nbytes, seed=seed)


def test_an_accumulator_in_flight_cannot_be_read():
    def kernel(c):
        smem = SHARED.open()
        fill(1)
        acc = wgmma.mma(smem.a, smem.b.T, zeros())
        wgmma.commit_group()
        wgmma.wait_group(acc, 0)
        for row, column, values in acc.pairs():
            c[row, column] = values[0]

    with pytest.raises(interpreter.AccumulatorInFlightError, match="wait_group") as caught:
        run(kernel, np.zeros((64, 8), np.float32))
    assert "for row, column, values in acc.pairs():" in str(caught.value)
    assert "begun at" in str(caught.value)


def test_a_wait_that_allows_a_group_leaves_it_in_flight_and_does_the_older_ones():
    def kernel(c):
        smem = SHARED.open()
        fill(1)
        first = wgmma.mma(smem.a, smem.b.T, zeros())
        wgmma.commit_group()
        second = wgmma.mma(smem.a, smem.b.T, zeros())
        wgmma.commit_group()
        first, second = wgmma.wait_group((first, second), 1)
        fill(2)  # the second one reads its operands late
        first, second = wgmma.wait_group((first, second), 0)
        wgmma.for_each_pair(store_pair, first, (c, 0, 0))
        wgmma.for_each_pair(store_pair, second, (c, 64, 0))

    c = np.zeros((128, 8), np.float32)
    with interpreter.interpret(collect=True) as found:
        run(kernel, c)
    assert (c[:64] == 16).all()
    assert (c[64:] == 64).all()
    assert {hazard.kind for hazard in found.hazards} == {"overwrite-while-read"}


def test_an_accumulator_is_a_value():
    def kernel(c):
        smem = SHARED.open()
        fill(1)
        start = zeros()
        once = wgmma.mma(smem.a, smem.b.T, start)
        twice = wgmma.mma(smem.a, smem.b.T, once)
        wgmma.commit_group()
        once, twice = wgmma.wait_group((once, twice), 0)
        wgmma.for_each_pair(store_pair, once, (c, 0, 0))
        wgmma.for_each_pair(store_pair, twice, (c, 64, 0))

    c = np.zeros((128, 8), np.float32)
    run(kernel, c)
    assert (c[:64] == 16).all()
    assert (c[64:] == 32).all()


def test_a_wait_without_a_commit_is_reported():
    def kernel():
        smem = SHARED.open()
        fill(1)
        acc = wgmma.mma(smem.a, smem.b.T, zeros())
        wgmma.wait_group(acc, 0)

    with pytest.raises(interpreter.UnfinishedError, match=r"not closed with wgmma\.commit_group"):
        run(kernel)


@pytest.mark.parametrize("commit", [False, True])
def test_a_block_that_ends_with_a_product_in_flight_is_reported(commit):
    def kernel():
        smem = SHARED.open()
        fill(1)
        wgmma.mma(smem.a, smem.b.T, zeros())
        if commit:
            wgmma.commit_group()

    with pytest.raises(interpreter.UnfinishedError, match=r"ended with 1 wgmma\.mma of warp group 0 in flight"):
        run(kernel)


def test_a_product_whose_result_is_dropped_is_reported():
    def kernel(c):
        smem = SHARED.open()
        fill(1)
        acc = zeros()
        wgmma.mma(smem.a, smem.b.T, acc)
        acc = wgmma.mma(smem.a, smem.b.T, acc)
        wgmma.commit_group()
        acc = wgmma.wait_group(acc, 0)
        wgmma.for_each_pair(store_pair, acc, (c, 0, 0))

    with pytest.raises(interpreter.UnfinishedError, match=r"given neither to wgmma\.wait_group") as caught:
        run(kernel, np.zeros((64, 8), np.float32))
    assert caught.value.line == kernel.__code__.co_firstlineno + 4
    assert "warp group 0, 128 threads" in str(caught.value)


def test_operands_that_nobody_wrote_are_reported():
    def kernel():
        smem = SHARED.open()
        acc = wgmma.mma(smem.a, smem.b.T, zeros())
        wgmma.commit_group()
        wgmma.wait_group(acc, 0)

    with pytest.raises(interpreter.UninitialisedReadError, match=r"tile\(float16.* by wgmma\.mma: nobody has written"):
        run(kernel)


def test_threads_that_name_different_tiles_are_reported():
    def kernel():
        smem = two.open()
        acc = wgmma.mma(smem.a[cuda.threadIdx.x // 64], smem.b.T, zeros())
        wgmma.commit_group()
        wgmma.wait_group(acc, 0)

    two = SharedLayout(a=tile(np.float16, (2, 64, 16), 32), b=tile(np.float16, (8, 16), 32))
    with pytest.raises(interpreter.DivergenceError, match="name different tiles"):
        interpreter.run(kernel, (), 1, 128, dynamic_shared=two.nbytes)


def test_threads_that_differ_in_scale_d_are_reported():
    def kernel():
        smem = SHARED.open()
        acc = wgmma.mma(smem.a, smem.b.T, zeros(), cuda.threadIdx.x > 0)
        wgmma.commit_group()
        wgmma.wait_group(acc, 0)

    with pytest.raises(interpreter.DivergenceError, match="or differ in scale_d"):
        run(kernel)


def test_a_false_scale_d_takes_an_accumulator_whatever_it_holds():
    def kernel(c):
        smem = SHARED.open()
        fill(1)
        acc = Accumulator(unknown, cuda.threadIdx.x, in_flight=True)
        acc = wgmma.mma(smem.a, smem.b.T, acc, False)
        wgmma.commit_group()
        wgmma.for_each_pair(store_pair, wgmma.wait_group(acc, 0), (c, 0, 0))

    unknown = Matrix(np.dtype(np.float32), 8, None)
    c = np.zeros((64, 8), np.float32)
    run(kernel, c)
    assert (c == 16).all()


# A in registers ------------------------------------------------------------------------------------------------------


def held(thread, register, itemsize):
    """Row and columns of the elements that a register has: PTX ISA, "Register Fragments", figure by figure."""
    warp, group, place = thread // 32, thread % 32 // 4, thread % 4
    row = 16 * warp + group + (8 if register in (1, 3) else 0)
    if itemsize == 4:
        return row, [place + (4 if register >= 2 else 0)]
    if itemsize == 2:
        return row, [2 * place + (8 if register >= 2 else 0) + i for i in range(2)]
    return row, [4 * place + (16 if register >= 2 else 0) + i for i in range(4)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2", "int8", "uint8"])
def test_a_fragment_holds_what_the_manual_says(dtype):
    kind, sums = as_dtype(dtype), int32 if "int" in dtype else float32
    k = 32 // kind.itemsize
    a = (np.arange(64 * k) % 13).reshape(64, k).astype(kind)
    one = np.ones(1, kind).view(f"u{kind.itemsize}").item()
    identity = SharedLayout(b=tile(dtype, (k, k), 32))

    def registers(thread):
        found = []
        for register in range(4):
            row, columns = held(thread, register, kind.itemsize)
            found.append(int(np.ascontiguousarray(a[row, columns]).view(np.uint32)[0]))
        return tuple(found)

    def kernel(c):
        smem = identity.open()
        t = cuda.threadIdx.x
        raw = cuda.shared.array(0, words)
        if t == 0:
            for i in range(k * k):
                raw[i] = 0
            for i in range(k):
                raw[smem.b.address(i, i).base // kind.itemsize - smem.b.base // kind.itemsize] = one
            fence.proxy_async_shared_cta()
        cuda.syncthreads()
        left = wgmma.fragment(dtype, registers(t))
        acc = wgmma.zeros(sums, k)
        wgmma.fence()
        acc = wgmma.mma(left, smem.b.T, acc)
        wgmma.commit_group()
        acc, left = wgmma.wait_group((acc, left), 0)
        wgmma.for_each_pair(store_pair, acc, (c, 0, 0))

    words = {1: np.uint8, 2: np.uint16, 4: np.uint32}[kind.itemsize]
    c = np.zeros((64, k), np.float32)
    interpreter.run(kernel, (c,), 1, 128, dynamic_shared=identity.nbytes)
    assert (c == a.astype(np.float32)).all()


ONES = 0x3C003C00


def test_a_fragment_is_read_by_several_products_before_the_wait():
    def kernel(c):
        smem = SHARED.open()
        fill(1)
        a = wgmma.fragment(np.float16, (ONES, ONES, ONES, ONES))
        acc = wgmma.mma(a, smem.b.T, zeros())
        wgmma.commit_group()
        acc = wgmma.mma(a, smem.b.T, acc)
        wgmma.commit_group()
        a, acc = wgmma.wait_group((a, acc), 1)
        a, acc = wgmma.wait_group((a, acc), 0)
        wgmma.for_each_pair(store_pair, acc, (c, 0, 0))

    c = np.zeros((64, 8), np.float32)
    run(kernel, c)
    assert (c == 32).all()


@pytest.mark.parametrize("early", [False, True])
def test_a_fragment_that_no_wait_keeps_is_reported(early):
    def kernel():
        smem = SHARED.open()
        fill(1)
        a = wgmma.fragment(np.float16, (ONES, ONES, ONES, ONES))
        acc = wgmma.mma(a, smem.b.T, zeros())
        wgmma.commit_group()
        if early:
            acc, a = wgmma.wait_group((acc, a), 1)
        acc = wgmma.wait_group(acc, 0)

    with pytest.raises(interpreter.UnfinishedError, match=r"<fragment: float16 64x16> was not given to the") as caught:
        run(kernel)
    assert caught.value.line == kernel.__code__.co_firstlineno + 4
    assert "warp group 0, 128 threads" in str(caught.value)


@pytest.mark.parametrize(
    ("dtype", "registers", "message"),
    [
        (float64, (0, 0, 0, 0), "dtype must be float16, .*, int8 or uint8; got float64"),
        ("int32", (0, 0, 0, 0), "dtype must be float16, .*, int8 or uint8; got int32"),
        (np.float16, (0, 0, 0), r"registers must be a tuple of 4 u32; got \(0, 0, 0\)"),
        (np.float16, (0, 0, 0, 1.5), r"registers must be an integer \(u32\); got 1\.5"),
    ],
)
def test_fragments_that_no_instruction_has_are_refused(dtype, registers, message):
    def kernel():
        wgmma.fragment(dtype, registers)

    with pytest.raises(TypeError, match=f"wgmma.fragment: {message}"):
        interpreter.run(kernel, (), 1, 128)
