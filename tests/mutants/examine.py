"""Interprets a stage, or a mutant of it, on one tile of C under one seed after another, until something is reported."""

from __future__ import annotations

import dataclasses
import functools
import importlib

import numpy as np
from numba.cuda.core.errors import NumbaError

from hopper_numba import interpret
from hopper_numba.diagnosis import KernelTypeError
from hopper_numba.interpreter import HazardError
from hopper_numba.matmul import build_stage
from hopper_numba.stages import Stage
from hopper_numba.stages.config import default

from .mutate import Mutant, mutants_of

matmul = importlib.import_module("hopper_numba.matmul")  # the package's attribute of that name is the function
DTYPE = np.dtype(np.float16)
SEEDS = 8

ORDER = {"read-before-arrival", "uninitialised-read", "overwrite-while-read", "overwrite-in-flight", "data-race"}
COUNTS = {"deadlock", "tx-mismatch", "phase-overrun", "barrier-misuse", "leftover-phase", "unfinished-at-exit"}
GROUPS = {"accumulator-in-flight", "unfinished-at-exit"}
FITTING = {
    "fence.mbarrier_init": {"phase-overrun"},
    "fence.": {"missing-proxy-fence", "data-race"},
    "wgmma.fence": {"missing-wgmma-fence"},
    "wgmma.": ORDER | GROUPS,
    "tma.": ORDER | GROUPS,
    "cp_async.": ORDER | GROUPS,
    "stage": ORDER | COUNTS | {"out-of-bounds"},
    "": ORDER | COUNTS,
}
"""The kinds that fit, by how the name of what is altered begins; the first that does counts."""


@dataclasses.dataclass
class Outcome:
    """What became of a mutant.

    Attributes
    ----------
    result : str
        ``caught``, ``refused`` (by the compiler too), ``unfitting`` (reported as something else), ``wrong`` (nothing
        but a wrong result) or ``survived``.
    kind : str
        Of what was reported.
    seed, k_tiles : int
        Under which; -1 where nothing was.
    message : str
    """

    result: str
    kind: str = ""
    seed: int = -1
    k_tiles: int = -1
    message: str = ""


@functools.cache
def built(stage: str) -> Stage:
    """A stage as `matmul` has it."""
    return build_stage(stage, DTYPE)


@functools.cache
def mutants(stage: str) -> list[Mutant]:
    """Those of a stage."""
    return mutants_of(built(stage).kernel)


def ring(stage: str) -> int:
    """How many stages the ring of a stage has."""
    return default(stage).stages


def multiply(stage: str, k_tiles: int, seed: int) -> tuple[bool, list[HazardError]]:
    """Interpret a stage for one tile of C; whether the result is right, and what is found that is no error."""
    a_tile, b_tile = built(stage).a, built(stage).b
    random = np.random.default_rng(k_tiles)
    k = k_tiles * a_tile.columns
    # sums of integers as few and as small are exact
    a = random.integers(-1, 2, (a_tile.rows, k)).astype(DTYPE)
    b = random.integers(-1, 2, (b_tile.rows, k)).astype(DTYPE).T
    with interpret(seed=seed) as settings:
        c = getattr(matmul, f"matmul_{stage}")(a, b)
    return bool((c == a.astype(np.float32) @ b.astype(np.float32)).all()), settings.hazards


def examine(stage: str, number: int, seeds: int = SEEDS) -> Outcome:
    """Interpret a mutant of a stage under at most so many seeds, until it is caught."""
    mutant = mutants(stage)[number]
    fitting = next(kinds for name, kinds in FITTING.items() if mutant.call.startswith(name))
    found = Outcome("survived")
    with mutant.in_place():
        for seed in range(seeds):
            for k_tiles in (2 * ring(stage) + 1, 1):
                now = _once(stage, k_tiles, seed, fitting, mutant)
                if now.result in ("caught", "refused"):
                    return now
                if now.result != "survived" and found.result != "unfitting":
                    found = now
    return found


def _once(stage: str, k_tiles: int, seed: int, fitting: set[str], mutant: Mutant) -> Outcome:
    try:
        is_right, _ = multiply(stage, k_tiles, seed)
    except HazardError as error:
        return Outcome("caught" if error.kind in fitting else "unfitting", error.kind, seed, k_tiles, str(error))
    except TypeError as error:
        # Numba keeps what it has compiled of a method, by its name: a mutant of one must not be compiled
        if not hasattr(mutant.function, "is_device_method") and _is_refused(stage):
            return Outcome("refused", "TypeError", seed, k_tiles, str(error))
        result = "caught" if str(error).startswith(f"{mutant.call}: ") else "unfitting"
        return Outcome(result, "refused-operand", seed, k_tiles, str(error))
    return Outcome("survived") if is_right else Outcome("wrong", "", seed, k_tiles)


def _is_refused(stage: str) -> bool:
    """Whether the compiler refuses a stage as it is now."""
    built(stage).kernel.compiled.clear()
    try:
        built(stage).compile()
    except (KernelTypeError, NumbaError):
        return True
    return False


def k_tiles_of(stage: str) -> list[int]:
    """The numbers of k-tiles at which a ring's bookkeeping fails if it is wrong."""
    depth = ring(stage)
    return sorted({0, 1, depth - 1, depth, depth + 1, 2 * depth + 1})


def alarms(stage: str, seed: int) -> tuple[list[str], set[str]]:
    """What is reported of a stage as it is: errors and wrong results, and what is no error."""
    numbers = k_tiles_of(stage)
    k_tiles = numbers[seed % len(numbers)]
    under = f"seed {seed}, {k_tiles} k-tiles"
    try:
        is_right, found = multiply(stage, k_tiles, seed)
    except HazardError as error:
        return [f"{under}: {error}"], set()
    undecided = {f"{hazard.kind}: line {hazard.line} after line {(hazard.other or (0, 0))[1]}" for hazard in found}
    return [] if is_right else [f"{under}: wrong result"], undecided
