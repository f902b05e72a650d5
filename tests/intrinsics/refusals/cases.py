"""What a refusal is: a kernel, and parts of what is said of it. Kernels take a layout, a tensor map, `out` and `n`."""

import pytest

from hopper_numba.intrinsics.types import TensorMapType
from hopper_numba.shared import SharedLayout, barriers, tile

SHARED = SharedLayout(
    a=tile("float16", (64, 64)),
    b=tile("float16", (64, 64)),
    bf16=tile("bfloat16", (64, 64)),
    wide=tile("float16", (64, 128)),
    ring=tile("float16", (2, 64, 64)),
    f32=tile("float32", (64, 32)),
    plain=tile("float16", (64, 64), swizzle=None),
    bar=barriers(),
    bars=barriers(2),
)
MAP = TensorMapType(SHARED.members["a"].dtype, SHARED.members["a"].box, 128)
TALL = tile("float16", (264, 64))
REFUSALS = []


def refused(*parts):
    """The kernel is refused, in words that have these parts; `out` is an array of uint32, `n` an int64."""

    def add(kernel):
        REFUSALS.append(pytest.param(kernel, parts, id=kernel.__name__))
        return kernel

    return add
