"""Streams of all libraries, by their handles; and the current GPU."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from cuda.bindings import driver
from cuda.core import LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM, Device, Stream

NO_ORDER = -1
"""In place of a stream: no work is put in order. DLPack and cuda.core have it so."""


def stream_handle(stream: Any) -> int:
    """The handle of a stream; of the legacy default stream, it is 0.

    Parameters
    ----------
    stream : int or object
        A handle, or a stream of cuda.core, Torch, CuPy or Numba, or any object with ``__cuda_stream__``.

    Raises
    ------
    TypeError
        If it is none of these.
    """
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        handle = stream
    elif hasattr(stream, "__cuda_stream__"):
        handle = stream.__cuda_stream__()[1]
    elif hasattr(stream, "cuda_stream"):  # Torch's, where it is too old for the protocol
        handle = stream.cuda_stream
    else:
        raise TypeError(f"stream must be a handle or an object with __cuda_stream__; got {stream!r}")
    return 0 if handle == 1 else int(handle)


def stream_of(handle: int) -> Stream:
    """cuda.core's stream of a handle."""
    if handle > 2:
        return Stream.from_handle(handle)
    return PER_THREAD_DEFAULT_STREAM if handle == 2 else LEGACY_DEFAULT_STREAM


def order(before: int, after: int, device: int | None) -> None:
    """Make work queued on the stream `after` from now on wait for what is queued on `before`."""
    if before != after:
        with on_device(device):
            stream_of(after).wait(stream_of(before))


class on_device:
    """Makes a GPU the thread's current one within a with statement.

    Parameters
    ----------
    device : int or None
        None leaves things as they are.
    """

    __slots__ = ("device", "previous")

    def __init__(self, device: int | None) -> None:
        self.device, self.previous = device, None

    def __enter__(self) -> None:
        if self.device is not None:
            status, current = driver.cuCtxGetDevice()
            if status or int(current) != self.device:
                self.previous = driver.cuCtxGetCurrent()[1]
                Device(self.device).set_current()

    def __exit__(self, kind: type | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        if self.previous is not None and int(self.previous):
            driver.cuCtxSetCurrent(self.previous)
