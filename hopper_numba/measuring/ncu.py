"""What Nsight Compute says of a launch: how busy the tensor pipe and DRAM are, and what warps wait for.

``python -m hopper_numba.measuring.ncu M N K DTYPE NAME...`` is the program that is profiled.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

# Versions differ in what they offer: of each list the first that is there, and not zero, counts.
TENSOR_PIPE = (
    "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
)
DRAM = (
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
)
REGISTERS = "launch__registers_per_thread"
STALL = re.compile(r"smsp__average_warps_issue_stalled_(?!selected)(\w+)(?<!_not_issued)_per_issue_active")
TOP = 4  # stalls that are told of


def find() -> str:
    """The path of Nsight Compute.

    Raises
    ------
    RuntimeError
        If it is neither on PATH nor in CUDA_HOME.
    """
    home = os.environ.get("CUDA_HOME")
    for found in (shutil.which("ncu"), home and shutil.which("ncu", path=Path(home, "bin"))):
        if found:
            return found
    raise RuntimeError("Nsight Compute (ncu) is neither on PATH nor in the folder bin of CUDA_HOME")


def profile(names: Sequence[str], size: Sequence[int], dtype: str) -> dict[str, dict[str, Any]]:
    """Profile one launch of each contender.

    Parameters
    ----------
    names : sequence of str
        What `contenders.contender` knows.
    size : sequence of int
        M, N and K.
    dtype : str

    Returns
    -------
    dict
        By name: ``tensor_pipe_percent``, ``dram_percent``, ``registers``, and ``stalls``, the warps that wait for a
        reason when an instruction is issued, the most frequent first.

    Raises
    ------
    RuntimeError
        If Nsight Compute is not there, may not read the counters, or says nothing of these launches.
    """
    tool = find()
    command = [tool, "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(_metrics(tool))]
    command += ["--nvtx", "--print-nvtx-rename", "kernel"]  # the kernels are named as the contenders are
    command += ["--profile-from-start", "off"]
    command += ["--clock-control", "none"]  # the board's settings stay as they are
    program = [sys.executable, "-m", "hopper_numba.measuring.ncu", *map(str, size), dtype, *names]
    launches = parse(_run([*command, *program]))
    if missing := [name for name in names if name not in launches]:
        raise RuntimeError(f"it names no launch of {', '.join(missing)}, only of {', '.join(launches) or 'none'}")
    return {name: summary(launches[name]) for name in names}


def parse(text: str) -> dict[str, dict[str, float]]:
    """The metrics of each kernel, of what ``ncu --csv --page raw`` prints, its own messages and the program's included.

    Raises
    ------
    RuntimeError
        If it reports an error.
    """
    if "ERR_NVGPUCTRPERM" in text:
        raise RuntimeError(
            "this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM): run as root, or load the driver "
            "with NVreg_RestrictProfilingToAdminUsers=0"
        )
    if errors := re.findall(r"^==ERROR== (.*)", text, re.MULTILINE):
        raise RuntimeError("; ".join(errors))
    table = "\n".join(row for row in text.splitlines() if row.startswith('"'))
    launches: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(io.StringIO(table)):
        if row["ID"]:  # the row below the titles has the units
            contender = row["Kernel Name"].partition("/")[0]  # a range's name comes before the kernel's
            launches[contender] = {name: number for name in row if (number := _number(row[name])) is not None}
    return launches


def summary(metrics: Mapping[str, float]) -> dict[str, Any]:
    """What is told of a launch; what Nsight Compute did not say is left out."""
    stalls = {match[1]: metrics[name] for name in metrics if (match := STALL.match(name))}
    found = {
        "tensor_pipe_percent": _first(TENSOR_PIPE, metrics),
        "dram_percent": _first(DRAM, metrics),
        "registers": metrics.get(REGISTERS),
        "stalls": dict(sorted(stalls.items(), key=lambda stall: stall[1], reverse=True)[:TOP]),
    }
    return {name: value for name, value in found.items() if value is not None}


def line(name: str, found: Mapping[str, Any]) -> str:
    """A summary as a line."""
    stalls = ", ".join(f"{reason} {warps:.1f}" for reason, warps in found["stalls"].items())
    parts = [
        f"{title} {found[key]:.0f}{unit}"
        for key, title, unit in (
            ("tensor_pipe_percent", "tensor pipe", "%"),
            ("dram_percent", "DRAM", "%"),
            ("registers", "registers", ""),
        )
        if key in found
    ]
    return f"{name:<14}{', '.join(parts)}; warps stalled at an issue: {stalls or 'unknown'}"


def _metrics(tool: str) -> list[str]:
    """Those of ours that this version has for Hopper."""
    listed = _run([tool, "--query-metrics", "--chips", "gh100"])
    names = {words[0] for row in listed.splitlines() if (words := row.split())}
    chosen = [metric for metric in (*TENSOR_PIPE, *DRAM) if metric.partition(".")[0] in names]
    if not chosen:
        raise RuntimeError(f"{tool} has none of the metrics {', '.join((*TENSOR_PIPE, *DRAM))}")
    return [*chosen, *(f"{name}.ratio" for name in sorted(names) if STALL.fullmatch(name)), REGISTERS]


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode and "==ERROR==" not in done.stdout:  # `parse` says what is wrong
        raise RuntimeError(f"{Path(command[0]).name} ended with status {done.returncode}: {done.stdout[-500:].strip()}")
    return done.stdout


def _first(names: Collection[str], metrics: Mapping[str, float]) -> float | None:
    found = [metrics[name] for name in names if name in metrics]
    return next((value for value in found if value), found[0] if found else None)


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def _launch(m: str, n: str, k: str, dtype: str, *names: str) -> None:
    """Launch each contender under the eyes of Nsight Compute, once and warm."""
    import torch

    from hopper_numba.measuring.contenders import contender
    from hopper_numba.measuring.problem import Problem

    problem = Problem(int(m), int(n), int(k), getattr(torch, dtype))
    for name in names:
        multiply = contender(name).multiply
        multiply(problem.a, problem.b, out=problem.out)
        torch.cuda.synchronize()
        with torch.cuda.nvtx.range(name), torch.cuda.profiler.profile():
            multiply(problem.a, problem.b, out=problem.out)
            torch.cuda.synchronize()


if __name__ == "__main__":
    _launch(*sys.argv[1:])
