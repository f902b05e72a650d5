"""Vector clocks, channels, and the states of bytes."""

import numpy as np
import pytest

from hopper_numba.interpreter.hazards.clocks import (
    GLOBAL,
    HAPPENED,
    INITIALISED,
    LATE_GLOBAL,
    LATE_SHARED,
    RELAXED,
    ROWS,
    SEEN,
    SHARED,
    Channel,
    Clocks,
    merged,
    only,
)
from hopper_numba.interpreter.hazards.shadow import Access, Shadow, States

ALL = range(ROWS)


def seen(clocks, thread, actor, time):
    """The rows in which a thread has seen what an actor did."""
    return {row for row in ALL if clocks.has_seen(slice(thread, thread + 1), row, actor, time)}


def hand_over(clocks, one, other, rows=None):
    """One thread releases, another acquires."""
    clocks.join(other, clocks.released(one, rows))


# Clocks --------------------------------------------------------------------------------------------------------------


def test_threads_know_of_themselves_only():
    clocks = Clocks(3)
    assert [clocks.now(thread) for thread in range(3)] == [1, 1, 1]
    assert seen(clocks, 1, 1, 1) == {SEEN, HAPPENED}
    assert seen(clocks, 1, 2, 1) == set()


def test_what_was_done_before_a_release_is_seen_and_what_comes_after_is_not():
    clocks = Clocks(2)
    before = clocks.now(0)
    hand_over(clocks, 0, 1)
    assert clocks.now(0) == before + 1
    assert seen(clocks, 1, 0, before) == {SEEN, HAPPENED}
    assert seen(clocks, 1, 0, clocks.now(0)) == set()
    assert seen(clocks, 0, 1, 1) == set()  # it goes one way


def test_seeing_is_transitive():
    clocks = Clocks(3)
    time = clocks.now(0)
    hand_over(clocks, 0, 1)
    hand_over(clocks, 1, 2)
    assert seen(clocks, 2, 0, time) == {SEEN, HAPPENED}


def test_a_relaxed_arrival_only_tells_that_something_is_over():
    clocks = Clocks(2)
    time = clocks.now(0)
    hand_over(clocks, 0, 1, RELAXED)
    assert seen(clocks, 1, 0, time) == {HAPPENED}


def test_all_threads_must_have_seen_it():
    clocks = Clocks(4)
    time = clocks.now(0)
    hand_over(clocks, 0, 1)
    assert clocks.has_seen(slice(0, 2), SEEN, 0, time)
    assert not clocks.has_seen(slice(0, 3), SEEN, 0, time)


@pytest.mark.parametrize(("row", "late"), [(SHARED, LATE_SHARED), (GLOBAL, LATE_GLOBAL)])
def test_a_fence_is_of_what_its_thread_did_before(row, late):
    clocks = Clocks(2)
    time = clocks.now(0)
    clocks.fence(0, row, late, (0,))
    after = clocks.now(0)
    hand_over(clocks, 0, 1)
    assert seen(clocks, 1, 0, time) == {SEEN, HAPPENED, row, late}
    assert seen(clocks, 1, 0, after) == {SEEN, HAPPENED}


def test_a_fence_by_another_thread_is_late():
    clocks = Clocks(3)
    time = clocks.now(0)
    hand_over(clocks, 0, 1)
    clocks.fence(1, SHARED, LATE_SHARED, (1,))
    hand_over(clocks, 1, 2)
    assert seen(clocks, 2, 0, time) == {SEEN, HAPPENED, LATE_SHARED}


def test_a_fence_before_the_hand_over_is_of_nothing_of_the_others():
    clocks = Clocks(2)
    time = clocks.now(0)
    clocks.fence(1, SHARED, LATE_SHARED, (1,))
    hand_over(clocks, 0, 1)
    assert seen(clocks, 1, 0, time) == {SEEN, HAPPENED}


def test_a_fence_of_initialisations_has_no_late_form_and_passes_relaxed():
    clocks = Clocks(2)
    time = clocks.now(0)
    clocks.fence(0, INITIALISED, None, (0,))
    hand_over(clocks, 0, 1, RELAXED)
    assert seen(clocks, 1, 0, time) == {INITIALISED, HAPPENED}


def test_a_fence_is_of_the_copies_of_its_thread_too():
    clocks = Clocks(1)
    copies = clocks.new_actor()
    clocks.complete(slice(0, 1), copies, 3, is_async=False)
    assert seen(clocks, 0, copies, 3) == {SEEN, HAPPENED}
    clocks.fence(0, SHARED, LATE_SHARED, (0, copies))
    assert seen(clocks, 0, copies, 3) == {SEEN, HAPPENED, SHARED, LATE_SHARED}


def test_work_of_the_async_proxy_needs_no_fence():
    clocks = Clocks(4)
    actor = clocks.new_actor()
    clocks.complete(slice(1, 3), actor, 2)
    assert seen(clocks, 1, actor, 2) == seen(clocks, 2, actor, 1) == set(ALL)
    assert seen(clocks, 0, actor, 1) == seen(clocks, 1, actor, 3) == set()


def test_what_is_complete_stays_so():
    clocks = Clocks(1)
    actor = clocks.new_actor()
    clocks.complete(slice(0, 1), actor, 5)
    clocks.complete(slice(0, 1), actor, 2)
    assert seen(clocks, 0, actor, 5) == set(ALL)


def test_actors_are_added_beyond_the_room_there_is():
    clocks = Clocks(2)
    early = clocks.released(0)
    actors = [clocks.new_actor() for _ in range(200)]
    assert actors == list(range(2, 202))
    clocks.complete(slice(0, 1), actors[-1], 7)
    clocks.join(1, early)  # shorter than what there is now
    assert seen(clocks, 1, 0, 1) == {SEEN, HAPPENED}
    hand_over(clocks, 0, 1)
    assert seen(clocks, 1, actors[-1], 7) == set(ALL)


def test_meeting_tells_that_each_has_come_and_nothing_of_what_it_wrote():
    clocks = Clocks(4)
    clocks.tick(0)
    clocks.meet(slice(0, 3))
    assert seen(clocks, 1, 0, 2) == {HAPPENED}
    assert seen(clocks, 3, 0, 1) == set()


def test_one_thread_that_knows_is_enough_for_something_to_be_over():
    clocks = Clocks(4)
    time = clocks.now(0)
    hand_over(clocks, 0, 2, RELAXED)
    assert clocks.is_over(slice(1, 4), 0, time)
    assert not clocks.is_over(slice(1, 2), 0, time)
    assert not clocks.is_over(slice(1, 4), 0, clocks.now(0))


def test_released_is_a_copy():
    clocks = Clocks(2)
    released = clocks.released(0)
    released[:] = 9
    assert seen(clocks, 0, 1, 1) == set()


# What is released ----------------------------------------------------------------------------------------------------


def test_only_some_rows():
    released = np.ones((ROWS, 2), np.int32)
    assert only(released.copy(), None).all()
    left = only(released, (SEEN, SHARED))
    assert left[[SEEN, SHARED]].all() and left.sum() == 4


def test_merging_takes_the_later_of_both():
    one = np.array([[3, 0]] * ROWS, np.int32)
    other = np.array([[1, 2, 5]] * ROWS, np.int32)
    assert (merged(one, other) == [3, 2, 5]).all()
    assert (merged(None, np.ones((ROWS, 1), np.int32)) == 1).all()


def test_a_channel_gives_each_phase_what_was_released_in_it():
    clocks, channel = Clocks(4), Channel()
    channel.release(clocks.released(0))
    channel.complete(0)
    channel.release(clocks.released(1))
    channel.acquire(clocks, 3, 0)
    assert seen(clocks, 3, 0, 1) == {SEEN, HAPPENED}
    assert seen(clocks, 3, 1, 1) == set()
    channel.complete(1)
    channel.acquire(clocks, 3, 1)
    assert seen(clocks, 3, 1, 1) == {SEEN, HAPPENED}


def test_a_channel_remembers_two_phases_and_empty_ones():
    clocks, channel = Clocks(2), Channel()
    channel.release(clocks.released(0))
    for phase in range(3):
        channel.complete(phase)
    for phase in (-1, 0, 1, 2, 3):
        channel.acquire(clocks, 1, phase)
    assert seen(clocks, 1, 0, 1) == set()


def test_a_channel_keeps_a_copy():
    clocks, channel = Clocks(2), Channel()
    released = clocks.released(0)
    channel.release(released)
    released[:] = 0
    channel.complete(0)
    channel.acquire(clocks, 1, 0)
    assert seen(clocks, 1, 0, 1) == {SEEN, HAPPENED}


# Shadows -------------------------------------------------------------------------------------------------------------


def access(actor=0, is_write=False, is_async=False, run=0, time=1):
    return Access(actor, time, is_write, is_async, False, run, None, (actor, 1), "")


class Memory:
    """Some bytes, and what accesses to them were compared with."""

    def __init__(self, nbytes=16):
        self.states, self.shadow = States(), Shadow(nbytes)

    def touch(self, bytes_, one):
        found = []
        self.states.touch(bytes_, one, found.append)
        return found


def test_a_read_is_compared_with_the_last_write_only():
    memory = Memory()
    at = memory.shadow.run(0, 4)
    first, second = access(is_write=True), access(1, is_write=True)
    assert memory.touch(at, access()) == []
    memory.touch(at, first)
    assert memory.touch(at, second) == [first]
    assert memory.touch(at, access(2)) == [second]
    assert memory.touch(at, access(3)) == [second]


def test_a_write_is_compared_with_the_reads_since_the_last_write_and_that():
    memory = Memory()
    at = memory.shadow.run(0, 4)
    write, one, two, later = access(is_write=True), access(1), access(2), access(3, is_write=True)
    memory.touch(at, access(5))
    memory.touch(at, write)
    memory.touch(at, one)
    memory.touch(at, two)
    assert memory.touch(at, later) == [one, two, write]
    assert memory.touch(at, access(4, is_write=True)) == [later]


def test_a_read_takes_the_place_of_the_same_actors_read_before():
    memory = Memory()
    at = memory.shadow.run(0, 1)
    memory.touch(at, access(1, time=1))
    again, async_, of_other_run = access(1, time=2), access(1, is_async=True), access(1, run=1)
    for one in (again, async_, of_other_run):
        memory.touch(at, one)
    assert memory.touch(at, access(is_write=True)) == [again, async_, of_other_run]


def test_each_byte_has_its_own_history():
    memory = Memory()
    left, right = access(is_write=True), access(1, is_write=True)
    memory.touch(memory.shadow.run(0, 4), left)
    memory.touch(memory.shadow.run(4, 4), right)
    read = access(2)
    assert memory.touch(memory.shadow.run(3, 1), read) == [left]
    over_both = memory.touch(memory.shadow.run(2, 4), access(3, is_write=True))
    assert set(over_both) == {left, read, right}
    assert memory.touch(memory.shadow.run(0, 2), access(4)) == [left]


def test_the_same_access_to_further_bytes_of_one_state_is_compared_once():
    memory = Memory()
    memory.touch(memory.shadow.run(0, 8), access(is_write=True))
    read = access(1)
    assert len(memory.touch(memory.shadow.run(0, 4), read)) == 1
    assert memory.touch(memory.shadow.run(4, 4), read) == []


def test_bytes_that_saw_the_same_have_the_same_state():
    memory = Memory()
    write, read = access(is_write=True), access(1)
    for byte in range(8):
        memory.touch(memory.shadow.run(byte, 1), write)
        memory.touch(memory.shadow.run(byte, 1), read)
    assert len(set(memory.shadow.states[:8].tolist())) == 1
    assert not memory.shadow.states[8:].any()


def test_an_array_with_gaps_touches_its_own_bytes():
    memory = Memory(64)
    at = memory.shadow.array(4, (2, 3), (24, 8), 2)
    assert at.shape == (2, 3, 2)
    write = access(is_write=True)
    memory.touch(at, write)
    touched = np.flatnonzero(memory.shadow.states).tolist()
    assert touched == [4 + 24 * row + 8 * column + byte for row in range(2) for column in range(3) for byte in range(2)]
    memory.touch(at[1, 2], access(is_write=True))
    assert len(set(memory.shadow.states.tolist())) == 3


def test_no_bytes_are_no_access():
    memory = Memory()
    assert memory.touch(memory.shadow.run(3, 0), access(is_write=True)) == []
    assert not memory.shadow.states.any()
