"""V0: tiles come by TMA, products are made the Ampere way.

One block makes one tile of C = A @ B. A is (M, K), B is stored K-major as (N, K): both tiles have K contiguous, which
is how the tensor cores like it. A tile travels

    global --TMA--> shared --ldmatrix--> registers --mma.sync--> registers --st.global--> global

Nothing overlaps inside a block: it loads, waits, multiplies and waits again. Only the other blocks of the SM fill the
gaps. And every element of an operand passes through the register file on its way to the tensor cores.
"""

import functools

from numba import cuda, float32, uint32

from hopper_numba.intrinsics import convert, fence, matrix, mbarrier, memory, tma, warp
from hopper_numba.jit import jit
from hopper_numba.roles import Roles, warp_groups
from hopper_numba.shared import SharedLayout, barriers, tile
from hopper_numba.stages import Stage
from hopper_numba.stages.config import Space

ACCUMULATE = "float32"
SPACE = Space(tile=((128, 128, 128), (128, 128, 64), (64, 128, 128)), blocks=(2, 3))
WARPS_M, WARPS_N = 2, 2  # warps of a block, as they share its tile
MMA_M, MMA_N, MMA_K = 16, 8, 16  # one mma.sync


@functools.cache
def build(dtype, config):
    """Build the stage.

    Parameters
    ----------
    dtype : numpy.dtype
        float16 or bfloat16.
    config : Config
        M and N of its tile are multiples of 32, K is one of 64; no ring, no groups. A ValueError refuses others.

    Returns
    -------
    Stage
    """
    sizes = range(32, 257, 32)  # two warps along each side, each with whole products: of N two at a time
    config.require("V0", m=sizes, n=sizes, k=range(64, 257, 64), stages=[1], group=[1])
    BLOCK_M, BLOCK_N, BLOCK_K = config.tile
    MMAS_M, MMAS_N = BLOCK_M // WARPS_M // MMA_M, BLOCK_N // WARPS_N // MMA_N  # of a warp, along each side
    multiply, pack = {
        "float16": (matrix.mma_m16n8k16_f32_f16, convert.pack_f16x2),
        "bfloat16": (matrix.mma_m16n8k16_f32_bf16, convert.pack_bf16x2),
    }[dtype.name]
    roles = Roles(group=warp_groups(1))  # all threads alike, but for one of them that loads
    shared = SharedLayout(a=tile(dtype, (BLOCK_M, BLOCK_K)), b=tile(dtype, (BLOCK_N, BLOCK_K)), loaded=barriers())

    @cuda.jit(device=True)
    def multiply_into(acc, a, b):
        acc[0], acc[1], acc[2], acc[3] = multiply((a[0], a[1], a[2], a[3]), b, (acc[0], acc[1], acc[2], acc[3]))

    # so many blocks shall fit on an SM: that limits the registers of a thread
    @jit(threads=roles.threads, shared=shared, min_blocks=config.blocks)
    def matmul_v0(a, b, c, k_size):
        smem = shared.open()
        block_m, block_n = cuda.blockIdx.x * BLOCK_M, cuda.blockIdx.y * BLOCK_N
        is_loader, lane = roles.group.elected(), warp.lane_index()
        warp_m = warp.warp_index() // WARPS_N * (BLOCK_M // WARPS_M)
        warp_n = warp.warp_index() % WARPS_N * (BLOCK_N // WARPS_N)

        if is_loader:
            mbarrier.init(smem.loaded, 1)  # one arrival a phase: the loader's
            fence.mbarrier_init()  # TMA reports to the barrier, so the async proxy must see it
        cuda.syncthreads()

        acc = cuda.local.array((MMAS_M, MMAS_N, 4), float32)
        a_fragments = cuda.local.array((MMAS_M, 4), uint32)
        for i in range(MMAS_M):
            for j in range(MMAS_N):
                for register in range(4):
                    acc[i, j, register] = float32(0)

        for k in range((k_size + BLOCK_K - 1) // BLOCK_K):
            if is_loader:
                # the bytes first, then the copies that bring them; what lies outside A and B arrives as zeros
                mbarrier.arrive_expect_tx(smem.loaded, smem.a.nbytes + smem.b.nbytes)
                tma.load(smem.a, a, (k * BLOCK_K, block_m), smem.loaded)
                tma.load(smem.b, b, (k * BLOCK_K, block_n), smem.loaded)
                mbarrier.wait(smem.loaded, k & 1)  # the barrier's phases alternate: 0, 1, 0, …
            cuda.syncthreads()  # only the loader has waited: this makes the tiles visible to the others

            for step in range(BLOCK_K // MMA_K):
                # each lane names 16 bytes: lane % 16 is the row of A, lane // 16 the half of the 16 columns
                a_row, a_column = warp_m + lane % 16, step * MMA_K + lane // 16 * 8
                for i in range(MMAS_M):
                    fragment = matrix.ldmatrix_x4(smem.a.address(a_row + i * MMA_M, a_column))
                    for register in range(4):
                        a_fragments[i, register] = fragment[register]
                # one ldmatrix brings the fragments of two products: 16 of N by 16 of K
                b_row, b_column = warp_n + lane // 16 * 8 + lane % 8, step * MMA_K + lane // 8 % 2 * 8
                for j in range(0, MMAS_N, 2):
                    b0, b1, b2, b3 = matrix.ldmatrix_x4(smem.b.address(b_row + j * MMA_N, b_column))
                    for i in range(MMAS_M):
                        multiply_into(acc[i, j], a_fragments[i], (b0, b1))
                        multiply_into(acc[i, j + 1], a_fragments[i], (b2, b3))
            cuda.syncthreads()  # the next copies overwrite the tiles: everybody must have read them

        # a thread holds two neighbouring elements of a row, and two more 8 rows below
        c_row, c_column = block_m + warp_m + lane // 4, block_n + warp_n + lane % 4 * 2
        for i in range(MMAS_M):
            for half in range(2):
                row = c_row + i * MMA_M + half * 8
                for j in range(MMAS_N):
                    column = c_column + j * MMA_N
                    if row < c.shape[0] and column < c.shape[1]:  # N is even, so both elements are inside or neither
                        pair = pack(acc[i, j, 2 * half], acc[i, j, 2 * half + 1])
                        memory.st_global_b32(memory.address_of(c, (row, column)), pair)

    return Stage(matmul_v0, shared.members["a"], shared.members["b"], lambda m, n: (-(-m // BLOCK_M), -(-n // BLOCK_N)))
