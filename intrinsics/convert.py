"""Conversions between f32, packed pairs of 16 and of 8 bits, and tf32 (PTX ISA, "Data Movement and Conversion: cvt").

PTX has one NaN of 16 bits and one of 8, which every conversion to them gives.
"""

import ml_dtypes
import numpy as np

from .operands import f32, u32
from .ptx import member, ptx
from .results import Registers
from .tiles import HALVES

PURE = "its result depends on its operands only"
NAN, NAN8, NAN_TF32 = 0x7FFF, 0x7F, 0x7FFFE000
EIGHTS = {"e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2)}
LARGEST = {"e4m3": 448, "e5m2": 57344}


def rounded(value, dtype):
    """The bits of a float32 rounded to nearest even."""
    if value != value:
        return NAN
    with np.errstate(over="ignore"):
        return int(value.astype(dtype).view(np.uint16))


def rounded8(value, name):
    """The bits of a float32 rounded to nearest even, at most the largest finite value of 8 bits."""
    if value != value:
        return NAN8
    largest = np.float32(LARGEST[name])
    return int(min(max(value, -largest), largest).astype(EIGHTS[name]).view(np.uint8))


def floats_of(packed, dtype):
    """The low and the high float of a pair, as float32."""
    pair = np.array([packed], f"u{2 * dtype.itemsize}").view(dtype)
    return tuple(pair.astype(np.float32))


def pack(name):
    """Declare the conversion of two f32 to a pair."""
    dtype = HALVES[name]

    @ptx(f"cvt.rn.{name}x2.f32 {{result}}, {{high}}, {{low}};", threads="any", pure=PURE)
    @member(f"pack_{name}x2", type=name)
    def pack(low: f32, high: f32) -> u32:
        """Round two f32 to {type}, to nearest even, and pack them in 32 bits.

        Parameters
        ----------
        low : f32
            Goes to bits 0-15, the lower address once it is stored.
        high : f32
            Goes to bits 16-31.

        Returns
        -------
        u32

        Notes
        -----
        PTX ISA, "cvt", which names the high operand first. Any thread executes it.
        """
        return rounded(high, dtype) << 16 | rounded(low, dtype)

    return pack


def unpack(name):
    """Declare the conversion of a pair to two f32."""
    dtype = HALVES[name]

    @ptx(
        "{{ .reg .b16 low, high; .reg .f32 first, second; .reg .b64 pair; mov.b32 {{low, high}}, {packed}; "
        f"cvt.f32.{name} first, low; cvt.f32.{name} second, high; "
        "mov.b64 pair, {{first, second}}; mov.b64 {result}, pair; }}",
        threads="any",
        pure=PURE,
    )
    @member(f"unpack_{name}x2", type=name)
    def unpack(packed: u32) -> Registers(f32, 2):
        """Convert a pair of {type}, packed in 32 bits, to two f32.

        Parameters
        ----------
        packed : u32

        Returns
        -------
        tuple of 2 f32
            That of bits 0-15, then that of bits 16-31.

        Notes
        -----
        PTX ISA, "cvt". Any thread executes it. Exact.
        """
        return floats_of(packed, dtype)

    return unpack


def pack8(name):
    """Declare the conversion of two f32 to a pair of 8 bits each."""

    @ptx(
        f"{{{{ .reg .b16 pair; cvt.rn.satfinite.{name}x2.f32 pair, {{high}}, {{low}}; "
        "cvt.u32.u16 {result}, pair; }}",
        threads="any",
        pure=PURE,
    )
    @member(f"pack_{name}x2", type=name, largest=LARGEST[name])
    def pack(low: f32, high: f32) -> u32:
        """Round two f32 to {type}, to nearest even, and pack them in 16 bits.

        What is beyond the largest finite value, infinity too, becomes that, {largest} with its sign; NaN becomes 0x7f.

        Parameters
        ----------
        low : f32
            Goes to bits 0-7, the lower address once it is stored.
        high : f32
            Goes to bits 8-15.

        Returns
        -------
        u32
            Bits 16-31 are zero.

        Notes
        -----
        PTX ISA, "cvt": .satfinite; it names the high operand first. Any thread executes it.
        """
        return rounded8(high, name) << 8 | rounded8(low, name)

    return pack


def pack8_of_halves(name):
    """Declare the conversion of a pair of f16 to one of 8 bits each."""

    @ptx(
        f"{{{{ .reg .b16 pair; cvt.rn.satfinite.{name}x2.f16x2 pair, {{packed}}; cvt.u32.u16 {{result}}, pair; }}}}",
        threads="any",
        pure=PURE,
    )
    @member(f"pack_{name}x2_f16x2", type=name, largest=LARGEST[name])
    def pack(packed: u32) -> u32:
        """Round a pair of f16 to {type}, to nearest even, and pack them in 16 bits.

        What is beyond the largest finite value, infinity too, becomes that, {largest} with its sign; NaN becomes 0x7f.

        Parameters
        ----------
        packed : u32
            Two f16: that of bits 0-15 goes to bits 0-7, that of bits 16-31 to bits 8-15.

        Returns
        -------
        u32
            Bits 16-31 are zero.

        Notes
        -----
        PTX ISA, "cvt": .satfinite. Any thread executes it.
        """
        low, high = floats_of(packed, HALVES["f16"])
        return rounded8(high, name) << 8 | rounded8(low, name)

    return pack


def unpack8(name):
    """Declare the conversion of a pair of 8 bits each to a pair of f16."""
    dtype, half = EIGHTS[name], HALVES["f16"]

    @ptx(
        "{{ .reg .b16 pair, rest; mov.b32 {{pair, rest}}, {packed}; " + f"cvt.rn.f16x2.{name}x2 {{result}}, pair; }}}}",
        threads="any",
        pure=PURE,
    )
    @member(f"unpack_{name}x2", type=name)
    def unpack(packed: u32) -> u32:
        """Convert a pair of {type}, packed in 16 bits, to a pair of f16, packed in 32; `unpack_f16x2` goes on to f32.

        Parameters
        ----------
        packed : u32
            In bits 0-15; the others do not matter.

        Returns
        -------
        u32
            That of bits 0-7 in bits 0-15, that of bits 8-15 in bits 16-31.

        Notes
        -----
        PTX ISA, "cvt". Any thread executes it. Exact; NaN becomes 0x7fff.
        """
        low, high = floats_of(packed & 0xFFFF, dtype)
        return rounded(high, half) << 16 | rounded(low, half)

    return unpack


def away(bits):
    """To nearest, ties away from zero; the exponent of infinity and NaN stays, and so does the NaN's beginning."""
    return bits if bits >> 23 & 0xFF == 0xFF else bits + 0x1000


def nearest_even(bits):
    """To nearest, ties to even."""
    return NAN_TF32 if bits & 0x7FFFFFFF > 0x7F800000 else bits + 0xFFF + (bits >> 13 & 1)


def towards_zero(bits):
    """Cut off."""
    return NAN_TF32 if bits & 0x7FFFFFFF > 0x7F800000 else bits


def tf32(rounding, round_bits, **words):
    """Declare the conversion of f32 to tf32; `round_bits` gives the bits, before the last 13 are dropped."""

    @ptx(
        f"{{{{ .reg .b32 bits; cvt.{rounding}.tf32.f32 bits, {{value}}; mov.b32 {{result}}, bits; }}}}",
        threads="any",
        pure=PURE,
    )
    @member(f"tf32_{rounding}", **words)
    def convert(value: f32) -> f32:
        """Round an f32 to tf32, {how}: 10 bits are left of its fraction's 23.

        Parameters
        ----------
        value : f32

        Returns
        -------
        f32
            Its last 13 bits are zero: WGMMA and mma, which do not look at these bits, take it as it is.

            What rounds beyond the largest finite value becomes infinity. {nan}

        Notes
        -----
        PTX ISA, "cvt". Any thread executes it. {cost}
        """
        bits = round_bits(int(value.view(np.uint32)))
        return np.uint32(bits & 0xFFFFE000).view(np.float32)

    return convert


@ptx("mov.b32 {result}, {value};", threads="any", pure=PURE)
def bits_of_f32(value: f32) -> u32:
    """The bits of an f32, for an instruction that moves registers of 32 bits.

    Parameters
    ----------
    value : f32

    Returns
    -------
    u32

    Notes
    -----
    PTX ISA, "mov". Any thread executes it.
    """
    return int(value.view(np.uint32))


@ptx("mov.b32 {result}, {bits};", threads="any", pure=PURE)
def f32_of_bits(bits: u32) -> f32:
    """The f32 that has these bits.

    Parameters
    ----------
    bits : u32

    Returns
    -------
    f32

    Notes
    -----
    PTX ISA, "mov". Any thread executes it.
    """
    return np.uint32(bits).view(np.float32)


pack_f16x2, pack_bf16x2 = map(pack, HALVES)
unpack_f16x2, unpack_bf16x2 = map(unpack, HALVES)
pack_e4m3x2, pack_e5m2x2 = map(pack8, EIGHTS)
pack_e4m3x2_f16x2, pack_e5m2x2_f16x2 = map(pack8_of_halves, EIGHTS)
unpack_e4m3x2, unpack_e5m2x2 = map(unpack8, EIGHTS)

ONE_NAN, ONE_STEP = "NaN becomes 0x7fffe000.", "One machine instruction."
tf32_rna = tf32(
    "rna",
    away,
    how="to nearest, ties away from zero",
    nan="A NaN loses its last 13 bits; one that has no other bits set becomes infinity.",
    cost="Hopper has no machine instruction for it: ptxas makes four.",
)
tf32_rn = tf32("rn", nearest_even, how="to nearest, ties to even", nan=ONE_NAN, cost=ONE_STEP)
tf32_rz = tf32("rz", towards_zero, how="towards zero", nan=ONE_NAN, cost=ONE_STEP)
