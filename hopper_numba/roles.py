"""Roles of a block's threads: whole warp groups, whole warps, or threads, each with work of its own.

    roles = Roles(consumers=warp_groups(2), producer=warps(1))  # 288 threads

    @jit(threads=roles.threads)
    def kernel():
        if roles.producer.here():
            if roles.producer.elected():
                …
        elif roles.consumers.here():
            which = roles.consumers.index()  # 0 or 1

A kernel asks its roles who a thread is, and never computes with ``threadIdx``.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from numba.cuda import types

from hopper_numba.intrinsics import warp
from hopper_numba.intrinsics.machine import machine
from hopper_numba.intrinsics.ptx import device_function
from hopper_numba.intrinsics.tiles import Description
from hopper_numba.intrinsics.types import DescriptionType
from hopper_numba.objects import compile_methods, device_method

UNITS = {128: "warp_groups", 32: "warps", 1: "threads"}
MOST = 1024


@dataclasses.dataclass(frozen=True)
class Role(Description):
    """What some threads of a block do; made by `warp_groups`, `warps` and `threads`, placed by `Roles`.

    Attributes
    ----------
    unit : int
        Threads that act together: 128, 32 or 1.
    count : int
        How many such units have the role.
    first : int
        The first unit's number in the block; -1 until `Roles` places it.
    """

    unit: int
    count: int
    first: int = -1

    constants = ("unit", "count", "first")

    @property
    def end(self) -> int:
        """The number of the first thread behind it."""
        return self.unit * (self.first + self.count)

    @device_method
    def here(self):
        """Whether the executing thread has this role.

        Returns
        -------
        bool
            The same in all threads of a unit.
        """
        return self.first <= self.unit_index() < self.first + self.count

    @device_method
    def index(self):
        """Which of the role's units the executing thread is in.

        Returns
        -------
        int
            0 to `count` - 1; meaningless in threads of other roles.
        """
        return self.unit_index() - self.first

    @device_method
    def thread(self):
        """Which of its unit's threads the executing thread is.

        Returns
        -------
        int
            0 to `unit` - 1.
        """
        if self.unit == 128:
            return 32 * (warp.warp_index() % 4) + warp.lane_index()
        return warp.lane_index() % self.unit

    @device_method
    def elected(self):
        """Whether the executing thread is the one of its unit that does what one thread shall do.

        Returns
        -------
        bool
            True in one thread of each unit, always the same. All threads of a warp ask together.
        """
        if self.unit == 128:
            return warp.warp_index() % 4 == 0 and warp.lane_index() == 0
        if self.unit == 32:
            return warp.elect_one()
        return True

    @device_method
    def unit_index(self):
        """The number in the block of the executing thread's unit."""
        if self.unit == 128:
            return warp.warp_group_index()
        if self.unit == 32:
            return warp.warp_index()
        return 32 * warp.warp_index() + warp.lane_index()

    def __str__(self) -> str:
        return f"{UNITS[self.unit]}({self.count}){'' if self.first < 0 else f' from {self.first}'}"


TAKEN = {"constants", "open", *(name for name, value in vars(Role).items() if callable(value))}
"""What no role may be called, beside what `Roles` has itself."""


compile_methods(vars(Role), DescriptionType, lambda ty: isinstance(ty.description, Role))


def warp_groups(count: int = 1) -> Role:
    """`count` warp groups, of 128 threads each. Raises ValueError where `count` is no positive integer."""
    return _role(128, count)


def warps(count: int = 1) -> Role:
    """`count` warps, of 32 threads each. Raises ValueError where `count` is no positive integer."""
    return _role(32, count)


def threads(count: int = 1) -> Role:
    """`count` threads, each on its own. Raises ValueError where `count` is no positive integer."""
    return _role(1, count)


def _role(unit: int, count: Any) -> Role:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"{UNITS[unit]}: count must be a positive integer; got {count!r}")
    return Role(unit, count)


class Roles(Description):
    """The roles of a block, which follow one another; in a kernel its attributes.

    Parameters
    ----------
    **roles : Role
        In the order of their threads: warp groups before warps before threads, since each begins at a whole unit.

    Attributes
    ----------
    threads : int
        Of the block: what `jit` takes.

    Raises
    ------
    TypeError
        For what is no role.
    ValueError
        For none at all, a role that does not begin at a whole unit, a name that is taken, or more than 1024 threads.
    """

    def __init__(self, **roles: Role) -> None:
        if not roles:
            raise ValueError("Roles: name at least one role")
        self.threads = 0
        self.named: dict[str, Role] = {}
        for name, role in roles.items():
            if not isinstance(role, Role):
                raise TypeError(f"Roles: {name} must be warp_groups(…), warps(…) or threads(…); got {role!r}")
            if name in vars(self) or name in TAKEN or name.startswith("_"):
                raise ValueError(f"Roles: {name!r} cannot be a role's name: Roles has it itself, or it begins with _")
            if self.threads % role.unit:
                raise ValueError(
                    f"Roles: {name} must begin at a multiple of {role.unit} threads; got {self.threads} before it. "
                    "Name warp groups first, then warps, then threads"
                )
            self.named[name] = dataclasses.replace(role, first=self.threads // role.unit)
            self.threads += role.unit * role.count
        if self.threads > MOST:
            parts = " + ".join(f"{name} {role.unit * role.count}" for name, role in self.named.items())
            raise ValueError(f"Roles: a block has at most {MOST} threads; got {parts} = {self.threads}")
        self.constants = ("threads", *self.named)

    def __getattr__(self, name: str) -> Role:
        try:
            return self.__dict__["named"][name]
        except KeyError:
            raise AttributeError(f"{self} has no role {name!r}") from None

    def __str__(self) -> str:
        return f"Roles({', '.join(f'{name}={role}' for name, role in self.__dict__.get('named', {}).items())})"

    __repr__ = __str__


@device_function(lambda typingctx, role, who: (types.none(role, who), lambda context, builder, sig, args: None))
def require(role, who):
    """Have the interpreter raise where the executing thread does not have the role of `who`; nothing when compiled."""
    if not role.here():
        raise machine().wrong_role(role, who)
