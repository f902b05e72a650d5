"""Views of arrays of every kind, as far as they can be made without a GPU."""

import sys
from types import ModuleType, SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from cuda.core.utils import StridedMemoryView

from hopper_numba import arrays, kinds
from hopper_numba.arrays import DeviceArray, HostArray, c_order
from hopper_numba.kinds import device_array, kind_of, view
from hopper_numba.streams import stream_handle

FLOAT16, BFLOAT16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)


# NumPy ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=str)
def test_numpy_view(dtype):
    array = np.zeros((6, 16), dtype)[1::2, 8:]
    found = view(array)
    assert isinstance(found, HostArray)
    assert (found.ptr, found.shape, found.strides) == (array.ctypes.data, (3, 8), (64, 2))
    assert (found.dtype, found.device, found.readonly) == (dtype, None, False)
    assert found.owner is array


def test_numpy_read_only():
    array = np.zeros(4)
    array.flags.writeable = False
    assert view(array).readonly


def test_numpy_subclass_is_seen_as_an_array():
    class Named(np.ndarray):
        pass

    array = np.zeros((2, 3)).view(Named)
    assert type(view(array).owner) is np.ndarray
    assert np.shares_memory(view(array).owner, array)


def test_masked_array_is_refused():
    with pytest.raises(TypeError, match="b must not be a masked array"):
        view(np.ma.zeros(3), "b")


@pytest.mark.parametrize("value", [None, 3.0, [[1.0, 2.0]], "abc", np.float16(1)])
def test_what_is_no_array_is_refused(value):
    with pytest.raises(TypeError, match=r"a must be an array of NumPy, CuPy, Torch, JAX or Numba, .*; got"):
        view(value, "a")


def test_host_memory_is_no_device_array():
    with pytest.raises(TypeError, match=r"argument must be in GPU memory; got a numpy\.ndarray in host memory"):
        device_array(np.zeros(3), "argument")


# Protocols -----------------------------------------------------------------------------------------------------------


class Exporter:
    """An array of which nothing but DLPack is known."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


def test_dlpack_of_host_memory():
    array = np.arange(12, dtype=np.float16).reshape(3, 4)
    found = view(Exporter(array))
    assert isinstance(found, HostArray)
    assert (found.ptr, found.shape, found.strides) == (array.ctypes.data, (3, 4), (8, 2))


def test_dlpack_of_other_memory_is_refused():
    with pytest.raises(TypeError, match=r"a, a .*Exporter, cannot be read as GPU memory: .* device type 10"):
        view(Exporter(np.zeros(3), (10, 0)), "a")


def test_cuda_array_interface_names_its_stream():
    def producer(stream):
        return SimpleInterface({"stream": stream} if stream else {})

    assert [kind_of(producer(s)).stream(producer(s)) for s in (None, 1, 2, 77)] == [None, 0, 2, 77]


class SimpleInterface:
    def __init__(self, interface):
        self.__cuda_array_interface__ = interface

    __cuda_array_interface__ = None


# Device arrays -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((3, 8), (16, 2), True),
        ((3, 8), (32, 2), False),
        ((3, 8), (2, 6), False),
        ((1, 8), (999, 2), True),
        ((8, 1), (2, 999), True),
        ((0, 8), (1, 1), True),
        ((4,), (2,), True),
        ((), (), True),
    ],
)
def test_is_contiguous(shape, strides, expected):
    assert DeviceArray(0, shape, strides, FLOAT16, 0).is_contiguous is expected


def test_transposed_view():
    array = DeviceArray(256, (3, 8), (32, 2), FLOAT16, 1, True, stream=5)
    assert (array.T.ptr, array.T.shape, array.T.strides) == (256, (8, 3), (2, 32))
    assert (array.T.device, array.T.readonly, array.T.owner, array.T.stream) == (1, True, array, 5)


def test_layout_in_c_order():
    layout = c_order((2, 3, 4), FLOAT16, 1)
    array = layout.at(512, "owner", 3)
    assert isinstance(array, DeviceArray)
    assert (array.ptr, array.shape, array.strides, array.dtype) == (512, (2, 3, 4), (24, 8, 2), FLOAT16)
    assert (array.device, array.readonly, array.owner, array.stream) == (1, False, "owner", 3)


def test_views_view_themselves():
    array = DeviceArray(512, (2, 3), (6, 2), FLOAT16, 0)
    assert view(array) is array
    assert device_array(array) is array


@pytest.mark.parametrize(("stream", "expected"), [(None, None), (0, 1), (2, 2), (99, 99)])
def test_cuda_array_interface(stream, expected):
    interface = DeviceArray(256, (3, 8), (16, 2), FLOAT16, 0, True, stream=stream).__cuda_array_interface__
    assert interface == {
        "version": 3,
        "shape": (3, 8),
        "strides": None,
        "typestr": "<f2",
        "data": (256, True),
        "stream": expected,
    }


def test_cuda_array_interface_has_no_code_for_bfloat16():
    interface = DeviceArray(256, (3, 8), (32, 2), BFLOAT16, 0).__cuda_array_interface__
    assert (interface["typestr"], interface["strides"]) == ("|V2", (32, 2))


def test_dlpack_moves_nothing():
    array = DeviceArray(256, (3, 8), (16, 2), FLOAT16, 3)
    assert array.__dlpack_device__() == (2, 3)
    with pytest.raises(BufferError, match="exports its memory as it is; got copy=True"):
        array.__dlpack__(copy=True)
    with pytest.raises(BufferError, match=r"dl_device=\(1, 0\)"):
        array.__dlpack__(dl_device=(1, 0))


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_bfloat16_gets_its_code_in_a_capsule(version):
    bits = np.array([[0x3F80, 0x4000]], np.uint16)

    class Patched(Exporter):
        def __dlpack__(self, **options):
            capsule = StridedMemoryView.from_dlpack(bits, stream_ptr=-1).__dlpack__(max_version=version)
            arrays._call_bfloat16(capsule)
            return capsule

    found = StridedMemoryView.from_dlpack(Patched(bits), stream_ptr=-1)
    assert (found.dtype, found.shape, found.ptr) == (BFLOAT16, (1, 2), bits.ctypes.data)


# Streams -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (0, 0),
        (1, 0),
        (2, 2),
        (1234, 1234),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 77)), 77),
        (SimpleNamespace(cuda_stream=88), 88),
    ],
)
def test_stream_handle(stream, handle):
    assert stream_handle(stream) == handle


@pytest.mark.parametrize("stream", ["0", -1, True, 1.0])
def test_what_is_no_stream_is_refused(stream):
    with pytest.raises(TypeError, match="stream must be a handle or an object with __cuda_stream__; got"):
        stream_handle(stream)


# Torch and CuPy, or what looks like them: neither is installed for the tests ------------------------------------------


@pytest.fixture
def torch(monkeypatch):
    """A module with just what a view takes, whose tensors claim to be in GPU memory."""
    module = ModuleType("torch")
    for name in ("float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bfloat16"):
        setattr(module, name, f"torch.{name}")
    module.strided = "strided"
    module.is_grad_enabled = lambda: True
    module._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 70 + device)

    class Tensor:
        dtype, layout, requires_grad, is_cuda = module.float16, module.strided, False, True
        shape, device = (3, 8), SimpleNamespace(type="cuda")

        def __init__(self, **attributes):
            self.__dict__.update(attributes)

        def is_neg(self):
            return False

        def data_ptr(self):
            return 4096

        def stride(self):
            return 16, 1

        def get_device(self):
            return 1

    Tensor.__module__ = "torch"
    module.Tensor = Tensor
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(kinds, "_of_type", {})
    monkeypatch.setattr(kinds, "_the", lambda kind: kind())
    return module


def test_torch_view(torch):
    tensor = torch.Tensor(dtype=torch.bfloat16)
    found = view(tensor)
    assert isinstance(found, DeviceArray)
    assert (found.ptr, found.shape, found.strides, found.dtype) == (4096, (3, 8), (32, 2), BFLOAT16)
    assert (found.device, found.readonly, found.owner) == (1, False, tensor)
    assert kind_of(tensor).stream(tensor) == 71


def test_a_type_is_looked_up_once(torch):
    assert kind_of(torch.Tensor()) is kind_of(torch.Tensor())


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"requires_grad": True}, r"a requires a gradient, and none is recorded here; pass its detach\(\)"),
        ({"is_neg": lambda: True}, r"a holds its elements with the sign yet to be changed; pass its resolve_neg\(\)"),
        ({"layout": "sparse_coo"}, "a must be a dense tensor; got layout sparse_coo"),
        ({"dtype": "torch.complex64"}, "a: no kernel takes tensors of torch.complex64"),
        (
            {"is_cuda": False, "device": SimpleNamespace(type="meta")},
            "a must be a tensor in GPU or host memory; got one on",
        ),
    ],
)
def test_torch_tensors_that_are_not_what_they_hold_are_refused(torch, attributes, message):
    with pytest.raises(TypeError, match=message):
        view(torch.Tensor(**attributes), "a")


def test_torch_gradients_do_not_matter_where_none_are_recorded(torch):
    torch.is_grad_enabled = lambda: False
    assert view(torch.Tensor(requires_grad=True)).ptr == 4096


def test_cupy_view(monkeypatch):
    module = ModuleType("cupy")
    module.cuda = SimpleNamespace(get_current_stream=lambda device: SimpleNamespace(ptr=50 + device))

    class ndarray:
        shape, strides, dtype = (3, 8), (32, 2), FLOAT16
        data = SimpleNamespace(ptr=8192, device_id=1)

    ndarray.__module__ = "cupy._core.core"
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(kinds, "_the", lambda kind: kind())
    array = ndarray()
    found = view(array)
    assert (found.ptr, found.shape, found.strides, found.device) == (8192, (3, 8), (32, 2), 1)
    assert found.owner is array
    assert kind_of(array).stream(array) == 51


def test_torch_host_tensors():
    torch = pytest.importorskip("torch")
    for dtype, expected in ((torch.float16, FLOAT16), (torch.bfloat16, BFLOAT16)):
        tensor = torch.arange(24, dtype=dtype).reshape(3, 8)[:, 2:]
        found = view(tensor)
        assert isinstance(found, HostArray)
        assert (found.ptr, found.strides, found.dtype) == (tensor.data_ptr(), (16, 2), expected)
        np.testing.assert_array_equal(found.owner.astype(np.float32), tensor.float().numpy())
        result = kind_of(tensor).empty(tensor, c_order((2, 8), expected, None), 0)
        result.owner[...] = 3
        delivered = kind_of(tensor).deliver(result)
        assert (delivered.dtype, delivered.tolist()) == (dtype, [[3.0] * 8] * 2)


def test_jax_host_arrays():
    jax = pytest.importorskip("jax")
    array = jax.numpy.ones((3, 8), jax.numpy.bfloat16)
    found = view(array)
    assert isinstance(found, HostArray)
    assert (found.shape, found.dtype, found.readonly) == ((3, 8), BFLOAT16, True)
