"""The ladder of matmul stages, each a file to be read alone and one idea ahead of the one before it.

A stage's file has the kernel and `build`, which makes it for a dtype; `hopper_numba.matmul` calls it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hopper_numba.intrinsics.tiles import Tile
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
