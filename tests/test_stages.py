"""What the stages' machine code must be, without a GPU."""

import re

import pytest

from hopper_numba.matmul import STAGES, build_stage, dtypes_of

EVERY = [(name, dtype) for name in STAGES for dtype in dtypes_of(name)]


def compiled(name, dtype):
    return build_stage(name, dtype).compile()


@pytest.mark.parametrize(("name", "dtype"), EVERY, ids=str)
def test_ptxas_finds_nothing(name, dtype):
    stage = compiled(name, dtype)
    assert stage.findings == []
    assert stage.resources.stack == 0 and ".local" not in stage.ptx


def instructions(sass):
    """Each instruction of a disassembly: predicate, opcode and operands."""
    lines = (re.sub(r"/\*[^*]*\*/", "", line).strip() for line in sass.splitlines())
    return [line for line in lines if re.match(r"(@!?U?P\w+ )?[A-Z][\w.]+.*;$", line)]


@pytest.mark.parametrize("dtype", dtypes_of("v0"), ids=str)
def test_v0_multiplies_with_mma_sync_from_swizzled_shared_memory(dtype):
    opcodes = " ".join(instructions(compiled("v0", dtype).sass))
    kind = "HMMA.16816.F32.BF16" if dtype.name == "bfloat16" else "HMMA.16816.F32 "
    assert kind in opcodes and "LDSM.16.M88.4" in opcodes and opcodes.count("UTMALDG.2D") == 4
    assert "HGMMA" not in opcodes


@pytest.mark.parametrize(("name", "dtype"), [one for one in EVERY if one[0] != "v0"], ids=str)
def test_no_instruction_touches_an_accumulator_in_flight(name, dtype):
    in_flight, seen = set(), 0
    for line in instructions(compiled(name, dtype).sass):
        if found := re.search(r"HGMMA\.64x(\d+)x16\.(F32|F16)\S* R(\d+)", line):
            count = int(found[1]) // (2 if found[2] == "F32" else 4)
            in_flight |= {f"R{int(found[3]) + i}" for i in range(count)}
            seen += 1
        elif "WARPGROUP.DEPBAR.LE gsb0, 0x0" in line:
            in_flight.clear()
        else:
            assert not in_flight & set(re.findall(r"\bR\d+\b", line)), line
    assert seen >= 4 and not in_flight
    assert "LDSM" not in compiled(name, dtype).sass
