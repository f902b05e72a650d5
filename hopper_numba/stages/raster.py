"""The order of blocks over the tiles of C, as V4 spells it out: for the stages after it."""

import functools

from numba import cuda


@functools.cache
def grouped(group):
    """Make the device function that gives a block its tile: down columns of `group` rows of tiles, then on."""

    @cuda.jit(device=True)
    def tile_of_block():
        number = cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x
        first = number // (group * cuda.gridDim.y) * group
        height = min(group, cuda.gridDim.x - first)
        within = number - first * cuda.gridDim.y
        return first + within % height, within // height

    return tile_of_block
