"""`pytest benchmarks/`: the stages and cuBLAS under pytest-benchmark, synchronised inside the timed call."""

import functools

import pytest

from hopper_numba.matmul import STAGES

SHAPES = [(4096, 4096, 4096), (8192, 8192, 8192)]


@functools.cache
def problem(shape):
    import torch

    from hopper_numba.measuring.problem import Problem

    return Problem(*shape, torch.float16)


@pytest.mark.parametrize("name", ["cublas", *STAGES])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_matmul(benchmark, name, shape):
    import torch

    from hopper_numba.measuring.contenders import contender
    from hopper_numba.measuring.problem import accuracy

    benchmark.group = "x".join(map(str, shape))
    case, one = problem(shape), contender(name)
    _, wrong = accuracy(case, one)
    assert not wrong

    def synchronised():
        one.multiply(case.a, case.b, out=case.out)
        torch.cuda.synchronize()

    benchmark.pedantic(synchronised, rounds=20, warmup_rounds=3)
    benchmark.extra_info["tflops"] = case.tflops(benchmark.stats.stats.median)
