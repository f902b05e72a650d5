"""Every form of the WGMMA family that exists is typed, every other one refused; a sample is assembled.

``make forms`` assembles them all.
"""

import functools
import itertools
import os
import random
import re
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, float32, int32, uint32
from numba.cuda import types

from hopper_numba import interpreter
from hopper_numba.intrinsics import memory, wgmma
from hopper_numba.intrinsics.accumulators import AccumulatorType, FragmentType
from hopper_numba.intrinsics.operands import Refused
from hopper_numba.intrinsics.tiles import ELEMENT_TYPES, as_dtype
from hopper_numba.intrinsics.types import SharedViewType
from hopper_numba.shared import tile

SWIZZLES = (128, 64, 32, 0)
BATCH = 16  # forms in one kernel

# PTX ISA, "wgmma.mma_async": types of A and B, those of the accumulator, N, whether an operand may be MN-major
FLOATS, INTEGERS = range(8, 257, 8), (8, 16, 24, *range(32, 257, 16))
MANUAL = [
    (["float16"], ["float32", "float16"], FLOATS, True),
    (["bfloat16"], ["float32"], FLOATS, True),
    (["float32"], ["float32"], FLOATS, False),
    (["float8_e4m3fn", "float8_e5m2"], ["float32", "float16"], FLOATS, False),
    (["int8", "uint8"], ["int32"], INTEGERS, False),
]
PTX = {"float16": "f16", "bfloat16": "bf16", "float32": "tf32", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
PTX |= {"int8": "s8", "uint8": "u8"}


class Form(NamedTuple):
    """Types of A, B and the accumulator, N, whether A is in registers, whether A and B are MN-major."""

    a: str
    b: str
    d: str
    n: int
    in_registers: bool
    a_turned: bool
    b_turned: bool

    @property
    def k(self):
        return 32 // as_dtype(self.a).itemsize

    def tiles(self, swizzle):
        """The tiles that A (64 x K, None in registers) and B (K x N) are parts of; None where B has no such part."""
        a = None if self.in_registers else lying(self.a, 64, self.k, swizzle, self.a_turned)
        b = lying(self.b, self.n, self.k, swizzle, self.b_turned)
        return (a, b.T) if b else None

    @property
    def ptx(self):
        """The statement, but for its operands."""
        d = {"float32": "f32", "float16": "f16", "int32": "s32"}[self.d]
        return f"wgmma.mma_async.sync.aligned.m64n{self.n}k{self.k}.{d}.{PTX[self.a]}.{PTX[self.b]}"

    @property
    def sass(self):
        """What it is in machine code."""
        a, b, d = PTX[self.a].upper(), PTX[self.b].upper(), {"float32": ".F32", "float16": ".F16", "int32": ""}[self.d]
        opcode, operands = {16: ("HGMMA", f".{a}".replace(".F16", "")), 8: ("HGMMA", f".{a}")}.get(
            self.k, ("IGMMA" if self.d == "int32" else "QGMMA", f".{a}.{b}")
        )
        left = r"R\d+" if self.in_registers else r"gdesc\[UR\w+\]"
        turned = r"\.tnspA" * self.a_turned + r"\.tnspB" * self.b_turned
        right = r", gdesc\[UR\w+\]" if self.in_registers else ""
        return rf"{opcode}\.64x{self.n}x{self.k}{d}{operands} R\w+, {left}{right}{turned}, "


def lying(dtype, extent, k, swizzle, turned):
    """A tile that has a part of `extent` by K, to be read so; None where its panels do not divide `extent`."""
    span = max(swizzle, 16) // as_dtype(dtype).itemsize
    if not turned:
        return tile(dtype, (extent, max(span, k)), swizzle)
    if extent % span and span % extent:
        return None
    return tile(dtype, (k, max(extent, span)), swizzle).T


FORMS = [
    Form(a, b, d, n, in_registers, a_turned, b_turned)
    for operands, accumulators, sizes, may_turn in MANUAL
    for a, b, d, n in itertools.product(operands, operands, accumulators, sizes)
    for in_registers, a_turned, b_turned in itertools.product((False, True), repeat=3)
    if not (a_turned or b_turned) or (may_turn and not (in_registers and a_turned))
]
CORNERS = [form for form in FORMS if form.n in (8, 256)]
SAMPLE = random.Random(0).sample([form for form in FORMS if form not in CORNERS], 200)
ASSEMBLED = FORMS if os.environ.get("HOPPER_NUMBA_FORMS") == "all" else CORNERS + SAMPLE


def test_as_many_are_there_as_in_the_manual():
    counts = {PTX[a[0]]: sum(form.a in a for form in FORMS) for a, *_ in MANUAL}
    assert counts == {"f16": 384, "bf16": 192, "tf32": 64, "e4m3": 512, "s8": 144}
    assert len(CORNERS) == 88
    assert len({form._replace(n=0) for form in CORNERS}) == len({form._replace(n=0) for form in FORMS}) == 44


def resolved(form, tiles):
    """The fields of the statement, for these tiles. Raises `Refused`."""
    a, b = tiles
    left = FragmentType(as_dtype(form.a)) if a is None else SharedViewType(a.part(64, form.k)[0])
    given = {
        "a": left,
        "b": SharedViewType(b.part(form.k, form.n)[0]),
        "acc": AccumulatorType(form.d, form.n, in_flight=False),
        "scale_d": types.boolean,
        **dict.fromkeys(("negate_a", "negate_b"), types.literal(False)),
    }
    return wgmma.mma.form(**{name: kind.resolve(given[name]) for name, kind in wgmma.mma.operands.items()})


def test_every_form_is_typed_in_every_swizzle():
    for form in FORMS:
        immediates = ""
        if form.d != "int32":
            immediates = ", 1, 1"
        if form.k == 16:
            immediates += f", {int(form.a_turned)}" * (not form.in_registers) + f", {int(form.b_turned)}"
        layouts = [form.tiles(swizzle) for swizzle in SWIZZLES]
        assert layouts[-1] and (form.b_turned or all(layouts))
        for tiles in filter(None, layouts):
            fields = dict.fromkeys(wgmma.mma.operands, "") | resolved(form, tiles)
            text = wgmma.mma.text.format(**fields)
            assert f"{form.ptx} " in text
            assert text.endswith(f", p{immediates}; }}")


def test_every_other_form_is_refused():
    forms, dtypes = set(FORMS), [name for name in ELEMENT_TYPES if as_dtype(name).itemsize < 8]
    taken = 0
    for a, b, d in itertools.product(dtypes, dtypes, ("float32", "float16", "int32")):
        for registers, a_turned, b_turned in itertools.product((False, True), repeat=3):
            form = Form(a, b, d, 16, registers, a_turned, b_turned)
            if (registers and a_turned) or as_dtype(a).itemsize != as_dtype(b).itemsize:
                continue  # no such operands, or another K
            if form in forms:
                resolved(form, form.tiles(0))
                taken += 1
            else:
                with pytest.raises(Refused):
                    resolved(form, form.tiles(0))
    assert taken == 44


@pytest.mark.parametrize(("d", "sizes"), [("float32", FLOATS), ("float16", FLOATS), ("int32", INTEGERS)])
def test_accumulators_have_every_n_and_no_other(d, sizes):
    def kernel():
        wgmma.zeros(d, n)

    for n in range(300):
        if n in sizes:
            interpreter.run(kernel, (), 1, 1)
        else:
            with pytest.raises(TypeError, match=rf"n must be 8.*; got {n}\n"):
                interpreter.run(kernel, (), 1, 1)


# Assembled -----------------------------------------------------------------------------------------------------------


@cuda.jit(device=True)
def last(row, column, low, high, out):
    out[row] = uint32(low + high)


@cuda.jit(device=True)
def last_packed(row, column, packed, out):
    out[row] = packed


def multiplication(form, number):
    """A function that executes one form; swizzles take turns."""
    tiles = form.tiles(SWIZZLES[number % 4]) or form.tiles(0)
    a, d, n, k = form.a, form.d, form.n, form.k
    tile_a, tile_b = tiles
    store = last_packed if d == "float16" else last

    @cuda.jit(device=True)
    def of_shared(raw, out):
        acc = wgmma.zeros(d, n)
        wgmma.fence()
        acc = wgmma.mma(memory.view(raw, tile_a).part(64, k, 0, 0), memory.view(raw, tile_b).part(k, n, 0, 0), acc)
        wgmma.commit_group()
        wgmma.for_each_pair(store, wgmma.wait_group(acc, 0), (out,))

    @cuda.jit(device=True)
    def of_registers(raw, out):
        acc, held = wgmma.zeros(d, n), wgmma.fragment(a, (out[0], out[1], out[2], out[3]))
        wgmma.fence()
        acc = wgmma.mma(held, memory.view(raw, tile_b).part(k, n, 0, 0), acc)
        wgmma.commit_group()
        acc, held = wgmma.wait_group((acc, held), 0)
        wgmma.for_each_pair(store, acc, (out,))

    return of_registers if form.in_registers else of_shared


def after(first, second):
    """A function that executes one after the other."""

    @cuda.jit(device=True)
    def both(raw, out):
        first(raw, out)
        cuda.syncthreads()  # else two accumulators are held at once, for which there may be no registers
        second(raw, out)

    return both


@pytest.mark.parametrize("begin", range(0, len(ASSEMBLED), BATCH))
def test_assembled(begin, compile_kernel, machine_code):
    forms = ASSEMBLED[begin : begin + BATCH]
    multiply = functools.reduce(after, map(multiplication, forms, itertools.count()))

    def kernel(out):
        multiply(cuda.shared.array(32768, types.uint8, alignment=1024), out)

    code = machine_code(compile_kernel(kernel, (types.uint32[::1],), 128))
    found = re.findall(r"^.*GMMA.*$", code, re.MULTILINE)
    for form, statement in itertools.zip_longest(forms, found):
        assert re.search(form.sass, statement), f"{form}: {statement}"


@pytest.mark.parametrize(
    "dtype",
    [
        *("float16", np.float16, np.dtype(np.float16), types.float16),
        *("float32", np.float32, np.dtype(np.float32), float32),
        *("int32", np.int32, np.dtype(np.int32), int32),
    ],
    ids=repr,
)
def test_every_way_to_write_an_accumulators_type(dtype, compile_kernel):
    def kernel(out):
        wgmma.zeros(dtype, 8)

    compile_kernel(kernel, (types.uint32[::1],), 128)
    interpreter.run(kernel, (np.zeros(1, np.uint32),), 1, 128)


@pytest.mark.parametrize(
    "dtype",
    [
        *("bfloat16", types.bfloat16, ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)),
        *("float8_e4m3fn", ml_dtypes.float8_e4m3fn, np.dtype(ml_dtypes.float8_e4m3fn)),
        *("float8_e5m2", ml_dtypes.float8_e5m2, np.dtype(ml_dtypes.float8_e5m2)),
        *("uint8", np.uint8, types.uint8),
    ],
    ids=repr,
)
def test_every_way_to_write_a_fragments_type(dtype, compile_kernel):
    def kernel(out):
        wgmma.fragment(dtype, (0, 1, 2, out[0]))

    compile_kernel(kernel, (types.uint32[::1],), 128)
    interpreter.run(kernel, (np.zeros(1, np.uint32),), 1, 128)
