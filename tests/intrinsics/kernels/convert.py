"""Conversions. Kernels make floats of bits, and bits of floats, by two arrays in the same shared memory."""

import ml_dtypes
import numpy as np
from numba import cuda, float32, uint32

from hopper_numba.intrinsics import convert, memory
from hopper_numba.shared import SharedLayout, tile

from .cases import GIVEN, THREADS, T, case, placed
from .floats import EIGHTS, eight, halves, tf32, values

I = np.arange(1024, dtype=np.uint32)  # noqa: E741
WORDS = SharedLayout(words=tile("uint32", (THREADS, 4), swizzle=None))


def converted():
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


@case(
    "convert.pack_f16x2",
    "convert.pack_bf16x2",
    "convert.unpack_f16x2",
    "convert.unpack_bf16x2",
    sass=(r"F2FP\.F16\.F32\.PACK_AB", r"F2FP\.BF16\.F32\.PACK_AB", r"HADD2\.F32"),
    out=converted,
)
def conversions(given, out):
    t = cuda.threadIdx.x
    low, high = float32(given[t]) + float32(0.1), -float32(given[t + 1]) / float32(3)
    f16, bf16 = convert.pack_f16x2(low, high), convert.pack_bf16x2(low, high)
    memory.st_global_v2_b32(memory.address_of(out, (2 * t,)), (f16, bf16))
    low, high = convert.unpack_f16x2(f16)
    out[256 + t] = convert.pack_bf16x2(low, high)
    low, high = convert.unpack_bf16x2(bf16)
    out[384 + t] = convert.pack_f16x2(low, high)


@case(
    "convert.bits_of_f32",
    "convert.f32_of_bits",
    out=lambda: placed((0, (GIVEN[T].astype(np.float32) / np.float32(3)).view(np.uint32)), (128, GIVEN[T] + 1)),
)
def bits(given, out):
    t = cuda.threadIdx.x
    out[t] = convert.bits_of_f32(float32(given[t]) / float32(3))
    out[128 + t] = uint32(convert.f32_of_bits(convert.bits_of_f32(float32(given[t])) ^ (given[t] == 777)) + float32(1))


SPECIAL = np.array([0x00000000, 0x00000001, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001, 0x007FFFFF, 0x00800000])
# numbers that 8 bits have, halfway between two of them, next to that; every 128th is a special one; of both signs
HARD = np.where(I % 128 == 0, SPECIAL[I >> 7], 111 + (I >> 5) << 23 | (I >> 1 & 15) << 19 | I & 1)
HARD = (HARD | (I >> 2 & 1) << 31).astype(np.uint32)


def packed_in_eight():
    low = HARD.view(np.float32)
    e4m3, e5m2 = (eight(name, low) | eight(name, low[::-1]) << 8 for name in EIGHTS)
    return e4m3 | e5m2 << 16


@case(
    "convert.pack_e4m3x2",
    "convert.pack_e5m2x2",
    shared=WORDS,
    given=HARD,
    sass=(r"F2FP\.SATFINITE\.E4M3\.F32\.PACK_AB", r"F2FP\.SATFINITE\.E5M2\.F32\.PACK_AB"),
    out=packed_in_eight,
)
def eight_bits(given, out):
    bits, floats = cuda.shared.array(0, uint32), cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    for i in range(t, 1024, THREADS):
        bits[2 * t], bits[2 * t + 1] = given[i], given[1023 - i]
        cuda.syncthreads()
        low, high = floats[2 * t], floats[2 * t + 1]
        out[i] = convert.pack_e4m3x2(low, high) | convert.pack_e5m2x2(low, high) << 16
        cuda.syncthreads()


# of all halves one in 64, with and without something behind
HALVES = (I << 6 | (1023 - I << 6 | I & 1) << 16).astype(np.uint32)


def packed_of_halves():
    low, high = (values(5, 10)[code] for code in (HALVES & 0xFFFF, HALVES >> 16))
    e4m3, e5m2 = (eight(name, low) | eight(name, high) << 8 for name in EIGHTS)
    return e4m3 | e5m2 << 16


@case(
    "convert.pack_e4m3x2_f16x2",
    "convert.pack_e5m2x2_f16x2",
    given=HALVES,
    sass=(r"F2FP\.SATFINITE\.E4M3\.F16\.UNPACK_B", r"F2FP\.SATFINITE\.E5M2\.F16\.UNPACK_B"),
    out=packed_of_halves,
)
def eight_bits_of_halves(given, out):
    for i in range(cuda.threadIdx.x, 1024, THREADS):
        out[i] = convert.pack_e4m3x2_f16x2(given[i]) | convert.pack_e5m2x2_f16x2(given[i]) << 16


def unpacked_halves():
    low, high = I[:512] & 255, I[:512] * 7 + 3 & 255
    return np.concatenate([halves(low, name) | halves(high, name) << 16 for name in EIGHTS])


@case(
    "convert.unpack_e4m3x2",
    "convert.unpack_e5m2x2",
    sass=(r"F2FP\.F16\.E4M3\.UNPACK_B", r"F2FP\.F16\.E5M2\.UNPACK_B"),
    out=unpacked_halves,
)
def halves_of_eight_bits(given, out):
    for i in range(cuda.threadIdx.x, 512, THREADS):
        packed = i & 255 | (i * 7 + 3 & 255) << 8 | 0xABCD << 16
        out[i] = convert.unpack_e4m3x2(packed)
        out[512 + i] = convert.unpack_e5m2x2(packed)


TAILS = np.array([0x0000, 0x0001, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x3000, 0x2FFF], np.uint32)
# of all exponents one in eight, then the largest numbers, then infinity and NaN, whose fraction begins so or so
LONG = (I & 0xF8) << 23 | I * 36 + (I >> 5) << 13 & 0x7FC000 | TAILS[I & 7]
LONG = np.where(I >= 248, 0x7F7FC000 | LONG & 0x3FFF, LONG) | (I >> 4 & 1) << 31
LONG[256:260] = 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC01FFF


def rounded_to_tf32():
    found = [tf32(LONG[:256], rounding) for rounding in ("rna", "rn", "rz")]
    rest = LONG[256:260] & 0xFFFFE000
    found += [rest, *[np.where(rest & 0x7FFFFF, 0x7FFFE000, rest)] * 2]
    return placed(*zip((0, 260, 520, 256, 516, 776), found, strict=True))


@case(
    "convert.tf32_rna",
    "convert.tf32_rn",
    "convert.tf32_rz",
    shared=WORDS,
    given=LONG,
    sass=(r"F2FP\.TF32\.F32\.PACK_B ", r"F2FP\.TF32\.F32\.PACK_B\.RZ", r"LOP3\.LUT .*0xffffe000"),
    out=rounded_to_tf32,
)
def tf32s(given, out):
    bits, floats = cuda.shared.array(0, uint32), cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    for i in range(t, 260 + THREADS - 260 % THREADS, THREADS):
        bits[4 * t] = given[i]
        cuda.syncthreads()
        number = floats[4 * t]
        floats[4 * t + 1] = convert.tf32_rna(number)
        floats[4 * t + 2] = convert.tf32_rn(number)
        floats[4 * t + 3] = convert.tf32_rz(number)
        cuda.syncthreads()
        if i < 260:
            out[i], out[260 + i], out[520 + i] = bits[4 * t + 1], bits[4 * t + 2], bits[4 * t + 3]
        cuda.syncthreads()
