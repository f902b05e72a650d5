"""compute-sanitizer agrees where it can see: it knows ordinary memory and barriers, not what TMA copies."""

import os
import shutil
import subprocess
import sys

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


@pytest.mark.gpu
@pytest.mark.skipif(SANITIZER is None, reason="compute-sanitizer is not installed")
@pytest.mark.parametrize("tool", ["memcheck", "synccheck"])
@pytest.mark.parametrize("stage", STAGES)
def test_compute_sanitizer_finds_nothing(stage, tool, tmp_path):
    script = tmp_path / "product.py"
    script.write_text(PRODUCT)
    command = [SANITIZER, "--tool", tool, "--error-exitcode", "9", sys.executable, str(script), stage]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ, check=False)
    assert run.returncode == 0 and "ERROR SUMMARY: 0 errors" in run.stdout, run.stdout[-3000:] + run.stderr[-3000:]
