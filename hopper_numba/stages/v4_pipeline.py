"""V4: two consumers share a tile of B, and blocks that run together share operands in L2.

Changes from V3: a second consumer warp group. Each multiplies its own 64 rows of A by the same 256 columns of B: a
block's tile is 128 x 256, and a byte loaded is multiplied a third more often than in V3. Where V3's group has two
accumulators, each of the two has one. While one group waits, the other's products keep the tensor cores busy.

The ring's bookkeeping, which V3 spells out, is `Pipeline`'s from here on: it knows the bytes of a stage, who arrives
on which barrier, and the parity of the round.

Blocks run about in the order of their numbers, one on each SM. Numbered down the columns of tiles in groups of a few
rows, those that run together cover a compact part of C; they read few rows of A and few columns of B, found in L2:

    groups of 2     0 2 4 6       row by row     0 1 2 3
                    1 3 5 7                      4 5 6 7
                    8 …                          8 …
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

ACCUMULATE = "float32"
SPACE = Space(tile=((128, 256, 64), (128, 192, 64)), stages=(4,), group=(4, 8))
MMA_M, MMA_K = 64, 16


@functools.cache
def build(dtype, config):
    """Build the stage.

    Parameters
    ----------
    dtype : numpy.dtype
        float16 or bfloat16.
    config : Config
        M of its tile is 128, N a multiple of 16 up to 256, K is 64. A ValueError refuses others.

    Returns
    -------
    Stage
    """
    config.require("V4", m=[2 * MMA_M], n=range(16, 257, 16), k=[64])
    (BLOCK_M, BLOCK_N, BLOCK_K), GROUP = config.tile, config.group
    roles = Roles(consumers=warp_groups(2), producer=warps(1))
    pipeline = Pipeline(
        config.stages,
        roles.producer,
        roles.consumers,
        a=tile(dtype, (BLOCK_M, BLOCK_K)),
        b=tile(dtype, (BLOCK_N, BLOCK_K)),
    )
    shared = SharedLayout(pipe=pipeline)
    store_block = block_store(dtype)

    @cuda.jit(device=True)
    def tile_of_block():
        """The row and the column of the block's tile, in tiles; the grid has a block for each."""
        rows, columns = cuda.gridDim.x, cuda.gridDim.y
        number = cuda.blockIdx.y * rows + cuda.blockIdx.x  # blocks begin in this order
        first = number // (GROUP * columns) * GROUP  # the row at which the block's group begins
        height = min(GROUP, rows - first)  # of the last group, maybe less
        within = number - first * columns
        return first + within % height, within // height

    @jit(threads=roles.threads, shared=shared, min_blocks=config.blocks)
    def matmul_v4(a, b, c, k_size):
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
                acc = wgmma.wait_group(acc, 0)
                pipe.consumer_release()

            wgmma.for_each_block(store_block, acc, (c, block_m + consumer * MMA_M, block_n))

    a_tile, b_tile = pipeline.tiles["a"], pipeline.tiles["b"]
    return Stage(matmul_v4, a_tile, b_tile, lambda m, n: (-(-m // BLOCK_M), -(-n // BLOCK_N)))
