"""The functions that a kernel is made of, and the layouts of shared memory that they name."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any

from numba.cuda.dispatcher import CUDADispatcher

from hopper_numba.fingerprint import captured
from hopper_numba.shared import SharedLayout

LIBRARIES = ("builtins", "numba", "numpy", "math", "operator", "ml_dtypes")
INSTRUCTIONS = ("hopper_numba.intrinsics", "hopper_numba.interpreter", "hopper_numba.shared")


class Reached:
    """What a kernel reaches, by following names.

    Of a class or a layout that is reached, those methods count that some function reached may mean: by their names.

    Parameters
    ----------
    kernel : function or dispatcher

    Attributes
    ----------
    functions : list of function
    layouts : list of SharedLayout
    """

    def __init__(self, kernel: Any) -> None:
        self.functions: list[types.FunctionType] = []
        self.layouts: list[SharedLayout] = []
        self._seen: dict[int, Any] = {}  # holds what it has seen, so that no id is used again
        self._methods: list[Mapping[str, Any]] = []
        self._names: set[str] = set()
        self._visit(kernel, set())
        found = -1
        while found != len(self._seen):
            found = len(self._seen)
            for methods in [*self._methods]:
                for name in sorted(self._names & methods.keys()):
                    self._visit(methods[name], self._names)

    def _visit(self, value: Any, names: set[str]) -> None:
        """Follow a value that a function of these names reaches."""
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, CUDADispatcher):
            self._visit(value.py_func, names)
        elif isinstance(value, types.FunctionType):
            if _is_ours(value.__module__):
                self._function(value)
        elif isinstance(value, property | staticmethod | classmethod):
            self._visit(value.fget if isinstance(value, property) else value.__func__, names)
        elif isinstance(value, types.ModuleType):
            if _is_ours(value.__name__):
                for name in sorted(names & vars(value).keys()):
                    self._visit(vars(value)[name], names)
        elif isinstance(value, SharedLayout):
            self.layouts.append(value)
            self._methods.append(value.methods)
            self._visit([*vars(value).values()], names)
        elif isinstance(value, tuple | list | dict):
            for item in value.values() if isinstance(value, dict) else value:
                self._visit(item, names)
        elif isinstance(value, type):
            if _is_ours(value.__module__):
                self._methods += [vars(cls) for cls in value.__mro__ if _is_ours(cls.__module__)]
        elif _is_ours(type(value).__module__):
            self._visit(type(value), names)
            for held in getattr(value, "__dict__", {}).values():
                self._visit(held, names)

    def _function(self, function: types.FunctionType) -> None:
        self.functions.append(function)
        names = set(names_of(function.__code__))
        self._names |= names
        for _, value in sorted(captured(function).items()):
            self._visit(value, names)


def names_of(code: types.CodeType) -> Iterator[str]:
    """The names of globals, of the closure, and of attributes in a function, and in those inside it."""
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_of(constant)


def _is_ours(module: str | None) -> bool:
    module = module or ""
    return module.partition(".")[0] not in LIBRARIES and not module.startswith(INSTRUCTIONS)
