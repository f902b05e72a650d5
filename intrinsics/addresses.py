"""Operands that are addresses: in shared memory, in global memory, of tensor maps."""

from __future__ import annotations

import dataclasses
from typing import Any

from llvmlite import ir
from numba.cuda import types

from .operands import Emission, Operand, Refused, Vector
from .tiles import Barriers, Element, Shared, Tile, check_box
from .types import (
    DescriptionType,
    GlobalElement,
    GlobalElementType,
    SharedView,
    SharedViewType,
    TensorMapType,
    i32,
    i64,
)


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
        What a view must describe: `Barriers`, `Tile` or `Element`; `Shared` for anything.
    cluster : bool
        Whether it may lie in the shared memory of another block of the cluster: PTX's .shared::cluster.
    """

    of: type = Element
    cluster: bool = False

    @property
    def takes_arrays(self) -> bool:
        """Whether an address is all it needs."""
        return self.of in (Barriers, Element)

    @property
    def wanted(self) -> str:
        """What it takes, for a message."""
        or_array = " or a shared array" if self.takes_arrays else ": memory.view makes one of a shared array"
        return f"a view of shared memory{or_array}"

    def _check(self, description: Shared) -> None:
        if not isinstance(description, self.of) or (self.of is Barriers and description.count):
            element = "an element's address, tile.address(…)"
            wanted = {Barriers: "one barrier", Tile: "a tile", Element: element}[self.of]
            raise Refused(f"must be {wanted}; got {description}")

    def _check_place(self, is_mapped: bool, view: Any) -> None:
        if is_mapped and not self.cluster:
            raise Refused(f"must lie in the block's own shared memory; got {view}")

    def resolve(self, ty: types.Type) -> types.Type:
        if isinstance(ty, SharedViewType):
            self._check(ty.description)
            self._check_place(ty.is_mapped, ty)
        elif not isinstance(ty, types.Array) or not self.takes_arrays:
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
            self._check_place(value.is_mapped, value)
            return value.base if self.takes_arrays else value
        if self.takes_arrays and hasattr(value, "shared_address"):
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
class Prefetched(Panels):
    """A whole tile that is not touched: it says which boxes, and does not stand in the text."""

    in_text = False

    def lower(self, emission: Emission, ty: types.Type, value: Any, declared: Any) -> str:
        return ""


@dataclasses.dataclass(frozen=True)
class Bytes(SharedAddress):
    """Where a run of bytes begins in shared memory: an element's address, a shared array, or a tile in C order."""

    def _check(self, description: Shared) -> None:
        is_tile = isinstance(description, Tile) and description.swizzle is None
        if not isinstance(description, Element) and (not is_tile or description.transposed or description.sliced):
            raise Refused(
                f"must be an element's address, tile.address(…), or a whole tile in C order; got {description}"
            )


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
        if not hasattr(value, "encoded"):
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
