"""Numba's typing errors, said with the kernel's line and without Numba's frames."""

from __future__ import annotations

import linecache
import re
from types import TracebackType
from typing import Any

# what the instructions and types of this package refuse, at the bottom of Numba's account of its attempts
REFUSAL = re.compile(r"NumbaTypeError: (.*?)(?=\n *raised from)", re.DOTALL)
METHOD = re.compile(r"Resolution failure for literal arguments:\n(.*?)\n- Resolution failure", re.DOTALL)
"""The same of what methods of views refuse."""
LOWERING = re.compile(
    r"\(step: cuda native lowering\)\n(\w+\.\w+: .*?)\n"
    r"During: .*?(?:lowering [^\n]*?|typing of call) at ([^\n]*?) \((\d+)\)",
    re.DOTALL,
)
"""The same of what is known only when code is emitted."""
UNKNOWN = re.compile(
    r"Unknown attribute '(\w+)' of type (?:Description|Shared|ClusterShared|Cursor)\[([^\n]*)\]\n"
    r".*?During: typing of get attribute at ([^\n]*?) \((\d+)\)",
    re.DOTALL,
)
"""What Numba says of an attribute that a description, a view or a cursor does not have."""
ARGUMENTS = re.compile(
    r"Overload in function '([\w.]+)'.*implementation raised a specific error:\s*TypingError: "
    r"((?:too many positional|missing a required|got an unexpected)[^\n]*)",
    re.DOTALL,
)
"""What Numba says of a method that is called with arguments that it does not take."""


class KernelTypeError(TypeError):
    """A kernel that cannot be compiled: an operand that an instruction does not take, with the kernel's line."""


def explain(error: Exception) -> KernelTypeError | None:
    """The refusal in a typing error of Numba; None where it is another error, whose text names the line."""
    if (lowering := LOWERING.search(str(error))) is not None:
        said, filename, line = lowering.groups()
        return KernelTypeError(said + _line(filename, int(line)))
    if (unknown := UNKNOWN.search(str(error))) is not None:
        name, of, filename, line = unknown.groups()
        return KernelTypeError(f"{of} has no attribute {name!r}" + _line(filename, int(line)))
    if (arguments := ARGUMENTS.search(str(error))) is not None:
        return KernelTypeError(f"{arguments[1]}: {arguments[2]}" + _place(error.__traceback__))
    refusals = REFUSAL.findall(str(error)) or METHOD.findall(str(error))
    if not refusals:
        return None
    return KernelTypeError(re.sub(r"\s+", " ", refusals[-1]).strip() + _place(error.__traceback__))


def _place(traceback: TracebackType | None) -> str:
    """The innermost line that Numba was typing, as the frames of its constraints know it."""
    found: Any = None
    while traceback is not None:
        constraint = traceback.tb_frame.f_locals.get("self")
        found = getattr(constraint, "loc", None) or found
        traceback = traceback.tb_next
    if found is None:
        return ""
    return _line(found.filename, found.line)


def _line(filename: str, line: int) -> str:
    return f"\n  at {filename}:{line}: {linecache.getline(filename, line).strip()}"
