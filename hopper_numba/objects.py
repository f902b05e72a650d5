"""Objects of kernels with methods in ordinary Python: what Numba has to know of them.

Numba compiles a method where a kernel calls it; the interpreter calls it as it is. A description (`Description`) is
nothing at run time. A cursor has a view of shared memory and a few numbers of its own, that LLVM keeps in registers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.cgutils import alloca_once, gep_inbounds
from numba.cuda.core.errors import NumbaTypeError
from numba.cuda.cudadecl import registry as typing_registry
from numba.cuda.cudaimpl import registry as lowering
from numba.cuda.extending import core_models, overload_method, register_model
from numba.cuda.typing.templates import AttributeTemplate, signature

from hopper_numba.intrinsics.types import SharedAttributes, SharedViewType, i32, method, offset
from hopper_numba.intrinsics.types import lower_attribute as lower_view_attribute


def device_method(function: Callable) -> Callable:
    """Mark a method that kernels call."""
    function.__dict__["is_device_method"] = True
    return function


def compile_methods(found: Mapping[str, Any], numba_type: type[types.Type], fits: Callable[[Any], bool]) -> None:
    """Have Numba compile the marked functions among `found` as methods, of those types of a class that `fits` says."""
    for name, function in found.items():
        if getattr(function, "is_device_method", False):
            overload_method(numba_type, name)(_chooser(function, fits))


def _chooser(function: Callable, fits: Callable[[Any], bool]) -> Callable:
    @functools.wraps(function)  # with its signature, which Numba compares
    def choose(self: Any, *args: Any) -> Any:
        return function if fits(self) else None

    return choose


# Cursors -------------------------------------------------------------------------------------------------------------


class CursorType(types.Type):
    """A thread's place in a ring in shared memory.

    Attributes
    ----------
    ring : SharedViewType
        Of a description that has the `members` of the ring, by name: tiles and barriers, an item for each stage.
    """

    numbers = ("stage", "phase", "held")
    mutable = True

    def __init__(self, ring: SharedViewType) -> None:
        self.ring = ring
        super().__init__(f"Cursor[{ring.description}]")


STATE = ir.ArrayType(i32, 1 + len(CursorType.numbers))  # where the ring lies, and the numbers


@register_model(CursorType)
class CursorModel(core_models.PrimitiveModel):
    """The address of a stack cell, which LLVM turns into registers."""

    def __init__(self, dmm: Any, fe_type: CursorType) -> None:
        super().__init__(dmm, fe_type, STATE.as_pointer())

    def get_data_type(self) -> Any:
        """What it is where it outlives the call: in what is returned, by itself or in a tuple."""
        raise NumbaTypeError(
            f"{type(self._fe_type.ring.description).__name__}.open: the cursor belongs to the function that opens it, "
            "which may pass it, by itself, to others but not return it"
        )

    get_return_type = get_data_type


@typing_registry.register_attr
class RingAttributes(AttributeTemplate):
    """What opens a ring."""

    key = SharedViewType

    @method("Ring.open")
    def resolve_open(self, ty: SharedViewType, args: tuple, kws: dict) -> Any:
        if not getattr(ty.description, "is_ring", False):
            raise NumbaTypeError(f"{ty.description} is open already")
        if args or kws:
            name = type(ty.description).__name__
            raise NumbaTypeError(f"{name}.open: takes no arguments; got {', '.join(map(str, (*args, *kws)))}")
        return signature(CursorType(ty), recvr=ty)


@lowering.lower("Ring.open", SharedViewType)
def lower_open(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Emit a cell, in the frame of the function that opens."""
    cell = alloca_once(builder, STATE)
    for field, value in enumerate((args[0], *[i32(0)] * len(CursorType.numbers))):
        builder.store(value, gep_inbounds(builder, cell, 0, field))
    return cell


@typing_registry.register_attr
class CursorAttributes(AttributeTemplate):
    """A cursor's numbers, its ring, what the ring's description knows, and the ring's members at the stage."""

    key = CursorType

    def generic_resolve(self, ty: CursorType, attr: str) -> types.Type | None:
        if attr in ty.numbers:
            return types.uint32
        if attr == "ring":
            return ty.ring
        found = SharedAttributes(self.context).generic_resolve(ty.ring, attr)
        return found.of(found.description.item(1)[0]) if isinstance(found, SharedViewType) else found


def load(builder: Any, cell: Any, field: int) -> Any:
    """Emit the value of a field: 0 is the ring's address, then come the numbers."""
    return builder.load(gep_inbounds(builder, cell, 0, field))


@lowering.lower_getattr_generic(CursorType)
def lower_attribute(context: Any, builder: Any, ty: CursorType, cell: Any, attr: str) -> Any:
    """Emit what an attribute is."""
    if attr in ty.numbers:
        return load(builder, cell, 1 + ty.numbers.index(attr))
    ring = load(builder, cell, 0)
    if attr == "ring":
        return ring
    description: Any = ty.ring.description
    found = lower_view_attribute(context, builder, ty.ring, ring, attr)
    if attr in description.constants:
        return found
    member, _ = description.attribute(attr)
    return offset(builder, found, member.item(1)[1], [load(builder, cell, 1)])


@lowering.lower_setattr_generic(CursorType)
def lower_assignment(context: Any, builder: Any, sig: Any, args: Any, attr: str) -> None:
    """Emit an assignment to a number."""
    ty = sig.args[0]
    if attr not in ty.numbers:
        raise NumbaTypeError(f"Cursor.{attr}: cannot be assigned to")
    builder.store(args[1], gep_inbounds(builder, args[0], 0, 1 + ty.numbers.index(attr)))
