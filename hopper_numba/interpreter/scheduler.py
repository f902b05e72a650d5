"""Who runs next: threads as greenlets, asynchronous work as late as the program's synchronisation allows.

Everything is drawn from one generator, so a seed gives one schedule. Seed 0 completes asynchronous work only when
nobody can run without it; other seeds also do so early, now and then, and interrupt threads more or less often. Of the
odd ones from 5 on each has a victim (`Victim`), which goes on only when nothing else can.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent

from .victims import Victim

EAGERNESS = (0.0, 0.0, 1 / 64, 1 / 8)
INTERRUPTIONS = (4, 16, 64)
POLLS = 20_000
"""Rounds of failed tests, and of reads between sleeps, with nothing else, after which threads are taken for stuck."""
SPINS = 1_000_000
"""Reads, with nothing else between them, after which threads are taken for stuck: a few seconds."""
PATIENCE = 10_000
"""Turns of others after which a victim is delayed no longer: they may wait for it in a loop that is no mere test."""


class Scheduler:
    """Runs the threads of co-resident blocks until all have exited.

    Parameters
    ----------
    machine : Machine
    seed : int
    stuck : function
        Makes the error, when nobody can run.

    Attributes
    ----------
    work : list
        Asynchronous operations that may take a step at any time; `step` does one, and says whether it was the last.
    late : list of Thread
        Those that could run, but let others go first.
    now : int
        Nanoseconds since the launch, of a clock that only events move.
    """

    def __init__(self, machine: Any, seed: int, stuck: Callable[[], Exception]) -> None:
        self.machine, self._stuck = machine, stuck
        self._random = random.Random(seed)
        self.eagerness = 0.0 if seed == 0 else self._random.choice(EAGERNESS)
        self.interruption = 16 if seed == 0 else self._random.choice(INTERRUPTIONS)
        self.runnable: list[Any] = []
        self.polling: list[Any] = []
        self.sleeping: list[tuple[int, Any]] = []
        self.work: list[Any] = []
        self.victim = Victim(seed, self._random)
        if self.victim:
            self.eagerness = EAGERNESS[-1]  # what is not delayed shall overtake what is
        self.late: list[Any] = []
        self.now = 0
        self._turns = 0
        self._admitted: Any = None
        self._polls = 0
        self._woken: Any = None
        self._budget = 0

    def run(self, threads: list[Any]) -> None:
        """Run until every thread has exited."""
        self.hub = getcurrent()
        self._switch = self.hub.switch
        runnable, machine, draw = self.runnable, self.machine, self._random.random
        runnable.extend(threads)
        live = len(threads)
        self.victim.choose(threads)
        delayed = self.victim.threads
        while True:
            while runnable:
                index = int(draw() * len(runnable))
                thread = runnable[index]
                last = runnable.pop()
                if thread is not last:
                    runnable[index] = last
                if delayed and self._gives_way(thread):
                    continue
                machine.thread = thread
                self.now += 1
                thread.resume()
                if thread.exited:
                    live -= 1
                elif self.eagerness and self.work and draw() < self.eagerness:
                    self._step_early()
            machine.thread = None
            if not live:
                return
            self._idle()

    # Called by threads ----------------------------------------------------------------------------------------------

    def block(self, reason: tuple[Any, Any]) -> None:
        """Let others run until somebody wakes the executing thread. `reason` can describe what it waits for."""
        thread = self.machine.thread
        thread.waiting = reason
        self.machine.spins = 0
        self._woken = None
        self._switch()
        thread.waiting = None

    def wake(self, waiters: list[Any]) -> None:
        """Make threads runnable, and empty the list."""
        self._polls = 0
        self.runnable.extend(waiters)
        waiters.clear()

    def yield_now(self) -> None:
        """Let others run, if the draw wants so."""
        self.runnable.append(self.machine.thread)
        self._woken = None
        self._switch()

    def next_interruption(self) -> int:
        """Steps until a thread is interrupted."""
        return int(self._random.expovariate(1 / self.interruption))

    def polled(self, result: bool, reason: tuple[Any, Any]) -> bool:
        """Give the result of a test. After a failed one the thread runs again only when no one else can."""
        if not result:
            thread = self.machine.thread
            thread.waiting = reason
            self.polling.append(thread)
            self._woken = None
            self._switch()
            thread.waiting = None
        return result

    def sleep(self, nanoseconds: int) -> None:
        """Let others run for so long."""
        machine, thread = self.machine, self.machine.thread
        # one that read nothing since it last slept, or wrote, does not poll
        if self._woken is thread and (machine.budget == self._budget or machine.spins == 0):
            self._polls = 0
        self.sleeping.append((self.now + nanoseconds, thread))
        thread.waiting = (self, nanoseconds)
        self._switch()
        thread.waiting = None
        self._woken, self._budget = thread, machine.budget
        machine.spins = max(1, machine.spins)

    def describe(self, nanoseconds: int) -> str:
        """What a sleeping thread waits for."""
        return f"asleep for {nanoseconds} ns"

    # When nobody can run --------------------------------------------------------------------------------------------

    def _idle(self) -> None:
        """Do what lets threads run again."""
        if self.victim and self._go_ahead():
            return
        awaited = [operation for operation in self.work if operation.wakes]
        awake = bool(self.polling or self.sleeping)
        if awaited and not (awake and self._random.random() < 0.5):
            self._polls = 0
            self._step(awaited)
        elif awake:
            self._polls += 1
            if self._polls > POLLS:
                raise self._stuck()
            self._wake_pollers()
        else:
            raise self._stuck()

    def _wake_pollers(self) -> None:
        # time runs faster the longer nothing happens, so that loops with a timeout end
        self.now += min(1_000_000, 10 * self._polls)
        self.runnable.extend(self.polling)
        self.polling.clear()
        if not self.runnable and self.sleeping:
            self.now = max(self.now, min(until for until, _ in self.sleeping))
        due = [thread for until, thread in self.sleeping if until <= self.now]
        self.sleeping[:] = [(until, thread) for until, thread in self.sleeping if until > self.now]
        self.runnable.extend(due)

    def _step(self, operations: list[Any]) -> None:
        self._take_step(self._draw(operations))

    def _step_early(self) -> None:
        operation = self._draw(self.work)
        if not self.victim or not self.victim.delays(operation, self.work):
            self._take_step(operation)

    def _draw(self, operations: list[Any]) -> Any:
        return operations[int(self._random.random() * len(operations))]

    def _take_step(self, operation: Any) -> None:
        if operation.step():
            self.work.remove(operation)

    def spinning(self, spins: int) -> None:
        """Called now and then by threads that only read: what they wait for may need a step."""
        if self.work:
            self._step(self.work)
        self._wake_pollers()
        if self.late:
            self._release()
        if spins * self.interruption > SPINS:
            raise self._stuck()

    # A victim -------------------------------------------------------------------------------------------------------

    def _gives_way(self, thread: Any) -> bool:
        """Whether a thread whose turn it would be lets others go first."""
        self._turns = self._turns + 1 if self.late else 0
        if self._turns > PATIENCE:
            self._release()
        if thread is self._admitted or thread not in self.victim.threads:
            self._admitted = None
            return False
        self.late.append(thread)
        return True

    def _go_ahead(self) -> bool:
        """Let something go on before the victim does, or else one of its threads; whether there was anything."""
        others = self.victim.others(self.work)
        if others:
            self._polls = 0
            self._step(others)
        elif self.late and not self._polls and (self.polling or self.sleeping):
            self._polls = 1
            self._wake_pollers()
        elif self.late:
            self._admitted = self.late.pop(int(self._random.random() * len(self.late)))
            self.runnable.append(self._admitted)
        else:
            return False
        return True

    def _release(self) -> None:
        """Delay the victim no longer: others wait for it in a way that is not seen."""
        self.victim.release()
        self.runnable.extend(self.late)
        self.late.clear()
