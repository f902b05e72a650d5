"""`hopper-numba demo`: multiply matrices with every stage and check the results.

It runs on a Hopper GPU, and where there is none in the interpreter.
"""

from __future__ import annotations

import argparse
import contextlib
import platform
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import hopper_numba
from hopper_numba import interpreter
from hopper_numba.compile import Compiled
from hopper_numba.copies import to_device
from hopper_numba.device import default_device, describe, require_hopper, why_no_hopper
from hopper_numba.matmul import STAGES, build_stage
from hopper_numba.streams import on_device, stream_of

DTYPE = np.dtype(np.float16)
SHAPES = {"interpreter": (136, 264, 200), "GPU": (3000, 2504, 4136)}  # M, N, K
REPEATS = 20

# Rounding to float16 alone is off by 2**-11 of the result at most; adding K products adds an error that does not shrink
# with the result. Sums in float16 are rounded after every 16 products, and grow as the root of the number of products:
# the error's deviation is about 2**-15 a product, and of millions of errors the largest is some 20 times that.
RELATIVE, PER_PRODUCT = 2.0**-10, {"float32": 2.0**-20, "float16": 2.0**-10}

COLUMNS = "{:<6}{:<13}{:<17}{:>11}{:>11}{:>12}{:>7}{:>9}{:>7}  {}"
TITLES = ("stage", "ran on", "M x N x K", "max error", "mean error", "time", "regs", "shared B", "WGMMA", "result")


def main(argv: Sequence[str] = ()) -> int:
    """Run every stage and print a row for each.

    Parameters
    ----------
    argv : sequence of str
        Arguments; there are none but ``--help``.

    Returns
    -------
    int
        0 if every stage is right, else 1.
    """
    argparse.ArgumentParser(prog="hopper-numba demo", description="Multiply and check.").parse_args(argv)
    is_interpreting = interpreter.active() is not None
    why_not = "it was asked for" if is_interpreting else why_no_hopper()
    place = "interpreter" if why_not else "GPU"
    if why_not:
        print(f"{platform.processor() or platform.machine()}, in the interpreter: {why_not}")
    else:
        print(describe(require_hopper(default_device())))
    m, n, k = SHAPES[place]
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32).astype(DTYPE) for shape in ((m, k), (n, k)))
    reference = a.astype(np.float64) @ b.T.astype(np.float64)
    print(f"C = A @ B for {DTYPE} drawn from N(0, 1), against float64; an error is right up to {RELATIVE:.1e} |C| plus")
    for accumulate, error in PER_PRODUCT.items():
        names = [name for name in STAGES if accumulate == STAGES[name].ACCUMULATE]
        print(f"  {k * error:.1e} where sums are {accumulate}: {', '.join(names)}")
    print()
    print(COLUMNS.format(*TITLES))
    with interpreter.interpret() if why_not and not is_interpreting else contextlib.nullcontext():
        results = [_run(name, place, a, b.T, reference) for name in STAGES]
    return 0 if all(results) else 1


def _run(name: str, place: str, a: np.ndarray, b: np.ndarray, reference: np.ndarray) -> bool:
    """Run a stage, print its row and say whether it was right."""
    function = getattr(hopper_numba, f"matmul_{name}")
    begin = time.perf_counter()
    c = function(a, b)
    seconds = time.perf_counter() - begin
    if place == "GPU":
        seconds = _time_on_gpu(function, a, b)
    error = np.abs(c - reference)  # of float64
    allowed = RELATIVE * np.abs(reference) + a.shape[1] * PER_PRODUCT[STAGES[name].ACCUMULATE]
    is_right = bool(np.all(error <= allowed))  # a NaN is wrong
    board = require_hopper(default_device()).name if place == "GPU" else None
    stage = build_stage(name, DTYPE, board=board)
    compiled = stage.compile()
    row = (
        name,
        place,
        "{} x {} x {}".format(*c.shape, a.shape[1]),
        f"{error.max():.1e}",
        f"{error.mean():.1e}",
        f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.3f} ms",
        compiled.resources.registers,
        stage.kernel.shared_nbytes + compiled.resources.static_shared,
        _count_wgmma(compiled),
        "right" if is_right else "WRONG",
    )
    print(COLUMNS.format(*row))
    return is_right


def _time_on_gpu(function: Callable, a: np.ndarray, b: np.ndarray) -> float:
    """Seconds a product takes on operands in GPU memory, from the mean of several, one queued behind the other."""
    device, stream = default_device(), stream_of(0)
    with on_device(device):
        x, y = to_device(a, device, 0), to_device(b.T, device, 0).T
        out = function(x, y)
        stream.sync()
        begin = time.perf_counter()
        for _ in range(REPEATS):
            function(x, y, out)
        stream.sync()
        return (time.perf_counter() - begin) / REPEATS


def _count_wgmma(compiled: Compiled) -> Any:
    """Instructions in the machine code, or in the PTX where there is no disassembler."""
    try:
        return compiled.sass.count("HGMMA")
    except RuntimeError:
        return compiled.ptx.count("wgmma.mma_async")
