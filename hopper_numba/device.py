"""The GPUs of this machine: which there are, and why none can run a kernel."""

from __future__ import annotations

import functools
from typing import Any

HOPPER = (9, 0)
OFFER = (
    "To run kernels on the CPU: with hopper_numba.interpret(), or HOPPER_NUMBA_INTERPRET=1 in the environment of Python"
)


def find_gpus() -> tuple[list[Any], str]:
    """Ask the driver for its GPUs.

    Returns
    -------
    gpus : list of cuda.core.Device
        Empty without a driver.
    why_none : str
        Why the list is empty; an empty string if it is not.
    """
    try:
        from cuda.core import Device

        gpus = list(Device.get_all_devices())
    except Exception as error:  # no driver, an old one, a broken install: cuda.core's errors share no public base
        return [], f"no usable CUDA driver ({error})"
    return gpus, "" if gpus else "the CUDA driver shows no GPU"


def why_no_hopper() -> str:
    """Say why no kernel can run on a GPU here.

    Returns
    -------
    str
        The reason; an empty string if there is a Hopper GPU.
    """
    gpus, why_none = find_gpus()
    if why_none or any(tuple(gpu.compute_capability) == HOPPER for gpu in gpus):
        return why_none
    return "no GPU of compute capability 9.0, only " + ", ".join(map(describe, gpus))


def describe(gpu: Any) -> str:
    """A GPU's name and compute capability."""
    return "{}, compute capability {}.{}".format(gpu.name, *gpu.compute_capability)


@functools.cache
def require_hopper(ordinal: int) -> Any:
    """The device of this ordinal.

    Raises
    ------
    RuntimeError
        If it is no Hopper GPU; says what was found, and offers the interpreter.
    """
    gpu = _gpus()[ordinal]
    if tuple(gpu.compute_capability) != HOPPER:
        raise RuntimeError(f"a kernel needs a Hopper GPU (compute capability 9.0); got {describe(gpu)}. {OFFER}")
    return gpu


def current_device() -> int:
    """The ordinal of this thread's current device.

    Raises
    ------
    RuntimeError
        If the driver shows no GPU.
    """
    from cuda.core import Device

    _gpus()
    return int(Device().device_id)


def default_device() -> int:
    """The GPU for operands that are on none: the thread's current one, else the first Hopper GPU.

    Raises
    ------
    RuntimeError
        If there is no Hopper GPU.
    """
    current = current_device()
    hoppers = [gpu.device_id for gpu in find_gpus()[0] if tuple(gpu.compute_capability) == HOPPER]
    chosen = current if current in hoppers or not hoppers else hoppers[0]
    require_hopper(chosen)
    return chosen


def _gpus() -> list[Any]:
    gpus, why_none = find_gpus()
    if not gpus:
        raise RuntimeError(f"a kernel needs a Hopper GPU (compute capability 9.0): {why_none}. {OFFER}")
    return gpus


def check(status: Any, call: str) -> None:
    """Raise RuntimeError, with the driver's name for it, if a call of the driver failed."""
    if status:
        raise RuntimeError(f"{call}: {status.name}")
