"""Conversions between f32 and packed pairs of 16-bit floats (PTX ISA, "Data Movement and Conversion: cvt")."""

import numpy as np

from .operands import f32, u32
from .ptx import member, ptx
from .results import Registers
from .tiles import HALVES

PURE = "its result depends on its operands only"
NAN = 0x7FFF  # PTX's only NaN of 16 bits


def rounded(value, dtype):
    """The bits of a float32 rounded to nearest even."""
    if value != value:
        return NAN
    with np.errstate(over="ignore"):
        return int(value.astype(dtype).view(np.uint16))


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
        low, high = np.array(packed, np.uint32).reshape(1).view(dtype).astype(np.float32)
        return low, high

    return unpack


pack_f16x2, pack_bf16x2 = map(pack, HALVES)
unpack_f16x2, unpack_bf16x2 = map(unpack, HALVES)
