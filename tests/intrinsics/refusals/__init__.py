"""Kernels that are refused when they are compiled."""

from . import operands, tma, wgmma
from .cases import MAP, REFUSALS, SHARED

__all__ = ["MAP", "REFUSALS", "SHARED", "operands", "tma", "wgmma"]
