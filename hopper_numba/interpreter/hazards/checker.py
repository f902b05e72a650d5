"""Checks every access of a running cluster against those before it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import HazardError
from ..source import MARK, Site, kernel_frame, role, site_of
from .clocks import GLOBAL, INITIALISED, LATE_GLOBAL, LATE_SHARED, RELAXED, SEEN, SHARED, Clocks, merged
from .rules import Order, judge, order
from .shadow import Access, Shadow, States

FENCES = {
    "proxy_async": (SHARED, GLOBAL),
    "proxy_async_shared_cta": (SHARED,),
    "proxy_async_shared_cluster": (SHARED,),
    "proxy_async_global": (GLOBAL,),
    "mbarrier_init": (INITIALISED,),
}
REMEMBERED = 50_000
"""Accesses, and states of bytes, that are kept before those are looked for that are needed no more."""
LATE = {SHARED: LATE_SHARED, GLOBAL: LATE_GLOBAL, INITIALISED: None}


@dataclasses.dataclass
class Queue:
    """Asynchronous work that is waited for by groups, in order.

    Attributes
    ----------
    actor : int
        Whose time is the number of the work, from 1 on.
    reader : int
        The same, of its reads: what copies from shared memory can be waited for by itself.
    threads : slice
        That wait.
    is_async : bool
        Whether the work is of the async proxy.
    """

    actor: int
    reader: int
    threads: slice
    is_async: bool
    begun: int = 0
    groups: list[int] = dataclasses.field(default_factory=list)

    def begin(self) -> int:
        """The time at which work that begins now is over."""
        self.begun += 1
        return self.begun

    def commit(self) -> None:
        """Close a group."""
        self.groups.append(self.begun)

    def wait(self, checker: Checker, n: int, reads_only: bool = False) -> None:
        """Let the threads have seen the end of all groups but the last `n`."""
        if len(self.groups) > n:
            time = self.groups[len(self.groups) - n - 1]
            for actor in (self.reader,) if reads_only else (self.reader, self.actor):
                checker.clocks.complete(self.threads, actor, time, self.is_async)


class Checker:
    """The clocks and shadows of one launch.

    Parameters
    ----------
    machine : Machine
    report : function
        Takes each `HazardError`; raises it, or keeps it.
    """

    def __init__(self, machine: Any, report: Any) -> None:
        self.machine, self._report = machine, report
        self.states = States()
        self.clocks = Clocks(0)
        self.run, self.threads = -1, 0
        self._limit = REMEMBERED
        self._globals: dict[int, Shadow] = {}
        self._accesses: dict[tuple, Access] = {}
        self._last: dict[tuple, Access] = {}
        self._reached: dict[tuple[Any, int], Access] = {}
        self._reported: set[tuple] = set()
        self._queues: dict[tuple[str, int], Queue] = {}
        self._fenced: dict[int, np.ndarray] = {}
        # what was released to a place in global memory, and what was acquired, by the cluster that released it
        self._locations: dict[int, dict[int, np.ndarray]] = {}
        self._known: dict[int, np.ndarray] = {}

    def begin(self, threads: int) -> None:
        """Begin a cluster of so many threads."""
        self.run += 1
        self.threads, self.clocks = threads, Clocks(threads)
        self._accesses.clear()
        self._last.clear()
        self._reached.clear()
        self._queues.clear()
        self._fenced.clear()
        self._known = {}

    def tidy(self) -> None:
        """Forget, now and then, states that no byte is in any more; called where no access is under way."""
        if len(self._accesses) > REMEMBERED:  # one that is forgotten is only made anew
            self._accesses.clear()
        if self.states.count > self._limit:
            shared = [block.memory.shadow for block in self.machine.blocks]
            self.states.keep([shadow.states for shadow in (*self._globals.values(), *shared)])
            self._limit = max(REMEMBERED, 2 * self.states.count)

    # Shadows --------------------------------------------------------------------------------------------------------

    def global_states(self, array: np.ndarray) -> np.ndarray:
        """The states of the bytes of an argument, or of a view of one: arrays that share memory share them."""
        shadow, low = self._shadow_of(array)
        begin = array.__array_interface__["data"][0] - low
        return shadow.array(begin, array.shape, array.strides, array.itemsize)

    def global_run(self, array: np.ndarray, offset: int, nbytes: int) -> np.ndarray:
        """The states of bytes one after another, from an offset in an argument on."""
        shadow, low = self._shadow_of(array)
        return shadow.run(array.__array_interface__["data"][0] + offset - low, nbytes)

    def _shadow_of(self, array: np.ndarray) -> tuple[Shadow, int]:
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        low, high = np.lib.array_utils.byte_bounds(root)
        found = self._globals.get(low)
        if found is None or len(found.states) < high - low:
            found = self._globals[low] = Shadow(high - low)
        return found, low

    # Accesses by threads --------------------------------------------------------------------------------------------

    def generic(
        self, bytes_: np.ndarray, is_write: bool, is_shared: bool, frame: Any, thread: Any, is_atomic: bool = False
    ) -> Access:
        """An ordinary access by a thread."""
        number = thread.number
        time = self.clocks.now(number)
        kernel: Any = frame if MARK in frame.f_globals else kernel_frame(frame)
        place = (number, kernel.f_code, kernel.f_lasti, is_write)
        access = self._last.get(place)
        if access is None or access.time != time:
            access = self._last[place] = self._access(access, time, is_write, is_atomic, frame, thread)
        self._touch(bytes_, access, slice(number, number + 1), is_shared)
        return access

    def _access(
        self, before: Access | None, time: int, is_write: bool, is_atomic: bool, frame: Any, thread: Any
    ) -> Access:
        """A new access by a thread, at the place of one before, if there was one: looking for that takes time."""
        site, what = (before.site, before.what) if before is not None else (site_of(thread, frame), "")
        what = what or site.instruction or f"an ordinary {'write' if is_write else 'read'}"
        return Access(thread.number, time, is_write, False, is_atomic, self.run, site, (thread.index, 1), what)

    def reached(self, block: Any, access: Access) -> None:
        """An access by a thread was to the shared memory of another block, or to a barrier there."""
        self._reached[block, access.actor] = access

    def exited(self, block: Any) -> None:
        """All threads of a block have exited: one of them must know that the other blocks are done with its memory."""
        first = block.threads[0].number
        for (reached, actor), access in self._reached.items():
            if reached is block and not self.clocks.is_over(slice(first, first + block.size), actor, access.time):
                self.report(
                    "unfinished-at-exit",
                    f"block {block.index} may end before this {access.what}, which needs its shared memory",
                    "cluster.sync() behind this and before that block's end",
                    access,
                    None,
                )

    def _touch(self, bytes_: np.ndarray, access: Access, threads: slice, is_shared: bool) -> None:
        self.states.touch(bytes_, access, lambda prior: self._compare(prior, access, threads, is_shared))

    def _compare(self, prior: Access, later: Access, threads: slice, is_shared: bool) -> None:
        if prior.is_atomic and later.is_atomic:
            return
        if prior.actor == later.actor and prior.run == self.run and not (prior.is_async or later.is_async):
            return
        if prior.run == self.run:
            found = order(self._seen_by(threads, prior), prior, later, is_shared)
        else:  # a cluster that ran before: on a GPU, at the same time
            found = order(self._known_of(prior), prior, later, is_shared)
        if found is not Order.ORDERED:
            self._tell(prior, later, found, threads, is_shared)

    def _seen_by(self, threads: slice, prior: Access) -> Callable[[int], bool]:
        return lambda row: self.clocks.has_seen(threads, row, prior.actor, prior.time)

    def _known_of(self, prior: Access) -> Callable[[int], bool]:
        known = self._known.get(prior.run)
        if known is None or prior.actor >= known.shape[1]:
            return lambda row: False
        return lambda row: bool(known[row, prior.actor] >= prior.time)

    def _tell(self, prior: Access, later: Access, found: Order, threads: slice, is_shared: bool) -> None:
        fenced = True
        if prior.run == self.run and prior.actor < self.threads and not prior.is_async:
            own = slice(prior.actor, prior.actor + 1)
            fenced = self.clocks.has_seen(own, SHARED if is_shared else GLOBAL, prior.actor, prior.time)
        released = prior.run != self.run or self._seen_by(threads, prior)(SEEN)
        verdict = judge(prior, later, found, is_shared, fenced, released)
        self.report(verdict.kind, verdict.title, verdict.advice, later, prior, verdict.is_error)

    def report(
        self, kind: str, title: str, advice: str, later: Access, prior: Access | None, is_error: bool = True
    ) -> None:
        """Report a hazard, once for the places in the source that it lies between."""
        key = (kind, later.site[1:3], prior.site[1:3] if prior is not None else None)
        if key in self._reported:
            return
        self._reported.add(key)
        lines = [f"{kind}: {title}", f"  at {later.site}", f"  in {_who(later)}"]
        if prior is not None:
            lines += [f"  and at {prior.site}", f"  in {_who(prior)}"]
        lines.append(f"  add {advice}")
        self._report(
            HazardError.of(kind)(
                "\n".join(lines),
                kind=kind,
                is_error=is_error,
                advice=advice,
                block=later.site.thread.block.index,
                thread=later.threads[0] if later.threads[1] == 1 else None,
                filename=later.site.filename,
                line=later.site.line,
                other=(prior.site.filename, prior.site.line) if prior is not None else None,
            )
        )

    def report_registers(self, site: Site, group: Any, which: str) -> None:
        """Report that registers of a product were touched and not fenced."""
        thread = group.members[0]
        access = Access(thread.number, 0, False, True, False, self.run, site, (group.first, group.size), "wgmma.mma")
        self.report(
            "missing-wgmma-fence",
            f"wgmma.mma takes registers of the {which} that ordinary instructions have touched since the last "
            "wgmma.fence",
            "wgmma.fence() before it",
            access,
            None,
        )

    # Asynchronous work ----------------------------------------------------------------------------------------------

    def asynchronous(
        self,
        bytes_: np.ndarray,
        is_write: bool,
        is_shared: bool,
        site: Site,
        actor: int,
        time: int,
        group: Any = None,
        is_async: bool = True,
        is_atomic: bool = False,
        detail: str = "",
    ) -> None:
        """An access by work that a thread, or a `group` of them, begins now; it is over at a time of the actor."""
        thread = site.thread
        first, count = (group.first, group.size) if group is not None else (thread.index, 1)
        key = (actor, time, thread.number, site.code, site.line, is_write, is_shared)
        access = self._accesses.get(key)
        if access is None:
            what = site.instruction or "a copy"
            access = self._accesses[key] = Access(
                actor, time, is_write, is_async, is_atomic, self.run, site, (first, count), what, detail
            )
        begin = thread.number - thread.index + first
        self._touch(bytes_, access, slice(begin, begin + count), is_shared)

    def bulk(self, thread: Any) -> Queue:
        """The bulk groups of a thread."""
        return self._queue("bulk", thread.number, 1)

    def unit(self, thread: Any) -> Queue:
        """The matrix unit of a thread's warp group."""
        first = thread.number - thread.index % 128
        return self._queue("unit", first, 128)

    def copies(self, thread: Any) -> Queue:
        """The copies by cp.async of a thread."""
        return self._queue("copies", thread.number, 1)

    def _queue(self, kind: str, first: int, count: int) -> Queue:
        found = self._queues.get((kind, first))
        if found is None:
            found = self._queues[kind, first] = Queue(
                self.clocks.new_actor(), self.clocks.new_actor(), slice(first, first + count), kind != "copies"
            )
        return found

    # Fences, acquire and release ------------------------------------------------------------------------------------

    def fence(self, thread: Any, kind: str) -> None:
        """A fence by a thread."""
        number = thread.number
        copies = self._queues.get(("copies", number))
        actors = (number,) if copies is None else (number, copies.actor)
        for row in FENCES.get(kind, ()):
            self.clocks.fence(number, row, LATE[row], actors)
        if kind.startswith("acq_rel"):
            self._fenced[number] = self.clocks.released(number)

    def released(self, thread: Any, relaxed: bool = False) -> np.ndarray:
        """What an arrival of a thread releases; of a relaxed one what a fence before it does."""
        if not relaxed:
            return self.clocks.released(thread.number)
        fenced = self._fenced.get(thread.number)
        released = self.clocks.released(thread.number, RELAXED)
        return merged(fenced, released)

    def release_to(self, location: int, thread: Any, keeps: bool) -> None:
        """A releasing store, or, if it `keeps` what others released there, a reduction."""
        kept = self._locations.get(location, {}) if keeps else {}
        own = merged(kept.get(self.run), self.clocks.released(thread.number))
        # with what this cluster has acquired of earlier ones
        passed_on = {run: merged(kept.get(run), known.copy()) for run, known in self._known.items()}
        self._locations[location] = kept | passed_on | {self.run: own}

    def acquire_from(self, location: int, thread: Any) -> None:
        """An acquiring load; what an earlier cluster released, all of this one is taken to know from then on."""
        for run, released in self._locations.get(location, {}).items():
            if run == self.run:
                self.clocks.join(thread.number, released)
            else:
                self._known[run] = merged(self._known.get(run), released.copy())


def _who(access: Access) -> str:
    first, count = access.threads
    who = f"block {access.site.thread.block.index}, {role(range(first, first + count))}"
    return f"{who}, {access.detail}" if access.detail else who
