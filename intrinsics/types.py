"""The values that instructions take, as Numba types: views of shared memory, tensor maps, addresses of elements.

At run time a description is nothing, a view is a 32-bit shared address and a tensor map is the address of a kernel
parameter. Accumulators are in `accumulators.py`. Types are named by content: names end up in symbols and cache keys.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.cuda import types
from numba.cuda.core.errors import NumbaError, NumbaTypeError
from numba.cuda.cudadecl import registry as typing_registry
from numba.cuda.cudaimpl import registry as lowering
from numba.cuda.extending import core_models, register_model, typeof_impl
from numba.cuda.typing.templates import AbstractTemplate, AttributeTemplate, bound_function, signature

from .tiles import Description, Shared, Term, Tile

OPENED = "hopper_numba_shared_"
"""The symbol of dynamic shared memory in a kernel that opens a layout, but for the bytes that it takes."""

i32, i64 = ir.IntType(32), ir.IntType(64)


def literals_first(template: Any) -> Any:
    """A typing template that is asked for literal types first; what it refuses then it refuses of plain ones too.

    Numba would try those, which hide a literal that is out of range.
    """
    plain = template.generic

    def generic(self: Any, args: tuple, kws: Any) -> Any:
        if self.refused is not None:
            raise self.refused
        try:
            return plain(self, args, kws)
        except NumbaError as error:
            self.refused = error
            raise

    template.generic, template.refused, template.prefer_literal = generic, None, True
    return template


# Descriptions, captured by a kernel's closure ------------------------------------------------------------------------


class DescriptionType(types.Type):
    """The type of a description; it has no value at run time."""

    def __init__(self, description: Description) -> None:
        self.description = description
        super().__init__(f"Description[{description}]")


register_model(DescriptionType)(core_models.OpaqueModel)
lowering.lower_constant(DescriptionType)(lambda context, builder, ty, pyval: context.get_dummy_value())
typeof_impl.register(Description)(lambda value, context: DescriptionType(value))


@typing_registry.register_attr
class DescriptionAttributes(AttributeTemplate):
    key = DescriptionType

    def generic_resolve(self, ty: DescriptionType, attr: str) -> types.Type | None:
        if attr in ty.description.constants:
            return self.context.resolve_value_type(refuse(getattr, ty.description, attr))
        return None

    @bound_function("Description.open")
    def resolve_open(self, ty: DescriptionType, args: tuple, kws: dict) -> Any:
        opens = isinstance(ty.description, Shared) and not args and not kws
        return signature(SharedViewType(ty.description), recvr=ty) if opens else None


@lowering.lower_getattr_generic(DescriptionType)
def lower_constant(context: Any, builder: Any, ty: DescriptionType, value: Any, attr: str) -> Any:
    constant = getattr(ty.description, attr)
    return context.get_constant_generic(builder, context.typing_context.resolve_value_type(constant), constant)


@lowering.lower("Description.open", DescriptionType)
def lower_open(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Dynamic shared memory, as ``cuda.shared.array(0, uint8, alignment=…)`` declares it."""
    description = sig.args[0].description
    module, name = builder.module, f"{OPENED}{description.nbytes}"
    memory = module.globals.get(name)
    if memory is None:
        memory = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8), 0), name, addrspace=3)
        memory.linkage = "external"
    memory.align = description.alignment
    return builder.ptrtoint(memory, i32)


# Views of shared memory ----------------------------------------------------------------------------------------------


MAPPED_SHIFT = 24
"""An address from ``1 << MAPPED_SHIFT`` on is of another block's memory, when a kernel is interpreted: as on the GPU,
the block's rank stands above its offset, here plus one.
"""


NO_ELEMENTS = (
    "{description}: elements are not assigned to; memory.st_shared_b32(tile.address(row, column), bits) stores one, "
    "memory.ld_shared_b32(…) loads one, convert.bits_of_f32 gives a float's bits"
)


@dataclasses.dataclass(frozen=True)
class SharedView:
    """A description and where it lies: what a kernel holds when it is interpreted; `SharedViewType` when compiled.

    Attributes
    ----------
    description : Shared
    base : int
        In bytes, in the shared memory of the block, or of a block of the cluster if it is mapped.
    """

    description: Any
    base: int

    @property
    def is_mapped(self) -> bool:
        """Whether ``cluster.map_shared`` gave it."""
        return self.base >= 1 << MAPPED_SHIFT

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        description = self.description
        if name in description.constants:
            return getattr(description, name)
        if name in description.methods:
            return functools.partial(description.methods[name], self)
        found = _found(description, "attribute", name) if isinstance(description, Tile) else description.attribute(name)
        if found is None:
            raise AttributeError(f"{description} has no attribute {name!r}")
        return SharedView(found[0], self.base + found[1])

    def __getitem__(self, index: Any) -> SharedView:
        indices = index if isinstance(index, tuple) else (index,)
        if not all(hasattr(i, "__index__") for i in indices):
            raise TypeError(f"{self.description} is indexed with integers; got {index!r}")
        item, terms = _found(self.description, "item", len(indices))
        self._check(indices, extents(self.description))
        return self._offset(item, terms, indices)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(NO_ELEMENTS.format(description=self.description))

    def address(self, *indices: int) -> SharedView:
        """The address of an element of a tile, its swizzle applied."""
        element, terms = _found(self.description, "address")
        check_integers(self.description, "address", indices, indices)
        self._check(indices, self.description.shape)
        element = self._offset(element, terms, indices)
        return SharedView(element.description, self.description.swizzled(element.base))

    def part(self, *args: int) -> SharedView:
        """The part of `rows` by `columns` at block index (i, j): the four arguments."""
        check_integers(self.description, "part", args, args)
        rows, columns, *indices = args
        part, terms = _found(self.description, "part", rows, columns)
        height, width = self.description.shape
        self._check(indices, (height // rows, width // columns))
        return self._offset(part, terms, indices)

    def _check(self, indices: Sequence[int], extents: tuple[int, ...]) -> None:
        for index, extent in zip(indices, extents, strict=False):
            check_index(self.description, index, extent)

    def _offset(self, description: Shared, terms: tuple, indices: Sequence[int]) -> SharedView:
        if len(indices) != len(terms):
            raise TypeError(f"{self.description} takes {len(terms)} indices; got {len(indices)}")
        address = self.base
        for i, of_index in zip(indices, terms, strict=True):
            for term in of_index:
                address += term(int(i))
        return SharedView(description, address)


def extents(description: Any) -> tuple[int, ...]:
    """How many items each index of a description can pick."""
    return description.shape if isinstance(description, Tile) else (description.count,)


def check_index(description: Shared, index: int, extent: int) -> None:
    """Refuse an index that is out of range."""
    if not 0 <= index < extent:
        raise IndexError(f"{description}: index {index} is outside 0 to {extent - 1}")


@functools.lru_cache(maxsize=4096)
def _found(description: Shared, what: str, *args: Any) -> Any:
    """What a method of a description gives: asked again by each thread that is interpreted."""
    return getattr(description, what)(*args)


def check_integers(
    description: Tile, method: str, given: tuple, counted: tuple, are_integers: Callable[[tuple], bool] | None = None
) -> None:
    """Refuse what a tile's `address` or `part` does not take, compiled (types) or interpreted (numbers)."""
    wanted = ("rows", "columns", "i", "j") if method == "part" else ("row", "column")[-len(description.shape) :]
    fits = are_integers(given) if are_integers else all(hasattr(i, "__index__") for i in given)
    if len(counted) != len(wanted) or not fits:
        got = ", ".join(map(str, counted))
        raise TypeError(f"{description}.{method}({', '.join(wanted)}) takes integers; got {method}({got})")


class SharedViewType(types.Type):
    """A 32-bit address in shared memory, of something described.

    Attributes
    ----------
    description : Shared
    is_mapped : bool
        Whether it is in the shared memory of a block of the cluster, by ``cluster.map_shared``.
    """

    def __init__(self, description: Shared, is_mapped: bool = False) -> None:
        self.description, self.is_mapped = description, is_mapped
        super().__init__(f"{'ClusterShared' if is_mapped else 'Shared'}[{description}]")

    def of(self, description: Shared) -> SharedViewType:
        """The type of something within."""
        return SharedViewType(description, self.is_mapped)


@register_model(SharedViewType)
class SharedViewModel(core_models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: SharedViewType) -> None:
        super().__init__(dmm, fe_type, i32)


def refuse(find: Callable[..., Any], *args: Any) -> Any:
    """`find(*args)`, its ValueError, TypeError or IndexError as a typing error."""
    try:
        return find(*args)
    except (IndexError, TypeError, ValueError) as error:
        raise NumbaTypeError(str(error)) from error


def offset(builder: Any, address: Any, terms: Iterable[tuple[Term, ...]], indices: Iterable[Any]) -> Any:
    """Emit what `SharedView._offset` computes; indices are unsigned 32-bit."""
    for of_index, index in zip(terms, indices, strict=True):
        for term in of_index:
            value = builder.udiv(index, i32(term.divisor)) if term.divisor > 1 else index
            value = builder.urem(value, i32(term.modulus)) if term.modulus else value
            address = builder.add(address, builder.mul(value, i32(term.stride)))
    return address


def method(key: str) -> Callable[[Callable], Callable]:
    """As Numba's `bound_function`, of literals first."""

    def declare(resolve: Callable) -> Callable:
        bind = bound_function(key)(resolve)

        def attribute(self: Any, ty: types.Type) -> Any:
            bound = bind(self, ty)
            literals_first(bound.template)
            return bound

        return functools.wraps(resolve)(attribute)

    return declare


def check_literals(description: Shared, indices: Sequence[types.Type], extents: Sequence[int]) -> None:
    """Refuse an index known at compile time that is out of range."""
    for index, extent in zip(indices, extents, strict=False):
        if isinstance(index, types.IntegerLiteral):
            refuse(check_index, description, index.literal_value, extent)


def _integers(args: tuple) -> bool:
    return all(isinstance(a, types.Integer | types.Boolean) for a in args)


@typing_registry.register_attr
class SharedAttributes(AttributeTemplate):
    key = SharedViewType

    def generic_resolve(self, ty: SharedViewType, attr: str) -> types.Type | None:
        if attr in ty.description.constants:
            return DescriptionAttributes(self.context).generic_resolve(DescriptionType(ty.description), attr)
        found = refuse(ty.description.attribute, attr)
        return found and ty.of(found[0])

    @method("SharedView.address")
    def resolve_address(self, ty: SharedViewType, args: tuple, kws: dict) -> Any:
        if not isinstance(ty.description, Tile):
            return None
        element, terms = refuse(ty.description.address)
        refuse(check_integers, ty.description, "address", args, (*args, *kws), _integers)
        check_literals(ty.description, args, ty.description.shape)
        return signature(ty.of(element), *[types.uint32] * len(terms), recvr=ty)

    @method("SharedView.part")
    def resolve_part(self, ty: SharedViewType, args: tuple, kws: dict) -> Any:
        if not isinstance(ty.description, Tile):
            return None
        refuse(check_integers, ty.description, "part", args, (*args, *kws), _integers)
        if not all(isinstance(a, types.IntegerLiteral) for a in args[:2]):
            raise NumbaTypeError(
                f"{ty.description}.part: rows and columns must be compile-time integers; got {args[:2]}"
            )
        rows, columns = (a.literal_value for a in args[:2])
        part, _ = refuse(ty.description.part, rows, columns)
        height, width = ty.description.shape
        check_literals(ty.description, args[2:], (height // rows, width // columns))
        return signature(ty.of(part), *[types.uint32] * 4, recvr=ty)


@lowering.lower_getattr_generic(SharedViewType)
def lower_attribute(context: Any, builder: Any, ty: SharedViewType, value: Any, attr: str) -> Any:
    if attr in ty.description.constants:
        return lower_constant(context, builder, ty, value, attr)
    return builder.add(value, i32(ty.description.attribute(attr)[1]))


@lowering.lower("SharedView.address", SharedViewType, types.VarArg(types.Any))
def lower_address(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    description, (base, *indices) = sig.args[0].description, args
    _, terms = description.address()
    if description.sliced or len(indices) == 1:
        address = offset(builder, base, terms, indices)
        return builder.xor(address, flips(builder, address, description))
    # of a whole tile only the row flips bits, and only of the column: most of it is the same throughout a loop
    row, column = (offset(builder, i32(0), [t], [i]) for t, i in zip(terms, indices, strict=True))
    if description.transposed:
        row, column = column, row
    return builder.add(builder.add(base, row), builder.xor(column, flips(builder, row, description)))


def flips(builder: Any, address: Any, description: Tile) -> Any:
    """Emit the bits that `Tile.swizzled` flips."""
    return builder.lshr(builder.and_(address, i32(description.swizzle_mask)), i32(3))


@lowering.lower("SharedView.part", SharedViewType, types.VarArg(types.Any))
def lower_part(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    _, terms = sig.args[0].description.part(*sig.return_type.description.shape)
    return offset(builder, args[0], terms, args[3:])


@typing_registry.register_global(operator.getitem)
@literals_first
class SharedItem(AbstractTemplate):
    def generic(self, args: tuple, kws: dict) -> Any:
        view, index = args
        if not isinstance(view, SharedViewType):
            return None
        indices = index.types if isinstance(index, types.BaseTuple) else (index,)
        if not _integers(indices):
            raise NumbaTypeError(f"{view.description} is indexed with integers; got {index}")
        item, _ = refuse(view.description.item, len(indices))
        check_literals(view.description, indices, extents(view.description))
        cast = types.UniTuple(types.uint32, len(indices)) if isinstance(index, types.BaseTuple) else types.uint32
        return signature(view.of(item), view, cast)


@typing_registry.register_global(operator.setitem)
class SharedAssignment(AbstractTemplate):
    def generic(self, args: tuple, kws: dict) -> None:
        if isinstance(args[0], SharedViewType):
            raise NumbaTypeError(NO_ELEMENTS.format(description=args[0].description))


@lowering.lower(operator.getitem, SharedViewType, types.Any)
def lower_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    is_tuple = isinstance(sig.args[1], types.BaseTuple)
    indices = [builder.extract_value(args[1], i) for i in range(len(sig.args[1]))] if is_tuple else [args[1]]
    return offset(builder, args[0], sig.args[0].description.item(len(indices))[1], indices)


# Tensor maps ---------------------------------------------------------------------------------------------------------

DESCRIPTOR = ir.ArrayType(i64, 16)


class TensorMapType(types.Type):
    """A CUtensorMap passed as a ``__grid_constant__`` kernel parameter.

    Attributes
    ----------
    dtype : numpy.dtype
    box : tuple of int
        Elements of one box, innermost first.
    swizzle : {128, 64, 32, 0, None}
    """

    def __init__(self, dtype: np.dtype, box: tuple[int, ...], swizzle: int | None) -> None:
        self.dtype, self.box, self.swizzle = dtype, box, swizzle
        super().__init__(f"TensorMap[{dtype}, {'x'.join(map(str, box))}, {swizzle}]")


@register_model(TensorMapType)
class TensorMapModel(core_models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: TensorMapType) -> None:
        super().__init__(dmm, fe_type, DESCRIPTOR.as_pointer())


# Global memory -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class GlobalElement:
    """The address of an array's element when a kernel is interpreted; `GlobalElementType` when compiled.

    Attributes
    ----------
    array : array
        The interpreter's view of an argument.
    offset : int
        In bytes from its first element.
    """

    array: Any
    offset: int


class GlobalElementType(types.Type):
    """The 64-bit address of an array's element."""

    def __init__(self) -> None:
        super().__init__("GlobalElement")


@register_model(GlobalElementType)
class GlobalElementModel(core_models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: GlobalElementType) -> None:
        super().__init__(dmm, fe_type, i64)


def element_address(typingctx: Any, array: types.Type, indices: types.Type) -> Any:
    """Type and emit ``memory.address_of``."""
    if not isinstance(array, types.Array):
        raise NumbaTypeError(f"memory.address_of: array must be an array; got {array}")
    count = len(indices) if isinstance(indices, types.BaseTuple) else 0
    if count != array.ndim or not _integers(indices.types):
        raise NumbaTypeError(f"memory.address_of: indices must be a tuple of {array.ndim} integers; got {indices}")

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        helper = context.make_helper(builder, array, value=args[0])
        address = builder.ptrtoint(helper.data, i64)
        for i in range(count):
            stride = builder.extract_value(helper.strides, i)
            address = builder.add(address, builder.mul(builder.extract_value(args[1], i), stride))
        return address

    return GlobalElementType()(array, types.UniTuple(types.int64, count)), codegen
