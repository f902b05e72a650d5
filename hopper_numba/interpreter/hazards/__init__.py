"""Hazards: accesses that nothing orders, found whatever the schedule, by vector clocks.

`clocks` holds who has seen what, `shadow` what was last done to each byte, `rules` when two accesses are ordered and
what is wrong where they are not; `checker` compares, `sync` is what barriers do.
"""

from .checker import Checker
from .shadow import Shadow
from .sync import NoPhases, Phases, meeting

__all__ = ["Checker", "NoPhases", "Phases", "Shadow", "meeting"]
