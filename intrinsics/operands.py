"""The kinds of operands a PTX instruction has: which values each takes, and how they become registers.

A kind answers for both worlds: `resolve` and `lower` when Numba compiles a kernel, `value` when it is interpreted.
An instruction's parameters are annotated with kinds; see `ptx.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba.cuda import types

from .tiles import Barriers, Element, Shared, Tile, check_box
from .types import (
    AccumulatorType,
    DescriptionType,
    GlobalElement,
    GlobalElementType,
    SharedView,
    SharedViewType,
    TensorMapType,
    i32,
    i64,
)


class Refused(TypeError):
    """A value that an operand does not take; the declaration adds the instruction's and the operand's name."""


@dataclasses.dataclass
class Emission:
    """The registers of one asm statement: its outputs come first, inputs are numbered behind them."""

    builder: Any
    context: Any
    types: dict[str, types.Type]
    step: int = 0
    outputs: list[tuple[str, ir.Type]] = dataclasses.field(default_factory=list)
    inputs: list[tuple[str, Any]] = dataclasses.field(default_factory=list)

    def output(self, constraint: str, type_: ir.Type) -> str:
        self.outputs.append((constraint, type_))
        return f"${len(self.outputs) - 1}"

    def input(self, constraint: str, value: Any) -> str:
        self.inputs.append((constraint, value))
        return f"${len(self.outputs) + len(self.inputs) - 1}"


class Operand:
    """A kind of operand. Subclasses override what differs."""

    def resolve(self, ty: types.Type) -> types.Type:
        """The type an argument of type `ty` is converted to. Raises `Refused`."""
        raise NotImplementedError

    def declare(self, emission: Emission, ty: types.Type) -> Any:
        """Add the registers that the statement writes, if the operand is read and written."""
        return None

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        """Add the registers that the statement reads; returns the operand's PTX text."""
        raise NotImplementedError

    def value(self, value: Any) -> Any:
        """`value` as the instruction's CPU meaning takes it. Raises `Refused`."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Integer(Operand):
    """An integer in a register, as PTX's .u32, .u64 and .s32; wider run-time integers keep their low bits."""

    name: str
    numba: types.Type
    constraint: str

    @functools.cached_property
    def range(self) -> tuple[int, int]:
        """The lowest and the highest value."""
        bits, signed = self.numba.bitwidth, self.numba.signed
        return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def _check(self, number: int) -> None:
        low, high = self.range
        if not low <= number <= high:
            raise Refused(f"must be a {self.name}, {low} to {high}; got {number}")

    def resolve(self, ty: types.Type) -> types.Type:
        if isinstance(ty, types.IntegerLiteral):
            self._check(ty.literal_value)
        elif not isinstance(ty, types.Integer | types.Boolean):
            raise Refused(f"must be an integer ({self.name}); got {ty}")
        return self.numba

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        return emission.input(self.constraint, value)

    def value(self, value: Any) -> int:
        low, high = self.range
        if type(value) is int and low <= value <= high:
            return value
        if not isinstance(value, int | np.integer | np.bool_):
            raise Refused(f"must be an integer ({self.name}); got {value!r}")
        return (int(value) - low) % (high - low + 1) + low


@dataclasses.dataclass(frozen=True)
class Limited(Integer):
    """An integer of which fewer values are legal; those known at run time only are checked where interpreted."""

    low: int = 0
    high: int = 0
    multiple: int = 1

    def _check(self, number: int) -> None:
        check_range(number, self.low, self.high, self.multiple)

    def value(self, value: Any) -> int:
        number = super().value(value)
        self._check(number)
        return number


def check_range(number: int, low: int, high: int, multiple: int) -> None:
    """Refuse what is no multiple of `multiple` from `low` to `high`."""
    if not low <= number <= high or number % multiple:
        raise Refused(f"must be {low} to {high}{f' in steps of {multiple}' if multiple > 1 else ''}; got {number}")


@dataclasses.dataclass(frozen=True)
class Float(Operand):
    """A float32 in a register."""

    name: str = "f32"
    numba: types.Type = types.float32
    constraint: str = "f"

    def resolve(self, ty: types.Type) -> types.Type:
        if not isinstance(ty, types.Float):
            raise Refused(f"must be a float; got {ty}")
        return self.numba

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        return emission.input(self.constraint, value)

    def value(self, value: Any) -> np.float32:
        if type(value) is np.float32:
            return value
        if not isinstance(value, float | np.floating):
            raise Refused(f"must be a float; got {value!r}")
        return np.float32(value)


@dataclasses.dataclass(frozen=True)
class Immediate(Operand):
    """A compile-time integer that stands in the PTX text."""

    low: int
    high: int
    multiple: int = 1

    def _check(self, number: int) -> int:
        check_range(number, self.low, self.high, self.multiple)
        return number

    def resolve(self, ty: types.Type) -> types.Type:
        if not isinstance(ty, types.IntegerLiteral):
            raise Refused(f"must be a compile-time integer: a literal or a constant of the closure; got {ty}")
        self._check(ty.literal_value)
        return ty

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        return str(ty.literal_value)

    def value(self, value: Any) -> int:
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise Refused(f"must be a compile-time integer; got {value!r}")
        return self._check(int(value))


@dataclasses.dataclass(frozen=True)
class Vector(Operand):
    """A tuple of `count` registers of one kind, ``{a, b, …}`` in PTX; `lowest` to `count` where they differ."""

    kind: Integer | Float
    count: int
    lowest: int | None = None

    def _check(self, count: int, got: Any) -> None:
        low = self.lowest or self.count
        if not low <= count <= self.count:
            number = str(low) if low == self.count else f"{low} to {self.count}"
            raise Refused(f"must be a tuple of {number} {self.kind.name}; got {got}")

    def resolve(self, ty: types.Type) -> types.Type:
        if not isinstance(ty, types.BaseTuple):
            raise Refused(f"must be a tuple of {self.kind.name}; got {ty}")
        self._check(len(ty), ty)
        for element in ty.types:
            self.kind.resolve(element)
        return types.UniTuple(self.kind.numba, len(ty))

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        elements = [emission.builder.extract_value(value, i) for i in range(len(ty))]
        return "{" + ", ".join(self.kind.lower(emission, ty.dtype, e, None) for e in elements) + "}"

    def value(self, value: Any) -> tuple:
        if not isinstance(value, tuple):
            raise Refused(f"must be a tuple of {self.kind.name}; got {value!r}")
        self._check(len(value), value)
        check = self.kind.value
        return tuple([check(element) for element in value])


def shared_address(context: Any, builder: Any, array: types.Array, value: Any) -> Any:
    """Emit the 32-bit shared address of a shared array's first element."""
    data = context.make_helper(builder, array, value=value).data
    return builder.ptrtoint(builder.addrspacecast(data, ir.PointerType(data.type.pointee, 3)), i32)


def view_of_array(typingctx: Any, array: types.Type, description: types.Type) -> Any:
    """Type and emit ``memory.view``."""
    if not isinstance(array, types.Array):
        raise Refused(f"array must be a shared array; got {array}")
    if not isinstance(description, DescriptionType):
        raise Refused(f"description must be a tile(…) or barriers(…); got {description}")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return shared_address(context, builder, array, args[0])

    return SharedViewType(description.description)(array, description), codegen


@dataclasses.dataclass(frozen=True)
class SharedAddress(Operand):
    """An address in the block's shared memory: a view, or a Numba shared array.

    Attributes
    ----------
    of : type
        What a view must describe: `Barriers`, `Tile` or `Element`.
    """

    of: type = Element

    @property
    def wanted(self) -> str:
        """What it takes, for a message."""
        or_array = ": memory.view makes one of a shared array" if self.of is Tile else " or a shared array"
        return f"a view of shared memory{or_array}"

    def _check(self, description: Shared) -> None:
        if not isinstance(description, self.of) or (isinstance(description, Barriers) and description.count):
            element = "an element's address, tile.address(…)"
            wanted = {Barriers: "one barrier", Tile: "a tile", Element: element}[self.of]
            raise Refused(f"must be {wanted}; got {description}")

    def resolve(self, ty: types.Type) -> types.Type:
        if isinstance(ty, SharedViewType):
            self._check(ty.description)
        elif not isinstance(ty, types.Array) or self.of is Tile:
            raise Refused(f"must be {self.wanted}; got {ty}")
        elif self.of is Barriers and (not isinstance(ty.dtype, types.Integer) or ty.dtype.bitwidth != 64):
            raise Refused(f"must be one barrier: an array of 64-bit integers; got {ty}")
        return ty

    def address(self, emission: Emission, ty: types.Type, value: Any) -> Any:
        """The 32-bit shared address of the argument."""
        if isinstance(ty, SharedViewType):
            return value
        return shared_address(emission.context, emission.builder, ty, value)

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        return emission.input("r", self.address(emission, ty, value))

    def value(self, value: Any) -> Any:
        if isinstance(value, SharedView):
            self._check(value.description)
            return value if self.of is Tile else value.base
        if self.of is not Tile and hasattr(value, "shared_address"):
            return value.shared_address
        raise Refused(f"must be {self.wanted}; got {value!r}")


@dataclasses.dataclass(frozen=True)
class Panels(SharedAddress):
    """A whole tile as TMA copies it; a statement for each panel."""

    of: type = Tile

    def _check(self, description: Shared) -> None:
        super()._check(description)
        try:
            check_box(description)
        except ValueError as error:
            raise Refused(str(error)) from None

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        stride = ty.description.panel_nbytes * emission.step
        return emission.input("r", emission.builder.add(value, i32(stride)))


@dataclasses.dataclass(frozen=True)
class Coordinates(Vector):
    """Where a box begins in the tensor, innermost first; a further panel begins as many columns further."""

    tile: str = "tile"

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        description = emission.types[self.tile].description
        elements = [emission.builder.extract_value(value, i) for i in range(len(ty))]
        elements[0] = emission.builder.add(elements[0], i32(description.box[0] * emission.step))
        return "{" + ", ".join(emission.input("r", e) for e in elements) + "}"


@dataclasses.dataclass(frozen=True)
class TensorMapAddress(Operand):
    """A tensor map: a kernel parameter, or the copy in device memory that `TensorMap.to_device` makes."""

    def resolve(self, ty: types.Type) -> types.Type:
        is_copy = isinstance(ty, types.Array) and (ty.dtype, ty.ndim, ty.layout) == (types.uint64, 1, "C")
        if not isinstance(ty, TensorMapType) and not is_copy:
            raise Refused(f"must be a TensorMap(array, tile), or the uint64 array of its to_device(); got {ty}")
        return ty

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        pointer = value
        if isinstance(ty, types.Array):
            pointer = emission.context.make_helper(emission.builder, ty, value=value).data
        return emission.input("l", emission.builder.ptrtoint(pointer, i64))

    def value(self, value: Any) -> Any:
        if not hasattr(value, "box"):
            raise Refused(f"must be a TensorMap; got {value!r}")
        return value


@dataclasses.dataclass(frozen=True)
class GlobalAddress(Operand):
    """The address of an array's element in global memory, from `memory.address_of`."""

    def resolve(self, ty: types.Type) -> types.Type:
        if not isinstance(ty, GlobalElementType):
            raise Refused(f"must be an element's address, address_of(array, …); got {ty}")
        return ty

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        return emission.input("l", value)

    def value(self, value: Any) -> Any:
        if not isinstance(value, GlobalElement):
            raise Refused(f"must be an element's address, address_of(array, …); got {value!r}")
        return value


@dataclasses.dataclass(frozen=True)
class Accumulators(Operand):
    """One accumulator or a tuple of them; read and written in place."""

    many: bool = False

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


u32 = Integer("u32", types.uint32, "r")
u64 = Integer("u64", types.uint64, "l")
s32 = Integer("s32", types.int32, "r")
f32 = Float()


def u32_of(low: int, high: int, multiple: int = 1) -> Limited:
    """The kind of a u32 from `low` to `high`."""
    return Limited("u32", types.uint32, "r", low, high, multiple)


# What an instruction returns -----------------------------------------------------------------------------------------


class Result:
    """What an instruction returns."""

    def resolve(self, arguments: dict[str, types.Type]) -> types.Type:
        raise NotImplementedError

    def declare(self, emission: Emission) -> str:
        """Add the registers written; returns the text of ``{result}``."""
        return ""

    def wrap(self, emission: Emission, registers: list[Any]) -> Any:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Nothing(Result):
    """No value."""

    def resolve(self, arguments: dict[str, types.Type]) -> types.Type:
        return types.none

    def wrap(self, emission: Emission, registers: list[Any]) -> Any:
        return emission.context.get_dummy_value()


@dataclasses.dataclass(frozen=True)
class Scalar(Result):
    """One register; a predicate is a u32 that is not zero."""

    kind: Integer | Float
    predicate: bool = False

    def resolve(self, arguments: dict[str, types.Type]) -> types.Type:
        return types.boolean if self.predicate else self.kind.numba

    def declare(self, emission: Emission) -> str:
        return emission.output("=" + self.kind.constraint, emission.context.get_value_type(self.kind.numba))

    def wrap(self, emission: Emission, registers: list[Any]) -> Any:
        return emission.builder.icmp_unsigned("!=", registers[0], i32(0)) if self.predicate else registers[0]


@dataclasses.dataclass(frozen=True)
class Registers(Result):
    """A tuple of registers, ``{a, b, …}`` in PTX."""

    kind: Integer | Float
    count: int

    def resolve(self, arguments: dict[str, types.Type]) -> types.Type:
        return types.UniTuple(self.kind.numba, self.count)

    def declare(self, emission: Emission) -> str:
        type_ = emission.context.get_value_type(self.kind.numba)
        return "{" + ", ".join(emission.output("=" + self.kind.constraint, type_) for _ in range(self.count)) + "}"

    def wrap(self, emission: Emission, registers: list[Any]) -> Any:
        return emission.context.make_tuple(emission.builder, self.resolve({}), registers)


@dataclasses.dataclass(frozen=True)
class InPlace(Result):
    """The accumulators of the operand `acc`: in flight, or ready once an operand `n` is 0."""

    ready_when: str | None = None

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


predicate = Scalar(u32, predicate=True)
