"""A kernel's functions as the interpreter runs them: the same code over other globals.

In the copy `numba.cuda` and `math` are the interpreter's stand-ins, device functions are copies of their Python
functions, scalar types convert as the GPU does, and modules are looked at through the same glass. All else stays what
it is.
"""

from __future__ import annotations

import math
import types
from typing import Any

import numba.cuda
from numba.cuda.dispatcher import CUDADispatcher

from .cuda_namespace import CudaNamespace
from .mathematics import MATHEMATICS, by_identity
from .scalars import scalar_type
from .source import MARK


class ModuleView:
    """A module whose members are translated when they are first looked at."""

    def __init__(self, module: types.ModuleType, rewriter: Rewriter) -> None:
        self._module, self._rewriter = module, rewriter

    def __getattr__(self, name: str) -> Any:
        value = self._rewriter.translate(getattr(self._module, name))
        self.__dict__[name] = value
        return value

    def __repr__(self) -> str:
        return repr(self._module)


class Rewriter:
    """Copies functions, each once.

    Parameters
    ----------
    cuda : CudaNamespace
        What `numba.cuda` becomes.
    """

    def __init__(self, cuda: CudaNamespace) -> None:
        self._cuda = cuda
        self._copies: dict[int, Any] = {}
        self._originals: list[Any] = []  # keeps ids from being used again
        self._numba_names = {
            id(value): name
            for name, value in vars(numba.cuda).items()
            if not name.startswith("_") and not isinstance(value, types.ModuleType) and _is_numbas(value)
        }

    def function(self, function: types.FunctionType) -> types.FunctionType:
        """The copy of a function, and of all that it reaches."""
        found = self._copies.get(id(function))
        if found is not None:
            return found
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        namespace = {MARK: True, "__builtins__": function.__globals__.get("__builtins__", __builtins__)}
        copy = types.FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, cells)
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__qualname__ = function.__qualname__
        self._copies[id(function)] = copy
        self._originals.append(function)
        for name in _names(function.__code__) & function.__globals__.keys():
            namespace[name] = self.translate(function.__globals__[name])
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            try:
                contents = original.cell_contents
            except ValueError:  # not assigned yet
                continue
            cell.cell_contents = self.translate(contents)
        return copy

    def translate(self, value: Any) -> Any:
        """What stands for `value` in a copy."""
        if value is numba.cuda:
            return self._cuda
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if isinstance(value, CUDADispatcher):
            return self.function(value.py_func)
        if type(value) is tuple:
            return tuple(self.translate(item) for item in value)
        scalar = scalar_type(value)
        if scalar is not None:
            return scalar
        if id(value) in by_identity():
            return by_identity()[id(value)]
        name = self._numba_names.get(id(value))
        return value if name is None else self._cuda.member(name)

    def _module(self, module: types.ModuleType) -> Any:
        if module is math:
            return MATHEMATICS
        if module.__name__.startswith("hopper_numba.intrinsics"):
            return module  # nothing to translate, and often used
        found = self._copies.get(id(module))
        if found is None:
            found = self._copies[id(module)] = ModuleView(module, self)
            self._originals.append(module)
        return found


def _names(code: types.CodeType) -> set[str]:
    """The global names that a function and those inside it use; attributes' too."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _is_numbas(value: Any) -> bool:
    """Whether numba.cuda defines it."""
    module = getattr(value, "__module__", None) or type(value).__module__
    return isinstance(module, str) and module.startswith("numba.cuda")
