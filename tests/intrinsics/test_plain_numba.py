"""The instructions in a plain `@cuda.jit` kernel, compiled Numba's own way, on its own shared arrays."""

import re
from types import SimpleNamespace

import pytest
from cuda.core import Linker, LinkerOptions, ObjectCode
from kernels import CASES, pattern
from numba import cuda, float32, int64, uint8, uint64
from numba.cuda import dispatcher, types

from hopper_numba.compile import TARGET
from hopper_numba.intrinsics import (
    REGISTRY,
    barrier,
    barriers,
    convert,
    fence,
    matrix,
    mbarrier,
    memory,
    tile,
    tma,
    warp,
    wgmma,
)

A, B = tile("float16", (64, 64)), tile("float16", (32, 64))
BARS = barriers(2)
A_NBYTES, BOTH_NBYTES = A.nbytes, A.nbytes + B.nbytes


def barriers_in_arrays(descriptor, out):
    unsigned, signed = cuda.shared.array(2, uint64), cuda.shared.array(2, int64)
    described = memory.view(cuda.shared.array(2, uint64), BARS)
    i = cuda.threadIdx.x % 2
    mbarrier.init(unsigned, 1)
    mbarrier.init(signed[1:], 1)
    mbarrier.init(signed[i : i + 1], 1)
    mbarrier.init(described[i], 1)


def rows_in_arrays(descriptor, out):
    flat, square = cuda.shared.array(1024, types.float16), cuda.shared.array((32, 32), types.float16)
    lane = warp.lane_index()
    flat[lane], square[lane, 0] = types.float16(1), types.float16(2)
    a = matrix.ldmatrix_x4(square[lane, 8:])
    b = matrix.ldmatrix_x2_trans(flat[8 * lane :])
    c, d, _, _ = matrix.mma_m16n8k16_f32_f16(a, b, (float32(0), float32(0), float32(0), float32(0)))
    matrix.stmatrix_x1(square[lane], (convert.pack_f16x2(c, d),))
    memory.st_global_v2_b32(memory.address_of(out, (2 * lane,)), a[:2])
    barrier.sync(1, out[0])


def copies(descriptor, out):
    smem, bar = cuda.shared.array(A_NBYTES, uint8, alignment=1024), cuda.shared.array(1, uint64)
    a = memory.view(smem, A)
    tma.prefetch_descriptor(descriptor)
    mbarrier.arrive_expect_tx(bar, a.nbytes)
    tma.load(a, descriptor, (out[0], 0), bar)
    tma.store(descriptor, (0, 0), a)
    tma.commit_group()
    tma.wait_group(0)


def multiplies(descriptor, out):
    smem = cuda.shared.array(BOTH_NBYTES, uint8, alignment=1024)
    a, b = memory.view(smem, A), memory.view(smem[A_NBYTES:], B)
    fence.proxy_async_shared_cta()
    acc = wgmma.zeros(float32, 32)
    wgmma.fence()
    acc = wgmma.mma(a.part(64, 16, 0, 1), b.part(32, 16, 0, 1).T, acc)
    wgmma.commit_group()
    acc = wgmma.wait_group(acc, 0)


@pytest.mark.parametrize(
    ("kernel", "opcodes"),
    [
        (barriers_in_arrays, ("mbarrier.init",)),
        (rows_in_arrays, ("ldmatrix", "mma.sync", "stmatrix", "st.global.v2.b32")),
        (copies, ("prefetch.tensormap", "cp.async.bulk.tensor.2d.shared", "cp.async.bulk.tensor.2d.global")),
        (multiplies, ("wgmma.mma_async",)),
    ],
)
def test_compiled_and_assembled(kernel, opcodes):
    ptx, log = assembled(kernel, (types.uint64[::1], types.uint32[::1]))
    for opcode in opcodes:
        assert opcode in ptx
    assert "C75" not in log


def assembled(kernel, signature, threads=128):
    """A kernel's PTX by Numba's own route, and what ptxas said of it."""
    ptx, _ = cuda.compile(
        kernel, signature, cc=TARGET, output="ptx", device=False, abi="numba", launch_bounds=(threads, 1)
    )
    linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=LinkerOptions(arch="sm_90a", ptxas_options=["-v"]))
    assert linker.link("cubin").code
    return ptx, linker.get_info_log()


@pytest.fixture
def no_gpu_needed(monkeypatch):
    """Numba asks for a device, to compile device functions for it."""
    monkeypatch.setattr(dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=TARGET))


@pytest.mark.usefixtures("no_gpu_needed")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_instructions_kernel_is_compiled_and_assembled(case):
    """With the descriptors of tensor maps in device memory, as `TensorMap.to_device` puts them."""
    copies = () if case.box is None else (types.uint64[::1],) * 2
    ptx, log = assembled(case.kernel, (*copies, types.uint32[::1], types.uint32[::1]), case.threads)
    for name in case.covers:
        assert re.search(pattern(REGISTRY[name]), ptx), name
    # this route assembles relocatable code, where ptxas ignores setmaxnreg and says so
    assert "C75" not in log or case.registers
