"""Fair timing of a product against cuBLAS: in one process, interleaved, cooled down, on random data.

A ratio is cuBLAS's time over ours, so more than 1 is faster. Boards differ and one ratio moves by some percent from
repeat to repeat: what counts are medians of ratios within one run.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pynvml
import torch

VERSIONED = ("hopper-numba", "numba", "numba-cuda", "llvmlite", "numpy", "cuda-core", "cuda-bindings", "torch")
BURST, SUSTAINED_SECONDS = 30, 2.0


@dataclasses.dataclass
class Problem:
    """A product of N(0, 1) matrices on the GPU, with its float64 result.

    Attributes
    ----------
    a, b, out : torch.Tensor
        (M, K); (K, N), the transpose of a C-ordered (N, K); (M, N).
    exact : torch.Tensor
        float64.
    """

    m: int
    n: int
    k: int
    dtype: torch.dtype

    def __post_init__(self) -> None:
        generator = torch.Generator("cuda").manual_seed(0)
        normal = functools.partial(torch.randn, generator=generator, device="cuda")
        self.a, self.b = normal(self.m, self.k).to(self.dtype), normal(self.n, self.k).to(self.dtype).T
        self.out = torch.empty(self.m, self.n, device="cuda", dtype=self.dtype)
        self.exact = self.a.double() @ self.b.double()

    def cublas(self) -> None:
        """The product by cuBLAS, float32 accumulate."""
        torch.mm(self.a, self.b, out=self.out)

    def errors(self, call: Callable[[], Any]) -> dict[str, float]:
        """Maximum and mean absolute error of what `call` leaves in `out`, which is poisoned before."""
        self.out.fill_(float("nan"))
        call()
        error = (self.out.double() - self.exact).abs()
        return {"max_error": error.max().item(), "mean_error": error.mean().item()}

    def tflops(self, seconds: float) -> float:
        return 2 * self.m * self.n * self.k / seconds / 1e12


def seconds(call: Callable[[], Any], count: int) -> float:
    """Mean time of `count` calls in a row, by events around them."""
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        call()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / 1e3 / count


def burst(call: Callable[[], Any], cooldown: float) -> float:
    """Mean time of 30 calls on a rested board."""
    torch.cuda.synchronize()
    time.sleep(cooldown)
    return seconds(call, BURST)


def sustained(call: Callable[[], Any], once: float) -> tuple[float, dict[str, float]]:
    """Mean time over 2 seconds without a pause, and the clock and power in their second half."""
    count = max(1, round(SUSTAINED_SECONDS / once))
    samples: list[dict[str, float]] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.05):
            samples.append(board_state())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        mean = seconds(call, count)
    finally:
        is_over.set()
        watcher.join()
    late = samples[len(samples) // 2 :]
    return mean, {name: statistics.median(sample[name] for sample in late) for name in late[0]}


def compare(problem: Problem, name: str, call: Callable[[], Any], repeats: int, cooldown: float) -> dict[str, Any]:
    """One row of results: `call` against cuBLAS, which runs before and after it in every repeat."""
    row: dict[str, Any] = {"name": name, "m": problem.m, "n": problem.n, "k": problem.k}
    row |= {"dtype": str(problem.dtype).removeprefix("torch."), "accumulate": "float32"}
    row |= {f"cublas_{key}": value for key, value in problem.errors(problem.cublas).items()}
    row |= problem.errors(call)
    seconds(call, 3), seconds(problem.cublas, 3)
    ours, theirs = [], []
    for _ in range(repeats):
        before = burst(problem.cublas, cooldown)
        ours.append(burst(call, cooldown))
        theirs.append((before + burst(problem.cublas, cooldown)) / 2)
    ratios = [their / our for their, our in zip(theirs, ours, strict=True)]
    row |= {
        "tflops": problem.tflops(statistics.median(ours)),
        "cublas_tflops": problem.tflops(statistics.median(theirs)),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
    }
    our, our_state = sustained(call, ours[0])
    their, their_state = sustained(problem.cublas, theirs[0])
    row |= {
        "sustained_tflops": problem.tflops(our),
        "cublas_sustained_tflops": problem.tflops(their),
        "sustained_ratio": their / our,
        "sustained_state": our_state,
        "cublas_sustained_state": their_state,
    }
    return row


def board_state() -> dict[str, float]:
    """The clock in MHz and the power in W just now."""
    pynvml.nvmlInit()
    board = pynvml.nvmlDeviceGetHandleByIndex(torch.cuda.current_device())
    return {
        "sm_mhz": pynvml.nvmlDeviceGetClockInfo(board, pynvml.NVML_CLOCK_SM),
        "watts": pynvml.nvmlDeviceGetPowerUsage(board) / 1e3,
    }


def environment(commit: str) -> dict[str, Any]:
    """What a figure depends on beside the code."""
    pynvml.nvmlInit()
    board = pynvml.nvmlDeviceGetHandleByIndex(torch.cuda.current_device())
    return {
        "board": pynvml.nvmlDeviceGetName(board),
        "driver": pynvml.nvmlSystemGetDriverVersion(),
        "power_limit_watts": pynvml.nvmlDeviceGetEnforcedPowerLimit(board) / 1e3,
        "max_sm_mhz": pynvml.nvmlDeviceGetMaxClockInfo(board, pynvml.NVML_CLOCK_SM),
        "memory_mhz": pynvml.nvmlDeviceGetClockInfo(board, pynvml.NVML_CLOCK_MEM),
        "cuda": torch.version.cuda,
        "versions": {name: version(name) for name in VERSIONED},
        "inputs": "N(0, 1), seed 0",
        "commit": commit,
    }
