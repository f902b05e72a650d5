"""What instructions mean on the CPU, against values worked out from the PTX manual's own formulas."""

import math
import struct

import ml_dtypes
import numpy as np
import pytest
from numba import float64, uint32

from hopper_numba.intrinsics import convert, matrix, mbarrier, memory, tile, timer, warp, wgmma
from hopper_numba.intrinsics.machine import running
from hopper_numba.intrinsics.types import GlobalElement, SharedView

LANES = range(32)
rng = np.random.default_rng(0)


class Machine:
    """Runs one thread after another; what a warp does together it does when the last has come."""

    def __init__(self):
        self.shared = np.zeros(4096, np.uint8)
        self.calls = []

    def collective(self, scope, meaning, operands):
        self.calls.append((scope, meaning, operands))

    def shared_load(self, address, nbytes):
        return self.shared[address : address + nbytes]

    def shared_store(self, address, data):
        self.shared[address : address + len(data)] = data

    def accumulator(self, dtype, n):
        raise AssertionError("never reached")

    def global_load(self, element, nbytes):
        return element.array.view(np.uint8)[element.offset : element.offset + nbytes]

    def global_store(self, element, data):
        element.array.view(np.uint8)[element.offset : element.offset + len(data)] = data

    def together(self, instruction, operands_of):
        """The results of 32 lanes, given the operands of each."""
        with running(self):
            for lane in LANES:
                instruction(*operands_of(lane))
            ((scope, meaning),) = {call[:2] for call in self.calls}
            assert scope == "warp"
            return meaning([call[2] for call in self.calls])


class Row:
    """A row of a shared array."""

    def __init__(self, address):
        self.shared_address = address


def one_of(machine, instruction, *operands):
    with running(machine):
        return instruction(*operands)


# Matrices ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix(count, trans):
    machine = Machine()
    matrices = rng.integers(0, 2**16, (count, 8, 8), np.uint16)
    places = rng.permutation(8 * count) * 48  # 16-byte rows anywhere
    for i, row in enumerate(matrices.reshape(-1, 8)):
        machine.shared[places[i] : places[i] + 16] = row.view(np.uint8)
    load = getattr(matrix, f"ldmatrix_x{count}{'_trans' * trans}")
    results = machine.together(load, lambda lane: (Row(int(places[lane % (8 * count)])),))
    for lane in LANES:
        assert len(results[lane]) == count
        for m, register in enumerate(results[lane]):
            row, column = lane // 4, lane % 4 * 2
            first, second = ((row, column), (row, column + 1)) if not trans else ((column, row), (column + 1, row))
            assert register == int(matrices[m][first]) | int(matrices[m][second]) << 16


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_stmatrix(count, trans):
    machine = Machine()
    values = rng.integers(0, 2**32, (32, count), np.uint32)
    store = getattr(matrix, f"stmatrix_x{count}{'_trans' * trans}")
    machine.together(store, lambda lane: (Row(lane * 64), tuple(map(int, values[lane]))))
    for m in range(count):
        for row in range(8):
            stored = machine.shared[(8 * m + row) * 64 :][:16].view(np.uint16)
            for column in range(8):
                of_row, of_column = (row, column) if not trans else (column, row)
                register = int(values[of_row * 4 + of_column // 2, m])
                assert stored[column] == (register >> 16 * (of_column % 2)) & 0xFFFF
    assert not machine.shared[8 * count * 64 :].any()  # rows of further threads are left alone


FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def packed(low, high, dtype):
    pair = np.array([low, high]).astype(dtype).view(np.uint16)
    return int(pair[0]) | int(pair[1]) << 16


@pytest.mark.parametrize(("accumulator", "operand"), [("f32", "f16"), ("f32", "bf16"), ("f16", "f16")])
def test_mma(accumulator, operand):
    a, b, c = rng.integers(-8, 9, (16, 16)), rng.integers(-8, 9, (16, 8)), rng.integers(-99, 99, (16, 8))
    dtype = FLOATS[operand]

    def fragments(lane):  # "Matrix Fragments for mma.m16n8k16 with floating point type"
        group, member = lane // 4, lane % 4
        of_a = [a[group + (8 if i in (2, 3, 6, 7) else 0), member * 2 + i % 2 + (8 if i >= 4 else 0)] for i in range(8)]
        of_b = [b[member * 2 + i % 2 + (8 if i >= 2 else 0), group] for i in range(4)]
        of_c = [c[group + (8 if i >= 2 else 0), member * 2 + i % 2] for i in range(4)]
        registers = [packed(*pair, dtype) for pair in zip(of_a[::2], of_a[1::2], strict=True)]
        return (
            tuple(registers),
            tuple(packed(*pair, dtype) for pair in zip(of_b[::2], of_b[1::2], strict=True)),
            tuple(map(np.float32, of_c))
            if accumulator == "f32"
            else tuple(packed(*pair, np.float16) for pair in zip(of_c[::2], of_c[1::2], strict=True)),
        )

    results = Machine().together(getattr(matrix, f"mma_m16n8k16_{accumulator}_{operand}"), fragments)
    d = a @ b + c
    for lane in LANES:
        wanted = [d[lane // 4 + (8 if i >= 2 else 0), lane % 4 * 2 + i % 2] for i in range(4)]
        if accumulator == "f16":
            wanted = [packed(*pair, np.float16) for pair in zip(wanted[::2], wanted[1::2], strict=True)]
        assert list(results[lane]) == wanted


# Warps ---------------------------------------------------------------------------------------------------------------


def test_one_thread_of_a_warp_is_elected():
    assert sum(Machine().together(warp.elect_one, lambda lane: ())) == 1


@pytest.mark.parametrize(("thread", "of"), [(0, (0, 0)), (31, (0, 0)), (32, (1, 0)), (127, (3, 0)), (300, (9, 2))])
def test_places(thread, of):
    machine = Machine()
    machine.thread = type("Thread", (), {"index": thread, "lane": thread % 32})
    assert (one_of(machine, warp.warp_index), one_of(machine, warp.warp_group_index)) == of
    assert one_of(machine, warp.lane_index) == thread % 32


# Conversions ---------------------------------------------------------------------------------------------------------


def bf16_bits(value):
    """Round to nearest even by the bits of the float32."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return bits + 0x7FFF + (bits >> 16 & 1) >> 16


def f16_bits(value):
    try:
        return struct.unpack("<H", struct.pack("<e", value))[0]
    except OverflowError:
        return 0x7C00 | 0x8000 * (value < 0)


HARD = [0.0, -0.0, 1.0, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8, 65504.0, 65520.0, -1e6, 6e-8, 2.0**-25]
HARD += [3.3895e38, math.inf, -math.inf, *map(float, rng.standard_normal(50).astype(np.float32))]


@pytest.mark.parametrize(("name", "bits"), [("f16", f16_bits), ("bf16", bf16_bits)])
def test_pack(name, bits):
    pack = getattr(convert, f"pack_{name}x2")
    for low, high in zip(HARD, HARD[::-1], strict=True):
        low, high = float(np.float32(low)), float(np.float32(high))
        assert one_of(Machine(), pack, low, high) == bits(low) | bits(high) << 16
    assert one_of(Machine(), pack, math.nan, 1.0) & 0xFFFF == 0x7FFF


def test_unpack():
    assert one_of(Machine(), convert.unpack_f16x2, 0x3C00 | 0xC100 << 16) == (1.0, -2.5)
    assert one_of(Machine(), convert.unpack_bf16x2, 0x3F80 | 0xC020 << 16) == (1.0, -2.5)
    low, high = one_of(Machine(), convert.unpack_f16x2, 0x0001 | 0x7C00 << 16)
    assert (low, high) == (2.0**-24, math.inf)
    assert low.dtype == np.float32


# Memory --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4])
def test_vector_loads_and_stores(count):
    text = f"v{count}_b32" if count > 1 else "b32"
    array = np.arange(100, 116, dtype=np.uint32)
    loaded = one_of(Machine(), getattr(memory, f"ld_global_{text}"), GlobalElement(array, 16))
    assert loaded == (tuple(range(104, 104 + count)) if count > 1 else 104)
    values = tuple(range(2**32 - count, 2**32))
    one_of(
        Machine(), getattr(memory, f"st_global_{text}"), GlobalElement(array, 32), values if count > 1 else values[0]
    )
    wanted = [*range(100, 108), *values, *range(108 + count, 116)]
    assert array.tolist() == wanted


TILE = SharedView(tile("float16", (8, 64)), 0)


class Held:
    accumulator_shape = (64, 8)


# Operands ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instruction", "operands", "message"),
    [
        (wgmma.zeros, (uint32, 64), "wgmma.zeros: dtype must be float32 or float16; got uint32"),
        (wgmma.zeros, (float64, 64), "wgmma.zeros: dtype must be float32 or float16; got float64"),
        (wgmma.zeros, ("float32", 64), "wgmma.zeros: dtype must be float32 or float16; got float32"),
        (wgmma.zeros, (np.float32, 12), "wgmma.zeros: n must be 8 to 256 in steps of 8; got 12"),
        (wgmma.zeros, (np.float32, 16.0), "wgmma.zeros: n must be a compile-time integer; got 16.0"),
        (wgmma.for_each_pair, (print, Held(), 3), "wgmma.for_each_pair: args must be a tuple; got 3"),
        (wgmma.for_each_pair, (3, Held(), ()), "wgmma.for_each_pair: function must be a device function; got 3"),
        (wgmma.for_each_pair, (print, 3, ()), "wgmma.for_each_pair: acc must be an accumulator; got 3"),
        (memory.view, (np.zeros(3), tile("float16", (8, 64))), "memory.view: array must be a shared array; got"),
        (memory.view, (Row(0), 3), "memory.view: description must be a tile(…) or barriers(…); got 3"),
        (matrix.ldmatrix_x1, (TILE,), "row must be an element's address, tile.address(…); got tile(float16, (8, 64)"),
        (matrix.stmatrix_x1, (TILE, (1,)), "row must be an element's address, tile.address(…); got tile(float16"),
        (mbarrier.init, (Row(0),), "mbarrier.init: missing a required argument: 'count'; it is mbarrier.init(barrier"),
        (timer.nanosleep, (1.0,), "timer.nanosleep: nanoseconds must be an integer (u32); got 1.0"),
        (timer.nanosleep, (2_000_000,), "timer.nanosleep: nanoseconds must be 0 to 1000000; got 2000000"),
        (warp.setmaxnreg_dec, (44,), "warp.setmaxnreg_dec: count must be 24 to 256 in steps of 8; got 44"),
        (convert.pack_f16x2, (1, 1.0), "convert.pack_f16x2: low must be a float; got 1"),
        (matrix.ldmatrix_x1, (3,), "matrix.ldmatrix_x1: row must be a view of shared memory or a shared array; got 3"),
        (matrix.stmatrix_x2, (Row(0), (1,)), "matrix.stmatrix_x2: values must be a tuple of 2 u32; got (1,)"),
        (
            memory.ld_global_b32,
            (3,),
            "memory.ld_global_b32: address must be an element's address, address_of(array, …)",
        ),
    ],
)
def test_refused_when_interpreted_too(instruction, operands, message):
    with pytest.raises(TypeError) as refusal:
        one_of(Machine(), instruction, *operands)
    assert message in str(refusal.value)
