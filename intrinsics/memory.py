"""Addresses, and loads and stores of several elements of global memory (PTX ISA, "Data Movement: ld, st").

`view` gives TMA and WGMMA a Numba shared array, whose type has no swizzle.
"""

import numpy as np

from .addresses import GlobalAddress, view_of_array
from .machine import machine
from .operands import Refused, Vector, u32
from .ptx import device_function, member, ptx
from .results import Registers
from .tiles import Shared
from .types import SharedView, element_address


@device_function(element_address)
def address_of(array, indices):
    """The address of an element in global memory, for a load or store of this chapter.

    Parameters
    ----------
    array : array
        An argument of the kernel.
    indices : tuple of int
        One for each dimension; negative ones do not count from the end.
    """
    return array.address_of(indices)


@device_function(view_of_array)
def view(array, description):
    """A Numba shared array as what a description says: what `SharedLayout` gives, in a kernel that has none.

    Parameters
    ----------
    array : shared array
        ``cuda.shared.array(…, alignment=…)`` or a slice of one, of ``description.nbytes`` bytes or more from its first
        element on, aligned to ``description.alignment``.
    description : Tile or Barriers
        Made by `tile` or `barriers`, outside the kernel.

    Returns
    -------
    view
        A tile with `part`, `address`, `T`, ``[stage]``; or barriers with ``[i]``.

    Notes
    -----
    The interpreter raises for an array that is too small or not aligned, or in global memory; compiled, only a type
    that cannot be one is refused.
    """
    if not hasattr(array, "shared_address"):
        raise Refused(f"array must be a shared array; got {array!r}")
    if not isinstance(description, Shared):
        raise Refused(f"description must be a tile(…) or barriers(…); got {description!r}")
    address = array.shared_address
    if address % description.alignment:
        raise ValueError(
            f"memory.view: array must be aligned to {description.alignment} bytes for {description}; it lies at "
            f"{address:#x}. cuda.shared.array takes alignment="
        )
    needed = description.nbytes
    if array.nbytes < needed:
        raise ValueError(f"memory.view: array must have {needed} bytes for {description}; got {array.nbytes}")
    return SharedView(description, address)


def spelling(count):
    """``b32`` or ``v4.b32``, and how a name has it."""
    text = f"v{count}.b32" if count > 1 else "b32"
    return text, text.replace(".", "_")


def ld_global(count):
    """Declare a load of `count` registers."""
    text, name = spelling(count)
    result = Registers(u32, count) if count > 1 else u32

    @ptx(f"ld.global.{text} {{result}}, [{{address}}];", threads="any", proxy="generic")
    @member(f"ld_global_{name}", nbytes=4 * count, returned=f"tuple of {count} u32" if count > 1 else "u32")
    def ld_global(address: GlobalAddress()) -> result:
        """Load {nbytes} bytes from global memory.

        Parameters
        ----------
        address : element's address
            From `address_of`; a multiple of {nbytes} bytes.

        Returns
        -------
        {returned}
            Lowest address first.

        Notes
        -----
        PTX ISA, "ld". Any thread executes it. The interpreter raises for one that is misaligned or out of bounds.
        """
        values = machine().global_load(address, 4 * count).view(np.uint32).tolist()
        return tuple(values) if count > 1 else values[0]

    return ld_global


def st_global(count):
    """Declare a store of `count` registers."""
    text, name = spelling(count)
    kind = Vector(u32, count) if count > 1 else u32

    @ptx(f"st.global.{text} [{{address}}], {{values}};", threads="any", proxy="generic")
    @member(f"st_global_{name}", nbytes=4 * count, given=f"tuple of {count} u32" if count > 1 else "u32")
    def st_global(address: GlobalAddress(), values: kind) -> None:
        """Store {nbytes} bytes to global memory.

        Parameters
        ----------
        address : element's address
            From `address_of`; a multiple of {nbytes} bytes.
        values : {given}
            Lowest address first.

        Notes
        -----
        PTX ISA, "st". Any thread executes it. The interpreter raises for one that is misaligned or out of bounds.
        """
        machine().global_store(address, np.array(values, np.uint32).reshape(-1).view(np.uint8))

    return st_global


ld_global_b32, ld_global_v2_b32, ld_global_v4_b32 = map(ld_global, (1, 2, 4))
st_global_b32, st_global_v2_b32, st_global_v4_b32 = map(st_global, (1, 2, 4))
