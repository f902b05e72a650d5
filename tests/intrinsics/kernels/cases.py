"""What a case is: a kernel, the instructions it is there for, and what it leaves in its arrays.

A kernel takes arrays `given` and `out` of uint32; one that copies takes the tensor maps of `source` and `target` first.
"""

import dataclasses
import re
import string
from collections.abc import Callable

import numpy as np

from hopper_numba import interpreter
from hopper_numba.intrinsics.tiles import Tile
from hopper_numba.shared import SharedLayout
from hopper_numba.tensor_map import TensorMap

THREADS = 128
T = np.arange(THREADS)
GIVEN = np.random.default_rng(1).integers(0, 8, 1024, np.uint32)
NOTHING = 777
SIZES = (3, 3, 4, 24, 160)  # of tensors; boxes reach over their ends


def placed(*parts):
    """`out` after a launch: what begins at each offset, and NOTHING where nothing was written."""
    out = np.full(1024, NOTHING, np.uint32)
    for offset, values in parts:
        values = np.asarray(values)
        out[offset : offset + len(values)] = values
    return out


@dataclasses.dataclass
class Case:
    """A kernel and the instructions it is there for.

    Attributes
    ----------
    covers : tuple of str
        Their names in the registry.
    sass : tuple of str
        Regular expressions that its machine code has.
    shared : SharedLayout, optional
        Opened by the kernel.
    box : Tile, optional
        The tile of the tensor maps it takes first.
    in_memory : bool
        Whether it takes their copies in device memory.
    least : int
        The least number in `source`.
    given, start : numpy.ndarray
        What is in `given`, and in `out`, before the launch.
    registers : tuple of int, optional
        What its warp groups end with.
    cluster : int
        Blocks, of one cluster, that are launched.
    out : function
        Gives what is in `out` after the launch, worked out without the interpreter.
    target : function
        Of `source` before the launch; gives what is in `target` after it.
    """

    kernel: Callable
    covers: tuple[str, ...]
    sass: tuple[str, ...] = ()
    threads: int = THREADS
    shared: SharedLayout | None = None
    box: Tile | None = None
    in_memory: bool = False
    least: int = 0
    given: np.ndarray = dataclasses.field(default_factory=lambda: GIVEN)
    start: np.ndarray = dataclasses.field(default_factory=placed)
    registers: tuple[int, ...] | None = None
    cluster: int = 1
    out: Callable[[], np.ndarray] = lambda: placed()
    target: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def name(self) -> str:
        return self.kernel.__name__


CASES: list[Case] = []


def pattern(instruction):
    """What the instruction's statement looks like in PTX."""
    parts = string.Formatter().parse(instruction.text)
    return "".join(re.escape(literal) + ("[^;]*?" if field else "") for literal, field, _, _ in parts)


def case(*covers, **properties):
    def add(kernel):
        CASES.append(Case(kernel, covers, **properties))
        return kernel

    return add


def arguments(case):
    """The arrays that a kernel is launched with: tensors first if it copies, then `given` and `out`."""
    tensors = []
    if case.box is not None:
        size = SIZES[-len(case.box.shape) :]
        source = np.arange(np.prod(size)).reshape(size) % 2048 + case.least
        tensors = [source.astype(case.box.dtype), np.zeros(size, case.box.dtype)]
    return [*tensors, case.given.copy(), case.start.copy()]


def interpret(case, seed):
    """The arrays after the launch."""
    arrays = arguments(case)
    maps = [TensorMap(array, case.box) for array in arrays[:-2]]
    nbytes = case.shared.nbytes if case.shared is not None else 0
    interpreter.run(
        case.kernel,
        (*maps, *arrays[-2:]),
        case.cluster,
        case.threads,
        dynamic_shared=nbytes,
        seed=seed,
        cluster=case.cluster,
    )
    return arrays
