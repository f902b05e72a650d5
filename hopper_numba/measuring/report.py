"""Results as the tables of the README.

``python -m hopper_numba.measuring.report benchmarks/results/h200-ladder.json`` prints them.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hopper_numba.matmul import STAGES
from hopper_numba.measuring.results import errors_of

PEERS = {"triton": "Triton, persistent with TMA", "cublas-fp16": "cuBLAS with float16 accumulation"}


def markdown(results: Mapping[str, Any]) -> str:
    """The tables: all figures of the first size, then the ratios to cuBLAS of every size.

    Parameters
    ----------
    results : dict
        As `hopper-numba bench` writes them.

    Returns
    -------
    str
    """
    sizes: dict[tuple[int, int, int], dict[str, Mapping[str, Any]]] = {}
    for row in results["rows"]:
        sizes.setdefault((row["m"], row["n"], row["k"]), {})[row["name"]] = row
    if not sizes:
        return "nothing was measured"
    (first, rows), *_ = sizes.items()
    timed = [row for row in rows.values() if "tflops" in row]
    ladder = [_cells(name, row) for name, row in rows.items()]
    if timed:
        cublas = f"{statistics.median(row['cublas_tflops'] for row in timed):.0f}"
        ladder.append(("cuBLAS", "", cublas, "1", "", "1", *errors_of(timed[0], 2, "cublas_")))
    titles = ("", "idea", "TFLOPS", "of cuBLAS", "range", "sustained", "max error", "mean error")
    tables = [f"{' x '.join(map(str, first))}:", _table(titles, ladder)]
    if len(sizes) > 1:
        names = dict.fromkeys(name for found in sizes.values() for name in found)
        ratios = [
            (_title(name) or PEERS[name], *(_ratio(found.get(name, {})) for found in sizes.values())) for name in names
        ]
        tables += ["Bursts of every size, of cuBLAS:", _table(("", *(" x ".join(map(str, s)) for s in sizes)), ratios)]
    return "\n\n".join(tables)


def _cells(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    idea = (STAGES[name].__doc__ or "").partition("\n")[0].partition(": ")[2].rstrip(".") if name in STAGES else ""
    begin = (_title(name), idea or PEERS.get(name, ""))
    if "tflops" not in row:
        return (*begin, "wrong", "", "", "", *errors_of(row, 2))
    return (
        *begin,
        f"{row['tflops']:.0f}",
        f"**{row['ratio']:.3f}**" if name in STAGES else f"{row['ratio']:.3f}",
        f"{min(row['ratios']):.3f} to {max(row['ratios']):.3f}",
        f"{row['sustained_ratio']:.3f}",
        *errors_of(row, 2),
    )


def _ratio(row: Mapping[str, Any]) -> str:
    return f"{row['ratio']:.2f}" if "ratio" in row else "wrong" if "wrong" in row else ""


def _title(name: str) -> str:
    return name.upper() if name in STAGES else ""


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    print(markdown(json.loads(Path(sys.argv[1]).read_text())))
