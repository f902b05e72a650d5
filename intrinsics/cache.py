"""Policies of the L2 cache, for copies that take one (PTX ISA, "Data Movement: createpolicy")."""

import dataclasses
from typing import Any

from .machine import machine
from .operands import Emission, Float, Optional, Refused, u64
from .ptx import member, ptx


@dataclasses.dataclass(frozen=True)
class Fraction(Float):
    """A float32 above 0, up to 1; one that the compiler knows is checked there, others where interpreted."""

    def _check(self, number: float) -> None:
        if not 0 < number <= 1:
            raise Refused(f"must be above 0 and at most 1; got {number}")

    def lower(self, emission: Emission, ty: Any, value: Any, declared: Any) -> str:
        known = value
        while getattr(known, "opname", "") == "fptrunc":
            known = known.operands[0]
        if isinstance(number := getattr(known, "constant", None), float):
            self._check(number)
        return super().lower(emission, ty, value, declared)

    def value(self, value: Any) -> Any:
        number = super().value(value)
        self._check(number)
        return number


def priority(name, meaning):
    """Declare a policy that gives a part of the accesses a priority."""

    @ptx(
        f"createpolicy.fractional.L2::evict_{name}.b64 {{result}}, {{fraction}};",
        threads="any",
        pure="the same fraction gives the same policy",
    )
    @member(f"evict_{name}", meaning=meaning)
    def evict(fraction: Fraction() = 1.0) -> u64:
        """A policy for the lines that a copy accesses: {meaning}.

        Parameters
        ----------
        fraction : f32
            Of the accesses that it is for, above 0 and at most 1; the others are treated as ever.

        Returns
        -------
        u64
            For the parameter `cache_policy` of instructions. Its bits are the hardware's own.

        Notes
        -----
        PTX ISA, "createpolicy": fractional. Any thread executes it. The interpreter has no cache, and gives 0; it
        raises for a fraction out of range.
        """
        machine().tick()
        return 0

    return evict


evict_first = priority("first", "they leave the cache before others, as data that is used once should")
evict_last = priority("last", "they stay in the cache when others leave, as data that is used again soon should")
evict_normal = priority("normal", "they leave the cache in the order that the hardware has for all")
evict_unchanged = priority("unchanged", "they keep the priority that they have in the cache")

CachePolicy = Optional(u64)
