"""WGMMA: shapes, types, accumulators in flight."""

from numba import cuda, float32, int64, uint32
from numba.cuda import types

from hopper_numba.intrinsics import wgmma

from .cases import refused


@refused("n must be 8 to 256 in steps of 8; got 12")
def n_of_12(smem, m, out, n):
    wgmma.zeros(float32, 12)


@refused("wgmma.zeros: n must be a compile-time integer: a literal or a constant of the closure; got int64")
def run_time_n(smem, m, out, n):
    wgmma.zeros(float32, n)


@refused("wgmma.zeros: dtype must be float32 or float16; got class(int64)")
def integer_accumulator(smem, m, out, n):
    wgmma.zeros(int64, 16)


@refused("wgmma.mma: multiplies 64 x 16 by 16 x 32 into 64 x 32; got (64, 16) by (16, 64)")
def accumulator_of_another_shape(smem, m, out, n):
    wgmma.mma(smem.a.part(64, 16, 0, 0), smem.b.part(64, 16, 0, 0).T, wgmma.zeros(float32, 32))


@refused("wgmma.mma: multiplies 64 x 16 by 16 x 64 into 64 x 64; got (64, 16) by (64, 16)")
def b_not_transposed(smem, m, out, n):
    wgmma.mma(smem.a.part(64, 16, 0, 0), smem.b.part(64, 16, 0, 0), wgmma.zeros(float32, 64))


@refused("wgmma.mma: a float16 accumulator takes float16 operands only; got bfloat16")
def half_accumulator_of_bf16(smem, m, out, n):
    wgmma.mma(smem.bf16.part(64, 16, 0, 0), smem.bf16.part(64, 16, 0, 0).T, wgmma.zeros(types.float16, 64))


@refused("wgmma.mma: a and b must have one type of float16, bfloat16; got float16 and bfloat16")
def two_types(smem, m, out, n):
    wgmma.mma(smem.a.part(64, 16, 0, 0), smem.bf16.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64))


@refused("wgmma.mma: a and b must have one type of float16, bfloat16; got float32 and float32")
def type_without_a_form(smem, m, out, n):
    wgmma.mma(smem.f32.part(64, 16, 0, 0), smem.f32.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64))


@refused("wgmma.mma: a must be swizzled, or have rows of 16 bytes; got tile(float16, (64, 16), C order")
def operand_in_c_order(smem, m, out, n):
    wgmma.mma(smem.plain.part(64, 16, 0, 0), smem.b.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64))


@refused("wgmma.mma: a must be one tile of two dimensions; got tile(float16, (2, 64, 64), swizzle 128)")
def several_tiles(smem, m, out, n):
    wgmma.mma(smem.ring, smem.b.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64))


@refused("wgmma.wait_group: acc must be an accumulator or a tuple of them; got int64")
def integer_for_an_accumulator(smem, m, out, n):
    wgmma.wait_group(n, 0)


@cuda.jit(device=True)
def store_pair(row, column, low, high, out):
    out[row] = uint32(low)


@refused("wgmma.zeros: dtype must be float32 or float16; got class(uint32)")
def unsigned_accumulator(smem, m, out, n):
    wgmma.zeros(uint32, 64)


@refused("wgmma.zeros: dtype must be float32 or float16; got Literal[str](float32)")
def name_for_a_type(smem, m, out, n):
    wgmma.zeros("float32", 64)


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
