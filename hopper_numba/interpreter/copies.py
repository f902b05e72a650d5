"""TMA: boxes of tensors on their way to and from shared memory."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from hopper_numba.intrinsics.tiles import Tile

from .source import Site


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


class Box:
    """A box of a tensor, and the place of one panel in shared memory.

    Parameters
    ----------
    machine : Machine
    tile : Tile
    base : int
        Where the whole tile lies: aligned, as the layout and `memory.view` see to.
    panel : int
    tensor_map : TensorMap
    coordinates : tuple of int
        Of the tile, innermost first.
    site : Site
        Of the instruction.
    """

    def __init__(
        self, machine: Any, tile: Tile, base: int, panel: int, tensor_map: Any, coordinates: tuple[int, ...], site: Site
    ) -> None:
        self.machine, self.memory, self.site = machine, site.thread.block.memory, site
        self.what = f"{tile} by {site.instruction or 'TMA'}"
        self.itemsize = tile.itemsize
        self.elements = panel_elements(tile, base, panel)
        begin = (coordinates[0] + panel * tile.box[0], *coordinates[1:])
        self.array = tensor_map.array
        self.begin = begin[::-1]

    def _fault(self, kind: type, message: str) -> Exception:
        return self.machine.fault(kind, message, site=self.site)

    def _inside(self) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """The part of the tensor that the box covers, and where in the box it lies."""
        tensor, box = [], []
        for begin, extent, size in zip(self.begin, self.elements.shape, self.array.shape, strict=True):
            low, high = max(begin, 0), max(min(begin + extent, size), 0)
            high = max(low, high)
            tensor.append(slice(low, high))
            box.append(slice(low - begin, high - begin))
        return tuple(tensor), tuple(box)


class Load(Box):
    """A load on its way: nobody may touch its place until it is there."""

    wakes = True

    def __init__(self, *args: Any, barrier: Any) -> None:
        super().__init__(*args)
        self.barrier = barrier
        self.memory.claim(self.elements, self.itemsize, self.what)

    def step(self) -> bool:
        """Copy, and report the bytes."""
        tensor, box = self._inside()
        data = np.zeros(self.elements.shape, self.array.dtype)
        data[box] = self.array[tensor]
        self.memory.deliver(self.elements, self.itemsize, data.view(f"u{self.itemsize}"))
        self.barrier.complete(data.nbytes, self._fault)
        return True


class Store(Box):
    """A store on its way: it reads its tile at one moment, and writes the tensor at a later one."""

    wakes = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._data: np.ndarray | None = None
        self._is_written = False
        self.was_awaited = False

    def step(self) -> bool:
        """Read, or write; whether it is complete."""
        self.read() if self._data is None else self.write()
        return self._is_written

    def read(self) -> None:
        """Read the tile, once."""
        if self._data is None:
            self._data = self.memory.gather(self.elements, self.itemsize, self.what, self._fault)

    def write(self) -> None:
        """Write the tensor, once."""
        self.read()
        if not self._is_written and self._data is not None:
            tensor, box = self._inside()
            self.array[tensor] = self._data.view(self.array.dtype)[box]
            self._is_written = True
