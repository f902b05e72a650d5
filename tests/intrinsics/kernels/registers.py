"""Matrices in registers."""

import itertools

import numpy as np
from numba import cuda, float32, uint32

from hopper_numba.intrinsics import convert, matrix, memory
from hopper_numba.shared import SharedLayout, tile

from .cases import GIVEN, case, placed


def stored():
    fragments = GIVEN[:128].reshape(4, 8, 4).view(np.uint16)  # four matrices of 8 x 8

    def turned(matrix):
        return np.ascontiguousarray(matrix.T)

    def registers(*matrices):
        return np.stack([np.ascontiguousarray(m).view(np.uint32).ravel() for m in matrices], axis=1).ravel()

    a, b, c, d = fragments
    # rows were named backwards: matrices in the opposite order, upside down, of what a transposed store had turned
    backwards = [turned(turned(m)[::-1]) for m in (d, c, b, a)]
    return placed(
        (0, registers(a, b, c, d)),
        (128, registers(*backwards)),
        (256, registers(turned(c), turned(d), turned(c), turned(d))),
        (384, registers(d)),
        (416, registers(d)),
    )


def multiplied():
    """By the manual's fragment formulas, element by element."""
    x, y, z = GIVEN[:32], GIVEN[32:64], GIVEN[64:96]
    f, g, b = (x, y), (y, z), (y, z)
    lanes = np.arange(32)

    def multiply(a_registers, b_registers, c_values):
        a, b, c = np.zeros((16, 16)), np.zeros((16, 8)), np.zeros((16, 8))
        for i, half in itertools.product(range(4), range(2)):
            a[lanes // 4 + 8 * (i % 2), lanes % 4 * 2 + half + 8 * (i // 2)] = a_registers[i][half]
        for i, half in itertools.product(range(2), range(2)):
            b[lanes % 4 * 2 + half + 8 * i, lanes // 4] = b_registers[i][half]
        for i in range(4):
            c[lanes // 4 + 8 * (i // 2), lanes % 4 * 2 + i % 2] = c_values[i]
        d = a @ b + c
        return np.stack([d[lanes // 4 + 8 * (i // 2), lanes % 4 * 2 + i % 2] for i in range(4)], axis=1)

    halves = multiply((g, f, f, g), (f, g), (*f, *g)).astype(np.float16)
    return placed(
        (0, multiply((f, g, g, f), (g, f), (x, y, z, x)).ravel()),
        (128, multiply((b, b, b, b), (b, b), (x, y, z, x)).ravel()),
        (256, halves.view(np.uint32).ravel()),
    )


ROWS = SharedLayout(rows=tile("uint16", (32, 64)))


@case(
    *(f"matrix.{name}_x{n}{end}" for name in ("stmatrix", "ldmatrix") for n in (1, 2, 4) for end in ("", "_trans")),
    threads=32,
    shared=ROWS,
    sass=(
        *(f"LDSM.16.{m}{n} " for m in ("M88", "MT88") for n in ("", ".2", ".4")),
        *(f"STSM.16.{m}{n} " for m in ("M88", "MT88") for n in ("", ".2", ".4")),
    ),
    out=stored,
)
def matrices(given, out):
    rows = ROWS.open().rows
    lane = cuda.threadIdx.x
    a, b, c, d = given[lane], given[32 + lane], given[64 + lane], given[96 + lane]
    matrix.stmatrix_x4(rows.address(lane, 0), (a, b, c, d))
    matrix.stmatrix_x4_trans(rows.address(lane, 8), (a, b, c, d))
    matrix.stmatrix_x2(rows.address(lane, 16), (c, d))
    matrix.stmatrix_x2_trans(rows.address(lane, 24), (c, d))
    matrix.stmatrix_x1(rows.address(lane, 32), (d,))
    matrix.stmatrix_x1_trans(rows.address(lane, 40), (d,))
    cuda.syncthreads()
    a, b, c, d = matrix.ldmatrix_x4(rows.address(lane, 0))
    memory.st_global_v4_b32(memory.address_of(out, (4 * lane,)), (a, b, c, d))
    a, b, c, d = matrix.ldmatrix_x4_trans(rows.address(31 - lane, 8))
    memory.st_global_v4_b32(memory.address_of(out, (128 + 4 * lane,)), (a, b, c, d))
    a, b = matrix.ldmatrix_x2(rows.address(lane % 16, 24))
    c, d = matrix.ldmatrix_x2_trans(rows.address(lane % 16, 16))
    memory.st_global_v4_b32(memory.address_of(out, (256 + 4 * lane,)), (a, b, c, d))
    out[384 + lane] = matrix.ldmatrix_x1(rows.address(lane % 8, 32))[0]
    out[416 + lane] = matrix.ldmatrix_x1_trans(rows.address(lane % 8, 40))[0]


@case(
    "matrix.mma_m16n8k16_f32_f16",
    "matrix.mma_m16n8k16_f32_bf16",
    "matrix.mma_m16n8k16_f16_f16",
    threads=32,
    sass=(r"HMMA.16816.F32 ", r"HMMA.16816.F32.BF16 ", r"HMMA.16816.F16 "),
    out=multiplied,
)
def products(given, out):
    lane = cuda.threadIdx.x
    x, y, z = float32(given[lane]), float32(given[32 + lane]), float32(given[64 + lane])
    f, g, b = convert.pack_f16x2(x, y), convert.pack_f16x2(y, z), convert.pack_bf16x2(y, z)
    a, c, d, e = matrix.mma_m16n8k16_f32_f16((f, g, g, f), (g, f), (x, y, z, x))
    memory.st_global_v4_b32(memory.address_of(out, (4 * lane,)), (uint32(a), uint32(c), uint32(d), uint32(e)))
    a, c, d, e = matrix.mma_m16n8k16_f32_bf16((b, b, b, b), (b, b), (x, y, z, x))
    memory.st_global_v4_b32(memory.address_of(out, (128 + 4 * lane,)), (uint32(a), uint32(c), uint32(d), uint32(e)))
    a, c = matrix.mma_m16n8k16_f16_f16((g, f, f, g), (f, g), (f, g))
    memory.st_global_v2_b32(memory.address_of(out, (256 + 2 * lane,)), (a, c))
