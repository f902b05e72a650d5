"""The reference page has every function, and the one that is checked in is the current one."""

import re
from pathlib import Path

from hopper_numba import reference
from hopper_numba.intrinsics import REGISTRY

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"
KERNELS = Path(__file__).parent / "kernels"


def test_the_page_is_current():
    assert PAGE.read_text() == reference.page(reference.kernels_of(KERNELS)), "docs/reference.md is stale: make docs"


def test_every_instruction_has_a_row_with_its_text_threads_and_tests():
    rows = re.findall(r"^\| \[\w+\]\(#(\w+)\) \| `(.+)` \| ([a-z ]+) \| ([a-z, ]*) \| (.*) \|$", PAGE.read_text(), re.M)
    found = {name: rest for name, *rest in rows}
    assert set(found) == {name.replace(".", "") for name in REGISTRY}
    for name, instruction in REGISTRY.items():
        text, threads, proxy, tests = found[name.replace(".", "")]
        assert (threads, proxy) == (instruction.threads, instruction.proxy)
        assert text.split()[0] in instruction.text.replace("{{", "{") and re.match(r"`\w+`", tests), name


def test_every_instruction_and_device_function_has_an_entry():
    entries = {entry.name for found in reference.chapters().values() for entry in found}
    assert entries == set(REGISTRY) | {
        "memory.address_of",
        "memory.view",
        "wgmma.zeros",
        "wgmma.fragment",
        "wgmma.for_each_pair",
        "wgmma.for_each_block",
    }
    page = reference.page({})
    for name in entries:
        assert f"\n### {name}\n" in page


def test_every_docstring_says_what_the_page_needs():
    for name, instruction in REGISTRY.items():
        doc = instruction.__doc__
        assert 'PTX ISA, "' in doc, name
        assert ("Parameters\n" in doc) == bool(instruction.operands), name
        for operand in instruction.operands:
            assert f"\n    {operand} : " in doc or f"\n        {operand} : " in doc or f"{operand}\n" in doc, (
                name,
                operand,
            )
        assert "{" not in doc, name


def test_the_command_prints_the_page(capsys):
    assert reference.main([]) == 0
    assert capsys.readouterr().out == reference.page({})
