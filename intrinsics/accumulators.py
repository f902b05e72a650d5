"""WGMMA's accumulators: their Numba type, the operand, and functions unrolled over one.

At run time an accumulator is its registers.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cuda
from numba.cuda import types
from numba.cuda.core.errors import NumbaTypeError
from numba.cuda.extending import core_models, lower_cast, register_model
from numba.cuda.typeconv import Conversion

from .operands import Emission, Operand, Refused
from .results import Result
from .types import i32


class AccumulatorType(types.Type):
    """The registers of one thread of a 64 x `n` WGMMA accumulator. In flight, only `wait_group` may take it.

    Attributes
    ----------
    dtype : numpy.dtype
        float32, or float16 packed in pairs.
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


@register_model(AccumulatorType)
class AccumulatorModel(core_models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: AccumulatorType) -> None:
        super().__init__(dmm, fe_type, ir.ArrayType(fe_type.register, fe_type.registers))


@lower_cast(AccumulatorType, AccumulatorType)
def same_registers(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    return value


# As an operand, and as what an instruction returns --------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Accumulators(Operand):
    """One accumulator or a tuple of them; read and written in place."""

    many: bool = False
    in_text = False

    def resolve(self, ty: types.Type) -> types.Type:
        parts = ty.types if self.many and isinstance(ty, types.BaseTuple) and len(ty) else [ty]
        if not all(isinstance(part, AccumulatorType) for part in parts):
            raise Refused(f"must be an accumulator{' or a tuple of them' if self.many else ''}; got {ty}")
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
        if not parts or not all(hasattr(part, "accumulator_shape") for part in parts):
            raise Refused(f"must be an accumulator{' or a tuple of them' if self.many else ''}; got {value!r}")
        return value


@dataclasses.dataclass(frozen=True)
class InPlace(Result):
    """The accumulators of the operand `acc`: in flight, or ready once an operand `n` is 0."""

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
        parts = []
        for part in ty.types if isinstance(ty, types.BaseTuple) else [ty]:
            value = ir.Constant(ir.ArrayType(part.register, part.registers), ir.Undefined)
            for i in range(part.registers):
                value = emission.builder.insert_value(value, registers.pop(0), i)
            parts.append(value)
        return emission.context.make_tuple(emission.builder, ty, parts) if isinstance(ty, types.BaseTuple) else parts[0]


# Functions unrolled over an accumulator ------------------------------------------------------------------------------


def for_each_pair(typingctx: Any, function: types.Type, acc: types.Type, args: types.Type) -> Any:
    """Type and emit ``wgmma.for_each_pair``: one inlined call for each pair of neighbouring columns."""
    if not isinstance(function, types.Dispatcher):
        raise NumbaTypeError(f"wgmma.for_each_pair: function must be a device function; got {function}")
    if not isinstance(acc, AccumulatorType):
        raise NumbaTypeError(f"wgmma.for_each_pair: acc must be an accumulator; got {acc}")
    if acc.in_flight:
        raise NumbaTypeError(
            "wgmma.for_each_pair: acc is still in flight: acc = wgmma.wait_group(acc, 0) must come before it is read"
        )
    if not isinstance(args, types.BaseTuple):
        raise NumbaTypeError(f"wgmma.for_each_pair: args must be a tuple; got {args}")
    if acc.dtype == np.float32:
        values = (types.float32, types.float32)
    else:
        values = (types.uint32,)
    inner = types.void(types.uint32, types.uint32, *values, *args.types)

    def codegen(context: Any, builder: Any, sig: Any, call: Any) -> Any:
        extra = [builder.extract_value(call[2], i) for i in range(len(args))]
        thread = context.compile_internal(builder, linear_thread, types.uint32(), [])
        lane, warp = builder.and_(thread, i32(31)), builder.and_(builder.lshr(thread, i32(5)), i32(3))
        first_row = builder.add(builder.mul(warp, i32(16)), builder.lshr(lane, i32(2)))
        first_column = builder.mul(builder.and_(lane, i32(3)), i32(2))
        for pair in range(acc.registers // len(values)):
            row = builder.add(first_row, i32(8 * (pair % 2)))
            column = builder.add(first_column, i32(8 * (pair // 2)))
            registers = [builder.extract_value(call[1], pair * len(values) + i) for i in range(len(values))]
            context.compile_internal(builder, function.dispatcher.py_func, inner, [row, column, *registers, *extra])
        return context.get_dummy_value()

    return types.none(function, acc, args), codegen


def linear_thread() -> int:
    """The index of the executing thread in its block, x fastest."""
    inner = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    return types.uint32(inner)


def zeros(result: AccumulatorType, *args: types.Type) -> Any:
    """Type and emit ``wgmma.zeros``."""

    def codegen(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        # constants would be moved to where they are used, past wgmma.fence and between products in flight
        registers = range(result.registers)
        text = " ".join(f"mov.b32 ${i}, 0;" for i in registers)
        written = ir.LiteralStructType([result.register] * result.registers)
        constraints = ",".join([f"={result.constraint}"] * result.registers)
        struct = builder.call(ir.InlineAsm(ir.FunctionType(written, []), text, constraints, side_effect=True), [])
        value = ir.Constant(ir.ArrayType(result.register, result.registers), ir.Undefined)
        for i in registers:
            value = builder.insert_value(value, builder.extract_value(struct, i), i)
        return value

    return result(*args), codegen
