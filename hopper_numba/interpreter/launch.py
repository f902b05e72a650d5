"""The launch of an interpreted kernel."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

import numpy as np

from hopper_numba.intrinsics.machine import is_running, running
from hopper_numba.shared import SHARED_NBYTES

from .arrays import GlobalArray
from .cuda_namespace import CudaNamespace
from .errors import HazardError
from .machine import Machine
from .rewrite import Rewriter
from .scalars import loaded
from .settings import Settings, active, count_launch, witness


def run(
    kernel: Callable,
    args: tuple,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    *,
    dynamic_shared: int = 0,
    seed: int | None = None,
    cluster: int | tuple[int, ...] = 1,
    check: bool | None = None,
) -> None:
    """Run a kernel on the CPU.

    Parameters
    ----------
    kernel : function or dispatcher
        A kernel's Python function, or what ``cuda.jit`` or ``hopper_numba.jit`` made of it.
    args : tuple
        NumPy arrays, which the kernel reads and writes in place; numbers; tensor maps of NumPy arrays; tuples of these.
        Anything else is refused by the argument's name.
    grid, block : int or tuple of int
        Extents in blocks, and in threads of a block: at most 1024.
    dynamic_shared : int
        Bytes of dynamic shared memory of a block, at most 227 KiB.
    seed : int, optional
        Of the schedule; that of `interpret` unless given, else 0.
    cluster : int or tuple of int
        Extents of a cluster in blocks. Blocks of a cluster run together, others one after another.
    check : bool, optional
        Whether hazards are looked for; that of `interpret` unless given, else True.

    Raises
    ------
    HazardError
        For what the kernel does wrong.
    ValueError, TypeError
        For a launch, or arguments, that cannot be.
    """
    if is_running():
        raise RuntimeError("a kernel cannot launch another one")
    shape, threads, together = _extents("grid", grid), _extents("block", block), _extents("cluster", cluster)
    if math.prod(threads) > 1024:
        raise ValueError(f"block must have at most 1024 threads; got {threads}")
    if any(g % c for g, c in zip(shape, together, strict=True)):
        raise ValueError(f"grid must be whole clusters of {together}; got {shape}")
    if not 0 <= dynamic_shared <= SHARED_NBYTES:
        raise ValueError(f"dynamic_shared must be 0 to {SHARED_NBYTES} bytes; got {dynamic_shared}")
    settings = active()
    if seed is None:
        seed = settings.seed if settings is not None else 0
    settings = settings or Settings()
    if check is None:
        check = settings.check
    machine = Machine(shape, threads, dynamic_shared, seed, together, settings.report if check else None)
    source = cast(FunctionType, getattr(kernel, "py_func", kernel))
    function = Rewriter(CudaNamespace(machine)).function(source)
    given = tuple(_argument(machine, n, v) for n, v in zip(_names(source, args), args, strict=True))
    count_launch(settings, source.__name__)
    # a GPU does not warn of overflows
    with np.errstate(all="ignore"), running(machine):
        for first in itertools.product(*(range(0, g, c) for g, c in zip(shape[::-1], together[::-1], strict=True))):
            offsets = itertools.product(*(range(c) for c in together[::-1]))
            places = [tuple(f + o for f, o in zip(first, offset, strict=True))[::-1] for offset in offsets]
            try:
                machine.run(function, given, [(place, rank) for rank, place in enumerate(places)])  # type: ignore[misc]
            except HazardError as error:
                witness(error)
                raise


def _extents(name: str, given: int | tuple[int, ...]) -> tuple[int, int, int]:
    found = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(found) <= 3 or not all(isinstance(n, int | np.integer) and n >= 1 for n in found):
        raise ValueError(f"{name} must be one to three positive integers; got {given!r}")
    x, y, z = (*map(int, found), 1, 1)[:3]
    return x, y, z


def _names(function: FunctionType, args: tuple) -> list[str]:
    """The names of the arguments. Raises TypeError for a wrong number of them, naming the kernel."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args)
    except TypeError as error:
        raise TypeError(f"{function.__name__}({', '.join(signature.parameters)}): {error}") from None
    names = []
    for name, value in bound.arguments.items():
        many = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        names += [f"{name}[{i}]" for i in range(len(value))] if many else [name]
    return names


def _argument(machine: Machine, name: str, value: Any) -> Any:
    """An argument as the kernel sees it."""
    if isinstance(value, np.ndarray):
        return GlobalArray(machine, name, value)
    if isinstance(value, np.generic):
        return loaded(value)
    if isinstance(value, tuple):
        return tuple(_argument(machine, f"{name}[{i}]", item) for i, item in enumerate(value))
    if isinstance(value, int | float | complex):
        return value
    if not hasattr(value, "numba_type"):
        raise TypeError(
            f"argument {name}: the interpreter takes NumPy arrays, numbers and TensorMaps, and tuples of them; got "
            f"{type(value).__name__}"
        )
    if not isinstance(value.array, np.ndarray):
        where = "" if value.device is None else f" on device {value.device}"
        raise TypeError(
            f"argument {name}: the interpreter takes TensorMaps of NumPy arrays; got one of "
            f"{type(value.array).__name__}{where}"
        )
    return value
