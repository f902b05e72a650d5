"""What the README and the guide show runs, and says what it shows."""

import json
import re
from pathlib import Path

import pytest

from hopper_numba import interpret, intrinsics
from hopper_numba.interpreter import TxMismatchError
from hopper_numba.intrinsics import REGISTRY
from hopper_numba.measuring.report import markdown

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def execute(block, folder):
    """Run a block as a file named copy.py, which tracebacks can quote."""
    path = folder / "copy.py"
    path.write_text(block)
    exec(compile(block, str(path), "exec"), {"__name__": "readme"})


@pytest.fixture(autouse=True)
def registry():
    """What a guide declares is forgotten."""
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


@pytest.mark.parametrize("name", ["kernels.md", "ptx.md"])
def test_a_guide_runs_from_top_to_bottom(name, tmp_path):
    guide = README.parent / "docs" / name
    with interpret():
        execute("\n".join(re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)), tmp_path)


def test_what_the_guide_names_is_there():
    guide = README.parent / "docs" / "ptx.md"
    table = guide.read_text().partition("## Operands")[0]
    named = re.findall(r"`(\w+)\.(\w+)`", "\n".join(row.split("|")[2] for row in table.splitlines() if "|" in row))
    assert len(named) > 15
    for chapter, function in named:
        assert hasattr(getattr(intrinsics, chapter), function)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_blocks_run(block, tmp_path):
    with interpret():
        execute(block, tmp_path)


def test_the_deadlock_is_reported_as_shown(tmp_path):
    kernel = next(block for block in BLOCKS if "arrive_expect_tx" in block)
    shown = re.search(r"```text\nTxMismatchError: (.*?)```", README.read_text(), re.DOTALL)[1]
    with pytest.raises(TxMismatchError) as caught:
        execute(kernel.replace("smem.rows.nbytes", "2 * smem.rows.nbytes"), tmp_path)
    assert str(caught.value).replace(f"{tmp_path}/", "").strip() == shown.strip()


def test_the_measured_table_is_that_of_the_results():
    results = json.loads((README.parent / "benchmarks/results/h200-ladder.json").read_text())
    assert markdown(results) in README.read_text()
    assert results["environment"]["board"] in README.read_text()
    assert results["environment"]["driver"] in README.read_text()
