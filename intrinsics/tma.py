"""TMA: bulk copies of tensor tiles by the async proxy (PTX ISA, "Data Movement and Conversion: Tensor copy")."""

from numba.cuda import types

from .addresses import Coordinates, Panels, Prefetched, SharedAddress, TensorMapAddress
from .cache import CachePolicy
from .machine import machine
from .operands import Immediate, Limited, Optional, Refused, is_given, s32
from .ptx import member, ptx
from .tiles import Barriers

Blocks = Optional(Limited("u16", types.uint16, "h", 1, 2**16 - 1))
"""The blocks of a cluster that get a copy, a bit each."""
At = Coordinates(s32, 5, 1)


def suffixes(multicast=None, cache_policy=None, **_):
    """What an instruction's name has where an operand is given. Of types or of values."""
    return {
        "to_many": ".multicast::cluster" if is_given(multicast) else "",
        "hinted": ".L2::cache_hint" if is_given(cache_policy) else "",
    }


suffixes.fields = {
    "to_many": "`.multicast::cluster` where `multicast` is given",
    "hinted": "`.L2::cache_hint` where `cache_policy` is given",
}


def box(tile, tensor_map, coordinates, **optional):
    """The rank of a copy; the tile and the map must agree on type, box and swizzle. Of types or of values."""
    description, rank = tile.description, len(coordinates)
    if len(description.shape) != rank:
        hint = "; of several tiles pick one, [stage]" if len(description.shape) > rank else ""
        raise Refused(
            f"coordinates must be {len(description.shape)} integers, as many as {description} has; got {rank}{hint}"
        )
    if hasattr(tensor_map, "box"):  # the copy in device memory does not say
        wanted = (description.dtype, description.box, description.swizzle)
        if wanted != (tensor_map.dtype, tensor_map.box, tensor_map.swizzle):
            raise Refused(f"tensor_map is of another tile than {description}; got {tensor_map}")
    return {"rank": rank, **suffixes(**optional)}


box.fields = {"rank": "1 to 5, as many as there are coordinates"} | suffixes.fields


def panels(tile, **_):
    """A box for each panel."""
    return tile.description.panels


@ptx(
    "cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes{to_many}{hinted} "
    "[{tile}], [{tensor_map}, {coordinates}], [{barrier}]{multicast}{cache_policy};",
    threads="one",
    proxy="async",
    form=box,
    repeat=panels,
)
def load(
    tile: Panels(cluster=True),
    tensor_map: TensorMapAddress(),
    coordinates: At,
    barrier: SharedAddress(Barriers, cluster=True),
    multicast: Blocks = None,
    cache_policy: CachePolicy = None,
) -> None:
    """Copy a box of a tensor to a tile; the bytes are reported to a barrier. What lies outside the tensor reads as 0.

    Parameters
    ----------
    tile : tile
        A whole tile, aligned to 1024 bytes where its swizzle is 128, 512 for 64, 256 for 32, else 128; one statement
        for each panel. It may be another block's, by `cluster.map_shared`, if the barrier is that block's too.
    tensor_map : TensorMap
        Made for the same tile.
    coordinates : tuple of s32
        Element at which the box begins, innermost first; may lie outside the tensor.
    barrier : barrier
        Gets ``tile.nbytes`` bytes, those outside the tensor too.
    multicast : u16, optional
        The blocks of the cluster that get the box, bit i for the one of rank i: each at the place that the tile has
        in the block's shared memory, and each on the barrier at the place that this barrier has there.
    cache_policy : u64, optional
        Of the chapter `cache`, for the tensor's lines in L2.

    Notes
    -----
    PTX ISA, "cp.async.bulk.tensor". One thread executes it. The interpreter copies at a moment that the scheduler
    picks; until then a read or a write of the tile raises. It also raises for a tile that is on its way already or
    lies over a barrier, for a barrier that is not initialised or not in the tile's block, for blocks that the cluster
    does not have, and at the block's end for a load that nobody waited for. A tile that is misaligned or out of bounds
    is refused by what gives it, `memory.view` or the launch.
    """
    machine().tma_load(tile, tensor_map, coordinates, barrier, multicast)


@ptx(
    "cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group{hinted} "
    "[{tensor_map}, {coordinates}], [{tile}]{cache_policy};",
    threads="one",
    proxy="async",
    form=box,
    repeat=panels,
)
def store(
    tensor_map: TensorMapAddress(),
    coordinates: At,
    tile: Panels(),
    cache_policy: CachePolicy = None,
) -> None:
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
    cache_policy : u64, optional
        Of the chapter `cache`, for the tensor's lines in L2.

    Notes
    -----
    PTX ISA, "cp.async.bulk.tensor". One thread executes it, the one that then commits and waits. The interpreter reads
    the tile and writes the tensor at moments that the scheduler picks, no later than the waits for them. It raises for
    bytes that nobody wrote or that a load is still to write, and at the block's end for a store that was not committed
    or whose reading nobody waited for; for a fence that is missing (``missing-proxy-fence``), and a tile that is
    written again before that wait (``overwrite-while-read``).
    """
    machine().tma_store(tensor_map, coordinates, tile)


WORDS, HALF_FLOATS = ("uint32", "int32", "uint64"), ("float16", "bfloat16")
REDUCED = {
    "add": (*WORDS, *HALF_FLOATS, "float32", "float64"),
    "min": (*WORDS, "int64", *HALF_FLOATS),
    "max": (*WORDS, "int64", *HALF_FLOATS),
    "inc": ("uint32",),
    "dec": ("uint32",),
    "and": WORDS,
    "or": WORDS,
    "xor": WORDS,
}
"""The types of elements that a tensor's reduction takes: all that an H200 does not call an illegal instruction."""
RESULTS = {
    "add": "the sum of both",
    "min": "the smaller of both",
    "max": "the larger of both",
    "inc": "the tensor's plus 1, or 0 if it is not below the tile's",
    "dec": "the tensor's minus 1, or the tile's if it is 0 or above the tile's",
    "and": "the bits that both have",
    "or": "the bits that either has",
    "xor": "the bits that one of both has",
}


def reducing(operation):
    """Declare a reduction of a tile into a tensor."""
    taken = REDUCED[operation]

    def reduced_box(tile, **operands):
        if tile.description.dtype.name not in taken:
            raise Refused(f"tile must be of {', '.join(taken)}; got {tile.description}")
        return box(tile, **operands)

    reduced_box.fields = box.fields

    @ptx(
        f"cp.reduce.async.bulk.tensor.{{rank}}d.global.shared::cta.{operation}.bulk_group{{hinted}} "
        "[{tensor_map}, {coordinates}], [{tile}]{cache_policy};",
        threads="one",
        proxy="async",
        form=reduced_box,
        repeat=panels,
    )
    @member(f"reduce_{operation}", result=RESULTS[operation], taken=", ".join(taken))
    def reduce(
        tensor_map: TensorMapAddress(),
        coordinates: At,
        tile: Panels(),
        cache_policy: CachePolicy = None,
    ) -> None:
        """Combine a box of a tensor with a tile, as part of the thread's open group; the tile stays as it is.

        Each element of the tensor becomes {result}, atomically. What lies outside the tensor is dropped.

        Parameters
        ----------
        tensor_map : TensorMap
            Made for the same tile.
        coordinates : tuple of s32
            Element at which the box begins, innermost first; may lie outside the tensor.
        tile : tile
            As of `store`; of {taken}.
        cache_policy : u64, optional
            Of the chapter `cache`, for the tensor's lines in L2.

        Notes
        -----
        PTX ISA, "cp.reduce.async.bulk.tensor". One thread executes it, the one that then commits and waits. The
        interpreter treats it as a `store`, and raises as for one: it combines when the store would write.
        """
        machine().tma_store(tensor_map, coordinates, tile, operation)

    return reduce


reduce_add, reduce_min, reduce_max, reduce_inc, reduce_dec, reduce_and, reduce_or, reduce_xor = map(reducing, REDUCED)


@ptx(
    "cp.async.bulk.prefetch.tensor.{rank}d.L2.global{hinted} [{tensor_map}, {coordinates}]{cache_policy};",
    threads="one",
    proxy="async",
    form=box,
    repeat=panels,
    no_effect="there is no cache to fill",
)
def prefetch(
    tile: Prefetched(),
    tensor_map: TensorMapAddress(),
    coordinates: At,
    cache_policy: CachePolicy = None,
) -> None:
    """Fetch a box of a tensor to L2: what `load` of the same tile would load.

    Parameters
    ----------
    tile : tile
        As of `load`, one statement for each panel. It is not touched.
    tensor_map : TensorMap
        Made for the same tile.
    coordinates : tuple of s32
        Element at which the box begins, innermost first; may lie outside the tensor.
    cache_policy : u64, optional
        Of the chapter `cache`.

    Notes
    -----
    PTX ISA, "cp.async.bulk.prefetch.tensor". One thread executes it, and waits for nothing.
    """


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
    """Close a group: every store and reduction to global memory, of this chapter and of `bulk`, since the last one.

    Notes
    -----
    PTX ISA, "cp.async.bulk.commit_group". The thread that issued the stores executes it; another one closes a group of
    its own, which the interpreter notices at the block's end: it raises for stores that were never committed.
    """
    machine().bulk_commit()


Groups = Immediate(0, 63)
"""What the machine instruction counts, in 6 bits; ptxas takes more without a word and waits as for 63."""


def waiting(name, read, until):
    """Declare a wait for groups of stores and reductions."""

    @ptx(f"cp.async.bulk.{name.replace('_read', '.read')} {{n}};", threads="one", proxy="async")
    @member(name, until=until)
    def wait(n: Groups) -> None:
        """Wait until all but the last `n` groups of this thread, of `tma` and `bulk` together, {until}.

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
