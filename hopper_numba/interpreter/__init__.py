"""The interpreter: kernels on the CPU, the same source that the GPU runs.

A copy of the kernel runs once for each thread; a scheduler, the same for a seed, decides who is next; TMA and WGMMA
complete as late as the program's own synchronisation allows. What goes wrong raises an `InterpreterError`.

`cuda_namespace` says which part of `numba.cuda` a kernel may use. Integers are Python's, as wide as they need to be;
float arithmetic is NumPy's; conversions such as ``uint32(x)`` wrap.
"""

from .errors import (
    AccumulatorInFlightError,
    BarrierError,
    DeadlockError,
    DivergenceError,
    InterpreterError,
    MisalignedError,
    OperandError,
    OutOfBoundsError,
    OverwriteError,
    ReadBeforeArrivalError,
    UnfinishedError,
    UninitialisedReadError,
)
from .launch import run
from .settings import Settings, active, interpret

__all__ = [
    "AccumulatorInFlightError",
    "BarrierError",
    "DeadlockError",
    "DivergenceError",
    "InterpreterError",
    "MisalignedError",
    "OperandError",
    "OutOfBoundsError",
    "OverwriteError",
    "ReadBeforeArrivalError",
    "Settings",
    "UnfinishedError",
    "UninitialisedReadError",
    "active",
    "interpret",
    "run",
]
