"""When two accesses to one byte are ordered, and what is wrong where they are not."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable

from .clocks import GLOBAL, HAPPENED, LATE_GLOBAL, LATE_SHARED, SEEN, SHARED
from .shadow import Access


class Order(enum.Enum):
    """How an access stands to a later one."""

    ORDERED = "ordered"
    UNDECIDED = "ordered, but in a way that the manual has no rule for"
    UNFENCED = "ordered, but the fence between the proxies is missing"
    UNORDERED = "not ordered"


def order(seen: Callable[[int], bool], prior: Access, later: Access, is_shared: bool) -> Order:
    """How `prior` stands to an access whose threads have `seen` it, or not, by a row of their clocks."""
    is_read = not prior.is_write
    if prior.is_async or not later.is_async:
        if seen(SEEN):
            return Order.ORDERED
        # a read leaves nothing to be seen, nor does what is overwritten: only their end matters
        is_over = seen(HAPPENED) and (is_read or (prior.is_async and later.is_write))
        return Order.UNDECIDED if is_over else Order.UNORDERED
    if seen(SHARED if is_shared else GLOBAL):
        return Order.ORDERED
    if seen(LATE_SHARED if is_shared else LATE_GLOBAL):
        return Order.UNDECIDED
    if seen(SEEN) or (is_read and seen(HAPPENED)):
        # a generic read, then an asynchronous write
        return Order.UNDECIDED if is_read else Order.UNFENCED
    return Order.UNORDERED


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What two accesses that are not ordered amount to.

    Attributes
    ----------
    kind : str
        The stable name.
    title : str
        What is wrong.
    advice : str
        What to add.
    is_error : bool
        False where the manual leaves it undecided.
    """

    kind: str
    title: str
    advice: str
    is_error: bool = True


def judge(prior: Access, later: Access, found: Order, is_shared: bool, fenced: bool, released: bool) -> Verdict:
    """The verdict on two accesses that are not ordered.

    `fenced` says whether the thread of `prior` fenced it, `released` whether synchronisation that releases orders them.
    """
    if found is Order.UNDECIDED:
        return _undecided(prior, later, released)
    if found is Order.UNFENCED or (not prior.is_async and prior.is_write and later.is_async and not fenced):
        space = "shared_cta" if is_shared else "global"
        return Verdict(
            "missing-proxy-fence",
            f"{later.what} {_verb(later)} what ordinary instructions wrote, and the proxies are not fenced",
            f"fence.proxy_async_{space}() by the threads that wrote, then a barrier between them and this",
        )
    if later.is_write and not prior.is_write and (prior.is_async or later.is_async):
        return Verdict("overwrite-while-read", f"{later.what} overwrites what {prior.what} may still read", _end(prior))
    if (prior.is_async or prior.what.startswith("cp_async")) and prior.is_write and is_shared:
        if later.is_write:
            return Verdict(
                "overwrite-in-flight", f"{later.what} writes where {prior.what} is still to write", _end(prior)
            )
        return Verdict(
            "read-before-arrival", f"{later.what} reads what {prior.what} may not have brought yet", _end(prior)
        )
    return Verdict(
        "data-race",
        f"{later.what} {_verb(later)} what {prior.what} {_verb(prior)}, and nothing orders the two",
        _end(prior),
    )


def _undecided(prior: Access, later: Access, released: bool) -> Verdict:
    if prior.is_async or not later.is_async or not released:
        why = "an arrival that releases nothing to this thread orders them"
        advice = "mbarrier.arrive_remote and mbarrier.wait_cluster, if what was read matters beyond its end"
    elif prior.is_write:
        why = "the fence between the proxies comes after the barrier"
        advice = "the fence by the threads that wrote, before the barrier"
    else:
        why = "an ordinary read is ordered before an asynchronous write by a barrier alone"
        advice = "fence.proxy_async_shared_cta() by the threads that read, before they arrive, makes it certain"
    return Verdict(
        "undecided-order", f"{later.what} follows {prior.what}; {why}, which the PTX manual leaves open", advice, False
    )


def _verb(access: Access) -> str:
    return "writes" if access.is_write else "reads"


def _end(prior: Access) -> str:
    """How others come to know that asynchronous work is over."""
    if prior.what.startswith("wgmma"):
        return "wgmma.wait_group by the warp group that multiplies, then an arrival or a barrier, before this"
    if prior.what.startswith("cp_async"):
        return "cp_async.wait_group by the thread that copies, then a barrier, before this"
    if not prior.is_async:
        return "a barrier between the two"
    if prior.what.startswith(("tma.store", "tma.reduce", "bulk.store", "bulk.reduce")):
        wait = "wait_group" if prior.is_write else "wait_group_read"
        return f"tma.{wait} by the thread that stores, then a barrier, before this"
    return (
        "mbarrier.wait for the phase that it completes by each thread that touches it, or a barrier behind one's wait"
    )
