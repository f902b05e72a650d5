"""A ring of tiles in shared memory, which producers fill by TMA and consumers empty; generated at compile time.

Each stage of the ring holds a set of tiles and two barriers. `full` completes when a producer has said how many bytes
come and they have arrived, `empty` when every consumer has given the stage back::

      producer                              stage 0   stage 1   stage 2                    consumer
                                           +---------+---------+---------+
      producer_acquire()  -- waits for --> | empty   | empty   | empty   | <-- arrives -- consumer_release()
        and expects the bytes in full      |         |         |         |
      tma.load(pipe.a, …, pipe.full)  ---> | a, b    | a, b    | a, b    | ---> wgmma.mma(pipe.a…, pipe.b…)
      producer_advance()      arrive in -> | full    | full    | full    | -- waits -- consumer_wait()
                                           +---------+---------+---------+
                                                 and round again, the phases' parity turned

Every thread has a cursor of its own, from ``pipe = smem.pipe.open()``: it is at one stage, and its methods, at the end
of this file, are ordinary Python over the instructions.
"""

from __future__ import annotations

from typing import Any

from numba.cuda import types

from hopper_numba.interpreter.source import advising
from hopper_numba.intrinsics import cluster, fence, mbarrier
from hopper_numba.intrinsics.machine import machine
from hopper_numba.intrinsics.ptx import device_function
from hopper_numba.intrinsics.tiles import Tile, barriers, tile
from hopper_numba.intrinsics.types import SharedView, SharedViewType
from hopper_numba.objects import CursorType, compile_methods, device_method
from hopper_numba.roles import Role, require
from hopper_numba.shared import SHARED_NBYTES, SharedLayout


class Pipeline(SharedLayout):
    """A ring of tiles and its barriers: a member of a `SharedLayout`.

    In a kernel, of ``shared = SharedLayout(pipe=Pipeline(…))`` and ``smem = shared.open()``:

    - ``smem.pipe.init()`` by one thread, then a barrier of the block (of the cluster), before all else;
    - ``pipe = smem.pipe.open()`` by every thread that uses it, once, not in a loop: a `Cursor`, at stage 0. It belongs
      to the function that opened it, which may pass it to others but not return it;
    - ``smem.pipe.a``, ``smem.pipe.full`` and ``smem.pipe.empty``: all stages, to be indexed.

    Parameters
    ----------
    stages : int
        At least 1.
    producers : Role
        Who fills. Each unit has one thread that acquires and loads, and loads its even share of a stage's bytes.
    consumers : Role
        Who empties. A warp group gives a stage back by one arrival: it has read it by WGMMA and waited for that. Of
        warps and threads every thread arrives, having read it by itself.
    cluster : int
        The blocks of the cluster, if their producers load tiles for each other (``multicast=``): a stage is then free
        when the consumers of all of them have given it back, and has `stage_nbytes` bytes to come, whoever loads them.
    **tiles : Tile
        What a stage holds, of two dimensions or more.

    Attributes
    ----------
    stage_nbytes : int
        Bytes of a stage's tiles: what `full` expects in a phase. A kernel may read it.
    tiles : dict of str to Tile
        As given: what tensor maps are made for.

    Raises
    ------
    TypeError
        For an argument of another type.
    ValueError
        For a number that is out of range, roles that overlap, bytes that the producers cannot share evenly, a tile's
        name that a cursor has itself, or more than 227 KiB in all, with the sum.

    Notes
    -----
    Right for any number of tiles along K, none too, and for any number of stages. ``jit`` and the interpreter take it
    as what it is made of; reports name its barriers by stage. Consumers that read by ordinary loads arrive without a
    proxy fence before TMA refills the stage, as is common practice; the manual leaves that open, and the interpreter
    keeps it as ``undecided-order``.

    PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
    """

    is_ring = True
    constants = ("stages", "stage_nbytes", "share", "arrivals", "producers", "consumers", "cluster")

    def __init__(self, stages: int, producers: Role, consumers: Role, /, *, cluster: int = 1, **tiles: Tile) -> None:
        for name, value, most in (("stages", stages, 256), ("cluster", cluster, 8)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise ValueError(f"Pipeline: {name} must be 1 to {most}; got {value!r}")
        for name, role in (("producers", producers), ("consumers", consumers)):
            if not isinstance(role, Role) or role.first < 0:
                raise TypeError(f"Pipeline: {name} must be a role of the block's Roles; got {role!r}")
        if producers != consumers and _share_threads(producers, consumers):
            raise ValueError(
                f"Pipeline: producers and consumers must be roles of one Roles; got {producers} and {consumers}, which "
                "share threads"
            )
        if not tiles:
            raise ValueError("Pipeline: name at least one tile of a stage")
        for name, one in tiles.items():
            if not isinstance(one, Tile) or len(one.shape) < 2:
                raise TypeError(f"Pipeline: {name} must be a tile(…) of two dimensions or more; got {one!r}")
            if one.transposed or one.sliced:
                raise ValueError(f"Pipeline: {name} must be a whole tile as it lies in memory; got {one}")
            if name in NAMES:
                raise ValueError(f"Pipeline: {name!r} cannot be a tile's name: {', '.join(sorted(NAMES))} are taken")
        self.stages, self.producers, self.consumers, self.cluster, self.tiles = (
            stages,
            producers,
            consumers,
            cluster,
            tiles,
        )
        self.stage_nbytes = sum(one.nbytes for one in tiles.values())
        self.share, rest = divmod(self.stage_nbytes, producers.count)
        if rest:
            raise ValueError(
                f"Pipeline: {producers.count} producers cannot share the {self.stage_nbytes} bytes of a stage evenly"
            )
        readers = consumers.count * (1 if consumers.unit == 128 else consumers.unit)
        self.arrivals = readers * cluster
        rings = {name: tile(one.dtype, (stages, *one.shape), one.swizzle) for name, one in tiles.items()}
        super().__init__(**rings, full=barriers(stages), empty=barriers(stages))
        if self.nbytes > SHARED_NBYTES:
            each = " + ".join(f"{name} {one.nbytes}" for name, one in tiles.items())
            raise ValueError(
                f"Pipeline: shared memory of a block is at most {SHARED_NBYTES} bytes; got {stages} stages x ({each} + "
                f"barriers 16) = {self.nbytes}"
            )

    def __str__(self) -> str:
        return (
            f"Pipeline({self.stages}, {self.producers}, {self.consumers}, cluster={self.cluster}, "
            f"{', '.join(f'{name}={one}' for name, one in self.tiles.items())})"
        )

    __repr__ = __str__


def _share_threads(one: Role, other: Role) -> bool:
    first, second = sorted((role.unit * role.first, role.end) for role in (one, other))
    return second[0] < first[1]


@device_function(lambda typingctx, held: (types.none(held), lambda context, builder, sig, args: None))
def keep_one(held):
    """Have the interpreter raise where a stage is kept already, which would be lost; nothing when compiled."""
    if held:
        raise machine().kept_already()


@device_method
def init(ring):
    """Initialise the barriers, for the async proxy and the cluster too. One thread does; a barrier comes after."""
    for stage in range(ring.stages):
        mbarrier.init(ring.full[stage], ring.producers.count)
        mbarrier.init(ring.empty[stage], ring.arrivals)
    fence.mbarrier_init()


class Cursor:
    """A thread's place in a `Pipeline`.

    Attributes
    ----------
    stage : u32
        0 to ``stages - 1``.
    phase : u32
        The parity of the round.
    full, empty : barrier
        Of this stage.
    a, b, … : tile
        Of this stage, by the names that the `Pipeline` has for its tiles.
    ring : view
        Of all stages.
    """

    def __init__(self, ring: SharedView) -> None:
        self.ring, self.stage, self.phase, self.held = ring, 0, 0, 0

    def __getattr__(self, name: str) -> Any:
        description = self.__dict__["ring"].description
        if name in description.members:
            return getattr(self.ring, name)[self.stage]
        if name in description.constants:
            return getattr(description, name)
        raise AttributeError(f"a cursor of {description} has no attribute {name!r}")

    @device_method
    @advising(
        overrun="one thread of each producer acquires a stage (elected), and goes on by producer_advance",
        stuck="its consumers give a stage back by consumer_release, or by consumer_release_previous",
    )
    def producer_acquire(self):
        """Wait until the stage is free, then expect this producer's share of its bytes.

        One thread of each producer executes it, then the loads that bring the bytes to `full`.
        """
        require(self.producers, "producers")
        mbarrier.wait(self.empty, self.phase ^ 1)  # of a fresh barrier, the phase before counts as complete
        mbarrier.arrive_expect_tx(self.full, self.share)

    @device_method
    def producer_advance(self):
        """Go on to the next stage."""
        require(self.producers, "producers")
        self.advance()

    @device_method
    @advising(stuck="its consumers give every stage back, the last one too")
    def producer_drain(self):
        """Wait until every stage that was filled has been given back; the cursor stays where it is.

        A block of a cluster needs it before its producer ends: until then others arrive on its barriers.
        """
        require(self.producers, "producers")
        for _ in range(self.stages):
            mbarrier.wait(self.empty, self.phase ^ 1)
            self.advance()
        self.phase ^= 1

    @device_method
    @advising(stuck="its producers acquire a stage, load all its tiles to full, and go on by producer_advance")
    def consumer_wait(self):
        """Wait until the stage's tiles have arrived. Every thread that reads them executes it."""
        require(self.consumers, "consumers")
        mbarrier.wait(self.full, self.phase)

    @device_method
    def consumer_release(self):
        """Give the stage back, and go on to the next. All threads of a consumer execute it.

        A warp group that read by WGMMA has waited for these products before. No stage is kept.
        """
        keep_one(self.held)
        self.release(self.stage)
        self.advance()

    @device_method
    def consumer_advance(self):
        """Go on to the next stage, and keep this one until `consumer_release_previous`: one at a time."""
        require(self.consumers, "consumers")
        keep_one(self.held)
        self.held = 1
        self.advance()

    @device_method
    def consumer_release_previous(self):
        """Give back the stage before this one, if it is still kept. As `consumer_release`, but the cursor stays.

        Once more behind the loop gives back its last stage, where the producer drains.
        """
        if self.held == 1:
            self.held = 0
            self.release((self.stages - 1) if self.stage == 0 else (self.stage - 1))

    @device_method
    def release(self, stage):
        """Arrive on a stage's `empty`, in every block that loads for this one."""
        require(self.consumers, "consumers")
        if self.consumers.unit != 128 or self.consumers.elected():
            if self.cluster == 1:
                mbarrier.arrive(self.ring.empty[stage], 1)
            else:
                for block in range(self.cluster):
                    mbarrier.arrive_remote_cta(cluster.map_shared(self.ring.empty[stage], block), 1)

    @device_method
    def advance(self):
        """Go on to the next stage."""
        self.stage += 1
        if self.stage == self.stages:
            self.stage = 0
            self.phase ^= 1


NAMES = {*Pipeline.constants, *CursorType.numbers, "full", "empty", "ring", "init"}
NAMES |= {name for name in vars(Cursor) if not name.startswith("_")}
"""What no tile may be called."""


def _is_pipeline(view: SharedViewType) -> bool:
    return isinstance(view.description, Pipeline)


def _open(ring: SharedView) -> Cursor:
    """The cursor of an interpreted kernel. Compiled, a place in the source has one for all times it is passed."""
    machine().begin_once(f"{type(ring.description).__name__}.open")
    return Cursor(ring)


Pipeline.methods = {"open": _open, "init": init}  # interpreted; and compiled:
compile_methods({"init": init}, SharedViewType, _is_pipeline)
compile_methods(vars(Cursor), CursorType, lambda cursor: True)
