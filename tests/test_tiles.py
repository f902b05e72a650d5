"""Tensor map x shared layout x WGMMA descriptor select the intended elements, by models written from the manuals."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from numba.cuda import types

from hopper_numba.intrinsics.tiles import SWIZZLES, as_dtype, barriers, check_box, tile
from hopper_numba.intrinsics.types import SharedView
from hopper_numba.intrinsics.wgmma import A, B, descriptor_constant

DTYPES = ("float16", "bfloat16", "float32", "int8", "float8_e4m3fn")


def swizzle(address, span):
    """CUDA C++ Programming Guide, "TMA swizzle": 16-byte chunks change places by the row they are in."""
    chunk, row = address >> 4, address >> 7
    bits = {128: 7, 64: 3, 32: 1}.get(span, 0)
    return (chunk ^ (row & bits)) << 4 | (address & 15)


def tma_write(array, description, base):
    """Shared memory as one TMA copy a panel leaves it: a dict of address to (row, column)."""
    per_panel = description.box[0]
    memory = {}
    for panel in range(description.panels):
        start = base + panel * array.shape[0] * per_panel * array.itemsize
        for row, column in itertools.product(range(array.shape[0]), range(per_panel)):
            linear = start + (row * per_panel + column) * array.itemsize
            memory[swizzle(linear, description.swizzle)] = (row, panel * per_panel + column)
    return memory


@pytest.mark.parametrize("swizzle_span", SWIZZLES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_elements_address_is_where_tma_wrote_it(dtype, swizzle_span):
    dtype = as_dtype(dtype)
    description = tile(dtype, (16, 256 // dtype.itemsize), swizzle_span)
    base = 3 * 1024
    memory = tma_write(np.zeros(description.shape, dtype), description, base)
    assert len(memory) == 16 * 256 // dtype.itemsize
    view = SharedView(description, base)
    for address, (row, column) in memory.items():
        assert view.address(row, column).base == address
        assert view.T.address(column, row).base == address


def wgmma_read(descriptor, k_major, mn, k, itemsize):
    """PTX ISA, "Matrix Descriptor Format" and "Canonical Layouts": an element's address, by the descriptor's bits."""
    start, leading, stride = ((descriptor >> bit & 0x3FFF) << 4 for bit in (0, 16, 32))
    span = {0: 16, 1: 128, 2: 64, 3: 32}[descriptor >> 62]
    if k_major:
        along = k * itemsize
        offset = mn // 8 * stride + mn % 8 * span
        offset += along // 16 * leading + along % 16 if span == 16 else along
    else:
        along = mn * itemsize
        to_panel, to_k = (stride, leading) if span == 16 else (leading, stride)
        offset = along // span * to_panel + along % span + k // 8 * to_k + k % 8 * span
    return swizzle(start + offset, span)


@pytest.mark.parametrize("swizzle_span", [128, 64, 32, 0])
@pytest.mark.parametrize(
    ("dtype", "k_major"), [("float16", True), ("float16", False), ("float32", True), ("int8", True)]
)
@pytest.mark.parametrize("mn", [64, 128])
def test_wgmma_reads_the_part_it_is_given(swizzle_span, dtype, k_major, mn):
    dtype = np.dtype(dtype)
    k_size, k_step = 256 // dtype.itemsize, 32 // dtype.itemsize
    rows, columns = (mn, k_size) if k_major else (k_size, mn)
    description = tile(dtype, (rows, columns), swizzle_span)
    base = 2048
    memory = tma_write(np.zeros((rows, columns), dtype), description, base)
    view = SharedView(description, base)
    for step in range(k_size // k_step):
        part = view.part(mn, k_step, 0, step) if k_major else view.part(k_step, mn, step, 0)
        descriptor = descriptor_constant(part.description, k_major) | (part.base & 0x3FFFF) >> 4
        for i, k in itertools.product(range(mn), range(k_step)):
            wanted = (i, k_step * step + k) if k_major else (k_step * step + k, i)
            assert memory[wgmma_read(descriptor, k_major, i, k, dtype.itemsize)] == wanted


def test_majors_are_told_from_the_view():
    description = tile("float16", (64, 64))
    assert A.k_major(description) and not A.k_major(description.T)
    assert B.k_major(description.T) and not B.k_major(description)


@pytest.mark.parametrize(
    ("shape", "span", "panels", "box", "nbytes", "alignment"),
    [
        ((128, 64), 128, 1, (64, 128), 16384, 1024),
        ((128, 128), 128, 2, (64, 128), 32768, 1024),
        ((128, 64), 64, 2, (32, 128), 16384, 512),
        ((128, 64), 0, 8, (8, 128), 16384, 128),
        ((128, 64), None, 1, (64, 128), 16384, 128),
        ((4, 64, 64), 128, 1, (64, 64, 4), 32768, 1024),
        ((256,), 128, 1, (256,), 512, 128),
    ],
)
def test_sizes(shape, span, panels, box, nbytes, alignment):
    description = tile(np.float16, shape, span)
    assert (description.panels, description.box, description.nbytes, description.alignment) == (
        panels,
        box,
        nbytes,
        alignment,
    )


def test_indices_pick_whole_tiles():
    view = SharedView(tile("float16", (2, 3, 8, 64)), 0)
    assert view[1].description == tile("float16", (3, 8, 64))
    assert view[1].base == 3 * 1024
    assert view[1, 2].base == 5 * 1024
    assert SharedView(barriers(4), 64)[3].base == 64 + 24


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tile("float16", (128, 60)), "row must be a multiple of 16 bytes; got 60 x float16 = 120"),
        (lambda: tile("float16", (128, 32)), "multiple of the swizzle's 128 bytes; got 64"),
        (lambda: tile("float16", (12, 64)), "multiple of 8, the height of a swizzle atom; got 12"),
        (lambda: tile("float16", (128, 64), 96), "swizzle must be one of .*; got 96"),
        (lambda: tile("float16", (128, 64.0)), "tuple of positive integers"),
        (lambda: tile("float16", ()), "tuple of positive integers"),
        (lambda: tile("float16", [128, 64]), "tuple of positive integers"),
        (lambda: tile("float8", (128, 64)), "dtype must be one of"),
        (lambda: tile(complex, (128, 64)), "dtype must be one of"),
        (lambda: tile("float16", (3, 1, 8), None), "multiple of 128 bytes; got 16"),
        (lambda: barriers(0), "positive integer; got 0"),
        (lambda: barriers(2.0), "positive integer; got 2.0"),
        (lambda: tile("float16", (128, 64)).part(48, 16), "do not divide"),
        (lambda: tile("float16", (128, 64)).part(4, 16), "whole swizzle atoms of 8 rows; got 4"),
        (lambda: tile("float16", (128, 64)).part(64, 4), "multiple of 16 bytes wide"),
        (lambda: tile("float16", (128, 384)).part(64, 96), "multiple of, the panel of 64 columns; got 96"),
        (lambda: tile("float16", (2, 128, 64)).part(64, 16), "pick one tile"),
        (lambda: tile("float16", (2, 128, 64)).T, "two dimensions"),
        (lambda: tile("float16", (128, 64)).part(64, 16)[0].nbytes, "no size of its own"),
        (lambda: SharedView(tile("float16", (128, 64)), 0)[0], "takes 0 indices"),
        (lambda: SharedView(barriers(), 0)[0], "cannot be indexed"),
        (lambda: view_of((64, 64)).part((64, 16), (0, 1)), r"part\(rows, columns, i, j\) takes .* got part\(\(64"),
        (lambda: view_of((64, 64)).part(64, 16, 0), r"part\(rows, columns, i, j\) takes .* got part\(64, 16, 0\)"),
        (lambda: view_of((64, 64)).part(64, 16, 0, 0.5), "takes integers; got part"),
        (lambda: view_of((64, 64)).address(3), r"\.address\(row, column\) takes integers; got address\(3\)"),
        (lambda: view_of((64,)).address(3, 4), r"\.address\(column\) takes integers; got address\(3, 4\)"),
    ],
)
def test_refusals(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def view_of(shape):
    return SharedView(tile("float16", shape), 0)


def test_the_shape_of_a_transposed_view_is_reversed():
    description = tile("float16", (8, 64))
    assert description.shape == description.T.T.shape == (8, 64)
    assert description.T.shape == SharedView(description, 0).T.shape == (64, 8)
    assert description.T.stored_shape == (8, 64)
    assert description.T.part(16, 8)[0].shape == (16, 8)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (tile("float16", (64, 64)).T, "must be a whole tile as it lies in memory; got tile.*T$"),
        (tile("float16", (64, 64)).part(64, 16)[0], "must be a whole tile as it lies in memory"),
        (tile("float16", (2, 1, 1, 1, 8, 64)), "must have 1 to 5 dimensions"),
        (tile("float16", (2, 8, 128)), "as wide as its swizzle where it has more than two dimensions"),
        (tile("float16", (264, 64)), r"at most 256 elements along a dimension; got \(64, 264\)"),
    ],
    ids=str,
)
def test_tiles_that_tma_does_not_copy(description, message):
    with pytest.raises(ValueError, match=message):
        check_box(description)
    check_box(tile("float16", (256, 128)))


def test_dtypes_of_all_libraries():
    assert as_dtype(np.float16) == as_dtype("float16") == as_dtype(types.float16) == as_dtype(np.dtype("f2"))
    assert as_dtype(ml_dtypes.bfloat16) == as_dtype("bfloat16") == np.dtype(ml_dtypes.bfloat16)
