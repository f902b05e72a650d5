"""The candidates of a stage that are worth timing: compiled in processes of their own, and why the others are not.

Nothing here needs a GPU. The disk cache carries what was compiled to the process that runs it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import numpy as np

from hopper_numba.compile import CompileError, PtxasWarning, in_short
from hopper_numba.diagnosis import KernelTypeError
from hopper_numba.matmul import build_stage
from hopper_numba.stages.config import Config

Candidate = tuple[str, Config]
"""A stage's name, and how to build it."""


def examine_all(candidates: Sequence[Candidate], dtype: np.dtype) -> Iterator[tuple[Candidate, str]]:
    """As `examine`, of many at once; each as it is done."""
    workers = min(len(candidates), len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(examine, stage, dtype, config): (stage, config) for stage, config in candidates}
        try:
            for job in as_completed(jobs):
                yield jobs[job], job.result()
        finally:  # interrupted, nobody waits for the rest
            pool.shutdown(cancel_futures=True)


def examine(stage: str, dtype: np.dtype, config: Config) -> str:
    """Compile a candidate.

    Returns
    -------
    str
        Why it is not worth timing: it breaks a rule of the stage or of `jit`, does not compile, or makes ptxas
        complain. Empty if it is.
    """
    try:
        built = build_stage(stage, dtype, config)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PtxasWarning)  # they are its findings too
            compiled = built.compile()
    except (ValueError, KernelTypeError) as error:
        return str(error)
    except CompileError as error:
        return in_short(str(error))
    return "; ".join(compiled.findings)
