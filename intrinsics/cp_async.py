"""cp.async: copies of 4, 8 or 16 bytes to shared memory, by each thread (PTX ISA, "Data Movement: Non-bulk copy").

A thread begins copies and goes on; it waits for them itself, by groups, or has them arrive on an mbarrier, on which
other threads can wait too. Though asynchronous they act through the generic proxy, as ordinary stores do: after the
wait, what they wrote reaches TMA and WGMMA only by a `fence.proxy_async_shared_cta`.
"""

from .addresses import GlobalAddress, SharedAddress
from .machine import machine
from .operands import Optional, u32_of
from .ptx import member, ptx
from .tiles import Barriers
from .tma import Groups

CACHES = {"ca": "all caches", "cg": "the L2 cache only, past L1"}


def copy(cache, nbytes):
    """Declare a copy of `nbytes` bytes."""

    @ptx(
        f"cp.async.{cache}.shared::cta.global [{{destination}}], [{{source}}], {nbytes}{{source_nbytes}};",
        threads="any",
        proxy="generic",
    )
    @member(f"copy_{cache}_{nbytes}", nbytes=nbytes, caches=CACHES[cache])
    def copy(
        destination: SharedAddress(), source: GlobalAddress(), source_nbytes: Optional(u32_of(0, nbytes)) = None
    ) -> None:
        """Begin to copy {nbytes} bytes from global to shared memory, as part of the thread's open group.

        The source is kept in {caches}.

        Parameters
        ----------
        destination : element's address or shared array
            In the block's shared memory, ``tile.address(…)`` or a shared array's first element; a multiple of {nbytes}
            bytes. Nobody may touch it before the copy is waited for.
        source : element's address
            From `memory.address_of`; a multiple of {nbytes} bytes. Nobody may change it before the copy is waited for.
        source_nbytes : u32, optional
            Bytes that are read, 0 to {nbytes}, which need not be known at compile time; all unless given. The rest is
            filled with zeros.

        Notes
        -----
        PTX ISA, "cp.async". Any thread executes it, for itself: nobody else's `wait_group` counts, but an arrival on a
        barrier tells all who wait there. The interpreter copies at a moment that the scheduler picks, no later than
        that; until then a read or a write of the destination raises. It also raises for a source or destination that is
        misaligned or out of bounds, and at the block's end for a copy that was not waited for. Other threads need a
        barrier behind the `wait_group`, without which their access is a ``data-race``, and TMA and WGMMA the proxy
        fence too (``missing-proxy-fence``).
        """
        machine().copies.begin(destination, source, nbytes, nbytes if source_nbytes is None else source_nbytes)

    return copy


copy_ca_4, copy_ca_8, copy_ca_16 = (copy("ca", nbytes) for nbytes in (4, 8, 16))
copy_cg_16 = copy("cg", 16)


@ptx("cp.async.commit_group;", threads="any", proxy="generic")
def commit_group() -> None:
    """Close a group: every copy of this thread since the last one. It may be empty.

    Notes
    -----
    PTX ISA, "cp.async.commit_group". Any thread executes it, for itself.
    """
    machine().copies.commit()


@ptx("cp.async.wait_group {n};", threads="any", proxy="generic")
def wait_group(n: Groups) -> None:
    """Wait until all but the last `n` groups of this thread are complete: it may read what they wrote.

    Other threads may after a barrier. Copies in no group yet are not waited for.

    Parameters
    ----------
    n : int
        Compile-time, 0 to 63: as far as the hardware counts.

    Notes
    -----
    PTX ISA, "cp.async.wait_group". Any thread executes it, for its own groups.
    """
    machine().copies.wait(n)


@ptx("cp.async.wait_all;", threads="any", proxy="generic")
def wait_all() -> None:
    """Wait until all copies of this thread are complete, those in no group too: it may read what they wrote.

    Other threads may after a barrier.

    Notes
    -----
    PTX ISA, "cp.async.wait_all". Any thread executes it, for its own copies.
    """
    machine().copies.wait_all()


def arrival(name, increments, does):
    """Declare an arrival that follows the copies."""

    @ptx(f"cp.async.mbarrier.arrive{name}.shared::cta.b64 [{{barrier}}];", threads="any", proxy="generic")
    @member(f"mbarrier_arrive{name.replace('.', '_')}", does=does)
    def mbarrier_arrive(barrier: SharedAddress(Barriers)) -> None:
        """Arrive once on a barrier as soon as all copies of this thread so far are complete; do not wait for that.

        {does} Whoever waits for the phase may read what the copies wrote.

        Parameters
        ----------
        barrier : barrier

        Notes
        -----
        PTX ISA, "cp.async.mbarrier.arrive". Any thread executes it, for its own copies, in groups or not. The
        interpreter arrives at a moment that the scheduler picks, with the copies that are still on their way. It raises
        where the barrier is not initialised, where the phase takes no more arrivals then, and at the block's end for an
        arrival that nobody waited for.
        """
        machine().copies.arrive(barrier, increments)

    return mbarrier_arrive


mbarrier_arrive = arrival(
    "",
    True,
    """The phase takes one arrival more for it, from now on: the barrier's count does not include it, and an ordinary
        arrival has to complete the phase.""",
)
mbarrier_arrive_noinc = arrival(".noinc", False, "It is one of the arrivals that the barrier counts.")
