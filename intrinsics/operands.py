"""The kinds of operands a PTX instruction has: which values each takes, and how they become registers.

A kind answers for both worlds: `resolve` and `lower` when Numba compiles a kernel, `value` when it is interpreted.
An instruction's parameters are annotated with kinds; see `ptx.py`. Addresses are in `addresses.py`, accumulators in
`accumulators.py`, what instructions return in `results.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba.cuda import types

from .types import i32


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
    """A kind of operand. Subclasses override what differs.

    Attributes
    ----------
    in_text : bool
        Whether its name must stand in the instruction's text.
    """

    in_text = True

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
        if isinstance(ty, types.IntegerLiteral | types.BooleanLiteral):
            self._check(int(ty.literal_value))
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
        if not isinstance(value, int | np.integer | np.bool_):
            raise Refused(f"must be an integer ({self.name}); got {value!r}")
        number = int(value)
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
class Flag(Operand):
    """A compile-time bool; what the text has for it is the form's to say."""

    in_text = False

    def resolve(self, ty: types.Type) -> types.Type:
        if not isinstance(ty, types.BooleanLiteral):
            raise Refused(f"must be a compile-time bool: True, False or a constant of the closure; got {ty}")
        return ty

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        return ""

    def value(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise Refused(f"must be a compile-time bool; got {value!r}")
        return value


@dataclasses.dataclass(frozen=True)
class Predicate(Operand):
    """A bool in a register: 0 or 1, of which the text makes a predicate."""

    def resolve(self, ty: types.Type) -> types.Type:
        if not isinstance(ty, types.Boolean | types.BooleanLiteral):
            raise Refused(f"must be a bool; got {ty}")
        return types.boolean

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        return emission.input("r", emission.builder.zext(value, i32))

    def value(self, value: Any) -> bool:
        if not isinstance(value, bool | np.bool_):
            raise Refused(f"must be a bool; got {value!r}")
        return bool(value)


@dataclasses.dataclass(frozen=True)
class Optional(Operand):
    """An operand that may be None, and then does not stand in the text; it stands there behind a comma."""

    kind: Operand

    def resolve(self, ty: types.Type) -> types.Type:
        return self.kind.resolve(ty) if is_given(ty) else ty

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        return f", {self.kind.lower(emission, ty, value, declared)}" if is_given(ty) else ""

    def value(self, value: Any) -> Any:
        return self.kind.value(value) if is_given(value) else value


def is_given(operand: Any) -> bool:
    """Whether an `Optional` operand is there: of its type, or of its value."""
    return operand is not None and operand is not types.none


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


u32 = Integer("u32", types.uint32, "r")
u64 = Integer("u64", types.uint64, "l")
s32 = Integer("s32", types.int32, "r")
f32 = Float()


def u32_of(low: int, high: int, multiple: int = 1) -> Limited:
    """The kind of a u32 from `low` to `high`."""
    return Limited("u32", types.uint32, "r", low, high, multiple)
