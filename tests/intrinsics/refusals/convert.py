"""Conversions: what they take."""

from numba import float32, uint32

from hopper_numba.intrinsics import convert

from .cases import refused


@refused("convert.pack_e4m3x2: low must be a float; got uint32")
def integer_for_eight_bits(smem, m, out, n):
    convert.pack_e4m3x2(uint32(n), float32(n))


@refused("convert.pack_e5m2x2: high must be a float; got int64")
def integer_for_the_high_eight_bits(smem, m, out, n):
    convert.pack_e5m2x2(float32(n), n)


@refused("convert.pack_e4m3x2_f16x2: packed must be an integer (u32); got float32")
def float_for_halves(smem, m, out, n):
    convert.pack_e4m3x2_f16x2(float32(n))


@refused("convert.unpack_e5m2x2: packed must be a u32, 0 to 4294967295; got 4294967296")
def literal_of_33_bits_to_unpack(smem, m, out, n):
    convert.unpack_e5m2x2(4294967296)


@refused("convert.tf32_rna: value must be a float; got int64")
def integer_to_round(smem, m, out, n):
    convert.tf32_rna(n)


@refused("convert.tf32_rz: too many positional arguments; it is convert.tf32_rz(value)")
def two_numbers_to_round(smem, m, out, n):
    convert.tf32_rz(float32(n), float32(n))
