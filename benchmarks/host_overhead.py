"""Host time of a warm call on small Torch tensors: what Python and the launch cost while the GPU keeps up.

Run on a machine with a Hopper GPU and Torch: ``python benchmarks/host_overhead.py``.
"""

import statistics
import time

import torch

from hopper_numba import matmul_v1

SIZE, CALLS, REPEATS = 256, 200, 50


def microseconds(function):
    """Median over repeats of the mean host time of a call; the GPU is idle when a repeat begins."""
    for _ in range(CALLS):
        function()
    found = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(CALLS):
            function()
        found.append((time.perf_counter() - begin) / CALLS * 1e6)
    torch.cuda.synchronize()
    return statistics.median(found)


def main():
    new = lambda: torch.randn(SIZE, SIZE, device="cuda").half()  # noqa: E731
    operands = [(new(), new().T) for _ in range(64)]
    a, b = operands[0]
    out = torch.empty_like(a)
    turn = iter(range(10**9))
    empty = microseconds(lambda: torch.empty(SIZE, SIZE, device="cuda", dtype=torch.float16))

    def next_pair():
        return operands[next(turn) % len(operands)]

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {SIZE} x {SIZE} x {SIZE} float16, us a call")
    rows = {
        "matmul_v1, unchanged arrays": lambda: matmul_v1(a, b),
        "matmul_v1, unchanged arrays, out=": lambda: matmul_v1(a, b, out=out),
        "matmul_v1, new arrays each call": lambda: matmul_v1(*next_pair()),
        "matmul_v1, new arrays each call, out=": lambda: matmul_v1(*next_pair(), out=out),
        "torch.mm": lambda: torch.mm(a, b),
        "torch.mm, out=": lambda: torch.mm(a, b, out=out),
    }
    print(f"{'torch.empty alone':<40}{empty:6.1f}")
    for name, function in rows.items():
        print(f"{name:<40}{microseconds(function):6.1f}")
    with torch.cuda.stream(torch.cuda.Stream()):
        print(f"{'matmul_v1, unchanged, on a side stream':<40}{microseconds(lambda: matmul_v1(a, b)):6.1f}")


if __name__ == "__main__":
    main()
