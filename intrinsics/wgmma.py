"""WGMMA: asynchronous products by a warp group (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").

`mma` returns an accumulator in flight; only ``wait_group(acc, 0)`` makes it one that can be read.
"""

import dataclasses

import numpy as np
from numba.cuda.types import NumberClass

from . import accumulators
from .accumulators import Accumulators, InPlace
from .addresses import SharedAddress
from .machine import machine
from .operands import Immediate, Refused
from .ptx import device_function, ptx
from .tiles import HALVES, Tile
from .types import i64

TYPES = {dtype.name: name for name, dtype in HALVES.items()}
N = Immediate(8, 256, 8)


def descriptor_constant(tile, k_major):
    """The matrix descriptor of a tile but for its address (PTX ISA, "Matrix Descriptor Format").

    Bits 16-29 hold the leading, bits 32-45 the stride byte offset, both over 16; bits 62-63 the swizzle.

    K-major: the stride offset leads to the next 8 rows, the leading one (no swizzle only) to the next 16 bytes of K.
    MN-major: one leads to the next panel, the other to the next 8 of K: stride and leading with no swizzle, leading
    and stride with one.
    """
    group, panel = 8 * tile.span, tile.panel_nbytes
    leading, stride = (group, panel) if not k_major and not tile.swizzle else (panel, group)
    if k_major and tile.swizzle:
        leading = 16  # not read
    mode = {128: 1, 64: 2, 32: 3}.get(tile.swizzle or 0, 0)
    return (leading >> 4) << 16 | (stride >> 4) << 32 | mode << 62


@dataclasses.dataclass(frozen=True)
class MatrixDescriptor(SharedAddress):
    """A matrix in shared memory, as the 64-bit descriptor of its tile."""

    of: type = Tile
    k_major_if_transposed: bool = False

    def _check(self, description):
        super()._check(description)
        if len(description.shape) != 2:
            raise Refused(f"must be one tile of two dimensions; got {description}")
        if description.swizzle is None and description.span != 16:
            raise Refused(f"must be swizzled, or have rows of 16 bytes; got {description}")

    def k_major(self, tile):
        return tile.transposed == self.k_major_if_transposed

    def lower(self, emission, ty, value, declared):
        builder, tile = emission.builder, ty.description
        address = builder.lshr(builder.and_(builder.zext(value, i64), i64(0x3FFFF)), i64(4))
        return emission.input("l", builder.or_(address, i64(descriptor_constant(tile, self.k_major(tile)))))


A, B = MatrixDescriptor(), MatrixDescriptor(k_major_if_transposed=True)


def shape(a, b, acc):
    """The fields of an mma statement; shapes and types must be a legal form. Of types or of values."""
    left, right = a.description, b.description
    if left.dtype != right.dtype or left.dtype.name not in TYPES:
        raise Refused(f"a and b must have one type of {', '.join(TYPES)}; got {left.dtype} and {right.dtype}")
    if acc.dtype == np.float16 and left.dtype != np.float16:
        raise Refused(f"a float16 accumulator takes float16 operands only; got {left.dtype}")
    if left.shape != (64, 16) or right.shape != (16, acc.n):
        raise Refused(f"multiplies 64 x 16 by 16 x {acc.n} into 64 x {acc.n}; got {left.shape} by {right.shape}")
    ab, d = TYPES[left.dtype.name], "f32" if acc.dtype == np.float32 else "f16"
    return {"n": acc.n, "types": f"{d}.{ab}.{ab}", "ta": int(not A.k_major(left)), "tb": int(not B.k_major(right))}


shape.fields = ("n", "types", "ta", "tb")


def accumulated(dtype, name):
    """The dtype of an accumulator, by its name where `dtype` is a scalar type."""
    if name not in ("float32", "float16"):
        raise Refused(f"dtype must be float32 or float16; got {dtype}")
    return np.dtype(name)


def define_zeros(typingctx, dtype, n):
    """Type and emit `zeros`."""
    name = dtype.dtype.name if isinstance(dtype, NumberClass) else None
    columns = check_n(N.resolve, n).literal_value
    result = accumulators.AccumulatorType(accumulated(dtype, name), columns, in_flight=False)
    return accumulators.zeros(result, dtype, n)


def check_n(check, n):
    """What `check` makes of `n`, its refusal with the name."""
    try:
        return check(n)
    except Refused as error:
        raise Refused(f"n {error}") from None


@device_function(define_zeros)
def zeros(dtype, n):
    """A 64 x `n` accumulator of zeros.

    Parameters
    ----------
    dtype : float32 or float16
        Numba's or NumPy's scalar type: ``numba.float32``, ``numba.cuda.types.float16``, ``numpy.float16``.
    n : int
        Compile-time; 8 to 256 in steps of 8.
    """
    dtype = accumulated(dtype, getattr(dtype, "__name__", None))
    return machine().accumulator(dtype, check_n(N.value, n))


@ptx("wgmma.fence.sync.aligned;", threads="warp group", proxy="generic")
def fence() -> None:
    """Order this warp group's register accesses before the `mma` that follow.

    Needed before the first `mma`, and whenever registers of an accumulator or of A changed.

    Notes
    -----
    PTX ISA, "wgmma.fence". The 128 threads of a warp group execute it together; the interpreter raises where they do
    not. It does not find one that is missing. It says nothing of shared memory: see `mma`.
    """
    machine().wgmma_fence()


@ptx(
    "wgmma.mma_async.sync.aligned.m64n{n}k16.{types} {acc}, {a}, {b}, 1, 1, 1, {ta}, {tb};",
    threads="warp group",
    proxy="async",
    form=shape,
)
def mma(a: A, b: B, acc: Accumulators()) -> InPlace():
    """Add the product of two matrices in shared memory to an accumulator, asynchronously: one instruction.

    It reads `a` and `b` at any time until `wait_group`: they must stay as they are. What ordinary stores wrote there
    needs `fence.proxy_async_shared_cta` by the threads that stored, then a barrier between them and the warp group;
    what TMA loaded needs the wait on its barrier only.

    Parameters
    ----------
    a : tile, 64 x 16
        float16 or bfloat16; a transposed view is read M-major. A tile, or a part of one, aligned as for `tma.load`.
    b : tile, 16 x N
        Of the same type; a transposed view of an (N, 16) tile is read K-major. Aligned as `a`.
    acc : accumulator, 64 x N
        float32, or float16 for float16 operands; N is 8 to 256 in steps of 8.

    Returns
    -------
    accumulator in flight
        It may be passed to `mma` of the same shape and to `wait_group`, nothing else.

    Notes
    -----
    PTX ISA, "wgmma.mma_async". The 128 threads of a warp group execute it together, with the same operands; the
    interpreter raises where they do not. It multiplies at a moment that the scheduler picks, and raises then for bytes
    that nobody wrote or that a load is still to write; at the block's end for a product that nobody waited for. It does
    not find a fence that is missing, nor operands that are overwritten too early.
    """
    return machine().wgmma(a, b, acc)


@ptx("wgmma.commit_group.sync.aligned;", threads="warp group")
def commit_group() -> None:
    """Close a group: every `mma` of this warp group since the last one.

    Notes
    -----
    PTX ISA, "wgmma.commit_group". The 128 threads of a warp group execute it together; the interpreter raises where
    they do not.
    """
    machine().wgmma_commit()


@ptx("wgmma.wait_group.sync.aligned {n};", threads="warp group")
def wait_group(acc: Accumulators(many=True), n: Immediate(0, 7)) -> InPlace(ready_when="n"):
    """Wait until at most `n` groups of this warp group are in flight.

    Parameters
    ----------
    acc : accumulator in flight, or a tuple of them
    n : int
        Compile-time, 0 to 7.

    Returns
    -------
    accumulator or tuple
        Ready to be read where `n` is 0, in flight still otherwise.

    Notes
    -----
    PTX ISA, "wgmma.wait_group". The 128 threads of a warp group execute it together. The interpreter raises where they
    do not, where `n` is 0 and a product of `acc` was not committed, and for what the products waited for do wrong. The
    threads meet here in the interpreter, and only there: on a GPU each warp waits for itself.
    """
    return machine().wgmma_wait(acc, n)


@device_function(accumulators.for_each_pair)
def for_each_pair(function, acc, args):
    """Call `function` for each pair of neighbouring elements that this thread holds, unrolled.

    Parameters
    ----------
    function : device function
        ``function(row, column, low, high, *args)``: `row` is 0 to 63, `column` even and that of `low`; of a float16
        accumulator ``function(row, column, packed, *args)``, `packed` a u32 with both halves.
    acc : accumulator
        One in flight is refused.
    args : tuple
        Passed on; ``()`` for none.

    Notes
    -----
    Each thread executes it for what it holds. The interpreter raises for an accumulator in flight.
    """
    if not callable(function):
        raise Refused(f"function must be a device function; got {function!r}")
    if not hasattr(acc, "accumulator_shape"):
        raise Refused(f"acc must be an accumulator; got {acc!r}")
    if not isinstance(args, tuple):
        raise Refused(f"args must be a tuple; got {args!r}")
    for row, column, values in acc.pairs():
        function(row, column, *values, *args)
