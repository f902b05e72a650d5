"""`hopper-numba tune`: find the fastest config of each stage on this GPU, and write it to the defaults.

This is the command; `measuring/tuning.py` does what it says.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hopper_numba.device import why_no_hopper
from hopper_numba.matmul import STAGES, dtypes_of
from hopper_numba.matmul_checks import DTYPES, why_no_size
from hopper_numba.measuring.refusals import why_not_replaced, why_not_timed
from hopper_numba.stages.config import DEFAULTS, read_choices

SIZE = (8192, 8192, 8192)


def main(argv: Sequence[str] = ()) -> int:
    """Tune stages, print what was found and write it.

    Parameters
    ----------
    argv : sequence of str

    Returns
    -------
    int
        0 if a config was found for every stage, else 1.

    Raises
    ------
    SystemExit
        With status 2, for arguments that mean nothing, and where a GPU or a package is missing.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    dtype = next(dtype for dtype in DTYPES if dtype.name == args.dtype)
    if reason := _why_not(args, dtype):
        parser.error(reason)
    try:
        from hopper_numba.measuring.tuning import tune
    except ModuleNotFoundError as error:
        parser.error(f"it needs {error.name}: pip install 'hopper-numba[bench]'")
    return 0 if tune(list(dict.fromkeys(args.stages)), args.size, dtype, args.json) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hopper-numba tune", description="Find the fastest config of each stage on this GPU."
    )
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=[*STAGES], help="all by default")
    parser.add_argument(
        "--size",
        nargs=3,
        type=int,
        metavar=("M", "N", "K"),
        default=SIZE,
        help="of the product; {} {} {} by default".format(*SIZE),
    )
    parser.add_argument("--dtype", choices=[dtype.name for dtype in DTYPES], default=DTYPES[0].name)
    parser.add_argument(
        "-o", "--json", type=Path, metavar="F", default=DEFAULTS, help="the file to write; the package's by default"
    )
    return parser


def _why_not(args: argparse.Namespace, dtype: np.dtype) -> str:
    """Why nothing can be tuned with these arguments, here; empty if it can."""
    if reason := why_no_size(args.size, dtype):
        return f"--size: {reason}"
    for stage in args.stages:
        if dtype not in dtypes_of(stage):
            return f"--dtype: {stage} multiplies {' or '.join(map(str, dtypes_of(stage)))}; got {dtype}"
    if reason := why_not_replaced("--json", args.json):
        return reason
    try:
        if args.json.exists():
            read_choices(args.json)
    except (OSError, ValueError) as error:
        return f"--json: {error}"
    if reason := why_not_timed():
        return reason
    return f"it needs a Hopper GPU: {reason}" if (reason := why_no_hopper()) else ""
