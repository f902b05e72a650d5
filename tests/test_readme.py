"""What the README and the guide show runs, and says what it shows."""

import json
import re
from pathlib import Path

import pytest

from hopper_numba import interpret
from hopper_numba.interpreter import DeadlockError

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def execute(block, folder):
    """Run a block as a file named copy.py, which tracebacks can quote."""
    path = folder / "copy.py"
    path.write_text(block)
    exec(compile(block, str(path), "exec"), {"__name__": "readme"})


def test_the_guide_runs_from_top_to_bottom(tmp_path):
    guide = README.parent / "docs" / "kernels.md"
    with interpret():
        execute("\n".join(re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)), tmp_path)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_blocks_run(block, tmp_path):
    with interpret():
        execute(block, tmp_path)


def test_the_deadlock_is_reported_as_shown(tmp_path):
    kernel = next(block for block in BLOCKS if "arrive_expect_tx" in block)
    shown = re.search(r"```text\nDeadlockError: (.*?)```", README.read_text(), re.DOTALL)[1]
    with pytest.raises(DeadlockError) as caught:
        execute(kernel.replace("smem.rows.nbytes", "2 * smem.rows.nbytes"), tmp_path)
    assert str(caught.value).replace(f"{tmp_path}/", "").strip() == shown.strip()


def test_the_measured_table_is_that_of_the_results():
    results = json.loads((README.parent / "benchmarks/results/h200-stages.json").read_text())
    for row in results["rows"]:
        cells = (
            f"{row['tflops']:.0f} | {row['ratio']:.2f} | {row['sustained_ratio']:.2f} | {row['max_error']:.3f} | "
            f"{row['cublas_max_error']:.3f} |"
        )
        assert cells in README.read_text()
    assert results["environment"]["board"] in README.read_text()
    assert results["environment"]["driver"] in README.read_text()
