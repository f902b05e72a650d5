"""V3: warps with work of their own.

Changes from V2: a warp that does nothing but load, the producer, and a warp group that does nothing but multiply, the
consumer. Neither waits for the other unless it must. Each stage of the ring has two barriers now: `full` says that its
tiles have arrived, `empty` that they have been multiplied:

    producer      wait empty | expect bytes in full, load | wait empty | …
    consumer      wait full  | multiply, wait for the products | arrive on empty | wait full | …

Both count the rounds of the ring: the parity of a barrier's phase turns with each.

And C is written 16 bytes a lane from here on, not 4: see `block_store` in `epilogue.py`.
"""

import functools

from numba import cuda, float32

from hopper_numba.intrinsics import fence, mbarrier, tma, wgmma
from hopper_numba.jit import jit
from hopper_numba.roles import Roles, warp_groups, warps
from hopper_numba.shared import SharedLayout, barriers, tile
from hopper_numba.stages import Stage
from hopper_numba.stages.config import Space
from hopper_numba.stages.epilogue import block_store

ACCUMULATE = "float32"
SPACE = Space(tile=((128, 128, 64),), stages=(2, 3), blocks=(2,))
MMA_M, MMA_K = 64, 16


@functools.cache
def build(dtype, config):
    """Build the stage.

    Parameters
    ----------
    dtype : numpy.dtype
        float16 or bfloat16.
    config : Config
        M of its tile is 128, N a multiple of 16 up to 256, K is 64; no groups. A ValueError refuses others.

    Returns
    -------
    Stage
    """
    config.require("V3", m=[2 * MMA_M], n=range(16, 257, 16), k=[64], group=[1])
    (BLOCK_M, BLOCK_N, BLOCK_K), STAGES = config.tile, config.stages
    roles = Roles(consumer=warp_groups(1), producer=warps(1))
    shared = SharedLayout(
        a=tile(dtype, (STAGES, BLOCK_M, BLOCK_K)),
        b=tile(dtype, (STAGES, BLOCK_N, BLOCK_K)),
        full=barriers(STAGES),
        empty=barriers(STAGES),
    )
    store_block = block_store(dtype)

    @jit(threads=roles.threads, shared=shared, min_blocks=config.blocks)
    def matmul_v3(a, b, c, k_size):
        smem = shared.open()
        block_m, block_n = cuda.blockIdx.x * BLOCK_M, cuda.blockIdx.y * BLOCK_N
        k_tiles = (k_size + BLOCK_K - 1) // BLOCK_K

        if roles.producer.here() and roles.producer.elected():
            for stage in range(STAGES):
                mbarrier.init(smem.full[stage], 1)  # the producer's arrival, which also says how many bytes come
                mbarrier.init(smem.empty[stage], 1)  # the consumer's
            fence.mbarrier_init()
        cuda.syncthreads()

        stage, phase = 0, 0
        if roles.producer.here():
            if roles.producer.elected():
                for k in range(k_tiles):
                    mbarrier.wait(smem.empty[stage], phase ^ 1)  # in the first round at once: the phase before is over
                    mbarrier.arrive_expect_tx(smem.full[stage], smem.a[stage].nbytes + smem.b[stage].nbytes)
                    tma.load(smem.a[stage], a, (k * BLOCK_K, block_m), smem.full[stage])
                    tma.load(smem.b[stage], b, (k * BLOCK_K, block_n), smem.full[stage])
                    stage += 1
                    if stage == STAGES:
                        stage, phase = 0, phase ^ 1
        else:
            upper = wgmma.zeros(float32, BLOCK_N)
            lower = wgmma.zeros(float32, BLOCK_N)
            for _ in range(k_tiles):
                mbarrier.wait(smem.full[stage], phase)
                wgmma.fence()
                for step in range(BLOCK_K // MMA_K):
                    b_step = smem.b[stage].part(BLOCK_N, MMA_K, 0, step).T
                    upper = wgmma.mma(smem.a[stage].part(MMA_M, MMA_K, 0, step), b_step, upper)
                    lower = wgmma.mma(smem.a[stage].part(MMA_M, MMA_K, 1, step), b_step, lower)
                wgmma.commit_group()
                upper, lower = wgmma.wait_group((upper, lower), 0)
                if roles.consumer.elected():  # the group's reads are over together: one arrival tells of all
                    mbarrier.arrive(smem.empty[stage], 1)
                stage += 1
                if stage == STAGES:
                    stage, phase = 0, phase ^ 1

            wgmma.for_each_block(store_block, upper, (c, block_m, block_n))
            wgmma.for_each_block(store_block, lower, (c, block_m + MMA_M, block_n))

    a_tile, b_tile = tile(dtype, (BLOCK_M, BLOCK_K)), tile(dtype, (BLOCK_N, BLOCK_K))
    return Stage(matmul_v3, a_tile, b_tile, lambda m, n: (-(-m // BLOCK_M), -(-n // BLOCK_N)))
