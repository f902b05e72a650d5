"""What a run of a kernel finds."""

from hopper_numba import interpreter
from hopper_numba.interpreter import InterpreterError, interpret


def findings(kernel, args, shared, threads, *, seed=0, grid=1, cluster=1):
    """All hazards of a run, and the fault that ended it, if one did."""
    with interpret(seed, collect=True) as settings:
        try:
            interpreter.run(kernel, args, grid, threads, dynamic_shared=shared.nbytes, cluster=cluster)
        except InterpreterError as error:
            return [*settings.hazards, error]
    return settings.hazards


def outcome(found):
    """``ok``, ``undecided``, or the kind of the first error: others may follow from it."""
    kinds = [one.kind for one in found if one.is_error]
    return kinds[0] if kinds else "undecided" if found else "ok"
