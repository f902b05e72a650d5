"""What interpreting kernels under several seeds finds: each hazard once, told to people and to programs."""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Callable
from typing import Any

from hopper_numba.interpreter import HazardError
from hopper_numba.interpreter.settings import watch
from hopper_numba.stand_ins import stand_ins


@dataclasses.dataclass(frozen=True)
class Finding:
    """A hazard, and the first seed that showed it."""

    error: HazardError
    seed: int

    @property
    def is_error(self) -> bool:
        """False for what the PTX manual leaves undecided."""
        return self.error.is_error

    @property
    def place(self) -> tuple:
        """What makes it one and the same: its kind and both places, or where there is none its text."""
        error = self.error
        return error.kind, error.filename, error.line, error.other, "" if error.line else str(error)

    def as_object(self) -> dict[str, Any]:
        """For JSON."""
        error = self.error
        return {
            "kind": error.kind,
            "is_error": self.is_error,
            "message": str(error),
            "filename": error.filename,
            "line": error.line,
            "other": error.other,
            "block": error.block,
            "thread": error.thread,
            "advice": error.advice,
            "seed": self.seed,
        }

    def tell(self) -> str:
        """The whole of it, for people."""
        text, kind = str(self.error), self.error.kind
        if not text.startswith(f"{kind}: "):
            text = f"{kind}: {text}"
        return f"{text}\n  under seed {self.seed}"

    def tell_shortly(self) -> str:
        """One line: the places, what is between them, and what would settle it."""
        places = [f"{_short(self.error.filename)}:{self.error.line}"]
        if self.error.other is not None:
            places.append(f"{_short(self.error.other[0])}:{self.error.other[1]}")
        title = str(self.error).partition("\n")[0].removeprefix(f"{self.error.kind}: ")
        return f"{' and '.join(places)}: {title}; add {self.error.advice}"


def _short(filename: str) -> str:
    relative = os.path.relpath(filename)
    return filename if relative.startswith("..") else relative


class Findings:
    """What was found so far.

    Attributes
    ----------
    seeds : list of int
        Under which something was run.
    launches : collections.Counter of str
        How often each kernel was interpreted, by its name.
    """

    def __init__(self) -> None:
        self.seeds: list[int] = []
        self.launches: collections.Counter[str] = collections.Counter()
        self._found: dict[tuple, Finding] = {}

    def run(self, function: Callable[[], object], seed: int) -> None:
        """Call a function under a seed, plain kernels interpreted too. Lets through what it raises but hazards."""
        self.seeds.append(seed)
        last: list[HazardError] = []
        with stand_ins(), watch(seed) as settings:
            try:
                function()
            except HazardError as error:
                last.append(error)
            finally:
                self.launches += settings.launches
                for hazard in (*settings.hazards, *last):
                    finding = Finding(hazard, seed)
                    self._found.setdefault(finding.place, finding)

    @property
    def all(self) -> list[Finding]:
        """In the order in which they were found."""
        return [*self._found.values()]

    @property
    def errors(self) -> list[Finding]:
        """Without what the PTX manual leaves undecided."""
        return [finding for finding in self.all if finding.is_error]

    @property
    def undecided(self) -> list[Finding]:
        """What the PTX manual leaves undecided."""
        return [finding for finding in self.all if not finding.is_error]

    def report(self) -> str:
        """Errors one by one, then what is undecided, then how many."""
        parts = [finding.tell() for finding in self.errors]
        if self.undecided:
            parts.append("\n  ".join(["left open by the PTX manual:", *(f.tell_shortly() for f in self.undecided)]))
        return "\n\n".join([*parts, self._counts()])

    def _counts(self) -> str:
        kernels = ", ".join(f"{name} {n} times" if n > 1 else f"{name} once" for name, n in self.launches.items())
        return (
            f"{_count(len(self.errors), 'hazard')}, {_count(len(self.undecided), 'order')} left open; "
            f"interpreted under {_seeds(self.seeds)}: {kernels or 'no kernel'}"
        )


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _seeds(seeds: list[int]) -> str:
    if len(seeds) > 2 and seeds == [*range(seeds[0], seeds[0] + len(seeds))]:
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds))}"
