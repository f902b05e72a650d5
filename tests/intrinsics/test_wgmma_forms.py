"""Every form of the WGMMA family that exists is typed, and a sample of them assembled."""

import itertools
import random
import re

import numpy as np
import pytest
from numba import cuda, float32
from numba.cuda import types

from hopper_numba import interpreter
from hopper_numba.intrinsics import memory, wgmma
from hopper_numba.intrinsics.accumulators import AccumulatorType
from hopper_numba.intrinsics.types import SharedViewType
from hopper_numba.shared import SharedLayout, tile

TYPES = {("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32")}
SWIZZLES = (128, 64, 32, 0)
NUMBA = {"float16": types.float16, "float32": types.float32}


def operands(dtype, n, swizzle, a_k_major, b_k_major):
    """The tiles of A (64 x 16) and B (16 x n) are parts of, logically; None where their layout has no such part."""
    columns = max(swizzle, 16) // 2
    k = max(columns, 16)
    a = tile(dtype, (64, k), swizzle) if a_k_major else tile(dtype, (16, 64), swizzle).T
    if b_k_major:
        return a, tile(dtype, (n, k), swizzle).T
    if n % columns and columns % n:
        return None  # a part is whole panels, or divides one
    return a, tile(dtype, (16, max(n, columns)), swizzle)


FORMS = [
    (ab, d, n, swizzle, *majors)
    for ab, d in sorted(TYPES)
    for n in range(8, 257, 8)
    for swizzle in SWIZZLES
    for majors in itertools.product((True, False), repeat=2)
    if operands(ab, n, swizzle, *majors)
]
CORNERS = [form for form in FORMS if form[2] in (8, 256) and form[3] in (128, 0) and form[4] == form[5]]
SAMPLE = random.Random(0).sample(FORMS, 16)


def test_all_n_are_there():
    assert len(FORMS) > 1000
    for swizzle in SWIZZLES:
        assert {n for _, _, n, s, _, b_k_major in FORMS if s == swizzle and b_k_major} == set(range(8, 257, 8))
    assert {n for _, _, n, swizzle, _, b_k_major in FORMS if not swizzle and not b_k_major} == set(range(8, 257, 8))


def test_every_form_is_typed():
    short = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
    for ab, d, n, swizzle, a_k_major, b_k_major in FORMS:
        a, b = operands(ab, n, swizzle, a_k_major, b_k_major)
        a, b = SharedViewType(a.part(64, 16)[0]), SharedViewType(b.part(16, n)[0])
        acc = AccumulatorType(d, n, in_flight=False)
        assert wgmma.mma.result.resolve({"acc": acc}) == acc.as_(in_flight=True)
        resolved = {
            name: kind.resolve(ty) for (name, kind), ty in zip(wgmma.mma.operands.items(), (a, b, acc), strict=True)
        }
        fields = dict.fromkeys(wgmma.mma.operands, "") | wgmma.mma.form(**resolved)
        text = wgmma.mma.text.format(**fields)
        assert f".m64n{n}k16.{short[d]}.{short[ab]}.{short[ab]} " in text
        assert text.endswith(f"1, 1, 1, {int(not a_k_major)}, {int(not b_k_major)};")


@cuda.jit(device=True)
def store_f32(row, column, low, high, out):
    out[row * 256 + column] = low
    out[row * 256 + column + 1] = high


@cuda.jit(device=True)
def store_f16(row, column, packed, out):
    out[row * 256 + column] = packed


def build(ab, d, n, swizzle, a_k_major, b_k_major):
    a, b = operands(ab, n, swizzle, a_k_major, b_k_major)
    shared, dtype, store = SharedLayout(a=a, b=b), NUMBA[d], store_f32 if d == "float32" else store_f16

    def kernel(out):
        smem = shared.open()
        acc = wgmma.zeros(dtype, n)
        wgmma.fence()
        acc = wgmma.mma(smem.a.part(64, 16, 0, 0), smem.b.part(16, n, 0, 0), acc)
        wgmma.commit_group()
        wgmma.for_each_pair(store, wgmma.wait_group(acc, 0), (out,))

    return kernel


@pytest.mark.parametrize("form", CORNERS + SAMPLE, ids=lambda form: "-".join(map(str, form)))
def test_assembled(form, compile_kernel, machine_code):
    ab, d, n, *_ = form
    compiled = compile_kernel(build(*form), (NUMBA[d][::1] if d == "float32" else types.uint32[::1],), 128)
    suffix = ".F32" * (d == "float32") + ".BF16" * (ab == "bfloat16")
    assert len(re.findall(rf"HGMMA.64x{n}x16{suffix or '.F16'} ", machine_code(compiled))) == 1


@cuda.jit(device=True)
def last_f32(row, column, low, high, out):
    out[row] = low + high


@cuda.jit(device=True)
def last_f16(row, column, packed, out):
    out[row] = packed


def all_at_once(d, sizes):
    """A kernel that multiplies once for each N: K-major operands, swizzle 32."""
    dtype, store = NUMBA[d], last_f32 if d == "float32" else last_f16
    tile_a = tile("float16", (64, 16), 32)

    def of(n):
        tile_b = tile("float16", (n, 16), 32)

        @cuda.jit(device=True)
        def multiply(raw, out):
            a, b = memory.view(raw, tile_a), memory.view(raw[1024:], tile_b)
            wgmma.fence()
            acc = wgmma.mma(a, b.T, wgmma.zeros(dtype, n))
            wgmma.commit_group()
            wgmma.for_each_pair(store, wgmma.wait_group(acc, 0), (out,))

        return multiply

    first, second, third, fourth, fifth, sixth, seventh, eighth = map(of, sizes)

    def kernel(out):
        raw = cuda.shared.array(5120, types.float16, alignment=256)
        first(raw, out)
        second(raw, out)
        third(raw, out)
        fourth(raw, out)
        fifth(raw, out)
        sixth(raw, out)
        seventh(raw, out)
        eighth(raw, out)

    return kernel


ALL = [("float32", range(low, low + 64, 8)) for low in (8, 72, 136, 200)] + [("float16", range(32, 257, 32))]


@pytest.mark.parametrize(("d", "sizes"), ALL)
def test_every_n_is_assembled(d, sizes, compile_kernel, machine_code):
    signature = (NUMBA[d][::1] if d == "float32" else types.uint32[::1],)
    code = machine_code(compile_kernel(all_at_once(d, sizes), signature, 128))
    assert re.findall(r"HGMMA.64x(\d+)x16.F(?:32|16) ", code) == [str(n) for n in sizes]


@pytest.mark.parametrize("dtype", [np.float16, types.float16, np.float32, float32], ids=repr)
def test_numbas_and_numpys_types_are_those_of_accumulators(dtype, compile_kernel):
    def kernel(out):
        wgmma.zeros(dtype, 8)

    compile_kernel(kernel, (types.uint32[::1],), 128)
    interpreter.run(kernel, (np.zeros(1, np.uint32),), 1, 128)
