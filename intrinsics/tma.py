"""TMA: bulk copies of tensor tiles by the async proxy (PTX ISA, "Data Movement and Conversion: Tensor copy")."""

from .addresses import Coordinates, Panels, SharedAddress, TensorMapAddress
from .machine import machine
from .operands import Immediate, Refused, s32
from .ptx import member, ptx
from .tiles import Barriers


def box(tile, tensor_map, coordinates, **_):
    """The rank of a copy; the tile and the map must agree on type, box and swizzle. Of types or of values."""
    description, rank = tile.description, len(coordinates)
    if len(description.shape) != rank:
        raise Refused(
            f"coordinates must be {len(description.shape)} integers, as many as {description} has; got {rank}"
        )
    if hasattr(tensor_map, "box"):  # the copy in device memory does not say
        wanted = (description.dtype, description.box, description.swizzle)
        if wanted != (tensor_map.dtype, tensor_map.box, tensor_map.swizzle):
            raise Refused(f"tensor_map is of another tile than {description}; got {tensor_map}")
    return {"rank": rank}


box.fields = ("rank",)


def panels(tile, **_):
    """A box for each panel."""
    return tile.description.panels


@ptx(
    "cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[{tile}], [{tensor_map}, {coordinates}], [{barrier}];",
    threads="one",
    proxy="async",
    form=box,
    repeat=panels,
)
def load(
    tile: Panels(),
    tensor_map: TensorMapAddress(),
    coordinates: Coordinates(s32, 5, 1),
    barrier: SharedAddress(Barriers),
) -> None:
    """Copy a box of a tensor to a tile; the bytes are reported to a barrier. What lies outside the tensor reads as 0.

    Parameters
    ----------
    tile : tile
        A whole tile, aligned to 1024 bytes where its swizzle is 128, 512 for 64, 256 for 32, else 128; one statement
        for each panel.
    tensor_map : TensorMap
        Made for the same tile.
    coordinates : tuple of s32
        Element at which the box begins, innermost first; may lie outside the tensor.
    barrier : barrier
        Gets ``tile.nbytes`` bytes, those outside the tensor too.

    Notes
    -----
    PTX ISA, "cp.async.bulk.tensor". One thread executes it. The interpreter copies at a moment that the scheduler
    picks; until then a read or a write of the tile raises. It also raises for a tile that is on its way already or
    lies over a barrier, for a barrier that is not initialised, and at the block's end for a load that nobody waited
    for. A tile that is misaligned or out of bounds is refused by what gives it, `memory.view` or the launch.
    """
    machine().tma_load(tile, tensor_map, coordinates, barrier)


@ptx(
    "cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [{tensor_map}, {coordinates}], [{tile}];",
    threads="one",
    proxy="async",
    form=box,
    repeat=panels,
)
def store(tensor_map: TensorMapAddress(), coordinates: Coordinates(s32, 5, 1), tile: Panels()) -> None:
    """Copy a tile to a box of a tensor, as part of the thread's open group. What lies outside the tensor is dropped.

    Ordinary stores to the tile need `fence.proxy_async_shared_cta`, then a barrier, before it.

    Parameters
    ----------
    tensor_map : TensorMap
        Made for the same tile.
    coordinates : tuple of s32
        Element at which the box begins, innermost first; may lie outside the tensor.
    tile : tile
        A whole tile, aligned as for `load`; one statement for each panel. It may be written again after
        `wait_group_read`.

    Notes
    -----
    PTX ISA, "cp.async.bulk.tensor". One thread executes it, the one that then commits and waits. The interpreter reads
    the tile and writes the tensor at moments that the scheduler picks, no later than the waits for them. It raises for
    bytes that nobody wrote or that a load is still to write, and at the block's end for a store that was not committed
    or whose reading nobody waited for. It does not find a fence that is missing, nor a tile overwritten too early.
    """
    machine().tma_store(tensor_map, coordinates, tile)


@ptx("prefetch.tensormap [{tensor_map}];", threads="one", proxy="tensormap", no_effect="there is no cache to fill")
def prefetch_descriptor(tensor_map: TensorMapAddress()) -> None:
    """Fetch a tensor map to the cache, so that the first copy need not wait for it.

    Parameters
    ----------
    tensor_map : TensorMap

    Notes
    -----
    PTX ISA, "prefetch, prefetchu". One thread executes it.
    """


@ptx("cp.async.bulk.commit_group;", threads="one", proxy="async")
def commit_group() -> None:
    """Close a group: every `store` of this thread since the last one.

    Notes
    -----
    PTX ISA, "cp.async.bulk.commit_group". The thread that issued the stores executes it; another one closes a group of
    its own, which the interpreter notices at the block's end: it raises for stores that were never committed.
    """
    machine().bulk_commit()


Groups = Immediate(0, 63)
"""What the machine instruction counts, in 6 bits; ptxas takes more without a word and waits as for 63."""


def waiting(name, read, until):
    """Declare a wait for groups of stores."""

    @ptx(f"cp.async.bulk.{name.replace('_read', '.read')} {{n}};", threads="one", proxy="async")
    @member(name, until=until)
    def wait(n: Groups) -> None:
        """Wait until all but the last `n` groups of this thread {until}.

        Parameters
        ----------
        n : int
            Compile-time, 0 to 63: as far as the hardware counts.

        Notes
        -----
        PTX ISA, "cp.async.bulk.wait_group". The thread that committed executes it: it does not wait for the groups of
        others. The interpreter raises for what those stores do wrong, with the place of the store.
        """
        machine().bulk_wait(n, read=read)

    return wait


wait_group = waiting("wait_group", False, "are complete: their writes are visible to this thread")
wait_group_read = waiting(
    "wait_group_read",
    True,
    """have read their tiles, which may be written again then.

        What they write to global memory may still be on its way: `wait_group` waits for that""",
)
