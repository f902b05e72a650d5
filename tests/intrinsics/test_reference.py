"""The reference page has every function, and the one that is checked in is the current one."""

from pathlib import Path

from hopper_numba import reference
from hopper_numba.intrinsics import REGISTRY

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"


def test_the_page_is_current():
    assert PAGE.read_text() == reference.page(), "docs/reference.md is stale: make docs"


def test_every_instruction_and_device_function_has_an_entry():
    entries = {entry.name for found in reference.chapters().values() for entry in found}
    assert entries == set(REGISTRY) | {"memory.address_of", "memory.view", "wgmma.zeros", "wgmma.for_each_pair"}
    page = reference.page()
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
    assert capsys.readouterr().out == reference.page()
