"""`matmul` and its stages without a GPU: every refusal, and what the interpreter computes."""

import contextlib
import sys
import threading
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from hopper_numba import interpret, matmul, matmul_checks, matmul_v0, matmul_v1
from hopper_numba.arrays import ArrayView, DeviceArray, HostArray
from hopper_numba.device import why_no_hopper
from hopper_numba.kinds import kind_of, view
from hopper_numba.tensor_map import TensorMap

module = sys.modules["hopper_numba.matmul"]  # the package's attribute of that name is the function

FLOAT16, BFLOAT16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
RELATIVE = {FLOAT16: 2.0**-10, BFLOAT16: 2.0**-7}


def padded(shape, dtype, seed=0, offset=0, padding=0):
    """A matrix of N(0, 1) inside a larger one of NaNs, `offset` columns from its left, and the larger one."""
    rows, columns = shape
    base = np.full((rows + 2, offset + columns + padding), np.nan, dtype)
    matrix = base[1:-1, offset : offset + columns]
    matrix[...] = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return matrix, base


def normal(shape, dtype=FLOAT16, seed=0):
    return padded(shape, dtype, seed)[0].copy()


def assert_product(c, a, b):
    reference = a.astype(np.float64) @ b.astype(np.float64)
    allowed = RELATIVE[a.dtype] * np.abs(reference) + a.shape[1] * 2.0**-20
    error = np.abs(c.astype(np.float64) - reference)
    assert c.shape == reference.shape
    assert np.all(error <= allowed), f"largest error {np.nanmax(error)}, {np.isnan(error).sum()} NaNs"


# Products ------------------------------------------------------------------------------------------------------------

# no multiple of a tile in M, N or K; K smaller than a tile, one, two and many k-tiles; one row
SHAPES = [(1, 8, 8), (5, 24, 40), (70, 136, 64), (130, 8, 128), (33, 264, 72), (16, 40, 328)]


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_v1(shape, dtype):
    m, n, k = shape
    a, b = normal((m, k), dtype, 1), normal((n, k), dtype, 2).T
    with interpret():
        c = matmul_v1(a, b)
    assert (type(c), c.dtype) == (np.ndarray, dtype)
    assert_product(c, a, b)


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=str)
@pytest.mark.parametrize("shape", [(1, 8, 8), (37, 24, 200)], ids=str)
def test_v0(shape, dtype):
    m, n, k = shape
    a, b = normal((m, k), dtype, 1), normal((n, k), dtype, 2).T
    with interpret():
        assert_product(matmul_v0(a, b), a, b)


@pytest.mark.parametrize("function", [matmul_v0, matmul_v1, matmul])
def test_views_are_read_and_written_inside_their_bounds(function):
    """NaNs around the operands are not read, those in and around the result are written exactly where it lies."""
    a, _ = padded((21, 72), FLOAT16, 1, offset=8, padding=16)
    x, _ = padded((40, 72), FLOAT16, 2, offset=16, padding=8)
    out, base = padded((21, 40), FLOAT16, offset=8, padding=8)
    base[...] = np.nan
    with interpret():
        assert function(a, x.T, out) is out
    assert_product(out, a, x.T)
    inside = np.zeros(base.shape, bool)
    inside[1:-1, 8:-8] = True
    np.testing.assert_array_equal(np.isnan(base), ~inside)


def test_row_of_any_stride():
    """The stride of a single row says nothing."""
    a = np.lib.stride_tricks.as_strided(normal((1, 16)), (1, 16), (6, 2))
    b = normal((8, 16), seed=2).T
    out = np.lib.stride_tricks.as_strided(np.empty((1, 8), FLOAT16), (1, 8), (2, 2))
    with interpret():
        assert_product(matmul(a, b, out=out), a, b)


def test_environment_chooses_the_interpreter(environment):
    environment(HOPPER_NUMBA_INTERPRET="1")
    a, b = normal((8, 16)), normal((8, 16), seed=2).T
    assert_product(matmul(a, b), a, b)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 5, 3), (4, 0, 3), (0, 0, 0)])
def test_empty_result(m, n, k):
    a, b = np.empty((m, k), FLOAT16), np.empty((k, n), FLOAT16)
    assert matmul(a, b).shape == (m, n)  # without a GPU, and without the interpreter
    with interpret():
        assert matmul(a, b).shape == (m, n)


def test_sum_of_nothing_is_zero():
    a, b, out = np.empty((3, 0), FLOAT16), np.empty((0, 5), FLOAT16), np.full((3, 8), np.nan, FLOAT16)
    np.testing.assert_array_equal(matmul(a, b), np.zeros((3, 5)))
    with interpret():
        assert matmul(a, np.empty((0, 8), FLOAT16), out) is out
    np.testing.assert_array_equal(out, np.zeros((3, 8)))


def test_torch_tensors_in_the_interpreter():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float16, torch.bfloat16):
        a, b = torch.randn(20, 16).to(dtype), torch.randn(24, 16).to(dtype).T
        with interpret():
            c, out = matmul(a, b), torch.empty(20, 24, dtype=dtype)
            assert matmul(a, b, out) is out
        assert (type(c), c.dtype) == (torch.Tensor, dtype)
        assert torch.equal(c, out)
        torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=2**-7, atol=1e-3)


# Refusals ------------------------------------------------------------------------------------------------------------

A, B = normal((24, 32)), normal((40, 32), seed=2).T
READ_ONLY = np.empty((24, 40), FLOAT16)
READ_ONLY.flags.writeable = False
ODD = np.zeros(25 * 32 + 8, FLOAT16)[1:]  # begins 2 bytes behind a multiple of 16

TYPE_ERRORS = {
    "a is no array": ((3, B), "matmul: a must be an array of .*; got int"),
    "b is no array": ((A, [[1]]), "matmul: b must be an array of .*; got list"),
    "out is no array": ((A, B, "c"), "matmul: out must be an array of .*; got str"),
    "float32": ((A.astype(np.float32), B), "matmul: a must be of float16 or bfloat16; got float32"),
    "integers": ((A, B.astype(np.int16)), "matmul: b must be of float16 or bfloat16; got int16"),
    "big endian": ((A.astype(">f2"), B), "matmul: a must be of float16 or bfloat16; got >f2"),
    "dtypes": ((A, B.astype(BFLOAT16)), "a and b must have one dtype; got float16 and bfloat16"),
    "out's dtype": ((A, B, np.empty((24, 40), np.float32)), "out must have the operands' dtype float16; got float32"),
}

VALUE_ERRORS = {
    "a vector": ((A[0], B), r"matmul: a must have 2 dimensions; got shape \(32,\)"),
    "a batch": ((A, B[None]), r"matmul: b must have 2 dimensions; got shape \(1, 32, 40\)"),
    "shapes": ((A, B[:24]), r"a must have as many columns as b has rows; got 32 and 24, with shapes \(24, 32\) and"),
    "K": ((A[:, :12], B[:12]), "K, the columns of a and the rows of b, must be a multiple of 8 for float16; got 12"),
    "N": ((A, B[:, :12]), "N, the columns of b, must be a multiple of 8 for float16; got 12"),
    "N of 1": ((A, B[:, :1]), "N, the columns of b, must be a multiple of 8 for float16; got 1"),
    "a transposed": ((normal((32, 24)).T, B), r"a must have a stride of 2 bytes along K, .*; got strides \(2, 48\)"),
    "a reversed": ((A[:, ::-1], B), r"a must have a stride of 2 bytes along K, .*; got strides \(64, -2\)"),
    "b in C order": (
        (A, np.ascontiguousarray(B)),
        r"b must be K-major, .*; got strides \(80, 2\)\. Pass b = x\.T of a C-ordered array x of shape \(N, K\)",
    ),
    "b in steps": ((A[:, :16], B[::2]), r"b must be K-major, .*; got strides \(4, 64\)"),
    "a's rows": ((padded((24, 32), FLOAT16, padding=4)[0], B), "a must have a stride along M .* at least 64; got 72"),
    "a upside down": ((A[::-1], B), "a must have a stride along M that is a multiple of 16 bytes .*; got -64"),
    "a repeated": ((np.broadcast_to(A[:1], (24, 32)), B), "a must have a stride along M .* at least 64; got 0"),
    "b's rows": ((A, padded((40, 32), FLOAT16, padding=4)[0].T), "b must have a stride along N .* at least 64; got 72"),
    "a's address": ((ODD[: 24 * 32].reshape(24, 32), B), "a must begin at a multiple of 16 bytes; got address 0x.*2"),
    "b's address": ((A, ODD[: 8 * 32].reshape(8, 32).T), "b must begin at a multiple of 16 bytes; got address 0x.*2"),
    "out's shape": ((A, B, np.empty((24, 32), FLOAT16)), r"out must have shape \(24, 40\); got \(24, 32\)"),
    "read-only": ((A, B, READ_ONLY), "out must be writable; got a read-only array"),
    "out transposed": (
        (A, B, np.empty((40, 24), FLOAT16).T),
        "out must have a stride of 2 bytes along N, .* got strides",
    ),
    "out's rows": ((A, B, padded((24, 40), FLOAT16, padding=4)[0]), "out must have a stride along M .* 80; got 88"),
    "out's address": ((A, B[:, :32], ODD[: 24 * 32].reshape(24, 32)), "out must begin at a multiple of 16 bytes; got"),
    "out is a": ((A, B[:, :32], A), r"out must not overlap a; got array\(0x.* on host, .*\) and array\(0x"),
    "out is part of b": (
        (A[:8], B[:, :32], B.T[:8]),
        r"out must not overlap b; got array\(0x.* on host, .*\) and array\(0x",
    ),
    "out of the sum of nothing": (
        (np.empty((8, 0), FLOAT16), np.empty((0, 8), FLOAT16), np.empty((8, 9), FLOAT16)),
        r"out must have shape \(8, 8\); got \(8, 9\)",
    ),
}

ERRORS = [(TypeError, *error) for error in TYPE_ERRORS.values()] + [
    (ValueError, *error) for error in VALUE_ERRORS.values()
]


@pytest.mark.parametrize(("error", "arguments", "message"), ERRORS, ids=[*TYPE_ERRORS, *VALUE_ERRORS])
def test_refused(error, arguments, message):
    with pytest.raises(error, match=message):
        matmul(*arguments)
    with interpret(), pytest.raises(error, match=message):
        matmul(*arguments)


def test_a_wrong_stream_is_refused():
    with pytest.raises(TypeError, match="stream must be a handle or an object with __cuda_stream__; got 'fast'"):
        matmul(A, B, stream="fast")


@pytest.mark.skipif(not why_no_hopper(), reason="there is a Hopper GPU")
@pytest.mark.parametrize("function", [matmul, matmul_v0, matmul_v1])
def test_without_a_hopper_gpu(function):
    with pytest.raises(RuntimeError, match=r"needs a Hopper GPU .*: .*hopper_numba\.interpret\(\)"):
        function(A, B)


def test_the_interpreter_takes_no_gpu_arrays():
    array = DeviceArray(512, (24, 32), (64, 2), FLOAT16, 1)
    with interpret(), pytest.raises(TypeError, match="the interpreter takes arrays in host memory; a is on GPU 1"):
        matmul(array, B)


def on_gpu(shape, ptr=4096, device=0, **attributes):
    return DeviceArray(ptr, shape, (2 * shape[1], 2), FLOAT16, device, **attributes)


def test_operands_on_two_gpus_are_refused():
    with pytest.raises(ValueError, match="a and b must be on one GPU; got GPU 0 and GPU 1"):
        module._find_plan("v1", on_gpu((24, 32)), on_gpu((40, 32), device=1).T)


def test_out_on_another_gpu_is_refused():
    a, b, out = on_gpu((24, 32)), on_gpu((40, 32)).T, on_gpu((24, 40), device=1)
    with pytest.raises(ValueError, match="out must be on the operands' GPU; got GPU 1"):
        matmul_checks.check_out(out, a, b)


def test_host_memory_that_is_not_numpys_is_not_copied():
    host = view(B)
    with pytest.raises(TypeError, match="b is in host memory; only NumPy arrays are copied to the GPU"):
        matmul(A, host)


# Overlap -------------------------------------------------------------------------------------------------------------


def test_overlap_of_random_views():
    """Never missed, and exact where the strides are equal."""
    rng = np.random.default_rng(0)
    base = np.zeros((12, 24), FLOAT16)
    seen = set()
    for _ in range(3000):
        views = []
        for _ in range(2):
            (r, s), (c, d) = (np.sort(rng.choice(n + 1, 2, replace=False)) for n in base.shape)
            views.append(base[r : s : int(rng.integers(1, 3)), c:d])
        first, second = views
        really, found = np.shares_memory(first, second), matmul_checks._overlap(view(first), view(second.T))
        assert found or not really
        if first.strides == second.strides and min(len(first), len(second)) > 1 and second.shape[1] > 1:
            assert found == really
            seen.add(found)
    assert seen == {True, False}


def test_columns_of_one_matrix_do_not_overlap():
    both = np.zeros((24, 72), FLOAT16)
    both[:, :32] = A
    with interpret():
        assert matmul(both[:, :32], B, both[:, 32:]) is not None
    assert_product(both[:, 32:], A, B)


# Plans ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def launches(monkeypatch):
    """Plans without a GPU: their kernel notes its launches."""
    noted = []

    class Bound:
        def __init__(self, configuration, k):
            self.configuration, self.k = configuration, k

        def replace_address(self, position, address):
            assert position == 2
            self.c = address

        def __call__(self):
            noted.append((self.configuration, self.c, self.k))

    class Kernel:
        def __getitem__(self, configuration):
            return SimpleNamespace(bind=lambda a, b, c, k: Bound(configuration, k))

    build = module.STAGES["v1"].build(FLOAT16)
    stage = SimpleNamespace(kernel=Kernel(), a=build.a, b=build.b, grid=lambda m, n: (m, n))
    monkeypatch.setattr(module, "STAGES", {"v1": SimpleNamespace(build=lambda dtype: stage)})
    monkeypatch.setattr(module, "require_hopper", lambda ordinal: None)
    monkeypatch.setattr(module, "_plans", module._Plans())
    return noted


def test_a_plan_serves_its_geometry(launches):
    plan = module._find_plan("v1", on_gpu((24, 32)), on_gpu((40, 32)).T)
    assert module._find_plan("v1", on_gpu((24, 32), 8192), on_gpu((40, 32)).T) is plan
    assert module._find_plan("v1", on_gpu((25, 32)), on_gpu((40, 32)).T) is not plan
    assert module._find_plan("v1", on_gpu((24, 32), device=1), on_gpu((40, 32), device=1).T) is not plan


def test_a_plan_keeps_no_array(launches):
    owner = SimpleNamespace()
    plan = module._find_plan("v1", on_gpu((24, 32), owner=owner), on_gpu((40, 32), owner=owner).T)
    assert plan.a_map._view.owner is None
    assert plan.b_map._view.owner is None


def test_only_addresses_that_change_are_replaced(launches, monkeypatch):
    a, b, c = on_gpu((24, 32), 1024), on_gpu((40, 32), 2048).T, on_gpu((24, 40), 4096)
    plan = module._find_plan("v1", a, b)
    replaced = []
    monkeypatch.setattr(type(plan.a_map), "move_to", lambda tensor_map, address: replaced.append(address))
    plan.run(a.ptr, b.ptr, c, 0)
    plan.run(a.ptr, b.ptr, c, 7)
    assert replaced == []
    plan.run(512, b.ptr, c, 7)
    plan.run(512, 256, c, 0)
    assert replaced == [512, 256]
    grid = (24, 40)
    assert launches == [
        ((grid, None, 0), 4096, 32),
        ((grid, None, 7), 4096, 32),
        ((grid, None, 7), 4096, 32),
        ((grid, None, 0), 4096, 32),
    ]


def test_a_known_geometry_is_told_at_a_glance(launches, monkeypatch):
    monkeypatch.setattr(module, "on_device", lambda device: contextlib.nullcontext())
    moved, viewed = [], []
    monkeypatch.setattr(TensorMap, "move_to", lambda tensor_map, address: moved.append(address))
    a, b, c = on_gpu((24, 32), 1024), on_gpu((40, 32), 8192).T, on_gpu((24, 40), 16384)
    kind = kind_of(a)
    plain = kind.view
    monkeypatch.setattr(kind, "view", lambda obj, *rest: viewed.append(obj) or plain(obj, *rest))
    assert matmul(a, b, out=c) is c
    assert viewed[:3] == [c, a, b]
    viewed.clear()
    other = on_gpu((24, 32), 4096)
    assert matmul(other, b, out=c) is c
    assert viewed == [c]
    assert moved == [4096]
    assert launches == [(((24, 40), None, 0), 16384, 32)] * 2
    with pytest.raises(ValueError, match="out must not overlap a"):
        matmul(on_gpu((24, 32), 16384), b, out=c)
    with pytest.raises(ValueError, match="a must begin at a multiple of 16 bytes"):
        matmul(on_gpu((24, 32), 1032), b, out=c)
    with pytest.raises(ValueError, match="out must begin at a multiple of 16 bytes"):
        matmul(a, b, out=on_gpu((24, 40), 16392))
    with interpret(), pytest.raises(TypeError, match="a is on GPU 0"):
        matmul(a, b, out=c)
    assert len(launches) == 2


def test_a_misaligned_address_is_refused_by_a_known_plan(launches):
    module._find_plan("v1", on_gpu((24, 32)), on_gpu((40, 32)).T)
    with pytest.raises(ValueError, match="b must begin at a multiple of 16 bytes; got address 0x1008"):
        module._find_plan("v1", on_gpu((24, 32)), on_gpu((40, 32), 4104).T)


def test_plans_are_bounded(launches, monkeypatch):
    monkeypatch.setattr(module, "PLANS", 4)
    oldest = module._find_plan("v1", on_gpu((1, 32)), on_gpu((40, 32)).T)
    for m in range(2, 9):
        module._find_plan("v1", on_gpu((m, 32)), on_gpu((40, 32)).T)
    assert len(module._plans.found) == 4
    assert module._find_plan("v1", on_gpu((1, 32)), on_gpu((40, 32)).T) is not oldest


def test_a_plan_is_one_threads(launches):
    operands = on_gpu((24, 32)), on_gpu((40, 32)).T
    found = [module._find_plan("v1", *operands)]
    thread = threading.Thread(target=lambda: found.append(module._find_plan("v1", *operands)))
    thread.start()
    thread.join()
    assert found[0] is not found[1]


def test_the_interpreter_keeps_no_plan(launches):
    module._find_plan("v1", view(A), view(B))
    assert module._plans.found == {}


def test_streams_of_the_operands_are_put_in_order():
    choose = module._choose_stream
    assert choose(None, (5, 5, None)) == (5, [])
    assert choose(None, (None, None, None)) == (0, [])
    assert choose(None, (None, 6, 7)) == (6, [7])
    assert choose(None, (0, 6, 7)) == (0, [6, 7])
    assert choose(9, (0, 6, 7)) == (9, [])


def test_views_say_what_they_are():
    assert isinstance(view(A), HostArray | ArrayView)
    assert "GPU 0, (24, 32), strides (64, 2), float16" in repr(on_gpu((24, 32)))
