"""mbarrier: the asynchronous barrier in shared memory (PTX ISA, "Parallel Synchronization Instructions: mbarrier").

A barrier counts arrivals and bytes. Its phase completes when the pending arrivals and the bytes still expected are
both zero; the next phase begins at once, with the count it was initialised with. A wait names the parity of the phase
it waits for: 0 for the first, 1 for the second, 0 again for the third; or the state that an arrival in it returned.
"""

from .addresses import SharedAddress
from .machine import machine
from .operands import u32, u32_of, u64
from .ptx import member, ptx
from .results import predicate
from .tiles import Barriers

MAX_COUNT = 2**20 - 1
"""Arrivals, and bytes, that a phase counts."""

Barrier = SharedAddress(Barriers)
Arrivals, Bytes, Parity = u32_of(1, MAX_COUNT), u32_of(0, MAX_COUNT), u32_of(0, 1)


@ptx("mbarrier.init.shared::cta.b64 [{barrier}], {count};", threads="one", proxy="generic")
def init(barrier: Barrier, count: Arrivals) -> None:
    """Initialise a barrier: phase 0, `count` arrivals pending, no bytes expected.

    Other threads may use it after a block-wide barrier, the async proxy and other blocks of the cluster after
    `fence.mbarrier_init` too.

    Parameters
    ----------
    barrier : barrier
        8 bytes in shared memory, 8-byte aligned.
    count : u32
        Arrivals a phase takes, 1 to 2**20 - 1.

    Notes
    -----
    PTX ISA, "mbarrier.init". One thread executes it. The interpreter raises where `count` is out of range or the
    barrier is in use already.
    """
    machine().barrier(barrier).init(count)


@ptx("mbarrier.inval.shared::cta.b64 [{barrier}];", threads="one", proxy="generic")
def inval(barrier: Barrier) -> None:
    """End a barrier: its 8 bytes may be used for something else, or initialised again.

    Parameters
    ----------
    barrier : barrier
        Nobody may use it any more, and nothing may be on its way to it.

    Notes
    -----
    PTX ISA, "mbarrier.inval". One thread executes it. The interpreter raises where the barrier is not initialised, or
    threads wait on it.
    """
    machine().barrier(barrier).inval()


@ptx("mbarrier.arrive.release.cta.shared::cta.b64 {result}, [{barrier}], {count};", threads="any", proxy="generic")
def arrive(barrier: Barrier, count: Arrivals) -> u64:
    """Arrive `count` times: that many fewer arrivals are pending; this thread's writes so far are released.

    Parameters
    ----------
    barrier : barrier
    count : u32
        1 to 2**20 - 1; mostly 1.

    Returns
    -------
    u64
        The state of the phase arrived in, for `test_wait_state` and `try_wait_state`. Free where it is not used.

    Notes
    -----
    PTX ISA, "mbarrier.arrive". Any thread executes it. The interpreter raises where fewer arrivals are pending.
    """
    return machine().barrier(barrier).arrive(count)


@ptx(
    "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 {result}, [{barrier}], {nbytes};",
    threads="any",
    proxy="generic",
)
def arrive_expect_tx(barrier: Barrier, nbytes: Bytes) -> u64:
    """Expect `nbytes` more bytes in this phase, then arrive once.

    Parameters
    ----------
    barrier : barrier
    nbytes : u32
        Bytes that asynchronous copies will report, up to 2**20 - 1 in a phase.

    Returns
    -------
    u64
        The state of the phase arrived in, as of `arrive`.

    Notes
    -----
    PTX ISA, "mbarrier.arrive". Any thread executes it. The interpreter raises where the phase takes no more arrivals.
    """
    return machine().barrier(barrier).arrive(1, nbytes)


@ptx("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{barrier}], {nbytes};", threads="any", proxy="generic")
def expect_tx(barrier: Barrier, nbytes: Bytes) -> None:
    """Expect `nbytes` more bytes in this phase, without arriving.

    Parameters
    ----------
    barrier : barrier
    nbytes : u32
        Bytes that asynchronous copies will report, up to 2**20 - 1 in a phase.

    Notes
    -----
    PTX ISA, "mbarrier.expect_tx". Any thread executes it, before the arrival that could complete the phase. The
    interpreter raises where more than 2**20 - 1 bytes are expected.
    """
    machine().barrier(barrier).expect(nbytes)


def asking(form, operands):
    """The PTX of a wait that answers with a predicate."""
    return (
        f"{{{{ .reg .pred complete; mbarrier.{form}.acquire.cta.shared::cta.b64 complete, [{{barrier}}], {operands}; "
        "selp.u32 {result}, 1, 0, complete; }}"
    )


TEST = {
    "does": "If so, what its arrivals released is visible. Does not wait.",
    "false": "False where it has not.",
    "cpu": "lets others run before it answers",
}
TRY = {
    "does": "As `test_wait`, but the thread may sleep a while, for as long as the hardware sees fit.",
    "false": "False may also mean that the time is up: try again.",
    "cpu": "never sleeps here, but lets others run",
}


def by_parity(name, words):
    """Declare a question about the phase of a parity."""

    @ptx(asking(f"{name}.parity", "{parity}"), threads="any", proxy="generic")
    @member(name, **words)
    def ask(barrier: Barrier, parity: Parity) -> predicate:
        """Whether the phase of this parity has completed.

        {does}

        Parameters
        ----------
        barrier : barrier
        parity : u32
            0 or 1, as of `wait`.

        Returns
        -------
        bool
            {false}

        Notes
        -----
        PTX ISA, "mbarrier.test_wait, mbarrier.try_wait". Any thread executes it. The interpreter {cpu}; it raises where
        the barrier is not initialised.
        """
        return machine().barrier(barrier).test(parity)

    return ask


def by_state(name, words):
    """Declare a question about the phase that an arrival was in."""

    @ptx(asking(name, "{state}"), threads="any", proxy="generic")
    @member(f"{name}_state", **words)
    def ask(barrier: Barrier, state: u64) -> predicate:
        """Whether the phase has completed in which an arrival returned `state`.

        {does}

        Parameters
        ----------
        barrier : barrier
        state : u64
            From `arrive` or `arrive_expect_tx` on this barrier, in this phase or the one before.

        Returns
        -------
        bool
            {false}

        Notes
        -----
        PTX ISA, "mbarrier.test_wait, mbarrier.try_wait". Any thread executes it. The interpreter {cpu}; it raises where
        the barrier is not initialised, and for a state of another barrier or an older phase.
        """
        return machine().barrier(barrier).test_state(state)

    return ask


test_wait, try_wait = by_parity("test_wait", TEST), by_parity("try_wait", TRY)
test_wait_state, try_wait_state = by_state("test_wait", TEST), by_state("try_wait", TRY)


@ptx(asking("try_wait.parity", "{parity}, {nanoseconds}"), threads="any", proxy="generic")
def try_wait_for(barrier: Barrier, parity: Parity, nanoseconds: u32) -> predicate:
    """As `try_wait`, with a hint how long the thread may sleep.

    Parameters
    ----------
    barrier : barrier
    parity : u32
        0 or 1, as of `wait`.
    nanoseconds : u32
        The longest time to sleep, instead of the hardware's own.

    Returns
    -------
    bool
        False may also mean that the time is up: try again.

    Notes
    -----
    PTX ISA, "mbarrier.test_wait, mbarrier.try_wait": suspendTimeHint. Any thread executes it. The interpreter never
    sleeps here, but lets others run; it raises where the barrier is not initialised.
    """
    return machine().barrier(barrier).test(parity)


@ptx(
    "{{ .reg .pred complete; WAIT: "
    "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 complete, [{barrier}], {parity}; @!complete bra WAIT; }}",
    threads="any",
    proxy="generic",
)
def wait(barrier: Barrier, parity: Parity) -> None:
    """Wait until the phase of this parity has completed; what its arrivals released is visible then.

    Parameters
    ----------
    barrier : barrier
    parity : u32
        0 for the first phase, 1 for the second, and so on in turn. A fresh barrier counts as if phase 1 had passed.

    Notes
    -----
    PTX ISA, "mbarrier.test_wait, mbarrier.try_wait": a loop around try_wait. Any thread executes it. The interpreter
    reports a deadlock where nothing can complete the phase.
    """
    machine().barrier(barrier).wait(parity)
