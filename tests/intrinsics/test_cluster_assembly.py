"""What arrivals and waits of a cluster cost in machine code: memory barriers, and the L1 cache."""

import re

import pytest
from numba.cuda import types

from hopper_numba.intrinsics import cluster, mbarrier
from hopper_numba.shared import SharedLayout, barriers

SHARED = SharedLayout(bar=barriers())

ARRIVALS = [
    (mbarrier.arrive_remote, 1),
    (mbarrier.arrive_drop_remote, 1),
    (mbarrier.arrive_expect_tx_remote, 1),
    (mbarrier.arrive_remote_relaxed, 0),
    (mbarrier.arrive_remote_cta, 0),
    (mbarrier.expect_tx_remote, 0),
    (mbarrier.complete_tx_remote, 0),
]


@pytest.mark.parametrize(("arrival", "count"), ARRIVALS, ids=lambda value: getattr(value, "name", ""))
def test_only_what_the_cluster_sees_takes_a_memory_barrier(arrival, count, compile_kernel, machine_code):
    def kernel(given, out):
        out[0] = given[0]
        arrival(cluster.map_shared(SHARED.open().bar, given[1]), given[2])

    code = machine_code(compile_kernel(kernel, (types.uint32[::1],) * 2, 128))
    assert len(re.findall(r"SYNCS\.ARRIVE\.TRANS64\.RED", code)) == 1
    assert len(re.findall("MEMBAR.ALL.GPU", code)) == count


@pytest.mark.parametrize(
    ("wait", "drops"),
    [
        (mbarrier.wait, False),
        (mbarrier.wait_cluster, True),
        (mbarrier.test_wait, False),
        (mbarrier.test_wait_cluster, 1),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_only_a_wait_for_the_cluster_drops_the_cache(wait, drops, compile_kernel, machine_code):
    def kernel(given, out):
        wait(SHARED.open().bar, 0)
        out[0] = given[0]

    code = machine_code(compile_kernel(kernel, (types.uint32[::1],) * 2, 128))
    assert "SYNCS.PHASECHK" in code
    assert ("CCTL.IVALL" in code) == drops


@pytest.mark.parametrize(
    ("step", "count"),
    [(cluster.arrive, 1), (cluster.sync_unaligned, 1), (cluster.arrive_relaxed, 0), (cluster.wait, 0)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_relaxed_arrival_takes_no_memory_barrier(step, count, compile_kernel, machine_code):
    def kernel(given, out):
        step()
        out[0] = given[0]

    code = machine_code(compile_kernel(kernel, (types.uint32[::1],) * 2, 128))
    assert len(re.findall("UCGABAR", code)) >= 1
    assert len(re.findall("MEMBAR.ALL.GPU", code)) == count
