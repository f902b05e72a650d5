"""TMA: bulk copies of tensor tiles by the async proxy (PTX ISA, "Data Movement and Conversion: Tensor copy")."""

from .machine import machine
from .operands import Coordinates, Immediate, Panels, Refused, SharedAddress, TensorMapAddress, s32
from .ptx import ptx
from .tiles import Barriers
from .types import TensorMapType


def box(tile, tensor_map, coordinates, **_):
    """The rank of a copy; the tile and the map must agree on type, box and swizzle."""
    description, rank = tile.description, len(coordinates)
    if len(description.shape) != rank:
        raise Refused(
            f"coordinates must be {len(description.shape)} integers, as many as {description} has; got {rank}"
        )
    if isinstance(tensor_map, TensorMapType):
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
        A whole tile; one statement for each panel.
    tensor_map : TensorMap
        Made for the same tile.
    coordinates : tuple of s32
        Element at which the box begins, innermost first; may lie outside the tensor.
    barrier : barrier
        Gets ``tile.nbytes`` bytes, those outside the tensor too.

    Notes
    -----
    PTX ISA, "cp.async.bulk.tensor". One thread executes it. The interpreter copies at a moment that the scheduler
    picks; until then the tile's bytes count as written by nobody.
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
        A whole tile; one statement for each panel. It may be written again after `wait_group_read`.

    Notes
    -----
    PTX ISA, "cp.async.bulk.tensor". One thread executes it, the one that then commits and waits. The interpreter reads
    the tile and writes the tensor at moments that the scheduler picks, no later than the waits for them.
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
    PTX ISA, "cp.async.bulk.commit_group". The thread that issued the stores executes it.
    """
    machine().bulk_commit()


Groups = Immediate(0, 63)


@ptx("cp.async.bulk.wait_group {n};", threads="one", proxy="async")
def wait_group(n: Groups) -> None:
    """Wait until all but the last `n` groups of this thread are complete: their writes are visible to this thread.

    Parameters
    ----------
    n : int
        Compile-time, 0 to 63.

    Notes
    -----
    PTX ISA, "cp.async.bulk.wait_group". The thread that committed executes it.
    """
    machine().bulk_wait(n, read=False)


@ptx("cp.async.bulk.wait_group.read {n};", threads="one", proxy="async")
def wait_group_read(n: Groups) -> None:
    """Wait until all but the last `n` groups of this thread have read their tiles, which may be written again then.

    What they write to global memory may still be on its way: `wait_group` waits for that.

    Parameters
    ----------
    n : int
        Compile-time, 0 to 63.

    Notes
    -----
    PTX ISA, "cp.async.bulk.wait_group". The thread that committed executes it.
    """
    machine().bulk_wait(n, read=True)
