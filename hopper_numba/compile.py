"""From a Python function to a cubin for sm_90a: Numba, libNVVM to LTO-IR, nvJitLink; and what ptxas says on the way.

The PTX route would assemble relocatable code, in which ptxas drops `setmaxnreg`. Nothing here needs a GPU.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import re
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import numba.cuda.compiler
import numba.cuda.dispatcher
from cuda.bindings.nvjitlink import nvJitLinkError
from cuda.core import Linker, LinkerOptions, ObjectCode
from cuda.core.utils import FileStreamProgramCache
from cuda.pathfinder import find_nvidia_binary_utility
from llvmlite import ir
from llvmlite.ir.values import ArgumentAttributes
from numba import cuda
from numba.cuda import cgutils
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.cudadrv.nvvm import NvvmWarning

from hopper_numba.fingerprint import Unknown, fingerprint
from hopper_numba.intrinsics.types import DESCRIPTOR, OPENED

TARGET = (9, 0, "a")
ARCH = "sm_90a"
FINDINGS = re.compile(r"[^\n]*\(C75(?:04|08|1\d)\)[^\n]*|[^\n]*[Pp]otential Performance Loss[^\n]*")


class PtxasWarning(UserWarning):
    """What ptxas did to a kernel that its author did not ask for: spills, serialised WGMMA, a dropped setmaxnreg."""


class CacheWarning(UserWarning):
    """The disk cache cannot be used; kernels are compiled in every process."""


class CompileError(RuntimeError):
    """libNVVM or nvJitLink refused a kernel."""


@dataclasses.dataclass(frozen=True)
class Resources:
    """What a kernel takes, as ptxas reports it.

    Attributes
    ----------
    registers : int
        Per thread at launch.
    static_shared : int
        Bytes of statically allocated shared memory a block.
    stack, spill_stores, spill_loads : int
        Bytes a thread.
    """

    registers: int
    static_shared: int
    stack: int
    spill_stores: int
    spill_loads: int


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A kernel compiled for one signature.

    Attributes
    ----------
    name : str
        The entry's symbol.
    cubin : bytes
    ptx : str
    log : str
        nvJitLink's and ptxas's.
    """

    name: str
    cubin: bytes = dataclasses.field(repr=False)
    ptx: str = dataclasses.field(repr=False)
    log: str = dataclasses.field(repr=False)

    @functools.cached_property
    def resources(self) -> Resources:
        """Registers, shared memory, stack and spills."""

        def numbers(pattern: str) -> list[int]:
            return [int(n) for n in re.findall(pattern, self.log)]

        # functions that were not inlined have lines of their own
        return Resources(
            registers=max(numbers(r"Used (\d+) registers"), default=0),
            static_shared=max(numbers(r"(\d+) bytes smem"), default=0),
            stack=max(numbers(r"(\d+) bytes stack frame"), default=0),
            spill_stores=sum(numbers(r"(\d+) bytes spill stores")),
            spill_loads=sum(numbers(r"(\d+) bytes spill loads")),
        )

    @functools.cached_property
    def register_counts(self) -> set[int]:
        """The counts that the kernel's `setmaxnreg` name."""
        return {int(n) for n in re.findall(r"setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32\s+(\d+)", self.ptx)}

    @functools.cached_property
    def opened_nbytes(self) -> int:
        """Bytes of dynamic shared memory that the kernel opens by a layout."""
        return max((int(n) for n in re.findall(rf"\b{OPENED}(\d+)\b", self.ptx)), default=0)

    @functools.cached_property
    def findings(self) -> list[str]:
        """What ptxas did that slows the kernel or changes its meaning."""
        found = [in_short(line) for line in FINDINGS.findall(self.log)]
        if self.resources.spill_stores or self.resources.spill_loads:
            stored, loaded = self.resources.spill_stores, self.resources.spill_loads
            found.append(f"registers spill: {stored} bytes stored, {loaded} bytes loaded a thread")
        return found

    @functools.cached_property
    def sass(self) -> str:
        """The machine code, disassembled by nvdisasm.

        Raises
        ------
        RuntimeError
            If nvdisasm is not installed.
        """
        nvdisasm = find_nvidia_binary_utility("nvdisasm")
        if nvdisasm is None:
            raise RuntimeError("nvdisasm was not found: pip install nvidia-cuda-nvdisasm")
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(self.cubin)
            file.flush()
            return subprocess.run([nvdisasm, file.name], capture_output=True, text=True, check=True).stdout

    def to_bytes(self) -> bytes:
        """A digest, then the texts and the cubin."""
        body = json.dumps([self.name, self.ptx, self.log]).encode() + b"\n" + self.cubin
        return hashlib.sha256(body).hexdigest().encode() + b"\n" + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Compiled:
        """What `to_bytes` gave. Raises ValueError if it is not whole."""
        digest, _, body = data.partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise ValueError("a cached kernel is not whole")
        head, _, cubin = body.partition(b"\n")
        name, ptx, log = json.loads(head)
        return cls(name, cubin, ptx, log)


# A tensor map travels as a __grid_constant__ parameter ---------------------------------------------------------------


class _ByValue(ArgumentAttributes):
    """NVVM's IR takes a bare `byval`; llvmlite would print the typed form."""

    def _to_list(self, type_: Any) -> list[str]:
        return ["byval", "align 64"]


def _mark_grid_constants(kernel: Any) -> None:
    indices = [i for i, argument in enumerate(kernel.args) if argument.type == DESCRIPTOR.as_pointer()]
    for i in indices:
        kernel.args[i].attributes = _ByValue()
    if indices:
        module = kernel.module
        listed = module.add_metadata([ir.Constant(ir.IntType(32), i + 1) for i in indices])
        annotation = module.add_metadata((kernel, ir.MetaDataString(module, "grid_constant"), listed))
        cgutils.get_or_insert_named_metadata(module, "nvvm.annotations").add(annotation)


def _extend_kernel_fixup() -> None:
    """Let Numba's last touch to a kernel mark its tensor maps too; it acts on nothing else."""
    plain = numba.cuda.compiler.kernel_fixup

    def kernel_fixup(kernel: Any, debug: bool) -> None:
        plain(kernel, debug)
        _mark_grid_constants(kernel)

    numba.cuda.compiler.kernel_fixup = kernel_fixup
    numba.cuda.dispatcher.kernel_fixup = kernel_fixup  # imported there by name


_extend_kernel_fixup()


@contextmanager
def _hopper_target() -> Iterator[None]:
    """Device functions ask the current device for its target: it is Hopper's, whatever this machine has."""
    asked = numba.cuda.dispatcher.get_current_device
    numba.cuda.dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=TARGET)
    try:
        yield
    finally:
        numba.cuda.dispatcher.get_current_device = asked


# Compiling -----------------------------------------------------------------------------------------------------------


@functools.cache
def disk_cache() -> FileStreamProgramCache | None:
    """The cache of compiled kernels: HOPPER_NUMBA_CACHE_DIR, or a folder under the user's cache; empty disables it."""
    folder = os.environ.get("HOPPER_NUMBA_CACHE_DIR")
    if folder == "":
        return None
    try:
        return FileStreamProgramCache(folder or _user_cache() / "hopper_numba")
    except (OSError, RuntimeError) as error:
        warnings.warn(f"kernels are not cached on disk: {error}", CacheWarning, stacklevel=2)
        return None


def _user_cache() -> Path:
    """As the XDG base directory specification has it. Raises RuntimeError for a user without a home."""
    stated = os.environ.get("XDG_CACHE_HOME", "")
    return Path(stated) if os.path.isabs(stated) else Path.home() / ".cache"


def compile_kernel(
    function: FunctionType, signature: tuple, threads: int, min_blocks: int = 1, fastmath: bool = False
) -> Compiled:
    """Compile a kernel for sm_90a, or find it in the disk cache.

    Parameters
    ----------
    function : function
    signature : tuple of Numba types
        Of its arguments.
    threads : int
        Threads of a block.
    min_blocks : int
        Blocks that shall fit on an SM; limits the registers.
    fastmath : bool

    Returns
    -------
    Compiled

    Warns
    -----
    PtxasWarning
        For every finding.

    Raises
    ------
    CompileError
        If libNVVM warns, or nvJitLink fails.
    numba.cuda.core.errors.NumbaError
        If the kernel cannot be typed.
    """
    cache = disk_cache()
    key = ""
    if cache is not None:
        try:
            key = fingerprint(function, signature, threads, min_blocks, fastmath, ARCH)
        except Unknown:
            cache = None
    compiled = _stored(cache, key) if cache is not None else None
    if compiled is None:
        compiled = compile_anew(function, signature, threads, min_blocks, fastmath)
        if cache is not None:
            _store(cache, key, compiled)
    for finding in compiled.findings:
        warnings.warn(f"{function.__qualname__}: {finding}", PtxasWarning, stacklevel=3)
    return compiled


def in_short(text: str) -> str:
    """What the toolkit complains of, without the mangled name of the kernel and what follows from it."""
    line = next((line for line in text.splitlines() if re.search(r"\(C\d+\)", line)), text)
    return re.sub(r"\s+", " ", re.sub(r" in (the )?function '?_Z\w+'?", "", line)).strip()


def _stored(cache: FileStreamProgramCache, key: str) -> Compiled | None:
    """What the cache has, if it is whole."""
    try:
        stored = cache.get(key)
        return Compiled.from_bytes(stored) if stored is not None else None
    except (OSError, ValueError):
        return None


def _store(cache: FileStreamProgramCache, key: str, compiled: Compiled) -> None:
    try:
        cache[key] = compiled.to_bytes()
    except OSError as error:
        warnings.warn(f"a kernel is not cached on disk: {error}", CacheWarning, stacklevel=3)


@global_compiler_lock
def compile_anew(function: FunctionType, signature: tuple, threads: int, min_blocks: int, fastmath: bool) -> Compiled:
    """As `compile_kernel`, past the disk cache and without a word of what ptxas found."""
    with _hopper_target(), warnings.catch_warnings():
        # libNVVM drops what it warns about
        warnings.simplefilter("error", NvvmWarning)
        try:
            # with what Numba has for half precision in C++
            parts, _ = cuda.compile_all(
                function,
                signature,
                cc=TARGET,
                output="ltoir",
                device=False,
                abi="numba",
                fastmath=fastmath,
                # without min_blocks ptxas ignores setmaxnreg
                launch_bounds=(threads, min_blocks),
            )
        except NvvmWarning as warning:
            raise CompileError(f"{function.__qualname__}: libNVVM: {warning}") from None
    inputs = [part if isinstance(part, ObjectCode) else ObjectCode.from_ltoir(part) for part in parts]
    ptx, _ = _link(inputs, "ptx", ptx=True)
    try:
        cubin, log = _link(inputs, "cubin", ptxas_options=["-v"])
    except CompileError as error:
        if "Insufficient registers" not in str(error) or min_blocks == 1:
            raise
        raise CompileError(
            f"{function.__name__}: min_blocks={min_blocks} blocks of {threads} threads on an SM leave each thread "
            f"too few registers: {in_short(str(error))}"
        ) from error
    name = re.search(r"Compiling entry function '([^']+)'", log)
    if name is None:
        raise CompileError(f"{function.__qualname__}: nvJitLink names no entry:\n{log}")
    return Compiled(name[1], cubin.code, ptx.code.decode(), log)


def _link(inputs: list[ObjectCode], output: str, **options: Any) -> tuple[ObjectCode, str]:
    # nvJitLink's own cache would answer without ptxas's log
    settings = LinkerOptions(arch=ARCH, link_time_optimization=True, no_cache=True, **options)
    try:
        linker = Linker(*inputs, options=settings)
        return linker.link(output), linker.get_info_log()
    except (RuntimeError, nvJitLinkError) as error:
        raise CompileError(f"nvJitLink: {error}") from error  # cuda.core puts the log in its message
