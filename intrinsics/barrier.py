"""Named barriers: sixteen barriers of the block, for any number of its warps (PTX ISA, "bar, barrier").

`cuda.syncthreads` is barrier 0 with all threads.
"""

from .machine import machine
from .operands import u32_of
from .ptx import member, ptx

Name, Threads = u32_of(0, 15), u32_of(32, 1024, 32)


def of_warps(name, effect, waits):
    """Declare an arrival at a named barrier."""

    @ptx(f"barrier.{name}.aligned {{id}}, {{threads}};", threads="warp", proxy="generic")
    @member(name, effect=effect, fails=", and reports a deadlock where too few arrive" * waits)
    def barrier(id: Name, threads: Threads) -> None:
        """Arrive at a barrier {effect}.

        Parameters
        ----------
        id : u32
            The barrier, 0 to 15.
        threads : u32
            How many threads arrive, by `sync` and `arrive` together: 32 to 1024, in steps of 32.

        Notes
        -----
        PTX ISA, "bar, barrier". All 32 threads of a warp execute it together, with the same operands. The interpreter
        raises where they do not, or where they name another number of threads than those there{fails}.
        """
        machine().named_barrier(id).arrive_as_warp(threads, waits=waits)

    return barrier


sync = of_warps("sync", "and wait until `threads` threads have; what they wrote before is visible then", True)
arrive = of_warps("arrive", "without waiting; what was written before is visible to those that `sync` with it", False)
