"""What instructions mean on the CPU, against values worked out from the PTX manual's own formulas."""

import math
import struct

import ml_dtypes
import numpy as np
import pytest
from kernels.floats import EIGHTS, eight, halves, tf32, values
from numba import float64, uint32

from hopper_numba.intrinsics import convert, cp_async, matrix, mbarrier, memory, tile, timer, warp, wgmma
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

    def shared_load(self, address, nbytes, lane=None):
        return self.shared[address : address + nbytes]

    def shared_store(self, address, data, lane=None):
        self.shared[address : address + len(data)] = data

    def accumulator(self, dtype, n):
        raise AssertionError("never reached")

    def global_load(self, element, nbytes):
        return element.array.view(np.uint8)[element.offset : element.offset + nbytes]

    global_acquire = global_load

    def global_release(self, element, data):
        self.global_store(element, data)

    def global_store(self, element, data):
        element.array.view(np.uint8)[element.offset : element.offset + len(data)] = data

    def global_update(self, element, dtype, update):
        place = element.array.view(np.uint8)[element.offset : element.offset + dtype.itemsize].view(dtype)
        place[0] = update(int(place[0])) % 2 ** (8 * dtype.itemsize)

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


@pytest.mark.parametrize("mask", range(32))
def test_butterfly(mask):
    got = Machine().together(warp.shfl_bfly, lambda lane: (3 * lane, mask))
    assert got == [3 * (lane ^ mask) for lane in LANES]


@pytest.mark.parametrize("mask", [-1, 32, 1.0])
def test_butterfly_across_warps(mask):
    with pytest.raises(TypeError, match=r"warp\.shfl_bfly: mask must be "):
        one_of(Machine(), warp.shfl_bfly, 0, mask)


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


@pytest.mark.parametrize("name", EIGHTS)
def test_pack_in_eight_bits(name):
    pack = getattr(convert, f"pack_{name}x2")
    finite = [v for v in values(*EIGHTS[name])[:128] if math.isfinite(v)]
    middles = [(a + b) / 2 for a, b in zip(finite, [*finite[1:], 2 * finite[-1] - finite[-2]], strict=True)]
    numbers = np.array([*HARD, *finite, *middles, 1e-45, 3e-39, 1e9], np.float32)
    numbers = np.concatenate([numbers, np.nextafter(numbers, np.float32(0)), np.nextafter(numbers, np.float32(9e9))])
    numbers = np.concatenate([numbers, -numbers])
    wanted = eight(name, numbers) | eight(name, numbers[::-1]) << 8
    for low, high, both in zip(numbers, numbers[::-1], wanted, strict=True):
        assert one_of(Machine(), pack, low, high) == both


@pytest.mark.parametrize(
    ("name", "number", "code"),
    [
        ("e4m3", 448.0, 0x7E),
        ("e4m3", 464.0, 0x7E),
        ("e4m3", 1e30, 0x7E),
        ("e4m3", -math.inf, 0xFE),
        ("e4m3", math.nan, 0x7F),
        ("e4m3", -math.nan, 0x7F),
        ("e4m3", 2.0**-10, 0x00),
        ("e4m3", -(2.0**-10), 0x80),
        ("e4m3", 2.0**-10 * 1.001, 0x01),
        ("e4m3", 1.0625, 0x38),
        ("e4m3", 1.1875, 0x3A),
        ("e5m2", 57344.0, 0x7B),
        ("e5m2", 61440.0, 0x7B),
        ("e5m2", math.inf, 0x7B),
        ("e5m2", -1e30, 0xFB),
        ("e5m2", math.nan, 0x7F),
        ("e5m2", 2.0**-17, 0x00),
        ("e5m2", 3 * 2.0**-17, 0x02),
    ],
)
def test_hard_numbers_in_eight_bits(name, number, code):
    assert one_of(Machine(), getattr(convert, f"pack_{name}x2"), number, 1.0) & 0xFF == code
    assert one_of(Machine(), getattr(convert, f"pack_{name}x2"), 1.0, number) >> 8 == code


def test_hard_halves_in_eight_bits():
    pairs = {
        0x7C00FC00: (0xFE | 0x7E << 8, 0xFB | 0x7B << 8),
        0xFE017C01: (0x7F7F, 0x7F7F),
        0x14001401: (0x01, 0x14 << 8 | 0x14),
    }
    for packed, (e4m3, e5m2) in pairs.items():
        assert one_of(Machine(), convert.pack_e4m3x2_f16x2, packed) == e4m3
        assert one_of(Machine(), convert.pack_e5m2x2_f16x2, packed) == e5m2


@pytest.mark.parametrize("name", EIGHTS)
def test_pack_every_half_in_eight_bits(name):
    pack = getattr(convert, f"pack_{name}x2_f16x2")
    low = np.arange(0, 1 << 16, 3)
    high = (low * 7 + 1) % (1 << 16)
    wanted = eight(name, values(5, 10)[low]) | eight(name, values(5, 10)[high]) << 8
    with running(Machine()):
        found = [pack(packed) for packed in (low | high << 16).tolist()]
    assert found == wanted.tolist()


@pytest.mark.parametrize("name", EIGHTS)
def test_unpack_every_pair_of_eight_bits(name):
    unpack = getattr(convert, f"unpack_{name}x2")
    codes = halves(np.arange(256), name)
    pairs = np.arange(1 << 16)
    with running(Machine()):
        found = [unpack(packed) for packed in (pairs | 0xBEEF << 16).tolist()]
    assert found == (codes[pairs & 255] | codes[pairs >> 8] << 16).tolist()


@pytest.mark.parametrize("rounding", ["rna", "rn", "rz"])
def test_tf32(rounding):
    convert_to = getattr(convert, f"tf32_{rounding}")
    bits = rng.integers(0, 2**32, 4000, np.uint32)
    bits[::2] = bits[::2] & 0xFFFFE000 | np.resize([0x0FFF, 0x1000, 0x1001, 0x1FFF, 1], 2000)
    bits = bits[(bits >> 23 & 0xFF) != 0xFF]
    bits = np.concatenate([bits, np.array([0, 1 << 31, 1, 0x1000, 0x7F7FFFFF, 0x7F800000, 0xFF800000], np.uint32)])
    with running(Machine()):
        found = [int(convert_to(number).view(np.uint32)) for number in bits.view(np.float32)]
    assert found == tf32(bits, rounding).tolist()
    nan = np.array([0xFFC01234], np.uint32).view(np.float32)[0]
    wanted = 0xFFC00000 if rounding == "rna" else 0x7FFFE000
    assert int(one_of(Machine(), convert_to, nan).view(np.uint32)) == wanted


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


@pytest.mark.parametrize("scope", ["gpu", "sys"])
@pytest.mark.parametrize("bits", [32, 64])
def test_ordered_loads_and_stores(scope, bits):
    array = np.arange(100, 116, dtype=np.uint32)
    loaded = one_of(Machine(), getattr(memory, f"ld_acquire_{scope}_b{bits}"), GlobalElement(array, 16))
    assert loaded == (104 if bits == 32 else 104 | 105 << 32)
    one_of(Machine(), getattr(memory, f"st_release_{scope}_b{bits}"), GlobalElement(array, 32), 2**bits - 2)
    changed = [2**32 - 2] if bits == 32 else [2**32 - 2, 2**32 - 1]
    assert array.tolist() == [*range(100, 108), *changed, *range(108 + len(changed), 116)]


@pytest.mark.parametrize("scope", ["gpu", "sys"])
@pytest.mark.parametrize(
    ("operation", "old", "value", "new"),
    [
        ("add_u32", 2**32 - 2, 5, 3),
        ("min_u32", 7, 2**32 - 1, 7),
        ("min_u32", 2**31, 7, 7),
        ("max_u32", 7, 2**32 - 1, 2**32 - 1),
        ("max_u32", 2**31, 7, 2**31),
        ("and_b32", 0b1100, 0b1010, 0b1000),
        ("or_b32", 0b1100, 0b1010, 0b1110),
        ("xor_b32", 0b1100, 0b1010, 0b0110),
        ("add_u64", 2**64 - 2, 5, 3),
        ("add_u64", 2**32 - 1, 1, 2**32),
    ],
)
def test_reductions(scope, operation, old, value, new):
    array = np.array([9, old, 9], np.uint64)
    one_of(Machine(), getattr(memory, f"red_release_{scope}_{operation}"), GlobalElement(array, 8), value)
    assert array.tolist() == [9, new, 9]


TILE = SharedView(tile("float16", (8, 64)), 0)
ELEMENT = GlobalElement(np.zeros(4, np.uint32), 0)


class Held:
    accumulator_shape = (64, 8)
    n = 8


# Operands ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instruction", "operands", "message"),
    [
        (wgmma.zeros, (uint32, 64), "wgmma.zeros: dtype must be float32, float16 or int32; got uint32"),
        (wgmma.zeros, (float64, 64), "wgmma.zeros: dtype must be float32, float16 or int32; got float64"),
        (wgmma.zeros, ("float64", 64), "wgmma.zeros: dtype must be float32, float16 or int32; got float64"),
        (wgmma.zeros, (np.float32, 12), "wgmma.zeros: n must be 8 to 256 in steps of 8; got 12"),
        (wgmma.zeros, (np.float32, 16.0), "wgmma.zeros: n must be a compile-time integer; got 16.0"),
        (wgmma.for_each_pair, (print, Held(), 3), "wgmma.for_each_pair: args must be a tuple; got 3"),
        (wgmma.for_each_pair, (3, Held(), ()), "wgmma.for_each_pair: function must be a device function; got 3"),
        (wgmma.for_each_pair, (print, 3, ()), "wgmma.for_each_pair: acc must be an accumulator; got 3"),
        (wgmma.for_each_block, (print, Held(), 3), "wgmma.for_each_block: args must be a tuple; got 3"),
        (
            wgmma.for_each_block,
            (print, Held(), ()),
            "wgmma.for_each_block: acc must have a multiple of 16 columns; got",
        ),
        (memory.view, (np.zeros(3), tile("float16", (8, 64))), "memory.view: array must be a shared array; got"),
        (memory.view, (Row(0), 3), "memory.view: description must be a tile(…) or barriers(…); got 3"),
        (matrix.ldmatrix_x1, (TILE,), "row must be an element's address, tile.address(…); got tile(float16, (8, 64)"),
        (matrix.stmatrix_x1, (TILE, (1,)), "row must be an element's address, tile.address(…); got tile(float16"),
        (mbarrier.init, (Row(0),), "mbarrier.init: missing a required argument: 'count'; it is mbarrier.init(barrier"),
        (timer.nanosleep, (1.0,), "timer.nanosleep: nanoseconds must be an integer (u32); got 1.0"),
        (timer.nanosleep, (2_000_000,), "timer.nanosleep: nanoseconds must be 0 to 1000000; got 2000000"),
        (warp.setmaxnreg_dec, (44,), "warp.setmaxnreg_dec: count must be 24 to 256 in steps of 8; got 44"),
        (convert.pack_f16x2, (1, 1.0), "convert.pack_f16x2: low must be a float; got 1"),
        (convert.tf32_rn, (1,), "convert.tf32_rn: value must be a float; got 1"),
        (convert.unpack_e4m3x2, (1.0,), "convert.unpack_e4m3x2: packed must be an integer (u32); got 1.0"),
        (memory.st_release_gpu_b64, (3, 1), "memory.st_release_gpu_b64: address must be an element's address"),
        (memory.red_release_gpu_add_u32, (ELEMENT, 1.0), "red_release_gpu_add_u32: value must be an integer (u32)"),
        (cp_async.copy_ca_4, (Row(0), 3), "cp_async.copy_ca_4: source must be an element's address"),
        (cp_async.copy_ca_4, (3, ELEMENT), "cp_async.copy_ca_4: destination must be a view of shared memory or a sh"),
        (cp_async.copy_ca_4, (TILE, ELEMENT), "cp_async.copy_ca_4: destination must be an element's address, tile"),
        (cp_async.copy_ca_4, (Row(0), ELEMENT, 5), "cp_async.copy_ca_4: source_nbytes must be 0 to 4; got 5"),
        (cp_async.copy_cg_16, (Row(0), ELEMENT, -1), "cp_async.copy_cg_16: source_nbytes must be 0 to 16; got"),
        (cp_async.wait_group, (64,), "cp_async.wait_group: n must be 0 to 63; got 64"),
        (cp_async.mbarrier_arrive, (TILE,), "cp_async.mbarrier_arrive: barrier must be one barrier; got tile"),
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
