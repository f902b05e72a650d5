"""Hopper's PTX instructions as functions that kernels call. Import name: hopper_numba.intrinsics.

One file for each chapter of the PTX manual; `ptx.REGISTRY` has them all.
"""

if __name__ != "hopper_numba.intrinsics":
    raise ImportError(f"this package is imported as hopper_numba.intrinsics; got {__name__}")

from . import (
    barrier,
    bulk,
    cache,
    cluster,
    convert,
    cp_async,
    fence,
    grid,
    matrix,
    mbarrier,
    memory,
    timer,
    tma,
    warp,
    wgmma,
)
from .ptx import REGISTRY, device_function, ptx
from .tiles import barriers, tile

__all__ = [
    "REGISTRY",
    "barrier",
    "barriers",
    "bulk",
    "cache",
    "cluster",
    "convert",
    "cp_async",
    "device_function",
    "fence",
    "grid",
    "matrix",
    "mbarrier",
    "memory",
    "ptx",
    "tile",
    "timer",
    "tma",
    "warp",
    "wgmma",
]
