"""WGMMA: shapes, types, accumulators in flight."""

import numpy as np
from numba import cuda, float32, float64, int32, int64, uint32
from numba.cuda import types

from hopper_numba.intrinsics import memory, wgmma
from hopper_numba.shared import tile

from .cases import refused

F32, I8, I16 = tile("float32", (64, 8), 32), tile("int8", (64, 32), 32), tile("int16", (64, 16), 32)
F8, F8_TALL = tile("float8_e5m2", (64, 32), 32), tile("float8_e5m2", (32, 64), 32)


@cuda.jit(device=True)
def view(description):
    """One of these in shared memory."""
    return memory.view(cuda.shared.array(4096, types.uint8, alignment=1024), description)


@refused("n must be 8 to 256 in steps of 8; got 12")
def n_of_12(smem, m, out, n):
    wgmma.zeros(float32, 12)


@refused("wgmma.zeros: n must be a compile-time integer: a literal or a constant of the closure; got int64")
def run_time_n(smem, m, out, n):
    wgmma.zeros(float32, n)


@refused("wgmma.zeros: dtype must be float32, float16 or int32; got class(int64)")
def integer_accumulator(smem, m, out, n):
    wgmma.zeros(int64, 16)


@refused("wgmma.mma: multiplies 64 x 16 by 16 x 32 into 64 x 32; got (64, 16) by (16, 64)")
def accumulator_of_another_shape(smem, m, out, n):
    wgmma.mma(smem.a.part(64, 16, 0, 0), smem.b.part(64, 16, 0, 0).T, wgmma.zeros(float32, 32))


@refused("wgmma.mma: multiplies 64 x 16 by 16 x 64 into 64 x 64; got (64, 16) by (64, 16)")
def b_not_transposed(smem, m, out, n):
    wgmma.mma(smem.a.part(64, 16, 0, 0), smem.b.part(64, 16, 0, 0), wgmma.zeros(float32, 64))


@refused("wgmma.mma: bfloat16 by bfloat16 takes an accumulator of float32; got float16")
def half_accumulator_of_bf16(smem, m, out, n):
    wgmma.mma(smem.bf16.part(64, 16, 0, 0), smem.bf16.part(64, 16, 0, 0).T, wgmma.zeros(types.float16, 64))


@refused(
    "wgmma.mma: a and b must be of one kind (float16 | bfloat16 | float32 | float8_e4m3fn, float8_e5m2 | int8, uint8); "
    "got float16 and bfloat16"
)
def two_types(smem, m, out, n):
    wgmma.mma(smem.a.part(64, 16, 0, 0), smem.bf16.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64))


@refused("wgmma.mma: a and b must be of one kind (", "); got int16 and int16")
def type_without_a_form(smem, m, out, n):
    wgmma.mma(view(I16), view(I16).T, wgmma.zeros(int32, 64))


@refused("wgmma.mma: a and b must be of one kind (", "); got float8_e5m2 and int8")
def two_types_of_8_bits(smem, m, out, n):
    wgmma.mma(view(F8), view(I8).T, wgmma.zeros(float32, 64))


@refused("wgmma.mma: float32 by float32 takes an accumulator of float32; got float16")
def half_accumulator_of_tf32(smem, m, out, n):
    wgmma.mma(view(F32), view(F32).T, wgmma.zeros(types.float16, 64))


@refused("wgmma.mma: int8 by int8 takes an accumulator of int32; got float32")
def float_accumulator_of_integers(smem, m, out, n):
    wgmma.mma(view(I8), view(I8).T, wgmma.zeros(float32, 64))


@refused("wgmma.mma: float8_e5m2 by float8_e5m2 takes an accumulator of float32 or float16; got int32")
def integer_accumulator_of_floats(smem, m, out, n):
    wgmma.mma(view(F8), view(F8).T, wgmma.zeros(int32, 64))


@refused("wgmma.mma: multiplies 64 x 8 by 8 x 64 into 64 x 64; got (64, 16) by (16, 64)")
def tf32_of_16_columns(smem, m, out, n):
    wgmma.mma(smem.f32.part(64, 16, 0, 0), smem.f32.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64))


@refused("wgmma.mma: multiplies 64 x 32 by 32 x 32 into 64 x 32; got (64, 32) by (32, 64)")
def fragment_of_8_bits_and_another_n(smem, m, out, n):
    a = wgmma.fragment("int8", (n, n, n, n))
    wgmma.mma(a, view(I8).T, wgmma.zeros(int32, 32))


@refused(
    "wgmma.mma: a must be K-major, no transposed view: only elements of 16 bits may be MN-major; got "
    "tile(float8_e5m2, (32, 64), swizzle 32).T"
)
def m_major_of_8_bits(smem, m, out, n):
    wgmma.mma(view(F8_TALL).T, view(F8).T, wgmma.zeros(float32, 64))


@refused(
    "wgmma.mma: b must be K-major, a transposed view: only elements of 16 bits may be MN-major; got "
    "tile(float8_e5m2, (32, 64), swizzle 32)"
)
def n_major_of_8_bits(smem, m, out, n):
    wgmma.mma(view(F8), view(F8_TALL), wgmma.zeros(float32, 64))


@refused("wgmma.mma: b must be K-major, a transposed view: only elements of 16 bits may be MN-major; got tile(float32,")
def n_major_of_tf32(smem, m, out, n):
    a = wgmma.fragment(float32, (n, n, n, n))
    wgmma.mma(a, smem.f32.part(8, 32, 0, 0), wgmma.zeros(float32, 32))


@refused("wgmma.mma: negate_a must be False: integers are not negated; got True")
def negated_integers(smem, m, out, n):
    wgmma.mma(view(I8), view(I8).T, wgmma.zeros(int32, 64), negate_a=True)


@refused("wgmma.mma: negate_b must be False: integers are not negated; got True")
def negated_integers_of_b(smem, m, out, n):
    wgmma.mma(view(I8), view(I8).T, wgmma.zeros(int32, 64), True, False, True)


@refused("wgmma.mma: negate_b must be a compile-time bool: True, False or a constant of the closure; got bool")
def negation_at_run_time(smem, m, out, n):
    wgmma.mma(smem.a.part(64, 16, 0, 0), smem.b.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64), negate_b=n > 3)


@refused("wgmma.mma: scale_d must be a bool; got int64")
def integer_for_scale_d(smem, m, out, n):
    wgmma.mma(smem.a.part(64, 16, 0, 0), smem.b.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64), n)


@refused("wgmma.mma: b must be a view of shared memory: memory.view makes one of a shared array; got Fragment[float16")
def fragment_for_b(smem, m, out, n):
    b = wgmma.fragment(types.float16, (n, n, n, n))
    wgmma.mma(smem.a.part(64, 16, 0, 0), b, wgmma.zeros(float32, 64))


@refused(
    "wgmma.mma: a must be a view of shared memory: memory.view makes one of a shared array, or a fragment; got Uni"
)
def registers_for_a(smem, m, out, n):
    wgmma.mma((n, n, n, n), smem.b.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64))


@refused(
    "wgmma.fragment: dtype must be float16, bfloat16, float32, float8_e4m3fn, float8_e5m2, int8 or uint8; got "
    "class(float64)"
)
def fragment_of_float64(smem, m, out, n):
    wgmma.fragment(float64, (n, n, n, n))


@refused("wgmma.fragment: dtype must be", "or uint8; got int64")
def fragment_of_a_number(smem, m, out, n):
    wgmma.fragment(n, (n, n, n, n))


@refused("wgmma.fragment: registers must be a tuple of 4 u32; got UniTuple(int64 x 3)")
def fragment_of_three_registers(smem, m, out, n):
    wgmma.fragment(np.float16, (n, n, n))


@refused("wgmma.fragment: registers must be an integer (u32); got float32")
def fragment_of_floats(smem, m, out, n):
    x = float32(n)
    wgmma.fragment(float32, (x, x, x, x))


@refused("wgmma.for_each_pair: acc must be an accumulator; got Fragment[float16, 64x16]")
def pairs_of_a_fragment(smem, m, out, n):
    wgmma.for_each_pair(store_pair, wgmma.fragment(np.float16, (n, n, n, n)), (out,))


@refused("wgmma.mma: a must be swizzled, or have rows of 16 bytes; got tile(float16, (64, 16), C order")
def operand_in_c_order(smem, m, out, n):
    wgmma.mma(smem.plain.part(64, 16, 0, 0), smem.b.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64))


@refused("wgmma.mma: a must be one tile of two dimensions; got tile(float16, (2, 64, 64), swizzle 128)")
def several_tiles(smem, m, out, n):
    wgmma.mma(smem.ring, smem.b.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64))


@refused("wgmma.wait_group: acc must be an accumulator, a fragment or a tuple of them; got int64")
def integer_for_an_accumulator(smem, m, out, n):
    wgmma.wait_group(n, 0)


@cuda.jit(device=True)
def store_pair(row, column, low, high, out):
    out[row] = uint32(low)


@refused("wgmma.zeros: dtype must be float32, float16 or int32; got class(uint32)")
def unsigned_accumulator(smem, m, out, n):
    wgmma.zeros(uint32, 64)


@refused("wgmma.zeros: dtype must be float32, float16 or int32; got Literal[str](float64)")
def name_of_a_type_without_accumulators(smem, m, out, n):
    wgmma.zeros("float64", 64)


@refused("wgmma.zeros: n must be 8, 16, 24 or 32 to 256 in steps of 16 for int32; got 40")
def n_of_40_integers(smem, m, out, n):
    wgmma.zeros(int32, 40)


@refused("wgmma.for_each_pair: args must be a tuple; got array(uint32, 1d, C)")
def arguments_that_are_no_tuple(smem, m, out, n):
    wgmma.for_each_pair(store_pair, wgmma.zeros(float32, 8), out)


@refused("wgmma.for_each_pair: acc is still in flight: acc = wgmma.wait_group(acc, 0) must come before it is read")
def read_in_flight(smem, m, out, n):
    acc = wgmma.mma(smem.a.part(64, 16, 0, 0), smem.b.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64))
    wgmma.for_each_pair(store_pair, acc, (out,))


@refused("wgmma.for_each_pair: acc is still in flight")
def read_after_waiting_for_others(smem, m, out, n):
    acc = wgmma.mma(smem.a.part(64, 16, 0, 0), smem.b.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64))
    wgmma.for_each_pair(store_pair, wgmma.wait_group(acc, 1), (out,))


@refused("wgmma.for_each_pair: acc is still in flight")
def read_where_one_way_leads_past_the_wait(smem, m, out, n):
    acc = wgmma.mma(smem.a.part(64, 16, 0, 0), smem.b.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64))
    if n > 3:
        acc = wgmma.wait_group(acc, 0)
    wgmma.for_each_pair(store_pair, acc, (out,))


@refused("wgmma.zeros: dtype must be float32, float16 or int32; got float32")
def number_for_a_type(smem, m, out, n):
    wgmma.zeros(float32(n), 8)


@cuda.jit(device=True)
def store_block(row, column, values, out):
    out[row] = uint32(values[0])


@refused("wgmma.for_each_block: acc must have a multiple of 16 columns; got Accumulator[float32, 64x24]")
def blocks_of_24_columns(smem, m, out, n):
    wgmma.for_each_block(store_block, wgmma.zeros(float32, 24), (out,))


@refused("wgmma.for_each_block: acc must be an accumulator; got Fragment[float16, 64x16]")
def blocks_of_a_fragment(smem, m, out, n):
    wgmma.for_each_block(store_block, wgmma.fragment(np.float16, (n, n, n, n)), (out,))


@refused("wgmma.for_each_block: args must be a tuple; got array(uint32, 1d, C)")
def blocks_with_arguments_that_are_no_tuple(smem, m, out, n):
    wgmma.for_each_block(store_block, wgmma.zeros(float32, 16), out)


@refused("wgmma.for_each_block: function must be a device function; got int64")
def blocks_for_a_number(smem, m, out, n):
    wgmma.for_each_block(n, wgmma.zeros(float32, 16), (out,))


@refused("wgmma.for_each_block: acc is still in flight: acc = wgmma.wait_group(acc, 0) must come before it is read")
def blocks_in_flight(smem, m, out, n):
    acc = wgmma.mma(smem.a.part(64, 16, 0, 0), smem.b.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64))
    wgmma.for_each_block(store_block, acc, (out,))
