"""``python -m mutants [stage …]`` prints what became of every mutant, and exits with 1 if one that matters survives."""

from __future__ import annotations

import collections
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from hopper_numba.matmul import STAGES

from .examine import Outcome, alarms, examine, mutants
from .harmless import HARMLESS, LONGER

CLEAN_SEEDS = 32
PROCESSES = 2
GOOD = ("caught", "refused", "harmless")
SAID = {
    "refused": "refused by the compiler",
    "harmless": "harmless",
    "survived": "SURVIVED",
    "wrong": "WRONG RESULT ONLY",
    "stale": "CAUGHT, BUT CALLED HARMLESS",
}


def main(stages: list[str]) -> bool:
    """Examine stages; whether all is as it must be."""
    begin = time.monotonic()
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        clean = [_is_clean(pool, stage) for stage in stages]
        print(flush=True)
        found = {stage: _examine_all(pool, stage) for stage in stages}
    is_fine = _print_totals(found)
    print(f"{time.monotonic() - begin:.0f} s, {PROCESSES} processes")
    return all(clean) and is_fine


def _is_clean(pool: ProcessPoolExecutor, stage: str) -> bool:
    """Whether nothing is reported of a stage as it is."""
    found = list(pool.map(alarms, [stage] * CLEAN_SEEDS, range(CLEAN_SEEDS)))
    errors = [error for errors, _ in found for error in errors]
    undecided = sorted(set().union(*(undecided for _, undecided in found)))
    print(f"{stage} as it is, {CLEAN_SEEDS} seeds: {len(errors)} errors, {len(undecided)} undecided", flush=True)
    for text in (*errors, *undecided):
        print("    " + text.replace("\n", "\n    "))
    return not errors


def _examine_all(pool: ProcessPoolExecutor, stage: str) -> list[Outcome]:
    """Examine all mutants of a stage, and print a line for each."""
    found, seen = [], collections.Counter[str]()
    numbers = range(len(mutants(stage)))
    width = max(len(f"{mutant.place}  {mutant}") for mutant in mutants(stage))
    for mutant, outcome in zip(mutants(stage), pool.map(examine, [stage] * len(numbers), numbers), strict=True):
        text = str(mutant)
        if (stage, text, seen[text]) in HARMLESS:
            outcome.result = "harmless" if outcome.result == "survived" else "stale"
        elif mutant.what == LONGER and outcome.result == "survived":
            outcome.result = "harmless"
        seen[text] += 1
        found.append(outcome)
        said = {"caught": outcome.kind, "unfitting": f"UNFITTING: {outcome.kind}"} | SAID
        under = f"seed {outcome.seed}, {outcome.k_tiles} k-tiles" if outcome.seed >= 0 else ""
        print(f"{stage}  {f'{mutant.place}  {text}':{width}}  {said[outcome.result]:24}{under}".rstrip(), flush=True)
    return found


def _print_totals(found: dict[str, list[Outcome]]) -> bool:
    """Print how many became what; whether none that matters survived."""
    total = [outcome for outcomes in found.values() for outcome in outcomes]
    results = [*GOOD, *sorted({outcome.result for outcome in total} - {*GOOD, "survived"}), "survived"]
    print(f"\n{'':8}{'mutants':>10}" + "".join(f"{result:>10}" for result in results))
    for name, outcomes in {**found, "all": total}.items():
        counts = collections.Counter(outcome.result for outcome in outcomes)
        print(f"{name:8}{len(outcomes):10}" + "".join(f"{counts[result]:10}" for result in results))
    kinds = collections.Counter(outcome.kind for outcome in total if outcome.result == "caught")
    print("\ncaught as: " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    counts = collections.Counter(outcome.result for outcome in total)
    if 10 * counts["harmless"] > len(total):
        print("more than a tenth is called harmless")
        return False
    return sum(counts[result] for result in GOOD) == len(total)


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:] or list(STAGES)) else 1)
