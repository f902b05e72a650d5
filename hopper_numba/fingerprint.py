"""What a kernel is made of, as one digest: the key of the disk cache.

Everything that a kernel's code reaches counts: the functions it calls, what their closures and globals hold, and what
Numba's own code, the toolkit and this package are.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import importlib.metadata
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from cuda.pathfinder import load_nvidia_dynamic_lib
from numba.core.typing import templates as core_templates
from numba.cuda.cudadecl import registry as cuda_registry
from numba.cuda.dispatcher import CUDADispatcher
from numba.cuda.extending import _Intrinsic
from numba.cuda.typing import templates

from hopper_numba import intrinsics
from hopper_numba.intrinsics.ptx import DeviceFunction
from hopper_numba.intrinsics.tiles import Description

LIBRARIES = ("builtins", "numba", "numpy", "math", "operator", "ml_dtypes")
VERSIONED = ("numba", "numba-cuda", "llvmlite", "numpy", "ml_dtypes", "cuda-core", "cuda-bindings")
REGISTRIES = (templates.builtin_registry, core_templates.builtin_registry, cuda_registry)
"""Where overloads of functions are registered."""


class Unknown(TypeError):
    """A captured value whose content cannot be told, so that a kernel cannot be cached on disk."""


@functools.cache
def environment() -> str:
    """The versions and the sources that turn a kernel into machine code."""
    from cuda.bindings import nvjitlink, nvvm

    parts = [sys.version, *(f"{name} {importlib.metadata.version(name)}" for name in VERSIONED)]
    parts += [f"libNVVM {nvvm.version()} {nvvm.ir_version()}", f"nvJitLink {nvjitlink.version()}"]
    for library in ("nvvm", "nvJitLink"):  # these versions leave out the patch
        path = load_nvidia_dynamic_lib(library).abs_path
        parts.append(f"{library} {os.stat(path).st_size} {os.stat(path).st_mtime_ns}" if path else library)
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
    if isinstance(value, CUDADispatcher):
        yield repr(sorted(value.targetoptions.items(), key=str))
        value = value.py_func
    elif isinstance(value, types.FunctionType) and not _is_library(value) and _is_overloaded(value):
        raise Unknown(f"a kernel reaches overloads of {value.__qualname__}")
    if isinstance(value, DeviceFunction):
        yield value.name
        if not _is_library(value.meaning):
            yield from _parts(value.emitted_from, seen)
    elif isinstance(value, types.FunctionType) and not _is_library(value):
        if id(value) not in seen:
            seen.add(id(value))
            yield from _code(value.__code__)
            yield from _parts((value.__defaults__, value.__kwdefaults__), seen)
            for name, reached in _reached(value):
                yield name
                yield from _parts(reached, seen)
    elif isinstance(value, _Intrinsic) and not _is_library(value._defn):
        yield from _parts(value._defn, seen)
    elif isinstance(value, enum.EnumType):
        yield value.__qualname__
        members: Any = value.__members__
        yield from _parts({name: one.value for name, one in members.items()}, seen)
    elif isinstance(value, type) and not _is_library(value):
        raise Unknown(f"a kernel reaches {value}, whose content is unknown")
    elif isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.ModuleType | type):
        yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape}"
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, tuple | list):
        yield f"{type(value).__qualname__} of {len(value)} {getattr(value, '_fields', '')}"
        for element in value:
            yield from _parts(element, seen)
    elif isinstance(value, set | frozenset):
        yield from sorted(repr(list(_parts(element, seen))) for element in value)
    elif isinstance(value, dict):
        for key, element in value.items():
            yield repr(key)
            yield from _parts(element, seen)
    elif isinstance(value, Description):
        yield str(value)
    else:
        text = repr(value)
        if " at 0x" in text:
            raise Unknown(f"a kernel reaches {text}, whose content is unknown")
        yield text


def _is_overloaded(function: types.FunctionType) -> bool:
    """Whether Numba puts other code in the place of this function: whether somebody registered it.

    A look at the registries; to ask Numba's typing context would load all of Numba's own functions first.
    """
    return any(value is function for registry in REGISTRIES for value, _ in registry.globals)


def _is_library(value: Callable | type) -> bool:
    """Whether `environment` stands for this value: it belongs to a package whose version or source is in it."""
    module = value.__module__ or ""
    return module.partition(".")[0] in LIBRARIES or module.startswith(intrinsics.__name__)


def _code(code: types.CodeType) -> Iterator[str | bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant)
        else:
            yield from _parts(constant, set())


def _names(code: types.CodeType) -> set[str]:
    inner = [_names(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*inner)


def captured(function: types.FunctionType) -> dict[str, Any]:
    """The globals and the closure's cells that a function names, and the functions inside it."""
    names = sorted(_names(function.__code__))
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not assigned yet
            found[name] = cell.cell_contents
    return found


def _reached(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function captures, and the members of modules that it names."""
    names = sorted(_names(function.__code__))
    for name, value in captured(function).items():
        yield from _members(name, value, names, depth=4)


def _members(path: str, value: Any, names: list[str], depth: int) -> Iterator[tuple[str, Any]]:
    """A value, and of a module the members that the function may ask for, down to a depth."""
    if not isinstance(value, types.ModuleType):
        yield path, value
        return
    yield path, value.__name__
    if value.__name__.partition(".")[0] in LIBRARIES:
        return
    for name in names:
        if hasattr(value, name):
            if depth == 0:
                raise Unknown(f"a kernel may reach members of {path}, deeper than is looked")
            yield from _members(f"{path}.{name}", getattr(value, name), names, depth - 1)
