"""Every registered instruction, executed by the interpreter, gives what is worked out here without it."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from kernels import CASES, GIVEN, interpret

# What is in `out`, by the kernel's name; 777 where nothing was written ------------------------------------------------

T = np.arange(128)


def placed(*parts):
    """An array of what begins at each offset."""
    out = np.full(1024, 777, np.uint32)
    for offset, values in parts:
        values = np.asarray(values)
        out[offset : offset + len(values)] = values
    return out


def who():
    t = np.arange(256)
    return placed((0, t % 32 | t // 32 << 8 | t // 128 << 16 | (t % 32 == 0) << 24))


def conversions():
    low = GIVEN[T].astype(np.float32) + np.float32(0.1)
    high = -GIVEN[T + 1].astype(np.float32) / np.float32(3)

    def pairs(low, high, dtype):
        halves = np.stack([low, high], axis=1).astype(dtype)
        return halves.view(np.uint32).ravel(), *halves.astype(np.float32).T

    f16, *of_f16 = pairs(low, high, np.float16)
    bf16, *of_bf16 = pairs(low, high, ml_dtypes.bfloat16)
    return placed(
        (0, np.stack([f16, bf16], axis=1).ravel()),
        (256, pairs(*of_f16, ml_dtypes.bfloat16)[0]),
        (384, pairs(*of_bf16, np.float16)[0]),
    )


def matrices():
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


def products():
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


def operands(below):
    """A and B as `fill_operands` leaves them."""
    a, b = np.zeros((64, 64)), np.zeros((64, 64))
    for t, j in itertools.product(range(128), range(4)):
        x, y = GIVEN[t + j] % below, GIVEN[2 * t + j] % below
        row, column = t // 32 * 16 + t % 32 // 4, 16 * j + t % 4 * 2
        for i, (pair_a, pair_b) in enumerate([((x, y), (y, x)), ((y, x), (x, y)), ((x, y), (y, x)), ((x, y), (y, x))]):
            place = row + 8 * (i % 2), slice(column + 8 * (i // 2), column + 8 * (i // 2) + 2)
            a[place], b[place] = pair_a, pair_b
    return a, b


def multiplied():
    a, b = operands(8)
    return placed((0, (a[:, 16:32] @ b[16:32, 0:16].T).ravel()))


def chained():
    a, b = operands(4)
    halves = (a @ b[16:32].T).astype(np.float16)
    assert (halves == a @ b[16:32].T).all()  # so that no order of summation matters
    return placed((0, (a @ b[40:48].T).ravel()), (512, halves.view(np.uint32).ravel()))


OUT = {
    "who": who,
    "registers": lambda: placed((128, GIVEN[128:256])),
    "named_barriers": lambda: placed((0, GIVEN[127 - T]), (128, (GIVEN[:128] + T)[64:])),
    "dependent": lambda: placed((0, GIVEN[T])),
    "clocks": lambda: placed((0, np.ones(128))),
    "phases": lambda: placed((0, np.ones(256)), (256, np.zeros(128))),
    "states": lambda: placed((0, [1, 1, 0])),
    "fences": lambda: placed((0, GIVEN[:256])),
    "vectors": lambda: placed(
        (0, GIVEN[:512].reshape(-1, 4)[:, ::-1].ravel()),
        (512, GIVEN[:256].reshape(-1, 2)[:, ::-1].ravel()),
        (768, GIVEN[:128]),
    ),
    "conversions": conversions,
    "matrices": matrices,
    "products": products,
    "multiply": multiplied,
    "chains": chained,
    "keywords": lambda: placed((0, GIVEN[:128])),
}


def copied(case, source):
    """The target of a copy: the box at `first`, zeros where it reaches over, at `second`."""
    rank = source.ndim
    first, second = ((8, 5, 1, 0, 1)[:rank][::-1], (16, 0, 0, 1, 0)[:rank][::-1])
    target = np.zeros_like(source)
    for at in itertools.product(*map(range, case.box.shape[:-1])):
        for column in range(case.box.shape[-1]):
            index = (*at, column)
            to = tuple(i + s for i, s in zip(index, second, strict=True))
            of = tuple(i + f for i, f in zip(index, first, strict=True))
            if all(i < n for i, n in zip(to, target.shape, strict=True)):
                target[to] = source[of] if all(i < n for i, n in zip(of, source.shape, strict=True)) else 0
    return target


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_interpreted(case, seed):
    arrays = interpret(case, seed)
    if case.box is not None:
        np.testing.assert_array_equal(arrays[1], copied(case, arrays[0]))
    else:
        np.testing.assert_array_equal(arrays[-1], OUT[case.name]())
