"""Stand-ins for what `numba.cuda` needs a GPU for: kernels and host code run as they are, and nothing stays behind."""

import time

import numpy as np
import pytest
from numba import cuda, float32, void
from numba.cuda.dispatcher import CUDADispatcher

import hopper_numba
from hopper_numba import interpreter
from hopper_numba.stand_ins import StandInArray, stand_ins

NAMES = ["jit", "to_device", "device_array", "device_array_like", "pinned_array", "synchronize", "stream", "event"]


@pytest.fixture
def installed():
    with stand_ins():
        yield


@cuda.jit
def plain(x, factor):
    i = cuda.grid(1)
    if i < x.shape[0]:
        x[i] = x[i] * factor


def test_everything_is_put_back():
    before = [vars(cuda)[name] for name in NAMES], dict(vars(CUDADispatcher))
    with stand_ins():
        assert all(vars(cuda)[name] is not one for name, one in zip(NAMES, before[0], strict=True))
        with pytest.raises(KeyError), stand_ins():
            raise KeyError
        plain[1, 8](np.ones(8), 2)
    assert ([vars(cuda)[name] for name in NAMES], dict(vars(CUDADispatcher))) == before


def launch(x):
    plain[2, 8](x, 3)


def launch_on_a_stream(x):
    plain[2, 8, cuda.stream()](x, 3)


def launch_with_tuples(x):
    plain[(2, 1), (8, 1, 1), 0, 16](x, 3)


def launch_configured(x):
    plain.configure(2, 8, stream=cuda.default_stream(), sharedmem=0)(x, 3)


def launch_for_all(x):
    plain.forall(13)(x, 3)
    plain.forall(0)(x, 3)


def launch_for_all_in_blocks(x):
    plain.forall(13, tpb=4)(x, 3)


def launch_what_is_made_here(x):
    @cuda.jit(fastmath=True)
    def kernel(x):
        x[cuda.grid(1)] *= 3

    kernel[1, 13](x)


def launch_with_hints(x):
    plain[2, 8](cuda.InOut(x), 3)


ROUTES = [launch, launch_on_a_stream, launch_with_tuples, launch_configured, launch_for_all, launch_for_all_in_blocks]
ROUTES += [launch_what_is_made_here, launch_with_hints]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.__name__)
def test_a_plain_kernel_is_interpreted_however_it_is_launched(installed, route):
    x = np.arange(13, dtype=np.float32)
    with interpreter.interpret() as settings:
        route(x)
    assert x.tolist() == [3 * i for i in range(13)]
    assert sum(settings.launches.values()) == 1


@pytest.mark.parametrize("signature", ["void(float32[:])", void(float32[:]), [void(float32[:])]], ids=type)
def test_a_kernel_with_a_signature_is_not_compiled(installed, signature):
    @cuda.jit("float32(float32)", device=True)
    def twice(x):
        return 2 * x

    @cuda.jit(signature)
    def kernel(x):
        x[cuda.grid(1)] = twice(x[cuda.grid(1)])

    x = np.ones(4, np.float32)
    kernel[1, 4](x)
    assert x.tolist() == [2] * 4


def test_hazards_are_found(installed):
    @cuda.jit
    def racing(x):
        x[0] = cuda.threadIdx.x

    with interpreter.interpret(collect=True) as settings:
        racing[1, 64](cuda.to_device(np.zeros(1)))
    assert {hazard.kind for hazard in settings.hazards} == {"data-race"}
    with pytest.raises(interpreter.HazardError, match="data-race"):
        racing[1, 64](np.zeros(1))


def test_a_hopper_kernel_takes_the_arrays_too(installed):
    a = cuda.to_device(np.eye(64, dtype=np.float16))
    b = cuda.to_device(np.arange(64 * 64, dtype=np.float16).reshape(64, 64) % 7)
    with interpreter.interpret():
        c = hopper_numba.matmul(a, b.T, stream=cuda.stream())
    np.testing.assert_array_equal(c.copy_to_host(), np.asarray(b).T)


def test_what_is_too_much_shared_memory_for_a_plain_kernel_is_refused(installed):
    with pytest.raises(ValueError, match=r"plain: .* at most 49152 bytes of dynamic shared memory; got 49153"):
        plain[1, 1, 0, 49153]
    plain[1, 1, 0, 49152](np.ones(1), 2)


def test_arrays_are_copied_to_and_fro(installed):
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    array = cuda.to_device(host)
    array[0, 0] = 7
    assert host[0, 0] == 0
    back = array.copy_to_host()
    assert type(back) is np.ndarray
    assert back.tolist() == [[7, 1, 2], [3, 4, 5]]
    back[0, 0] = 8
    assert array[0, 0] == 7
    assert array.copy_to_host(host) is host
    assert host[0, 0] == 7
    array.copy_to_device(2 * host, stream=cuda.stream())
    assert array[1].copy_to_host().tolist() == [6, 8, 10]
    assert cuda.to_device(host, to=array) is array
    assert array.T.copy_to_host().tolist() == host.T.tolist()
    assert array.is_c_contiguous() and not array.is_f_contiguous() and array.T.is_f_contiguous()


@pytest.mark.parametrize(("other", "error"), [(np.zeros(4), TypeError), (np.zeros(1, np.float32), ValueError)])
def test_copies_between_arrays_that_differ_are_refused(installed, other, error):
    array = cuda.device_array(4, np.float32)
    for copy in (array.copy_to_host, array.copy_to_device):
        with pytest.raises(error, match="incompatible"):
            copy(other)


def test_arrays_are_made_as_asked(installed):
    turned = cuda.device_array((4, 8), np.float16, order="F")
    assert isinstance(turned, StandInArray)
    assert (turned.shape, turned.strides, turned.dtype) == ((4, 8), (2, 8), np.float16)
    assert cuda.device_array_like(turned).strides == (2, 8)
    assert cuda.device_array(3).dtype == np.float64
    pinned = cuda.pinned_array((4, 8), np.int8)
    assert type(pinned) is np.ndarray and pinned.shape == (4, 8)
    with cuda.pinned(pinned):
        assert cuda.pinned_array_like(turned).dtype == np.float16


def test_streams_and_events(installed):
    stream, begin, end = cuda.stream(), cuda.event(), cuda.event(timing=True)
    with stream.auto_synchronize() as same:
        begin.record(same)
        with pytest.raises(ValueError, match="both events must be recorded"):
            begin.elapsed_time(end)
        time.sleep(0.002)
        end.record()
    end.wait(stream)
    end.synchronize()
    stream.synchronize()
    cuda.synchronize()
    assert end.query()
    assert cuda.event_elapsed_time(begin, end) == begin.elapsed_time(end) >= 2


def test_the_device_is_a_hopper_gpu(installed):
    assert cuda.is_available()
    device = cuda.get_current_device()
    assert (device.compute_capability, device.MULTIPROCESSOR_COUNT) == ((9, 0), 132)


class Foreign:
    """An array in GPU memory, as CuPy and Torch have them."""

    __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}  # noqa: RUF012


def test_arrays_of_others_are_refused_by_name(installed):
    with pytest.raises(TypeError, match=r"argument x: the interpreter takes NumPy arrays, .*; got Foreign"):
        plain[1, 4](Foreign(), 2)
