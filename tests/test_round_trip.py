"""Tensor map x shared layout x WGMMA descriptor: a tile goes by TMA to shared memory, and one WGMMA reads it.

`test_tiles.py` has the same on paper; here the interpreter and the hardware do it.
"""

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, float32, int32, uint32

from hopper_numba import SharedLayout, TensorMap, barriers, interpret, jit, tile
from hopper_numba.intrinsics import fence, mbarrier, tma, wgmma
from hopper_numba.intrinsics.tiles import ELEMENT_TYPES, as_dtype
from hopper_numba.intrinsics.types import SharedView

PLACES = ["interpreter", pytest.param("gpu", marks=pytest.mark.gpu)]
STEP = 2  # which quarter of K is multiplied


def run(place, kernel, maps, outputs):
    """Launch one block; gives what it wrote to arrays that begin as NaN patterns."""
    if place == "interpreter":
        with interpret():
            kernel[1](*(TensorMap(array, tile) for array, tile in maps), *outputs)
        return outputs
    on_gpu = [(cuda.to_device(array.view(np.uint8)), array, tile) for array, tile in maps]
    maps = [TensorMap(_typed(moved, array), tile) for moved, array, tile in on_gpu]
    moved = [cuda.to_device(array) for array in outputs]
    kernel[1](*maps, *moved)
    return [array.copy_to_host() for array in moved]


def _typed(moved, array):
    """Bytes on the GPU as an array of any dtype, those that Numba does not know too."""
    from hopper_numba.arrays import DeviceArray
    from hopper_numba.kinds import view

    bytes_ = view(moved)
    return DeviceArray(bytes_.ptr, array.shape, array.strides, array.dtype, bytes_.device, owner=moved)


def dumping(shared):
    """A kernel that loads tile `a` and writes all of shared memory out."""

    @jit(threads=128, shared=shared)
    def dump(a, out):
        smem = shared.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
            mbarrier.arrive_expect_tx(smem.loaded, smem.a.nbytes)
            tma.load(smem.a, a, (0, 0), smem.loaded)
            mbarrier.wait(smem.loaded, 0)
        cuda.syncthreads()
        words = cuda.shared.array(0, uint32)
        for i in range(cuda.threadIdx.x, out.size, cuda.blockDim.x):
            out[i] = words[i]

    return dump


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("swizzle", [128, 64, 32, 0, None])
@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_tma_puts_every_element_at_its_address(dtype, swizzle, place):
    dtype = as_dtype(dtype)
    shape = (24, 256 // dtype.itemsize)
    shared = SharedLayout(a=tile(dtype, shape, swizzle), loaded=barriers())
    given = np.random.default_rng(0).integers(0, 256, (24, 256), np.uint8)
    (found,) = run(
        place, dumping(shared), [(given.view(dtype), shared.members["a"])], [np.full(24 * 64, 0x7FC00000, np.uint32)]
    )
    bytes_, view = found.view(np.uint8), SharedView(shared.members["a"], 0)
    for (row, column), element in np.ndenumerate(given.view(dtype).view(f"V{dtype.itemsize}")):
        address = view.address(row, column).base
        assert bytes(bytes_[address : address + dtype.itemsize]) == element.tobytes()


def columns_of_b(swizzle, b_k_major, n):
    """N of the whole tile B: where N lies along a panel, a panel may be wider than the part that is multiplied."""
    return n if b_k_major else max(n, max(swizzle, 16) // 2)


def multiplying(dtype, swizzle, a_k_major, b_k_major, n):
    """A kernel that multiplies 32 of the 128 bytes of K, and the last `n` columns of B, by one WGMMA."""
    columns = columns_of_b(swizzle, b_k_major, n)
    last = columns // n - 1
    k = 32 // np.dtype(dtype).itemsize
    sums = int32 if np.dtype(dtype).kind in "iu" else float32
    shared = SharedLayout(
        a=tile(dtype, (64, 4 * k), swizzle),
        b=tile(dtype, (n, 4 * k) if b_k_major else (4 * k, columns), swizzle),
        loaded=barriers(),
    )

    @cuda.jit(device=True)
    def store(row, column, low, high, out):
        out[row, column], out[row, column + 1] = low, high

    @cuda.jit(device=True)
    def a_part(smem):
        return smem.a.part(64, k, 0, STEP)

    @cuda.jit(device=True)
    def a_part_transposed(smem):
        return smem.a.T.part(64, k, 0, STEP)

    @cuda.jit(device=True)
    def b_part(smem):
        return smem.b.part(k, n, STEP, last)

    @cuda.jit(device=True)
    def b_part_transposed(smem):
        return smem.b.T.part(k, n, STEP, 0)

    a_of, b_of = a_part if a_k_major else a_part_transposed, b_part_transposed if b_k_major else b_part

    @jit(threads=128, shared=shared)
    def multiply(a, b, out):
        smem = shared.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
            mbarrier.arrive_expect_tx(smem.loaded, smem.a.nbytes + smem.b.nbytes)
            tma.load(smem.a, a, (0, 0), smem.loaded)
            tma.load(smem.b, b, (0, 0), smem.loaded)
        cuda.syncthreads()
        mbarrier.wait(smem.loaded, 0)
        acc = wgmma.zeros(sums, n)
        wgmma.fence()
        acc = wgmma.mma(a_of(smem), b_of(smem), acc)
        wgmma.commit_group()
        wgmma.for_each_pair(store, wgmma.wait_group(acc, 0), (out,))

    return multiply, shared


FORMS = [
    pytest.param(dtype, swizzle, majors, n, id=f"{np.dtype(dtype)}-{swizzle}-{majors}-{n}")
    for dtype, sizes in (
        (np.float16, (8, 24, 64, 128, 256)),
        (ml_dtypes.bfloat16, (64,)),
        *((dtype, (24, 256)) for dtype in (np.float32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)),
        *((dtype, (24, 256)) for dtype in (np.int8, np.uint8)),
    )
    for swizzle in (128, 64, 32, 0)
    for majors in (("KK", "KN", "MK", "MN") if np.dtype(dtype).itemsize == 2 else ("KK",))
    for n in sizes
    # a part of B is whole panels, or divides one
    if columns_of_b(swizzle, majors[1] == "K", n) * 2 % (swizzle or 16) == 0
    and columns_of_b(swizzle, majors[1] == "K", n) % n == 0
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("dtype", "swizzle", "majors", "n"), FORMS)
def test_wgmma_multiplies_what_was_loaded(dtype, swizzle, majors, n, place):
    a_k_major, b_k_major = majors[0] == "K", majors[1] == "K"
    kernel, shared = multiplying(dtype, swizzle, a_k_major, b_k_major, n)
    rng = np.random.default_rng(1)
    k = 32 // np.dtype(dtype).itemsize
    a = rng.integers(-8, 8, (64, 4 * k)).astype(dtype)
    b = rng.integers(-8, 8, (4 * k, columns_of_b(swizzle, b_k_major, n))).astype(dtype)
    in_memory = [(a if a_k_major else np.ascontiguousarray(a.T)), (np.ascontiguousarray(b.T) if b_k_major else b)]
    maps = [(array, shared.members[name]) for array, name in zip(in_memory, "ab", strict=True)]
    (found,) = run(place, kernel, maps, [np.full((64, n), np.nan, np.float32)])
    part = slice(k * STEP, k * STEP + k)
    np.testing.assert_array_equal(found, a[:, part].astype(np.float32) @ b[part, -n:].astype(np.float32))
