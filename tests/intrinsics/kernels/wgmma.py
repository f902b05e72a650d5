"""WGMMA: products of every pair of types, of operands in shared memory and in registers."""

import itertools
from typing import NamedTuple

import numpy as np
from numba import cuda, float32, int32, uint32
from numba.cuda import types

from hopper_numba.intrinsics import convert, fence, matrix, memory, warp, wgmma
from hopper_numba.shared import SharedLayout, tile

from .cases import GIVEN, case, placed


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


OPERANDS = SharedLayout(a=tile("float16", (64, 64)), b=tile("float16", (64, 64)))


@cuda.jit(device=True)
def store_pair(row, column, low, high, out):
    out[row * 16 + column] = uint32(low)
    out[row * 16 + column + 1] = uint32(high)


@cuda.jit(device=True)
def fill_operands(smem, given, below):
    """Both operands, of integers below a bound, by stmatrix; ready for the async proxy."""
    t = cuda.threadIdx.x
    row, column = t // 32 * 16 + t % 16, t % 32 // 16 * 8
    for j in range(4):
        x, y = float32(given[t + j] % below), float32(given[2 * t + j] % below)
        one, other = convert.pack_f16x2(x, y), convert.pack_f16x2(y, x)
        matrix.stmatrix_x4(smem.a.address(row, 16 * j + column), (one, other, one, one))
        matrix.stmatrix_x4(smem.b.address(row, 16 * j + column), (other, one, other, other))
    fence.proxy_async_shared_cta()
    cuda.syncthreads()


@case(
    "wgmma.fence",
    "wgmma.mma",
    "wgmma.commit_group",
    "wgmma.wait_group",
    shared=OPERANDS,
    sass=("WARPGROUP.ARRIVE", "HGMMA.64x16x16.F32", "WARPGROUP.DEPBAR"),
    out=multiplied,
)
def multiply(given, out):
    smem = OPERANDS.open()
    fill_operands(smem, given, 8)
    acc = wgmma.zeros(float32, 16)
    wgmma.fence()
    acc = wgmma.mma(smem.a.part(64, 16, 0, 1), smem.b.part(16, 16, 1, 0).T, acc)
    wgmma.commit_group()
    acc = wgmma.wait_group(acc, 0)
    wgmma.for_each_pair(store_pair, acc, (out,))


@cuda.jit(device=True)
def store_pair_of_8(row, column, low, high, out):
    out[row * 8 + column] = uint32(low)
    out[row * 8 + column + 1] = uint32(high)


@cuda.jit(device=True)
def store_packed(row, column, packed, out):
    out[512 + row * 8 + column // 2] = packed


@case(
    "wgmma.mma",
    "wgmma.wait_group",
    shared=OPERANDS,
    sass=("HGMMA.64x8x16.F32", "HGMMA.64x16x16.F16"),
    out=chained,
)
def chains(given, out):
    """Two chains of products in two groups, one of float16 accumulators; waited for one after the other, together."""
    smem = OPERANDS.open()
    fill_operands(smem, given, 4)
    first, second = wgmma.zeros(float32, 8), wgmma.zeros(types.float16, 16)
    wgmma.fence()
    for k in range(4):
        first = wgmma.mma(smem.a.part(64, 16, 0, k), smem.b.part(8, 16, 5, k).T, first)
    wgmma.commit_group()
    for k in range(4):
        second = wgmma.mma(smem.a.part(64, 16, 0, k), smem.b.part(16, 16, 1, k).T, second)
    wgmma.commit_group()
    first, second = wgmma.wait_group((first, second), 1)
    first, second = wgmma.wait_group((first, second), 0)
    wgmma.for_each_pair(store_pair_of_8, first, (out,))
    wgmma.for_each_pair(store_packed, second, (out,))


# The same numbers in every type --------------------------------------------------------------------------------------


class Coded(NamedTuple):
    """How elements are made of what is given: of 0 to 7, ±1, ±1.25, ±1.5 and ±1.75; other integers of integers."""

    one: int  # the bits of 1, of integers 0
    step: int  # the bits of a quarter, or the factor of an integer
    sign: int
    bits: int
    name: str  # in machine code


CODES = {
    "float16": Coded(0x3C00, 0x100, 0x8000, 16, ""),
    "bfloat16": Coded(0x3F80, 0x20, 0x8000, 16, ".BF16"),
    "float32": Coded(0x3F801FFF, 0x200000, 0x80000000, 32, ".TF32"),  # and bits that tf32 has not
    "float8_e4m3fn": Coded(0x38, 2, 0x80, 8, ".E4M3"),
    "float8_e5m2": Coded(0x3C, 1, 0x80, 8, ".E5M2"),
    "int8": Coded(0, 37, 148, 8, ".S8"),
    "uint8": Coded(0, 37, 148, 8, ".U8"),
}


def values(name, rows, columns, salt):
    """What `word` packs, as a matrix."""
    rows, columns = np.ogrid[:rows, :columns]
    given = GIVEN[(19 * rows + 7 * columns + salt) % 1024].astype(np.int64)
    if "int" in name:
        return (37 * given).astype(name).astype(np.int64)
    return (1 - given // 4 * 2) * (1 + given % 4 / 4)


def coding(name):
    """A function that gives the four words of A, or two of B, of which the executing thread has in a fragment."""
    one, step, sign, bits, _ = CODES[name]
    per_word = 32 // bits

    @cuda.jit(device=True)
    def word(given, row, column, salt):
        packed = uint32(0)
        for j in range(per_word):
            element = given[(19 * row + 7 * (per_word * column + j) + salt) % 1024]
            packed |= uint32(one + element % 4 * step + element // 4 * sign & (1 << bits) - 1) << uint32(j * bits)
        return packed

    @cuda.jit(device=True)
    def words(given, salt):
        t = cuda.threadIdx.x
        row, column = t // 32 * 16 + t % 32 // 4, t % 4
        return (
            uint32(word(given, row, column, salt)),
            uint32(word(given, row + 8, column, salt)),
            uint32(word(given, row, column + 4, salt)),
            uint32(word(given, row + 8, column + 4, salt)),
        )

    return words


@cuda.jit(device=True)
def pack_scaled(low, high):
    """Two multiples of a sixteenth in a word."""
    return uint32(int32(low * float32(16))) & uint32(0xFFFF) | uint32(int32(high * float32(16))) << uint32(16)


@cuda.jit(device=True)
def pack_float32(row, column, low, high, out, first):
    out[first + 4 * row + column // 2] = pack_scaled(low, high)


@cuda.jit(device=True)
def pack_float16(row, column, packed, out, first):
    low, high = convert.unpack_f16x2(packed)
    out[first + 4 * row + column // 2] = pack_scaled(low, high)


@cuda.jit(device=True)
def pack_int32(row, column, low, high, out, first):
    out[first + 4 * row + column // 2] = uint32(low) & uint32(0xFFFF) | uint32(high) << uint32(16)


PACKS = {"float32": pack_float32, "float16": pack_float16, "int32": pack_int32}


def packed(product):
    """64 x 8 results as the functions above leave them."""
    scaled = product if product.dtype.kind == "i" else 16 * product
    assert (scaled == scaled.astype(np.int64)).all()
    return scaled.astype(np.int64).astype(np.uint16).view(np.uint32).ravel()


class Product(NamedTuple):
    """64 x K by K x 8: types of A, B and the accumulator, whether A is in registers, swizzle of what is not."""

    a: str
    b: str
    d: str
    in_registers: bool
    swizzle: int

    @property
    def k(self):
        return 32 // (CODES[self.a].bits // 8)

    @property
    def sass(self):
        opcode = "I" if self.d == "int32" else "Q" if self.k == 32 else "H"
        d = {"float32": ".F32", "float16": ".F16", "int32": ""}[self.d]
        ab = CODES[self.a].name + CODES[self.b].name * (self.k == 32)
        left = r"R\d+, " if self.in_registers else ""
        return rf"{opcode}GMMA\.64x8x{self.k}{d}{ab} R\d+, {left}gdesc"

    def kernel(self, place):
        """A function that multiplies and leaves 256 words."""
        a, d, k, in_registers = self.a, self.d, self.k, self.in_registers
        words_a, words_b, pack = coding(a), coding(self.b), PACKS[d]

        @cuda.jit(device=True)
        def left_operand(tile_a, given):
            words = words_a(given, place)
            t = cuda.threadIdx.x
            matrix.stmatrix_x4(tile_a.address(t // 32 * 16 + t % 16, t % 32 // 16 * (k // 2)), words)
            return tile_a

        @cuda.jit(device=True)
        def left_fragment(tile_a, given):
            return wgmma.fragment(a, words_a(given, place))

        @cuda.jit(device=True)
        def wait_for_tile(acc, left):
            return wgmma.wait_group(acc, 0)

        @cuda.jit(device=True)
        def wait_for_fragment(acc, left):
            acc, left = wgmma.wait_group((acc, left), 0)
            return acc

        prepare, wait = (left_fragment, wait_for_fragment) if in_registers else (left_operand, wait_for_tile)

        @cuda.jit(device=True)
        def multiply(tile_a, tile_b, given, out):
            t = cuda.threadIdx.x
            if t < 32:
                words = words_b(given, place + 500)
                matrix.stmatrix_x2(tile_b.address(t % 8, t // 8 % 2 * (k // 2)), (words[0], words[2]))
            left = prepare(tile_a, given)
            fence.proxy_async_shared_cta()
            cuda.syncthreads()
            acc = wgmma.zeros(d, 8)
            wgmma.fence()
            acc = wgmma.mma(left, tile_b.T, acc)
            wgmma.commit_group()
            wgmma.for_each_pair(pack, wait(acc, left), (out, 256 * place))

        return multiply

    def result(self, place):
        """What it leaves."""
        return packed(values(self.a, 64, self.k, place) @ values(self.b, 8, self.k, place + 500).T)


def products(name, *four):
    """Register the case of four products, one after the other."""
    operands = [
        {f"a{i}": tile(p.a, (64, p.k), p.swizzle), f"b{i}": tile(p.b, (8, p.k), p.swizzle)} for i, p in enumerate(four)
    ]
    shared = SharedLayout(**{name: member for both in operands for name, member in both.items()})
    first, second, third, fourth = (product.kernel(i) for i, product in enumerate(four))

    def kernel(given, out):
        smem = shared.open()
        first(smem.a0, smem.b0, given, out)
        second(smem.a1, smem.b1, given, out)
        third(smem.a2, smem.b2, given, out)
        fourth(smem.a3, smem.b3, given, out)

    def out():
        return placed(*((256 * i, product.result(i)) for i, product in enumerate(four)))

    kernel.__name__ = kernel.__qualname__ = name
    covers = "wgmma.mma", "wgmma.wait_group"
    return case(*covers, shared=shared, sass=tuple(product.sass for product in four), out=out)(kernel)


for word, in_registers in (("", False), ("_registers", True)):
    for family, names, sums in (
        ("float8", ("float8_e4m3fn", "float8_e5m2"), ("float32", "float16")),
        ("int8", ("int8", "uint8"), ("int32",)),
    ):
        for d in sums:
            products(
                f"{family}_{d}{word}",
                *(Product(a, b, d, in_registers, 32) for a, b in itertools.product(names, repeat=2)),
            )
products(
    "tf32_and_bfloat16",
    Product("float32", "float32", "float32", False, 32),
    Product("float32", "float32", "float32", True, 0),
    Product("bfloat16", "bfloat16", "float32", False, 0),
    Product("bfloat16", "bfloat16", "float32", True, 32),
)
products(
    "no_swizzle",
    Product("float16", "float16", "float16", False, 0),
    Product("float16", "float16", "float16", True, 0),
    Product("uint8", "int8", "int32", False, 0),
    Product("float8_e5m2", "float8_e4m3fn", "float16", False, 0),
)


# A in registers by ldmatrix, MN-major operands, scale-d, negation ----------------------------------------------------


def fragments_of_a():
    a, b = operands(4)
    return placed((0, (2 * a[:, 16:32] @ b[16:32, 16:32].T + a[:, 48:64] @ b[16:32, 48:64].T).ravel()))


@case(
    "wgmma.mma",
    "wgmma.wait_group",
    "matrix.ldmatrix_x4",
    shared=OPERANDS,
    sass=(r"HGMMA\.64x16x16\.F32 R\d+, R\d+, gdesc",),
    out=fragments_of_a,
)
def fragments_in_flight(given, out):
    """Two fragments in two groups; the first one is read again while the second product may be in flight."""
    smem = OPERANDS.open()
    fill_operands(smem, given, 4)
    t = cuda.threadIdx.x
    row, column = t // 32 * 16 + t % 16, t % 32 // 16 * 8
    one = wgmma.fragment(types.float16, matrix.ldmatrix_x4(smem.a.address(row, 16 + column)))
    other = wgmma.fragment(np.float16, matrix.ldmatrix_x4(smem.a.address(row, 48 + column)))
    acc = wgmma.zeros("float32", 16)
    wgmma.fence()
    acc = wgmma.mma(one, smem.b.part(16, 16, 1, 1).T, acc)
    wgmma.commit_group()
    acc = wgmma.mma(other, smem.b.part(16, 16, 1, 3).T, acc)
    wgmma.commit_group()
    acc, one, other = wgmma.wait_group((acc, one, other), 1)
    acc = wgmma.mma(one, smem.b.part(16, 16, 1, 1).T, acc)
    wgmma.commit_group()
    acc, one, other = wgmma.wait_group((acc, one, other), 0)
    wgmma.for_each_pair(store_pair, acc, (out,))


def turned():
    a, b = operands(4)
    both, left, right = a[16:32].T @ b[16:32, 8:16], a[32:48].T @ b[0:8, 16:32].T, a[:, 16:32] @ b[48:64, 40:48]
    bits = [x.astype(np.float16).view(np.uint32).ravel() for x in (both, left, right)]
    return placed(*((256 * i, x) for i, x in enumerate(bits)), (768, bits[2]))


@cuda.jit(device=True)
def store_halves(row, column, packed, out, first):
    out[first + 4 * row + column // 2] = packed


@case(
    "wgmma.mma",
    shared=OPERANDS,
    sass=(
        r"HGMMA\.64x8x16\.F16 R\d+, gdesc\[UR\d+\]\.tnspA\.tnspB",
        r"HGMMA\.64x8x16\.F16 R\d+, gdesc\[UR\d+\]\.tnspA,",
        r"HGMMA\.64x8x16\.F16 R\d+, gdesc\[UR\d+\]\.tnspB",
        r"HGMMA\.64x8x16\.F16 R\d+, R\d+, gdesc\[UR\d+\]\.tnspB",
    ),
    out=turned,
)
def mn_major(given, out):
    smem = OPERANDS.open()
    fill_operands(smem, given, 4)
    t = cuda.threadIdx.x
    loaded = matrix.ldmatrix_x4(smem.a.address(t // 32 * 16 + t % 16, 16 + t % 32 // 16 * 8))
    held = wgmma.fragment(types.float16, loaded)
    both, left = wgmma.zeros(types.float16, 8), wgmma.zeros(types.float16, 8)
    right, registers = wgmma.zeros(types.float16, 8), wgmma.zeros(types.float16, 8)
    wgmma.fence()
    both = wgmma.mma(smem.a.part(16, 64, 1, 0).T, smem.b.part(16, 8, 1, 1), both)
    left = wgmma.mma(smem.a.part(16, 64, 2, 0).T, smem.b.part(8, 16, 0, 1).T, left)
    right = wgmma.mma(smem.a.part(64, 16, 0, 1), smem.b.part(16, 8, 3, 5), right)
    registers = wgmma.mma(held, smem.b.part(16, 8, 3, 5), registers)
    wgmma.commit_group()
    both, left, right, registers, held = wgmma.wait_group((both, left, right, registers, held), 0)
    wgmma.for_each_pair(store_halves, both, (out, 0))
    wgmma.for_each_pair(store_halves, left, (out, 256))
    wgmma.for_each_pair(store_halves, right, (out, 512))
    wgmma.for_each_pair(store_halves, registers, (out, 768))


START = int(np.flatnonzero(GIVEN == 2)[0])  # of the four products, the third one begins anew


def begun_anew():
    a, b = operands(4)
    a, b = (m.reshape(64, 4, 16).swapaxes(0, 1) for m in (a, b))
    each = [a[k] @ b[k, :8].T for k in range(4)]
    sums = -each[2] - each[3], each[0] - each[1] + each[2]
    return placed(*((512 * i, x.ravel().astype(np.int32).view(np.uint32)) for i, x in enumerate(sums)))


@cuda.jit(device=True)
def store_signed(row, column, low, high, out, first):
    out[first + 8 * row + column] = uint32(int32(low))
    out[first + 8 * row + column + 1] = uint32(int32(high))


@case(
    "wgmma.mma",
    shared=OPERANDS,
    sass=(r"\.negA", r"\.negB", r"HGMMA\.64x8x16\.F32 .*, U?P\d"),
    out=begun_anew,
)
def scaled_and_negated(given, out):
    smem = OPERANDS.open()
    fill_operands(smem, given, 4)
    start = given[START]
    first, second = wgmma.zeros(float32, 8), wgmma.zeros(float32, 8)
    wgmma.fence()
    for k in range(4):
        first = wgmma.mma(smem.a.part(64, 16, 0, k), smem.b.part(8, 16, 0, k).T, first, k != start, negate_a=True)
    second = wgmma.mma(smem.a.part(64, 16, 0, 3), smem.b.part(8, 16, 0, 3).T, second)
    second = wgmma.mma(smem.a.part(64, 16, 0, 0), smem.b.part(8, 16, 0, 0).T, second, scale_d=False)
    second = wgmma.mma(smem.a.part(64, 16, 0, 1), smem.b.part(8, 16, 0, 1).T, second, negate_b=True)
    second = wgmma.mma(smem.a.part(64, 16, 0, 2), smem.b.part(8, 16, 0, 2).T, second, True, True, True)
    wgmma.commit_group()
    first, second = wgmma.wait_group((first, second), 0)
    wgmma.for_each_pair(store_signed, first, (out, 0))
    wgmma.for_each_pair(store_signed, second, (out, 512))


# Blocks of 16 x 16 ---------------------------------------------------------------------------------------------------


def pairs_of(c):
    """Of a matrix of integers its words, two neighbours in each, as signed halves."""
    return placed((0, c.astype(np.int16).view(np.uint32).ravel()))


def multiplied_by_32():
    a, b = operands(8)
    return a[:, 16:32] @ b[32:64, 0:16].T


@cuda.jit(device=True)
def pair_up(low, high):
    return uint32(int32(low)) & 0xFFFF | uint32(int32(high)) << 16


@cuda.jit(device=True)
def keep_block(row, column, values, out):
    """By the manual's fragment: two neighbours in each of rows 0-7 and 8-15, of columns 0-7, then of 8-15."""
    lane = warp.lane_index()
    at = 16 * (row + lane // 4) + column // 2 + lane % 4
    out[at] = pair_up(values[0], values[1])
    out[at + 16 * 8] = pair_up(values[2], values[3])
    out[at + 4] = pair_up(values[4], values[5])
    out[at + 16 * 8 + 4] = pair_up(values[6], values[7])


@case("wgmma.mma", shared=OPERANDS, sass=("HGMMA.64x32x16.F32",), out=lambda: pairs_of(multiplied_by_32()))
def blocks_of_floats(given, out):
    smem = OPERANDS.open()
    fill_operands(smem, given, 8)
    acc = wgmma.zeros(float32, 32)
    wgmma.fence()
    acc = wgmma.mma(smem.a.part(64, 16, 0, 1), smem.b.part(32, 16, 1, 0).T, acc)
    wgmma.commit_group()
    wgmma.for_each_block(keep_block, wgmma.wait_group(acc, 0), (out,))


BYTES = SharedLayout(a=tile("int8", (64, 32), 32), b=tile("int8", (32, 32), 32))


def multiplied_bytes():
    rows, columns = np.ogrid[:64, :32]
    a = GIVEN[rows + columns].astype(np.int64) - 4
    b = GIVEN[2 * rows[:32] + columns].astype(np.int64) - 4
    return a @ b.T


@cuda.jit(device=True)
def four_bytes(given, first):
    word = uint32(0)
    for i in range(4):
        word |= ((given[first + i] - 4) & 0xFF) << uint32(8 * i)
    return word


@case("wgmma.mma", shared=BYTES, sass=("IGMMA.64x32x32.S8.S8",), out=lambda: pairs_of(multiplied_bytes()))
def blocks_of_integers(given, out):
    smem = BYTES.open()
    row = cuda.threadIdx.x // 2
    for j in range(4):
        column = 16 * (cuda.threadIdx.x % 2) + 4 * j
        memory.st_shared_b32(smem.a.address(row, column), four_bytes(given, row + column))
        if row < 32:
            memory.st_shared_b32(smem.b.address(row, column), four_bytes(given, 2 * row + column))
    fence.proxy_async_shared_cta()
    cuda.syncthreads()
    acc = wgmma.zeros(int32, 32)
    wgmma.fence()
    acc = wgmma.mma(smem.a, smem.b.T, acc)
    wgmma.commit_group()
    wgmma.for_each_block(keep_block, wgmma.wait_group(acc, 0), (out,))


RESULT = SharedLayout(a=tile("float16", (64, 64)), b=tile("float16", (64, 64)), c=tile("float16", (64, 32), 64))


@cuda.jit(device=True)
def stage_block(row, column, values, c):
    lane = warp.lane_index()
    matrix.stmatrix_x4(c.address(row + lane % 16, column + lane // 16 * 8), values)


@case(
    "wgmma.mma",
    shared=RESULT,
    sass=("HGMMA.64x32x16.F16", r"STSM\.16\.M88\.4 "),
    out=lambda: placed((0, multiplied_by_32().astype(np.float16).view(np.uint32).ravel())),
)
def blocks_of_halves(given, out):
    smem = RESULT.open()
    fill_operands(smem, given, 8)
    acc = wgmma.zeros("float16", 32)
    wgmma.fence()
    acc = wgmma.mma(smem.a.part(64, 16, 0, 1), smem.b.part(32, 16, 1, 0).T, acc)
    wgmma.commit_group()
    wgmma.for_each_block(stage_block, wgmma.wait_group(acc, 0), (smem.c,))
    cuda.syncthreads()
    row, half = cuda.threadIdx.x // 2, cuda.threadIdx.x % 2
    for i in range(8):
        word = memory.ld_shared_b32(smem.c.address(row, 16 * half + 2 * i))
        out[16 * row + 8 * half + i] = word
