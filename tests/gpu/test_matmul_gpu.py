"""`matmul` on the GPU: every kind of array, streams, threads, results that repeat."""

import threading

import ml_dtypes
import numpy as np
import pytest

import hopper_numba
from hopper_numba import interpret, matmul
from hopper_numba.arrays import DeviceArray
from hopper_numba.copies import to_device
from hopper_numba.matmul import STAGES, dtypes_of
from hopper_numba.streams import stream_of

pytestmark = pytest.mark.gpu

FLOAT16, BFLOAT16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
FUNCTIONS = {stage: getattr(hopper_numba, f"matmul_{stage}") for stage in STAGES}
EVERY = [(stage, dtype) for stage in STAGES for dtype in dtypes_of(stage)]
# what errors may be: of the result, and for each product, as the demo has them
RELATIVE, PER_PRODUCT = {FLOAT16: 2.0**-10, BFLOAT16: 2.0**-7}, {"float32": 2.0**-20, "float16": 2.0**-10}
M, N, K = 200, 328, 264


def normal(shape, dtype=FLOAT16, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def assert_product(c, a, b, accumulate="float32"):
    reference = a.astype(np.float64) @ b.astype(np.float64)
    allowed = RELATIVE[a.dtype] * np.abs(reference) + a.shape[1] * PER_PRODUCT[accumulate]
    error = np.abs(c.astype(np.float64) - reference)
    assert c.shape == reference.shape
    assert np.all(error <= allowed), f"largest error {np.nanmax(error)}, {np.isnan(error).sum()} NaNs"


# Kinds: how a library gets an array, gives it back, and what its arrays are ------------------------------------------


class NumPy:
    def make(self, host):
        return host

    def host(self, array):
        return array

    def type(self):
        return np.ndarray


class Torch:
    def __init__(self):
        self.torch = pytest.importorskip("torch")

    def make(self, host):
        if host.dtype == BFLOAT16:
            return self.torch.from_numpy(host.view(np.int16)).cuda().view(self.torch.bfloat16)
        return self.torch.from_numpy(host).cuda()

    def host(self, array):
        if array.dtype is self.torch.bfloat16:
            return array.cpu().view(self.torch.int16).numpy().view(BFLOAT16)
        return array.cpu().numpy()

    def type(self):
        return self.torch.Tensor


class CuPy:
    def __init__(self):
        self.cupy = pytest.importorskip("cupy")

    def make(self, host):
        return self.cupy.asarray(host)

    def host(self, array):
        return self.cupy.asnumpy(array)

    def type(self):
        return self.cupy.ndarray


class Numba:
    def __init__(self):
        from numba import cuda

        self.cuda = cuda

    def make(self, host):
        return self.cuda.to_device(host)  # keeps the order of K-major operands; its .T would copy

    def host(self, array):
        return array.copy_to_host()

    def type(self):
        return self.cuda.devicearray.DeviceNDArray


class Jax:
    def __init__(self):
        self.jax = pytest.importorskip("jax")
        if self.jax.default_backend() != "gpu":
            pytest.skip("JAX sees no GPU")

    def make(self, host):
        return self.jax.device_put(host)

    def host(self, array):
        return np.asarray(array)

    def type(self):
        return self.jax.Array


class Own:
    """`DeviceArray`, as results of kinds without an allocator are."""

    def make(self, host):
        is_transposed = not host.flags.c_contiguous
        array = to_device(host.T if is_transposed else host, 0, 0)
        return array.T if is_transposed else array

    def host(self, array):
        torch = pytest.importorskip("torch")
        return Torch().host(torch.from_dlpack(array))

    def type(self):
        return DeviceArray


class OnlyDLPack(Own):
    class Array:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    def make(self, host):
        return self.Array(Torch().make(host))


class OnlyInterface(Own):
    class Array:
        def __init__(self, array):
            self.array = array

        @property
        def __cuda_array_interface__(self):
            return self.array.__cuda_array_interface__

    def make(self, host):
        return self.Array(super().make(host))  # Torch's own interface is of an older version


KINDS = [NumPy, Torch, CuPy, Numba, Own, OnlyDLPack, OnlyInterface]
WITH_JAX = [*KINDS, Jax]


def name(kind):
    return kind.__name__


@pytest.mark.parametrize("b_kind", KINDS, ids=name)
@pytest.mark.parametrize("a_kind", WITH_JAX, ids=name)
def test_kinds(a_kind, b_kind):
    a_kind, b_kind = a_kind(), b_kind()
    a, b = normal((M, K)), normal((N, K), seed=1).T
    c = matmul(a_kind.make(a), b_kind.make(b))
    assert isinstance(c, a_kind.type())
    assert_product(a_kind.host(c), a, b)


@pytest.mark.parametrize("kind", [NumPy, Torch, Jax, Own, OnlyDLPack], ids=name)
def test_bfloat16(kind):
    kind = kind()
    a, b = normal((M, K), BFLOAT16), normal((N, K), BFLOAT16, 1).T
    c = matmul(kind.make(a), b)
    assert isinstance(c, kind.type())
    assert_product(kind.host(c), a, b)


@pytest.mark.parametrize("kind", [NumPy, Torch, CuPy, Numba, Own], ids=name)
def test_out(kind):
    kind = kind()
    a, b = normal((M, K)), normal((N, K), seed=1).T
    out = kind.make(np.full((M, N), np.nan, FLOAT16))
    assert matmul(Torch().make(a), b, out) is out
    assert_product(kind.host(out), a, b)


@pytest.mark.parametrize("kind", [NumPy, Torch, CuPy], ids=name)
def test_out_inside_a_larger_array(kind):
    kind = kind()
    a, b = normal((M, K)), normal((N, K), seed=1).T
    base = kind.make(np.full((M + 2, N + 24), np.nan, FLOAT16))
    out = base[1:-1, 8 : 8 + N]
    assert matmul(kind.make(a), kind.make(b), out=out) is out
    assert_product(kind.host(out), a, b)
    inside = np.zeros(base.shape, bool)
    inside[1:-1, 8 : 8 + N] = True
    np.testing.assert_array_equal(np.isnan(kind.host(base)), ~inside)


def test_a_jax_array_is_not_written_to():
    kind = Jax()
    a, b = kind.make(normal((M, K))), normal((N, K), seed=1).T
    with pytest.raises(ValueError, match="out must be writable"):
        matmul(a, b, kind.make(normal((M, N))))


# Shapes --------------------------------------------------------------------------------------------------------------

SHAPES = [(1, 8, 8), (5, 24, 40), (128, 128, 64), (300, 520, 72), (130, 8, 1000), (1000, 2504, 4136), (4099, 1016, 328)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("stage", "dtype"), EVERY, ids=str)
def test_shapes(stage, dtype, shape):
    m, n, k = shape
    a, b = normal((m, k), dtype), normal((n, k), dtype, 1).T
    assert_product(FUNCTIONS[stage](a, b), a, b, STAGES[stage].ACCUMULATE)


@pytest.mark.parametrize("shape", [(512, 1024, 2048), (1000, 2504, 4136), (4096, 4096, 4096)], ids=str)
@pytest.mark.parametrize(("stage", "dtype"), EVERY, ids=str)
def test_errors(stage, dtype, shape):
    """No less accurate than cuBLAS; in float16 within what is published."""
    torch = pytest.importorskip("torch")
    from hopper_numba.measuring.contenders import contender
    from hopper_numba.measuring.problem import Problem, accuracy

    _, wrong = accuracy(Problem(*shape, getattr(torch, dtype.name)), contender(stage))
    assert wrong == ""


@pytest.mark.parametrize("stage", STAGES)
def test_views_with_an_offset(stage):
    kind = Torch()
    a, x = np.full((M + 3, K + 64), np.nan, FLOAT16), np.full((N + 5, K + 8), np.nan, FLOAT16)
    a[2:-1, 40 : 40 + K], x[5:, 8:] = normal((M, K)), normal((N, K), seed=1)
    c = FUNCTIONS[stage](kind.make(a)[2:-1, 40 : 40 + K], kind.make(x)[5:, 8:].T)
    assert_product(kind.host(c), a[2:-1, 40 : 40 + K], x[5:, 8:].T, STAGES[stage].ACCUMULATE)


@pytest.mark.parametrize("stage", STAGES)
def test_out_of_any_stride_and_place(stage):
    """Nothing but `out` is written; geometries and places change from call to call."""
    torch = pytest.importorskip("torch")
    a, b = normal((M, K)), normal((N, K), seed=1).T
    x, y = Torch().make(a), Torch().make(b)
    for columns, left, top in ((N, 0, 0), (N + 24, 8, 1), (N + 24, 16, 2), (N + 8, 0, 1), (N, 0, 2)):
        base = torch.full((M + 2, columns), torch.nan, dtype=torch.float16, device="cuda")
        out = base[top : top + M, left : left + N]
        assert FUNCTIONS[stage](x, y, out=out) is out
        assert_product(Torch().host(out), a, b, STAGES[stage].ACCUMULATE)
        out.fill_(torch.nan)
        assert base.isnan().all()


@pytest.mark.parametrize("stage", STAGES)
def test_single_rows_of_any_stride(stage):
    """The stride of a single row says nothing."""
    torch = pytest.importorskip("torch")
    a, b = normal((1, K)), normal((N, K), seed=1).T
    for stride in (1, 3, N, N + 8):
        base = torch.full((2 * N,), torch.nan, dtype=torch.float16, device="cuda")
        out = base.as_strided((1, N), (stride, 1))
        FUNCTIONS[stage](Torch().make(a).as_strided((1, K), (stride, 1)), Torch().make(b), out=out)
        assert_product(Torch().host(out), a, b, STAGES[stage].ACCUMULATE)
        assert base[N:].isnan().all()


@pytest.mark.parametrize("stage", STAGES)
def test_a_sum_of_nothing_is_zero(stage):
    torch = pytest.importorskip("torch")
    empty, out = torch.empty(5, 0, dtype=torch.float16, device="cuda"), torch.full((5, 24), torch.nan, device="cuda")
    assert not FUNCTIONS[stage](empty, empty.new_empty(0, 24), out=out.half()).any()
    assert FUNCTIONS[stage](empty.new_empty(0, 8), empty.new_empty(8, 24)).shape == (0, 24)


@pytest.mark.parametrize("kind", [NumPy, Torch, CuPy, Own], ids=name)
@pytest.mark.parametrize(("m", "n", "k"), [(0, 8, 8), (8, 0, 8), (8, 24, 0), (3, 5, 0)])
def test_empty_sums(kind, m, n, k):
    kind = kind()
    # to_device copies nothing that is empty
    a = DeviceArray(0, (m, k), (2 * k, 2), FLOAT16, 0) if kind.type() is DeviceArray else kind.make(normal((m, k)))
    c = matmul(a, Torch().make(normal((k, n))))
    assert tuple(c.shape) == (m, n)
    if m and n:
        assert not kind.host(c).any()


def test_zeros_into_padded_rows():
    torch = pytest.importorskip("torch")
    base = torch.full((6, 24), torch.nan, dtype=torch.float16, device="cuda")
    empty = torch.empty(6, 0, dtype=torch.float16, device="cuda")
    matmul(empty, empty.new_empty(0, 16), out=base[:, 8:])
    assert not base[:, 8:].any()
    assert base[:, :8].isnan().all()


# Refusals that need real arrays --------------------------------------------------------------------------------------


def test_torch_tensors_that_are_refused():
    torch = pytest.importorskip("torch")
    a, b = torch.zeros(M, K, dtype=torch.float16), torch.zeros(N, K, dtype=torch.float16).T
    with pytest.raises(TypeError, match="a is in host memory; only NumPy arrays are copied"):
        matmul(a, b.cuda())
    with pytest.raises(TypeError, match="b requires a gradient"):
        matmul(a.cuda(), b.cuda().requires_grad_())
    with torch.no_grad():
        matmul(a.cuda(), b.cuda().requires_grad_())
    with interpret(), pytest.raises(TypeError, match="the interpreter takes arrays in host memory; a is on GPU 0"):
        matmul(a.cuda(), b)


def test_overlap():
    torch = pytest.importorskip("torch")
    x = torch.zeros(64, 64, dtype=torch.float16, device="cuda")
    with pytest.raises(ValueError, match="out must not overlap b"):
        matmul(torch.zeros_like(x), x.T, out=x)


def test_writing_a_tensor_that_a_backward_pass_needs_is_noticed():
    torch = pytest.importorskip("torch")
    out = torch.ones(64, 64, dtype=torch.float16, device="cuda")
    weight = torch.ones(64, 64, dtype=torch.float16, device="cuda", requires_grad=True)
    product = (out * weight).sum()
    operand = torch.ones(64, 64, dtype=torch.float16, device="cuda")
    matmul(operand, operand.clone().T, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


# Streams -------------------------------------------------------------------------------------------------------------

LONG = 200_000_000  # clock cycles: 100 ms


def test_the_current_stream_of_torch_is_used():
    """What is queued on it before is waited for; the default stream has nothing to do with it."""
    torch = pytest.importorskip("torch")
    a, b = normal((M, K)), normal((N, K), seed=1).T
    a_right, b_right = Torch().make(a), Torch().make(b)
    a_late, b_late = torch.zeros_like(a_right), torch.zeros_like(b_right.T).T
    matmul(a_late, b_late)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(LONG)
        a_late.copy_(a_right)
        b_late.copy_(b_right)
        c = matmul(a_late, b_late)
        assert not side.query()  # nothing was waited for on the host
        a_late.zero_()
        b_late.zero_()
        c = c.clone()
    side.synchronize()
    assert_product(Torch().host(c), a, b)


@pytest.mark.parametrize("as_handle", [False, True])
def test_a_stream_is_chosen(as_handle):
    torch = pytest.importorskip("torch")
    a, b = normal((M, K)), normal((N, K), seed=1).T
    a_right, b_right = Torch().make(a), Torch().make(b)
    a_late = torch.zeros_like(a_right)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(LONG)
        a_late.copy_(a_right)
    c = matmul(a_late, b_right, stream=side.cuda_stream if as_handle else side)
    assert not side.query()
    side.synchronize()
    assert_product(Torch().host(c), a, b)


def test_work_on_two_libraries_streams_is_put_in_order():
    torch, cupy = pytest.importorskip("torch"), pytest.importorskip("cupy")
    a, b = normal((M, K)), normal((N, K), seed=1).T
    a_right, b_right = Torch().make(a), CuPy().make(b)
    a_late, b_late = torch.zeros_like(a_right), cupy.zeros_like(b_right.T).T
    torch.cuda.synchronize()
    torch_stream, cupy_stream = torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
    with torch.cuda.stream(torch_stream), cupy_stream:
        with torch.cuda.stream(torch.cuda.ExternalStream(cupy_stream.ptr)):
            torch.cuda._sleep(LONG)
        b_late[...] = b_right
        a_late.copy_(a_right)
        c = matmul(a_late, b_late)
        b_late[...] = cupy.nan  # must not be seen by the product
        a_late.fill_(torch.nan)
    torch_stream.synchronize()
    assert isinstance(c, torch.Tensor)
    assert_product(Torch().host(c), a, b)


def test_a_result_can_be_used_on_another_stream_by_dlpack():
    torch = pytest.importorskip("torch")
    a, b = normal((M, K)), normal((N, K), seed=1).T
    own = Own()
    x, y = own.make(a), own.make(b)
    producer = torch.cuda.Stream()
    with torch.cuda.stream(producer):
        torch.cuda._sleep(LONG)
    c = matmul(x, y, stream=producer)
    consumer = torch.cuda.Stream()
    with torch.cuda.stream(consumer):
        copy = torch.from_dlpack(c).clone()
    consumer.synchronize()
    assert_product(Torch().host(copy), a, b)


def test_it_can_be_captured_in_a_graph():
    torch = pytest.importorskip("torch")
    a, b = normal((M, K)), normal((N, K), seed=1).T
    x, y, out = Torch().make(a), Torch().make(b), Torch().make(np.zeros((M, N), FLOAT16))
    matmul(x, y, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        matmul(x, y, out=out)
    out.fill_(torch.nan)
    graph.replay()
    torch.cuda.synchronize()
    assert_product(Torch().host(out), a, b)


# Repeats, threads, memory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", STAGES)
def test_results_repeat(stage):
    torch = pytest.importorskip("torch")
    a, b = Torch().make(normal((4000, 4104))), Torch().make(normal((4104, 4104), seed=1)).T
    first = FUNCTIONS[stage](a, b)
    for _ in range(100):
        assert torch.equal(FUNCTIONS[stage](a.clone(), b), first)


@pytest.mark.parametrize("stage", ["v5", "v6"])
def test_two_threads(stage):
    torch = pytest.importorskip("torch")
    failures = []

    def work(seed):
        rng = np.random.default_rng(seed)
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(40):
                m, n, k = (int(8 * extent) for extent in rng.integers(1, 40, 3))
                a, b = normal((m, k), seed=seed), normal((n, k), seed=seed + 100).T
                try:
                    c = FUNCTIONS[stage](Torch().make(a), Torch().make(b))
                    assert_product(Torch().host(c), a, b, STAGES[stage].ACCUMULATE)
                except BaseException as error:
                    failures.append(error)
                    raise

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_fresh_thread_has_no_current_device():
    found = []
    a, b = normal((M, K)), normal((N, K), seed=1).T
    thread = threading.Thread(target=lambda: found.append(matmul(a, b)))
    thread.start()
    thread.join()
    assert_product(found[0], a, b)


def test_operands_are_not_kept():
    torch = pytest.importorskip("torch")
    a, b = Torch().make(normal((M, K))), Torch().make(normal((N, K), seed=1)).T
    torch.cuda.synchronize()
    matmul(a, b)
    before = torch.cuda.memory_allocated()
    for _ in range(10):
        matmul(a.clone(), b)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before


def test_own_results_outlive_what_made_them():
    torch = pytest.importorskip("torch")
    own = Own()
    a, b = normal((M, K)), normal((N, K), seed=1).T
    tensors = [torch.from_dlpack(matmul(own.make(a), own.make(b))) for _ in range(20)]
    stream_of(0).sync()
    for tensor in tensors:
        assert_product(tensor.cpu().numpy(), a, b)


def test_another_gpu_than_the_current_one():
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    a, b = normal((M, K)), normal((N, K), seed=1).T
    with torch.cuda.device(0):
        c = matmul(Torch().make(a).to("cuda:1"), Torch().make(b).to("cuda:1"))
        assert c.device.index == 1
        assert torch.cuda.current_device() == 0
        assert_product(Torch().host(c), a, b)
        with pytest.raises(ValueError, match="a and b must be on one GPU; got GPU 0 and GPU 1"):
            matmul(Torch().make(a), Torch().make(b).to("cuda:1"))


def test_a_glance_tells_geometries_apart():
    torch = pytest.importorskip("torch")
    memory = torch.from_numpy(normal((64, 128))).cuda()
    x = torch.from_numpy(normal((48, 64), seed=1)).cuda()
    for a in (memory[:, :64], memory[:, 64:], memory.view(128, 64)[:64], memory[::2, :64], memory[:32, :64]) * 2:
        c = matmul(a, x.T)
        assert_product(c.cpu().numpy(), a.cpu().numpy(), x.T.cpu().numpy())
        out = torch.full_like(c, float("nan"))
        assert matmul(a, x.T, out=out) is out
        assert torch.equal(out, c)
    with pytest.raises(ValueError, match="out must not overlap a"):
        matmul(memory[:, :64], x.T, out=memory[:, 16:64])
    with pytest.raises(TypeError, match="requires a gradient"):
        matmul(memory[:, :64].detach().requires_grad_(), x.T)
