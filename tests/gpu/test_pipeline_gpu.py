"""Pipelines on a GPU: any number of tiles and stages in every way of use, and the same bits every time."""

import numpy as np
import pytest
from numba import cuda
from rings import RINGS

from hopper_numba.copies import to_device, to_host

pytestmark = pytest.mark.gpu

NOTHING = 0x99999999


def run(ring, kernel, arrays, count):
    """What is in `out`; without any tile it has room for one all the same."""
    found = np.full(ring.shape(max(count, 1)), NOTHING, np.uint32)
    out = to_device(found, 0, 0)
    kernel[ring.blocks](*ring.maps([to_device(array, 0, 0) for array in arrays]), out, count)
    cuda.synchronize()
    to_host(out, found)
    return found


@pytest.mark.parametrize("ring", RINGS, ids=lambda ring: ring.name)
def test_any_number_of_tiles_and_stages(ring):
    for stages in ring.stages:
        kernel = ring.build(stages)
        for count in sorted({0, 1, stages - 1, stages, stages + 1, 2 * stages + 1, 100}):
            arrays = ring.arrays(count)
            wanted = ring.wanted(arrays, count) if np.prod(ring.shape(count)) else NOTHING
            for _ in range(10):
                found = run(ring, kernel, arrays, count)
                np.testing.assert_array_equal(found, wanted, err_msg=f"{stages} stages, {count} tiles")
