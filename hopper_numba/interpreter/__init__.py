"""The interpreter: kernels on the CPU, the same source that the GPU runs.

A copy of the kernel runs once for each thread; a scheduler, the same for a seed, decides who is next; TMA and WGMMA
complete as late as the program's own synchronisation allows. What goes wrong raises an `InterpreterError`:

==================================  ====================================================================================
deadlock                            `DeadlockError`: arrivals or bytes that never come, polling or spinning in vain
arrivals, counts, states            `PhaseOverrunError`, `BarrierError`: also barriers used before init or as data
reads of what is not there          `UninitialisedReadError`, `ReadBeforeArrivalError`: shared and local memory
writes where a load is on its way   `OverwriteError`
bounds, alignment                   `OutOfBoundsError`, `MisalignedError`
parts of a warp or warp group       `DivergenceError`
accumulators in flight              `AccumulatorInFlightError`
unfinished work at a block's end    `UnfinishedError`
==================================  ====================================================================================

Not found yet: fences that are missing (`fence.proxy_async`, `wgmma.fence`, `fence.mbarrier_init`), the source of a TMA
store or an operand of WGMMA that is overwritten before it was read, data races of ordinary reads and writes, register
budgets. Of these an overwritten tile or a race may show as a wrong result, under some seeds: seed 0 completes
everything as late as can be, others also early, so try several::

    for seed in range(8):
        with interpret(seed=seed):
            kernel[grid](...)

`cuda_namespace` says which part of `numba.cuda` a kernel may use.

Numbers differ from those of a compiled kernel where Python's and NumPy's arithmetic differs from Numba's:

- Integers are Python's, as wide as they need to be. ``int64`` and ``uint64`` do not wrap, an unsigned difference can be
  negative; a conversion such as ``uint32(x)``, and a store to an array, wraps.
- ``float32`` or ``float16`` with a Python number, ``x * 0.1``, is computed in the narrow type, as NumPy does; Numba
  computes in float64. ``x * float32(0.1)`` is the same in both.
- A Python number divided by zero, ``1.0 / 0``, raises ZeroDivisionError, which the GPU does not; a NumPy one, such as
  an array's element or ``float32(1)``, gives infinity or NaN in both. So do the functions of `math`.
- A float out of an integer's range converts to the nearest one, NaN to 0; ``int(x)`` of infinity or NaN raises.
"""

from .errors import (
    AccumulatorInFlightError,
    BarrierError,
    DeadlockError,
    DivergenceError,
    InterpreterError,
    MisalignedError,
    OutOfBoundsError,
    OverwriteError,
    PhaseOverrunError,
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
    "OutOfBoundsError",
    "OverwriteError",
    "PhaseOverrunError",
    "ReadBeforeArrivalError",
    "Settings",
    "UnfinishedError",
    "UninitialisedReadError",
    "active",
    "interpret",
    "run",
]
