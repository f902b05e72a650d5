"""Arrays and memory in the interpreter: what may be read and written, and how a fault is told."""

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, float32, int32, uint8, uint16

from hopper_numba import interpreter
from hopper_numba.intrinsics import matrix, memory
from hopper_numba.shared import SharedLayout, tile


def run(kernel, *args, threads=1, grid=1, dynamic=0, seed=0):
    interpreter.run(kernel, args, grid, threads, dynamic_shared=dynamic, seed=seed)


# Arguments -----------------------------------------------------------------------------------------------------------


def test_arguments_are_read_and_written_in_place_whatever_their_strides():
    def kernel(a, b, total):
        i, j = cuda.grid(2)
        if i < a.shape[0] and j < a.shape[1]:
            b[i, j] = a[i, j] * 2
        if i == 0 and j == 0:
            total[()] = a.size + 10 * a.ndim + 100 * a.strides[1] + 1000 * len(a)

    memory = np.arange(60, dtype=np.int32).reshape(6, 10)
    source, total, out = memory[::-2, 1::3], np.zeros((), np.int64), np.zeros((3, 3), np.float16).T
    run(kernel, source, out, total, grid=(2, 2), threads=(2, 2))
    assert (out == source * 2).all()
    assert total == source.size + 20 + 100 * source.strides[1] + 3000


@pytest.mark.parametrize(
    ("index", "text"), [((2, 70), r"c\[2, 70\]"), ((-5, 0), r"c\[-5, 0\]"), ((4, 0), r"c\[4, 0\]")]
)
@pytest.mark.parametrize("write", [False, True])
def test_an_index_outside_names_the_argument_the_index_and_the_shape(index, text, write):
    def kernel(c):
        if cuda.threadIdx.x == 5:
            if write:
                c[index] = 1
            else:
                c[index]

    with pytest.raises(interpreter.OutOfBoundsError, match=text + r" is outside its shape \(4, 64\)") as caught:
        run(kernel, np.zeros((4, 64), np.float32), threads=32, grid=(1, 1))
    error = caught.value
    assert (error.kind, error.block, error.thread, error.filename) == ("out-of-bounds", (0, 0, 0), 5, __file__)
    assert ("c[index] = 1" if write else "c[index]") in str(error)
    assert "in block (0, 0, 0), thread 5 (warp 0, lane 5)" in str(error)


def test_negative_indices_count_from_the_end_as_numbas_do():
    def kernel(c):
        c[-1] = c[-2] + 1

    c = np.array([1, 2, 3, 4])
    run(kernel, c)
    assert c.tolist() == [1, 2, 3, 4]


def test_integers_are_as_wide_as_numbas_and_wrap_where_they_are_stored():
    def kernel(a, out):
        out[0] = a[0] * a[0]
        out[1] = int32(a[0] * a[0])
        out[2] = uint8(-1) + uint16(70000) * 1000
        out[3] = np.int8(200)

    out = np.zeros(4, np.int64)
    run(kernel, np.array([70000], np.int32), out)
    assert out.tolist() == [70000**2, (70000**2 + 2**31) % 2**32 - 2**31, 255 + 4464 * 1000, -56]
    small = np.zeros(4, np.uint16)
    run(kernel, np.array([70000], np.int32), small)
    assert small.tolist() == [int(v) % 65536 for v in out]


def test_floats_round_where_they_are_stored_without_a_warning():
    def kernel(out):
        out[0] = float32(1) / float32(3)
        out[1] = float32(1e30)

    for dtype in (np.float16, ml_dtypes.bfloat16, np.float64):
        out = np.zeros(2, dtype)
        run(kernel, out)
        with np.errstate(all="ignore"):
            assert (out == np.array([np.float32(1) / np.float32(3), 1e30], np.float32).astype(dtype)).all()


def test_a_read_only_argument_cannot_be_written():
    def kernel(c):
        c[0] = 1

    array = np.zeros(3)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only") as caught:
        run(kernel, array)
    assert "block (0, 0, 0), thread 0" in caught.value.__notes__[0]


@pytest.mark.parametrize("view", ["whole", "rows", "columns", "reversed", "turned"])
def test_words_of_any_view_are_loaded_and_stored_where_they_lie(view):
    def kernel(a, c):
        i, j = cuda.blockIdx.x, cuda.threadIdx.x * 2
        memory.st_global_b32(memory.address_of(c, (i, j)), memory.ld_global_b32(memory.address_of(a, (i, j))))

    pick = {
        "whole": lambda x: x,
        "rows": lambda x: x[::2],
        "columns": lambda x: x[:, 8:24],
        "reversed": lambda x: x[::-1],
        "turned": lambda x: x.reshape(2, 4, 32)[1],
    }[view]
    source = pick(np.arange(256, dtype=np.float16).reshape(8, 32))
    target = pick(np.zeros((8, 32), np.float16))
    run(kernel, source, target, grid=source.shape[0], threads=source.shape[1] // 2)
    assert (target == source).all()


@pytest.mark.parametrize("indices", [(4, 0), (0, 62), (0, -1), (3, 60)])
def test_words_outside_the_shape_are_refused(indices):
    def kernel(a):
        memory.ld_global_v2_b32(memory.address_of(a, indices))

    with pytest.raises(interpreter.OutOfBoundsError, match=r"8 bytes at a\[.*outside its shape \(4, 62\)"):
        run(kernel, np.zeros((4, 128), np.float16)[:, :62])


def test_words_across_a_gap_between_rows_are_refused():
    def kernel(a):
        memory.ld_global_v4_b32(memory.address_of(a, (0, 16)))

    run(kernel, np.zeros((4, 20), np.float16))  # the next row follows
    with pytest.raises(interpreter.OutOfBoundsError, match=r"16 bytes at a\[0, 16\]"):
        run(kernel, np.zeros((4, 24), np.float16)[:, :20])


def test_a_misaligned_word_is_refused():
    def kernel(a):
        memory.ld_global_v2_b32(memory.address_of(a, (0, 2)))

    with pytest.raises(interpreter.MisalignedError, match=r"8 bytes at a\[0, 2\]: its address must be a multiple of 8"):
        run(kernel, np.zeros((4, 64), np.float16))


# Shared memory -------------------------------------------------------------------------------------------------------


def test_static_arrays_are_one_for_the_block_and_apart_from_dynamic_memory():
    def kernel(out):
        one = cuda.shared.array(32, int32)
        two = cuda.shared.array((4, 8), float32, alignment=128)
        raw = cuda.shared.array(0, uint8)
        t = cuda.threadIdx.x
        one[t] = t
        two[t // 8, t % 8] = 0.5 * t
        raw[t] = 7
        cuda.syncthreads()
        own = out[cuda.blockIdx.x]
        own[0, t], own[1, t] = one[31 - t], two[3 - t // 8, 7 - t % 8]
        if t == 0:
            own[2, 0], own[2, 1], own[2, 2] = raw.size, one.shape[0], two[3][7]

    out = np.zeros((2, 3, 32), np.float64)
    run(kernel, out, threads=32, dynamic=64, grid=2)
    for own in out:
        assert (own[0] == np.arange(31, -1, -1)).all()
        assert (own[1] == np.arange(31, -1, -1) / 2).all()
        assert own[2, :3].tolist() == [64, 32, 15.5]


def test_another_block_finds_nothing_of_the_one_before():
    def kernel(out):
        one = cuda.shared.array(1, int32)
        if cuda.blockIdx.x == 0:
            one[0] = 1
        out[0] = one[0]

    with pytest.raises(
        interpreter.UninitialisedReadError, match=r"shared.array\(1, int32\)\[0\]: nobody has written"
    ) as e:
        run(kernel, np.zeros(1), grid=2)
    assert e.value.block == (1, 0, 0)


def shared_faults():
    def uninitialised(smem, two):
        return two[1, 2]

    def outside(smem, two):
        return two[4, 0]

    def outside_written(smem, two):
        two[0, 8] = 1

    def ldmatrix_misaligned(smem, two):
        matrix.ldmatrix_x1(two[0, 1:])

    def ldmatrix_uninitialised(smem, two):
        matrix.ldmatrix_x1(smem.tile.address(0, 0))

    def stage(smem, two):
        smem.stages[2]

    return [
        (uninitialised, interpreter.UninitialisedReadError, r"\(4, 8\), float32\)\[1, 2\]: nobody has written"),
        (outside, interpreter.OutOfBoundsError, r"\[4, 0\] is outside its shape \(4, 8\)"),
        (outside_written, interpreter.OutOfBoundsError, r"\[0, 8\] is outside its shape \(4, 8\)"),
        (ldmatrix_misaligned, interpreter.MisalignedError, "must be a multiple of 16 bytes"),
        (
            ldmatrix_uninitialised,
            interpreter.UninitialisedReadError,
            "cannot read 16 bytes at 0x400: nobody has written",
        ),
        (stage, IndexError, "index 2 is outside 0 to 1"),
    ]


@pytest.mark.parametrize(("fault", "kind", "message"), shared_faults(), ids=lambda v: getattr(v, "__name__", "")[:30])
def test_a_fault_in_shared_memory(fault, kind, message):
    shared = SharedLayout(tile=tile(np.float16, (8, 64)), stages=tile(np.float16, (2, 8, 64)))
    fault = cuda.jit(device=True)(fault)

    def kernel():
        fault(shared.open(), cuda.shared.array((4, 8), float32))

    with pytest.raises(kind, match=message):
        run(kernel, threads=32, dynamic=shared.nbytes)


def test_a_launch_with_too_little_shared_memory_is_refused():
    shared = SharedLayout(tile=tile(np.float16, (8, 64)))

    def kernel():
        shared.open()

    with pytest.raises(interpreter.OutOfBoundsError, match=r"takes 1024 bytes .* the launch has 1000"):
        run(kernel, dynamic=1000)
    with pytest.raises(ValueError, match="dynamic_shared must be 0 to 232448 bytes; got 232449"):
        run(kernel, dynamic=232449)


def test_more_static_memory_than_a_block_has_is_refused():
    def kernel():
        cuda.shared.array(12289, float32)

    with pytest.raises(interpreter.OutOfBoundsError, match="static shared arrays take 49156 bytes"):
        run(kernel)


# Local arrays --------------------------------------------------------------------------------------------------------


def test_local_arrays_are_each_threads_own():
    def kernel(out):
        mine = cuda.local.array((2, 3), float32)
        for i in range(2):
            for j in range(3):
                mine[i, j] = cuda.threadIdx.x + 0.1 * j
        row = mine[1]
        row[0] = 5
        out[cuda.threadIdx.x] = mine[1, 0] * 100 + mine[0, 2] + mine.shape[1] + mine.strides[0]

    out = np.zeros(4)
    run(kernel, out, threads=4)
    assert np.allclose(out, 500 + np.arange(4, dtype=np.float32) + np.float32(0.2) + 3 + 12)


def test_a_local_element_that_was_not_written_is_reported():
    def kernel():
        mine = cuda.local.array((2, 3), int32)
        mine[0, 1] = 1
        mine[0, 2]

    with pytest.raises(interpreter.UninitialisedReadError, match=r"\[0, 2\] is read before it is written"):
        run(kernel)


def test_functions_of_one_factory_have_static_arrays_of_their_own():
    def make(value):
        @cuda.jit(device=True)
        def part(write):
            own = cuda.shared.array(4, np.int32)
            if write:
                own[cuda.threadIdx.x] = value
            return own

        return part

    first, second = make(100), make(200)

    def kernel(out):
        t = cuda.threadIdx.x
        first(True)
        second(True)
        cuda.syncthreads()
        out[t] = 1000 * first(False)[3 - t] + second(False)[3 - t]  # every call of one function gives one array

    out = np.zeros(4, np.int64)
    interpreter.run(kernel, (out,), 1, 4)
    assert (out == 100_200).all()
