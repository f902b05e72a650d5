"""The ladder of matmul stages, to be read in order: each file says what it changes from the one before it.

A stage's file has its whole kernel, with its loop, barriers and roles; how results are stored, and in which order
blocks run, is in `epilogue.py` and `raster.py` once it is no longer the lesson. Beside the kernel it has `build`, which
makes it for a dtype and a `Config`; `SPACE`, the configs worth trying; `ACCUMULATE`, the dtype in which it adds; and
`DTYPES`, if it takes fewer than all. `hopper_numba.matmul.build_stage` calls `build`.
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
    """A stage built for a dtype and a config.

    Attributes
    ----------
    kernel : HopperKernel
        ``kernel[grid](a, b, c, k)``: tensor maps of A (M, K) and of B's transpose (N, K), C (M, N), and K.
    a, b : Tile
        What the tensor maps are made for.
    grid : function
        Of M and N; gives the blocks.
    c : Tile, optional
        What a tensor map of C is made for, if the kernel takes that instead of the array.
    """

    kernel: HopperKernel
    a: Tile
    b: Tile
    grid: Callable[[int, int], tuple[int, ...]]
    c: Tile | None = None

    def compile(self) -> Compiled:
        """Compile for C-ordered results; needs no GPU."""
        a, b = _map_type(self.a), _map_type(self.b)
        c = types.Array(from_dtype(self.a.dtype), 2, "C") if self.c is None else _map_type(self.c)
        return self.kernel.compile((a, b, c, types.int64))


def _map_type(tile: Tile) -> TensorMapType:
    return TensorMapType(tile.dtype, tile.box, tile.swizzle)
