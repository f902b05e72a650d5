"""What `matmul` asks of its operands and of `out`: errors that name the argument, the value and the rule."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from hopper_numba.arrays import ArrayView

DTYPES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
MOST = 2**31 - 1024  # a tile may begin there and a signed coordinate hold it
ALIGNMENT = 16  # bytes, of what TMA reads


def why_no_size(size: Sequence[int], dtype: np.dtype) -> str:
    """Why operands with these M, N and K, laid out without gaps, are none for `matmul`; empty if they are."""
    multiple = ALIGNMENT // dtype.itemsize
    if min(size) < 1 or any(extent % multiple for extent in size[1:]):
        return f"M must be positive, N and K positive multiples of {multiple}; got {' '.join(map(str, size))}"
    if max(size) > MOST:
        return f"M, N and K must be at most {MOST}; got {' '.join(map(str, size))}"
    return ""


def check_in_host(*arrays: ArrayView | None) -> None:
    """What the interpreter takes."""
    for name, array in zip(("a", "b", "out"), arrays, strict=True):
        if array is not None and array.device is not None:
            raise TypeError(
                f"matmul: the interpreter takes arrays in host memory; {name} is on GPU {array.device}. Pass it as a "
                "NumPy array, or leave hopper_numba.interpret() and HOPPER_NUMBA_INTERPRET"
            )


def check_product(a: ArrayView, b: ArrayView) -> None:
    """What holds whatever the layout."""
    for name, operand in (("a", a), ("b", b)):
        if operand.dtype not in DTYPES:
            raise TypeError(f"matmul: {name} must be of float16 or bfloat16; got {operand.dtype}")
        if len(operand.shape) != 2:
            raise ValueError(f"matmul: {name} must have 2 dimensions; got shape {operand.shape}")
    if a.dtype != b.dtype:
        raise TypeError(f"matmul: a and b must have one dtype; got {a.dtype} and {b.dtype}")
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"matmul: a must have as many columns as b has rows; got {a.shape[1]} and {b.shape[0]}, with shapes "
            f"{a.shape} and {b.shape}"
        )
    if a.device != b.device and None not in (a.device, b.device):
        raise ValueError(f"matmul: a and b must be on one GPU; got GPU {a.device} and GPU {b.device}")


def check_layout(a: ArrayView, b: ArrayView) -> None:
    """What these kernels ask of the layout of operands that have elements."""
    itemsize = a.dtype.itemsize
    multiple = ALIGNMENT // itemsize
    for name, extent in (("K, the columns of a and the rows of b,", a.shape[1]), ("N, the columns of b,", b.shape[1])):
        if extent % multiple:
            rule = f"a multiple of {multiple} for {a.dtype}"
            raise ValueError(f"matmul: {name} must be {rule}; got {extent}. Zeros make it one")
    for name, extent in (("M", a.shape[0]), ("N", b.shape[1]), ("K", a.shape[1])):
        if extent > MOST:
            raise ValueError(f"matmul: {name} must be at most {MOST}, as TMA counts elements; got {extent}")
    if a.strides[1] != itemsize:
        raise ValueError(
            f"matmul: a must have a stride of {itemsize} bytes along K, its second dimension; got strides "
            f"{a.strides}. A C-ordered copy has it"
        )
    if b.strides[0] != itemsize:
        raise ValueError(
            f"matmul: b must be K-major, with a stride of {itemsize} bytes along K, its first dimension; got strides "
            f"{b.strides}. Pass b = x.T of a C-ordered array x of shape (N, K); a Fortran-ordered copy has it"
        )
    _check_stride("a", "M", a.shape[0], a.strides[0], a.shape[1] * itemsize)
    _check_stride("b", "N", b.shape[1], b.strides[1], b.shape[0] * itemsize)
    check_addresses(a, b)


def _check_stride(name: str, dimension: str, extent: int, stride: int, row: int) -> None:
    if extent > 1 and (stride % ALIGNMENT or stride < row):
        raise ValueError(
            f"matmul: {name} must have a stride along {dimension} that is a multiple of {ALIGNMENT} bytes and at least "
            f"{row}; got {stride}"
        )


def check_addresses(a: ArrayView, b: ArrayView) -> None:
    """What the addresses of the operands must be."""
    for name, operand in (("a", a), ("b", b)):
        _check_address(name, operand)


def _check_address(name: str, array: ArrayView) -> None:
    if array.ptr % ALIGNMENT:
        raise ValueError(f"matmul: {name} must begin at a multiple of {ALIGNMENT} bytes; got address {array.ptr:#x}")


def check_out(out: ArrayView, a: ArrayView, b: ArrayView) -> None:
    """What the geometry of `out` must be."""
    shape = (a.shape[0], b.shape[1])
    if out.shape != shape:
        raise ValueError(f"matmul: out must have shape {shape}; got {out.shape}")
    if out.dtype != a.dtype:
        raise TypeError(f"matmul: out must have the operands' dtype {a.dtype}; got {out.dtype}")
    if out.readonly:
        raise ValueError("matmul: out must be writable; got a read-only array")
    if 0 in shape:
        return
    devices = (a.device, b.device)
    if out.device is not None and any(device not in (None, out.device) for device in devices):
        raise ValueError(f"matmul: out must be on the operands' GPU; got GPU {out.device}, and a and b on {devices}")
    itemsize = out.dtype.itemsize
    if out.strides[1] != itemsize:
        raise ValueError(
            f"matmul: out must have a stride of {itemsize} bytes along N, its second dimension; got strides "
            f"{out.strides}"
        )
    _check_stride("out", "M", shape[0], out.strides[0], shape[1] * itemsize)


def check_place(out: ArrayView, a: ArrayView, b: ArrayView) -> None:
    """What the address of `out` must be, now that its layout is right."""
    if 0 in out.shape:
        return
    _check_address("out", out)
    for name, operand in (("a", a), ("b", b)):
        if operand.device == out.device and 0 not in operand.shape and _overlap(out, operand):
            raise ValueError(f"matmul: out must not overlap {name}; got {out} and {operand}")


def _overlap(first: ArrayView, second: ArrayView) -> bool:
    """Whether two matrices share bytes; True also where rows of different strides merely interleave."""
    begin, rows, row, stride = _extent(first)
    other, other_rows, other_row, other_stride = _extent(second)
    if begin + (rows - 1) * stride + row <= other or other + (other_rows - 1) * other_stride + other_row <= begin:
        return False
    if stride != other_stride or rows == 1 or other_rows == 1:
        return True
    column = (other - begin) % stride  # where the other's rows begin in these rows
    return column < row or column + other_row > stride


def _extent(matrix: ArrayView) -> tuple[int, int, int, int]:
    """The address, and number, bytes and stride of the rows: of what is contiguous."""
    (rows, columns), (stride, inner) = matrix.shape, matrix.strides
    if inner != matrix.dtype.itemsize:
        rows, columns, stride = columns, rows, inner
    return matrix.ptr, rows, columns * matrix.dtype.itemsize, stride
