"""`pytest benchmarks/`: the stages and cuBLAS under pytest-benchmark, synchronised inside the timed call."""

import functools

import pytest

import hopper_numba
from hopper_numba.matmul import STAGES

SHAPES = [(4096, 4096, 4096), (8192, 8192, 8192)]


@functools.cache
def problem(shape):
    import torch
    from measure import Problem

    return Problem(*shape, torch.float16)


@pytest.mark.parametrize("name", ["cublas", *STAGES])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_matmul(benchmark, name, shape):
    import torch

    benchmark.group = "x".join(map(str, shape))
    case = problem(shape)
    if name == "cublas":
        call = case.cublas
    else:
        call = functools.partial(getattr(hopper_numba, f"matmul_{name}"), case.a, case.b, out=case.out)
    assert case.errors(call)["max_error"] <= 1.01 * case.errors(case.cublas)["max_error"]

    def synchronised():
        call()
        torch.cuda.synchronize()

    benchmark.pedantic(synchronised, rounds=20, warmup_rounds=3)
    benchmark.extra_info["tflops"] = case.tflops(benchmark.stats.stats.median)
