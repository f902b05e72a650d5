"""`jit`: `numba.cuda.jit` with what Hopper needs and Numba-CUDA's dispatcher lacks.

A kernel is compiled for sm_90a by way of LTO-IR (`compile.py`), takes tensor maps as parameters, opens more than 48 KB
of shared memory, and is refused before the launch where its budgets cannot hold.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from types import FunctionType
from typing import Any

import numpy as np
from cuda.bindings import driver
from cuda.core import Kernel, LaunchConfig, ObjectCode
from numba.core.errors import NumbaError
from numba.cuda import types
from numba.cuda.dispatcher import CUDADispatcher
from numba.cuda.extending import typeof_impl

from hopper_numba import interpreter
from hopper_numba.arguments import ADDRESS, BoundLaunch, Configuration, as_parameters
from hopper_numba.compile import Compiled, Resources, compile_kernel
from hopper_numba.device import check, current_device, require_hopper
from hopper_numba.diagnosis import explain
from hopper_numba.fingerprint import captured
from hopper_numba.pipeline import Pipeline
from hopper_numba.residency import too_many_blocks
from hopper_numba.roles import Roles
from hopper_numba.shared import SHARED_NBYTES, SharedLayout
from hopper_numba.streams import on_device, stream_handle
from hopper_numba.tensor_map import TensorMap

GRID = (2**31 - 1, 65535, 65535)
"""Blocks along x, y and z that a launch may have (CUDA C++ Programming Guide, "Compute Capabilities")."""

CLUSTER = 8
"""Blocks of a cluster that every Hopper GPU can launch (CUDA C++ Programming Guide, "Thread Block Clusters")."""


def jit(
    function: FunctionType | None = None,
    *,
    threads: int,
    shared: SharedLayout | None = None,
    cluster: int | tuple[int, ...] = 1,
    min_blocks: int = 1,
    registers: tuple[int | None, ...] | None = None,
    fastmath: bool = False,
) -> Any:
    """Make a kernel of a function, for Hopper.

    Parameters
    ----------
    function : function
        As for ``numba.cuda.jit``; device functions are made by that.
    threads : int
        Threads of a block, 1 to 1024.
    shared : SharedLayout, optional
        The block's dynamic shared memory, at most 227 KiB.
    cluster : int or tuple of int
        Extents of a cluster in blocks, at most 8 blocks in all. A launch's grid is whole clusters.
    min_blocks : int
        Blocks that shall fit on an SM at once: limits the registers of a thread. Their threads and shared memory must
        fit as well.
    registers : tuple of int or None, optional
        For a kernel that executes `warp.setmaxnreg_dec` and `warp.setmaxnreg_inc`: the registers of a thread that each
        warp group has after the one that it executes, None for a group that executes none. Their sum is checked before
        a launch: more than the block has would hang it.
    fastmath : bool

    Returns
    -------
    HopperKernel
        Launched by ``kernel[grid, block, stream](…)``.

    Raises
    ------
    TypeError, ValueError
        For an argument that breaks a rule, with its value; for other `threads` than those of the `Roles` that the
        function names.
    """
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 1024:
        raise ValueError(f"jit: threads must be 1 to 1024; got {threads!r}")
    if isinstance(min_blocks, bool) or not isinstance(min_blocks, int) or not 1 <= min_blocks <= 32:
        raise ValueError(f"jit: min_blocks must be 1 to 32; got {min_blocks!r}")
    extents = (*_dimensions("jit: cluster", cluster), 1, 1)[:3]
    if math.prod(extents) > CLUSTER:
        raise ValueError(f"jit: a cluster has at most {CLUSTER} blocks; got cluster={cluster!r}")
    if shared is not None and not isinstance(shared, SharedLayout):
        raise TypeError(f"jit: shared must be a SharedLayout; got {shared!r}")
    if shared is not None and shared.nbytes > SHARED_NBYTES:
        raise ValueError(f"jit: shared memory of a block is at most {SHARED_NBYTES} bytes; {shared.budget()}")
    if reason := too_many_blocks(min_blocks, threads, 0 if shared is None else shared.nbytes):
        raise ValueError(f"jit: min_blocks is {min_blocks}, and {reason}")

    groups = -(-threads // 128)
    if registers is not None and (not isinstance(registers, tuple) or len(registers) != groups):
        raise ValueError(f"jit: registers must be a tuple of {groups}, one for each warp group; got {registers!r}")
    if registers is not None and threads % 128 and registers[-1] is not None:
        raise ValueError(f"jit: the last warp group of {threads} threads is not whole: its registers must be None")

    def decorate(function: FunctionType) -> HopperKernel:
        if not isinstance(function, FunctionType):
            raise TypeError(f"jit: function must be a Python function; got {function!r}")
        _check_roles(function, threads, shared, math.prod(extents))
        return HopperKernel(function, threads, shared, extents, min_blocks, registers, fastmath)

    return decorate(function) if function is not None else decorate


def _check_roles(function: FunctionType, threads: int, shared: SharedLayout | None, blocks: int) -> None:
    """Refuse threads, and blocks of a cluster, that do not fit the roles that a kernel names and its pipelines."""
    for name, roles in captured(function).items():
        if isinstance(roles, Roles) and roles.threads != threads:
            raise ValueError(f"jit: threads must be {name}.threads, {roles.threads}; got {threads}")
    for name, member in shared.members.items() if shared is not None else ():
        if not isinstance(member, Pipeline):
            continue
        for who, role in (("producers", member.producers), ("consumers", member.consumers)):
            if role.end > threads:
                raise ValueError(f"jit: threads must include {name}'s {who}, {role}; got {threads}")
        if member.cluster not in (1, blocks):
            raise ValueError(f"jit: cluster must have the {member.cluster} blocks of {name}'s; got {blocks}")


class HopperKernel(CUDADispatcher):
    """A kernel for Hopper; made by `jit`.

    Attributes
    ----------
    threads : int
        Threads of a block.
    shared : SharedLayout or None
    cluster : tuple of int
        Three extents, in blocks.
    parameters : tuple of str
        The names of its parameters.
    compiled : dict of tuple to Compiled
        By signature.
    """

    def __init__(
        self,
        function: FunctionType,
        threads: int,
        shared: SharedLayout | None,
        cluster: tuple[int, ...],
        min_blocks: int,
        registers: tuple[int | None, ...] | None,
        fastmath: bool,
    ) -> None:
        super().__init__(function, {"fastmath": fastmath})
        self.threads, self.shared, self.cluster = threads, shared, cluster
        self.min_blocks, self.registers = min_blocks, registers
        self.parameters = tuple(inspect.signature(function).parameters)
        self.compiled: dict[tuple, Compiled] = {}
        self._loaded: dict[tuple, Kernel] = {}  # modules unload with their last owner

    @property
    def shared_nbytes(self) -> int:
        """Bytes of dynamic shared memory of a block."""
        return self.shared.nbytes if self.shared is not None else 0

    @property
    def signatures(self) -> list[tuple]:
        return list(self.compiled)

    def compile(self, sig: tuple) -> Compiled:
        """Compile for a tuple of arguments; needs no GPU.

        Parameters
        ----------
        sig : tuple
            Of Numba types, or of the tensor maps themselves.

        Warns
        -----
        PtxasWarning
            For what ptxas found.

        Raises
        ------
        KernelTypeError
            For an operand that an instruction does not take, with the kernel's line.
        numba.core.errors.NumbaError
            For what else Numba cannot compile.
        TypeError, ValueError
            If `sig` is none for this kernel; if its shared memory exceeds 227 KiB, or that of `min_blocks` blocks an
            SM's; if its warp groups' registers exceed what the block has at launch, or are not stated.
        """
        signature = self._signature(sig)
        if signature not in self.compiled:
            try:
                compiled = compile_kernel(
                    self.py_func, signature, self.threads, self.min_blocks, self.targetoptions["fastmath"]
                )
            except NumbaError as error:
                if (explained := explain(error)) is not None:
                    raise explained from None
                raise
            self._check_shared(compiled)
            self._check_registers(compiled)
            self.compiled[signature] = compiled
        return self.compiled[signature]

    def _signature(self, given: Any) -> tuple[types.Type, ...]:
        if not isinstance(given, tuple) or len(given) != len(self.parameters):
            raise TypeError(
                f"{self.__name__}.compile: it takes a tuple of {len(self.parameters)} Numba types, one for each of "
                f"{', '.join(self.parameters)}; got {given!r}"
            )
        signature = tuple(one.numba_type if isinstance(one, TensorMap) else one for one in given)
        for name, ty in zip(self.parameters, signature, strict=True):
            if not isinstance(ty, types.Type):
                raise TypeError(f"{self.__name__}.compile: {name} must be a Numba type or a TensorMap; got {ty!r}")
        return signature

    def _check_shared(self, compiled: Compiled) -> None:
        if compiled.opened_nbytes > self.shared_nbytes:
            raise ValueError(
                f"{self.__name__}: it opens a SharedLayout of {compiled.opened_nbytes} bytes; jit(shared=…) must name "
                f"it, and names {self.shared}"
            )
        resources = compiled.resources
        total = self.shared_nbytes + resources.static_shared
        if total > SHARED_NBYTES:
            raise ValueError(
                f"{self.__name__}: shared memory of a block is at most {SHARED_NBYTES} bytes; got "
                f"{resources.static_shared} static + {self.shared_nbytes} dynamic = {total}"
            )
        if reason := too_many_blocks(self.min_blocks, self.threads, total):
            raise ValueError(f"{self.__name__}: jit's min_blocks is {self.min_blocks}, and {reason}")

    def _check_registers(self, compiled: Compiled) -> None:
        """Refuse what would hang: a `setmaxnreg.inc` waits until the block's pool has the registers."""
        stated, used = self.registers or (), compiled.register_counts
        if used != set(stated) - {None}:
            raise ValueError(
                f"{self.__name__}: jit's registers must state what each warp group ends with; setmaxnreg names "
                f"{sorted(used)}, registers is {self.registers}"
            )
        at_launch = compiled.resources.registers
        sizes = [min(128, self.threads - first) for first in range(0, self.threads, 128)]
        counts = [at_launch if count is None else count for count in stated]
        needed = sum(count * size for count, size in zip(counts, sizes, strict=False))
        if needed > at_launch * self.threads:
            terms = " + ".join(f"{count} x {size}" for count, size in zip(counts, sizes, strict=True))
            raise ValueError(
                f"{self.__name__}: the warp groups' registers are more than the block has, and would hang it: {terms} "
                f"= {needed} > {at_launch} at launch x {self.threads} threads = {at_launch * self.threads}"
            )

    def _only(self) -> Compiled:
        if not self.compiled:
            raise ValueError(
                f"{self.__name__} is not compiled yet; {self.__name__}.compile(signature) or a launch on a GPU does it"
            )
        if len(self.compiled) != 1:
            raise ValueError(
                f"{self.__name__} is compiled for {len(self.compiled)} signatures; kernel.compiled has them all"
            )
        return next(iter(self.compiled.values()))

    def inspect_asm(self, signature: tuple | None = None) -> Any:
        """As Numba's: PTX of a signature, or of all by signature."""
        return self._of_signature("ptx", signature)

    def inspect_sass(self, signature: tuple | None = None) -> Any:
        """As Numba's: machine code of a signature, or of all by signature."""
        return self._of_signature("sass", signature)

    def get_regs_per_thread(self, signature: tuple | None = None) -> Any:
        """As Numba's: registers of a thread, of a signature, or of all by signature."""
        found = self._of_signature("resources", signature)
        return {sig: one.registers for sig, one in found.items()} if signature is None else found.registers

    def _of_signature(self, name: str, signature: tuple | None) -> Any:
        if signature is not None:
            return getattr(self.compiled[signature], name)
        return {sig: getattr(one, name) for sig, one in self.compiled.items()}

    @property
    def ptx(self) -> str:
        """PTX of the one signature compiled."""
        return self._only().ptx

    @property
    def sass(self) -> str:
        """Machine code of the one signature compiled."""
        return self._only().sass

    @property
    def resources(self) -> Resources:
        """Registers, shared memory and spills of the one signature compiled."""
        return self._only().resources

    def __getitem__(self, configuration: Any) -> Launch:
        """``kernel[grid, block, stream]``, as Numba has it; `block` and `stream` may be left out.

        Parameters
        ----------
        configuration : tuple or int
            `grid`: an int or a tuple of 1 to 3, in blocks, whole clusters of them. Alone, a tuple grid is written
            ``kernel[(x, y),]``. `block`: must be `threads`. `stream`: a handle, or an object with ``__cuda_stream__``.
        """
        given = configuration if isinstance(configuration, tuple) else (configuration,)
        if not 1 <= len(given) <= 3:
            raise ValueError(f"{self.__name__}: a launch takes grid, block and stream; got {configuration}")
        grid, block, stream = (*given, None, None)[:3]
        return Launch(self, self._grid(grid), self._block(block), stream)

    def configure(self, griddim: Any, blockdim: Any = None, stream: Any = None) -> Launch:
        """As ``kernel[griddim, blockdim, stream]``."""
        return self[griddim, blockdim, stream]

    def _grid(self, grid: Any) -> tuple[int, ...]:
        dimensions = _dimensions("grid", grid)
        if any(n % of for n, of in zip((*dimensions, 1, 1)[:3], self.cluster, strict=True)):
            raise ValueError(f"{self.__name__}: grid must be whole clusters of {self.cluster} blocks; got {grid}")
        return dimensions

    def _block(self, block: Any) -> tuple[int, ...]:
        if block is None:
            return (self.threads,)
        dimensions = _dimensions("block", block)
        if math.prod(dimensions) != self.threads:
            raise ValueError(
                f"{self.__name__}: block must have threads={self.threads} threads; got {block}. A grid alone is "
                "written kernel[(x, y),]"
            )
        return dimensions

    @property
    def occupancy(self) -> Occupancy:
        """How many blocks and clusters of the one signature compiled the current GPU runs at once.

        Raises
        ------
        RuntimeError
            If there is no Hopper GPU.
        """
        self._only()
        ordinal = current_device()
        gpu = require_hopper(ordinal)
        with on_device(ordinal):
            loaded = self.load(next(iter(self.compiled)), ordinal)
            config = LaunchConfig(grid=1, cluster=self.cluster, block=self.threads, shmem_size=self.shared_nbytes)
            return Occupancy(
                loaded.occupancy.max_active_blocks_per_multiprocessor(self.threads, self.shared_nbytes),
                loaded.occupancy.max_active_clusters(config, stream=gpu.default_stream),
            )

    def load(self, signature: tuple, device: int) -> Kernel:
        """The kernel of a signature, loaded for a device."""
        found = self._loaded.get((signature, device))
        if found is None:
            compiled = self.compile(signature)
            loaded = ObjectCode.from_cubin(compiled.cubin).get_kernel(compiled.name)
            if self.shared_nbytes:  # 48 KiB with the static shared memory, unless raised
                attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                (status,) = driver.cuKernelSetAttribute(attribute, self.shared_nbytes, int(loaded.handle), device)
                check(status, f"{self.__name__}: cuKernelSetAttribute({self.shared_nbytes})")
            found = self._loaded[signature, device] = loaded
        return found


@dataclasses.dataclass(frozen=True)
class Occupancy:
    """What a GPU runs of a kernel at once.

    Attributes
    ----------
    blocks : int
        On an SM, whatever the cluster.
    clusters : int
        On the whole GPU.
    """

    blocks: int
    clusters: int


class Launch:
    """A kernel with its grid, block and stream; calling it launches."""

    __slots__ = ("block", "grid", "kernel", "stream")

    def __init__(self, kernel: HopperKernel, grid: tuple[int, ...], block: tuple[int, ...], stream: Any) -> None:
        self.kernel, self.grid, self.block, self.stream = kernel, grid, block, stream

    def __call__(self, *args: Any) -> None:
        """Launch, or interpret where that was chosen.

        Raises
        ------
        TypeError
            For an argument that no kernel takes.
        ValueError
            For arguments on several devices, and for budgets that cannot hold.
        RuntimeError
            If there is no Hopper GPU.
        """
        kernel = self.kernel
        if interpreter.active() is not None:
            nbytes = kernel.shared_nbytes
            interpreter.run(kernel.py_func, args, self.grid, self.block, dynamic_shared=nbytes, cluster=kernel.cluster)
            return
        bound = self.bind(*args)
        with on_device(bound.device):
            bound()

    def bind(self, *args: Any) -> BoundLaunch:
        """Compile, load and marshal for a launch on the GPU that may be repeated. Raises as a launch does."""
        kernel = self.kernel
        if len(args) != len(kernel.parameters):
            raise TypeError(f"{kernel.__name__} takes {len(kernel.parameters)} arguments; got {len(args)}")
        signature: list[types.Type] = []
        parameters: list[Any] = []
        addresses: list[int] = []
        device = None
        for name, one in zip(kernel.parameters, args, strict=True):
            ty, values, on = as_parameters(one, name)
            signature.append(ty)
            addresses.append(len(parameters) + ADDRESS)
            parameters += values
            if on is not None and on != device:
                if device is not None:
                    raise ValueError(f"{kernel.__name__}: arguments are on devices {device} and {on}")
                device = on
        if device is None:  # only numbers
            device = current_device()
        require_hopper(device)
        stream = 0 if self.stream is None else stream_handle(self.stream)
        with on_device(device):
            function = driver.CUfunction(int(kernel.load(tuple(signature), device).handle))
        configuration = Configuration(function, self.grid, self.block, kernel.cluster, kernel.shared_nbytes, stream)
        return BoundLaunch(configuration, parameters, addresses, device)


@typeof_impl.register(TensorMap)
def _refuse_in_plain_kernels(value: TensorMap, context: Any) -> None:
    raise TypeError("a plain cuda.jit kernel takes a TensorMap as its to_device(); hopper_numba.jit takes it as it is")


def _dimensions(name: str, extents: Any) -> tuple[int, ...]:
    found = extents if isinstance(extents, tuple) else (extents,)
    if not 1 <= len(found) <= 3 or not all(
        isinstance(n, int | np.integer) and not isinstance(n, bool) and n > 0 for n in found
    ):
        raise ValueError(f"{name} must be one to three positive integers; got {extents!r}")
    if name == "grid" and any(n > limit for n, limit in zip(found, GRID, strict=False)):
        raise ValueError(f"grid must be at most {GRID}; got {extents!r}")
    return tuple(int(n) for n in found)
