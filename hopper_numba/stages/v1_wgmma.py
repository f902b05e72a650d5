"""V1: the tensor cores read shared memory themselves.

Changes from V0: `wgmma` replaces ldmatrix and mma.sync. A warp group, 128 threads, issues one instruction that
multiplies 64 x 16 by 16 x N straight from shared memory; what it takes is a descriptor of a tile, and no operand passes
through a register any more:

    global --TMA--> shared --wgmma--> registers --st.global--> global

WGMMA is asynchronous: issued, it reads its tiles and writes its accumulator whenever it likes, until a wait says it has
done. Still nothing overlaps inside a block, and other blocks of the SM fill the gaps.
"""

import functools

from numba import cuda, float32

from hopper_numba.intrinsics import convert, fence, mbarrier, memory, tma, wgmma
from hopper_numba.jit import jit
from hopper_numba.shared import SharedLayout, barriers, tile
from hopper_numba.stages import Stage

BLOCK_M, BLOCK_N, BLOCK_K = 64, 256, 64  # 64 x 256 is the largest accumulator of one wgmma
MMA_K = 16


@functools.cache
def build(dtype):
    """Build the stage.

    Parameters
    ----------
    dtype : numpy.dtype
        float16 or bfloat16.

    Returns
    -------
    Stage
    """
    pack = {"float16": convert.pack_f16x2, "bfloat16": convert.pack_bf16x2}[dtype.name]
    shared = SharedLayout(a=tile(dtype, (BLOCK_M, BLOCK_K)), b=tile(dtype, (BLOCK_N, BLOCK_K)), loaded=barriers())

    @cuda.jit(device=True)
    def store_pair(row, column, low, high, c, first_row, first_column):
        """Store two neighbours of a row, where they lie inside C: N is even, so both do or neither."""
        row, column = first_row + row, first_column + column
        if row < c.shape[0] and column < c.shape[1]:
            memory.st_global_b32(memory.address_of(c, (row, column)), pack(low, high))

    @jit(threads=128, shared=shared, min_blocks=3)  # three blocks of an SM fill each other's gaps
    def matmul_v1(a, b, c, k_size):
        smem = shared.open()
        block_m, block_n = cuda.blockIdx.x * BLOCK_M, cuda.blockIdx.y * BLOCK_N
        thread = cuda.threadIdx.x

        if thread == 0:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
        cuda.syncthreads()

        acc = wgmma.zeros(float32, BLOCK_N)  # 128 registers of each thread
        for k in range((k_size + BLOCK_K - 1) // BLOCK_K):
            if thread == 0:
                mbarrier.arrive_expect_tx(smem.loaded, smem.a.nbytes + smem.b.nbytes)
                tma.load(smem.a, a, (k * BLOCK_K, block_m), smem.loaded)
                tma.load(smem.b, b, (k * BLOCK_K, block_n), smem.loaded)
            mbarrier.wait(smem.loaded, k & 1)  # by every thread: what TMA wrote is visible to those who waited

            wgmma.fence()  # the accumulator's registers were written, by zeros or by the products before
            for step in range(BLOCK_K // MMA_K):
                a_step = smem.a.part(BLOCK_M, MMA_K, 0, step)
                b_step = smem.b.part(BLOCK_N, MMA_K, 0, step).T  # N x K in memory, K x N to multiply
                acc = wgmma.mma(a_step, b_step, acc)
            wgmma.commit_group()
            acc = wgmma.wait_group(acc, 0)  # only now may the accumulator be read and the tiles be overwritten
            cuda.syncthreads()  # and thread 0 overwrites them for all four warps: each must have waited

        wgmma.for_each_pair(store_pair, acc, (c, block_m, block_n))

    return Stage(matmul_v1, shared.members["a"], shared.members["b"], lambda m, n: (-(-m // BLOCK_M), -(-n // BLOCK_N)))
