"""Every registered instruction gives the same bits on a GPU and in the interpreter."""

import numpy as np
import pytest
from kernels import CASES, arguments, interpret
from numba import cuda

from hopper_numba.copies import to_device, to_host
from hopper_numba.jit import jit
from hopper_numba.tensor_map import TensorMap


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gpu_and_interpreter_agree(case):
    arrays = [to_device(array, 0, 0) for array in arguments(case)]
    maps = [TensorMap(array, case.box) for array in arrays[:-2]]
    if case.in_memory:
        maps = [map_.to_device() for map_ in maps]
    kernel = jit(case.kernel, threads=case.threads, shared=case.shared, registers=case.registers, cluster=case.cluster)
    kernel[case.cluster](*maps, *arrays[-2:])
    cuda.synchronize()
    for array, wanted in zip(arrays, interpret(case, seed=0), strict=True):
        found = np.empty_like(wanted)
        to_host(array, found)
        np.testing.assert_array_equal(found, wanted)
