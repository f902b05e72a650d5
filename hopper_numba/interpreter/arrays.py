"""Arrays as kernels index them: arguments in global memory, shared and local arrays. Every access is checked."""

from __future__ import annotations

import dataclasses
import math
import sys
from typing import Any

import numpy as np

from hopper_numba.intrinsics.types import GlobalElement

from .errors import MisalignedError, OutOfBoundsError, UninitialisedReadError
from .memory import WRITTEN, SharedMemory
from .scalars import Scalar, convert, loaded


class KernelArray:
    """What all arrays of a kernel have; NumPy's meaning of an index, Numba's of a conversion."""

    __slots__ = ("_array", "_machine", "name")
    __iter__ = None  # a for loop would index past the end

    def __init__(self, machine: Any, name: str, array: np.ndarray) -> None:
        self._machine, self.name, self._array = machine, name, array

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self._array.strides

    @property
    def size(self) -> int:
        return self._array.size

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def itemsize(self) -> int:
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    @property
    def dtype(self) -> Scalar:
        return Scalar(self._array.dtype)

    def __len__(self) -> int:
        return len(self._array)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.dtype} {self.shape}>"

    def _outside(self, index: Any) -> OutOfBoundsError:
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) > self.ndim:
            raise TypeError(f"{self.name} has {self.ndim} dimensions; got {len(indices)} indices")
        if not all(isinstance(i, int | np.integer | slice) for i in indices):
            raise TypeError(f"{self.name} is indexed with integers and slices; got {index!r}")
        text = ", ".join(str(i) for i in indices)
        return self._machine.fault(OutOfBoundsError, f"{self.name}[{text}] is outside its shape {self.shape}")

    def _set(self, index: Any, value: Any) -> None:
        if isinstance(value, float | np.floating) and self._array.dtype.kind in "iu":
            value = convert(value, self._array.dtype)  # NumPy leaves open what does not fit
        try:
            self._array[index] = value
        except IndexError:
            raise self._outside(index) from None
        except (OverflowError, ValueError):
            if not isinstance(value, int | float | np.generic) or not self._array.flags.writeable:
                raise
            self._array[index] = convert(value, self._array.dtype)


@dataclasses.dataclass(frozen=True)
class CheckedElement(GlobalElement):
    """The address of an element, and the indices that it was made of: they tell more than an offset."""

    indices: tuple[int, ...] = ()


class GlobalArray(KernelArray):
    """An argument of the kernel."""

    __slots__ = ("_bytes", "_states")

    def __init__(self, machine: Any, name: str, array: np.ndarray) -> None:
        super().__init__(machine, name, array)
        self._bytes = array.reshape(-1).view(np.uint8) if array.flags.c_contiguous and array.ndim else None
        self._states = machine.checker.global_states(array) if machine.checker is not None else None

    def __getitem__(self, index: Any) -> Any:
        machine = self._machine
        machine.budget -= 1
        if machine.budget < 0:
            machine.pause()
        try:
            value = self._array[index]
        except IndexError:
            raise self._outside(index) from None
        if isinstance(value, np.ndarray):
            return GlobalArray(machine, self.name, value)
        if self._states is not None:
            machine.checker.generic(self._states[index], False, False, sys._getframe(1), machine.thread)
        return loaded(value)

    def __setitem__(self, index: Any, value: Any) -> None:
        machine = self._machine
        machine.budget -= 1
        if machine.budget < 0:
            machine.pause()
        machine.spins = 0
        self._set(index, value)
        if self._states is not None:
            machine.checker.generic(self._states[index], True, False, sys._getframe(1), machine.thread)

    @property
    def T(self) -> GlobalArray:
        return GlobalArray(self._machine, self.name, self._array.T)

    def address_of(self, indices: tuple[int, ...]) -> CheckedElement:
        """The address of an element, which may lie outside as long as nobody accesses it."""
        if not isinstance(indices, tuple) or len(indices) != self.ndim:
            raise TypeError(f"memory.address_of: {self.name} takes a tuple of {self.ndim} indices; got {indices!r}")
        if not all(hasattr(i, "__index__") for i in indices):
            raise TypeError(f"memory.address_of: indices must be integers; got {indices!r}")
        numbers = tuple(int(i) for i in indices)
        return CheckedElement(self, sum(i * s for i, s in zip(numbers, self.strides, strict=True)), numbers)

    def load_bytes(self, element: GlobalElement, nbytes: int, alignment: int = 0) -> np.ndarray:
        """A copy of `nbytes` bytes from an element on, at a multiple of `alignment` or else of their number."""
        if self._bytes is not None:
            begin = self._begin("read", element, nbytes, alignment)
            return self._bytes[begin : begin + nbytes].copy()
        places = self._places("read", element, nbytes, alignment)
        return np.concatenate([np.atleast_1d(self._array[place]).view(np.uint8) for place in places])

    def store_bytes(self, element: GlobalElement, data: np.ndarray, alignment: int = 0) -> None:
        """Write bytes from an element on, at a multiple of `alignment` or else of their number."""
        nbytes = len(data)
        if self._bytes is not None:
            begin = self._begin("write", element, nbytes, alignment)
            self._bytes[begin : begin + nbytes] = data
            return
        values = data.view(self._array.dtype)
        for place, value in zip(self._places("write", element, nbytes, alignment), values, strict=True):
            self._array[place] = value

    def location(self, element: GlobalElement) -> int:
        """The address of an element on the host."""
        return self._array.__array_interface__["data"][0] + element.offset

    def states(self, element: GlobalElement, nbytes: int) -> np.ndarray:
        """What the checker of hazards knows of bytes from an element on."""
        return self._machine.checker.global_run(self._array, element.offset, nbytes)

    def check_bytes(self, verb: str, element: GlobalElement, nbytes: int, alignment: int) -> None:
        """Refuse what `load_bytes` or `store_bytes` would, before it is done."""
        find = self._begin if self._bytes is not None else self._places
        find(verb, element, nbytes, alignment)

    def _begin(self, verb: str, element: GlobalElement, nbytes: int, alignment: int) -> int:
        """The offset of a checked access in memory without gaps."""
        self._check_address(verb, element, nbytes, alignment or nbytes)
        if not 0 <= element.offset <= self._array.nbytes - nbytes:
            raise self._beyond(verb, element, nbytes)
        return element.offset

    def _places(self, verb: str, element: GlobalElement, nbytes: int, alignment: int) -> list[tuple[int, ...]]:
        """The indices of the elements that an access covers, in memory with gaps."""
        self._check_address(verb, element, nbytes, alignment or nbytes)
        itemsize = self._array.itemsize
        if nbytes % itemsize:
            raise TypeError(f"cannot {verb} {nbytes} bytes of {self.name}, whose elements have {itemsize}")
        places = []
        for offset in range(element.offset, element.offset + nbytes, itemsize):
            place = self._place(offset)
            if place is None:
                raise self._beyond(verb, element, nbytes)
            places.append(place)
        return places

    def _place(self, offset: int) -> tuple[int, ...] | None:
        """The indices of the element at a byte offset from the first, if there is one."""
        indices = [0] * self.ndim
        for axis in sorted(range(self.ndim), key=lambda axis: -abs(self.strides[axis])):
            stride = self.strides[axis]
            # the axes that follow reach this far below their first element
            below = sum(
                (n - 1) * s for n, s in zip(self.shape, self.strides, strict=True) if s < 0 and abs(s) < abs(stride)
            )
            index = (offset - below) // stride if stride > 0 else -((offset - below) // -stride) if stride else 0
            indices[axis] = index
            offset -= index * stride
        inside = all(0 <= i < n for i, n in zip(indices, self.shape, strict=True))
        return tuple(indices) if inside and offset == 0 else None

    def _check_address(self, verb: str, element: GlobalElement, nbytes: int, alignment: int) -> None:
        indices = getattr(element, "indices", ())
        for index, extent in zip(indices, self.shape, strict=False):
            if not 0 <= index < extent:
                raise self._beyond(verb, element, nbytes)
        address = self.location(element)
        if address % alignment:
            raise self._machine.fault(
                MisalignedError,
                f"cannot {verb} {nbytes} bytes at {self._of(element)}: its address must be a multiple of {alignment}; "
                f"got one that is {address % alignment} beyond",
            )

    def _of(self, element: GlobalElement) -> str:
        indices = getattr(element, "indices", None)
        return f"{self.name}[{', '.join(map(str, indices))}]" if indices else f"{self.name} + {element.offset} bytes"

    def _beyond(self, verb: str, element: GlobalElement, nbytes: int) -> OutOfBoundsError:
        return self._machine.fault(
            OutOfBoundsError, f"cannot {verb} {nbytes} bytes at {self._of(element)}: outside its shape {self.shape}"
        )


class SharedArray(KernelArray):
    """A Numba array in shared memory."""

    __slots__ = ("_memory", "_state", "_states", "_written")

    def __init__(self, machine: Any, name: str, array: np.ndarray, memory: SharedMemory, state: np.ndarray) -> None:
        super().__init__(machine, name, array)
        self._memory, self._state = memory, state
        self._states = None
        if memory.shadow is not None:
            self._states = memory.shadow.array(self.shared_address, array.shape, array.strides, array.itemsize)
        self._written = int.from_bytes(bytes([WRITTEN]) * array.itemsize, "little")

    @classmethod
    def at(
        cls, machine: Any, name: str, memory: SharedMemory, address: int, shape: Any, dtype: np.dtype
    ) -> SharedArray:
        """The array of a shape at an address."""
        array = np.ndarray(shape, dtype, memory.array, address)
        return cls(machine, name, array, memory, np.ndarray(shape, f"u{dtype.itemsize}", memory.state, address))

    @property
    def shared_address(self) -> int:
        """Where it begins, as a 32-bit shared address."""
        return self._array.__array_interface__["data"][0] - self._memory.pointer

    def __getitem__(self, index: Any) -> Any:
        machine = self._machine
        machine.budget -= 1
        if machine.budget < 0:
            machine.pause()
        try:
            value = self._array[index]
        except IndexError:
            raise self._outside(index) from None
        states = self._state[index]
        if isinstance(value, np.ndarray):
            return SharedArray(machine, self.name, value, self._memory, states)
        if states != self._written:
            raise self._refusal("read", index, states)
        if self._states is not None:
            machine.checker.generic(self._states[index], False, True, sys._getframe(1), machine.thread)
        return loaded(value)

    def __setitem__(self, index: Any, value: Any) -> None:
        machine = self._machine
        machine.budget -= 1
        if machine.budget < 0:
            machine.pause()
        machine.spins = 0
        try:
            states = self._state[index]
        except IndexError:
            raise self._outside(index) from None
        if isinstance(states, np.ndarray):
            raise NotImplementedError(f"{self.name}: the interpreter writes single elements of an array; got {index!r}")
        if states != self._written and any(byte not in (1, 2) for byte in states.tobytes()):
            raise self._refusal("write", index, states)
        self._set(index, value)
        self._state[index] = self._written
        if self._states is not None:
            machine.checker.generic(self._states[index], True, True, sys._getframe(1), machine.thread)

    def _refusal(self, verb: str, index: Any, states: Any) -> Exception:
        state = next(s for s in states.tobytes() if s != WRITTEN and (verb == "read" or s != 2))
        text = ", ".join(map(str, index)) if isinstance(index, tuple) else str(index)
        return self._memory.refusal(verb, self._element(index), state, f"{self.name}[{text}]", self._machine.fault)

    def _element(self, index: Any) -> int:
        """The address of an element."""
        indices = index if isinstance(index, tuple) else (index,)
        wrapped = (i + n if i < 0 else i for i, n in zip(indices, self.shape, strict=True))
        return self.shared_address + sum(int(i) * s for i, s in zip(wrapped, self.strides, strict=True))


class LocalArray(KernelArray):
    """A thread's own array.

    Its elements are Python objects, as the kernel holds them, and None where nothing was written: the hottest memory
    of kernels that keep fragments of matrices.
    """

    __slots__ = ("_dtype", "_type")

    def __init__(self, machine: Any, name: str, array: np.ndarray, dtype: np.dtype) -> None:
        self._machine, self.name, self._array, self._dtype = machine, name, array, dtype
        # integers must be checked to fit, whatever their type is
        self._type = None if dtype.kind in "iub" else dtype.type

    @classmethod
    def of(cls, machine: Any, name: str, shape: tuple[int, ...], dtype: np.dtype) -> LocalArray:
        """A new array of a shape."""
        return cls(machine, name, np.full(shape, None, object), dtype)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(s // self._array.itemsize * self.itemsize for s in self._array.strides)

    @property
    def itemsize(self) -> int:
        return self._dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def dtype(self) -> Scalar:
        return Scalar(self._dtype)

    def __getitem__(self, index: Any) -> Any:
        try:
            value = self._array[index]
        except IndexError:
            raise self._outside(index) from None
        if value is None:
            text = ", ".join(map(str, index)) if isinstance(index, tuple) else str(index)
            raise self._machine.fault(UninitialisedReadError, f"{self.name}[{text}] is read before it is written")
        if value.__class__ is np.ndarray:
            return LocalArray(self._machine, self.name, value, self._dtype)
        return value

    def __setitem__(self, index: Any, value: Any) -> None:
        try:
            self._array[index] = value if value.__class__ is self._type else convert(value, self._dtype)
        except IndexError:
            raise self._outside(index) from None


def extents(shape: Any) -> tuple[int, ...]:
    """The shape that a kernel gives to an array constructor."""
    found = shape if isinstance(shape, tuple) else (shape,)
    if not found or not all(isinstance(n, int | np.integer) and n >= 0 for n in found):
        raise TypeError(f"shape must be an integer or a tuple of them; got {shape!r}")
    return tuple(int(n) for n in found)


def nbytes_of(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Bytes of an array."""
    return math.prod(shape) * dtype.itemsize
