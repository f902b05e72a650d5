"""V2: a ring of tiles, so that loads run ahead of the products.

Changes from V1: shared memory holds several tiles, the ring's stages, each with a barrier of its own. One thread keeps
loads on their way to the stages that are free, while the tensor cores work on one that is full:

    stage 0   | load 0 | multiply 0 | load 3     | . . . . .  | multiply 3 …
    stage 1   | load 1 | . . . . .  | multiply 1 | load 4     | . . . . .
    stage 2   |        | load 2     | . . . . .  | multiply 2 | load 5 …

And a block's tile is squarer, 128 x 128: two accumulators, for the upper and the lower 64 rows, by the same columns of
B. A byte loaded is multiplied a quarter more often than in V1's 64 x 256.
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
SPACE = Space(tile=((128, 128, 64),), stages=(2, 3), blocks=(2, 3))
MMA_M, MMA_K = 64, 16


@functools.cache
def build(dtype, config):
    """Build the stage.

    Parameters
    ----------
    dtype : numpy.dtype
        float16 or bfloat16.
    config : Config
        M of its tile is 128, N a multiple of 8 up to 256, K is 64; two stages or more; no groups. A ValueError refuses
        others.

    Returns
    -------
    Stage
    """
    config.require("V2", m=[2 * MMA_M], n=range(8, 257, 8), k=[64], stages=range(2, 17), group=[1])
    (BLOCK_M, BLOCK_N, BLOCK_K), STAGES = config.tile, config.stages
    AHEAD = STAGES - 1  # tiles that are loaded ahead of the one multiplied
    roles = Roles(group=warp_groups(1))
    shared = SharedLayout(
        a=tile(dtype, (STAGES, BLOCK_M, BLOCK_K)),
        b=tile(dtype, (STAGES, BLOCK_N, BLOCK_K)),
        loaded=barriers(STAGES),
    )
    store_pair = pair_store(dtype)

    @cuda.jit(device=True)
    def load(smem, stage, a, b, k, block_m, block_n):
        """Have the tiles at `k` copied to a stage."""
        mbarrier.arrive_expect_tx(smem.loaded[stage], smem.a[stage].nbytes + smem.b[stage].nbytes)
        tma.load(smem.a[stage], a, (k * BLOCK_K, block_m), smem.loaded[stage])
        tma.load(smem.b[stage], b, (k * BLOCK_K, block_n), smem.loaded[stage])

    @jit(threads=roles.threads, shared=shared, min_blocks=config.blocks)
    def matmul_v2(a, b, c, k_size):
        smem = shared.open()
        block_m, block_n = cuda.blockIdx.x * BLOCK_M, cuda.blockIdx.y * BLOCK_N
        k_tiles = (k_size + BLOCK_K - 1) // BLOCK_K
        is_loader = roles.group.elected()

        if is_loader:
            for stage in range(STAGES):
                mbarrier.init(smem.loaded[stage], 1)
            fence.mbarrier_init()
            for k in range(min(AHEAD, k_tiles)):
                load(smem, k, a, b, k, block_m, block_n)
        cuda.syncthreads()

        upper = wgmma.zeros(float32, BLOCK_N)
        lower = wgmma.zeros(float32, BLOCK_N)
        stage, phase = 0, 0  # the phase is that of the round: it turns when the ring begins again
        for k in range(k_tiles):
            mbarrier.wait(smem.loaded[stage], phase)
            wgmma.fence()
            for step in range(BLOCK_K // MMA_K):
                b_step = smem.b[stage].part(BLOCK_N, MMA_K, 0, step).T
                upper = wgmma.mma(smem.a[stage].part(MMA_M, MMA_K, 0, step), b_step, upper)
                lower = wgmma.mma(smem.a[stage].part(MMA_M, MMA_K, 1, step), b_step, lower)
            wgmma.commit_group()

            # While the tensor cores work on this stage, the one before it is free: its products have been waited for.
            # All four warps': the products of a warp group are one operation, so the loader's own wait tells.
            if is_loader and k + AHEAD < k_tiles:
                load(smem, (STAGES - 1 if stage == 0 else stage - 1), a, b, k + AHEAD, block_m, block_n)
            upper, lower = wgmma.wait_group((upper, lower), 0)

            stage += 1
            if stage == STAGES:
                stage, phase = 0, phase ^ 1

        wgmma.for_each_pair(store_pair, upper, (c, block_m, block_n))
        wgmma.for_each_pair(store_pair, lower, (c, block_m + MMA_M, block_n))

    a_tile, b_tile = tile(dtype, (BLOCK_M, BLOCK_K)), tile(dtype, (BLOCK_N, BLOCK_K))
    return Stage(matmul_v2, a_tile, b_tile, lambda m, n: (-(-m // BLOCK_M), -(-n // BLOCK_N)))
