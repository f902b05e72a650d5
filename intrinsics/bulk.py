"""Bulk copies of runs of bytes by the async proxy (PTX ISA, "Data Movement and Conversion: Bulk copy").

Addresses and sizes are multiples of 16 bytes. Stores and reductions to global memory are part of the thread's open
group, with those of TMA: `tma.commit_group`, `tma.wait_group` and `tma.wait_group_read` are for both.
"""

from .addresses import Bytes, GlobalAddress, SharedAddress
from .cache import CachePolicy
from .machine import machine
from .operands import u32_of
from .ptx import member, ptx
from .tiles import Barriers
from .tma import RESULTS, Blocks, suffixes

Size = u32_of(16, 2**32 - 16, 16)
AnyBarrier = SharedAddress(Barriers, cluster=True)


@ptx(
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{to_many}{hinted} "
    "[{destination}], [{source}], {nbytes}, [{barrier}]{multicast}{cache_policy};",
    threads="one",
    proxy="async",
    form=suffixes,
)
def load(
    destination: Bytes(cluster=True),
    source: GlobalAddress(),
    nbytes: Size,
    barrier: AnyBarrier,
    multicast: Blocks = None,
    cache_policy: CachePolicy = None,
) -> None:
    """Copy bytes from global to shared memory; they are reported to a barrier.

    Parameters
    ----------
    destination : shared address
        Of an element (``tile.address(…)``), a shared array, or a whole tile in C order; 16-byte aligned. It may be
        another block's, by `cluster.map_shared`, if the barrier is that block's too.
    source : element's address
        From `memory.address_of`; 16-byte aligned.
    nbytes : u32
        16 or more, a multiple of 16.
    barrier : barrier
        Gets `nbytes` bytes.
    multicast : u16, optional
        The blocks of the cluster that get the bytes, as of `tma.load`.
    cache_policy : u64, optional
        Of the chapter `cache`, for the source's lines in L2.

    Notes
    -----
    PTX ISA, "cp.async.bulk". One thread executes it. The interpreter copies at a moment that the scheduler picks; until
    then a read or a write of the destination raises. It also raises for what is misaligned or out of bounds, for a
    destination that is on its way already or lies over a barrier, for a barrier that is not initialised or not in the
    destination's block, for blocks that the cluster does not have, and at the block's end for a load that nobody waited
    for.
    """
    machine().bulk_load(destination, source, nbytes, barrier, multicast)


@ptx(
    "cp.async.bulk.global.shared::cta.bulk_group{hinted} [{destination}], [{source}], {nbytes}{cache_policy};",
    threads="one",
    proxy="async",
    form=suffixes,
)
def store(
    destination: GlobalAddress(),
    source: Bytes(),
    nbytes: Size,
    cache_policy: CachePolicy = None,
) -> None:
    """Copy bytes from shared to global memory, as part of the thread's open group.

    Ordinary stores to the source need `fence.proxy_async_shared_cta`, then a barrier, before it.

    Parameters
    ----------
    destination : element's address
        From `memory.address_of`; 16-byte aligned.
    source : shared address
        As the destination of `load`, of the block's own memory. It may be written again after `tma.wait_group_read`.
    nbytes : u32
        16 or more, a multiple of 16.
    cache_policy : u64, optional
        Of the chapter `cache`, for the destination's lines in L2.

    Notes
    -----
    PTX ISA, "cp.async.bulk". One thread executes it, the one that then commits and waits: `tma.commit_group`. The
    interpreter reads and writes at moments that the scheduler picks, no later than the waits for them. It raises for
    what is misaligned or out of bounds, for bytes that nobody wrote or that a load is still to write, and at the
    block's end for a store that was not committed or whose reading nobody waited for; for a fence that is missing
    (``missing-proxy-fence``), and a source that is written again before that wait (``overwrite-while-read``).
    """
    machine().bulk_store(destination, source, nbytes)


@ptx(
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
    "[{destination}], [{source}], {nbytes}, [{barrier}];",
    threads="one",
    proxy="async",
)
def send(destination: Bytes(cluster=True), source: Bytes(), nbytes: Size, barrier: AnyBarrier) -> None:
    """Copy bytes to the shared memory of a block of the cluster; they are reported to a barrier there.

    Ordinary stores to the source need `fence.proxy_async_shared_cta`, then a barrier, before it. The bytes are visible
    to a thread that has waited for the barrier's phase, by `mbarrier.wait_cluster` where they come from another block.

    Parameters
    ----------
    destination : shared address
        As of `load`; mostly another block's, by `cluster.map_shared`.
    source : shared address
        As of `load`, of the block's own memory. It may be written again once the bytes have arrived.
    nbytes : u32
        16 or more, a multiple of 16.
    barrier : barrier
        In the destination's block. Gets `nbytes` bytes.

    Notes
    -----
    PTX ISA, "cp.async.bulk". One thread executes it. The interpreter copies at a moment that the scheduler picks; until
    then a read or a write of the destination raises. It raises as for `load`, for bytes of the source that nobody wrote
    or that a load is still to write, and for a block that ends before the bytes have left or arrived; for a fence that
    is missing (``missing-proxy-fence``), and a source that is written again too early (``overwrite-while-read``).
    """
    machine().bulk_send(destination, source, nbytes, barrier)


@ptx(
    "cp.async.bulk.prefetch.L2.global{hinted} [{source}], {nbytes}{cache_policy};",
    threads="one",
    proxy="async",
    form=suffixes,
)
def prefetch(source: GlobalAddress(), nbytes: Size, cache_policy: CachePolicy = None) -> None:
    """Fetch bytes of global memory to L2.

    Parameters
    ----------
    source : element's address
        From `memory.address_of`; 16-byte aligned.
    nbytes : u32
        16 or more, a multiple of 16.
    cache_policy : u64, optional
        Of the chapter `cache`.

    Notes
    -----
    PTX ISA, "cp.async.bulk.prefetch". One thread executes it, and waits for nothing. The interpreter has no cache; it
    raises for what is misaligned or out of bounds.
    """
    machine().bulk_prefetch(source, nbytes)


INTEGERS, HALF_FLOATS = ("u32", "s32", "u64", "s64"), ("f16", "bf16")


def reducing(operation, dtype):
    """Declare a reduction into global memory."""
    # of halves only the sum that keeps subnormal numbers exists
    spelling = f".noftz.{dtype}" if operation == "add" and dtype in HALF_FLOATS else f".{dtype}"

    @ptx(
        f"cp.reduce.async.bulk.global.shared::cta.bulk_group{{hinted}}.{operation}{spelling} "
        "[{destination}], [{source}], {nbytes}{cache_policy};",
        threads="one",
        proxy="async",
        form=suffixes,
    )
    @member(f"reduce_{operation}_{dtype}", dtype=dtype, result=result_of(operation))
    def reduce(
        destination: GlobalAddress(),
        source: Bytes(),
        nbytes: Size,
        cache_policy: CachePolicy = None,
    ) -> None:
        """Combine elements of global memory with shared ones, as part of the thread's open group.

        Each {dtype} of the destination becomes {result}, atomically.

        Parameters
        ----------
        destination : element's address
            From `memory.address_of`; 16-byte aligned.
        source : shared address
            As of `store`.
        nbytes : u32
            16 or more, a multiple of 16.
        cache_policy : u64, optional
            Of the chapter `cache`, for the destination's lines in L2.

        Notes
        -----
        PTX ISA, "cp.reduce.async.bulk". One thread executes it, the one that then commits and waits. The interpreter
        treats it as a `store`, and raises as for one: it combines when the store would write.
        """
        machine().bulk_store(destination, source, nbytes, (operation, dtype))

    return reduce


def send_reducing(operation, dtype):
    """Declare a reduction into a block's shared memory."""

    @ptx(
        f"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{operation}.{dtype} "
        "[{destination}], [{source}], {nbytes}, [{barrier}];",
        threads="one",
        proxy="async",
    )
    @member(f"send_reduce_{operation}_{dtype}", dtype=dtype, result=result_of(operation))
    def send_reduce(destination: Bytes(cluster=True), source: Bytes(), nbytes: Size, barrier: AnyBarrier) -> None:
        """Combine elements of a block's shared memory with the own ones; the bytes are reported to a barrier there.

        Each {dtype} of the destination becomes {result}, atomically.

        Parameters
        ----------
        destination : shared address
            As of `send`; written before.
        source : shared address
            As of `send`.
        nbytes : u32
            16 or more, a multiple of 16.
        barrier : barrier
            In the destination's block. Gets `nbytes` bytes.

        Notes
        -----
        PTX ISA, "cp.reduce.async.bulk". One thread executes it. The interpreter combines at a moment that the scheduler
        picks. It raises as for `send`, and for elements of the destination that nobody wrote. Several may be on their
        way to the same place; a read or a write there before the wait is ``read-before-arrival`` or
        ``overwrite-in-flight``.
        """
        machine().bulk_send(destination, source, nbytes, barrier, (operation, dtype))

    return send_reduce


def result_of(operation):
    """What becomes of an element, in the words of this chapter."""
    return RESULTS[operation].replace("tensor's", "destination's").replace("tile's", "source's")


def each(declare, operation, *dtypes):
    """What `declare` makes of an operation, for each type of elements that has it."""
    return (declare(operation, dtype) for dtype in dtypes)


reduce_add_u32, reduce_add_s32, reduce_add_u64, reduce_add_f32, reduce_add_f64, reduce_add_f16, reduce_add_bf16 = each(
    reducing, "add", "u32", "s32", "u64", "f32", "f64", *HALF_FLOATS
)
reduce_min_u32, reduce_min_s32, reduce_min_u64, reduce_min_s64, reduce_min_f16, reduce_min_bf16 = each(
    reducing, "min", *INTEGERS, *HALF_FLOATS
)
reduce_max_u32, reduce_max_s32, reduce_max_u64, reduce_max_s64, reduce_max_f16, reduce_max_bf16 = each(
    reducing, "max", *INTEGERS, *HALF_FLOATS
)
(reduce_inc_u32,) = each(reducing, "inc", "u32")
(reduce_dec_u32,) = each(reducing, "dec", "u32")
reduce_and_b32, reduce_and_b64 = each(reducing, "and", "b32", "b64")
reduce_or_b32, reduce_or_b64 = each(reducing, "or", "b32", "b64")
reduce_xor_b32, reduce_xor_b64 = each(reducing, "xor", "b32", "b64")

send_reduce_add_u32, send_reduce_add_s32, send_reduce_add_u64 = each(send_reducing, "add", "u32", "s32", "u64")
send_reduce_min_u32, send_reduce_min_s32 = each(send_reducing, "min", "u32", "s32")
send_reduce_max_u32, send_reduce_max_s32 = each(send_reducing, "max", "u32", "s32")
(send_reduce_inc_u32,) = each(send_reducing, "inc", "u32")
(send_reduce_dec_u32,) = each(send_reducing, "dec", "u32")
(send_reduce_and_b32,) = each(send_reducing, "and", "b32")
(send_reduce_or_b32,) = each(send_reducing, "or", "b32")
(send_reduce_xor_b32,) = each(send_reducing, "xor", "b32")
