"""`hopper-numba bench`: check and time the stages against cuBLAS, and peers where they are installed.

Every stage is checked against float64 before it is timed. Then bursts of 30 products, each after a rest of 3 s, and
2 s without a pause, cuBLAS always before and after. Exit status: 0 if every stage is right, 1 if one is not.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopper_numba.device import default_device, why_no_hopper
from hopper_numba.matmul import STAGES, dtypes_of
from hopper_numba.matmul_checks import DTYPES, why_no_size
from hopper_numba.measuring import ncu
from hopper_numba.measuring.refusals import why_not_timed, why_not_written
from hopper_numba.measuring.results import COLUMNS, TITLES, line

if TYPE_CHECKING:
    from hopper_numba.measuring.problem import Contender

SIZE = (8192, 8192, 8192)
REPEATS = 5
COOLDOWN = 3.0  # seconds of rest before a burst
PICTURES = (".png", ".svg", ".pdf")
DRAWN = operator.itemgetter("dtype", "accumulate", "cublas_tflops")  # what a picture needs beyond a line
NAMES = {dtype.name: dtype for dtype in DTYPES}


def main(argv: Sequence[str] = ()) -> int:
    """Measure, or read what was measured; print it, write it and draw it.

    Parameters
    ----------
    argv : sequence of str

    Returns
    -------
    int
        0 if every stage is right, else 1.

    Raises
    ------
    SystemExit
        With status 2, for arguments that mean nothing, and where a GPU, a package or a tool is missing.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    if reason := _why_not(args, parser):
        parser.error(reason)
    if args.source:
        try:
            results = _read(args.source)
        except ValueError as error:
            parser.error(f"--from: {args.source} has no results of this command: {error}")
        if args.size:
            results["rows"] = [row for row in results["rows"] if [row["m"], row["n"], row["k"]] in args.size]
            if not results["rows"]:
                parser.error(f"--size: {args.source} has no rows of {' or '.join(map(str, args.size))}")
        print(_head(results["environment"]))
        print("\n".join(map(line, results["rows"])))
    else:
        try:
            import hopper_numba.measuring.timing  # noqa: F401
        except ModuleNotFoundError as error:
            parser.error(f"it needs {error.name}: pip install 'hopper-numba[bench]'")
        results = _measure(args)
    if args.plot:
        from hopper_numba.measuring.plot import plot

        try:
            plot(results, args.plot)
        except ValueError as error:
            print(f"--plot: {error}")
    return 1 if any("wrong" in row for row in results["rows"]) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hopper-numba bench", description="Time the stages against cuBLAS.")
    parser.add_argument("--stages", nargs="+", choices=STAGES, help="those that take the dtype by default")
    parser.add_argument(
        "--size",
        nargs=3,
        type=int,
        action="append",
        metavar=("M", "N", "K"),
        help="of the product, once or more often; {} {} {} by default".format(*SIZE),
    )
    parser.add_argument("--dtype", choices=NAMES, default=DTYPES[0].name)
    parser.add_argument("--repeat", type=int, default=REPEATS, metavar="R", help=f"bursts; {REPEATS} by default")
    parser.add_argument("--json", type=Path, metavar="F", help="the file to write the results to")
    parser.add_argument("--plot", type=Path, metavar="F.png", help="the picture to draw")
    parser.add_argument("--ncu", action="store_true", help="ask Nsight Compute about one launch of each as well")
    parser.add_argument("--from", type=Path, dest="source", metavar="F", help="results to show, in place of measuring")
    parser.add_argument("--commit", help="what is measured; asked of git by default")
    return parser


def _why_not(args: argparse.Namespace, parser: argparse.ArgumentParser) -> str:
    """Why nothing can be done with these arguments, here; empty if it can."""
    for option, path in (("--json", args.json), ("--plot", args.plot)):
        if path and (reason := why_not_written(option, path)):
            return reason
    if args.plot and args.plot.suffix not in PICTURES:
        return f"--plot: the picture's name must end with {' or '.join(PICTURES)}; got {args.plot}"
    if args.plot and not importlib.util.find_spec("matplotlib"):
        return "--plot needs matplotlib: pip install 'hopper-numba[bench]'"
    if args.source:
        others = vars(args).keys() - {"source", "size", "plot"}
        if any(getattr(args, name) != parser.get_default(name) for name in others):
            return "--from shows what was measured; of the other options only --size and --plot go with it"
        return "" if args.source.is_file() else f"--from: there is no file {args.source}"
    for stage in args.stages or ():
        if NAMES[args.dtype] not in dtypes_of(stage):
            return f"--stages: {stage} multiplies {' or '.join(map(str, dtypes_of(stage)))}; got --dtype {args.dtype}"
    for size in args.size or ():
        if reason := why_no_size(size, NAMES[args.dtype]):
            return f"--size: {reason}"
    if args.repeat < 1:
        return f"--repeat must be at least 1; got {args.repeat}"
    if reason := why_not_timed():
        return reason
    if args.ncu:
        try:
            ncu.find()
        except RuntimeError as error:
            return f"--ncu: {error}"
    return f"it needs a Hopper GPU: {reason}" if (reason := why_no_hopper()) else ""


def _measure(args: argparse.Namespace) -> dict[str, Any]:
    """Measure size by size, print and write the rows of each, so that an interruption costs one size."""
    import torch
    from tqdm import tqdm

    from hopper_numba.measuring.board import environment
    from hopper_numba.measuring.problem import Problem
    from hopper_numba.measuring.timing import BURST, SUSTAINED_REPEATS, SUSTAINED_SECONDS, compare

    torch.cuda.set_device(default_device())
    stages = list(dict.fromkeys(args.stages or ())) or [name for name in STAGES if NAMES[args.dtype] in dtypes_of(name)]
    repeats = {"burst": args.repeat, "sustained": min(args.repeat, SUSTAINED_REPEATS)}
    conditions = environment(args.commit) | {
        "burst": f"{BURST} products after a cooldown of {COOLDOWN} s, {repeats['burst']} times",
        "sustained": f"{SUSTAINED_SECONDS} s without a pause, {repeats['sustained']} times",
        "clocks": "of a burst: counted by an SM as it ends; sustained: by NVML, in the second half, as the watts",
    }
    rows: list[dict[str, Any]] = []
    results = {"environment": conditions, "rows": rows}
    print(_head(conditions), flush=True)
    contenders = _contenders(stages)
    for m, n, k in args.size or [SIZE]:
        problem = Problem(m, n, k, getattr(torch, args.dtype))
        turns = len(contenders) * sum(repeats.values())
        with tqdm(desc=f"{m} x {n} x {k}", total=turns, unit=" turns", leave=False) as bar:
            found = compare(problem, contenders, args.repeat, COOLDOWN, bar.update)
        print("\n".join(map(line, found)), flush=True)
        own = [row for row in found if "failed" not in row]
        if args.ncu:
            _add_ncu(own, (m, n, k), args.dtype)
        rows += own
        _write(results, args.json)
    return results


def _read(path: Path) -> dict[str, Any]:
    """Results in a file. Raises ValueError for one that has none."""
    results = json.loads(path.read_text())
    try:
        for row in results["rows"]:
            line(row)
            if "tflops" in row:
                DRAWN(row)
        _head(results["environment"])
        return {"environment": {**results["environment"]}, "rows": results["rows"]}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _head(environment: Mapping[str, Any]) -> str:
    """What a table is of, and its titles."""
    lines = (
        "{board}, {power_limit_watts:.0f} W, driver {driver}, commit {commit}",
        "bursts: {burst}; sustained: {sustained}; more than 1 is faster than cuBLAS",
        "MHz {clocks}; errors are against float64\n",
    )
    return "\n".join((*(text.format(**environment) for text in lines), COLUMNS.format(*TITLES)))


def _contenders(stages: Sequence[str]) -> list[Contender]:
    """The stages, and the peers whose packages are here; a line says which are not."""
    from hopper_numba.measuring.contenders import PEERS, contender

    found = [contender(name) for name in stages]
    for name in PEERS:
        try:
            found.append(contender(name))
        except ImportError as error:
            print(f"{name:<14}left out: {error}", flush=True)
    return found


def _add_ncu(rows: Sequence[dict[str, Any]], size: Sequence[int], dtype: str) -> None:
    timed = [row for row in rows if "tflops" in row]
    try:
        found = ncu.profile(["cublas", *(row["name"] for row in timed)], size, dtype)
    except RuntimeError as error:
        print(f"Nsight Compute: {error}", flush=True)
        return
    for name, figures in found.items():
        print(ncu.line(name, figures), flush=True)
    for row in timed:
        row |= {"ncu": found[row["name"]], "cublas_ncu": found["cublas"]}


def _write(results: dict[str, Any], path: Path | None) -> None:
    if path:
        path.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
