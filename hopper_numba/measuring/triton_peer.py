"""A peer: Triton's kind of matmul for Hopper, persistent, its tiles brought and taken by TMA."""

import dataclasses
import functools
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from hopper_numba.measuring.timing import seconds

TILE_M, TILE_N, TILE_K, GROUP, WARPS = 128, 256, 64, 8, 8


@dataclasses.dataclass(frozen=True)
class Choice:
    """What is tried: tiles in flight, and whether C is stored in two halves."""

    stages: int
    halves: bool


# More stages, or C in one piece beside four of them, do not fit into shared memory. Triton 3.6 specialises warps on
# Blackwell only.
CHOICES = (Choice(3, False), Choice(3, True), Choice(4, True))

_chosen: dict[tuple[Any, ...], Choice] = {}


@triton.jit
def _place(tile, rows, columns, GROUP: tl.constexpr):
    """The row and column of a tile; tiles go down `GROUP` rows before they go right, for L2."""
    first = tile // (GROUP * columns) * GROUP
    height = tl.minimum(rows - first, GROUP)
    inside = tile % (GROUP * columns)
    return first + inside % height, inside // height


@triton.jit
def _kernel(
    a,
    b,
    c,
    m,
    n,
    k,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCKS: tl.constexpr,
    HALVES: tl.constexpr,
    DTYPE: tl.constexpr,
):
    rows = tl.cdiv(m, TILE_M)
    columns = tl.cdiv(n, TILE_N)
    stored = tl.program_id(0) - BLOCKS
    for tile in tl.range(tl.program_id(0), rows * columns, BLOCKS, flatten=True):
        row, column = _place(tile, rows, columns, GROUP)
        acc = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
        for step in range(tl.cdiv(k, TILE_K)):
            left = a.load([row * TILE_M, step * TILE_K])
            right = b.load([column * TILE_N, step * TILE_K])
            acc = tl.dot(left, right.T, acc)
        # Placed a second time, by a counter of its own: the loads of the next tile need not wait for this store.
        stored += BLOCKS
        row, column = _place(stored, rows, columns, GROUP)
        if HALVES:
            parts = tl.permute(tl.reshape(acc, (TILE_M, 2, TILE_N // 2)), (0, 2, 1))
            low, high = tl.split(parts)
            c.store([row * TILE_M, column * TILE_N], low.to(DTYPE))
            c.store([row * TILE_M, column * TILE_N + TILE_N // 2], high.to(DTYPE))
        else:
            c.store([row * TILE_M, column * TILE_N], acc.to(DTYPE))


def matmul(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """Multiply; the first call with a shape and a dtype tries `CHOICES`.

    Parameters
    ----------
    a, b, out : torch.Tensor
        (M, K); (K, N), the transpose of a C-ordered (N, K); (M, N). float16 or bfloat16.

    Raises
    ------
    RuntimeError
        If Triton can launch none of the choices; says what it says of the last.
    """
    key = (a.dtype, *a.shape, b.shape[1])
    if key not in _chosen:
        _chosen[key] = _choose(a, b, out)
    _launch(a, b, out, _chosen[key])


def _choose(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> Choice:
    times, refusal = {}, None
    for choice in CHOICES:
        try:
            _launch(a, b, out, choice)
            times[choice] = min(seconds(functools.partial(_launch, a, b, out, choice), 5) for _ in range(3))
        except Exception as error:  # of its compiler, ptxas or the driver: they share no base
            refusal = error
    if not times:
        raise RuntimeError(f"Triton compiles none of {len(CHOICES)} choices") from refusal
    return min(times, key=times.__getitem__)


def _launch(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, choice: Choice) -> None:
    (m, k), n = a.shape, b.shape[1]
    blocks = torch.cuda.get_device_properties(a.device).multi_processor_count
    _kernel[(min(blocks, triton.cdiv(m, TILE_M) * triton.cdiv(n, TILE_N)),)](
        TensorDescriptor.from_tensor(a, [TILE_M, TILE_K]),
        TensorDescriptor.from_tensor(b.T, [TILE_N, TILE_K]),
        TensorDescriptor.from_tensor(out, [TILE_M, TILE_N // 2 if choice.halves else TILE_N]),
        m,
        n,
        k,
        TILE_M=TILE_M,
        TILE_N=TILE_N,
        TILE_K=TILE_K,
        GROUP=GROUP,
        BLOCKS=blocks,
        HALVES=choice.halves,
        DTYPE=tl.bfloat16 if a.dtype == torch.bfloat16 else tl.float16,
        num_stages=choice.stages,
        num_warps=WARPS,
    )
