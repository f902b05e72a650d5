"""A small kernel for every registered instruction, with results that a GPU and the interpreter have in common."""

from . import barriers, bulk, cluster, convert, copies, cp_async, memory, registers, threads, wgmma
from .cases import CASES, Case, arguments, interpret, pattern

__all__ = [
    "CASES",
    "Case",
    "arguments",
    "barriers",
    "bulk",
    "cluster",
    "convert",
    "copies",
    "cp_async",
    "interpret",
    "memory",
    "pattern",
    "registers",
    "threads",
    "wgmma",
]
