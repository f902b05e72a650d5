"""From an accumulator's registers to C: what WGMMA's unrolled loops call for each piece that a thread holds."""

import functools

from numba import cuda

from hopper_numba.intrinsics import convert, memory, warp

PACK = {"float16": convert.pack_f16x2, "bfloat16": convert.pack_bf16x2}


@functools.cache
def pair_store(dtype):
    """Make the function for `wgmma.for_each_pair` that stores two neighbours of a row, for a result of this dtype.

    It stores where they lie inside C. N is even, so both do or neither.
    """
    pack = PACK[dtype.name]

    @cuda.jit(device=True)
    def store_pair(row, column, low, high, c, first_row, first_column):
        row, column = first_row + row, first_column + column
        if row < c.shape[0] and column < c.shape[1]:
            memory.st_global_b32(memory.address_of(c, (row, column)), pack(low, high))

    return store_pair


@functools.cache
def block_store(dtype):
    """Make the function for `wgmma.for_each_block` that stores 16 x 16 elements of a warp, 16 bytes a lane.

    Pairs fill but half of the 32 bytes that memory is written in. Of a block a lane has four pairs, of four pieces of
    rows, 8 elements each; the four lanes of a quad have those of the same pieces. They trade, and each has one whole.
    """
    pack = PACK[dtype.name]

    @cuda.jit(device=True)
    def trade(first, second, has_bit, bit):
        """Give the lane that differs in this bit of its number one pair for another.

        The lane that has the bit collects seconds, the other one firsts.
        """
        got = warp.shfl_bfly(first if has_bit else second, bit)
        return (got, second) if has_bit else (first, got)

    @cuda.jit(device=True)
    def store_block(row, column, values, c, first_row, first_column):
        lane = warp.lane_index()
        is_lower, is_right = lane & 1, lane >> 1 & 1  # which piece the lane gets
        left = pack(values[0], values[1]), pack(values[2], values[3])  # of the upper 8 rows and the lower
        right = pack(values[4], values[5]), pack(values[6], values[7])

        first, second = trade(left[0], left[1], is_lower, 1)
        third, fourth = trade(right[0], right[1], is_lower, 1)
        first, third = trade(first, third, is_right, 2)
        second, fourth = trade(second, fourth, is_right, 2)

        row, column = first_row + row + lane // 4 + 8 * is_lower, first_column + column + 8 * is_right
        if row < c.shape[0] and column < c.shape[1]:  # N is a multiple of 8: a piece is inside C or outside
            memory.st_global_v4_b32(memory.address_of(c, (row, column)), (first, second, third, fourth))

    return store_block
