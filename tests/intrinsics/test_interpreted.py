"""Every registered instruction, executed by the interpreter, gives what is worked out beside its kernel without it."""

import numpy as np
import pytest
from kernels import CASES, interpret


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_interpreted(case, seed):
    arrays = interpret(case, seed)
    if case.target is not None:
        np.testing.assert_array_equal(arrays[1], case.target(arrays[0]))
    np.testing.assert_array_equal(arrays[-1], case.out())
