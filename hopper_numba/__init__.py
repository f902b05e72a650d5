"""hopper_numba: NVIDIA Hopper kernels written in Numba-CUDA, and the instructions to write more.

`matmul` multiplies arrays; `jit`, `TensorMap`, `SharedLayout`, `Pipeline`, `Roles` and `hopper_numba.intrinsics` are
for new kernels; `interpret` runs kernels on the CPU.
"""

from importlib.metadata import version
from typing import Any

__version__ = version("hopper-numba")

__all__ = [
    "Config",
    "Pipeline",
    "Roles",
    "SharedLayout",
    "TensorMap",
    "barriers",
    "interpret",
    "jit",
    "matmul",
    "matmul_v0",
    "matmul_v1",
    "matmul_v2",
    "matmul_v3",
    "matmul_v4",
    "matmul_v5",
    "matmul_v6",
    "threads",
    "tile",
    "warp_groups",
    "warps",
]

try:
    from .interpreter import interpret
    from .jit import jit
    from .matmul import (
        matmul,
        matmul_v0,
        matmul_v1,
        matmul_v2,
        matmul_v3,
        matmul_v4,
        matmul_v5,
        matmul_v6,
    )
    from .pipeline import Pipeline
    from .roles import Roles, threads, warp_groups, warps
    from .shared import SharedLayout, barriers, tile
    from .stages.config import Config
    from .tensor_map import TensorMap
except (ImportError, AttributeError) as error:  # a dependency is missing or of another version: the doctor must start
    _broken = error

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise ImportError(
            f"{__name__}.{name}: {_broken}. `python -m hopper_numba doctor` says what mends it"
        ) from _broken
