"""WGMMA: asynchronous products by a warp group (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").

`mma` returns an accumulator in flight; only ``wait_group(acc, 0)`` makes it one that can be read.
"""

import dataclasses
import functools

from numba.cuda.types import BooleanLiteral

from . import accumulators
from .accumulators import Accumulators, AccumulatorType, FragmentType, InPlace
from .addresses import SharedAddress
from .machine import machine
from .operands import Flag, Immediate, Predicate, Refused, Vector, u32
from .ptx import device_function, ptx
from .tiles import Tile, as_dtype
from .types import i64


@dataclasses.dataclass(frozen=True)
class Family:
    """Types of elements of which A may have any and B any, and the forms that they have.

    Attributes
    ----------
    names : dict
        PTX's name of each type.
    accumulators : tuple of str
        Types that sums may have.
    mn_major : bool
        Whether an operand in shared memory may be MN-major: PTX's imm-trans.
    negated : bool
        Whether operands may be negated: PTX's imm-scale.
    sizes : sequence of int
        What N may be.
    """

    names: dict[str, str]
    accumulators: tuple[str, ...]
    mn_major: bool = False
    negated: bool = True
    sizes: range | tuple[int, ...] = range(8, 257, 8)


FAMILIES = (
    Family({"float16": "f16"}, ("float32", "float16"), mn_major=True),
    Family({"bfloat16": "bf16"}, ("float32",), mn_major=True),
    Family({"float32": "tf32"}, ("float32",)),
    Family({"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}, ("float32", "float16")),
    Family({"int8": "s8", "uint8": "u8"}, ("int32",), negated=False, sizes=(8, 16, 24, *range(32, 257, 16))),
)
K_NBYTES = 32
"""Bytes of a row of A, or of a column of B."""

OPERANDS = {name: family for family in FAMILIES for name in family.names}
ACCUMULATORS = {"float32": "f32", "float16": "f16", "int32": "s32"}
SIZES = {name: family.sizes for family in FAMILIES for name in family.accumulators}
N = Immediate(8, 256, 8)
REGISTERS = Vector(u32, 4)


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


class LeftOperand(MatrixDescriptor):
    """A: in shared memory, or a fragment in registers."""

    @property
    def wanted(self):
        return f"{super().wanted}, or a fragment"

    def resolve(self, ty):
        return ty if isinstance(ty, FragmentType) else super().resolve(ty)

    def lower(self, emission, ty, value, declared):
        if not isinstance(ty, FragmentType):
            return super().lower(emission, ty, value, declared)
        registers = [emission.builder.extract_value(value, i) for i in range(ty.registers)]
        return "{" + ", ".join(emission.input("r", register) for register in registers) + "}"

    def value(self, value):
        return value if hasattr(value, "fragment_shape") else super().value(value)


A, B = LeftOperand(), MatrixDescriptor(k_major_if_transposed=True)


@functools.cache
def family_of(a, b, d):
    """The family that multiplies these dtypes into sums of `d`, and how PTX writes the three."""
    family = OPERANDS.get(a.name)
    if family is None or b.name not in family.names:
        kinds = " | ".join(", ".join(f.names) for f in FAMILIES)
        raise Refused(f"a and b must be of one kind ({kinds}); got {a} and {b}")
    if d.name not in family.accumulators:
        raise Refused(f"{a} by {b} takes an accumulator of {' or '.join(family.accumulators)}; got {d}")
    return family, f"{ACCUMULATORS[d.name]}.{family.names[a.name]}.{family.names[b.name]}"


def form(a, b, acc, scale_d, negate_a, negate_b):
    """The fields of an mma statement; shapes and types must be a legal form. Of types or of values."""
    in_shared = hasattr(a, "description")
    left, right = a.description if in_shared else a, b.description
    family, types = family_of(left.dtype, right.dtype, acc.dtype)
    n, k = acc.n, K_NBYTES // left.dtype.itemsize
    if left.shape != (64, k) or right.shape != (k, n):
        raise Refused(f"multiplies 64 x {k} by {k} x {n} into 64 x {n}; got {left.shape} by {right.shape}")
    turned, negated = (not A.k_major(left), not B.k_major(right)), (is_true(negate_a), is_true(negate_b))
    immediates = []
    if family.negated:
        immediates += [-1 if negate else 1 for negate in negated]
    elif any(negated):
        raise Refused(f"negate_{'a' if negated[0] else 'b'} must be False: integers are not negated; got True")
    if family.mn_major:
        immediates += map(int, turned if in_shared else turned[1:])
    elif any(turned):
        which, tile = ("a must be K-major, no", left) if turned[0] else ("b must be K-major, a", right)
        raise Refused(f"{which} transposed view: only elements of 16 bits may be MN-major; got {tile}")
    return {
        "shape": f"m64n{n}k{k}",
        "types": types,
        "immediates": "".join(f", {value}" for value in immediates),
    }


form.fields = {
    "shape": "`m64nNkK`",
    "types": "the types of `acc`, `a` and `b`, such as `f32.f16.f16`, `f32.e4m3.e5m2`, `s32.u8.s8`, `f32.tf32.tf32`",
    "immediates": "what the form has of imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b",
}


def is_true(flag):
    """Whether a flag is True: of its type or of its value."""
    return flag.literal_value if isinstance(flag, BooleanLiteral) else flag


def named(name, find, *args):
    """`find(*args)`, a refusal with the name of the argument."""
    try:
        return find(*args)
    except Refused as error:
        raise Refused(f"{name} {error}") from None


def scalar_type(dtype, names, shown):
    """One dtype of those that have these names; `shown` stands in the refusal."""
    try:
        found = as_dtype(dtype)
    except TypeError:
        found = None
    if found is None or found.name not in names:
        *others, last = names
        raise Refused(f"must be {', '.join(others)} or {last}; got {shown}")
    return found


def accumulated(dtype, n, shown):
    """The dtype of an accumulator that can have `n` columns."""
    dtype = named("dtype", scalar_type, dtype, ACCUMULATORS, shown)
    if n not in SIZES[dtype.name]:
        raise Refused(f"n must be 8, 16, 24 or 32 to 256 in steps of 16 for {dtype}; got {n}")
    return dtype


def define_zeros(typingctx, dtype, n):
    """Type and emit `zeros`."""
    columns = named("n", N.resolve, n).literal_value
    found = accumulated(accumulators.scalar(dtype), columns, dtype)
    return accumulators.zeros(AccumulatorType(found, columns, in_flight=False), dtype, n)


@device_function(define_zeros)
def zeros(dtype, n):
    """A 64 x `n` accumulator of zeros.

    Parameters
    ----------
    dtype : float32, float16 or int32
        As `tile` takes it: Numba's, NumPy's or ml_dtypes' scalar type, a dtype, or a name.
    n : int
        Compile-time; 8 to 256 in steps of 8; of int32 above 32 in steps of 16.
    """
    n = named("n", N.value, n)
    return machine().accumulator(accumulated(dtype, n, dtype), n)


def define_fragment(typingctx, dtype, registers):
    """Type and emit `fragment`."""
    found = named("dtype", scalar_type, accumulators.scalar(dtype), OPERANDS, dtype)
    return accumulators.fragment(FragmentType(found), dtype, named("registers", REGISTERS.resolve, registers))


@device_function(define_fragment)
def fragment(dtype, registers):
    """The matrix A of an `mma` in registers: 64 rows of 32 bytes, of which each thread has 16 bytes.

    Thread ``t`` of a warp has in register ``i`` the bytes ``4 * (t % 4) + 16 * (i // 2)`` to 3 further of row
    ``t // 4 + 8 * (i % 2)`` of its warp's 16 rows, the lowest in the lowest bits. With ``r = t // 4``, ``c = t % 4``:

    - 16 bits (K is 16): columns ``2 * c``, ``2 * c + 1`` of row ``r``; the same of row ``r + 8``; columns
      ``2 * c + 8``, ``2 * c + 9`` of row ``r``; the same of row ``r + 8``. `matrix.ldmatrix_x4` loads that from
      row-major A: matrices 0 to 3 are rows 0-7 and 8-15 of columns 0-7, then of columns 8-15.
    - float32 (tf32, K is 8): column ``c`` of row ``r``; of row ``r + 8``; column ``c + 4`` of row ``r``; of row
      ``r + 8``.
    - 8 bits (K is 32): columns ``4 * c`` to ``4 * c + 3`` of row ``r``; of row ``r + 8``; columns ``4 * c + 16`` to
      ``4 * c + 19`` of row ``r``; of row ``r + 8``.

    Parameters
    ----------
    dtype : float16, bfloat16, float32, float8_e4m3fn, float8_e5m2, int8 or uint8
        As `tile` takes it: Numba's, NumPy's or ml_dtypes' scalar type, a dtype, or a name.
    registers : tuple of 4 u32

    Returns
    -------
    fragment
        For `mma` and `wait_group`, nothing else. It belongs before `fence`, which orders what its registers were
        computed by before the `mma` that reads them.

    Notes
    -----
    PTX ISA, "Register Fragments".
    """
    dtype = named("dtype", scalar_type, dtype, OPERANDS, dtype)
    return machine().fragment(dtype, named("registers", REGISTERS.value, registers))


@ptx("wgmma.fence.sync.aligned;", threads="warp group", proxy="generic")
def fence() -> None:
    """Order this warp group's register accesses before the `mma` that follow.

    Needed before the first `mma`, and whenever registers of an accumulator or of A changed.

    Notes
    -----
    PTX ISA, "wgmma.fence". The 128 threads of a warp group execute it together; the interpreter raises where they do
    not, and where one is missing (``missing-wgmma-fence``). It says nothing of shared memory: see `mma`.
    """
    machine().wgmma_fence()


@ptx(
    "{{ .reg .pred p; setp.ne.b32 p, {scale_d}, 0; "
    "wgmma.mma_async.sync.aligned.{shape}.{types} {acc}, {a}, {b}, p{immediates}; }}",
    threads="warp group",
    proxy="async",
    form=form,
)
def mma(
    a: A,
    b: B,
    acc: Accumulators(),
    scale_d: Predicate() = True,
    negate_a: Flag() = False,
    negate_b: Flag() = False,
) -> InPlace():
    """Multiply two matrices and add to an accumulator, asynchronously: one instruction.

    It reads `a` and `b` at any time until `wait_group`: they must stay as they are. What ordinary stores wrote to
    shared memory needs `fence.proxy_async_shared_cta` by the threads that stored, then a barrier between them and the
    warp group; what TMA loaded needs the wait on its barrier only. A fragment may be given to further `mma` meanwhile;
    its registers are kept until the `wait_group` that is given it, so that must be one that waits for all of these.

    Types of `a` and `b`, K, and the types of `acc`:

    - float16 by float16, K is 16: float32 or float16
    - bfloat16 by bfloat16, K is 16: float32
    - float32 by float32, K is 8: float32. Only the upper 19 bits of an element count (tf32): the lower 13 are cut off
    - float8_e4m3fn or float8_e5m2 by either, K is 32: float32 or float16
    - int8 or uint8 by either, K is 32: int32, which wraps

    In shared memory operands are K-major; those of 16 bits may be MN-major too.

    Parameters
    ----------
    a : tile or fragment, 64 x K
        A transposed view is M-major. A tile, or a part of one, aligned as for `tma.load`.
    b : tile, K x N
        A transposed view of an (N, K) tile is K-major, another N-major. Aligned as `a`.
    acc : accumulator, 64 x N
        N is 8 to 256 in steps of 8; of int32 above 32 in steps of 16.
    scale_d : bool
        At run time, the same in all threads. False: the result is the product alone, whatever `acc` holds.
    negate_a : bool
        Compile-time. Whether the elements of `a` are negated; not of integers.
    negate_b : bool
        The same of `b`.

    Returns
    -------
    accumulator in flight
        It may be passed to `mma` of the same shape and to `wait_group`, nothing else.

    Notes
    -----
    PTX ISA, "wgmma.mma_async". The 128 threads of a warp group execute it together, with the same operands; the
    interpreter raises where they do not. It multiplies at a moment that the scheduler picks, and raises then for bytes
    that nobody wrote or that a load is still to write; at the block's end for a product that nobody waited for and for
    a fragment that was given to no wait for its products. Registers of `a` are read at once there. It raises for a
    fence that is missing (``missing-proxy-fence``, ``missing-wgmma-fence``), for operands whose load this warp group
    did not wait for (``read-before-arrival``) and those overwritten before `wait_group` (``overwrite-while-read``). It
    adds in another order than the hardware, in float32: equal for small integers, close otherwise.
    """
    return machine().wgmma(a, b, acc, scale_d, negate_a, negate_b)


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
    acc : accumulator in flight, fragment, or a tuple of them
        Of fragments those that the products waited for read: their registers are kept until here.
    n : int
        Compile-time, 0 to 7.

    Returns
    -------
    accumulator, fragment or tuple
        As `acc`; accumulators are ready to be read where `n` is 0, in flight still otherwise.

    Notes
    -----
    PTX ISA, "wgmma.wait_group". The 128 threads of a warp group execute it together. The interpreter raises where they
    do not, where `n` is 0 and a product of `acc` was not committed, and for what the products waited for do wrong. The
    products of a warp group are one operation: when one of its threads has waited, those of all four warps are done.
    """
    return machine().wgmma_wait(acc, n)


@device_function(accumulators.for_each_pair)
def for_each_pair(function, acc, args):
    """Call `function` for each pair of neighbouring elements that this thread holds, unrolled.

    Parameters
    ----------
    function : device function
        ``function(row, column, low, high, *args)``: `row` is 0 to 63, `column` even and that of `low`, which are
        float32 or int32 as the accumulator is; of a float16 accumulator ``function(row, column, packed, *args)``,
        `packed` a u32 with both halves.
    acc : accumulator
        One in flight is refused.
    args : tuple
        Passed on; ``()`` for none.

    Notes
    -----
    Each thread executes it for what it holds. The interpreter raises for an accumulator in flight.
    """
    check_unrolled(function, acc, args)
    for row, column, values in acc.pairs():
        function(row, column, *values, *args)


@device_function(accumulators.for_each_block)
def for_each_block(function, acc, args):
    """Call `function` for each block of 16 rows and 16 columns that this warp holds, unrolled.

    Parameters
    ----------
    function : device function
        ``function(row, column, values, *args)``: `row` and `column` are those of the block's first element, the same in
        all 32 threads. `values` is what this thread holds of the block: a tuple of 4 u32, of a float16 accumulator,
        as `matrix.stmatrix_x4` takes them: of rows 0-7 and 8-15 of columns 0-7, then of columns 8-15. Of a float32 or
        int32 accumulator a tuple of 8, two where that has one.
    acc : accumulator
        With a multiple of 16 columns. One in flight is refused.
    args : tuple
        Passed on; ``()`` for none.

    Notes
    -----
    Each thread executes it for what it holds. The interpreter raises for an accumulator in flight.
    """
    check_unrolled(function, acc, args)
    if acc.n % 16:
        raise Refused(f"acc must have a multiple of 16 columns; got {acc!r}")
    for row, column, values in acc.blocks():
        function(row, column, values, *args)


def check_unrolled(function, acc, args):
    """Refuse what a function unrolled over an accumulator does not take."""
    if not callable(function):
        raise Refused(f"function must be a device function; got {function!r}")
    if not hasattr(acc, "accumulator_shape"):
        raise Refused(f"acc must be an accumulator; got {acc!r}")
    if not isinstance(args, tuple):
        raise Refused(f"args must be a tuple; got {args!r}")
