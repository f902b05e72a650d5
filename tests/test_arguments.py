"""What a launch hands to the driver, read back from where the driver would read it."""

import ctypes
import struct
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from cuda.bindings import driver
from numba.cuda import types

from hopper_numba import TensorMap, arguments, tile
from hopper_numba.arguments import ADDRESS, BoundLaunch, Configuration, as_parameters
from hopper_numba.arrays import DeviceArray

FUNCTION = driver.CUfunction(5)
PLAIN = Configuration(FUNCTION, (1,), (32,), (1, 1, 1), 0, 0)


def on_gpu(shape, strides, dtype=np.float16, ptr=0x7000):
    return DeviceArray(ptr, shape, strides, np.dtype(dtype), 0)


@pytest.mark.parametrize(
    ("value", "ty"),
    [
        (3, types.int64),
        (-(2**63), types.int64),
        (2.5, types.float64),
        (True, types.boolean),
        (np.float32(1.5), types.float32),
        (np.uint8(7), types.uint8),
        (on_gpu((3, 4), (8, 2)), types.Array(types.float16, 2, "C")),
        (on_gpu((3, 4), (16, 2), ml_dtypes.bfloat16), types.Array(types.bfloat16, 2, "A")),
        (on_gpu((5,), (2,)), types.Array(types.float16, 1, "C")),
    ],
)
def test_types(value, ty):
    assert as_parameters(value, "x")[0] == ty


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_integers_that_do_not_fit_are_refused(value):
    with pytest.raises(OverflowError, match=f"integers of 64 bits; got {value}"):
        as_parameters(value, "x")


@pytest.fixture
def launched(monkeypatch):
    """The calls of cuLaunchKernel."""
    calls = []

    def launch(*call):
        calls.append(call)
        return (driver.CUresult.CUDA_SUCCESS,)

    fake = SimpleNamespace(cuLaunchKernel=launch, CUtensorMap=driver.CUtensorMap)
    monkeypatch.setattr(arguments, "driver", fake)
    return calls


def read(call, formats):
    """The parameters of a call, each as the format says."""
    pointers = (ctypes.c_void_p * len(formats)).from_address(call[-2])
    return [
        struct.unpack(f, ctypes.string_at(pointer, struct.calcsize(f)))[0]
        for f, pointer in zip(formats, pointers, strict=True)
    ]


def test_parameters_lie_where_the_driver_reads_them(launched):
    array = on_gpu((3, 4), (16, 2))
    parameters, addresses = [], []
    for value in (7, array, 2.5, True, np.float32(1.5)):
        addresses.append(len(parameters) + ADDRESS)
        parameters += as_parameters(value, "x")[1]
    bound = BoundLaunch(Configuration(FUNCTION, (2, 3), (128,), (1, 1, 1), 4096, 9), parameters, addresses, 0)
    bound()
    formats = ["q", *"qqqqqqqqq", "d", "?", "f"]
    wanted = [7, 0, 0, 12, 2, 0x7000, 3, 4, 16, 2, 2.5, True, 1.5]
    assert read(launched[0], formats) == wanted
    assert launched[0][1:9] == (2, 3, 1, 128, 1, 1, 4096, 9)
    bound.replace_address(1, 0x9000)
    bound()
    wanted[5] = 0x9000
    assert read(launched[1], formats) == wanted


def test_a_tensor_map_is_read_in_place(launched):
    encoded = driver.CUtensorMap()
    tensor_map = TensorMap(on_gpu((64, 64), (128, 2)), tile("float16", (64, 64)))
    tensor_map._encoded = encoded
    _, parameters, device = as_parameters(tensor_map, "a")
    bound = BoundLaunch(PLAIN, parameters, [ADDRESS], device)
    bound()
    assert (ctypes.c_void_p * 1).from_address(launched[0][-2])[0] == encoded.getPtr()


def test_a_cluster_is_a_launch_attribute():
    configuration = Configuration(FUNCTION, (4, 2), (128,), (2, 2, 1), 4096, 9)
    launch, (config, function, parameters, _) = configuration.call(0x1234)
    assert launch is driver.cuLaunchKernelEx and function is FUNCTION and parameters == 0x1234
    assert (config.gridDimX, config.gridDimY, config.gridDimZ) == (4, 2, 1)
    assert (config.blockDimX, config.blockDimY, config.blockDimZ) == (128, 1, 1)
    assert (config.sharedMemBytes, int(config.hStream), config.numAttrs) == (4096, 9, 1)
    (attribute,) = config.attrs
    assert attribute.id == driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    cluster = attribute.value.clusterDim
    assert (cluster.x, cluster.y, cluster.z) == (2, 2, 1)


def test_what_the_driver_refuses_is_an_error(monkeypatch):
    refused = (driver.CUresult.CUDA_ERROR_INVALID_VALUE,)
    monkeypatch.setattr(arguments, "driver", SimpleNamespace(cuLaunchKernel=lambda *call: refused, CUtensorMap=int))
    bound = BoundLaunch(PLAIN, [1.0], [], 0)
    with pytest.raises(RuntimeError, match="cuLaunchKernel: CUDA_ERROR_INVALID_VALUE"):
        bound()
