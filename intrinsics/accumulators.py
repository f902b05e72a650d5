"""WGMMA's accumulators and fragments of A: their Numba types, the operand, and functions unrolled over one.

At run time both are their registers.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import ml_dtypes
import numpy as np
from llvmlite import ir
from numba import cuda
from numba.cuda import types
from numba.cuda.core.errors import NumbaTypeError
from numba.cuda.cudaimpl import registry as lowering
from numba.cuda.extending import core_models, lower_cast, register_model, typeof_impl
from numba.cuda.typeconv import Conversion

from .operands import Emission, Operand, Refused
from .results import Result
from .types import i32


class AccumulatorType(types.Type):
    """The registers of one thread of a 64 x `n` WGMMA accumulator. In flight, only `wait_group` may take it.

    Attributes
    ----------
    dtype : numpy.dtype
        float32, int32, or float16 packed in pairs.
    n : int
    in_flight : bool
    """

    def __init__(self, dtype: np.dtype, n: int, in_flight: bool) -> None:
        self.dtype, self.n, self.in_flight = np.dtype(dtype), n, in_flight
        super().__init__(f"{'InFlight' if in_flight else 'Accumulator'}[{self.dtype}, 64x{n}]")

    @property
    def registers(self) -> int:
        """32-bit registers a thread."""
        return 64 * self.n * self.dtype.itemsize // 4 // 128

    @property
    def register(self) -> ir.Type:
        return ir.FloatType() if self.dtype == np.float32 else i32

    @property
    def constraint(self) -> str:
        return "f" if self.dtype == np.float32 else "r"

    def as_(self, in_flight: bool) -> AccumulatorType:
        return AccumulatorType(self.dtype, self.n, in_flight)

    def _same_registers(self, other: Any) -> bool:
        return isinstance(other, AccumulatorType) and (self.dtype, self.n) == (other.dtype, other.n)

    def can_convert_to(self, typingctx: Any, other: Any) -> Conversion | None:
        # an accumulator may be put back in flight, never the other way
        return Conversion.safe if self._same_registers(other) and other.in_flight else None

    def unify(self, typingctx: Any, other: Any) -> AccumulatorType | None:
        return self.as_(in_flight=True) if self._same_registers(other) else None


class FragmentType(types.Type):
    """The registers of one thread of A: a matrix of 64 rows of 32 bytes, K-major like a tile that is not transposed.

    Attributes
    ----------
    dtype : numpy.dtype
    shape : tuple of int
    """

    registers, register, constraint = 4, i32, "r"
    transposed = False

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype, self.shape = dtype, (64, 32 // dtype.itemsize)
        super().__init__(f"Fragment[{dtype}, 64x{self.shape[1]}]")

    def as_(self, in_flight: bool) -> FragmentType:
        return self  # its values do not change


@register_model(AccumulatorType)
@register_model(FragmentType)
class RegistersModel(core_models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: AccumulatorType | FragmentType) -> None:
        super().__init__(dmm, fe_type, ir.ArrayType(fe_type.register, fe_type.registers))


def together(builder: Any, ty: AccumulatorType | FragmentType, registers: Any) -> Any:
    """Emit the value that has these registers."""
    value = ir.Constant(ir.ArrayType(ty.register, ty.registers), ir.Undefined)
    for i, register in enumerate(registers):
        value = builder.insert_value(value, register, i)
    return value


@lower_cast(AccumulatorType, AccumulatorType)
def same_registers(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    return value


# As an operand, and as what an instruction returns --------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Accumulators(Operand):
    """An accumulator, or several and fragments of A in a tuple; read and written in place."""

    many: bool = False
    in_text = False

    @property
    def wanted(self) -> str:
        """What it takes, for a message."""
        return "an accumulator, a fragment or a tuple of them" if self.many else "an accumulator"

    def resolve(self, ty: types.Type) -> types.Type:
        parts = ty.types if self.many and isinstance(ty, types.BaseTuple) and len(ty) else [ty]
        taken = (AccumulatorType, FragmentType) if self.many else AccumulatorType
        if not all(isinstance(part, taken) for part in parts):
            raise Refused(f"must be {self.wanted}; got {ty}")
        return ty

    def declare(self, emission: Emission, ty: types.Type) -> list[str]:
        parts = ty.types if isinstance(ty, types.BaseTuple) else [ty]
        return [emission.output("=" + p.constraint, p.register) for p in parts for _ in range(p.registers)]

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        is_tuple = isinstance(ty, types.BaseTuple)
        parts = [emission.builder.extract_value(value, i) for i in range(len(ty))] if is_tuple else [value]
        registers = [emission.builder.extract_value(p, i) for p in parts for i in range(p.type.count)]
        for placeholder, register in zip(declared, registers, strict=True):
            emission.input(placeholder[1:], register)  # tied to the output of that number
        return "{" + ", ".join(declared) + "}"

    def value(self, value: Any) -> Any:
        parts = value if self.many and isinstance(value, tuple) else (value,)
        taken = ("accumulator_shape", "fragment_shape") if self.many else ("accumulator_shape",)
        if not parts or not all(any(hasattr(part, name) for name in taken) for part in parts):
            raise Refused(f"must be {self.wanted}; got {value!r}")
        return value


@dataclasses.dataclass(frozen=True)
class InPlace(Result):
    """What the operand `acc` is: accumulators in flight, or ready once an operand `n` is 0."""

    ready_when: str | None = None
    in_text = False

    def resolve(self, arguments: dict[str, types.Type]) -> types.Type:
        ready = self.ready_when is not None and arguments[self.ready_when].literal_value == 0
        ty = arguments["acc"]
        if isinstance(ty, types.BaseTuple):
            return types.Tuple([part.as_(in_flight=not ready) for part in ty.types])
        return ty.as_(in_flight=not ready)

    def wrap(self, emission: Emission, registers: list[Any]) -> Any:
        ty = self.resolve(emission.types)
        left = iter(registers)
        parts = [
            together(emission.builder, part, itertools.islice(left, part.registers))
            for part in (ty.types if isinstance(ty, types.BaseTuple) else [ty])
        ]
        return emission.context.make_tuple(emission.builder, ty, parts) if isinstance(ty, types.BaseTuple) else parts[0]


# Functions unrolled over an accumulator ------------------------------------------------------------------------------


VALUES = {"float32": types.float32, "int32": types.int32, "float16": types.uint32}
"""What a register of an accumulator holds."""


def check_unrolled(name: str, function: types.Type, acc: types.Type, args: types.Type) -> None:
    """Refuse what a function unrolled over an accumulator does not take."""
    if not isinstance(function, types.Dispatcher):
        raise NumbaTypeError(f"wgmma.{name}: function must be a device function; got {function}")
    if not isinstance(acc, AccumulatorType):
        raise NumbaTypeError(f"wgmma.{name}: acc must be an accumulator; got {acc}")
    if acc.in_flight:
        raise NumbaTypeError(
            f"wgmma.{name}: acc is still in flight: acc = wgmma.wait_group(acc, 0) must come before it is read"
        )
    if not isinstance(args, types.BaseTuple):
        raise NumbaTypeError(f"wgmma.{name}: args must be a tuple; got {args}")


def call_unrolled(context: Any, builder: Any, sig: Any, call: Any, place: tuple, held: tuple, values: list) -> None:
    """Emit one inlined call of the function: row and column, `values` of the types `held`, and what `args` has."""
    function, _, args = sig.args
    extra = [builder.extract_value(call[2], i) for i in range(len(args))]
    inner = types.void(types.uint32, types.uint32, *held, *args.types)
    context.compile_internal(builder, function.dispatcher.py_func, inner, [*place, *values, *extra])


def lane_and_warp(context: Any, builder: Any) -> tuple[Any, Any]:
    """Emit the thread's lane, and its warp in the warp group."""
    thread = context.compile_internal(builder, linear_thread, types.uint32(), [])
    return builder.and_(thread, i32(31)), builder.and_(builder.lshr(thread, i32(5)), i32(3))


def for_each_pair(typingctx: Any, function: types.Type, acc: types.Type, args: types.Type) -> Any:
    """Type and emit ``wgmma.for_each_pair``: one inlined call for each pair of neighbouring columns."""
    check_unrolled("for_each_pair", function, acc, args)
    held, count = VALUES[acc.dtype.name], acc.dtype.itemsize // 2  # registers of a pair

    def codegen(context: Any, builder: Any, sig: Any, call: Any) -> Any:
        lane, warp = lane_and_warp(context, builder)
        first_row = builder.add(builder.mul(warp, i32(16)), builder.lshr(lane, i32(2)))
        first_column = builder.mul(builder.and_(lane, i32(3)), i32(2))
        for pair in range(acc.registers // count):
            row = builder.add(first_row, i32(8 * (pair % 2)))
            column = builder.add(first_column, i32(8 * (pair // 2)))
            registers = [builder.extract_value(call[1], pair * count + i) for i in range(count)]
            call_unrolled(context, builder, sig, call, (row, column), (held,) * count, registers)
        return context.get_dummy_value()

    return types.none(function, acc, args), codegen


def for_each_block(typingctx: Any, function: types.Type, acc: types.Type, args: types.Type) -> Any:
    """Type and emit ``wgmma.for_each_block``: one inlined call for each 16 x 16 of the warp's rows."""
    check_unrolled("for_each_block", function, acc, args)
    if acc.n % 16:
        raise NumbaTypeError(f"wgmma.for_each_block: acc must have a multiple of 16 columns; got {acc}")
    count = 2 * acc.dtype.itemsize  # registers of a block
    held = types.UniTuple(VALUES[acc.dtype.name], count)

    def codegen(context: Any, builder: Any, sig: Any, call: Any) -> Any:
        _, warp = lane_and_warp(context, builder)
        row = builder.mul(warp, i32(16))
        for block in range(acc.n // 16):
            registers = [builder.extract_value(call[1], block * count + i) for i in range(count)]
            together = context.make_tuple(builder, held, registers)
            call_unrolled(context, builder, sig, call, (row, i32(16 * block)), (held,), [together])
        return context.get_dummy_value()

    return types.none(function, acc, args), codegen


def linear_thread() -> int:
    """The index of the executing thread in its block, x fastest."""
    inner = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    return types.uint32(inner)


# Made of constants and of registers -----------------------------------------------------------------------------------


def zeros(result: AccumulatorType, *args: types.Type) -> Any:
    """Type and emit ``wgmma.zeros``."""
    text = " ".join(f"mov.b32 ${i}, 0;" for i in range(result.registers))

    def codegen(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return _written(builder, result, text, [])

    return result(*args), codegen


def fragment(result: FragmentType, *args: types.Type) -> Any:
    """Type and emit ``wgmma.fragment``; the registers are the last argument."""

    def codegen(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        return _written(builder, result, "", [builder.extract_value(values[-1], i) for i in range(result.registers)])

    return result(*args), codegen


def _written(builder: Any, ty: AccumulatorType | FragmentType, text: str, tied: list[Any]) -> Any:
    """Emit a statement that writes all registers, those that are `tied` to ones with their values."""
    # without it they would be computed where they are used, past wgmma.fence and between products in flight
    written = ir.LiteralStructType([ty.register] * ty.registers)
    constraints = ",".join([f"={ty.constraint}"] * ty.registers + [str(i) for i in range(len(tied))])
    type_ = ir.FunctionType(written, [register.type for register in tied])
    struct = builder.call(ir.InlineAsm(type_, text, constraints, side_effect=True), tied)
    return together(builder, ty, [builder.extract_value(struct, i) for i in range(ty.registers)])


# Scalar types as arguments --------------------------------------------------------------------------------------------


class Float8Type(types.Opaque):
    """The type of ml_dtypes' `dtype`, which Numba does not know, captured by a kernel."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype
        super().__init__(f"class({dtype})")


FLOATS8 = {ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2}
typeof_class = typeof_impl.dispatch(type)


@typeof_impl.register(type)
def typeof_float8(value: type, context: Any) -> types.Type | None:
    """As Numba's own, but for ml_dtypes' floats of 8 bits."""
    return Float8Type(np.dtype(value)) if value in FLOATS8 else typeof_class(value, context)


for float8 in FLOATS8:
    typeof_impl.register(type(np.dtype(float8)))(lambda value, context: Float8Type(value))
register_model(Float8Type)(core_models.OpaqueModel)
lowering.lower_constant(Float8Type)(lambda context, builder, ty, pyval: context.get_dummy_value())


def scalar(ty: types.Type) -> Any:
    """What `as_dtype` takes: of the type of a name, of a dtype or of a scalar type; None if it is none."""
    if isinstance(ty, types.StringLiteral):
        return ty.literal_value
    return ty.dtype if isinstance(ty, types.NumberClass | types.DType | Float8Type) else None
