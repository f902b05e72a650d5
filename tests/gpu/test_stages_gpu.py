"""The stages on a GPU: the interpreter's bits, whatever the shape, and the same bits every time."""

import ml_dtypes
import numpy as np
import pytest
from numba import cuda

import hopper_numba
from hopper_numba.arrays import DeviceArray, view
from hopper_numba.matmul import STAGES

pytestmark = pytest.mark.gpu

# 1, 2 and many k-tiles; M, N, K that are no multiples of a tile, and smaller than one
SHAPES = [(64, 256, 64), (1, 8, 8), (128, 128, 128), (100, 136, 72), (136, 264, 136), (3, 264, 264), (65, 8, 1032)]


def on_gpu(array):
    """A NumPy array of any dtype on the GPU."""
    moved = cuda.to_device(array.view(np.uint8))
    return DeviceArray(view(moved).ptr, array.shape, array.strides, array.dtype, 0, owner=moved)


def to_host(array):
    return array.owner.copy_to_host().view(array.dtype).reshape(array.shape)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("name", STAGES)
def test_gpu_and_interpreter_agree(name, shape, dtype):
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (m, k)).astype(dtype), rng.integers(-4, 5, (n, k)).astype(dtype)
    matmul = getattr(hopper_numba, f"matmul_{name}")
    with hopper_numba.interpret():
        wanted = matmul(a, b.T)
    out = on_gpu(np.full((m, n), np.nan, dtype))
    matmul(on_gpu(a), on_gpu(b).T, out=out)
    cuda.synchronize()
    np.testing.assert_array_equal(to_host(out).view(np.uint16), wanted.view(np.uint16))
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_array_equal(wanted, exact.astype(dtype))


@pytest.mark.parametrize("name", STAGES)
def test_the_same_bits_every_time(name):
    rng = np.random.default_rng(1)
    a, b = (on_gpu(rng.standard_normal((1000, 2048)).astype(np.float16)) for _ in range(2))
    matmul = getattr(hopper_numba, f"matmul_{name}")
    results = []
    for _ in range(100):
        out = on_gpu(np.full((1000, 1000), np.nan, np.float16))
        matmul(a, b.T, out=out)
        cuda.synchronize()
        results.append(to_host(out).tobytes())
    assert len(set(results)) == 1
