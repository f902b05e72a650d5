"""mbarrier: the asynchronous barrier in shared memory (PTX ISA, "Parallel Synchronization Instructions: mbarrier").

A barrier counts arrivals and bytes. Its phase completes when the pending arrivals and the bytes still expected are
both zero; the next phase begins at once, with the count it was initialised with. A wait names the parity of the phase
it waits for: 0 for the first, 1 for the second, 0 again for the third; or the state that an arrival in it returned.

Arrivals and waits order memory between the threads of the block, unless their names say more. Across a cluster: names
that end in ``_remote`` reach a barrier in another block, from `cluster.map_shared`, and a wait that ends in
``_cluster`` sees what an `arrive_remote` released.
"""

from .addresses import SharedAddress
from .machine import machine
from .operands import u32, u32_of, u64
from .ptx import member, ptx
from .results import predicate
from .tiles import Barriers

MAX_COUNT = 2**20 - 1
"""Arrivals, and bytes, that a phase counts."""

Barrier, Remote = SharedAddress(Barriers), SharedAddress(Barriers, cluster=True)
Arrivals, Bytes, Parity = u32_of(1, MAX_COUNT), u32_of(0, MAX_COUNT), u32_of(0, 1)


@ptx("mbarrier.init.shared::cta.b64 [{barrier}], {count};", threads="one", proxy="generic")
def init(barrier: Barrier, count: Arrivals) -> None:
    """Initialise a barrier: phase 0, `count` arrivals pending, no bytes expected.

    Other threads of the block may use it after a block-wide barrier, the async proxy after `fence.mbarrier_init` too,
    other blocks of the cluster after `fence.mbarrier_init` and then `cluster.sync`.

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


# Arrivals on the block's barriers ------------------------------------------------------------------------------------

STAYS = {"does": "", "fails": ""}
DROPS = {
    "does": ". From the next phase on the barrier takes that many arrivals fewer: for a thread that ends earlier than "
    "others",
    "fails": ", or where none would be left for later phases, which take at least one",
}


def by_count(name, words):
    """Declare arrivals on a barrier of the block."""

    @ptx(
        f"mbarrier.{name}.release.cta.shared::cta.b64 {{result}}, [{{barrier}}], {{count}};",
        threads="any",
        proxy="generic",
    )
    @member(name, title=name, **words)
    def arrivals(barrier: Barrier, count: Arrivals) -> u64:
        """Arrive `count` times: that many fewer arrivals are pending{does}.

        What this thread wrote so far is released to the threads of its block. `{title}_remote` is for a barrier in
        another block of the cluster.

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
        PTX ISA, "mbarrier.{title}". Any thread executes it. The interpreter raises where fewer arrivals are
        pending{fails}.
        """
        return machine().barrier(barrier).arrive(count, drops=words is DROPS)

    return arrivals


def by_bytes(name, words):
    """Declare an arrival that expects bytes, on a barrier of the block."""

    @ptx(
        f"mbarrier.{name}.expect_tx.release.cta.shared::cta.b64 {{result}}, [{{barrier}}], {{nbytes}};",
        threads="any",
        proxy="generic",
    )
    @member(f"{name}_expect_tx", title=name, **words)
    def arrival(barrier: Barrier, nbytes: Bytes) -> u64:
        """Expect `nbytes` more bytes in this phase, then arrive once{does}.

        What this thread wrote so far is released to the threads of its block.

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
        PTX ISA, "mbarrier.{title}". Any thread executes it. The interpreter raises where the phase takes no more
        arrivals{fails}.
        """
        return machine().barrier(barrier).arrive(1, nbytes, drops=words is DROPS)

    return arrival


arrive, arrive_drop = by_count("arrive", STAYS), by_count("arrive_drop", DROPS)
arrive_expect_tx, arrive_drop_expect_tx = by_bytes("arrive", STAYS), by_bytes("arrive_drop", DROPS)

# Arrivals on barriers of the cluster's blocks ------------------------------------------------------------------------

RELEASED = (
    "What this thread wrote so far, also to other blocks, is released to the cluster, which sees it after "
    "`wait_cluster`. On sm_90 that takes a memory barrier of the GPU's scope (MEMBAR.ALL.GPU)"
)
RELAXED = (
    "It orders no memory, and takes no memory barrier: for a thread that wrote nothing which the other block reads. "
    "PTX has it since version 8.6"
)
OF_BLOCK = (
    "What this thread wrote is released to its own block only, which takes no memory barrier: on sm_90 the same "
    "machine code as `arrive_remote_relaxed`, in every version of PTX. Enough for a consumer that only gives back a "
    "stage which WGMMA has read, after its `wgmma.wait_group`; not for one that wrote what the other block reads"
)


def remote_by_count(name, operation, order, words, orders):
    """Declare arrivals on a barrier of any block of the cluster."""

    @ptx(
        f"mbarrier.{operation}.{order}.shared::cluster.b64 _, [{{barrier}}], {{count}};",
        threads="any",
        proxy="generic",
    )
    @member(name, title=operation, orders=orders, **words)
    def arrivals(barrier: Remote, count: Arrivals) -> None:
        """As `{title}` on a barrier of any block of the cluster, without its state.

        {orders}.

        Parameters
        ----------
        barrier : barrier
            The block's own, or from `cluster.map_shared`.
        count : u32
            1 to 2**20 - 1; mostly 1.

        Notes
        -----
        PTX ISA, "mbarrier.{title}". Any thread executes it. The interpreter raises where fewer arrivals are
        pending{fails}, and where that block's threads have exited.
        """
        machine().barrier(barrier).arrive(count, drops=words is DROPS, order=order)

    return arrivals


arrive_remote = remote_by_count("arrive_remote", "arrive", "release.cluster", STAYS, RELEASED)
arrive_remote_relaxed = remote_by_count("arrive_remote_relaxed", "arrive", "relaxed.cluster", STAYS, RELAXED)
arrive_remote_cta = remote_by_count("arrive_remote_cta", "arrive", "release.cta", STAYS, OF_BLOCK)
arrive_drop_remote = remote_by_count("arrive_drop_remote", "arrive_drop", "release.cluster", DROPS, RELEASED)


@ptx(
    "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [{barrier}], {nbytes};",
    threads="any",
    proxy="generic",
)
def arrive_expect_tx_remote(barrier: Remote, nbytes: Bytes) -> None:
    """As `arrive_expect_tx` on a barrier of any block of the cluster, without its state.

    What this thread wrote so far is released to the cluster, at the cost of `arrive_remote`.

    Parameters
    ----------
    barrier : barrier
        The block's own, or from `cluster.map_shared`.
    nbytes : u32
        Bytes that asynchronous copies will report there, up to 2**20 - 1 in a phase.

    Notes
    -----
    PTX ISA, "mbarrier.arrive". Any thread executes it. The interpreter raises where the phase takes no more arrivals,
    and where that block's threads have exited.
    """
    machine().barrier(barrier).arrive(1, nbytes, order="release.cluster")


# Bytes ---------------------------------------------------------------------------------------------------------------


EXPECT = {
    "does": "Expect `nbytes` more bytes, which asynchronous copies will report, in this phase",
    "fails": ", before the arrival that could complete the phase. The interpreter raises where more than 2**20 - 1 "
    "bytes are expected",
}
COMPLETE = {
    "does": "Report `nbytes` bytes as an asynchronous copy does that arrives: this phase expects that many fewer",
    "fails": ". Nothing is copied. The interpreter raises where more than 2**20 - 1 bytes arrived that nobody expects "
    "yet",
}


def transaction(operation, words, remote):
    """Declare a change of the bytes of a phase, without an arrival."""
    place = "cluster.shared::cluster" if remote else "cta.shared::cta"
    said = {
        "where": "The block's own, or from `cluster.map_shared`." if remote else "The block's own.",
        "gone": ", and where that block's threads have exited" if remote else "",
    }

    @ptx(f"mbarrier.{operation}.relaxed.{place}.b64 [{{barrier}}], {{nbytes}};", threads="any", proxy="generic")
    @member(f"{operation}{'_remote' if remote else ''}", title=operation, **words, **said)
    def change(barrier: Remote if remote else Barrier, nbytes: Bytes) -> None:
        """{does}, without arriving. It orders no memory.

        Parameters
        ----------
        barrier : barrier
            {where}
        nbytes : u32
            Up to 2**20 - 1.

        Notes
        -----
        PTX ISA, "mbarrier.{title}". Any thread executes it{fails}{gone}.
        """
        found = machine().barrier(barrier)
        found.expect(nbytes) if words is EXPECT else found.complete_tx(nbytes)

    return change


expect_tx, expect_tx_remote = (transaction("expect_tx", EXPECT, remote) for remote in (False, True))
complete_tx, complete_tx_remote = (transaction("complete_tx", COMPLETE, remote) for remote in (False, True))

# Waits ---------------------------------------------------------------------------------------------------------------


SEEN = {
    "cta": "what threads of the block released by arriving, and what asynchronous copies wrote, is visible",
    "cluster": "what threads of the cluster released by arriving, as by `arrive_remote`, is visible, which on sm_90 "
    "costs the SM its L1 cache (CCTL.IVALL)",
}
"""What a wait acquires, by its scope."""
SUFFIX = {"cta": "", "cluster": "_cluster"}


def asking(form, operands, scope):
    """The PTX of a wait that answers with a predicate."""
    return (
        f"{{{{ .reg .pred complete; mbarrier.{form}.acquire.{scope}.shared::cta.b64 complete, [{{barrier}}], "
        f"{operands}; "
        "selp.u32 {result}, 1, 0, complete; }}"
    )


TEST = {
    "does": "Does not wait.",
    "false": "False where it has not.",
    "cpu": "lets others run before it answers",
}
TRY = {
    "does": "The thread may sleep a while first, for as long as the hardware sees fit.",
    "false": "False may also mean that the time is up: try again.",
    "cpu": "never sleeps here, but lets others run",
}


def by_parity(name, words, scope):
    """Declare a question about the phase of a parity."""

    @ptx(asking(f"{name}.parity", "{parity}", scope), threads="any", proxy="generic")
    @member(f"{name}{SUFFIX[scope]}", seen=SEEN[scope], **words)
    def ask(barrier: Barrier, parity: Parity) -> predicate:
        """Whether the phase of this parity has completed.

        {does} If it has, {seen}.

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
        return machine().barrier(barrier).test(parity, scope)

    return ask


def by_state(name, words, scope):
    """Declare a question about the phase that an arrival was in."""

    @ptx(asking(name, "{state}", scope), threads="any", proxy="generic")
    @member(f"{name}_state{SUFFIX[scope]}", seen=SEEN[scope], **words)
    def ask(barrier: Barrier, state: u64) -> predicate:
        """Whether the phase has completed in which an arrival returned `state`.

        {does} If it has, {seen}.

        Parameters
        ----------
        barrier : barrier
        state : u64
            From an arrival on this barrier, in this phase or the one before.

        Returns
        -------
        bool
            {false}

        Notes
        -----
        PTX ISA, "mbarrier.test_wait, mbarrier.try_wait". Any thread executes it. The interpreter {cpu}; it raises where
        the barrier is not initialised, and for a state of another barrier or an older phase.
        """
        return machine().barrier(barrier).test_state(state, scope)

    return ask


def for_a_time(scope):
    """Declare a question that says how long the thread may sleep."""

    @ptx(asking("try_wait.parity", "{parity}, {nanoseconds}", scope), threads="any", proxy="generic")
    @member(f"try_wait_for{SUFFIX[scope]}", seen=SEEN[scope], suffix=SUFFIX[scope])
    def ask(barrier: Barrier, parity: Parity, nanoseconds: u32) -> predicate:
        """As `try_wait{suffix}`, with a hint how long the thread may sleep.

        If the phase has completed, {seen}.

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
        return machine().barrier(barrier).test(parity, scope)

    return ask


def until_complete(scope):
    """Declare a wait that ends when the phase has completed."""

    @ptx(
        f"{{{{ .reg .pred complete; WAIT: mbarrier.try_wait.parity.acquire.{scope}.shared::cta.b64 complete, "
        "[{barrier}], {parity}; @!complete bra WAIT; }}",
        threads="any",
        proxy="generic",
    )
    @member(f"wait{SUFFIX[scope]}", seen=SEEN[scope])
    def wait(barrier: Barrier, parity: Parity) -> None:
        """Wait until the phase of this parity has completed.

        Then {seen}. `wait` is for arrivals and copies of the block, `wait_cluster` for what other blocks released too.

        Parameters
        ----------
        barrier : barrier
        parity : u32
            0 for the first phase, 1 for the second, and so on in turn. A fresh barrier counts as if phase 1 had passed.

        Notes
        -----
        PTX ISA, "mbarrier.test_wait, mbarrier.try_wait": a loop around try_wait. Any thread executes it. The
        interpreter reports a deadlock where nothing can complete the phase.
        """
        machine().barrier(barrier).wait(parity, scope)

    return wait


test_wait, test_wait_cluster = (by_parity("test_wait", TEST, scope) for scope in SEEN)
try_wait, try_wait_cluster = (by_parity("try_wait", TRY, scope) for scope in SEEN)
test_wait_state, test_wait_state_cluster = (by_state("test_wait", TEST, scope) for scope in SEEN)
try_wait_state, try_wait_state_cluster = (by_state("try_wait", TRY, scope) for scope in SEEN)
try_wait_for, try_wait_for_cluster = map(for_a_time, SEEN)
wait, wait_cluster = map(until_complete, SEEN)
