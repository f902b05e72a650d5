"""Named barriers: sixteen barriers of the block, for any number of its warps (PTX ISA, "bar, barrier").

`cuda.syncthreads` is barrier 0 with all threads.
"""

from .machine import machine
from .operands import u32_of
from .ptx import ptx

Name, Threads = u32_of(0, 15), u32_of(32, 1024, 32)


@ptx("barrier.sync.aligned {id}, {threads};", threads="warp", proxy="generic")
def sync(id: Name, threads: Threads) -> None:
    """Arrive at a barrier and wait until `threads` threads have; what they wrote before is visible then.

    Parameters
    ----------
    id : u32
        The barrier, 0 to 15.
    threads : u32
        How many threads arrive, by `sync` and `arrive` together: 32 to 1024, in steps of 32.

    Notes
    -----
    PTX ISA, "bar, barrier". All 32 threads of a warp execute it together. The interpreter raises where they do not or
    where they name another number of threads than those there, and reports a deadlock where too few arrive.
    """
    machine().named_barrier(id).sync(threads)


@ptx("barrier.arrive.aligned {id}, {threads};", threads="warp", proxy="generic")
def arrive(id: Name, threads: Threads) -> None:
    """Arrive at a barrier without waiting; what was written before is visible to those that `sync` with it.

    Parameters
    ----------
    id : u32
        The barrier, 0 to 15.
    threads : u32
        How many threads arrive, by `sync` and `arrive` together: 32 to 1024, in steps of 32.

    Notes
    -----
    PTX ISA, "bar, barrier". All 32 threads of a warp execute it together. The interpreter raises where they do not or
    where they name another number of threads than those there.
    """
    machine().named_barrier(id).arrive(threads)
