"""The interpreter: kernels on the CPU, the same source that the GPU runs.

A copy of the kernel runs once for each thread; a scheduler, the same for a seed, decides who is next; TMA and WGMMA
complete as late as the program's own synchronisation allows. What goes wrong raises a `HazardError`:

==================================  ====================================================================================
deadlock                            `DeadlockError`: arrivals that never come, polling or spinning in vain
bytes expected and brought          `TxMismatchError`, `LeftoverPhaseError`
registers by setmaxnreg             `RegisterBudgetError`
arrivals, counts, states            `PhaseOverrunError`, `BarrierError`: also barriers used before init or as data
reads of what is not there          `UninitialisedReadError`, `ReadBeforeArrivalError`: shared and local memory
writes where a load is on its way   `OverwriteError`
bounds, alignment                   `OutOfBoundsError`, `MisalignedError`
parts of a warp or warp group       `DivergenceError`
what another role has to do         `WrongRoleError`
accumulators in flight              `AccumulatorInFlightError`
unfinished work at a block's end    `UnfinishedError`
what nothing orders                 one of the kinds below
==================================  ====================================================================================

Hazards are accesses that nothing orders, whether or not this schedule let them meet:

==========================  ============================================================================================
``missing-proxy-fence``     TMA or WGMMA reads or writes where ordinary instructions wrote, without the proxy fence
``missing-wgmma-fence``     WGMMA takes registers that were touched since the last `wgmma.fence`
``read-before-arrival``     a read, WGMMA's too, that did not wait for the copy that brings the bytes
``overwrite-while-read``    a write where TMA or WGMMA may still read, or TMA's where a thread may
``overwrite-in-flight``     a write where a copy may still write
``data-race``               two accesses by threads, one of them a write; in global memory also those of copies
``phase-overrun``           a barrier used before its `mbarrier.init` is visible, or that may get ahead of a waiter
``undecided-order``         ordered, but in a way that the PTX manual has no rule for: kept, never raised
==========================  ============================================================================================

The first one is raised, with both places in the source and what to add; ``interpret(collect=True)`` keeps them all in
`Settings.hazards`, and ``check=False`` looks for none. Not found: a fence of the tensormap proxy that is missing.
A hazard is reported by the schedules that come to it: seed 0 completes everything as late
as can be, others also early, so try several::

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
    HazardError,
    InterpreterError,
    LeftoverPhaseError,
    MisalignedError,
    OutOfBoundsError,
    OverwriteError,
    PhaseOverrunError,
    ReadBeforeArrivalError,
    RegisterBudgetError,
    TxMismatchError,
    UnfinishedError,
    UninitialisedReadError,
    WrongRoleError,
)
from .launch import run
from .settings import Settings, active, interpret

__all__ = [
    "AccumulatorInFlightError",
    "BarrierError",
    "DeadlockError",
    "DivergenceError",
    "HazardError",
    "InterpreterError",
    "LeftoverPhaseError",
    "MisalignedError",
    "OutOfBoundsError",
    "OverwriteError",
    "PhaseOverrunError",
    "ReadBeforeArrivalError",
    "RegisterBudgetError",
    "Settings",
    "TxMismatchError",
    "UnfinishedError",
    "UninitialisedReadError",
    "WrongRoleError",
    "active",
    "interpret",
    "run",
]
