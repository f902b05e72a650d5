"""What an instruction does not take is refused when a kernel is compiled, with operand, value and rule."""

import pytest
from numba import cuda, float32, int64, uint32, uint64
from numba.core.errors import NumbaError
from numba.cuda import types

from hopper_numba.intrinsics import barrier, convert, matrix, mbarrier, memory, timer, tma, warp, wgmma
from hopper_numba.intrinsics.types import TensorMapType
from hopper_numba.shared import SharedLayout, barriers, tile

SHARED = SharedLayout(
    a=tile("float16", (64, 64)),
    b=tile("float16", (64, 64)),
    bf16=tile("bfloat16", (64, 64)),
    wide=tile("float16", (64, 128)),
    ring=tile("float16", (2, 64, 64)),
    f32=tile("float32", (64, 32)),
    plain=tile("float16", (64, 64), swizzle=None),
    bar=barriers(),
    bars=barriers(2),
)
MAP = TensorMapType(SHARED.members["a"].dtype, SHARED.members["a"].box, 128)
A_MAP = "must be a TensorMap(array, tile), or the uint64 array of its to_device()"
STAGES = 3
TALL = tile("float16", (264, 64))
REFUSALS = []


def refused(*parts):
    def add(kernel):
        REFUSALS.append(pytest.param(kernel, parts, id=kernel.__name__))
        return kernel

    return add


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


# TMA -----------------------------------------------------------------------------------------------------------------


@refused(
    "tma.load: tensor_map is of another tile than tile(bfloat16, (64, 64), swizzle 128)",
    "TensorMap[float16, 64x64, 128]",
)
def map_of_another_dtype(smem, m, out, n):
    tma.load(smem.bf16, m, (0, 0), smem.bar)


@refused(
    "tma.store: tensor_map is of another tile than tile(float16, (64, 64), C order)", "TensorMap[float16, 64x64, 128]"
)
def map_of_another_swizzle(smem, m, out, n):
    tma.store(m, (0, 0), smem.plain)


@refused("tma.load: coordinates must be 2 integers, as many as tile(float16, (64, 64), swizzle 128) has; got 3")
def three_coordinates(smem, m, out, n):
    tma.load(smem.a, m, (0, 0, 0), smem.bar)


@refused("tma.load: coordinates must be an integer (s32); got float64")
def float_coordinates(smem, m, out, n):
    tma.load(smem.a, m, (0, 0.5), smem.bar)


@refused("tma.load: tile must be a whole tile as it lies in memory; got tile(float16, (64, 64), swizzle 128).T")
def transposed_tile(smem, m, out, n):
    tma.load(smem.a.T, m, (0, 0), smem.bar)


@refused("tma.load: tile must be a whole tile as it lies in memory; got tile(float16, (64, 16), swizzle 128, panels")
def part_of_a_tile(smem, m, out, n):
    tma.load(smem.a.part(64, 16, 0, 0), m, (0, 0), smem.bar)


@refused("tma.load: tile must be a tile; got barrier")
def barrier_for_a_tile(smem, m, out, n):
    tma.load(smem.bar, m, (0, 0), smem.bar)


@refused(
    "tma.store: tile must be a view of shared memory: memory.view makes one of a shared array; got array(uint32, 1d, C)"
)
def raw_array_for_a_tile(smem, m, out, n):
    tma.store(m, (0, 0), cuda.shared.array(1024, uint32))


@refused(f"tma.prefetch_descriptor: tensor_map {A_MAP}; got int64")
def integer_for_a_map(smem, m, out, n):
    tma.prefetch_descriptor(n)


@refused(f"tma.prefetch_descriptor: tensor_map {A_MAP}; got array(float16, 2d, C)")
def matrix_for_a_map(smem, m, out, n):
    tma.prefetch_descriptor(cuda.shared.array((64, 64), types.float16))


@refused("tma.load: tile must have a box of at most 256 elements along a dimension; got (64, 264)")
def tall_tile(smem, m, out, n):
    tma.load(memory.view(cuda.shared.array(16896, types.float16), TALL), m, (0, 0), smem.bar)


# WGMMA ---------------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("kernel", "parts"), REFUSALS)
def test_refused(kernel, parts, compile_kernel):
    body = cuda.jit(device=True)(kernel)

    def opened(tensor_map, out, n):
        body(SHARED.open(), tensor_map, out, n)

    with pytest.raises(NumbaError) as refusal:
        compile_kernel(opened, (MAP, types.uint32[::1], types.int64), 128)
    said = str(refusal.value)
    for line in said.splitlines():
        if "NumbaTypeError" in line:  # the last one counts; methods of views have none
            said = line
    for part in parts:
        assert part in said
