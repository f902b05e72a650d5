"""V6: four consumers, float16 accumulators, and a result that leaves by TMA.

Changes from V5: the tile is 256 x 256, and four consumer warp groups share its columns of B. Only the registers stand
in the way: a group's 64 x 256 sums take 128 of each thread in float32, and 512 threads of 128 are all that an SM has.
In float16 they take 64. The tensor cores add in half precision throughout.

And C leaves through shared memory, by TMA. There is room for one group's quarter, so the groups take turns:

    consumer 0     write c_tile, arrive on ready[0]
    producer       wait for ready[0], store by TMA, wait until it is read, arrive on free[0]
    consumer 1     wait for free[0], write c_tile, arrive on ready[1]
    …              nobody waits for the last quarter's buffer, so there are three barriers `free`

The producer has loaded everything by then and would be idle. It loads A's quarters in the order 0, 2, 3, 1, with that
of consumer 1 last, which is the first to wait for the buffer. That would tell if each quarter had a barrier of its own;
here a stage has one, and the consumers begin together.

.. warning::
   Sums of float16 lose digits. At 8192 x 8192 x 8192, with outputs of variance 1, an H200 was off float64 by 0.0023 in
   the mean, 0.011 at the 99th percentile and 0.048 at most; with N(0, 1) operands by 0.21 in the mean, where V5, which
   adds in float32, is off by 0.013. And a sum beyond 65504 overflows, on its way too.
"""

import functools

import numpy as np
from numba import cuda

from hopper_numba.intrinsics import fence, matrix, mbarrier, tma, warp, wgmma
from hopper_numba.jit import jit
from hopper_numba.pipeline import Pipeline
from hopper_numba.roles import Roles, warp_groups, warps
from hopper_numba.shared import SharedLayout, barriers, tile
from hopper_numba.stages import Stage
from hopper_numba.stages.config import Space
from hopper_numba.stages.raster import grouped

ACCUMULATE = "float16"
DTYPES = (np.dtype(np.float16),)
SPACE = Space(tile=((256, 256, 64),), stages=(3,), group=(8, 12, 16))
MMA_M, MMA_K, CONSUMERS = 64, 16, 4


@functools.cache
def build(dtype, config):
    """Build the stage.

    Parameters
    ----------
    dtype : numpy.dtype
        float16.
    config : Config
        M of its tile is 256, N a multiple of 64 up to 256, K is 64; two stages or more. A ValueError refuses others.

    Returns
    -------
    Stage
    """
    config.require("V6", m=[CONSUMERS * MMA_M], n=range(64, 257, 64), k=[64], stages=range(2, 17), blocks=[1])
    BLOCK_M, BLOCK_N, BLOCK_K = config.tile
    roles = Roles(consumers=warp_groups(CONSUMERS), producer=warps(1))
    pipeline = Pipeline(
        config.stages,
        roles.producer,
        roles.consumers,
        a=tile(dtype, (CONSUMERS, MMA_M, BLOCK_K)),
        b=tile(dtype, (BLOCK_N, BLOCK_K)),
    )
    quarter = tile(dtype, (MMA_M, BLOCK_N))
    shared = SharedLayout(
        pipe=pipeline,
        c_tile=quarter,
        epilogue_ready=barriers(CONSUMERS),
        epilogue_free=barriers(CONSUMERS - 1),
    )
    tile_of_block = grouped(config.group)

    @cuda.jit(device=True)
    def stage_block(row, column, values, c_tile):
        """Write 16 x 16 of the sums to shared memory, a row of 8 at the address that each lane names."""
        lane = warp.lane_index()
        matrix.stmatrix_x4(c_tile.address(row + lane % 16, column + lane // 16 * 8), values)

    @jit(threads=roles.threads, shared=shared)
    def matmul_v6(a, b, c, k_size):
        smem = shared.open()
        tile_m, tile_n = tile_of_block()
        block_m, block_n = tile_m * BLOCK_M, tile_n * BLOCK_N
        k_tiles = (k_size + BLOCK_K - 1) // BLOCK_K

        if roles.producer.here() and roles.producer.elected():
            for consumer in range(CONSUMERS):
                mbarrier.init(smem.epilogue_ready[consumer], 128)  # every thread of the group writes its part
            for consumer in range(CONSUMERS - 1):
                mbarrier.init(smem.epilogue_free[consumer], 1)
            smem.pipe.init()  # its fence is for these too
        cuda.syncthreads()

        pipe = smem.pipe.open()
        if roles.producer.here():
            if roles.producer.elected():
                for k in range(k_tiles):
                    pipe.producer_acquire()
                    tma.load(pipe.a[0], a, (k * BLOCK_K, block_m), pipe.full)
                    tma.load(pipe.a[2], a, (k * BLOCK_K, block_m + 2 * MMA_M), pipe.full)
                    tma.load(pipe.a[3], a, (k * BLOCK_K, block_m + 3 * MMA_M), pipe.full)
                    tma.load(pipe.a[1], a, (k * BLOCK_K, block_m + MMA_M), pipe.full)
                    tma.load(pipe.b, b, (k * BLOCK_K, block_n), pipe.full)
                    pipe.producer_advance()

                for consumer in range(CONSUMERS):
                    mbarrier.wait(smem.epilogue_ready[consumer], 0)
                    tma.store(c, (block_n, block_m + consumer * MMA_M), smem.c_tile)
                    tma.commit_group()
                    tma.wait_group_read(0)  # the buffer has been read; what is on its way to C needs no waiting for
                    if consumer < CONSUMERS - 1:
                        mbarrier.arrive(smem.epilogue_free[consumer], 1)
        else:
            consumer = roles.consumers.index()
            acc = wgmma.zeros("float16", BLOCK_N)
            for _ in range(k_tiles):
                pipe.consumer_wait()
                wgmma.fence()
                for step in range(BLOCK_K // MMA_K):
                    b_step = pipe.b.part(BLOCK_N, MMA_K, 0, step).T
                    acc = wgmma.mma(pipe.a[consumer].part(MMA_M, MMA_K, 0, step), b_step, acc)
                wgmma.commit_group()
                acc = wgmma.wait_group(acc, 1)
                pipe.consumer_release_previous()
                pipe.consumer_advance()
            acc = wgmma.wait_group(acc, 0)

            if consumer > 0:
                mbarrier.wait(smem.epilogue_free[consumer - 1], 0)
            wgmma.for_each_block(stage_block, acc, (smem.c_tile,))
            fence.proxy_async_shared_cta()  # these were ordinary writes; TMA reads through the async proxy
            mbarrier.arrive(smem.epilogue_ready[consumer], 1)

    slab, b_tile = tile(dtype, (MMA_M, BLOCK_K)), pipeline.tiles["b"]
    return Stage(matmul_v6, slab, b_tile, lambda m, n: (-(-m // BLOCK_M), -(-n // BLOCK_N)), c=quarter)
