"""What a kernel is made of, as one digest: the key of the disk cache.

Everything that a kernel's code reaches counts: the functions it calls, what their closures and globals hold, and what
Numba's own code, the toolkit and this package are.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numba.cuda.dispatcher import CUDADispatcher

from hopper_numba import intrinsics
from hopper_numba.intrinsics.ptx import DeviceFunction
from hopper_numba.intrinsics.tiles import Shared

LIBRARIES = ("numba", "numpy", "math", "operator", "ml_dtypes")
VERSIONED = ("numba", "numba-cuda", "llvmlite", "numpy", "ml_dtypes", "cuda-core", "cuda-bindings")


class Unknown(TypeError):
    """A captured value whose content cannot be told, so that a kernel cannot be cached on disk."""


@functools.cache
def environment() -> str:
    """The versions and the sources that turn a kernel into machine code."""
    from cuda.bindings import nvjitlink, nvvm

    parts = [sys.version, *(f"{name} {importlib.metadata.version(name)}" for name in VERSIONED)]
    parts += [f"libNVVM {nvvm.version()} {nvvm.ir_version()}", f"nvJitLink {nvjitlink.version()}"]
    digest = hashlib.sha256("\n".join(parts).encode())
    for package in (Path(__file__).parent, Path(str(intrinsics.__file__)).parent):
        for path in sorted(package.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def fingerprint(function: types.FunctionType, *options: Any) -> str:
    """The digest of a function, of all that it reaches, of `options` and of the environment.

    Parameters
    ----------
    function : function
    *options : object
        With a `repr` that tells them apart.

    Returns
    -------
    str
        Hexadecimal.

    Raises
    ------
    Unknown
        If a captured value has no content to digest.
    """
    digest = hashlib.sha256(environment().encode())
    digest.update(repr(options).encode())
    for part in _parts(function, set()):
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()


def _parts(value: Any, seen: set[int]) -> Iterator[str | bytes]:
    value = value.py_func if isinstance(value, CUDADispatcher) else value
    if isinstance(value, DeviceFunction):
        yield value.name
        if not _is_library(value.meaning):
            yield from _parts(value.emitted_from, seen)
    elif isinstance(value, types.FunctionType) and not _is_library(value):
        if id(value) not in seen:
            seen.add(id(value))
            yield from _code(value.__code__)
            yield repr((value.__defaults__, value.__kwdefaults__))
            for name, captured in _captured(value):
                yield name
                yield from _parts(captured, seen)
    elif isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.ModuleType | type):
        yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape}"
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, tuple | list | frozenset):
        for element in value:
            yield from _parts(element, seen)
    elif isinstance(value, Shared):
        yield str(value)
    else:
        text = repr(value)
        if " at 0x" in text:
            raise Unknown(f"a kernel reaches {text}, whose content is unknown")
        yield text


def _is_library(function: Callable) -> bool:
    """Whether `environment` stands for this function: it belongs to a package whose version or source is in it."""
    module = function.__module__ or ""
    return module.partition(".")[0] in LIBRARIES or module.startswith(intrinsics.__name__)


def _code(code: types.CodeType) -> Iterator[str | bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant)
        else:
            yield repr(constant)


def _names(code: types.CodeType) -> set[str]:
    inner = [_names(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*inner)


def _captured(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The globals, the closure's cells, and the members of modules that a function names."""
    names = sorted(_names(function.__code__))
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        found[name] = cell.cell_contents
    for name, value in found.items():
        if isinstance(value, types.ModuleType):
            for attribute in names:
                member = getattr(value, attribute, None)
                if isinstance(member, types.ModuleType):
                    for last in names:
                        if hasattr(member, last):
                            yield f"{name}.{attribute}.{last}", getattr(member, last)
                elif member is not None:
                    yield f"{name}.{attribute}", member
        yield name, value
