"""WGMMA: products of two operands in shared memory."""

import itertools

import numpy as np
from numba import cuda, float32, uint32
from numba.cuda import types

from hopper_numba.intrinsics import convert, fence, matrix, wgmma
from hopper_numba.shared import SharedLayout, tile

from .cases import GIVEN, case, placed


def operands(below):
    """A and B as `fill_operands` leaves them."""
    a, b = np.zeros((64, 64)), np.zeros((64, 64))
    for t, j in itertools.product(range(128), range(4)):
        x, y = GIVEN[t + j] % below, GIVEN[2 * t + j] % below
        row, column = t // 32 * 16 + t % 32 // 4, 16 * j + t % 4 * 2
        for i, (pair_a, pair_b) in enumerate([((x, y), (y, x)), ((y, x), (x, y)), ((x, y), (y, x)), ((x, y), (y, x))]):
            place = row + 8 * (i % 2), slice(column + 8 * (i // 2), column + 8 * (i // 2) + 2)
            a[place], b[place] = pair_a, pair_b
    return a, b


def multiplied():
    a, b = operands(8)
    return placed((0, (a[:, 16:32] @ b[16:32, 0:16].T).ravel()))


def chained():
    a, b = operands(4)
    halves = (a @ b[16:32].T).astype(np.float16)
    assert (halves == a @ b[16:32].T).all()  # so that no order of summation matters
    return placed((0, (a @ b[40:48].T).ravel()), (512, halves.view(np.uint32).ravel()))


OPERANDS = SharedLayout(a=tile("float16", (64, 64)), b=tile("float16", (64, 64)))


@cuda.jit(device=True)
def store_pair(row, column, low, high, out):
    out[row * 16 + column] = uint32(low)
    out[row * 16 + column + 1] = uint32(high)


@cuda.jit(device=True)
def fill_operands(smem, given, below):
    """Both operands, of integers below a bound, by stmatrix; ready for the async proxy."""
    t = cuda.threadIdx.x
    row, column = t // 32 * 16 + t % 16, t % 32 // 16 * 8
    for j in range(4):
        x, y = float32(given[t + j] % below), float32(given[2 * t + j] % below)
        one, other = convert.pack_f16x2(x, y), convert.pack_f16x2(y, x)
        matrix.stmatrix_x4(smem.a.address(row, 16 * j + column), (one, other, one, one))
        matrix.stmatrix_x4(smem.b.address(row, 16 * j + column), (other, one, other, other))
    fence.proxy_async_shared_cta()
    cuda.syncthreads()


@case(
    "wgmma.fence",
    "wgmma.mma",
    "wgmma.commit_group",
    "wgmma.wait_group",
    shared=OPERANDS,
    sass=("WARPGROUP.ARRIVE", "HGMMA.64x16x16.F32", "WARPGROUP.DEPBAR"),
    out=multiplied,
)
def multiply(given, out):
    smem = OPERANDS.open()
    fill_operands(smem, given, 8)
    acc = wgmma.zeros(float32, 16)
    wgmma.fence()
    acc = wgmma.mma(smem.a.part(64, 16, 0, 1), smem.b.part(16, 16, 1, 0).T, acc)
    wgmma.commit_group()
    acc = wgmma.wait_group(acc, 0)
    wgmma.for_each_pair(store_pair, acc, (out,))


@cuda.jit(device=True)
def store_pair_of_8(row, column, low, high, out):
    out[row * 8 + column] = uint32(low)
    out[row * 8 + column + 1] = uint32(high)


@cuda.jit(device=True)
def store_packed(row, column, packed, out):
    out[512 + row * 8 + column // 2] = packed


@case(
    "wgmma.mma",
    "wgmma.wait_group",
    shared=OPERANDS,
    sass=("HGMMA.64x8x16.F32", "HGMMA.64x16x16.F16"),
    out=chained,
)
def chains(given, out):
    """Two chains of products in two groups, one of float16 accumulators; waited for one after the other, together."""
    smem = OPERANDS.open()
    fill_operands(smem, given, 4)
    first, second = wgmma.zeros(float32, 8), wgmma.zeros(types.float16, 16)
    wgmma.fence()
    for k in range(4):
        first = wgmma.mma(smem.a.part(64, 16, 0, k), smem.b.part(8, 16, 5, k).T, first)
    wgmma.commit_group()
    for k in range(4):
        second = wgmma.mma(smem.a.part(64, 16, 0, k), smem.b.part(16, 16, 1, k).T, second)
    wgmma.commit_group()
    first, second = wgmma.wait_group((first, second), 1)
    first, second = wgmma.wait_group((first, second), 0)
    wgmma.for_each_pair(store_pair_of_8, first, (out,))
    wgmma.for_each_pair(store_packed, second, (out,))
