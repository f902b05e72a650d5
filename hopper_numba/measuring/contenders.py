"""What is measured: the stages, and the peers that this machine has."""

from __future__ import annotations

import torch

import hopper_numba
from hopper_numba.matmul import STAGES
from hopper_numba.measuring.problem import Contender

CUBLAS = Contender("cublas", torch.mm)
PEERS = ("cublas-fp16", "triton")


def contender(name: str) -> Contender:
    """A stage, a peer or cuBLAS by name.

    Raises
    ------
    ImportError
        If a peer's package is missing.
    """
    if name == CUBLAS.name:
        return CUBLAS
    if name == "cublas-fp16":
        return Contender(name, _cublas_fp16, "float16", is_peer=True)
    if name == "triton":
        from hopper_numba.measuring import triton_peer

        return Contender(name, triton_peer.matmul, is_peer=True)
    return Contender(name, getattr(hopper_numba, f"matmul_{name}"), STAGES[name].ACCUMULATE)


def _cublas_fp16(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    if a.dtype != torch.float16:
        raise TypeError(f"cuBLAS accumulates in float16 only products of float16; got {a.dtype}")
    settings = torch.backends.cuda.matmul
    before = settings.allow_fp16_accumulation
    settings.allow_fp16_accumulation = True
    try:
        torch.mm(a, b, out=out)
    finally:
        settings.allow_fp16_accumulation = before
