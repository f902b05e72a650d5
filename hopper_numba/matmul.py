"""`matmul`: check, choose, launch.

A call views its operands, looks up a plan by their geometry and launches. What the geometry decides, the checks of
the layout, the tensor maps and the launch, is in the plan, so that a warm call costs little more than its launch.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from cuda.bindings import driver

from hopper_numba import interpreter
from hopper_numba.arguments import BoundLaunch
from hopper_numba.arrays import ArrayView, DeviceArray, HostArray, c_order
from hopper_numba.copies import scratch, to_device, to_host
from hopper_numba.device import check, default_device, require_hopper
from hopper_numba.jit import GRID
from hopper_numba.kinds import Kind, kind_of
from hopper_numba.matmul_checks import (
    ALIGNMENT,
    DTYPES,
    check_addresses,
    check_in_host,
    check_layout,
    check_out,
    check_place,
    check_product,
)
from hopper_numba.stages import (
    Stage,
    v0_tma,
    v1_wgmma,
    v2_ring,
    v3_specialised,
    v4_pipeline,
    v5_in_flight,
    v6_wide,
)
from hopper_numba.stages.config import Config, default
from hopper_numba.streams import on_device, order, stream_handle, stream_of
from hopper_numba.tensor_map import TensorMap

STAGES = {
    "v0": v0_tma,
    "v1": v1_wgmma,
    "v2": v2_ring,
    "v3": v3_specialised,
    "v4": v4_pipeline,
    "v5": v5_in_flight,
    "v6": v6_wide,
}
"""The stages by name; `build_stage` makes one for a dtype and a config."""

PLANS, LAUNCHES = 256, 8  # plans kept for each thread, launches of a plan on streams and to layouts of the result


def matmul(a: Any, b: Any, out: Any = None, *, stream: Any = None) -> Any:
    """Multiply two matrices on a Hopper GPU: ``a @ b``, as NumPy means it.

    Parameters
    ----------
    a : array of shape (M, K)
        float16 or bfloat16, of NumPy, CuPy, Torch, JAX, Numba, or any kind that exports DLPack or the CUDA array
        interface. K is contiguous, the stride along M a multiple of 16 bytes, and so is the address.
    b : array of shape (K, N)
        Of the same dtype, of any kind. It is K-major: ``x.T`` of an array `x` of shape (N, K) that is laid out as `a`.
    out : array of shape (M, N), optional
        Of the same dtype, of any kind but JAX's; laid out as `a`. It must not overlap `a` or `b`.
    stream : stream, optional
        A handle, or a stream of cuda.core, Torch, CuPy or Numba. Without it, work goes to the stream on which the
        library of `a` works just now (of `b` if that of `a` has none, as NumPy, else of `out`, else to the legacy
        default stream); it begins when the streams of all three have done what is queued on them, and what is queued
        on them later waits for it. With it, work is queued on that stream, and the caller sees to the order and keeps
        the arrays alive.

    Returns
    -------
    array of shape (M, N)
        `out`, or a new array of the kind and dtype of `a`; of kinds that only a protocol is known of, a `DeviceArray`,
        or NumPy's in host memory.
        Products are added in float32 and rounded once.

    Raises
    ------
    TypeError
        If an argument is no array, or of a dtype that is not multiplied here, or cannot be read or written.
    ValueError
        If shapes, strides, addresses, sizes or devices break a rule, or `out` overlaps an operand.
    RuntimeError
        If there is no Hopper GPU.

    Notes
    -----
    K and N are multiples of 8 elements (16 bytes), unless the result or the sum is empty.

    NumPy arrays are copied to the GPU of the other arrays, else to the current one if it is a Hopper GPU, else to the
    first Hopper GPU, and a result is copied back; the call returns when it is there. Nothing else is copied. If a JAX
    array, or one that only a protocol is known of, takes part, the call returns when the work is done, unless
    `stream` is given.

    Within ``hopper_numba.interpret()``, or with HOPPER_NUMBA_INTERPRET=1, the CPU runs the same kernel on arrays in
    host memory, and `stream` does not matter.
    """
    return _matmul("v5", a, b, out, stream)


def matmul_v0(a: Any, b: Any, out: Any = None, *, config: Config | None = None, stream: Any = None) -> Any:
    """As `matmul`, with stage V0: TMA loads, mma.sync. `config` takes the place of what was tuned for the GPU."""
    return _matmul("v0", a, b, out, stream, config)


def matmul_v1(a: Any, b: Any, out: Any = None, *, config: Config | None = None, stream: Any = None) -> Any:
    """As `matmul_v0`, with stage V1: WGMMA straight from shared memory."""
    return _matmul("v1", a, b, out, stream, config)


def matmul_v2(a: Any, b: Any, out: Any = None, *, config: Config | None = None, stream: Any = None) -> Any:
    """As `matmul_v0`, with stage V2: a ring of tiles, loads ahead of the products."""
    return _matmul("v2", a, b, out, stream, config)


def matmul_v3(a: Any, b: Any, out: Any = None, *, config: Config | None = None, stream: Any = None) -> Any:
    """As `matmul_v0`, with stage V3: a warp that loads, a warp group that multiplies."""
    return _matmul("v3", a, b, out, stream, config)


def matmul_v4(a: Any, b: Any, out: Any = None, *, config: Config | None = None, stream: Any = None) -> Any:
    """As `matmul_v0`, with stage V4: two consumers share a tile of B, a `Pipeline`, blocks in groups for L2."""
    return _matmul("v4", a, b, out, stream, config)


def matmul_v5(a: Any, b: Any, out: Any = None, *, config: Config | None = None, stream: Any = None) -> Any:
    """As `matmul_v0`, with stage V5: a product is always in flight."""
    return _matmul("v5", a, b, out, stream, config)


def matmul_v6(a: Any, b: Any, out: Any = None, *, config: Config | None = None, stream: Any = None) -> Any:
    """As `matmul_v0`, with stage V6: four consumers, a result that leaves by TMA; float16 only, **added in float16**.

    At 8192 x 8192 x 8192, with outputs of variance 1, results were off float64 by 0.0023 in the mean and 0.048 at most.
    All other stages add in float32: with N(0, 1) operands V6 was off by 0.21 in the mean there, they by 0.013. Sums
    beyond 65504 overflow, on their way too.
    """
    return _matmul("v6", a, b, out, stream, config)


def dtypes_of(stage: str) -> tuple[np.dtype, ...]:
    """What a stage multiplies, by its name: `DTYPES` of its module where that takes fewer than all."""
    return getattr(STAGES[stage], "DTYPES", DTYPES)


def build_stage(stage: str, dtype: np.dtype, config: Config | None = None, board: str | None = None) -> Stage:
    """Build a stage, or find it built.

    Parameters
    ----------
    stage : str
        One of `STAGES`.
    dtype : numpy.dtype
    config : Config, optional
        The default of the board without it.
    board : str, optional
        As the driver names it; an H200 without it.

    Returns
    -------
    Stage

    Raises
    ------
    TypeError
        For a dtype that the stage does not multiply.
    ValueError
        For a config that it cannot be built with.
    """
    if dtype not in dtypes_of(stage):
        raise TypeError(f"matmul_{stage}: a and b must be of {' or '.join(map(str, dtypes_of(stage)))}; got {dtype}")
    return STAGES[stage].build(dtype, config or default(stage, board))


def _matmul(stage: str, a: Any, b: Any, out: Any, stream: Any, config: Config | None = None) -> Any:
    if config is not None and not isinstance(config, Config):
        raise TypeError(f"matmul: config must be a hopper_numba.Config; got {config!r}")
    a_kind, b_kind = kind_of(a, "matmul: a"), kind_of(b, "matmul: b")
    c_kind = a_kind if out is None else kind_of(out, "matmul: out")
    handle, others = _choose_stream(
        stream, (a_kind.stream(a), b_kind.stream(b), None if out is None else c_kind.stream(out))
    )
    c = None if out is None else c_kind.view(out, "matmul: out", handle)
    first, second = a_kind.glance(a), b_kind.glance(b)
    plan = None
    if first is not None and second is not None:
        a_ptr, b_ptr = first[0], second[0]
        if not (a_ptr | b_ptr) % ALIGNMENT and interpreter.active() is None and _on_gpu(c):
            plan = _plans.glanced.get((stage, config, first[1], second[1]))
    if plan is None:
        x, y = a_kind.view(a, "matmul: a", handle), b_kind.view(b, "matmul: b", handle)
        if interpreter.active() is not None:
            check_in_host(x, y, c)
        elif x.device is None or y.device is None or (c is not None and c.device is None):
            x, y = _to_gpu((a_kind, x), (b_kind, y), (c_kind, c), handle)
        plan, a_ptr, b_ptr = _find_plan(stage, config, x, y), x.ptr, y.ptr
        if first is not None and second is not None:
            _plans.remember((stage, config, first[1], second[1]), plan)
    if c is not None:
        plan.check_out(c, a_ptr, b_ptr)
    with on_device(plan.device):
        for other in others:
            order(other, handle, plan.device)
        if c is None:
            c = a_kind.empty(a, plan.result, handle)
        plan.run(a_ptr, b_ptr, c, handle)
        for other in others:
            order(handle, other, plan.device)
        if stream is None and plan.device is not None and (a_kind.waits or b_kind.waits or c_kind.waits):
            stream_of(handle).sync()
    if out is None:
        return a_kind.deliver(c)
    c_kind.written(out)
    return out


def _on_gpu(c: ArrayView | None) -> bool:
    return c is None or c.device is not None


def _choose_stream(stream: Any, current: tuple[int | None, ...]) -> tuple[int, list[int]]:
    """The handle of the stream to work on, and those to put in order with it."""
    if stream is not None:
        return stream_handle(stream), []
    a, b, out = current
    if a == b and out in (None, a) and a is not None:  # the common case, at once
        return a, []
    known = [handle for handle in current if handle is not None]
    chosen = known[0] if known else 0
    return chosen, [handle for handle in known if handle != chosen]


# Plans ---------------------------------------------------------------------------------------------------------------


class _AnyPlan:
    """What all plans do: check `out`, of which the geometry is checked once. It keeps no array alive."""

    def __init__(self, a: ArrayView, b: ArrayView) -> None:
        self.a, self.b = a.at(0, None), b.at(0, None)
        self.a_span, self.b_span = a.span, b.span
        self.checked: dict[tuple, int] = {}

    def check_out(self, out: ArrayView, a_ptr: int, b_ptr: int) -> None:
        """Check `out` for operands of the plan's geometry at these addresses."""
        geometry = (out.shape, out.strides, out.dtype, out.device, out.readonly)
        nbytes = self.checked.get(geometry)
        if nbytes is None:
            check_out(out, self.a, self.b)
            if len(self.checked) >= LAUNCHES:
                self.checked.clear()
            nbytes = self.checked[geometry] = out.span
        begin, end = out.ptr, out.ptr + nbytes
        is_apart = (a_ptr >= end or begin >= a_ptr + self.a_span) and (b_ptr >= end or begin >= b_ptr + self.b_span)
        if begin % ALIGNMENT or not is_apart:  # only then it is worth a closer look
            check_place(out, self.a.at(a_ptr, None), self.b.at(b_ptr, None))


class _Zeros(_AnyPlan):
    """A result without elements, or whose elements are sums of nothing."""

    def __init__(self, a: ArrayView, b: ArrayView) -> None:
        super().__init__(a, b)
        self.device = b.device if a.device is None else a.device
        self.result = c_order((a.shape[0], b.shape[1]), a.dtype, self.device)

    def run(self, a_ptr: int, b_ptr: int, c: ArrayView, stream: int) -> None:
        m, n = c.shape
        if isinstance(c, HostArray):
            c.owner[...] = 0
        elif m and n:
            with on_device(c.device):
                pitch = max(c.strides[0], n * c.dtype.itemsize)
                (status,) = driver.cuMemsetD2D16Async(c.ptr, pitch, 0, n, m, stream)
            check(status, "matmul: cuMemsetD2D16Async")


class _Plan(_AnyPlan):
    """What the geometry of two operands decides, and their last addresses.

    Tensor maps are changed in place where addresses change, so a plan is one thread's.
    """

    def __init__(self, stage: str, config: Config | None, a: ArrayView, b: ArrayView) -> None:
        super().__init__(a, b)
        (m, self.k), n = a.shape, b.shape[1]
        self.device = a.device
        self.result = c_order((m, n), a.dtype, a.device)
        board = None if self.device is None else require_hopper(self.device).name
        built = build_stage(stage, a.dtype, config, board)
        self.kernel, self.grid = built.kernel, built.grid(m, n)
        if self.grid[1] > GRID[1]:
            most = GRID[1] * built.b.rows
            raise ValueError(f"matmul: N must be at most {most} for tiles of {built.b.rows} columns; got {n}")
        self.a_map, self.b_map = TensorMap(_rows(a), built.a), TensorMap(_columns(b), built.b)
        self.a_ptr, self.b_ptr = a.ptr, b.ptr
        self.c_tile = built.c
        self.launches: dict[tuple, tuple[BoundLaunch, TensorMap | None]] = {}

    def run(self, a_ptr: int, b_ptr: int, c: ArrayView, stream: int) -> None:
        """Multiply two operands of the plan's geometry at these addresses."""
        if a_ptr != self.a_ptr:
            self.a_map.move_to(a_ptr)
            self.a_ptr = a_ptr
        if b_ptr != self.b_ptr:
            self.b_map.move_to(b_ptr)
            self.b_ptr = b_ptr
        if self.device is None:
            result = c.owner if self.c_tile is None else TensorMap(c.owner, self.c_tile)
            self.kernel[self.grid,](self.a_map, self.b_map, result, self.k)
        elif isinstance(c, HostArray):
            target = scratch(self.result, stream)
            self._launch(target, stream)
            to_host(target, c.owner)
        else:
            self._launch(c, stream)

    def _launch(self, c: ArrayView, stream: int) -> None:
        key = (stream, c.strides)
        bound = self.launches.get(key)
        if bound is None:
            if len(self.launches) >= LAUNCHES:
                self.launches.clear()
            c_map = None if self.c_tile is None else TensorMap(_rows(c), self.c_tile)
            launch = self.kernel[self.grid, None, stream].bind(self.a_map, self.b_map, c_map or c, self.k)
            self.launches[key] = bound = launch, c_map
        launch, c_map = bound
        if c_map is None:
            launch.replace_address(2, c.ptr)
        else:
            c_map.move_to(c.ptr)
        launch()


def _rows(matrix: ArrayView) -> Any:
    """For a tensor map: a matrix without its owner, and with a stride where that of a single row means nothing."""
    if isinstance(matrix, HostArray):
        return matrix.owner
    itemsize = matrix.dtype.itemsize
    strides = matrix.strides if matrix.shape[0] > 1 else (matrix.shape[1] * itemsize, itemsize)
    return DeviceArray(matrix.ptr, matrix.shape, strides, matrix.dtype, matrix.device)


def _columns(matrix: ArrayView) -> Any:
    """For a tensor map: the transpose of a matrix, without its owner."""
    if isinstance(matrix, HostArray):
        return matrix.owner.T
    return DeviceArray(matrix.ptr, matrix.shape[::-1], matrix.strides[::-1], matrix.dtype, matrix.device)


class _Plans(threading.local):
    """The plans of a thread, by stage, config and geometry: as views have it, and as a glance at the operands does."""

    def __init__(self) -> None:
        self.found: dict[tuple, _Plan | _Zeros] = {}
        self.glanced: dict[tuple, _Plan | _Zeros] = {}

    def remember(self, glanced: tuple, plan: _Plan | _Zeros) -> None:
        """Find a plan at a glance from now on, if it is kept."""
        if plan in self.found.values():
            while len(self.glanced) >= PLANS:
                del self.glanced[next(iter(self.glanced))]  # the oldest
            self.glanced[glanced] = plan


_plans = _Plans()


def _find_plan(stage: str, config: Config | None, a: ArrayView, b: ArrayView) -> _Plan | _Zeros:
    """The plan for two operands, which are checked."""
    key = (stage, config, a.device, b.device, a.dtype, b.dtype, a.shape, a.strides, b.shape, b.strides)
    plan = _plans.found.get(key)
    if plan is not None:
        if (a.ptr | b.ptr) % ALIGNMENT:
            check_addresses(a, b)
        return plan
    check_product(a, b)
    if 0 in a.shape or 0 in b.shape:
        build_stage(stage, a.dtype, config)  # refuses what it would of others
        return _Zeros(a, b)
    check_layout(a, b)
    plan = _Plan(stage, config, a, b)
    if plan.device is not None:  # one for the interpreter would keep its arrays alive
        while len(_plans.found) >= PLANS:
            del _plans.found[next(iter(_plans.found))]  # the oldest
        _plans.found[key] = plan
    return plan


# Copies --------------------------------------------------------------------------------------------------------------


def _to_gpu(a: tuple[Kind, ArrayView], b: tuple[Kind, ArrayView], out: tuple[Kind, Any], stream: int) -> Any:
    """Views of the operands in GPU memory, those of NumPy arrays copied there; all checks come first."""
    (_, x), (_, y), (_, c) = a, b, out
    check_product(x, y)
    if c is not None:
        check_out(c, x, y)
        check_place(c, x, y)
    for name, (kind, view) in {"a": a, "b": b, "out": out}.items():
        if view is not None and view.device is None and not kind.copied:
            raise TypeError(
                f"matmul: {name} is in host memory; only NumPy arrays are copied to the GPU. Move it there, pass it as "
                "a NumPy array, or interpret the kernel (hopper_numba.interpret)"
            )
    if 0 in x.shape or 0 in y.shape:
        return x, y
    check_layout(x, y)
    devices = [view.device for view in (x, y, c) if view is not None and view.device is not None]
    device = devices[0] if devices else default_device()
    with on_device(device):
        if isinstance(x, HostArray):
            x = to_device(x.owner, device, stream)
        if isinstance(y, HostArray):
            y = to_device(y.owner.T, device, stream).T
    return x, y
