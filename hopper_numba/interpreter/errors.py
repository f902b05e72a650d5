"""What the interpreter raises. Each kind of fault has a class, and a `kind` that stays the same."""

from __future__ import annotations


class InterpreterError(RuntimeError):
    """Whatever the interpreter reports of a kernel."""


class HazardError(InterpreterError):
    """What a kernel does wrong, or may do wrong under another schedule.

    Attributes
    ----------
    kind : str
        Its name in reports, which stays the same whatever the message says: ``missing-proxy-fence``, ``data-race``,
        ``deadlock`` and so on.
    is_error : bool
        False for what the PTX manual leaves undecided.
    advice : str
        What to add or to do; empty where the message says so itself.
    block : tuple of int or None
        The index of the block it happened in.
    thread : int or None
        The number, in its block, of the thread at fault; None where several are.
    filename : str
    line : int
        Where in the kernel's source; 0 where unknown.
    other : tuple of str and int, or None
        File and line of the other access, where two are at odds.
    """

    kind = "fault"

    def __init__(
        self,
        message: str,
        *,
        kind: str | None = None,
        is_error: bool = True,
        advice: str = "",
        block: tuple[int, ...] | None = None,
        thread: int | None = None,
        filename: str = "",
        line: int = 0,
        other: tuple[str, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind or type(self).kind
        self.is_error, self.advice, self.other = is_error, advice, other
        self.block, self.thread, self.filename, self.line = block, thread, filename, line

    @classmethod
    def of(cls, kind: str) -> type[HazardError]:
        """The class of a kind; `HazardError` itself for one that has none."""
        for known in cls.__subclasses__():
            if known.kind == kind:
                return known
            if (found := known.of(kind)) is not HazardError:
                return found
        return HazardError


class OutOfBoundsError(HazardError, IndexError):
    """An access outside an array, or outside the block's shared memory."""

    kind = "out-of-bounds"


class MisalignedError(HazardError):
    """An access at an address that is no multiple of what it must be."""

    kind = "misaligned"


class UninitialisedReadError(HazardError):
    """A read of memory that nobody wrote."""

    kind = "uninitialised-read"


class ReadBeforeArrivalError(UninitialisedReadError):
    """A read of shared memory that an asynchronous copy is still to write."""

    kind = "read-before-arrival"


class OverwriteError(HazardError):
    """A write of shared memory that an asynchronous copy is still to write."""

    kind = "overwrite-in-flight"


class BarrierError(HazardError):
    """A barrier used in a way that it does not have: a count, a state, its bytes as data, arrivals of one thread."""

    kind = "barrier-misuse"


class PhaseOverrunError(BarrierError):
    """More arrivals than a phase takes, or a barrier begun or ended while it is used or before it is."""

    kind = "phase-overrun"


class DivergenceError(HazardError):
    """An instruction of a whole warp or warp group that a part of it executes."""

    kind = "divergent-collective"


class WrongRoleError(HazardError):
    """What threads of one role do that another role has to."""

    kind = "wrong-role"


class AccumulatorInFlightError(HazardError):
    """An accumulator read before ``wgmma.wait_group(acc, 0)``."""

    kind = "accumulator-in-flight"


class UnfinishedError(HazardError):
    """A block that ends before its asynchronous work has."""

    kind = "unfinished-at-exit"


class LeftoverPhaseError(HazardError):
    """A barrier whose phase still expects bytes, or has more than it expects, when its block ends."""

    kind = "leftover-phase"


class DeadlockError(HazardError):
    """No thread can run, and no asynchronous work is left that could help."""

    kind = "deadlock"


class TxMismatchError(DeadlockError):
    """A barrier's phase that expects other bytes than copies bring: it never completes, or before they have."""

    kind = "tx-mismatch"


class RegisterBudgetError(HazardError):
    """Warp groups whose registers, by setmaxnreg, are more than the block has: it would wait for them for ever."""

    kind = "register-budget"
