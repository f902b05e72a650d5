"""Warps and warp groups: who a thread is, which is elected, how many registers each has (PTX ISA, "Special Registers").

A thread's number in its block counts x fastest, then y, then z; 32 in a row are a warp, 128 in a row a warp group.
"""

from .machine import machine, warp, warp_group
from .operands import Immediate, u32, u32_of
from .ptx import member, ptx
from .results import predicate

Lanes = u32_of(0, 31)
SAME = "a thread's place in its block never changes"


@ptx("mov.u32 {result}, %laneid;", threads="any", pure=SAME)
def lane_index() -> u32:
    """The thread's number in its warp, 0 to 31.

    Returns
    -------
    u32

    Notes
    -----
    PTX ISA, "Special Registers: %laneid". Any thread executes it.
    """
    return machine().thread.lane


def index(name, threads, unit):
    """Declare the number, in its block, of the warp or warp group that a thread is in."""

    # %warpid is no substitute: the manual calls it volatile
    @ptx(
        "{{ .reg .u32 thread, y, z, nx, ny; mov.u32 thread, %tid.x; mov.u32 y, %tid.y; mov.u32 z, %tid.z; "
        "mov.u32 nx, %ntid.x; mov.u32 ny, %ntid.y; mad.lo.u32 y, z, ny, y; mad.lo.u32 thread, y, nx, thread; "
        f"shr.u32 {{result}}, thread, {threads.bit_length() - 1}; }}}}",
        threads="any",
        pure=SAME,
    )
    @member(name, unit=unit, threads=threads)
    def of_thread() -> u32:
        """The number of the thread's {unit} in its block: the thread's own number over {threads}.

        Returns
        -------
        u32

        Notes
        -----
        PTX ISA, "Special Registers: %tid, %ntid". Any thread executes it. The number is the same in all threads of a
        {unit}, which the compiler does not know.
        """
        return machine().thread.index // threads

    return of_thread


warp_index = index("warp_index", 32, "warp")
warp_group_index = index("warp_group_index", 128, "warp group")


def first_lane(lanes):
    """Elect lane 0, as the hardware does of a whole warp."""
    return [lane == 0 for lane in range(len(lanes))]


@ptx(
    "{{ .reg .pred elected; elect.sync _|elected, 0xffffffff; selp.u32 {result}, 1, 0, elected; }}",
    threads="warp",
    pure="a whole warp elects the same thread each time",
)
def elect_one() -> predicate:
    """Whether this thread is the one elected of its warp.

    Returns
    -------
    bool
        True in one thread of the warp, always the same.

    Notes
    -----
    PTX ISA, "elect.sync". All 32 threads of a warp execute it together: not inside a branch that only some take. The
    interpreter raises where they do not, and elects lane 0.
    """
    return warp(first_lane)


def across(lanes):
    """What each lane gets of a butterfly: the value of the lane whose number differs in the bits of the mask."""
    return [lanes[lane ^ mask][0] for lane, (_, mask) in enumerate(lanes)]


@ptx("shfl.sync.bfly.b32 {result}, {value}, {mask}, 0x1f, 0xffffffff;", threads="warp")
def shfl_bfly(value: u32, mask: Lanes) -> u32:
    """Exchange values between the lanes of a warp: each gets that of the lane whose number is its own xor `mask`.

    Parameters
    ----------
    value : u32
    mask : u32
        0 to 31; the same in all lanes whose values are exchanged.

    Returns
    -------
    u32

    Notes
    -----
    PTX ISA, "shfl.sync": mode bfly. All 32 threads of a warp execute it together; the interpreter raises where they do
    not. It orders no memory.
    """
    return warp(across, value, mask)


def set_registers(lanes):
    """What the warp group asks for."""
    machine().set_registers(lanes[0][0])
    return [None] * len(lanes)


def setmaxnreg(action, change, rule):
    """Declare a change of the registers per thread."""

    @ptx(f"setmaxnreg.{action}.sync.aligned.u32 {{count}};", threads="warp group")
    @member(f"setmaxnreg_{action}", change=change, rule=rule)
    def setmaxnreg(count: Immediate(24, 256, 8)) -> None:
        """{change} the registers each thread of this warp group may use to `count`.

        Parameters
        ----------
        count : int
            Compile-time; registers a thread, 24 to 256 in steps of 8, {rule}.

        Notes
        -----
        PTX ISA, "setmaxnreg". All threads of a warp group execute it, in a kernel whose number of threads is known when
        it is compiled: ptxas ignores it otherwise. The interpreter has no registers; it raises where not all 128
        threads take part, and, at the block's end, where its warp groups together ask for more than it can have.
        """
        warp_group(set_registers, count)

    return setmaxnreg


setmaxnreg_inc = setmaxnreg("inc", "Raise", "no fewer than it has; waits until the block's pool has enough")
setmaxnreg_dec = setmaxnreg("dec", "Lower", "no more than it has; the rest goes back to the block's pool")
