"""The clock of the SMs, counted by one of them: what NVML says is some tens of milliseconds old."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from hopper_numba.intrinsics import timer
from hopper_numba.jit import jit

WHILE = np.uint64(200_000)  # nanoseconds; the clock is known to half a percent, as the time is to a microsecond


@jit(threads=32)
def count(out: Any) -> None:
    """The cycles and the nanoseconds of a while."""
    if cuda.threadIdx.x == 0:
        cycles, start = timer.clock64(), timer.globaltimer()
        now = start
        while now - start < WHILE:
            now = timer.globaltimer()
        out[0], out[1] = timer.clock64() - cycles, now - start


def sm_mhz() -> float:
    """The clock when the work queued so far has ended; waits for it."""
    import torch

    out = torch.empty(2, dtype=torch.int64, device="cuda")
    count[1](out)
    cycles, nanoseconds = out.tolist()
    return cycles / nanoseconds * 1e3
