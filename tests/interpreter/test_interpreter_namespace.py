"""Which Python and which numba.cuda an interpreted kernel has, and how the interpreter is chosen."""

import contextvars
import math
import types

import numba
import numpy as np
import pytest
from numba import cuda, float32, int32, int64, uint32
from numba import types as numba_types
from numba.cuda import atomic, blockDim, grid, laneid, syncthreads, threadIdx

from hopper_numba import interpreter
from hopper_numba.intrinsics import warp

helpers = types.ModuleType("helpers_of_a_kernel")


@cuda.jit(device=True)
def even(n):
    return n == 0 or odd(n - 1)


@cuda.jit(device=True)
def odd(n):
    return n != 0 and even(n - 1)


@cuda.jit(device=True)
def place():
    return cuda.threadIdx.x * 100 + warp.lane_index()


helpers.place = place


def run(kernel, *args, threads=4, grid=1, **options):
    interpreter.run(kernel, args, grid, threads, **options)


def test_places_in_three_dimensions():
    def kernel(out):
        x, y, z = cuda.grid(3)
        linear = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
        out[z, y, x] = linear + 1000 * cuda.blockIdx.y + 10000 * cuda.gridDim.z + 100000 * cuda.laneid

    out = np.zeros((2, 6, 4), np.int64)
    run(kernel, out, threads=(4, 3, 2), grid=(1, 2, 1))
    z, y, x = np.indices(out.shape)
    linear = x + 4 * (y % 3 + 3 * z)
    assert (out == linear + 1000 * (y // 3) + 10000 + 100000 * (linear % 32)).all()


def test_names_imported_from_numba_cuda():
    def kernel(out):
        syncthreads()
        out[grid(1)] = threadIdx.x + 10 * blockDim.x + laneid * 1000 + (laneid < 2) + cuda.gridsize(1)

    out = np.zeros(8, np.int64)
    run(kernel, out, grid=2)
    t = np.arange(8) % 4
    assert (out == t + 40 + 1000 * t + (t < 2) + 8).all()


def test_numba_reached_by_its_own_name_and_modules():
    def kernel(out):
        t = numba.cuda.threadIdx.x
        out[t] = numba.float32(0.1) + helpers.place() + math.sqrt(4.0) + numba_types.uint32(-1) + np.float32(2)

    out = np.zeros(4, np.float64)
    run(kernel, out)
    assert np.allclose(out, 0.1 + 101 * np.arange(4) + 2 + 2**32 - 1 + 2)


def test_device_functions_that_call_each_other():
    functions = (even, odd)

    def kernel(out):
        out[cuda.threadIdx.x] = functions[0](cuda.threadIdx.x + 4) + 2 * odd(cuda.threadIdx.x)

    out = np.zeros(4, np.int64)
    run(cuda.jit(kernel), out)
    assert out.tolist() == [1, 2, 1, 2]


def test_functions_keep_defaults_keywords_and_those_defined_inside():
    @cuda.jit(device=True)
    def scaled(value, by=3, *, plus=0):
        return value * by + plus

    def kernel(out):
        add = lambda value: value + cuda.blockDim.x  # noqa: E731
        out[cuda.threadIdx.x] = add(scaled(1)) + scaled(1, 2, plus=100)

    out = np.zeros(4, np.int64)
    run(kernel, out)
    assert (out == 4 + 3 + 102).all()


def test_the_kernel_itself_is_left_alone():
    before = dict(place.py_func.__globals__)
    run(lambda out: out.__setitem__(0, place()), np.zeros(1), threads=1)
    assert place.py_func.__globals__ == before
    assert cuda.threadIdx.__module__.startswith("numba.cuda")


def refused():
    def by_attribute(out):
        cuda.atomic.add(out, 0, 1)

    def by_import(out):
        atomic.add(out, 0, 1)

    def through_numba(out):
        numba.cuda.shfl_sync(0xFFFFFFFF, 1, 0)

    def constant_memory(out):
        cuda.const.array_like(out)

    return [
        (by_attribute, r"no cuda\.atomic"),
        (by_import, r"no cuda\.atomic\.add"),
        (through_numba, r"no cuda\.shfl_sync"),
        (constant_memory, r"no cuda\.const"),
    ]


@pytest.mark.parametrize(("kernel", "message"), refused(), ids=lambda v: getattr(v, "__name__", ""))
def test_the_rest_of_numba_cuda_is_refused_by_name(kernel, message):
    with pytest.raises(NotImplementedError, match=message + r"; a kernel may use cuda\.threadIdx, .*cuda\.local"):
        run(kernel, np.zeros(1, np.int32), threads=1)


def test_conversions_wrap_as_the_gpu_does():
    def kernel(out):
        out[0], out[1], out[2], out[3] = (
            uint32(-1),
            int64(2**63),
            uint32(3.9),
            float32(1) / float32(3) == float32(1 / 3),
        )

    out = np.zeros(4, np.int64)
    run(kernel, out, threads=1)
    assert out.tolist() == [2**32 - 1, -(2**63), 3, 1]


def test_floats_that_no_integer_has_saturate():
    def kernel(x, out, small):
        out[0], out[1], out[2] = int32(x[0]), int32(x[1]), int32(x[2])
        out[3], out[4], out[5] = uint32(x[2]), int32(3e9), int64(-1e30)
        out[6] = x[0]
        for i in range(3):
            small[i] = x[i]
        local = cuda.local.array(1, np.int32)
        local[0] = x[1]
        out[7] = local[0]

    out, small = np.full(8, -7, np.int64), np.full(3, -7, np.int32)
    run(kernel, np.array([np.nan, np.inf, -np.inf]), out, small, threads=1)
    assert out.tolist() == [0, 2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**63), 0, 2**31 - 1]
    assert small.tolist() == [0, 2**31 - 1, -(2**31)]


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        ("log", (0,), -np.inf),
        ("log", (-1.0,), np.nan),
        ("log2", (0.0,), -np.inf),
        ("log1p", (-1.0,), -np.inf),
        ("exp", (1000,), np.inf),
        ("exp", (1.0,), math.e),
        ("sqrt", (-1,), np.nan),
        ("acos", (2.0,), np.nan),
        ("atanh", (1.0,), np.inf),
        ("sin", (np.inf,), np.nan),
        ("cosh", (1e4,), np.inf),
        ("floor", (np.inf,), np.inf),
        ("ceil", (1.5,), 2.0),
        ("pow", (0.0, -1.0), np.inf),
        ("pow", (-8.0, 1 / 3), np.nan),
        ("fmod", (1.0, 0.0), np.nan),
        ("remainder", (1.0, 0.0), np.nan),
        ("remainder", (5.0, 3.0), -1.0),
        ("hypot", (3, 4), 5.0),
        ("gamma", (0.0,), np.inf),
        ("gamma", (-1.0,), np.nan),
        ("gamma", (200.0,), np.inf),
        ("lgamma", (-1.0,), np.inf),
        ("ldexp", (1.0, 5000), np.inf),
    ],
)
def test_functions_of_math_give_what_ieee_says(function, args, expected):
    imported = getattr(math, function)

    def kernel(out):
        out[0] = getattr(math, function)(*args)
        out[1] = imported(*args)

    out = np.zeros(2)
    run(kernel, out, threads=1)
    assert np.array_equal(out, [expected] * 2, equal_nan=True)


def test_functions_of_math_keep_narrow_types_as_numba_does():
    def kernel(x, out):
        root, whole = math.sqrt(x[0]), math.sqrt(2)
        out[0] = root.dtype == np.float32
        out[1] = whole.dtype == np.float64
        out[2] = 1.0 / math.sqrt(x[1]) == math.inf
        out[3] = math.isnan(math.nan) and math.gcd(12, 18) == 6

    out = np.zeros(4)
    run(kernel, np.array([2, 0], np.float32), out, threads=1)
    assert out.tolist() == [1, 1, 1, 1]


def test_numbers_differ_from_compiled_ones_as_the_documentation_says():
    def kernel(x, n, out):
        out[0] = x[0] * 0.1 == np.float32(x[0]) * np.float32(0.1)
        out[1] = n[0] - n[1] == -1
        out[2] = int64(2**63 - 1) + int64(1) == 2**63
        out[3] = 1.0 / (x[0] - x[0]) == math.inf
        try:
            out[4] = 1.0 / 0
        except ZeroDivisionError:
            out[4] = True

    out = np.zeros(5, bool)
    run(kernel, np.array([3], np.float32), np.array([1, 2], np.uint32), out, threads=1)
    assert out.all()
    for words in ("narrow type", "do not wrap", "difference can be\n  negative", "raises ZeroDivisionError"):
        assert words in interpreter.__doc__


def test_arguments_that_are_no_arrays():
    def kernel(out, pair, scale, flag):
        out[0] = pair[0][0] + pair[1] * scale + flag

    out = np.zeros(1)
    run(kernel, out, (np.array([5.0]), 3), np.int32(7), np.True_, threads=1)
    assert out[0] == 27


def test_a_wrong_number_of_arguments_names_the_kernel():
    def scale(out, by):
        out[0] *= by

    with pytest.raises(TypeError, match=r"^scale\(out, by\): missing a required argument: 'by'$"):
        run(scale, np.zeros(1))
    with pytest.raises(TypeError, match=r"^scale\(out, by\): too many positional arguments$"):
        run(cuda.jit(scale), np.zeros(1), 2, 3)


class Exporter:
    """An array of another library."""

    def __init__(self, array):
        self._array = array
        self.__array_interface__ = array.__array_interface__

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_arguments_that_the_interpreter_does_not_take_are_named():
    def kernel(out, other):
        pass

    takes = "the interpreter takes NumPy arrays, numbers and TensorMaps, and tuples of them; got"
    for value, kind in (
        (type("Device", (), {"__cuda_array_interface__": {}})(), "Device"),
        (Exporter(np.zeros(3)), "Exporter"),
        ([1, 2], "list"),
        (None, "NoneType"),
    ):
        with pytest.raises(TypeError, match=f"argument other: {takes} {kind}"):
            run(kernel, np.zeros(1), value)
        with pytest.raises(TypeError, match=rf"argument other\[1\]: {takes} {kind}"):
            run(kernel, np.zeros(1), (1, value))


def test_a_tensor_map_of_an_array_that_is_none_of_numpys_is_named():
    class Map:
        numba_type, box = None, (8, 8)

        def __init__(self, array, device):
            self.array, self.device = array, device

    takes = "argument m: the interpreter takes TensorMaps of NumPy arrays; got one of Exporter"
    with pytest.raises(TypeError, match=f"{takes} on device 1$"):
        run(lambda m: None, Map(Exporter(np.zeros(3)), 1))
    with pytest.raises(TypeError, match=f"{takes}$"):
        run(lambda m: None, Map(Exporter(np.zeros(3)), None))


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        (0, 32, "grid must be"),
        (1, (32, 33), "at most 1024 threads"),
        ((1, 1, 1, 1), 32, "grid must be"),
        (1, 2.0, "block"),
    ],
)
def test_launches_that_cannot_be(grid, block, message):
    with pytest.raises(ValueError, match=message):
        interpreter.run(lambda: None, (), grid, block)


# Chosen around a call ------------------------------------------------------------------------------------------------


def test_interpret_holds_inside_and_only_in_its_context(environment):
    environment(HOPPER_NUMBA_INTERPRET="0")
    outside = contextvars.copy_context()
    assert interpreter.active() is None
    with interpreter.interpret(seed=4):
        assert interpreter.active() == interpreter.Settings(seed=4)
        with interpreter.interpret():
            assert interpreter.active().seed == 0
        assert interpreter.active().seed == 4
        assert outside.run(interpreter.active) is None
    assert interpreter.active() is None


def test_the_environment_turns_it_on(environment):
    environment(HOPPER_NUMBA_INTERPRET="1")
    assert interpreter.active() == interpreter.Settings(0)
    environment(HOPPER_NUMBA_SEED="12")
    assert interpreter.active() == interpreter.Settings(12)
    environment(HOPPER_NUMBA_SEED="many")
    with pytest.raises(ValueError, match="HOPPER_NUMBA_SEED must be an integer of at least 0; got 'many'"):
        interpreter.active()
    environment(HOPPER_NUMBA_INTERPRET="yes")
    with pytest.raises(ValueError, match="HOPPER_NUMBA_INTERPRET must be 0 or 1; got 'yes'"):
        interpreter.active()


@pytest.mark.parametrize("seed", [-1, 1.0, True, "1"])
def test_a_seed_is_a_natural_number(seed):
    with pytest.raises(ValueError, match="seed must be an integer of at least 0"), interpreter.interpret(seed=seed):
        pass


def test_a_launch_takes_the_seed_of_interpret():
    def kernel(order, position):
        order[position[0]] = cuda.threadIdx.x
        position[0] += 1

    def order(**options):
        found, position = np.zeros(64, np.int64), np.zeros(1, np.int64)
        run(kernel, found, position, threads=64, check=False, **options)
        return found.tolist()

    with interpreter.interpret(seed=5):
        chosen = order()
    assert chosen == order(seed=5) != order()


def test_a_launch_inside_a_kernel_is_refused():
    def kernel():
        interpreter.run(kernel, (), 1, 1)

    with pytest.raises(RuntimeError, match="cannot launch another"):
        run(kernel, threads=1)
