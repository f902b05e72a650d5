"""The mutants of ``make mutants``: that all are made, that they are in place, and that some are caught."""

import collections

import numpy as np
import pytest
from mutants.examine import alarms, examine, k_tiles_of, mutants
from mutants.harmless import HARMLESS
from mutants.mutate import mutants_of, stages_of
from mutants.reach import Reached
from numba import cuda

from hopper_numba import interpreter
from hopper_numba.interpreter import InterpreterError, OutOfBoundsError
from hopper_numba.intrinsics import barrier, mbarrier
from hopper_numba.matmul import STAGES, build_stage
from hopper_numba.shared import SharedLayout, barriers
from hopper_numba.stages.config import default

V1 = {
    "- fence.mbarrier_init()": "phase-overrun",
    "~ mbarrier.init(smem.loaded, 2)": "deadlock",
    "~ mbarrier.arrive_expect_tx(smem.loaded, smem.a.nbytes + smem.b.nbytes - 16)": "tx-mismatch",
    "- mbarrier.wait(smem.loaded, k & 1)": "read-before-arrival",
    "~ mbarrier.wait(smem.loaded, k & 1 ^ 1)": "read-before-arrival",
    "- wgmma.fence()": "missing-wgmma-fence",
    "~ wgmma.wait_group(acc, 1)": "overwrite-while-read",
    "- wgmma.wait_group(acc, 0)": "overwrite-while-read",
}


OTHERS = {
    ("v2", "~ smem.loaded[(stage + 1) % 2]", 1): "tx-mismatch",
    ("v3", "- mbarrier.arrive(smem.empty[stage], 1)", 0): "deadlock",
    ("v4", "~ mbarrier.init(ring.empty[stage], ring.arrivals - 1)", 0): "overwrite-while-read",
    ("v4", "- pipe.producer_advance()", 0): "phase-overrun",
    ("v5", "~ wgmma.wait_group(acc, 2)", 0): "overwrite-while-read",
    ("v5", "- mbarrier.wait(self.full, self.phase)", 0): "read-before-arrival",
    ("v6", "- fence.proxy_async_shared_cta()", 0): "missing-proxy-fence",
    ("v6", "- fence.mbarrier_init()", 0): "phase-overrun",
    ("v6", "- tma.wait_group_read(0)", 0): "overwrite-while-read",
}
"""Of `Pipeline` too; by the stage, the mutant, and its number among those of the same text."""


@pytest.mark.parametrize("text", V1)
def test_mutant_of_v1(text):
    (number,) = [i for i, mutant in enumerate(mutants("v1")) if str(mutant) == text]
    outcome = examine("v1", number, seeds=1)
    assert (outcome.result, outcome.kind) == ("caught", V1[text])


@pytest.mark.parametrize(("stage", "text", "among"), OTHERS)
def test_mutant_of_another_stage(stage, text, among):
    number = [i for i, mutant in enumerate(mutants(stage)) if str(mutant) == text][among]
    outcome = examine(stage, number, seeds=1)
    assert (outcome.result, outcome.kind) == ("caught", OTHERS[stage, text, among])


def test_a_mutant_of_a_method_that_the_interpreter_refuses():
    (number,) = [i for i, m in enumerate(mutants("v4")) if str(m) == "~ mbarrier.arrive(self.ring.empty[stage], 0)"]
    outcome = examine("v4", number, seeds=1)
    assert (outcome.result, outcome.kind) == ("caught", "refused-operand")


def test_mutant_that_the_compiler_refuses():
    (number,) = [i for i, mutant in enumerate(mutants("v1")) if str(mutant) == "~ wgmma.wait_group(acc, -1)"]
    outcome = examine("v1", number, seeds=1)
    assert outcome.result == "refused" and "n must be" in outcome.message


def test_every_synchronising_call_of_v1_is_deleted():
    deleted = collections.Counter(mutant.call for mutant in mutants("v1") if mutant.what == "deleted")
    assert deleted == {
        "mbarrier.init": 1,
        "fence.mbarrier_init": 1,
        "cuda.syncthreads": 2,
        "mbarrier.arrive_expect_tx": 1,
        "mbarrier.wait": 1,
        "wgmma.fence": 1,
        "wgmma.commit_group": 1,
        "wgmma.wait_group": 1,
    }


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "v0"])
def test_stage_as_it_is(stage):
    for seed in range(len(k_tiles_of(stage))):
        assert alarms(stage, seed) == ([], set())


def test_calls_of_a_pipeline_are_deleted_and_its_stages_altered():
    found = mutants("v5")
    assert {m.call for m in found if m.what == "deleted"} >= {
        "pipeline.init",
        "pipeline.producer_acquire",
        "pipeline.producer_advance",
        "pipeline.consumer_wait",
        "pipeline.consumer_release_previous",
        "pipeline.consumer_advance",
    }
    assert {m.function.__name__ for m in found if m.place.startswith("pipeline.py")} == {
        "init",
        "producer_acquire",
        "producer_advance",
        "consumer_wait",
        "consumer_advance",
        "consumer_release_previous",
        "release",
    }
    assert not any("remote" in m.text for m in found)  # it has no cluster


def test_stages_of_a_layout_and_of_a_pipeline_in_it():
    counts = stages_of(Reached(build_stage("v6", np.dtype(np.float16)).kernel))
    depth = default("v6").stages
    assert counts == {"full": depth, "empty": depth, "epilogue_ready": 4, "epilogue_free": 3}


def test_what_is_called_harmless_is_there():
    numbered = set()
    for stage in STAGES:
        seen = collections.Counter()
        for text in map(str, mutants(stage)):
            numbered.add((stage, text, seen[text]))
            seen[text] += 1
    assert HARMLESS.keys() <= numbered


# A ring of two slots whose waits and arrivals are spread over a kernel, a device function and an object's methods ----

SHARED = SharedLayout(full=barriers(2), empty=barriers(2))


class Ring:
    """What a kernel captures, as it does a pipeline."""

    depth = 2

    def acquire(self, smem, item):
        empty = smem.empty
        while not mbarrier.test_wait(empty[item % self.depth], (item // self.depth + 1) & 1):
            pass

    def not_called(self, smem):
        mbarrier.inval(smem.full[0])


@cuda.jit(device=True)
def release(smem, item):
    mbarrier.arrive(smem.empty[item % 2], count=1)


def make_ring(ring):
    def kernel(out, items):
        smem = SHARED.open()
        slots = cuda.shared.array(2, np.int32)
        if cuda.threadIdx.x == 0:
            for i in range(2):
                mbarrier.init(smem.full[i], 1)
                mbarrier.init(smem.empty[i], 32)
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            for item in range(items):
                ring.acquire(smem, item)
                slots[item % 2] = 100 + item
                mbarrier.arrive(smem.full[item % 2], 1)
        elif cuda.threadIdx.x >= 32:
            for item in range(items):
                mbarrier.wait(smem.full[item % 2], item // 2 & 1)
                out[item, cuda.threadIdx.x - 32] = slots[item % 2]
                release(smem, item)
            barrier.sync(1, 32)

    return kernel


RING = make_ring(Ring())
CAUGHT = {
    "- mbarrier.test_wait(empty[item % self.depth], item // self.depth + 1 & 1)": {"data-race", "deadlock"},
    "~ mbarrier.test_wait(empty[item % self.depth], item // self.depth + 1 & 1 ^ 1)": {"deadlock"},
    "~ empty[(item % self.depth + 1) % 2]": {"data-race", "phase-overrun"},
    "- mbarrier.arrive(smem.empty[item % 2], count=1)": {"deadlock"},
    "~ smem.empty[(item % 2 + 1) % 2]": {"data-race", "phase-overrun"},
    "- mbarrier.wait(smem.full[item % 2], item // 2 & 1)": {"uninitialised-read", "data-race"},
    "~ mbarrier.init(smem.empty[i], 31)": {"data-race", "phase-overrun"},
    "~ barrier.sync(1, 64)": {"deadlock"},
}


def run_ring():
    out = np.zeros((5, 32), np.int32)
    interpreter.run(RING, (out, 5), 1, 64, dynamic_shared=SHARED.nbytes)
    assert (out == 100 + np.arange(5)[:, None]).all()


def test_ring_as_it_is():
    run_ring()


@pytest.mark.parametrize("text", CAUGHT)
def test_mutant_of_what_a_kernel_reaches(text):
    (mutant,) = [mutant for mutant in mutants_of(RING) if str(mutant) == text]
    with mutant.in_place(), pytest.raises(InterpreterError) as caught:
        run_ring()
    assert caught.value.kind in CAUGHT[text]
    assert caught.value.filename == __file__
    run_ring()


def test_stages_are_initialised_one_too_far():
    """Not the first one after the last: that would be the same stages in another order."""
    (mutant,) = [mutant for mutant in mutants_of(RING) if str(mutant) == "~ smem.full[i + 1]"]
    with mutant.in_place(), pytest.raises(OutOfBoundsError, match="index 2 is outside 0 to 1"):
        run_ring()


def test_only_what_a_kernel_reaches_is_altered():
    found = [str(mutant) for mutant in mutants_of(RING)]
    assert not any("inval" in text for text in found)
    assert not any("acc[" in text or "slots[" in text for text in found)
