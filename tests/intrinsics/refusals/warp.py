"""Warps: what is exchanged between lanes."""

from numba import float32

from hopper_numba.intrinsics import warp

from .cases import refused


@refused("warp.shfl_bfly: mask must be 0 to 31; got 32")
def mask_of_another_warp(smem, m, out, n):
    warp.shfl_bfly(out[0], 32)


@refused("warp.shfl_bfly: value must be an integer (u32); got float32")
def float_to_exchange(smem, m, out, n):
    warp.shfl_bfly(float32(n), 1)


@refused("warp.shfl_bfly: mask must be an integer (u32); got float32")
def float_for_a_mask(smem, m, out, n):
    warp.shfl_bfly(out[0], float32(n))
