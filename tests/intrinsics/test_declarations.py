"""A declaration with a mistake is refused when its module is imported."""

import re

import pytest

from hopper_numba.intrinsics import REGISTRY, mbarrier, ptx, timer
from hopper_numba.intrinsics.machine import machine
from hopper_numba.intrinsics.operands import u32, u64


def declare(function, text="nanosleep.u32 {count};", threads="any", **properties):
    return ptx(text, threads=threads, **properties)(function)


def good(count: u32) -> None:
    """Sleep."""
    machine().sleep(count)


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """What a test declares is forgotten."""
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def test_a_placeholder_without_a_parameter():
    with pytest.raises(TypeError, match=r"test_declarations.good: no parameter for the placeholders \['nbytes'\]"):
        declare(good, "nanosleep.u32 {nbytes};")


def test_a_result_that_is_not_returned():
    with pytest.raises(TypeError, match=r"test_declarations.good: no parameter for the placeholders \['result'\]"):
        declare(good, "mov.u32 {result}, {count};")


def test_a_result_that_the_text_never_writes():
    def clock() -> u64:
        """Read the clock."""
        return machine().clock()

    with pytest.raises(TypeError, match=r"test_declarations.clock: no placeholder for \['result'\]"):
        declare(clock, "griddepcontrol.wait;")


def test_a_parameter_that_the_text_never_reads():
    with pytest.raises(TypeError, match=r"test_declarations.good: no placeholder for \['count'\]"):
        declare(good, "griddepcontrol.wait;")


def test_a_missing_docstring():
    def bare(count: u32) -> None:
        machine().sleep(count)

    with pytest.raises(TypeError, match=r"test_declarations.bare: a docstring is missing"):
        declare(bare)


def test_an_empty_body():
    def empty(count: u32) -> None:
        """Sleep."""

    with pytest.raises(TypeError, match=r"test_declarations.empty: the body is missing; say no_effect=…"):
        declare(empty)
    assert declare(empty, no_effect="nobody sleeps").no_effect


def test_a_body_may_be_one_value():
    def one() -> u32:
        """One."""
        return 1

    assert declare(one, "mov.u32 {result}, 1;").name == "test_declarations.one"


@pytest.mark.parametrize("name", ["pure", "no_effect"])
def test_a_reason_is_words(name):
    with pytest.raises(TypeError, match=rf"test_declarations.good: {name} must be a string that says why; got True"):
        declare(good, **{name: True})


def test_an_operand_of_no_kind():
    def loose(count: int) -> None:
        """Sleep."""
        machine().sleep(count)

    with pytest.raises(
        TypeError, match=r"test_declarations.loose: the annotation of count must be an operand kind; got"
    ):
        declare(loose)


def test_unknown_threads():
    with pytest.raises(TypeError, match=r"test_declarations.good: threads must be one of .*; got 'quad'"):
        declare(good, threads="quad")


def test_an_unknown_proxy():
    for proxy in ("asynchronous", "async, generic"):
        with pytest.raises(TypeError, match=rf"test_declarations.good: proxy must be one of .*; got '{proxy}'"):
            declare(good, proxy=proxy)


def test_a_second_declaration():
    def other(count: u32) -> None:
        """Sleep."""
        machine().sleep(count)

    declare(good)
    other.__name__ = "good"
    with pytest.raises(TypeError, match=r"test_declarations.good is declared twice"):
        declare(other)
    with pytest.raises(TypeError, match=r"timer.nanosleep is declared twice"):
        declare(timer.nanosleep.meaning, "nanosleep.u32 {nanoseconds};")


def test_a_declaration_run_again_replaces_itself_as_in_a_notebook():
    declare(good)
    again = declare(good, "nanosleep.u32  {count};")
    assert REGISTRY["test_declarations.good"] is again


def test_what_code_depends_on_is_the_same_in_every_process():
    instruction = declare(good)
    for text in (repr(i.emitted_from[-1]) for i in (instruction, *REGISTRY.values())):
        assert " at 0x" not in text


def test_what_a_generator_makes_has_its_own_name_and_a_docstring_that_reads_well():
    for instruction in REGISTRY.values():
        assert instruction.meaning.__code__.co_name == instruction.name.partition(".")[2]
        assert not re.search(r"\b1 8 x 8|tuple of 1 |from 32 on", instruction.__doc__), instruction.name


def test_outside_a_kernel_nothing_can_be_called():
    with pytest.raises(RuntimeError, match=r"mbarrier.wait is a device function: a kernel calls it"):
        mbarrier.wait(None, 0)
    with pytest.raises(RuntimeError, match=r"no kernel is being interpreted here"):
        machine()
    assert repr(timer.clock64) == "<Instruction timer.clock64>"
