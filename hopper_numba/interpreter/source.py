"""Where in a kernel's source a thread is, and how threads are named."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any, NamedTuple

MARK = "__hopper_numba_interpreted__"
"""The global that marks the copied functions of a kernel, so that frames of it are known from others."""

_MACHINERY = ("accumulators", "addresses", "machine", "operands", "ptx", "results", "tiles", "types")


class Site(NamedTuple):
    """A statement of the kernel, executed by a thread. Kept short: text is looked up when a report needs it."""

    thread: Any
    code: CodeType | None
    line: int
    instruction: str = ""

    @property
    def filename(self) -> str:
        return self.code.co_filename if self.code is not None else ""

    @property
    def text(self) -> str:
        """The source line."""
        return linecache.getline(self.filename, self.line).strip() if self.code is not None else ""

    def __str__(self) -> str:
        if self.code is None:
            return "an unknown place"
        text = self.text
        return f"{self.filename}:{self.line}{f': {text}' if text else ''}"


def kernel_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the kernel's own code, from `frame` outwards."""
    while frame is not None and MARK not in frame.f_globals:
        frame = frame.f_back
    return frame


def callers(frame: FrameType | None) -> str:
    """Where the innermost function of the kernel was called from: ``, called at …`` for each call; for the report."""
    text, inner = "", kernel_frame(frame)
    while inner is not None and (outer := kernel_frame(inner.f_back)) is not None:
        text += f", called at {Site(None, outer.f_code, outer.f_lineno)}"
        inner = outer
    return text


def site_of(thread: Any, frame: FrameType | None) -> Site:
    """The statement that `thread` executes, from its innermost frame."""
    instruction = ""
    while frame is not None and MARK not in frame.f_globals:
        package, _, chapter = frame.f_globals.get("__name__", "").rpartition(".")
        if package == "hopper_numba.intrinsics" and chapter not in _MACHINERY:
            instruction = f"{chapter}.{frame.f_code.co_name}"
        frame = frame.f_back
    if frame is None:
        return Site(thread, None, 0)
    return Site(thread, frame.f_code, frame.f_lineno, instruction)


ADVICE: dict[CodeType, dict[str, str]] = {}
"""What to say of a fault that comes of a method which kernels call, by what went wrong: ``overrun`` or ``stuck``."""


def advising(**advice: str) -> Callable[[Callable], Callable]:
    """Mark a method with what to say where it goes wrong."""

    def mark(method: Callable) -> Callable:
        ADVICE[method.__code__] = advice
        return method

    return mark


def advice(frame: FrameType | None, wrong: str) -> str:
    """What the methods say between a frame and the kernel's own; empty if nothing."""
    while frame is not None and MARK not in frame.f_globals:
        if said := ADVICE.get(frame.f_code, {}).get(wrong):
            return said
        frame = frame.f_back
    return ""


def raised_at(thread: Any, error: BaseException) -> Site:
    """The kernel's statement that an exception came from."""
    found, traceback = Site(thread, None, 0), error.__traceback__
    while traceback is not None:
        if MARK in traceback.tb_frame.f_globals:
            found = Site(thread, traceback.tb_frame.f_code, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def role(threads: Iterable[int]) -> str:
    """Name threads of a block by their numbers: ``warp group 0, 128 threads``, ``threads 1 to 31``."""
    left = sorted(threads)
    count = len(left)
    if count == 1:
        return f"thread {left[0]}"
    parts, kinds = [], set()
    for unit, name in ((128, "warp group"), (32, "warp"), (1, "thread")):
        found, left = _whole(left, unit)
        if found:
            parts.append(_ranges(name, found))
            kinds.add(name)
    return f"{' and '.join(parts)}{'' if kinds == {'thread'} else f', {count} threads'}"


def _whole(threads: list[int], unit: int) -> tuple[list[int], list[int]]:
    """The units that are there whole, and the threads of the others."""
    held: dict[int, int] = {}
    for thread in threads:
        held[thread // unit] = held.get(thread // unit, 0) + 1
    return [u for u, n in held.items() if n == unit], [t for t in threads if held[t // unit] < unit]


def _ranges(name: str, numbers: list[int]) -> str:
    """``warp 2`` or ``warps 0 to 3, 7``."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    text = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in ranges)
    return f"{name}{'s' if len(numbers) > 1 else ''} {text}"
