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
    (first, rows), *_ = sizes.items()
    ladder = [_cells(name, row) for name, row in rows.items()]
    cublas = (
        *("cuBLAS", "", f"{statistics.median(row['cublas_tflops'] for row in rows.values()):.0f}", "1", ""),
        *("1", *(f"{next(iter(rows.values()))[f'cublas_{name}']:.2g}" for name in ("max_error", "mean_error"))),
    )
    titles = ("", "idea", "TFLOPS", "of cuBLAS", "range", "sustained", "max error", "mean error")
    tables = [f"{' x '.join(map(str, first))}:", _table(titles, [*ladder, cublas])]
    if len(sizes) > 1:
        ratios = [
            (
                _title(name) or PEERS[name],
                *(f"{found[name]['ratio']:.2f}" if name in found else "" for found in sizes.values()),
            )
            for name in rows
        ]
        tables += ["Bursts of every size, of cuBLAS:", _table(("", *(" x ".join(map(str, s)) for s in sizes)), ratios)]
    return "\n\n".join(tables)


def _cells(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    idea = (STAGES[name].__doc__ or "").partition("\n")[0].partition(": ")[2].rstrip(".") if name in STAGES else ""
    return (
        _title(name),
        idea or PEERS.get(name, ""),
        f"{row['tflops']:.0f}",
        f"**{row['ratio']:.3f}**" if name in STAGES else f"{row['ratio']:.3f}",
        f"{min(row['ratios']):.3f} to {max(row['ratios']):.3f}",
        f"{row['sustained_ratio']:.3f}",
        *(f"{row[error]:.2g}" for error in ("max_error", "mean_error")),
    )


def _title(name: str) -> str:
    return name.upper() if name in STAGES else ""


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    print(markdown(json.loads(Path(sys.argv[1]).read_text())))
