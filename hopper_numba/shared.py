"""The layout of a block's dynamic shared memory, computed at compile time."""

from __future__ import annotations

import dataclasses

from hopper_numba.intrinsics.tiles import Barriers, Shared, barriers, tile
from hopper_numba.intrinsics.types import SharedView

__all__ = ["SHARED_NBYTES", "Barriers", "SharedLayout", "barriers", "tile"]

RESERVED = {"open", *(field.name for field in dataclasses.fields(SharedView))}
RESERVED |= {name for name in vars(SharedView) if not name.startswith("_")}
"""What a view has itself, and so hides a member of that name."""


SHARED_NBYTES = 227 * 1024
"""Bytes of shared memory that a block of compute capability 9.0 may have (CUDA C++ Programming Guide)."""


class SharedLayout(Shared):
    """Tiles and barriers in a block's dynamic shared memory.

    In a kernel, ``smem = layout.open()`` gives them as attributes. Tiles come first, each aligned for its swizzle;
    barriers lie behind them all, so that no copy to a tile can reach one.

    Parameters
    ----------
    **members : Tile, Barriers or Pipeline
        Made by `tile`, `barriers` and `Pipeline`.

    Attributes
    ----------
    offsets : dict of str to int
        Bytes from the beginning.
    nbytes : int
        Bytes of dynamic shared memory to launch with.

    Raises
    ------
    TypeError
        For a member that is none of these.
    ValueError
        For a member's name that begins with an underscore, or that a view has itself: ``open``, ``address``, ``part``,
        ``base``, ``description``.

    Notes
    -----
    PTX ISA, "Shared State Space".
    """

    alignment = 1024  # of the widest swizzle's atom

    def __init__(self, **members: Shared) -> None:
        for name, member in members.items():
            if not isinstance(member, Shared) or type(member) is SharedLayout:
                raise TypeError(f"SharedLayout: {name} must be a tile(…), barriers(…) or a Pipeline; got {member!r}")
            if name in RESERVED or name.startswith("_"):
                raise ValueError(
                    f"SharedLayout: {name!r} cannot be a member's name: none begins with an underscore, or is one that "
                    f"views have: {', '.join(sorted(RESERVED))}"
                )
        self.members = members
        self.offsets: dict[str, int] = {}
        end = 0
        for name, member in sorted(members.items(), key=lambda item: _place(item[1])):
            self.offsets[name] = -(-end // member.alignment) * member.alignment
            end = self.offsets[name] + member.nbytes
        self.nbytes = end

    def attribute(self, name: str) -> tuple[Shared, int] | None:
        return (self.members[name], self.offsets[name]) if name in self.members else None

    def budget(self) -> str:
        """The sum of what the members take, for an error's text."""
        return f"got {' + '.join(f'{name} {member.nbytes}' for name, member in self.members.items())} = {self.nbytes}"

    def __str__(self) -> str:
        return f"SharedLayout({', '.join(f'{n}={m}' for n, m in self.members.items())})"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SharedLayout) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def _place(member: Shared) -> int:
    """Tiles come first, then pipelines, which end with barriers, then barriers."""
    return 2 if isinstance(member, Barriers) else int(isinstance(member, SharedLayout))
