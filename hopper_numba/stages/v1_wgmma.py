"""V1: the tensor cores read shared memory themselves.

Changes from V0: `wgmma` replaces ldmatrix and mma.sync. A warp group, 128 threads, issues one instruction that
multiplies 64 x 16 by 16 x N straight from shared memory; what it takes is a descriptor of a tile, and no operand passes
through a register any more:

    global --TMA--> shared --wgmma--> registers --st.global--> global

WGMMA is asynchronous: issued, it reads its tiles and writes its accumulator whenever it likes, until a wait says it has
done. Still nothing overlaps inside a block, and other blocks of the SM fill the gaps.

A block's tile is 64 x 256 now, the largest that one instruction multiplies. How a thread stores what it holds has moved
to `epilogue.py`: it is as in V0.
"""

import functools

from numba import cuda, float32

from hopper_numba.intrinsics import fence, mbarrier, tma, wgmma
from hopper_numba.jit import jit
from hopper_numba.roles import Roles, warp_groups
from hopper_numba.shared import SharedLayout, barriers, tile
from hopper_numba.stages import Stage
from hopper_numba.stages.config import Space
from hopper_numba.stages.epilogue import pair_store

ACCUMULATE = "float32"
# 64 x 256 is the largest accumulator of one wgmma; a few blocks of an SM fill each other's gaps
SPACE = Space(tile=((64, 256, 64), (64, 256, 128), (64, 128, 64), (64, 128, 128)), blocks=(3,))
MMA_M, MMA_K = 64, 16


@functools.cache
def build(dtype, config):
    """Build the stage.

    Parameters
    ----------
    dtype : numpy.dtype
        float16 or bfloat16.
    config : Config
        M of its tile is 64, N a multiple of 8 up to 256, K one of 64; no ring, no groups. A ValueError refuses others.

    Returns
    -------
    Stage
    """
    config.require("V1", m=[MMA_M], n=range(8, 257, 8), k=range(64, 257, 64), stages=[1], group=[1])
    BLOCK_M, BLOCK_N, BLOCK_K = config.tile
    roles = Roles(group=warp_groups(1))
    shared = SharedLayout(a=tile(dtype, (BLOCK_M, BLOCK_K)), b=tile(dtype, (BLOCK_N, BLOCK_K)), loaded=barriers())
    store_pair = pair_store(dtype)

    @jit(threads=roles.threads, shared=shared, min_blocks=config.blocks)
    def matmul_v1(a, b, c, k_size):
        smem = shared.open()
        block_m, block_n = cuda.blockIdx.x * BLOCK_M, cuda.blockIdx.y * BLOCK_N
        is_loader = roles.group.elected()

        if is_loader:
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
        cuda.syncthreads()

        acc = wgmma.zeros(float32, BLOCK_N)  # BLOCK_N // 2 registers of each thread
        for k in range((k_size + BLOCK_K - 1) // BLOCK_K):
            if is_loader:
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
            cuda.syncthreads()  # by all four warps; V2 does without: their products are one operation, and end together

        wgmma.for_each_pair(store_pair, acc, (c, block_m, block_n))

    return Stage(matmul_v1, shared.members["a"], shared.members["b"], lambda m, n: (-(-m // BLOCK_M), -(-n // BLOCK_N)))
