"""Every registered instruction is compiled and assembled for sm_90a, and comes out as what it is declared to be."""

import re

import pytest
from kernels import CASES, pattern
from numba import cuda, float32
from numba.cuda import types

from hopper_numba.intrinsics import REGISTRY, barrier, convert, fence, matrix, mbarrier, timer, warp
from hopper_numba.intrinsics.types import TensorMapType


def signature(case):
    arrays = (types.uint32[::1], types.uint32[::1])
    if case.box is None:
        return arrays
    parameter = TensorMapType(case.box.dtype, case.box.box, case.box.swizzle)
    return (*[types.uint64[::1] if case.in_memory else parameter] * 2, *arrays)


def test_every_instruction_has_a_kernel():
    covered = [name for case in CASES for name in case.covers]
    assert set(covered) == set(REGISTRY)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kernel_is_assembled(case, compile_kernel, machine_code):
    compiled = compile_kernel(case.kernel, signature(case), case.threads)
    for name in case.covers:
        assert re.search(pattern(REGISTRY[name]), compiled.ptx), f"{name} is missing:\n{compiled.ptx}"
    for opcode in case.sass:
        assert re.search(opcode, machine_code(compiled))


def count(compiled, instruction):
    return len(re.findall(pattern(instruction), compiled.ptx))


def twice(given, out):
    t = warp.lane_index() + warp.warp_index() * 32
    if warp.elect_one():
        out[t] = given[t]
    cycles = timer.clock64()
    barrier.sync(1, 128)
    barrier.sync(1, 128)
    fence.acq_rel_gpu()
    fence.acq_rel_gpu()
    if warp.elect_one():
        out[32 + warp.lane_index() + warp.warp_index() * 32] = timer.clock64() - cycles


def test_only_statements_that_need_no_order_are_merged(compile_kernel):
    compiled = compile_kernel(twice, (types.uint32[::1],) * 2, 128)
    for instruction in (warp.lane_index, warp.warp_index, warp.elect_one):
        assert instruction.pure
        assert count(compiled, instruction) == 1
    for instruction in (timer.clock64, barrier.sync, fence.acq_rel_gpu):
        assert not instruction.pure
        assert count(compiled, instruction) == 2


def unused(given, out):
    warp.elect_one()
    convert.pack_f16x2(float32(given[0]), float32(given[1]))
    timer.clock64()
    matrix.ldmatrix_x1(cuda.shared.array(8, types.uint16))


def test_only_statements_that_need_no_order_are_dropped(compile_kernel):
    compiled = compile_kernel(unused, (types.uint32[::1],) * 2, 128)
    assert count(compiled, warp.elect_one) == count(compiled, convert.pack_f16x2) == 0
    assert count(compiled, timer.clock64) == count(compiled, matrix.ldmatrix_x1) == 1


def elect_before_a_branch(given, out):
    elected = warp.elect_one()
    if given[cuda.threadIdx.x] > 3 and elected:
        out[0] = given[1]


def test_an_election_is_not_sunk_into_a_branch(compile_kernel):
    compiled = compile_kernel(elect_before_a_branch, (types.uint32[::1],) * 2, 128)
    assert compiled.ptx.index("elect.sync") < re.search(r"\sbra\s", compiled.ptx).start()


def one_barrier(given, out):
    barrier.sync(1, 128)
    mbarrier.arrive(cuda.shared.array(1, types.uint64), 1)


def test_constant_names_reserve_no_other_barriers_and_unused_states_no_registers(compile_kernel, machine_code):
    compiled = compile_kernel(one_barrier, (types.uint32[::1],) * 2, 128)
    assert "used 2 barriers" in compiled.log
    assert re.search(r"SYNCS.ARRIVE.TRANS64\S* RZ,", machine_code(compiled))
