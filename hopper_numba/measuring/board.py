"""The board that is measured: its clock and power just now, and what else a figure depends on beside the code."""

from __future__ import annotations

import functools
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pynvml
import torch

VERSIONED = (
    *("hopper-numba", "numba", "numba-cuda", "llvmlite", "numpy", "cuda-core", "cuda-bindings"),
    *("torch", "nvidia-cublas", "nvidia-cublas-cu12", "triton"),
)


def state() -> dict[str, float]:
    """The clock in MHz and the power in W just now."""
    mhz = pynvml.nvmlDeviceGetClockInfo(_board(), pynvml.NVML_CLOCK_SM)
    # `nvmlDeviceGetPowerUsage` is a mean of the last second, and a burst is shorter
    (power,) = pynvml.nvmlDeviceGetFieldValues(_board(), [pynvml.NVML_FI_DEV_POWER_INSTANT])
    is_known = power.nvmlReturn == pynvml.NVML_SUCCESS
    milliwatts = power.value.uiVal if is_known else pynvml.nvmlDeviceGetPowerUsage(_board())
    return {"sm_mhz": mhz, "watts": milliwatts / 1e3}


def environment(commit: str | None = None) -> dict[str, Any]:
    """What a figure depends on beside the code.

    Parameters
    ----------
    commit : str, optional
        What is measured; asked of git by default.

    Returns
    -------
    dict
    """
    board = _board()
    return {
        "board": pynvml.nvmlDeviceGetName(board),
        "driver": pynvml.nvmlSystemGetDriverVersion(),
        "power_limit_watts": pynvml.nvmlDeviceGetEnforcedPowerLimit(board) / 1e3,
        "max_sm_mhz": pynvml.nvmlDeviceGetMaxClockInfo(board, pynvml.NVML_CLOCK_SM),
        "memory_mhz": pynvml.nvmlDeviceGetClockInfo(board, pynvml.NVML_CLOCK_MEM),
        "cuda": torch.version.cuda,
        "versions": {name: found for name in VERSIONED if (found := _version(name))},
        "inputs": "N(0, 1), seed 0; under unit_variance A is scaled by K**-0.5",
        "commit": commit or _commit(),
    }


@functools.cache
def _board() -> Any:
    """NVML's handle of Torch's device; by UUID, for NVML counts boards that CUDA_VISIBLE_DEVICES hides."""
    pynvml.nvmlInit()
    uuid = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
    return pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)  # an installed copy may lie in another's repository
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
