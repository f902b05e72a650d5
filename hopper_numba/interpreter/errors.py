"""What the interpreter raises. Each kind of fault has a class, and a `kind` that stays the same."""

from __future__ import annotations


class InterpreterError(RuntimeError):
    """A fault of an interpreted kernel.

    Attributes
    ----------
    kind : str
        Its name in reports, which stays the same whatever the message says.
    block : tuple of int or None
        The index of the block it happened in.
    thread : int or None
        The number, in its block, of the thread at fault; None where several are.
    filename : str
    line : int
        Where in the kernel's source; 0 where unknown.
    """

    kind = "fault"

    def __init__(
        self,
        message: str,
        *,
        block: tuple[int, ...] | None = None,
        thread: int | None = None,
        filename: str = "",
        line: int = 0,
    ) -> None:
        super().__init__(message)
        self.block, self.thread, self.filename, self.line = block, thread, filename, line


class HazardError(InterpreterError):
    """Accesses that nothing orders, or an ordering that something lacks, whatever this schedule made of it.

    Attributes
    ----------
    kind : str
        ``missing-proxy-fence``, ``read-before-arrival``, ``overwrite-while-read``, ``data-race`` and so on.
    is_error : bool
        False for what the PTX manual leaves undecided.
    advice : str
        What to add.
    other : tuple of str and int, or None
        File and line of the other access.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        is_error: bool,
        advice: str,
        block: tuple[int, ...] | None = None,
        thread: int | None = None,
        filename: str = "",
        line: int = 0,
        other: tuple[str, int] | None = None,
    ) -> None:
        super().__init__(message, block=block, thread=thread, filename=filename, line=line)
        self.kind, self.is_error, self.advice, self.other = kind, is_error, advice, other


class OutOfBoundsError(InterpreterError):
    """An access outside an array, or outside the block's shared memory."""

    kind = "out-of-bounds"


class MisalignedError(InterpreterError):
    """An access at an address that is no multiple of what it must be."""

    kind = "misaligned"


class UninitialisedReadError(InterpreterError):
    """A read of memory that nobody wrote."""

    kind = "uninitialised-read"


class ReadBeforeArrivalError(UninitialisedReadError):
    """A read of shared memory that an asynchronous copy is still to write."""

    kind = "read-before-arrival"


class OverwriteError(InterpreterError):
    """A write of shared memory that an asynchronous copy is still to write."""

    kind = "overwrite-in-flight"


class BarrierError(InterpreterError):
    """A barrier used in a way that it does not have: a count, a state, its bytes as data, arrivals of one thread."""

    kind = "barrier-misuse"


class PhaseOverrunError(BarrierError):
    """More arrivals than a phase takes, or a barrier begun or ended while it is used or before it is."""

    kind = "phase-overrun"


class DivergenceError(InterpreterError):
    """An instruction of a whole warp or warp group that a part of it executes."""

    kind = "divergent-collective"


class AccumulatorInFlightError(InterpreterError):
    """An accumulator read before ``wgmma.wait_group(acc, 0)``."""

    kind = "accumulator-in-flight"


class UnfinishedError(InterpreterError):
    """A block that ends before its asynchronous work has."""

    kind = "unfinished-at-exit"


class LeftoverPhaseError(InterpreterError):
    """A barrier whose phase still expects bytes, or has more than it expects, when its block ends."""

    kind = "leftover-phase"


class DeadlockError(InterpreterError):
    """No thread can run, and no asynchronous work is left that could help."""

    kind = "deadlock"


class TxMismatchError(DeadlockError):
    """A barrier's phase that expects other bytes than copies bring: it never completes, or before they have."""

    kind = "tx-mismatch"
