"""V5: a product is always in flight.

Changes from V4: a consumer does not wait for the products it has just issued, but for those before them:

    V4   issue 0 | wait for 0, release 0 | issue 1 | wait for 1, release 1 | …
    V5   issue 0 | issue 1 | wait for 0, release 0 | issue 2 | wait for 1, release 1 | …

WGMMA's groups complete in order, so ``wait_group(acc, 1)``, at most one left in flight, says that those before the
last are done, and their stage can be given back. The tensor cores always find the next products queued.

Its space has shallower rings and larger groups than V4's as well, whose order of blocks is now in `raster.py`. Where
the board runs at its power limit most of the step from V4 comes from these, since the other consumer's products fill
V4's gaps already.
"""

import functools

from numba import cuda, float32

from hopper_numba.intrinsics import tma, wgmma
from hopper_numba.jit import jit
from hopper_numba.pipeline import Pipeline
from hopper_numba.roles import Roles, warp_groups, warps
from hopper_numba.shared import SharedLayout, tile
from hopper_numba.stages import Stage
from hopper_numba.stages.config import Space
from hopper_numba.stages.epilogue import block_store
from hopper_numba.stages.raster import grouped

ACCUMULATE = "float32"
SPACE = Space(tile=((128, 256, 64), (128, 192, 64)), stages=(3, 4), group=(8, 12, 16))
MMA_M, MMA_K = 64, 16


@functools.cache
def build(dtype, config):
    """Build the stage.

    Parameters
    ----------
    dtype : numpy.dtype
        float16 or bfloat16.
    config : Config
        M of its tile is 128, N a multiple of 16 up to 256, K is 64; two stages or more. A ValueError
        refuses others.

    Returns
    -------
    Stage
    """
    config.require("V5", m=[2 * MMA_M], n=range(16, 257, 16), k=[64], stages=range(2, 17))
    BLOCK_M, BLOCK_N, BLOCK_K = config.tile
    roles = Roles(consumers=warp_groups(2), producer=warps(1))
    pipeline = Pipeline(
        config.stages,
        roles.producer,
        roles.consumers,
        a=tile(dtype, (BLOCK_M, BLOCK_K)),
        b=tile(dtype, (BLOCK_N, BLOCK_K)),
    )
    shared = SharedLayout(pipe=pipeline)
    store_block, tile_of_block = block_store(dtype), grouped(config.group)

    @jit(threads=roles.threads, shared=shared, min_blocks=config.blocks)
    def matmul_v5(a, b, c, k_size):
        smem = shared.open()
        tile_m, tile_n = tile_of_block()
        block_m, block_n = tile_m * BLOCK_M, tile_n * BLOCK_N
        k_tiles = (k_size + BLOCK_K - 1) // BLOCK_K

        if roles.producer.here() and roles.producer.elected():
            smem.pipe.init()
        cuda.syncthreads()

        pipe = smem.pipe.open()
        if roles.producer.here():
            if roles.producer.elected():
                for k in range(k_tiles):
                    pipe.producer_acquire()
                    tma.load(pipe.a, a, (k * BLOCK_K, block_m), pipe.full)
                    tma.load(pipe.b, b, (k * BLOCK_K, block_n), pipe.full)
                    pipe.producer_advance()
        else:
            consumer = roles.consumers.index()
            acc = wgmma.zeros(float32, BLOCK_N)
            for _ in range(k_tiles):
                pipe.consumer_wait()
                wgmma.fence()
                for step in range(BLOCK_K // MMA_K):
                    b_step = pipe.b.part(BLOCK_N, MMA_K, 0, step).T
                    acc = wgmma.mma(pipe.a.part(MMA_M, MMA_K, consumer, step), b_step, acc)
                wgmma.commit_group()
                acc = wgmma.wait_group(acc, 1)  # all but these are done,
                pipe.consumer_release_previous()  # so nobody reads the stage before this one any more
                pipe.consumer_advance()
            acc = wgmma.wait_group(acc, 0)

            wgmma.for_each_block(store_block, acc, (c, block_m + consumer * MMA_M, block_n))

    a_tile, b_tile = pipeline.tiles["a"], pipeline.tiles["b"]
    return Stage(matmul_v5, a_tile, b_tile, lambda m, n: (-(-m // BLOCK_M), -(-n // BLOCK_N)))
