"""Bulk copies: boxes of tensors, and runs of bytes, on their way to and from shared memory."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hopper_numba.intrinsics.tiles import HALVES, Tile

from .errors import HazardError, MisalignedError, UnfinishedError
from .memory import Fault
from .source import Site

ALIGNMENT = 16
"""Of the addresses of a run of bytes; its size is a multiple of it."""


def named(site: Site) -> str:
    """The instruction that begins a copy; a notebook's own has no chapter."""
    return site.instruction or "bulk copy"


# Where from, where to: each can `read` and `write` -------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def panel_elements(tile: Tile, base: int, panel: int) -> np.ndarray:
    """Where the elements of a panel lie, as indices from address 0, in the order of the box."""
    width = tile.box[0]
    columns = np.arange(width) + panel * width
    matrix = tile if len(tile.shape) <= 2 else dataclasses.replace(tile, stored_shape=tile.shape[-2:])
    _, terms = matrix.address()
    offsets = sum(term(columns) for term in terms[-1])
    if len(terms) == 2:
        offsets = sum(term(np.arange(tile.rows)) for term in terms[0])[:, None] + offsets
    if len(tile.shape) > 2:
        each = tile.rows * tile.columns * tile.itemsize
        offsets = np.arange(math.prod(tile.shape[:-2]))[:, None, None] * each + offsets
    return (tile.swizzled(base + offsets) // tile.itemsize).reshape(tile.box[::-1])


@dataclasses.dataclass(frozen=True)
class Place:
    """Elements in the shared memory of a block.

    Attributes
    ----------
    block : Block
    elements : numpy.ndarray
        Their indices from address 0.
    itemsize : int
    what : str
        For reports.
    """

    block: Any
    elements: np.ndarray
    itemsize: int
    what: str

    @classmethod
    def of_panel(cls, block: Any, address: int, tile: Tile, panel: int, site: Site) -> Place:
        """The place of a tile's panel; the whole tile is aligned, as the layout and `memory.view` see to."""
        return cls(block, panel_elements(tile, address, panel), tile.itemsize, f"{tile} by {named(site)}")

    @classmethod
    def of_bytes(cls, block: Any, address: int, nbytes: int, site: Site, alignment: int = ALIGNMENT) -> Place:
        """A run of bytes."""
        if address % alignment:
            raise block.machine.fault(
                MisalignedError,
                f"{named(site)} takes shared addresses that are multiples of {alignment} bytes; got {address:#x}",
            )
        itemsize = min(8, alignment)
        elements = np.arange(address // itemsize, (address + nbytes) // itemsize)
        return cls(block, elements, itemsize, f"{nbytes} bytes by {named(site)}")

    def check(self, checker: Any, is_write: bool, **work: Any) -> None:
        """Let work that begins read the elements, or write them."""
        states = self.block.memory.shadow.states.reshape(-1, self.itemsize)
        touched = states[self.elements]
        checker.asynchronous(touched, is_write, True, **work)
        states[self.elements] = touched

    def claim(self) -> None:
        """Leave the elements to a copy on its way."""
        self.block.memory.claim(self.elements, self.itemsize, self.what)

    def read(self, fault: Fault) -> np.ndarray:
        return self.block.memory.gather(self.elements, self.itemsize, self.what, fault)

    def write(self, data: np.ndarray, combine: Combine | None, fault: Fault) -> None:
        data = data.view(f"u{self.itemsize}")
        self.block.memory.deliver(
            self.elements, self.itemsize, data if combine is None else combine(self.read(fault), data)
        )


class Box:
    """A box of a tensor.

    Parameters
    ----------
    array : numpy.ndarray
    tile : Tile
    panel : int
    coordinates : tuple of int
        Of the tile, innermost first.
    """

    def __init__(self, array: np.ndarray, tile: Tile, panel: int, coordinates: tuple[int, ...]) -> None:
        self.array, self.shape = array, tile.box[::-1]
        begin = (coordinates[0] + panel * tile.box[0], *coordinates[1:])
        tensor, box = [], []
        for begins, extent, size in zip(begin[::-1], self.shape, array.shape, strict=True):
            low, high = max(begins, 0), max(min(begins + extent, size), 0)
            high = max(low, high)
            tensor.append(slice(low, high))
            box.append(slice(low - begins, high - begins))
        # the part of the tensor that the box covers, and where in the box it lies
        self._tensor, self._box = tuple(tensor), tuple(box)

    def check(self, checker: Any, is_write: bool, **work: Any) -> None:
        """Let work that begins read the part of the tensor, or write it."""
        checker.asynchronous(checker.global_states(self.array)[self._tensor], is_write, False, **work)

    def read(self, fault: Fault) -> np.ndarray:
        data = np.zeros(self.shape, self.array.dtype)
        data[self._box] = self.array[self._tensor]
        return data

    def write(self, data: np.ndarray, combine: Combine | None, fault: Fault) -> None:
        inside = data.view(self.array.dtype)[self._box]
        self.array[self._tensor] = inside if combine is None else combine(self.array[self._tensor], inside)


class Run:
    """A run of bytes of an argument, checked when the copy begins.

    Parameters
    ----------
    element : GlobalElement
        Its first.
    nbytes : int
    verb : {"read", "write"}
    """

    def __init__(self, element: Any, nbytes: int, verb: str) -> None:
        self.element, self.nbytes = element, nbytes
        element.array.check_bytes(verb, element, nbytes, ALIGNMENT)

    def check(self, checker: Any, is_write: bool, **work: Any) -> None:
        """Let work that begins read the bytes, or write them."""
        checker.asynchronous(self.element.array.states(self.element, self.nbytes), is_write, False, **work)

    def read(self, fault: Fault) -> np.ndarray:
        return self.element.array.load_bytes(self.element, self.nbytes, ALIGNMENT)

    def write(self, data: np.ndarray, combine: Combine | None, fault: Fault) -> None:
        data = data.view(np.uint8)
        self.element.array.store_bytes(
            self.element, data if combine is None else combine(self.read(fault), data), ALIGNMENT
        )


class Value:
    """The bytes of registers, which a store takes with it."""

    def __init__(self, data: bytes) -> None:
        self.data = np.frombuffer(data, np.uint8)

    def check(self, checker: Any, is_write: bool, **work: Any) -> None:
        """Nothing to check: registers are the thread's."""

    def read(self, fault: Fault) -> np.ndarray:
        return self.data


# Reductions ----------------------------------------------------------------------------------------------------------

Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]

OPERATIONS: dict[str, Combine] = {
    "add": np.add,
    "min": np.fmin,
    "max": np.fmax,
    "inc": lambda old, given: np.where(old >= given, 0, old + 1),
    "dec": lambda old, given: np.where((old == 0) | (old > given), given, old - 1),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
"""Of the destination's elements and those of the source."""

DTYPES = HALVES | {f"{kind}{bits}": np.dtype(f"{kind}{bits // 8}") for kind in "uf" for bits in (32, 64)}
DTYPES |= {f"{ptx}{bits}": np.dtype(f"{kind}{bits // 8}") for ptx, kind in ("si", "bu") for bits in (32, 64)}
"""PTX's types of elements."""


def combining(operation: str, dtype: np.dtype) -> Combine:
    """The reduction of elements of `dtype`, of arrays of any type."""
    function = OPERATIONS[operation]

    def combine(old: np.ndarray, given: np.ndarray) -> np.ndarray:
        return function(old.view(dtype), given.view(dtype)).astype(dtype).view(old.dtype)

    return combine


# On their way --------------------------------------------------------------------------------------------------------


class Copy:
    """A copy on its way, which the instruction at `site` began."""

    def __init__(self, machine: Any, site: Site) -> None:
        self.machine, self.site = machine, site

    def fault(self, kind: type, message: str) -> HazardError:
        """An error of the instruction that began it."""
        return self.machine.fault(kind, message, site=self.site)


class Load(Copy):
    """A copy to shared memory on its way: nobody may touch its place until it is there.

    Parameters
    ----------
    machine : Machine
    site : Site
        Of the instruction.
    source : Box or Run or Place or Value
    place : Place
    barrier : Barrier
        That gets the bytes.
    combine : function, optional
        Of a reduction: others may be on their way to the same place.

    Attributes
    ----------
    nbytes : int
    is_complete : bool
    """

    wakes = True

    def __init__(
        self,
        machine: Any,
        site: Site,
        source: Box | Run | Place | Value,
        place: Place,
        barrier: Any,
        combine: Combine | None = None,
    ) -> None:
        super().__init__(machine, site)
        self.source, self.place, self.barrier, self.combine = source, place, barrier, combine
        self._blocks = [end.block for end in (place, source) if isinstance(end, Place)]
        self.nbytes, self.is_complete = place.elements.size * place.itemsize, False
        barrier.issued.append(self)
        if combine is None:
            place.claim()

    def writes(self, memory: Any, address: int) -> bool:
        """Whether it is still to write a byte of a block's memory."""
        place = self.place
        return place.block.memory is memory and bool((place.elements == address // place.itemsize).any())

    def completes_on(self) -> str:
        """The barrier and the phase, for reports."""
        return f", on barrier {self.barrier.name}, phase {self.barrier.phase}"

    def check(self, checker: Any) -> None:
        """Let the checker of hazards know."""
        history = self.barrier.history
        history.given_to_copy()
        detail = self.completes_on().removeprefix(", ")
        work = {"site": self.site, "actor": history.actor, "time": self.barrier.phase + 1, "detail": detail}
        is_async = not isinstance(self.source, Value)
        self.source.check(checker, False, is_async=is_async, **work)
        self.place.check(checker, True, is_async=is_async, is_atomic=self.combine is not None, **work)

    def step(self) -> bool:
        """Copy, and report the bytes."""
        for block in self._blocks:
            if not block.live:
                self.check_unfinished(block)
        data = self.source.read(self.fault)
        self.place.write(data, self.combine, self.fault)
        self.is_complete = True
        self.barrier.complete(data.nbytes, self)
        return True

    def check_unfinished(self, block: Any) -> None:
        """Raise, if the copy uses the shared memory of this block, which has ended."""
        if block in self._blocks:
            raise self.fault(
                UnfinishedError,
                f"block {block.index} ended before this {named(self.site)} arrived: nobody waits for barrier "
                f"{self.barrier.name}, phase {self.barrier.phase}",
            )


class Store(Copy):
    """A copy to global memory on its way: it reads its place at one moment, and writes at a later one.

    Parameters
    ----------
    machine : Machine
    site : Site
        Of the instruction.
    place : Place
    target : Box or Run
    combine : function, optional
        Of a reduction.
    """

    wakes = False

    def __init__(
        self, machine: Any, site: Site, place: Place, target: Box | Run, combine: Combine | None = None
    ) -> None:
        super().__init__(machine, site)
        self.place, self.target, self.combine = place, target, combine
        self._data: np.ndarray | None = None
        self._is_written = False
        self.was_awaited = False

    def check(self, checker: Any, queue: Any) -> None:
        """Let the checker of hazards know."""
        time = queue.begin()
        self.place.check(checker, False, site=self.site, actor=queue.reader, time=time)
        self.target.check(
            checker, True, site=self.site, actor=queue.actor, time=time, is_atomic=self.combine is not None
        )

    def step(self) -> bool:
        """Read, or write; whether it is complete."""
        self.read() if self._data is None else self.write()
        return self._is_written

    def read(self) -> None:
        """Read the place, once."""
        if self._data is None:
            self._data = self.place.read(self.fault)

    def write(self) -> None:
        """Write to global memory, once."""
        self.read()
        if not self._is_written and self._data is not None:
            self.target.write(self._data, self.combine, self.fault)
            self._is_written = True
