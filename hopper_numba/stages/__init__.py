"""The ladder of matmul stages, each a file to be read alone and one idea ahead of the one before it.

A stage's file has the kernel and `build`, which makes it for a dtype; `hopper_numba.matmul` calls it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from numba.cuda import types
from numba.cuda.np.numpy_support import from_dtype

from hopper_numba.compile import Compiled
from hopper_numba.intrinsics.tiles import Tile
from hopper_numba.intrinsics.types import TensorMapType
from hopper_numba.jit import HopperKernel


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage built for a dtype.

    Attributes
    ----------
    kernel : HopperKernel
        ``kernel[grid](a, b, c, k)``: tensor maps of A (M, K) and of B's transpose (N, K), C (M, N), and K.
    a, b : Tile
        What the tensor maps are made for.
    grid : function
        Of M and N; gives the blocks.
    """

    kernel: HopperKernel
    a: Tile
    b: Tile
    grid: Callable[[int, int], tuple[int, ...]]

    def compile(self) -> Compiled:
        """Compile for C-ordered results; needs no GPU."""
        maps = [TensorMapType(tile.dtype, tile.box, tile.swizzle) for tile in (self.a, self.b)]
        c = types.Array(from_dtype(self.a.dtype), 2, "C")
        return self.kernel.compile((*maps, c, types.int64))
