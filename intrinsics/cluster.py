"""Clusters: blocks that run at once and reach each other's shared memory.

PTX ISA, "Cluster of Cooperative Thread Arrays", "barrier.cluster". The blocks of a cluster are numbered by rank, x
fastest. `map_shared` gives a view of the same thing in another block's shared memory, which instructions take that say
so. A block's shared memory is there while one of its threads is: `sync` once before another block's is touched, so that
all have begun, and once at the end, so that none has left.
"""

import numpy as np

from .addresses import SharedAddress
from .machine import machine
from .operands import Vector, u32, u64
from .ptx import member, ptx
from .results import Mapped, Registers
from .tiles import Barriers, Element, Shared
from .types import SharedView

Address, Barrier = SharedAddress(Element, cluster=True), SharedAddress(Barriers, cluster=True)
FIXED = "a block's place in the grid never changes"
ARITHMETIC = "it depends on its operands only"

# Who a block is ------------------------------------------------------------------------------------------------------


def number(name, register, what, find):
    """Declare a number of the block's cluster."""

    @ptx(f"mov.u32 {{result}}, %{register};", threads="any", pure=FIXED)
    @member(name, what=what, register=register)
    def of_cluster() -> u32:
        """{what}.

        Returns
        -------
        u32

        Notes
        -----
        PTX ISA, "Special Registers: %{register}". Any thread executes it.
        """
        return find(machine())

    return of_cluster


def place(name, register, what, find):
    """Declare three numbers, along x, y and z, of the block's cluster."""

    @ptx(f"mov.v4.u32 {{result}}, %{register};", threads="any", pure=FIXED)
    @member(name, what=what, register=register)
    def of_cluster() -> Registers(u32, 3, sunk=1):
        """{what}.

        Returns
        -------
        tuple of 3 u32
            Along x, y, z.

        Notes
        -----
        PTX ISA, "Special Registers: %{register}". Any thread executes it.
        """
        return find(machine())

    return of_cluster


rank = number(
    "rank",
    "cluster_ctarank",
    "The block's number in its cluster, from 0 on, x fastest",
    lambda machine: machine.thread.block.rank,
)
size = number(
    "size",
    "cluster_nctarank",
    "How many blocks the cluster has; 1 in a launch without clusters",
    lambda machine: len(machine.blocks),
)
block_index = place(
    "block_index",
    "cluster_ctaid",
    "Where in its cluster the block is",
    lambda machine: tuple(i % n for i, n in zip(machine.thread.block.index, machine.cluster, strict=True)),
)
shape = place(
    "shape",
    "cluster_nctaid",
    "How many blocks the cluster has along each dimension",
    lambda machine: machine.cluster,
)
index = place(
    "index",
    "clusterid",
    "Where in the grid the cluster is, counted in clusters",
    lambda machine: tuple(i // n for i, n in zip(machine.thread.block.index, machine.cluster, strict=True)),
)
count = place(
    "count",
    "nclusterid",
    "How many clusters the grid has along each dimension",
    lambda machine: tuple(g // n for g, n in zip(machine.grid, machine.cluster, strict=True)),
)

# The barrier of the cluster ------------------------------------------------------------------------------------------

RELEASE, RELAXED = "barrier.cluster.arrive.release{};", "barrier.cluster.arrive.relaxed{};"
ACQUIRE = "barrier.cluster.wait.acquire{};"


def at_barrier(name, texts, does, orders, fails):
    """Declare a step at the barrier of the cluster, of whole warps and, by another name, of single threads."""
    arrives, waits, relaxed = texts[0] is not ACQUIRE, texts[-1] is ACQUIRE, texts[0] is RELAXED

    def of_threads(name, aligned, threads, who):
        @ptx(" ".join(texts).format(*[aligned] * len(texts)), threads=threads, proxy="generic")
        @member(name, does=does, orders=orders, who=who, fails=fails)
        def step() -> None:
            """{does}.

            {orders} All threads of the cluster's blocks that have not exited arrive once in each phase of the barrier.

            Notes
            -----
            PTX ISA, "barrier.cluster". {who}. The interpreter raises {fails}.
            """
            machine().cluster_barrier.take_part(arrives, waits, threads == "warp", relaxed)

        return step

    return (
        of_threads(name, ".aligned", "warp", "All 32 threads of a warp execute it together"),
        of_threads(f"{name}_unaligned", "", "any", "Any thread executes it, alone too"),
    )


COST = "that takes a memory barrier of the GPU's scope (MEMBAR.ALL.GPU)."
ONCE = "where the thread has arrived already and has not waited since"
ALL = ", and reports a deadlock, saying who has not arrived, where some never do"

arrive, arrive_unaligned = at_barrier(
    "arrive",
    (RELEASE,),
    "Arrive at the barrier of the cluster, without waiting",
    f"What this thread wrote before, also to other blocks, is visible to threads when they have waited; {COST}",
    ONCE,
)
arrive_relaxed, arrive_relaxed_unaligned = at_barrier(
    "arrive_relaxed",
    (RELAXED,),
    "Arrive at the barrier of the cluster, without waiting",
    "It orders no memory: what this thread wrote before may be seen later.",
    ONCE,
)
wait, wait_unaligned = at_barrier(
    "wait",
    (ACQUIRE,),
    "Wait until all threads of the cluster have arrived",
    "What they wrote before `arrive` is visible then.",
    f"where the thread has not arrived{ALL}",
)
sync, sync_unaligned = at_barrier(
    "sync",
    (RELEASE, ACQUIRE),
    "Arrive at the barrier of the cluster, then wait until all its threads have: `arrive` and `wait`",
    f"What any of them wrote before is visible then; {COST}",
    f"{ONCE}{ALL}",
)

# Shared memory of the cluster ----------------------------------------------------------------------------------------


@ptx("mapa.shared::cluster.u32 {result}, {view}, {rank};", threads="any", pure=ARITHMETIC)
def map_shared(view: SharedAddress(Shared), rank: u32) -> Mapped():
    """The same thing in the shared memory of the block of this rank.

    Parameters
    ----------
    view : view
        Anything in the block's own shared memory: what a layout's `open` gives, a tile, a barrier, an element's
        address.
    rank : u32
        Of a block of the cluster, its own too.

    Returns
    -------
    view
        Of the same kind: what hangs on `view` hangs on it. Taken by the instructions that say so, not by those of the
        block's own shared memory.

    Notes
    -----
    PTX ISA, "mapa". Any thread executes it. The interpreter raises where the cluster has no such rank; using the view
    raises where all threads of that block have exited.
    """
    return SharedView(view.description, machine().map_shared(view.base, rank))


@ptx("getctarank.shared::cluster.u32 {result}, {view};", threads="any", pure=ARITHMETIC)
def shared_rank(view: SharedAddress(Shared, cluster=True)) -> u32:
    """The rank of the block whose shared memory this is in.

    Parameters
    ----------
    view : view
        Of the block's own shared memory, or from `map_shared`.

    Returns
    -------
    u32

    Notes
    -----
    PTX ISA, "getctarank". Any thread executes it.
    """
    return machine().shared_rank(view.base)


KINDS = {"b32": u32, "v2.b32": Vector(u32, 2), "v4.b32": Vector(u32, 4), "b64": u64}
"""What is loaded or stored, by PTX's type."""


def described(text):
    """What a docstring says of a type."""
    kind = KINDS[text]
    many = getattr(kind, "count", 1)
    return {
        "nbytes": 8 if kind is u64 else 4 * many,
        "values": kind.name if many == 1 else f"tuple of {many} u32",
    }


def in_memory(value, kind):
    """The bytes of a value of a kind."""
    return np.array(value, np.uint64 if kind is u64 else np.uint32).tobytes()


def ld_shared(text):
    """Declare a load from the cluster's shared memory."""
    kind, said = KINDS[text], described(text)
    result = kind if kind is u32 else Registers(u32, kind.count)

    @ptx(f"ld.shared::cluster.{text} {{result}}, [{{address}}];", threads="any", proxy="generic")
    @member(f"ld_shared_{text.replace('.', '_')}", **said)
    def load(address: Address) -> result:
        """Load {nbytes} bytes from the shared memory of a block of the cluster.

        Parameters
        ----------
        address : element's address
            ``tile.address(…)`` of the block's own tile or of one from `map_shared`; a multiple of {nbytes} bytes.

        Returns
        -------
        {values}
            Lowest address first.

        Notes
        -----
        PTX ISA, "ld". Any thread executes it. The interpreter raises for an address that is misaligned or out of
        bounds, for bytes that nobody wrote, and where the block's threads have exited.
        """
        loaded = machine().shared_load(address, said["nbytes"]).view(np.uint32).tolist()
        return loaded[0] if result is u32 else tuple(loaded)

    return load


def st_shared(text):
    """Declare a store to the cluster's shared memory."""
    kind = KINDS[text]

    @ptx(f"st.shared::cluster.{text} [{{address}}], {{value}};", threads="any", proxy="generic")
    @member(f"st_shared_{text.replace('.', '_')}", **described(text))
    def store(address: Address, value: kind) -> None:
        """Store {nbytes} bytes to the shared memory of a block of the cluster.

        Its threads see them after `sync`, or after `mbarrier.wait_cluster` for an `mbarrier.arrive_remote`.

        Parameters
        ----------
        address : element's address
            ``tile.address(…)`` of the block's own tile or of one from `map_shared`; a multiple of {nbytes} bytes.
        value : {values}
            Lowest address first.

        Notes
        -----
        PTX ISA, "st". Any thread executes it. The interpreter raises for an address that is misaligned or out of
        bounds, and where the block's threads have exited.
        """
        machine().shared_store(address, in_memory(value, kind))

    return store


def st_async(text):
    """Declare an asynchronous store to the cluster's shared memory."""
    kind = KINDS[text]

    @ptx(
        f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{text} [{{address}}], {{value}}, [{{barrier}}];",
        threads="any",
        proxy="generic",
    )
    @member(f"st_async_{text.replace('.', '_')}", **described(text))
    def store(address: Address, value: kind, barrier: Barrier) -> None:
        """Begin to store {nbytes} bytes to the shared memory of a block of the cluster; `barrier` counts them there.

        The bytes are visible to a thread that has waited for the barrier's phase by `mbarrier.wait_cluster`, and count
        as an `mbarrier.complete_tx` of {nbytes}: that block expects them.

        Parameters
        ----------
        address : element's address
            Mostly ``tile.address(…)`` of a tile from `map_shared`; a multiple of {nbytes} bytes.
        value : {values}
            Lowest address first.
        barrier : barrier
            In the shared memory of the same block as `address`.

        Notes
        -----
        PTX ISA, "st.async". Any thread executes it. The interpreter completes it when the schedule wants, and raises
        for a read or write of the bytes before, for an address that is misaligned or out of bounds, for a barrier that
        is in another block than `address` or not initialised, and where that block ends before the bytes arrive.
        """
        machine().store_async(address, in_memory(value, kind), barrier)

    return store


ld_shared_b32, ld_shared_v2_b32, ld_shared_v4_b32 = map(ld_shared, ("b32", "v2.b32", "v4.b32"))
st_shared_b32, st_shared_v2_b32, st_shared_v4_b32 = map(st_shared, ("b32", "v2.b32", "v4.b32"))
st_async_b32, st_async_v2_b32, st_async_v4_b32, st_async_b64 = map(st_async, KINDS)
