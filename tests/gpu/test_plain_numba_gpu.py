"""The instructions in a plain ``cuda.jit`` kernel, on Numba's own shared arrays, on a GPU."""

import numpy as np
import pytest
from numba import cuda, float32, uint64
from numba.cuda import types

from hopper_numba import TensorMap, tile
from hopper_numba.intrinsics import fence, mbarrier, memory, tma, wgmma

pytestmark = pytest.mark.gpu

TILE = tile("float16", (64, 64))
ELEMENTS = 64 * 64


@cuda.jit(device=True)
def store(row, column, low, high, out):
    out[row, column], out[row, column + 1] = low, high


@cuda.jit
def multiply(a_map, b_map, out):
    a_memory = cuda.shared.array(ELEMENTS, types.float16, alignment=1024)
    b_memory = cuda.shared.array(ELEMENTS, types.float16, alignment=1024)
    loaded = cuda.shared.array(1, uint64)
    a, b = memory.view(a_memory, TILE), memory.view(b_memory, TILE)
    if cuda.threadIdx.x == 0:
        mbarrier.init(loaded, 1)
        fence.mbarrier_init()
        mbarrier.arrive_expect_tx(loaded, 2 * 2 * ELEMENTS)
        tma.load(a, a_map, (0, 0), loaded)
        tma.load(b, b_map, (0, 0), loaded)
    cuda.syncthreads()
    mbarrier.wait(loaded, 0)
    acc = wgmma.zeros(float32, 64)
    wgmma.fence()
    for step in range(4):
        acc = wgmma.mma(a.part(64, 16, 0, step), b.part(64, 16, 0, step).T, acc)
    wgmma.commit_group()
    wgmma.for_each_pair(store, wgmma.wait_group(acc, 0), (out,))


def test_wgmma_from_numbas_shared_arrays_by_a_descriptor_in_memory():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, (64, 64)).astype(np.float16) for _ in range(2))
    maps = [TensorMap(cuda.to_device(array), TILE).to_device() for array in (a, b)]
    out = cuda.to_device(np.full((64, 64), np.nan, np.float32))
    multiply[1, 128](*maps, out)
    np.testing.assert_array_equal(out.copy_to_host(), a.astype(np.float32) @ b.astype(np.float32).T)
