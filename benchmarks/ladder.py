"""Measure the stages against cuBLAS and write the figures as JSON.

python benchmarks/ladder.py benchmarks/results/h200-ladder.json --stages v0 v1 --size 8192 8192 8192
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
from pathlib import Path

import torch
from measure import BURST, SUSTAINED_SECONDS, Problem, compare, environment

import hopper_numba
from hopper_numba.matmul import STAGES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=Path, help="the file to write")
    parser.add_argument("--stages", nargs="+", default=list(STAGES), choices=list(STAGES))
    parser.add_argument("--size", nargs=3, type=int, default=[8192, 8192, 8192], metavar=("M", "N", "K"))
    parser.add_argument("--dtype", default="float16", choices=["float16", "bfloat16"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cooldown", type=float, default=3.0, help="seconds of rest before a burst")
    parser.add_argument("--commit", help="what was measured; asked of git unless given")
    options = parser.parse_args()
    commit = options.commit or subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()

    problem = Problem(*options.size, getattr(torch, options.dtype))
    rows = []
    for name in options.stages:
        matmul = getattr(hopper_numba, f"matmul_{name}")
        call = functools.partial(matmul, problem.a, problem.b, out=problem.out)
        row = compare(problem, name, call, options.repeats, options.cooldown)
        rows.append(row)
        print(
            f"{name}: {row['ratio']:.3f} of cuBLAS ({min(row['ratios']):.3f} to {max(row['ratios']):.3f}), "
            f"{row['tflops']:.0f} TFLOPS; sustained {row['sustained_ratio']:.3f}; error {row['max_error']:.4f} max, "
            f"{row['mean_error']:.6f} mean (cuBLAS {row['cublas_max_error']:.4f}, {row['cublas_mean_error']:.6f})",
            flush=True,
        )
    conditions = environment(commit) | {
        "burst": f"{BURST} products after a cooldown of {options.cooldown} s, {options.repeats} times",
        "sustained": f"{SUSTAINED_SECONDS} s without a pause",
    }
    options.json.write_text(json.dumps({"environment": conditions, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
