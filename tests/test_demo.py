"""The demo runs every stage, prints a row for each and fails if one is wrong."""

import contextlib
import io

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


@pytest.fixture(scope="module")
def said():
    """What it prints where all is right."""
    with (
        pytest.MonkeyPatch.context() as patch,
        interpreter.interpret(),
        contextlib.redirect_stdout(io.StringIO()) as to,
    ):
        patch.setattr(demo, "SHAPES", {"interpreter": (24, 40, 72)})
        assert demo.main([]) == 0
    return to.getvalue()


def rows(said):
    """The rows of the table by stage."""
    lines = said.splitlines()
    (head,) = (i for i, line in enumerate(lines) if line.startswith("stage"))
    return {line.split()[0]: line for line in lines[head + 1 :]}


def test_every_stage_is_right(said):
    assert list(rows(said)) == list(STAGES)
    for line in rows(said).values():
        assert "interpreter" in line
        assert "24 x 40 x 72" in line
        assert line.endswith("right")


def test_wgmma_is_counted(said):
    counts = {name: int(line.split()[-2]) for name, line in rows(said).items()}
    assert counts.pop("v0") == 0
    assert all(counts.values())


def test_it_says_which_errors_are_right(said):
    assert "up to 9.8e-04 |C| plus\n  6.9e-05 where sums are float32: v0, v1, v2, v3, v4, v5\n" in said
    assert "  7.0e-02 where sums are float16: v6\n" in said


def test_it_says_why_it_interprets(said):
    assert "in the interpreter: it was asked for" in said


@pytest.mark.parametrize(("stage", "wrong"), [("v1", np.nan), ("v1", 0.02), ("v6", np.nan), ("v6", 0.25)])
def test_a_wrong_element_fails(small, capsys, monkeypatch, stage, wrong):
    right = getattr(hopper_numba, f"matmul_{stage}")

    def nearly_right(a, b):
        c = right(a, b)
        c[3, 5] += np.float16(wrong)
        return c

    monkeypatch.setattr(hopper_numba, f"matmul_{stage}", nearly_right)
    monkeypatch.setattr(demo, "STAGES", {name: STAGES[name] for name in ("v1", "v6")})
    assert demo.main([]) == 1
    assert [name for name, line in rows(capsys.readouterr().out).items() if line.endswith("WRONG")] == [stage]
