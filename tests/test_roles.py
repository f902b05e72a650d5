"""Roles of threads: what is refused, who a thread is, and instructions used by the wrong threads."""

import re

import numpy as np
import pytest
from numba import cuda, float32
from numba.cuda import types

from hopper_numba import SharedLayout, TensorMap, barriers, interpret, jit, tile
from hopper_numba.diagnosis import KernelTypeError
from hopper_numba.interpreter import DivergenceError, HazardError
from hopper_numba.intrinsics import fence, mbarrier, tma, warp, wgmma
from hopper_numba.pipeline import Pipeline
from hopper_numba.roles import Roles, threads, warp_groups, warps

WORDS = types.uint32[::1]


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [warp_groups, warps, threads])
@pytest.mark.parametrize("count", [0, -1, 1.0, True, "2", None])
def test_a_count_is_a_positive_integer(make, count):
    with pytest.raises(
        ValueError, match=re.escape(f"{make.__name__}: count must be a positive integer; got {count!r}")
    ):
        make(count)


@pytest.mark.parametrize(
    ("roles", "error", "says"),
    [
        ({}, ValueError, "Roles: name at least one role"),
        ({"producer": 3}, TypeError, "Roles: producer must be warp_groups(…), warps(…) or threads(…); got 3"),
        (
            {"producer": warps},
            TypeError,
            "Roles: producer must be warp_groups(…), warps(…) or threads(…); got <function",
        ),
        (
            {"producer": warps(1), "consumers": warp_groups(2)},
            ValueError,
            "Roles: consumers must begin at a multiple of 128 threads; got 32 before it. Name warp groups first",
        ),
        (
            {"one": threads(3), "other": warps(1)},
            ValueError,
            "other must begin at a multiple of 32 threads; got 3 before",
        ),
        (
            {"consumers": warp_groups(7), "producers": warps(4), "one": threads(1)},
            ValueError,
            "Roles: a block has at most 1024 threads; got consumers 896 + producers 128 + one 1 = 1025",
        ),
        ({"threads": warps(1)}, ValueError, "Roles: 'threads' cannot be a role's name"),
        ({"named": warps(1)}, ValueError, "Roles: 'named' cannot be a role's name"),
        ({"constants": warps(1)}, ValueError, "Roles: 'constants' cannot be a role's name"),
        ({"_mine": warps(1)}, ValueError, "Roles: '_mine' cannot be a role's name"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_roles_that_are_refused(roles, error, says):
    with pytest.raises(error, match=re.escape(says)):
        Roles(**roles)


def test_a_role_that_is_not_there():
    roles = Roles(producer=warps(1))
    with pytest.raises(AttributeError, match=r"Roles\(producer=warps\(1\) from 0\) has no role 'nobody'"):
        roles.nobody  # noqa: B018


# Who a thread is -----------------------------------------------------------------------------------------------------

ROLES = Roles(consumers=warp_groups(2), producer=warps(3), few=threads(5))


def test_threads_are_counted_and_roles_follow_one_another():
    assert ROLES.threads == 2 * 128 + 3 * 32 + 5
    assert (ROLES.consumers.first, ROLES.producer.first, ROLES.few.first) == (0, 8, 352)
    assert (ROLES.consumers.unit, ROLES.producer.unit, ROLES.few.unit) == (128, 32, 1)
    assert Roles(whole=warp_groups(8)).threads == 1024


@jit(threads=ROLES.threads)
def who(out):
    # elected() of warps asks all of a warp: the last five threads, which are no warp, do not
    if ROLES.consumers.here():
        elected = ROLES.consumers.elected()
        out[cuda.threadIdx.x] = 1000 * ROLES.consumers.thread() + 100 + 10 * ROLES.consumers.index() + elected
    elif ROLES.producer.here():
        elected = ROLES.producer.elected()
        out[cuda.threadIdx.x] = 1000 * ROLES.producer.thread() + 200 + 10 * ROLES.producer.index() + elected
    elif ROLES.few.here():
        out[cuda.threadIdx.x] = 1000 * ROLES.few.thread() + 300 + 10 * ROLES.few.index() + ROLES.few.elected()
    else:
        out[cuda.threadIdx.x] = 999


def wanted():
    """By the number of the thread."""
    out = []
    for t in range(2 * 128 + 3 * 32 + 5):
        if t < 256:
            out.append(1000 * (t % 128) + 100 + 10 * (t // 128) + (t % 128 == 0))
        elif t < 352:
            out.append(1000 * (t % 32) + 200 + 10 * (t // 32 - 8) + (t % 32 == 0))
        else:
            out.append(300 + 10 * (t - 352) + 1)
    return out


@pytest.mark.parametrize("seed", range(3))
def test_each_thread_knows_its_role(seed):
    out = np.zeros(ROLES.threads, np.uint32)
    with interpret(seed=seed):
        who[1](out)
    assert out.tolist() == wanted()


@pytest.mark.parametrize("threads", [32, 128, 192])
def test_a_kernel_has_the_threads_of_its_roles(threads):
    roles = Roles(consumers=warp_groups(1), producer=warps(1))

    def kernel(out):
        out[0] = roles.producer.here()

    with pytest.raises(ValueError, match=rf"threads must be roles\.threads, 160; got {threads}"):
        jit(kernel, threads=threads)
    assert jit(kernel, threads=roles.threads).threads == 160


def test_a_kernel_has_the_threads_of_its_pipelines():
    roles = Roles(consumers=warp_groups(1), producer=warps(1))
    ring = SharedLayout(pipe=Pipeline(2, roles.producer, roles.consumers, a=tile("float16", (8, 64))))
    with pytest.raises(ValueError, match=r"threads must include pipe's producers, warps\(1\) from 4; got 128"):
        jit(lambda out: None, threads=128, shared=ring)
    assert jit(lambda out: None, threads=160, shared=ring).threads == 160


@pytest.mark.parametrize("cluster", [1, 4])
def test_a_kernel_has_the_cluster_of_its_pipelines(cluster):
    roles = Roles(consumers=warp_groups(1), producer=warps(1))
    ring = SharedLayout(pipe=Pipeline(2, roles.producer, roles.consumers, cluster=2, a=tile("float16", (8, 64))))
    with pytest.raises(ValueError, match=f"cluster must have the 2 blocks of pipe's; got {cluster}"):
        jit(lambda out: None, threads=160, shared=ring, cluster=cluster)
    assert jit(lambda out: None, threads=160, shared=ring, cluster=2).cluster == (2, 1, 1)


@pytest.mark.parametrize("name", ["open", "here", "index", "elected", "thread", "threads", "constants", "_one"])
def test_a_role_has_a_name_of_its_own(name):
    with pytest.raises(ValueError, match=f"'{name}' cannot be a role's name"):
        Roles(**{name: warps(1)})


def test_roles_cost_nothing():
    compiled = who.compile((WORDS,))
    assert compiled.findings == [] and compiled.resources.stack == 0 and ".local" not in compiled.ptx


@pytest.mark.gpu
def test_each_thread_knows_its_role_on_a_gpu():
    out = cuda.to_device(np.zeros(ROLES.threads, np.uint32))
    who[1](out)
    assert out.copy_to_host().tolist() == wanted()


@cuda.jit(device=True)
def place(role):
    return 10 * role.first + role.count


@jit(threads=ROLES.threads)
def passed_on(out):
    if cuda.threadIdx.x == 0:
        out[0] = place(ROLES.producer)
        out[1] = place(ROLES.few)
        out[2] = ROLES.threads


def test_a_role_is_passed_to_a_device_function():
    out = np.zeros(3, np.uint32)
    with interpret():
        passed_on[1](out)
    assert out.tolist() == [83, 3525, 357]
    assert passed_on.compile((WORDS,)).findings == []


def test_a_role_that_is_not_there_is_refused_with_the_kernels_line():
    @jit(threads=ROLES.threads)
    def kernel(out):
        if ROLES.nobody.here():
            out[0] = 1

    with pytest.raises(KernelTypeError, match=r"Roles\(.*\) has no attribute 'nobody'\n.*if ROLES.nobody.here\(\):"):
        kernel.compile((WORDS,))


# The wrong threads ---------------------------------------------------------------------------------------------------

SHARED = SharedLayout(rows=tile("float16", (64, 64)), loaded=barriers())
MAPS = TensorMap(np.ones((64, 64), np.float16), SHARED.members["rows"])
TARGET = TensorMap(np.zeros((64, 64), np.float16), SHARED.members["rows"])
SEEDS = range(3)


def caught(kernel, *args, threads, shared=SHARED, seed=0):
    """What the interpreter raises of a kernel."""
    with interpret(seed=seed), pytest.raises(HazardError) as error:
        jit(kernel, threads=threads, shared=shared)[1](*args)
    return error.value


def source_line(error):
    with open(error.filename) as lines:
        return lines.read().splitlines()[error.line - 1].strip()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_load_by_a_whole_warp(seed):
    def kernel(source):
        smem = SHARED.open()
        if warp.elect_one():
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
            mbarrier.arrive_expect_tx(smem.loaded, smem.rows.nbytes)
        cuda.syncthreads()
        tma.load(smem.rows, source, (0, 0), smem.loaded)
        mbarrier.wait(smem.loaded, 0)

    error = caught(kernel, MAPS, threads=32, seed=seed)
    assert error.kind in ("overwrite-in-flight", "tx-mismatch")
    assert "tma.load(smem.rows" in str(error)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_by_a_whole_warp(seed):
    def kernel(source, target):
        smem = SHARED.open()
        if warp.elect_one():
            mbarrier.init(smem.loaded, 1)
            fence.mbarrier_init()
            mbarrier.arrive_expect_tx(smem.loaded, smem.rows.nbytes)
            tma.load(smem.rows, source, (0, 0), smem.loaded)
        cuda.syncthreads()
        mbarrier.wait(smem.loaded, 0)
        tma.store(target, (0, 0), smem.rows)
        tma.commit_group()
        tma.wait_group(0)

    error = caught(kernel, MAPS, TARGET, threads=32, seed=seed)
    assert error.kind == "data-race"
    assert source_line(error).startswith("tma.store(")


@pytest.mark.parametrize("seed", SEEDS)
def test_an_initialisation_by_a_whole_warp(seed):
    def kernel():
        smem = SHARED.open()
        mbarrier.init(smem.loaded, 1)
        fence.mbarrier_init()
        cuda.syncthreads()

    error = caught(kernel, threads=32, seed=seed)
    assert source_line(error) == "mbarrier.init(smem.loaded, 1)"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_product_by_half_a_warp_group(seed):
    def kernel():
        smem = SHARED.open()
        acc = wgmma.zeros(float32, 64)
        if warp.warp_index() < 2:
            wgmma.fence()
            acc = wgmma.mma(smem.rows.part(64, 16, 0, 0), smem.rows.part(64, 16, 0, 0).T, acc)

    error = caught(kernel, threads=128, seed=seed)
    assert isinstance(error, DivergenceError) and source_line(error) == "wgmma.fence()"
    assert "executed by part of warp group 0" in str(error)


@pytest.mark.parametrize("seed", SEEDS)
def test_registers_of_one_warp(seed):
    def kernel():
        if warp.warp_index() == 0:
            warp.setmaxnreg_dec(40)

    error = caught(kernel, threads=128, seed=seed)
    assert error.kind == "divergent-collective" and source_line(error) == "warp.setmaxnreg_dec(40)"


@pytest.mark.parametrize("seed", SEEDS)
def test_an_election_in_a_branch(seed):
    roles = Roles(consumers=warp_groups(1), producer=warps(1))

    def kernel(out):
        if roles.producer.here() and cuda.threadIdx.x % 32 < 16 and roles.producer.elected():
            out[0] = 1

    error = caught(kernel, np.zeros(1), threads=roles.threads, seed=seed)
    assert error.kind == "divergent-collective"
    assert "roles.producer.elected()" in str(error)


# Of a Pipeline -------------------------------------------------------------------------------------------------------

TEAM = Roles(consumers=warp_groups(1), producer=warps(1))
RING = SharedLayout(pipe=Pipeline(2, TEAM.producer, TEAM.consumers, a=tile("float16", (64, 64))))


def team(body):
    """A kernel that begins as it must, and goes on with a cursor."""

    @cuda.jit(device=True)
    def rest(pipe):
        body(pipe)

    def kernel():
        smem = RING.open()
        if TEAM.producer.here() and TEAM.producer.elected():
            smem.pipe.init()
        cuda.syncthreads()
        rest(smem.pipe.open())

    return kernel


def acquire(pipe):
    if TEAM.consumers.here():
        pipe.producer_acquire()


def wait(pipe):
    if TEAM.producer.here():
        pipe.consumer_wait()


def fill_up(pipe):
    if TEAM.consumers.here():
        pipe.producer_advance()


def drain(pipe):
    if TEAM.consumers.here():
        pipe.producer_drain()


def skip(pipe):
    if TEAM.producer.here():
        pipe.consumer_advance()


def release(pipe):
    if TEAM.producer.here():
        pipe.consumer_release()


def release_another(pipe):
    if TEAM.producer.here():
        pipe.release(1)


def test_a_cursor_opened_in_a_loop():
    """Compiled, it would be the one of the round before."""

    def kernel():
        smem = RING.open()
        for _ in range(2):
            smem.pipe.open()

    error = caught(kernel, threads=TEAM.threads, shared=RING)
    assert error.kind == "barrier-misuse"
    assert "Pipeline.open: once for a thread, not in a loop" in str(error)
    assert source_line(error) == "smem.pipe.open()"


def wait_for_nothing(pipe):
    if TEAM.consumers.here():
        pipe.consumer_wait()
    elif TEAM.producer.elected():
        pipe.producer_acquire()


def drain_what_is_kept(pipe):
    if TEAM.producer.here() and TEAM.producer.elected():
        pipe.producer_acquire()
        pipe.producer_advance()
        pipe.producer_drain()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            wait_for_nothing,
            "its producers acquire a stage, load all its tiles to full, and go on by producer_advance",
        ),
        (drain_what_is_kept, "its consumers give every stage back, the last one too"),
    ],
)
def test_a_deadlock_says_what_the_others_have_to_do(body, says):
    error = caught(team(cuda.jit(device=True)(body)), threads=TEAM.threads, shared=RING)
    assert says in str(error)


@pytest.mark.parametrize("method", ["consumer_advance", "consumer_release"])
def test_a_second_stage_is_not_kept(method):
    keep = cuda.jit(device=True)(lambda pipe: pipe.consumer_advance())
    again = {
        "consumer_advance": keep,
        "consumer_release": cuda.jit(device=True)(lambda pipe: pipe.consumer_release()),
    }[method]

    @cuda.jit(device=True)
    def twice(pipe):
        if TEAM.consumers.here():
            keep(pipe)
            again(pipe)

    error = caught(team(twice), threads=TEAM.threads, shared=RING)
    assert error.kind == "barrier-misuse"
    assert "a stage is kept already, and would be lost: consumer_release_previous() must come before" in str(error)


@pytest.mark.parametrize(
    ("body", "role"),
    [
        (acquire, "warps(1) from 4"),
        (fill_up, "warps(1) from 4"),
        (drain, "warps(1) from 4"),
        (wait, "warp_groups(1) from 0"),
        (release, "warp_groups(1) from 0"),
        (release_another, "warp_groups(1) from 0"),
        (skip, "warp_groups(1) from 0"),
    ],
)
def test_what_another_role_has_to_do(body, role):
    error = caught(team(cuda.jit(device=True)(body)), threads=TEAM.threads, shared=RING)
    assert error.kind == "wrong-role"
    assert f"{role}; the executing thread is none of them" in str(error)
    assert error.filename == __file__, str(error)
    assert source_line(error).startswith("pipe.")
