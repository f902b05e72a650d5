"""Integers, immediates, addresses, registers."""

from numba import cuda, float32, uint32, uint64
from numba.cuda import types

from hopper_numba.intrinsics import barrier, convert, matrix, mbarrier, memory, timer, tma, warp, wgmma

from .cases import TALL, refused

STAGES = 3


# Integers ------------------------------------------------------------------------------------------------------------


@refused("mbarrier.init: count must be an integer (u32); got float64")
def float_count(smem, m, out, n):
    mbarrier.init(smem.bar, 1.0)


@refused("mbarrier.init: count must be 1 to 1048575; got -1")
def negative_literal(smem, m, out, n):
    mbarrier.init(smem.bar, -1)


@refused("mbarrier.init: count must be 1 to 1048575; got 0")
def no_arrivals(smem, m, out, n):
    mbarrier.init(smem.bar, 0)


@refused("mbarrier.wait: parity must be 0 to 1; got 2")
def parity_that_is_a_phase(smem, m, out, n):
    mbarrier.wait(smem.bar, 2)


@refused("mbarrier.try_wait_for: nanoseconds must be a u32, 0 to 4294967295; got 4294967296")
def literal_of_33_bits(smem, m, out, n):
    mbarrier.try_wait_for(smem.bar, 0, 4294967296)


@refused("mbarrier.arrive: count must be an integer (u32); got array(uint32, 1d, C)")
def array_for_an_integer(smem, m, out, n):
    mbarrier.arrive(smem.bar, out)


@refused("timer.nanosleep: nanoseconds must be 0 to 1000000; got 2000000")
def long_sleep(smem, m, out, n):
    timer.nanosleep(2_000_000)


@refused("barrier.sync: id must be 0 to 15; got 16")
def seventeenth_barrier(smem, m, out, n):
    barrier.sync(16, 64)


@refused("barrier.arrive: threads must be 32 to 1024 in steps of 32; got 48")
def half_a_warp(smem, m, out, n):
    barrier.arrive(1, 48)


@refused("mbarrier.test_wait_state: state must be an integer (u64); got float32")
def float_state(smem, m, out, n):
    mbarrier.test_wait_state(smem.bar, float32(n))


# How many ------------------------------------------------------------------------------------------------------------


@refused("mbarrier.init: missing a required argument: 'count'; it is mbarrier.init(barrier, count)")
def too_few(smem, m, out, n):
    mbarrier.init(smem.bar)


@refused("mbarrier.init: too many positional arguments; it is mbarrier.init(barrier, count)")
def too_many(smem, m, out, n):
    mbarrier.init(smem.bar, 1, 1)


@refused("mbarrier.init: got an unexpected keyword argument 'arrivals'; it is mbarrier.init(barrier, count)")
def unknown_keyword(smem, m, out, n):
    mbarrier.init(smem.bar, 1, arrivals=1)


# Immediates ----------------------------------------------------------------------------------------------------------


@refused("wgmma.wait_group: n must be a compile-time integer: a literal or a constant of the closure; got int64")
def run_time_immediate(smem, m, out, n):
    wgmma.wait_group(wgmma.zeros(float32, 16), n)


@refused("tma.wait_group: n must be a compile-time integer: a literal or a constant of the closure; got int64")
def computed_immediate(smem, m, out, n):
    tma.wait_group(STAGES - 1)


@refused("tma.wait_group_read: n must be 0 to 63; got -1")
def negative_immediate(smem, m, out, n):
    tma.wait_group_read(-1)


@refused("warp.setmaxnreg_dec: count must be 24 to 256 in steps of 8; got 44")
def registers_off_the_step(smem, m, out, n):
    warp.setmaxnreg_dec(44)


@refused(
    "warp.setmaxnreg_inc: count must be a compile-time integer: a literal or a constant of the closure; got float64"
)
def float_immediate(smem, m, out, n):
    warp.setmaxnreg_inc(240.0)


# Addresses -----------------------------------------------------------------------------------------------------------


@refused("mbarrier.init: barrier must be one barrier; got tile(float16, (64, 64), swizzle 128)")
def tile_for_a_barrier(smem, m, out, n):
    mbarrier.init(smem.a, 1)


@refused("mbarrier.init: barrier must be one barrier; got barriers(2)")
def barriers_for_a_barrier(smem, m, out, n):
    mbarrier.init(smem.bars, 1)


@refused("mbarrier.init: barrier must be one barrier: an array of 64-bit integers; got array(uint32, 1d, C)")
def raw_barrier_of_32_bits(smem, m, out, n):
    mbarrier.init(cuda.shared.array(2, uint32), 1)


@refused("mbarrier.init: barrier must be one barrier: an array of 64-bit integers; got array(float64, 1d, C)")
def raw_barrier_of_floats(smem, m, out, n):
    mbarrier.init(cuda.shared.array(2, types.float64), 1)


@refused("matrix.ldmatrix_x4: row must be a view of shared memory or a shared array; got int64")
def integer_for_an_address(smem, m, out, n):
    matrix.ldmatrix_x4(n)


@refused("memory.ld_global_b32: address must be an element's address, address_of(array, …); got array(uint32, 1d, C)")
def array_for_an_element(smem, m, out, n):
    memory.ld_global_b32(out)


@refused("memory.address_of: indices must be a tuple of 1 integers; got UniTuple(int64 x 2)")
def too_many_indices(smem, m, out, n):
    memory.ld_global_b32(memory.address_of(out, (n, n)))


@refused("memory.address_of: indices must be a tuple of 1 integers; got UniTuple(float64 x 1)")
def float_index(smem, m, out, n):
    memory.ld_global_b32(memory.address_of(out, (1.0,)))


@refused("memory.view: description must be a tile(…) or barriers(…); got int64")
def view_of_nothing(smem, m, out, n):
    memory.view(cuda.shared.array(2, uint64), n)


@refused("matrix.ldmatrix_x4: row must be an element's address, tile.address(…); got tile(float16, (64, 64)")
def tile_for_a_row(smem, m, out, n):
    matrix.ldmatrix_x4(smem.a)


@refused("matrix.stmatrix_x1: row must be an element's address, tile.address(…); got tile(float16, (64, 64)")
def tile_for_a_row_stored(smem, m, out, n):
    matrix.stmatrix_x1(smem.a, (uint32(1),))


@refused("memory.view: array must be a shared array; got int64")
def view_of_a_number(smem, m, out, n):
    memory.view(n, TALL)


@refused("tile(float16, (64, 64), swizzle 128).part(rows, columns, i, j) takes integers; got part(")
def part_of_tuples(smem, m, out, n):
    smem.a.part((64, 16), (0, n))


@refused("tile(float16, (64, 64), swizzle 128).address(row, column) takes integers; got address(int64)")
def address_of_one_index(smem, m, out, n):
    matrix.ldmatrix_x1(smem.a.address(n))


# Registers -----------------------------------------------------------------------------------------------------------


@refused("matrix.mma_m16n8k16_f32_f16: b must be a tuple of 2 u32; got UniTuple(uint32 x 4)")
def tuple_of_another_length(smem, m, out, n):
    a = matrix.ldmatrix_x4(smem.a.address(0, 0))
    matrix.mma_m16n8k16_f32_f16(a, a, (float32(0), float32(0), float32(0), float32(0)))


@refused("matrix.mma_m16n8k16_f32_f16: c must be a float; got uint32")
def integer_accumulators(smem, m, out, n):
    a = matrix.ldmatrix_x4(smem.a.address(0, 0))
    matrix.mma_m16n8k16_f32_f16(a, (a[0], a[1]), a)


@refused("matrix.stmatrix_x1: values must be a tuple of u32; got uint32")
def number_for_a_tuple(smem, m, out, n):
    matrix.stmatrix_x1(smem.a.address(0, 0), uint32(n))


@refused("memory.st_global_v4_b32: values must be an integer (u32); got float32")
def float_registers(smem, m, out, n):
    x = float32(n)
    memory.st_global_v4_b32(memory.address_of(out, (0,)), (x, x, x, x))


@refused("convert.pack_f16x2: high must be a float; got int64")
def integer_for_a_float(smem, m, out, n):
    convert.pack_f16x2(float32(n), n)


@refused("mbarrier.init: count must be 1 to 1048575; got 0")
def false_for_a_count(smem, m, out, n):
    mbarrier.init(smem.bar, False)


# Indices -------------------------------------------------------------------------------------------------------------


@refused("barriers(2): index 2 is outside 0 to 1")
def barrier_behind_the_last(smem, m, out, n):
    mbarrier.init(smem.bars[2], 1)


@refused("barriers(2): index -1 is outside 0 to 1")
def barrier_from_the_end(smem, m, out, n):
    mbarrier.init(smem.bars[-1], 1)


@refused("tile(float16, (2, 64, 64), swizzle 128): index 5 is outside 0 to 1")
def stage_behind_the_last(smem, m, out, n):
    tma.load(smem.ring[5], m, (0, 0), smem.bar)


@refused("tile(float16, (64, 64), swizzle 128): index 7 is outside 0 to 3")
def part_behind_the_last(smem, m, out, n):
    wgmma.mma(smem.a.part(64, 16, 0, 7), smem.b.part(64, 16, 0, 0).T, wgmma.zeros(float32, 64))


@refused("tile(float16, (64, 64), swizzle 128): index 64 is outside 0 to 63")
def row_behind_the_last(smem, m, out, n):
    matrix.ldmatrix_x4(smem.a.address(64, 0))


@refused("parts of 0 x 16 do not divide tile(float16, (64, 64), swizzle 128)")
def part_of_no_rows(smem, m, out, n):
    smem.a.part(0, 16, 0, 0)
