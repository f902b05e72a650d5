"""The report when nobody can run: who waits where, and for what."""

from __future__ import annotations

from typing import Any

from .barriers import Barrier, ClusterBarrier, NamedBarrier
from .collectives import Together, WarpSync
from .errors import DeadlockError, HazardError, TxMismatchError
from .source import advice, role, site_of


def stuck(machine: Any, blocks: list[Any]) -> HazardError:
    """The error of blocks none of whose threads can run."""
    for block in blocks:
        for together in (*block.warps, *block.warp_groups):
            if together.count and _waits_in_vain(together):
                return together.diverged([*together.waiters])
    lines = ["no thread can run, and no asynchronous work is left that would change it"]
    first = None
    for block in blocks:
        lines.append(f"  block {block.index}:")
        groups: dict[tuple[str, ...], list[Any]] = {}
        for thread in block.threads:
            said = ["exited"]
            if not thread.exited:
                frame = machine.frame_of(thread)
                site = site_of(thread, frame)
                reason, detail = thread.waiting or (None, None)
                lacks = reason.describe(detail) if reason is not None else "runs, and only reads"
                said = [f"at {site}", lacks, *filter(None, [advice(frame, "stuck")])]
                first = first or site
            groups.setdefault(tuple(said), []).append(thread)
        for (where, *reasons), threads in groups.items():
            who = role(thread.index for thread in threads)
            lines += [f"    {who}: {where}", *(f"        {reason}" for reason in reasons)]
    if machine.to_come:
        lines.append(
            f"  further blocks of the grid, {machine.to_come}, have not run: clusters run one after another here; no "
            "block can wait for one of a later cluster; on a GPU that hangs too, unless all of them fit on it at once"
        )
    kind: type[DeadlockError] = DeadlockError
    for barrier in dict.fromkeys(t.waiting[0] for b in blocks for t in b.threads if t.waiting and not t.exited):
        if isinstance(barrier, Barrier) and barrier.issued and not barrier.pending:
            kind = TxMismatchError
            lines.append(f"  {barrier.bytes_issued()}")
    if first is None:
        return kind("\n".join(lines))
    return kind("\n".join(lines), block=first.thread.block.index, filename=first.filename, line=first.line)


def _waits_in_vain(together: Together) -> bool:
    """Whether the absent are where only the present could help: exited, or at another instruction of several threads.

    One that waits on an mbarrier, or for the cluster, may be the victim of a deadlock elsewhere.
    """
    absent = [t for t in together.members if t not in together.waiters]
    reasons = [t.waiting[0] for t in absent if not t.exited and t.waiting is not None]
    return not any(isinstance(reason, Barrier | ClusterBarrier) for reason in reasons) and all(
        isinstance(reason, Together | NamedBarrier | WarpSync) for reason in reasons
    )
