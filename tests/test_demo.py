"""The demo runs every stage, prints a row for each and fails if one is wrong."""

import numpy as np
import pytest

import hopper_numba
from hopper_numba import demo, interpreter
from hopper_numba.matmul import STAGES


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(demo, "SHAPES", {"interpreter": (24, 40, 72)})
    with interpreter.interpret():
        yield


def rows(capsys):
    """The rows of the table by stage, as dictionaries."""
    lines = capsys.readouterr().out.splitlines()
    (head,) = (i for i, line in enumerate(lines) if line.startswith("stage"))
    return {line.split()[0]: line for line in lines[head + 1 :]}


def test_every_stage_is_right(small, capsys):
    assert demo.main([]) == 0
    found = rows(capsys)
    assert list(found) == list(STAGES)
    for line in found.values():
        assert "interpreter" in line
        assert "24 x 40 x 72" in line
        assert line.endswith("right")


def test_wgmma_is_counted(small, capsys):
    demo.main([])
    counts = {name: int(line.split()[-2]) for name, line in rows(capsys).items()}
    assert counts.pop("v0") == 0
    assert all(counts.values())


@pytest.mark.parametrize("wrong", [np.nan, 0.5])
def test_a_wrong_element_fails(small, capsys, monkeypatch, wrong):
    right = hopper_numba.matmul_v1

    def nearly_right(a, b):
        c = right(a, b)
        c[3, 5] += np.float16(wrong)
        return c

    monkeypatch.setattr(hopper_numba, "matmul_v1", nearly_right)
    assert demo.main([]) == 1
    found = rows(capsys)
    assert found["v1"].endswith("WRONG")
    assert found["v0"].endswith("right")


def test_it_says_why_it_interprets(small, capsys):
    demo.main([])
    assert "in the interpreter: it was asked for" in capsys.readouterr().out
