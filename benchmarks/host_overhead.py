"""Host time of a warm call on small Torch tensors: what Python and the launch cost while the GPU keeps up.

    python benchmarks/host_overhead.py benchmarks/results/h200-host-overhead.json

Hosts differ more than boards, and one host from minute to minute: `torch.empty` and `torch.mm`, measured in turn with
ours, say how fast this one was.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from hopper_numba import matmul_v1
from hopper_numba.measuring.board import environment

SIZE, CALLS, REPEATS = 256, 100, 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=Path, help="the file to write")
    parser.add_argument("--commit", help="what was measured; asked of git unless given")
    options = parser.parse_args()

    new = lambda: torch.randn(SIZE, SIZE, device="cuda").half()  # noqa: E731
    pairs = [(new(), new().T) for _ in range(64)]
    (a, b), out, turn = pairs[0], torch.empty(SIZE, SIZE, device="cuda", dtype=torch.float16), itertools.cycle(pairs)
    calls: dict[str, Callable[[], Any]] = {
        "matmul_v1, unchanged arrays": lambda: matmul_v1(a, b),
        "matmul_v1, unchanged arrays, out=": lambda: matmul_v1(a, b, out=out),
        "matmul_v1, new arrays each call": lambda: matmul_v1(*next(turn)),
        "torch.mm": lambda: torch.mm(a, b),
        "torch.mm, out=": lambda: torch.mm(a, b, out=out),
        "torch.empty": lambda: torch.empty(SIZE, SIZE, device="cuda", dtype=torch.float16),
    }
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _, (name, call) in itertools.product(range(REPEATS), calls.items()):
        found[name].append(microseconds(call))
    rows = [
        {"name": name, "min_us": min(times), "median_us": statistics.median(times)} for name, times in found.items()
    ]
    for row in rows:
        print(f"{row['name']:<36}{row['min_us']:6.1f} us at least, {row['median_us']:6.1f} us in the median")
    size = f"{SIZE} x {SIZE} x {SIZE} float16"
    options.json.write_text(
        json.dumps({"environment": environment(options.commit), "size": size, "rows": rows}, indent=1) + "\n"
    )


def microseconds(call: Callable[[], Any]) -> float:
    """Mean host time of a warm call, from an idle GPU on."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(CALLS):
        call()
    elapsed = time.perf_counter() - begin
    torch.cuda.synchronize()
    return elapsed / CALLS * 1e6


if __name__ == "__main__":
    main()
