"""What an instruction returns: registers it writes, as one value."""

from __future__ import annotations

import dataclasses
from typing import Any

from numba.cuda import types

from .operands import Emission, Float, Integer, u32
from .types import SharedViewType, i32


class Result:
    """What an instruction returns.

    Attributes
    ----------
    in_text : bool
        Whether ``{result}`` must stand in the instruction's text.
    """

    in_text = True

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

    in_text = False

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
    """A tuple of registers, ``{a, b, …}`` in PTX; behind them `sunk` that nobody wants, ``_``."""

    kind: Integer | Float
    count: int
    sunk: int = 0

    def resolve(self, arguments: dict[str, types.Type]) -> types.Type:
        return types.UniTuple(self.kind.numba, self.count)

    def declare(self, emission: Emission) -> str:
        type_ = emission.context.get_value_type(self.kind.numba)
        registers = [emission.output("=" + self.kind.constraint, type_) for _ in range(self.count)]
        return "{" + ", ".join([*registers, *["_"] * self.sunk]) + "}"

    def wrap(self, emission: Emission, registers: list[Any]) -> Any:
        return emission.context.make_tuple(emission.builder, self.resolve({}), registers)


@dataclasses.dataclass(frozen=True)
class Mapped(Result):
    """The view that is the operand `view`, in another block's shared memory."""

    def resolve(self, arguments: dict[str, types.Type]) -> types.Type:
        return SharedViewType(arguments["view"].description, is_mapped=True)

    def declare(self, emission: Emission) -> str:
        return emission.output("=r", i32)

    def wrap(self, emission: Emission, registers: list[Any]) -> Any:
        return registers[0]


predicate = Scalar(u32, predicate=True)
