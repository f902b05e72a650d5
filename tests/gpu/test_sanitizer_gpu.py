"""compute-sanitizer agrees where it can see: it knows ordinary memory and barriers, not what TMA copies."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hopper_numba.matmul import STAGES

SANITIZER = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
PRODUCT = """
import sys
import numpy as np
import hopper_numba

rng = np.random.default_rng(0)
a, b = (rng.integers(-2, 3, (rows, 200)).astype(np.float16) for rows in (200, 264))
c = getattr(hopper_numba, f"matmul_{sys.argv[1]}")(a, b.T)
np.testing.assert_array_equal(c, a.astype(np.float32) @ b.T.astype(np.float32))
"""


ROOT = Path(__file__).parents[2]
NEEDS_SANITIZER = pytest.mark.skipif(SANITIZER is None, reason="compute-sanitizer is not installed")
TOOLS = pytest.mark.parametrize("tool", ["memcheck", "synccheck"])


def finds_nothing(tool, *python):
    # what the driver is asked before there is a context is no fault of a kernel
    options = ["--tool", tool, "--report-api-errors", "no", "--error-exitcode", "9"]
    command = [SANITIZER, *options, sys.executable, *python]
    run = subprocess.run(command, capture_output=True, text=True, timeout=500, cwd=ROOT, check=False)
    assert run.returncode == 0 and "ERROR SUMMARY: 0 errors" in run.stdout, run.stdout[-3000:] + run.stderr[-3000:]


@pytest.mark.gpu
@NEEDS_SANITIZER
@TOOLS
@pytest.mark.parametrize("stage", STAGES)
def test_nothing_is_found_in_a_stage(stage, tool, tmp_path):
    script = tmp_path / "product.py"
    script.write_text(PRODUCT)
    finds_nothing(tool, str(script), stage)


# synccheck counts an arrival that raises the count (cp_async.mbarrier_arrive) and the one behind it as two of a thread
LEFT_OUT = {"memcheck": "", "synccheck": "not arrivals"}


@pytest.mark.gpu
@NEEDS_SANITIZER
@TOOLS
def test_nothing_is_found_in_the_kernels_of_the_instructions(tool):
    options = ["-q", "-p", "no:cacheprovider", "-k", LEFT_OUT[tool]]
    finds_nothing(tool, "-m", "pytest", *options, "tests/intrinsics/test_on_gpu.py")
