"""A product to measure, who multiplies it, and how far off the result is."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from hopper_numba.measuring.results import why_wrong

SLAB = 1024  # rows that are converted to float64 at a time


@dataclasses.dataclass(frozen=True)
class Contender:
    """Something that multiplies.

    Attributes
    ----------
    name : str
    multiply : function
        Of a, b, and ``out=``.
    accumulate : str
        "float32" or "float16".
    is_peer : bool
        Errors of a peer are reported, not judged.
    """

    name: str
    multiply: Callable[..., Any]
    accumulate: str = "float32"
    is_peer: bool = False

    def bound(self, problem: Problem) -> Callable[[], Any]:
        """The call that multiplies a problem."""
        return functools.partial(self.multiply, problem.a, problem.b, out=problem.out)


@dataclasses.dataclass
class Problem:
    """A product of random matrices on the GPU.

    Attributes
    ----------
    a, b, out : torch.Tensor
        (M, K), N(0, scale**2); (K, N), the transpose of a C-ordered (N, K), N(0, 1); (M, N).
    """

    m: int
    n: int
    k: int
    dtype: torch.dtype
    scale: float = 1.0

    def __post_init__(self) -> None:
        generator = torch.Generator("cuda").manual_seed(0)
        normal = functools.partial(torch.randn, generator=generator, device="cuda")
        self.a = (normal(self.m, self.k) * self.scale).to(self.dtype)
        self.b = normal(self.n, self.k).to(self.dtype).T
        self.out = torch.empty(self.m, self.n, device="cuda", dtype=self.dtype)

    @functools.cached_property
    def exact(self) -> torch.Tensor:
        """The product in float64."""
        b, exact = self.b.double(), torch.empty(self.m, self.n, device="cuda", dtype=torch.float64)
        for rows in self._slabs():
            torch.mm(self.a[rows].double(), b, out=exact[rows])
        return exact

    @functools.cached_property
    def unit_variance(self) -> Problem:
        """The same with A scaled so that the variance of the product is 1."""
        return dataclasses.replace(self, scale=self.k**-0.5)

    @functools.cached_property
    def cublas_errors(self) -> dict[str, float]:
        """cuBLAS's, as `errors` gives them."""
        return self.errors(self.cublas)

    def tflops(self, seconds: float) -> float:
        return 2 * self.m * self.n * self.k / seconds / 1e12

    def cublas(self) -> None:
        """The product by cuBLAS, float32 accumulate."""
        torch.mm(self.a, self.b, out=self.out)

    def errors(self, call: Callable[[], Any]) -> dict[str, float]:
        """Absolute errors of what `call` leaves in `out`, which is poisoned before: maximum, mean, 99th percentile."""
        self.out.fill_(float("nan"))
        call()
        error = torch.empty(self.m, self.n, device="cuda", dtype=torch.float32)
        for rows in self._slabs():
            error[rows] = (self.out[rows].double() - self.exact[rows]).abs()
        return {
            "max_error": error.max().item(),
            "mean_error": error.mean(dtype=torch.float64).item(),
            "p99_error": error.flatten().kthvalue(math.ceil(0.99 * error.numel())).values.item(),
        }

    def _slabs(self) -> Iterator[slice]:
        return (slice(row, row + SLAB) for row in range(0, self.m, SLAB))


def accuracy(problem: Problem, contender: Contender) -> tuple[dict[str, Any], str]:
    """The errors of a contender and cuBLAS's, as a row has them, and why the contender is wrong, if it is.

    What is known of float16 accumulators is for outputs of variance 1. Their rounding is relative to a power of two
    below the sum, so that errors of outputs of variance K, divided by the root of K, are something else unless that
    root is a power of two: A is scaled instead, and the errors are those under ``unit_variance``.
    """
    judged = errors = problem.errors(contender.bound(problem))
    found: dict[str, Any] = errors | {f"cublas_{name}": error for name, error in problem.cublas_errors.items()}
    if contender.accumulate == "float16":
        judged = problem.unit_variance.errors(contender.bound(problem.unit_variance))
        found["unit_variance"] = judged
    size = problem.m, problem.n, problem.k
    wrong = "" if contender.is_peer else why_wrong(contender.accumulate, judged, problem.cublas_errors, size)
    return _without_nan(found), wrong


def _without_nan(found: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN and no infinity."""
    return {
        name: _without_nan(value) if isinstance(value, dict) else value if math.isfinite(value) else None
        for name, value in found.items()
    }
