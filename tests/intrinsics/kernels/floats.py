"""Small floats by the formulas of their formats, to check conversions against."""

import functools

import numpy as np

EIGHTS = {"e4m3": (4, 3), "e5m2": (5, 2)}
"""Bits of the exponent and of the fraction."""


def value(code, exponent_bits, fraction_bits):
    """What the bits of a float mean; the format of 4 and 3 bits has no infinity, and one NaN of each sign."""
    fraction, exponent = code & (1 << fraction_bits) - 1, code >> fraction_bits & (1 << exponent_bits) - 1
    sign = -1.0 if code >> exponent_bits + fraction_bits else 1.0
    bias = (1 << exponent_bits - 1) - 1
    if exponent == (1 << exponent_bits) - 1 and (exponent_bits, fraction_bits) != (4, 3):
        return sign * np.inf if fraction == 0 else np.nan
    if (exponent_bits, code & 0x7F) == (4, 0x7F):
        return np.nan
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - fraction_bits)
    return sign * ((1 << fraction_bits) + fraction) * 2.0 ** (exponent - bias - fraction_bits)


@functools.cache
def values(exponent_bits, fraction_bits):
    """The values of all codes."""
    codes = range(1 << 1 + exponent_bits + fraction_bits)
    return np.array([value(code, exponent_bits, fraction_bits) for code in codes])


def eight(name, numbers):
    """The codes nearest to numbers, of two the even one; beyond the largest finite one that, and 0x7f for NaN."""
    table = values(*EIGHTS[name])[:128]
    table = table[np.isfinite(table)]
    with np.errstate(invalid="ignore"):  # signalling NaN
        numbers = np.asarray(numbers, np.float64)
    distances = np.abs(np.minimum(np.abs(numbers), table[-1])[:, None] - table)
    lower = np.argmin(np.where(np.isnan(distances), np.inf, distances), axis=1)
    upper = np.minimum(lower + 1, len(table) - 1)
    rows = np.arange(len(numbers))
    is_tie = (upper > lower) & (distances[rows, lower] == distances[rows, upper])
    codes = np.where(is_tie & (lower % 2 == 1), upper, lower) | 0x80 * np.signbit(numbers)
    return np.where(np.isnan(numbers), 0x7F, codes).astype(np.uint32)


@functools.cache
def half_codes():
    """The code of each value that an f16 has, but NaN."""
    return {v: code for code, v in enumerate(values(5, 10)) if v == v and v != 0}


def halves(codes, name):
    """The f16 codes of 8-bit ones: NaN is 0x7fff, and a zero keeps its sign."""
    found = []
    for code, v in zip(codes, values(*EIGHTS[name])[codes], strict=True):
        found.append(0x7FFF if v != v else int(code) >> 7 << 15 if v == 0 else half_codes()[v])
    return np.array(found, np.uint32)


def tf32(bits, rounding):
    """The bits of f32 numbers, none NaN, rounded to 10 bits of fraction."""
    numbers = bits.astype(np.uint32).view(np.float32).astype(np.float64)
    step = 2.0 ** (np.maximum(bits >> 23 & 0xFF, 1).astype(np.float64) - 127 - 10)
    steps = np.abs(numbers) / step
    with np.errstate(all="ignore"):  # infinity
        whole = {"rna": np.floor(steps + 0.5), "rn": np.rint(steps), "rz": np.floor(steps)}[rounding]
        return np.copysign(whole * step, numbers).astype(np.float32).view(np.uint32)
