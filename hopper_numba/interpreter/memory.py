"""The shared memory of a block: its bytes, and what may be done with each.

Addresses are 32-bit shared addresses. The first kilobyte is not the kernel's, as on the GPU; dynamic shared memory
comes next, static arrays behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from hopper_numba.shared import SHARED_NBYTES

from .errors import (
    BarrierError,
    HazardError,
    MisalignedError,
    OutOfBoundsError,
    OverwriteError,
    ReadBeforeArrivalError,
    UninitialisedReadError,
)
from .hazards.shadow import Shadow

OUTSIDE, WRITTEN, UNWRITTEN, IN_FLIGHT, BARRIER, COPIED = 0, 1, 2, 4, 8, 16
"""The state of a byte: not the kernel's; written; written by nobody yet; to be written by a TMA load; of a barrier; to
be written by a thread's cp.async.
"""

BASE = 1024
STATIC_LIMIT = 48 * 1024

_WRITTEN = [bytes([WRITTEN]) * n for n in range(257)]
_WRITABLE = bytes([WRITTEN, UNWRITTEN])

Fault = Callable[..., HazardError]


class StaticLayout:
    """Where static arrays lie: in every block of a launch at the same address, whichever comes first to declare one.

    Parameters
    ----------
    dynamic : int
        Bytes of dynamic shared memory, which comes before.
    fault : function
        Of an error class and a message; gives the error with the place in the kernel.
    """

    def __init__(self, dynamic: int, fault: Fault) -> None:
        self._dynamic, self._fault = dynamic, fault
        self._addresses: dict[Any, int] = {}
        self.end = BASE + dynamic
        self.nbytes = 0

    def address(self, key: Any, nbytes: int, alignment: int) -> int:
        """The address of the array that `key` identifies."""
        if key not in self._addresses:
            address = -(-self.end // alignment) * alignment
            self.nbytes += address + nbytes - self.end
            if self.nbytes > STATIC_LIMIT or self.nbytes + self._dynamic > SHARED_NBYTES:
                raise self._fault(
                    OutOfBoundsError,
                    f"static shared arrays take {self.nbytes} bytes, beside {self._dynamic} dynamic ones; at most "
                    f"{STATIC_LIMIT} and {SHARED_NBYTES} in all",
                )
            self._addresses[key] = address
            self.end = address + nbytes
        return self._addresses[key]


class SharedMemory:
    """The shared memory of one block.

    Parameters
    ----------
    layout : StaticLayout
    dynamic : int
        Bytes of dynamic shared memory.
    fault : function
        Of an error class and a message; gives the error with the place in the kernel.
    is_checked : bool
        Whether it has a shadow.

    Attributes
    ----------
    array, state : numpy.ndarray of uint8
        Bytes and their states, by address.
    dynamic : int
    begun_at : function
        Of an address; says where the copy began that is still to write there.
    place : function
        Of an address; names it.
    shadow : Shadow or None
        For the checker of hazards.
    """

    def __init__(self, layout: StaticLayout, dynamic: int, fault: Fault, is_checked: bool = False) -> None:
        self._layout, self.dynamic, self._fault = layout, dynamic, fault
        # bytes behind the end, which belong to nobody, spare the checks a comparison
        size = BASE + -(-dynamic // 1024) * 1024 + STATIC_LIMIT + 4096
        self._bytes, self._states = bytearray(size), bytearray(size)
        self.array = np.frombuffer(self._bytes, np.uint8)
        self.state = np.frombuffer(self._states, np.uint8)
        self.pointer = self.array.__array_interface__["data"][0]
        self._views = {n: self.array.view(f"u{n}") for n in (1, 2, 4, 8)}
        self._state_views = {n: self.state.view(f"u{n}") for n in (1, 2, 4, 8)}
        self.state[BASE : BASE + dynamic] = UNWRITTEN
        self.begun_at: Callable[[int], str] = lambda address: ""
        self.place: Callable[[int], str] = hex
        self.shadow = Shadow(size) if is_checked else None

    def allow(self, address: int, nbytes: int) -> None:
        """Let a static array lie at an address."""
        self.state[address : address + nbytes] = UNWRITTEN

    # Bytes ----------------------------------------------------------------------------------------------------------

    def load(self, address: int, nbytes: int) -> np.ndarray:
        """A copy of bytes that were written, at a multiple of their number."""
        if address % nbytes:
            self._misaligned("read", address, nbytes)
        if self._states[address : address + nbytes] != (_WRITTEN[nbytes] if nbytes < 257 else b"\1" * nbytes):
            self._refuse("read", address, self.state[address : address + nbytes], nbytes)
        return self.array[address : address + nbytes].copy()

    def store(self, address: int, data: Any, nbytes: int) -> None:
        """Write bytes at a multiple of their number."""
        if address % nbytes:
            self._misaligned("write", address, nbytes)
        states = self._states[address : address + nbytes]
        if len(states) != nbytes or states.translate(None, _WRITABLE):
            self._refuse("write", address, self.state[address : address + nbytes], nbytes)
        self.array[address : address + nbytes] = data
        self._states[address : address + nbytes] = _WRITTEN[nbytes] if nbytes < 257 else b"\1" * nbytes

    # Elements at many places ----------------------------------------------------------------------------------------

    def gather(self, elements: np.ndarray, itemsize: int, what: str, fault: Fault | None = None) -> np.ndarray:
        """Elements of `itemsize` bytes, by their indices from address 0, as unsigned integers."""
        self._check_elements(elements, itemsize)
        states = self._state_views[itemsize][elements]
        whole = int.from_bytes(_WRITTEN[itemsize], "little")
        if not (states == whole).all():
            self._refuse_elements("read", elements, states != whole, itemsize, what, fault)
        return self._views[itemsize][elements]

    def claim(self, elements: np.ndarray, itemsize: int, what: str, state: int = IN_FLIGHT) -> None:
        """Leave elements to an asynchronous copy, which will `deliver` them: to cp.async where `state` is COPIED."""
        self._check_elements(elements, itemsize)
        view = self._state_views[itemsize]
        states = view[elements]
        forbidden = int.from_bytes(bytes([0xFF & ~(WRITTEN | UNWRITTEN)]) * itemsize, "little")
        bad = ((states & forbidden) != 0) | (states == OUTSIDE)
        if bad.any():
            self._refuse_elements("write", elements, bad, itemsize, what, None)
        view[elements] = int.from_bytes(bytes([state]) * itemsize, "little")

    def deliver(self, elements: np.ndarray, itemsize: int, data: np.ndarray) -> None:
        """Write elements that were claimed."""
        self._views[itemsize][elements] = data
        self._state_views[itemsize][elements] = int.from_bytes(_WRITTEN[itemsize], "little")

    def _check_elements(self, elements: np.ndarray, itemsize: int) -> None:
        end = len(self._bytes) // itemsize
        if elements.min() < 0 or elements.max() >= end:
            raise self._fault(OutOfBoundsError, f"shared memory ends at {self._layout.end:#x}; {self._described()}")

    # Barriers -------------------------------------------------------------------------------------------------------

    def claim_barrier(self, address: int) -> None:
        """Make 8 bytes a barrier's."""
        self._check_barrier(address)
        if self._states[address : address + 8].translate(None, _WRITABLE):
            self._refuse("write", address, self.state[address : address + 8], 8)
        self._states[address : address + 8] = bytes([BARRIER]) * 8

    def release_barrier(self, address: int) -> None:
        """Make a barrier's bytes ordinary ones, written by nobody."""
        self._states[address : address + 8] = bytes([UNWRITTEN]) * 8

    def _check_barrier(self, address: int) -> None:
        if address % 8:
            self._misaligned("use a barrier", address, 8)
        if OUTSIDE in self._states[address : address + 8] or not 0 <= address <= len(self._states) - 8:
            raise self._fault(OutOfBoundsError, f"no barrier can be at {address:#x}: {self._described()}")

    # Refusals -------------------------------------------------------------------------------------------------------

    def _described(self) -> str:
        return f"shared memory has {self.dynamic} dynamic bytes from {BASE:#x} on and {self._layout.nbytes} static ones"

    def _misaligned(self, verb: str, address: int, alignment: int) -> NoReturn:
        raise self._fault(
            MisalignedError, f"cannot {verb} at shared address {address:#x}: it must be a multiple of {alignment} bytes"
        )

    def _refuse(self, verb: str, address: int, states: np.ndarray, nbytes: int) -> NoReturn:
        """Say which of the bytes is at fault."""
        if len(states) < nbytes or address < 0:
            raise self.refusal(verb, address, OUTSIDE, f"{nbytes} bytes at {address:#x}", self._fault)
        bad = states != WRITTEN if verb == "read" else (states != WRITTEN) & (states != UNWRITTEN)
        first = int(np.flatnonzero(bad)[0])
        raise self.refusal(verb, address + first, int(states[first]), f"{nbytes} bytes at {address:#x}", self._fault)

    def _refuse_elements(
        self, verb: str, elements: np.ndarray, bad: np.ndarray, itemsize: int, what: str, fault: Fault | None
    ) -> NoReturn:
        address = int(elements[bad].min()) * itemsize
        states = self.state[address : address + itemsize]
        wrong = states != WRITTEN if verb == "read" else (states != WRITTEN) & (states != UNWRITTEN)
        state = int(states[np.flatnonzero(wrong)[0]])
        raise self.refusal(verb, address, state, what, fault or self._fault)

    def refusal(self, verb: str, address: int, state: int, what: str, fault: Fault) -> HazardError:
        """Why a byte in `state` cannot be read or written as part of `what`."""
        begin, place = f"cannot {verb} {what}: ", self.place(address)
        if state & BARRIER:
            return fault(BarrierError, f"{begin}the bytes at {place} are a barrier's; mbarrier.inval ends it")
        if state & IN_FLIGHT:
            kind = ReadBeforeArrivalError if verb == "read" else OverwriteError
            return fault(
                kind,
                f"{begin}a TMA load is still to write {place}; wait for the barrier that it completes on"
                f"{self.begun_at(address)}",
            )
        if state & COPIED:
            kind = ReadBeforeArrivalError if verb == "read" else OverwriteError
            return fault(
                kind,
                f"{begin}a copy by cp.async is still to write {place}; its thread waits by cp_async.wait_group or "
                f"cp_async.wait_all, or it arrives on a barrier{self.begun_at(address)}",
            )
        if state & UNWRITTEN:
            return fault(UninitialisedReadError, f"{begin}nobody has written {place} yet")
        return fault(OutOfBoundsError, f"{begin}{place} is outside; {self._described()}")
