"""The instructions in a plain `@cuda.jit` kernel, compiled Numba's own way, on its own shared arrays."""

import pytest
from cuda.core import Linker, LinkerOptions, ObjectCode
from numba import cuda, float32, int64, uint8, uint64
from numba.cuda import types

from hopper_numba.intrinsics import barrier, barriers, convert, fence, matrix, mbarrier, memory, tile, tma, warp, wgmma

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
    signature = (types.uint64[::1], types.uint32[::1])
    ptx, _ = cuda.compile(
        kernel, signature, cc=(9, 0, "a"), output="ptx", device=False, abi="numba", launch_bounds=(128, 1)
    )
    for opcode in opcodes:
        assert opcode in ptx
    linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=LinkerOptions(arch="sm_90a", ptxas_options=["-v"]))
    assert linker.link("cubin").code
    assert "C75" not in linker.get_info_log()
