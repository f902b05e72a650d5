"""Every registered instruction gives the same bits on a GPU and in the interpreter."""

import numpy as np
import pytest
from kernels import CASES, arguments, interpret
from numba import cuda

from hopper_numba.jit import jit
from hopper_numba.tensor_map import TensorMap


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gpu_and_interpreter_agree(case):
    arrays = [cuda.to_device(array) for array in arguments(case)]
    maps = [TensorMap(array, case.box) for array in arrays[:-2]]
    kernel = jit(case.kernel, threads=case.threads, shared=case.shared, registers=case.registers, cluster=case.cluster)
    kernel[case.cluster](*maps, *arrays[-2:])
    cuda.synchronize()
    for found, wanted in zip(arrays, interpret(case, seed=0), strict=True):
        np.testing.assert_array_equal(found.copy_to_host(), wanted)
