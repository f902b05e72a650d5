"""`hopper-numba check`: run a script, or a stage of matmul, with every kernel interpreted and hazards looked for.

It needs no GPU and no driver. Exit status: 0 if no hazard was found, 1 if any was, 2 if nothing could be checked.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence

import numpy as np

import hopper_numba
from hopper_numba.findings import Findings
from hopper_numba.matmul import STAGES
from hopper_numba.matmul_checks import why_no_size
from hopper_numba.stages.config import default

SEEDS_OF_STAGE, SEEDS_OF_SCRIPT = 8, 1
MOST_SEEDS, MOST_EXTENT = 10**6, 2**14
DTYPE = np.dtype(np.float16)
AGAIN = (
    "To see one again: --seed S here; or HOPPER_NUMBA_INTERPRET=1 HOPPER_NUMBA_SEED=S wherever a kernel of "
    "hopper_numba.jit is launched."
)


def main(argv: Sequence[str] = ()) -> int:
    """Check, and print what was found.

    Parameters
    ----------
    argv : sequence of str

    Returns
    -------
    int
        0 if no hazard was found, 1 if any was, 2 if nothing could be checked.

    Raises
    ------
    SystemExit
        With status 2, for arguments that mean nothing.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    if (args.stage is None) == (args.script is None):
        parser.error("name either a script or --stage")
    if args.shape is not None and args.stage is None:
        parser.error("--shape goes with --stage")
    if args.shape is not None and (reason := why_no_size(args.shape, DTYPE)):
        parser.error(f"--shape: {reason}")
    if args.shape is not None and max(args.shape) > MOST_EXTENT:
        parser.error(f"--shape: at most {MOST_EXTENT} each, as the interpreter is slow; got {args.shape}")
    if args.stage is not None:
        run, usual = _stage(args.stage, args.shape or shape_of(args.stage)), SEEDS_OF_STAGE
    else:
        if not os.path.isfile(args.script):
            parser.error(f"there is no file {args.script}")
        run, usual = _script(args.script, args.args), SEEDS_OF_SCRIPT
    seeds = [args.seed] if args.seed is not None else [*range(args.seeds or usual)]
    findings = Findings()
    # what the script prints shall not be taken for JSON
    with contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext():
        ran = all(_attempt(findings, run, seed, args.script) for seed in seeds)
    if args.json:
        print(json.dumps([finding.as_object() for finding in findings.all], indent=2))
    else:
        print(findings.report())
        if findings.errors:
            print(AGAIN)
    if findings.errors:
        return 1
    if ran and not findings.launches:
        print("nothing was checked", file=sys.stderr)
    return 0 if ran and findings.launches else 2


def _attempt(findings: Findings, run: Callable[[], object], seed: int, script: str | None) -> bool:
    """Run under a seed; whether it came to its end, or to a hazard. What else ends it is shown."""
    try:
        findings.run(run, seed)
    except SystemExit as stop:
        if stop.code in (None, 0):
            return True
        print(f"{script} ended with sys.exit({stop.code!r})", file=sys.stderr)
        return False
    except Exception as error:  # whatever the script raises
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != script:
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace or error.__traceback__)
        return False
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hopper-numba check", description="Interpret kernels and look for hazards.")
    parser.add_argument("--stage", choices=STAGES, help="a stage of matmul, in place of a script")
    parser.add_argument(
        "--shape", type=_shape, metavar="M,N,K", help="of its product; by default a little more than a tile each way"
    )
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument(
        "--seeds",
        type=_between(1, MOST_SEEDS),
        metavar="N",
        help=f"schedules to try, by seeds from 0 on; {SEEDS_OF_STAGE} for a stage, {SEEDS_OF_SCRIPT} for a script",
    )
    seeds.add_argument(
        "--seed", type=_between(0, MOST_SEEDS), metavar="S", help="try this seed only, as a report names it"
    )
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument("script", nargs="?", help="a Python script that launches kernels")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def _between(lowest: int, highest: int) -> Callable[[str], int]:
    def integer(text: str) -> int:
        number = int(text)
        if not lowest <= number <= highest:
            raise argparse.ArgumentTypeError(f"must be {lowest} to {highest}; got {text}")
        return number

    return integer


def _shape(text: str) -> tuple[int, ...]:
    shape = tuple(int(n) if n.strip().isdecimal() else 0 for n in text.split(","))
    if len(shape) != 3 or 0 in shape:
        raise argparse.ArgumentTypeError(f"must be three positive integers; got {text!r}")
    return shape


def shape_of(stage: str) -> tuple[int, int, int]:
    """M, N and K for a stage: blocks both ways, not all of them full, and more k-tiles than its ring has stages."""
    config = default(stage)
    m, n, k = config.tile
    return m + 8, n + 8, k * config.stages + 8


def _stage(name: str, shape: tuple[int, ...]) -> Callable[[], object]:
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(extents, np.float32).astype(DTYPE) for extents in ((m, k), (n, k)))
    return lambda: getattr(hopper_numba, f"matmul_{name}")(a, b.T)


def _script(path: str, arguments: list[str]) -> Callable[[], None]:
    def run() -> None:
        argv, search = sys.argv, sys.path
        sys.argv, sys.path = [path, *arguments], [os.path.dirname(os.path.abspath(path)), *sys.path]
        try:
            runpy.run_path(path, run_name="__main__")
        finally:
            sys.argv, sys.path = argv, search

    return run
