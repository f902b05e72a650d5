"""The stages on a GPU: the interpreter's bits, whatever the shape, and the same bits every time."""

import itertools
import math
import threading

import numpy as np
import pytest
from cuda.core import Device
from numba import cuda

import hopper_numba
from hopper_numba.arrays import DeviceArray
from hopper_numba.intrinsics import fence, mbarrier, tma
from hopper_numba.kinds import view
from hopper_numba.matmul import STAGES, dtypes_of
from hopper_numba.stages.config import default

pytestmark = pytest.mark.gpu

EVERY = [(name, dtype) for name in STAGES for dtype in dtypes_of(name)]
# 1, 2 and many k-tiles; M, N, K that are no multiples of a tile, and smaller than one
SHAPES = [(64, 256, 64), (1, 8, 8), (128, 128, 128), (100, 136, 72), (136, 264, 136), (3, 264, 264), (65, 8, 1032)]


def on_gpu(array):
    """A NumPy array of any dtype on the GPU."""
    moved = cuda.to_device(array.view(np.uint8))
    return DeviceArray(view(moved).ptr, array.shape, array.strides, array.dtype, 0, owner=moved)


def to_host(array):
    return array.owner.copy_to_host().view(array.dtype).reshape(array.shape)


def integers(name, shape, dtype):
    """Two matrices of integers, products of which a stage adds without rounding; (M, K) and (N, K)."""
    m, n, k = shape
    most = 4 if STAGES[name].ACCUMULATE == "float32" else min(4, math.isqrt(2047 // k))
    rng = np.random.default_rng(0)
    return [rng.integers(-most, most + 1, (rows, k)).astype(dtype) for rows in (m, n)]


def multiply(name, a, b):
    out = on_gpu(np.full((len(a), len(b)), np.nan, a.dtype))
    getattr(hopper_numba, f"matmul_{name}")(on_gpu(a), on_gpu(b).T, out=out)
    cuda.synchronize()
    return to_host(out)


def exact(a, b):
    """The product, rounded once."""
    return (a.astype(np.float64) @ b.astype(np.float64).T).astype(a.dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize(("name", "dtype"), EVERY, ids=str)
def test_gpu_and_interpreter_agree(name, dtype, shape):
    a, b = integers(name, shape, dtype)
    with hopper_numba.interpret():
        wanted = getattr(hopper_numba, f"matmul_{name}")(a, b.T)
    np.testing.assert_array_equal(multiply(name, a, b).view(np.uint16), wanted.view(np.uint16))
    np.testing.assert_array_equal(wanted, exact(a, b))


@pytest.mark.parametrize(("name", "dtype"), EVERY, ids=str)
def test_every_number_of_tiles_along_k(name, dtype):
    """The ring not yet full, full, and into its third round; the last tile whole and not; tiles beyond M and N."""
    config = default(name)
    tile_m, tile_n, tile_k = config.tile
    for tiles, rest in itertools.product(range(2 * config.stages + 1), (8, tile_k - 8, tile_k)):
        a, b = integers(name, (2 * tile_m + 3, tile_n + 8, tiles * tile_k + rest), dtype)
        np.testing.assert_array_equal(multiply(name, a, b), exact(a, b), err_msg=f"{tiles} tiles and {rest} elements")


@pytest.mark.parametrize("name", STAGES)
def test_many_tiles_in_any_order(name):
    """More tiles than run at once, and groups of rows that are not whole."""
    a, b = integers(name, (5003, 3848, 200), np.float16)
    np.testing.assert_array_equal(multiply(name, a, b), exact(a, b))


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


def test_a_failed_first_call_leaves_no_address_behind():
    rng = np.random.default_rng(2)
    (a, b), (c, d) = ([rng.integers(-4, 5, (72, 88)).astype(np.float16) for _ in range(2)] for _ in range(2))
    with pytest.raises(ValueError, match="out must have shape"):
        hopper_numba.matmul(on_gpu(a), on_gpu(b).T, out=on_gpu(np.zeros((8, 8), np.float16)))
    out = on_gpu(np.full((72, 72), np.nan, np.float16))
    hopper_numba.matmul(on_gpu(c), on_gpu(d).T, out=out)
    cuda.synchronize()
    np.testing.assert_array_equal(to_host(out), c @ d.T)


def test_work_is_queued_on_the_stream_that_is_given():
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, (256, 512)).astype(np.float16) for _ in range(2))
    x, y, out = on_gpu(a), on_gpu(b).T, on_gpu(np.full((256, 256), np.nan, np.float16))
    cuda.synchronize()
    hopper_numba.matmul(x, y, out=out, stream=stream)
    stream.sync()
    np.testing.assert_array_equal(to_host(out), a @ b.T)


def test_two_threads_share_a_tensor_map_that_moves():
    """`replace_address` while another thread launches: each launch has one array or the other, whole."""
    shared = hopper_numba.SharedLayout(rows=hopper_numba.tile("float16", (8, 64)), loaded=hopper_numba.barriers())

    @hopper_numba.jit(threads=32, shared=shared)
    def copy(source, target):
        smem = shared.open()
        if cuda.threadIdx.x == 0:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
            mbarrier.arrive_expect_tx(smem.loaded, smem.rows.nbytes)
            tma.load(smem.rows, source, (0, 0), smem.loaded)
            mbarrier.wait(smem.loaded, 0)
            tma.store(target, (0, 0), smem.rows)
            tma.commit_group()
            tma.wait_group(0)

    arrays = [on_gpu(np.full((8, 64), value, np.float16)) for value in (1, 2)]
    source = hopper_numba.TensorMap(arrays[0], shared.members["rows"])
    target = on_gpu(np.zeros((8, 64), np.float16))
    to = hopper_numba.TensorMap(target, shared.members["rows"])
    stop = threading.Event()

    def move():
        while not stop.is_set():
            for array in arrays:
                source.replace_address(array)

    mover = threading.Thread(target=move)
    mover.start()
    try:
        for _ in range(300):
            copy[1](source, to)
            cuda.synchronize()
            assert len(np.unique(to_host(target))) == 1
    finally:
        stop.set()
        mover.join()
