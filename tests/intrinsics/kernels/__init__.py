"""A small kernel for every registered instruction, with results that a GPU and the interpreter have in common."""

from . import barriers, copies, registers, threads, wgmma
from .cases import CASES, Case, arguments, interpret, pattern

__all__ = ["CASES", "Case", "arguments", "barriers", "copies", "interpret", "pattern", "registers", "threads", "wgmma"]
