"""How a bug is declared, and what several of them are made of."""

import dataclasses
import inspect
from collections.abc import Callable

import numpy as np
from numba import cuda

from hopper_numba.intrinsics import fence, mbarrier, timer
from hopper_numba.shared import SharedLayout, barriers, tile
from hopper_numba.tensor_map import TensorMap

WARP_GROUP = 128

WORD_TILE, STAGE = tile("uint32", (1, 32), swizzle=None), tile("float16", (8, 16), swizzle=32)
WORDS = SharedLayout(tile=WORD_TILE, other=WORD_TILE, bars=barriers(4))
"""A word for each lane of a warp, twice."""
RING = SharedLayout(b=tile("float16", (2, 8, 16), swizzle=32), full=barriers(2), empty=barriers(2))
"""Two stages of the right operand of a product."""


@dataclasses.dataclass(frozen=True)
class Bug:
    """A kernel with a bug, and the same without.

    Attributes
    ----------
    build : function
        Of whether it is fixed; gives the kernel. The line that a report has to name ends in ``# (2)``; that of the
        access before, if the report names one, in ``# (1)``.
    kind : str
        Of the hazard.
    says : str
        What the report has to say of it: a regular expression.
    shared : SharedLayout
    threads, blocks, cluster : int
    """

    build: Callable
    kind: str
    says: str
    shared: SharedLayout
    threads: int
    blocks: int
    cluster: int

    def lines(self, mark):
        """The lines of the builder that end in a mark."""
        text, first = inspect.getsourcelines(self.build)
        return [first + i for i, line in enumerate(text) if line.rstrip().endswith(f"# {mark}")]

    def args(self):
        """A tensor map, the array that it is of, and an array of words."""
        one = WORD_TILE if self.shared is WORDS else STAGE
        array = np.zeros((8, 64), one.dtype)
        return TensorMap(array, one), array, np.zeros(512, np.uint32)


BUGS: list[Bug] = []


def bug(kind, says, shared=WORDS, threads=32, blocks=1, cluster=1):
    """Declare a bug."""

    def declare(build):
        BUGS.append(Bug(build, kind, says, shared, threads, blocks, cluster))
        return build

    return declare


@cuda.jit(device=True)
def initialise(smem, count):
    """Initialise all barriers of `WORDS`, to the same count."""
    if cuda.threadIdx.x == 0:
        for i in range(4):
            mbarrier.init(smem.bars[i], count)
        fence.mbarrier_init()
    cuda.syncthreads()


@cuda.jit(device=True)
def initialise_ring(smem, consumers):
    """Initialise the barriers of `RING`: so many arrivals empty a stage."""
    if cuda.threadIdx.x == 0:
        for i in range(2):
            mbarrier.init(smem.full[i], 1)
            mbarrier.init(smem.empty[i], consumers)
        fence.mbarrier_init()
    cuda.syncthreads()


@cuda.jit(device=True)
def late():
    """Let others come first, in every schedule; it orders nothing."""
    for _ in range(30):
        timer.nanosleep(1000)
