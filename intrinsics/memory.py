"""Addresses, and loads and stores: of several elements, and ordered ones (PTX ISA, "ld", "st", "red").

`view` gives TMA and WGMMA a Numba shared array, whose type has no swizzle.

Who stores data, then stores or adds to a flag with release, hands the data to whoever loads the flag with acquire and
finds it changed: ``st_release`` and ``red_release`` order what this thread did before, ``ld_acquire`` what it does
after. The scope must have both threads in it: gpu, or sys where the host or another GPU takes part.
"""

import dataclasses
import operator

import numpy as np

from .addresses import GlobalAddress, SharedAddress, view_of_array
from .machine import machine
from .operands import Operand, Refused, Vector, u32, u64
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
    if not hasattr(array, "address_of"):
        raise Refused(f"array must be an argument of the kernel; got {array!r}")
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


@dataclasses.dataclass(frozen=True)
class Space:
    """A state space with addresses of its own.

    Attributes
    ----------
    ptx : str
    words : dict
        What docstrings say of it.
    address : Operand
    """

    ptx: str
    words: dict[str, str]
    address: Operand


GLOBAL = Space(
    "global",
    {
        "where": "global memory",
        "kind": "element's address",
        "given": "From `address_of`",
        "raises": "is misaligned or out of bounds",
    },
    GlobalAddress(),
)
SHARED = Space(
    "shared::cta",
    {
        "where": "the block's shared memory",
        "kind": "address in shared memory",
        "given": "``tile.address(i, j)``, or a slice ``array[i:]`` of a shared array",
        "raises": "is misaligned, out of bounds, or read and written by nobody",
    },
    SharedAddress(),
)


def load(name, space, count):
    """Declare a load of `count` registers."""
    text, suffix = spelling(count)
    result = Registers(u32, count) if count > 1 else u32

    @ptx(f"ld.{space.ptx}.{text} {{result}}, [{{address}}];", threads="any", proxy="generic")
    @member(
        f"ld_{name}_{suffix}",
        nbytes=4 * count,
        returned=f"tuple of {count} u32, lowest address first" if count > 1 else "u32",
        **space.words,
    )
    def ld(address: space.address) -> result:
        """Load {nbytes} bytes from {where}.

        Parameters
        ----------
        address : {kind}
            {given}; a multiple of {nbytes} bytes.

        Returns
        -------
        {returned}

        Notes
        -----
        PTX ISA, "ld". Any thread executes it. The interpreter raises for an address that {raises}.
        """
        read = machine().global_load if space is GLOBAL else machine().shared_load
        values = read(address, 4 * count).view(np.uint32).tolist()
        return tuple(values) if count > 1 else values[0]

    return ld


def store(name, space, count):
    """Declare a store of `count` registers."""
    text, suffix = spelling(count)
    kind = Vector(u32, count) if count > 1 else u32

    @ptx(f"st.{space.ptx}.{text} [{{address}}], {{values}};", threads="any", proxy="generic")
    @member(
        f"st_{name}_{suffix}",
        nbytes=4 * count,
        taken=f"tuple of {count} u32" if count > 1 else "u32",
        order="Lowest address first." if count > 1 else "All 32 bits.",
        **space.words,
    )
    def st(address: space.address, values: kind) -> None:
        """Store {nbytes} bytes to {where}.

        Parameters
        ----------
        address : {kind}
            {given}; a multiple of {nbytes} bytes.
        values : {taken}
            {order}

        Notes
        -----
        PTX ISA, "st". Any thread executes it. The interpreter raises for an address that {raises}.
        """
        write = machine().global_store if space is GLOBAL else machine().shared_store
        write(address, np.array(values, np.uint32).reshape(-1).view(np.uint8))

    return st


ld_global_b32, ld_global_v2_b32, ld_global_v4_b32 = (load("global", GLOBAL, count) for count in (1, 2, 4))
st_global_b32, st_global_v2_b32, st_global_v4_b32 = (store("global", GLOBAL, count) for count in (1, 2, 4))
ld_shared_b32, ld_shared_v2_b32, ld_shared_v4_b32 = (load("shared", SHARED, count) for count in (1, 2, 4))
st_shared_b32, st_shared_v2_b32, st_shared_v4_b32 = (store("shared", SHARED, count) for count in (1, 2, 4))


SCOPES = {"gpu": "a thread of the GPU", "sys": "a thread of the GPU, of another one, or of the host"}
"""Between whom an access is ordered, by PTX's names."""
WORDS = {"b32": u32, "b64": u64, "u32": u32, "u64": u64}
"""The kinds of registers by PTX's types."""


def dtype_of(type_):
    """The NumPy dtype of a type of `WORDS`, and its bytes."""
    dtype = np.dtype(f"u{int(type_[1:]) // 8}")
    return dtype, dtype.itemsize


def ld_acquire(scope, type_):
    """Declare a load that acquires."""
    dtype, nbytes = dtype_of(type_)

    @ptx(f"ld.acquire.{scope}.global.{type_} {{result}}, [{{address}}];", threads="any", proxy="generic")
    @member(f"ld_acquire_{scope}_{type_}", nbytes=nbytes, thread=SCOPES[scope], type=WORDS[type_].name)
    def ld_acquire(address: GlobalAddress()) -> WORDS[type_]:
        """Load {nbytes} bytes from global memory, and acquire what was released with the value that it finds.

        Afterwards this thread sees everything that had been written, or seen, before the value was released, by
        {thread}. To wait for a flag, load it in a loop.

        Parameters
        ----------
        address : element's address
            From `address_of`; a multiple of {nbytes} bytes.

        Returns
        -------
        {type}

        Notes
        -----
        PTX ISA, "ld": .acquire. Any thread executes it. The interpreter raises for one that is misaligned or out of
        bounds. Its memory is always in order, but what only a plain load or store would order is a ``data-race``. It
        lets others run before, so that a loop ends; blocks run one after another, unless they are of one cluster.
        """
        return int(machine().global_acquire(address, nbytes).view(dtype)[0])

    return ld_acquire


def st_release(scope, type_):
    """Declare a store that releases."""
    dtype, nbytes = dtype_of(type_)

    @ptx(f"st.release.{scope}.global.{type_} [{{address}}], {{value}};", threads="any", proxy="generic")
    @member(f"st_release_{scope}_{type_}", nbytes=nbytes, thread=SCOPES[scope], type=WORDS[type_].name)
    def st_release(address: GlobalAddress(), value: WORDS[type_]) -> None:
        """Store {nbytes} bytes to global memory, and release with them what this thread has written, and seen.

        It is visible to whoever finds the value with an acquiring load:
        {thread}.

        Parameters
        ----------
        address : element's address
            From `address_of`; a multiple of {nbytes} bytes.
        value : {type}

        Notes
        -----
        PTX ISA, "st": .release. Any thread executes it. The interpreter raises for one that is misaligned or out of
        bounds. Its memory is always in order, but what only a plain load or store would order is a ``data-race``.
        """
        machine().global_release(address, np.array([value], dtype).view(np.uint8))

    return st_release


REDUCTIONS = {
    "add": (operator.add, "Add to", "What is added; of the sum the low bits are kept."),
    "min": (min, "Take the minimum with", "An unsigned number, as the one in memory."),
    "max": (max, "Take the maximum with", "An unsigned number, as the one in memory."),
    "and": (operator.and_, "Clear bits of", "Those that are zero in it are cleared."),
    "or": (operator.or_, "Set bits of", "Those that are one in it are set."),
    "xor": (operator.xor, "Flip bits of", "Those that are one in it are flipped."),
}
"""What each operation computes, what it does to memory, and what its value is."""


def red_release(scope, operation, type_):
    """Declare a reduction that releases."""
    dtype, nbytes = dtype_of(type_)
    compute, does, value = REDUCTIONS[operation]

    @ptx(f"red.release.{scope}.global.{operation}.{type_} [{{address}}], {{value}};", threads="any", proxy="generic")
    @member(
        f"red_release_{scope}_{operation}_{type_}",
        does=f"{does} {nbytes} bytes of global memory",
        value=value,
        nbytes=nbytes,
        thread=SCOPES[scope],
        type=WORDS[type_].name,
    )
    def red_release(address: GlobalAddress(), value: WORDS[type_]) -> None:
        """{does}, atomically, and release with it what this thread has written, and seen.

        It is visible to whoever finds the result, or what later reductions made of it, with an acquiring load:
        {thread}.

        Parameters
        ----------
        address : element's address
            From `address_of`; a multiple of {nbytes} bytes.
        value : {type}
            {value}

        Notes
        -----
        PTX ISA, "red": .release. Any thread executes it. The interpreter raises for one that is misaligned or out of
        bounds. Its memory is always in order, but what only a plain load or store would order is a ``data-race``.
        """
        machine().global_update(address, dtype, lambda old: compute(old, value))

    return red_release


ld_acquire_gpu_b32, ld_acquire_gpu_b64 = (ld_acquire("gpu", t) for t in ("b32", "b64"))
ld_acquire_sys_b32, ld_acquire_sys_b64 = (ld_acquire("sys", t) for t in ("b32", "b64"))
st_release_gpu_b32, st_release_gpu_b64 = (st_release("gpu", t) for t in ("b32", "b64"))
st_release_sys_b32, st_release_sys_b64 = (st_release("sys", t) for t in ("b32", "b64"))

FORMS = (("add", "u32"), ("min", "u32"), ("max", "u32"), ("and", "b32"), ("or", "b32"), ("xor", "b32"), ("add", "u64"))
(
    red_release_gpu_add_u32,
    red_release_gpu_min_u32,
    red_release_gpu_max_u32,
    red_release_gpu_and_b32,
    red_release_gpu_or_b32,
    red_release_gpu_xor_b32,
    red_release_gpu_add_u64,
) = (red_release("gpu", *form) for form in FORMS)
(
    red_release_sys_add_u32,
    red_release_sys_min_u32,
    red_release_sys_max_u32,
    red_release_sys_and_b32,
    red_release_sys_or_b32,
    red_release_sys_xor_b32,
    red_release_sys_add_u64,
) = (red_release("sys", *form) for form in FORMS)
