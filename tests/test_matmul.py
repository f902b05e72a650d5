"""`matmul` and its stages without a GPU: every refusal, and what the interpreter computes."""

import contextlib
import dataclasses
import sys
import threading
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import hopper_numba
from hopper_numba import Config, interpret, matmul, matmul_checks
from hopper_numba.arrays import ArrayView, DeviceArray, HostArray
from hopper_numba.device import why_no_hopper
from hopper_numba.kinds import kind_of, view
from hopper_numba.matmul import STAGES, dtypes_of
from hopper_numba.tensor_map import TensorMap

module = sys.modules["hopper_numba.matmul"]  # the package's attribute of that name is the function

FLOAT16, BFLOAT16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
FUNCTIONS = {stage: getattr(hopper_numba, f"matmul_{stage}") for stage in STAGES}
# what errors may be: of the result, and for each product, as the demo has them
RELATIVE, PER_PRODUCT = {FLOAT16: 2.0**-10, BFLOAT16: 2.0**-7}, {"float32": 2.0**-20, "float16": 2.0**-10}


def padded(shape, dtype, seed=0, offset=0, padding=0):
    """A matrix of N(0, 1) inside a larger one of NaNs, `offset` columns from its left, and the larger one."""
    rows, columns = shape
    base = np.full((rows + 2, offset + columns + padding), np.nan, dtype)
    matrix = base[1:-1, offset : offset + columns]
    matrix[...] = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return matrix, base


def normal(shape, dtype=FLOAT16, seed=0):
    return padded(shape, dtype, seed)[0].copy()


def assert_product(c, a, b, accumulate="float32"):
    reference = a.astype(np.float64) @ b.astype(np.float64)
    allowed = RELATIVE[a.dtype] * np.abs(reference) + a.shape[1] * PER_PRODUCT[accumulate]
    error = np.abs(c.astype(np.float64) - reference)
    assert c.shape == reference.shape
    assert np.all(error <= allowed), f"largest error {np.nanmax(error)}, {np.isnan(error).sum()} NaNs"


def integers(shape, seed):
    """Whose products have exact sums, in float16 too, for K up to 500."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(FLOAT16)


# Products ------------------------------------------------------------------------------------------------------------

EVERY = [(stage, dtype) for stage in STAGES for dtype in dtypes_of(stage)]
# no multiple of a tile in M, N or K; K smaller than a tile, one, two and more; one row; two tiles in each direction
SHAPES = [(1, 8, 8), (5, 24, 40), (70, 136, 64), (130, 8, 128), (33, 264, 72)]


@pytest.mark.parametrize(("stage", "dtype"), EVERY, ids=str)
def test_every_stage_with_what_it_has_by_default(stage, dtype):
    a, b = normal((21, 136), dtype, 1), normal((40, 136), dtype, 2).T
    with interpret():
        c = FUNCTIONS[stage](a, b)
    assert (type(c), c.dtype) == (np.ndarray, dtype)
    assert_product(c, a, b, STAGES[stage].ACCUMULATE)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_edges(shape):
    """Of `matmul`; the other stages have smaller tiles below."""
    m, n, k = shape
    a, b = normal((m, k), seed=1), normal((n, k), seed=2).T
    with interpret():
        assert_product(matmul(a, b), a, b)


# as small as a stage may be: the fewer products, the sooner interpreted
NARROW = {
    "v0": Config((32, 32, 64)),
    "v1": Config((64, 8, 64)),
    "v2": Config((128, 8, 64), stages=2),
    "v3": Config((128, 16, 64), stages=2),
    **{stage: Config((128, 16, 64), stages=2, group=2) for stage in ("v4", "v5")},
    "v6": Config((256, 64, 64), stages=2, group=2),
}


def exactly(stage, m, n, k, config):
    """Check a product of integers."""
    a, b = integers((m, k), 1), integers((n, k), 2).T
    with interpret():
        c = FUNCTIONS[stage](a, b, config=config)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("stage", STAGES)
def test_tiles_that_are_not_whole(stage):
    tile_m, tile_n, _ = NARROW[stage].tile
    exactly(stage, 2 * tile_m + 3, tile_n + 8, 72, NARROW[stage])


RINGS = {"v0": (1,), "v1": (1,), "v2": (2, 3), "v3": (1, 2, 3), "v4": (1, 2, 3), "v5": (2, 3), "v6": (2, 3)}


@pytest.mark.parametrize(("stage", "ring"), [(stage, ring) for stage in RINGS for ring in RINGS[stage]])
def test_every_number_of_tiles_along_k(stage, ring):
    """The ring not yet full, full, and into its third round; the last tile whole and not."""
    for tiles in range(1, 2 * ring + 2):
        k = 64 * tiles - (56 if tiles % 2 else 0)
        exactly(stage, 3, 8, k, dataclasses.replace(NARROW[stage], stages=ring))


@pytest.mark.parametrize("stage", STAGES)
def test_views_are_read_and_written_inside_their_bounds(stage):
    """NaNs around the operands are not read, those in and around the result are written exactly where it lies."""
    a, _ = padded((21, 72), FLOAT16, 1, offset=8, padding=16)
    x, _ = padded((40, 72), FLOAT16, 2, offset=16, padding=8)
    out, base = padded((21, 40), FLOAT16, offset=8, padding=8)
    base[...] = np.nan
    with interpret():
        assert FUNCTIONS[stage](a, x.T, out, config=NARROW[stage]) is out
    assert_product(out, a, x.T, STAGES[stage].ACCUMULATE)
    inside = np.zeros(base.shape, bool)
    inside[1:-1, 8:-8] = True
    np.testing.assert_array_equal(np.isnan(base), ~inside)


@pytest.mark.parametrize("stage", STAGES)
def test_row_of_any_stride(stage):
    """The stride of a single row says nothing."""
    a = np.lib.stride_tricks.as_strided(normal((1, 16)), (1, 16), (6, 2))
    b = normal((8, 16), seed=2).T
    out = np.lib.stride_tricks.as_strided(np.empty((1, 8), FLOAT16), (1, 8), (2, 2))
    with interpret():
        assert FUNCTIONS[stage](a, b, out=out, config=NARROW[stage]) is out
    assert_product(out, a, b, STAGES[stage].ACCUMULATE)


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


@pytest.mark.parametrize("function", FUNCTIONS.values())
def test_sum_of_nothing_is_zero(function):
    a, b, out = np.empty((3, 0), FLOAT16), np.empty((0, 5), FLOAT16), np.full((3, 8), np.nan, FLOAT16)
    np.testing.assert_array_equal(function(a, b), np.zeros((3, 5)))
    with interpret():
        assert function(a, np.empty((0, 8), FLOAT16), out) is out
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
@pytest.mark.parametrize("function", [matmul, *FUNCTIONS.values()])
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
        module._find_plan("v1", None, on_gpu((24, 32)), on_gpu((40, 32), device=1).T)


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

    built = module.build_stage("v1", FLOAT16)
    stage = dataclasses.replace(built, kernel=Kernel(), grid=lambda m, n: (m, n))
    made = SimpleNamespace(build=lambda dtype, config: stage)
    monkeypatch.setattr(module, "STAGES", dict.fromkeys(module.STAGES, made))
    monkeypatch.setattr(module, "require_hopper", lambda ordinal: SimpleNamespace(name="NVIDIA H200"))
    monkeypatch.setattr(module, "_plans", module._Plans())
    return noted


def test_a_plan_serves_its_geometry(launches):
    plan = module._find_plan("v1", None, on_gpu((24, 32)), on_gpu((40, 32)).T)
    assert module._find_plan("v1", None, on_gpu((24, 32), 8192), on_gpu((40, 32)).T) is plan
    assert module._find_plan("v1", None, on_gpu((25, 32)), on_gpu((40, 32)).T) is not plan
    assert module._find_plan("v1", None, on_gpu((24, 32), device=1), on_gpu((40, 32), device=1).T) is not plan


def test_a_plan_serves_its_config(launches):
    operands, config = (on_gpu((24, 32)), on_gpu((40, 32)).T), Config((64, 8, 64))
    plan = module._find_plan("v1", config, *operands)
    assert module._find_plan("v1", Config((64, 8, 64)), *operands) is plan
    assert module._find_plan("v1", Config((64, 16, 64)), *operands) is not plan
    assert module._find_plan("v1", None, *operands) is not plan


def test_the_default_is_that_of_the_board_and_read_once_a_plan(launches, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "default", lambda *args: asked.append(args))
    for address in (4096, 8192):
        module._find_plan("v1", None, on_gpu((24, 32), address), on_gpu((40, 32)).T)
    module._find_plan("v1", Config((64, 8, 64)), on_gpu((24, 32)), on_gpu((40, 32)).T)
    assert asked == [("v1", "NVIDIA H200")]


def test_a_plan_keeps_no_array(launches):
    owner = SimpleNamespace()
    plan = module._find_plan("v1", None, on_gpu((24, 32), owner=owner), on_gpu((40, 32), owner=owner).T)
    assert plan.a_map._view.owner is None
    assert plan.b_map._view.owner is None


def test_only_addresses_that_change_are_replaced(launches, monkeypatch):
    a, b, c = on_gpu((24, 32), 1024), on_gpu((40, 32), 2048).T, on_gpu((24, 40), 4096)
    plan = module._find_plan("v1", None, a, b)
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
    module._find_plan("v1", None, on_gpu((24, 32)), on_gpu((40, 32)).T)
    with pytest.raises(ValueError, match="b must begin at a multiple of 16 bytes; got address 0x1008"):
        module._find_plan("v1", None, on_gpu((24, 32)), on_gpu((40, 32), 4104).T)


def test_plans_are_bounded(launches, monkeypatch):
    monkeypatch.setattr(module, "PLANS", 4)
    oldest = module._find_plan("v1", None, on_gpu((1, 32)), on_gpu((40, 32)).T)
    for m in range(2, 9):
        module._find_plan("v1", None, on_gpu((m, 32)), on_gpu((40, 32)).T)
    assert len(module._plans.found) == 4
    assert module._find_plan("v1", None, on_gpu((1, 32)), on_gpu((40, 32)).T) is not oldest


def test_a_plan_is_one_threads(launches):
    operands = on_gpu((24, 32)), on_gpu((40, 32)).T
    found = [module._find_plan("v1", None, *operands)]
    thread = threading.Thread(target=lambda: found.append(module._find_plan("v1", None, *operands)))
    thread.start()
    thread.join()
    assert found[0] is not found[1]


def test_the_interpreter_keeps_no_plan(launches):
    module._find_plan("v1", None, view(A), view(B))
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


def test_more_tiles_than_a_grid_has():
    a, b = np.zeros((1, 8), np.float16), np.zeros((16 * 65536, 8), np.float16).T
    with interpret(), pytest.raises(ValueError, match="N must be at most 1048560 for tiles of 16 columns; got 1048576"):
        hopper_numba.matmul_v4(a, b, config=Config((128, 16, 64), 2))
