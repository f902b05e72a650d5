"""Kernels that are refused when they are compiled."""

from . import bulk, cache, cluster, convert, cp_async, memory, operands, tma, warp, wgmma
from .cases import MAP, REFUSALS, SHARED

__all__ = [
    "MAP",
    "REFUSALS",
    "SHARED",
    "bulk",
    "cache",
    "cluster",
    "convert",
    "cp_async",
    "memory",
    "operands",
    "tma",
    "warp",
    "wgmma",
]
