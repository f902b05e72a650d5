"""Every placement of the candidate fences, waits and barriers, against what the PTX manual says of it.

Three roles: who makes the first access, who makes or issues the second one, and a bystander. Time has three intervals,
0 behind the first access, 1, and 2 before the second one; between them lie two meetings of all threads, each there or
not. In each interval each role may execute the fence, or the wait, that the pattern is about: at most once.

The second access sleeps before, which orders nothing, so that it always comes second.

What the manual says ("Memory Consistency Model"): an access is before another one in causality order if program order
and synchronisation lead from it to the other. If one of the two acts through another proxy, a proxy fence has to lie on
the way. For fence.proxy.async the manual has no rule of derivation; its text lets it take effect in the thread that
executes it, and wherever it is used there the threads that made the first access execute it, before they synchronise.
So that is right, a fence elsewhere on the way is undecided, and one that is not on the way is none.
"""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from findings import findings, outcome
from numba import cuda, float32

from hopper_numba.intrinsics import cluster, fence, mbarrier, timer, tma, wgmma
from hopper_numba.shared import SharedLayout, barriers, tile
from hopper_numba.tensor_map import TensorMap

SEEDS = (0, 1)
NEVER = -1
INTERVALS = (NEVER, 0, 1, 2)
WARP_GROUP = 128

WORDS = SharedLayout(tile=tile("uint32", (1, 4), swizzle=None), loaded=barriers(), met=barriers(2))
OPERAND = SharedLayout(tile=tile("float16", (8, 16), swizzle=32), loaded=barriers(), met=barriers(2))


class Case(NamedTuple):
    """A placement.

    Attributes
    ----------
    by_second, by_first, by_other : int
        The interval in which the role fences, or waits.
    meets : tuple of bool
        Which of the two meetings are there.
    by_mbarrier : bool
        Whether they are an arrival and a wait by each thread on an mbarrier, or cuda.syncthreads.
    act : str
        Which fence, or wait.
    """

    by_second: int
    by_first: int
    by_other: int
    meets: tuple
    by_mbarrier: bool
    act: str

    def ordered(self, begin, end):
        """Whether what one thread does in an interval is before what another does in a later one."""
        return any(self.meets[begin:end])

    @property
    def first_acted(self):
        """Whether whoever made the first access acts behind it, and before it synchronises with the second one."""
        return self.by_first != NEVER and self.ordered(self.by_first, 2)

    @property
    def acted_on_the_way(self):
        """Whether another role acts on the way from the first access to the second one."""
        other = self.by_other != NEVER and self.ordered(0, self.by_other) and self.ordered(self.by_other, 2)
        return other or (self.by_second != NEVER and self.ordered(0, self.by_second))


def cases(*acts):
    meets = tuple(itertools.product((False, True), repeat=2))
    return [Case(*case) for case in itertools.product(INTERVALS, INTERVALS, INTERVALS, meets, (False, True), acts)]


def few(*acts):
    """Those of `cases` that differ for WGMMA: 130 threads take long to meet."""
    return [case for case in cases(*acts) if not case.by_mbarrier and case.by_other in (NEVER, 1)]


def between(case, act, seconds):
    """A device function: what happens from the first access to the second one, by threads 0 to `seconds` - 1.

    The next thread makes the first access, the one behind that is the bystander.
    """
    places, meets, by_mbarrier = case[:3], case.meets, case.by_mbarrier

    @cuda.jit(device=True)
    def act_in(interval, smem):
        t = cuda.threadIdx.x
        role = 0 if t < seconds else t - seconds + 1
        if places[role] == interval:
            act(smem)

    @cuda.jit(device=True)
    def meet(i, smem):
        if meets[i]:
            if by_mbarrier:
                mbarrier.arrive(smem.met[i], 1)
                mbarrier.wait(smem.met[i], 0)
            else:
                cuda.syncthreads()

    @cuda.jit(device=True)
    def steps(smem):
        act_in(0, smem)
        meet(0, smem)
        act_in(1, smem)
        meet(1, smem)
        act_in(2, smem)
        timer.nanosleep(1000)

    return steps


@cuda.jit(device=True)
def begin(smem, fill):
    """Initialise the barriers and, if asked to, the tile, by the last thread."""
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    if t == threads - 1:
        mbarrier.init(smem.loaded, 1)
        mbarrier.init(smem.met[0], threads)
        mbarrier.init(smem.met[1], threads)
        fence.mbarrier_init()
        if fill:
            write(smem.tile)
            fence.proxy_async_shared_cta()
    cuda.syncthreads()


@cuda.jit(device=True)
def write(tile):
    """Write all of a tile of rows of 16 or, if there are several, 32 bytes."""
    for chunk in range(tile.nbytes // 16):
        cluster.st_shared_v4_b32(tile.address(chunk // 2, chunk % 2 * 8), (0, 0, 0, 0))


@cuda.jit(device=True)
def load(smem, source):
    mbarrier.arrive_expect_tx(smem.loaded, smem.tile.nbytes)
    tma.load(smem.tile, source, (0, 0), smem.loaded)


@cuda.jit(device=True)
def multiply(b):
    a = wgmma.fragment("float16", (0, 0, 0, 0))
    acc = wgmma.zeros(float32, 8)
    wgmma.fence()
    acc = wgmma.mma(a, b.T, acc)
    wgmma.commit_group()
    wgmma.wait_group((acc, a), 0)


def check(build, answer, shared, seconds, cases, seed, **launch):
    """Run all cases, and compare what is found with the answer."""
    array = np.zeros((8, 16), np.float16) if shared is OPERAND else np.zeros((1, 4), np.uint32)
    tensor_map = TensorMap(array, shared.members["tile"])
    wrong = {}
    for case in cases:
        found = findings(build(case), (tensor_map, array), shared, seconds + 2, seed=seed, **launch)
        if outcome(found) != answer(case):
            wrong[case] = outcome(found), answer(case)
    assert not wrong, "\n".join(f"{case}: found {one}; should be {two}" for case, (one, two) in wrong.items())


def fencing(case):
    """The fence of a case as a device function."""
    execute = getattr(fence, case.act)

    @cuda.jit(device=True)
    def act(smem):
        execute()

    return act


# A generic write, then an asynchronous read ---------------------------------------------------------------------------


def write_then_async_read(case, right):
    """Synchronised and fenced by the writer before: ok. Fenced behind, on the way: undecided. Else an error.

    Not synchronised at all is a race whatever is fenced; the fence is what is named where the writer has none.
    """
    if not case.ordered(0, 2):
        return "data-race" if right and case.by_first != NEVER else "missing-proxy-fence"
    if right and case.first_acted:
        return "ok"
    if right and case.acted_on_the_way:
        return "undecided"
    return "missing-proxy-fence"


def of_shared(case):
    return write_then_async_read(case, case.act != "proxy_async_global")


def of_global(case):
    return write_then_async_read(case, case.act != "proxy_async_shared_cta")


def store_written(case):
    steps = between(case, fencing(case), 1)

    def kernel(target, _):
        smem, t = WORDS.open(), cuda.threadIdx.x
        begin(smem, False)
        if t == 1:
            write(smem.tile)
        steps(smem)
        if t == 0:
            tma.store(target, (0, 0), smem.tile)
            tma.commit_group()
            tma.wait_group(0)

    return kernel


def multiply_written(case):
    steps = between(case, fencing(case), WARP_GROUP)

    def kernel(*_):
        smem, t = OPERAND.open(), cuda.threadIdx.x
        begin(smem, False)
        if t == WARP_GROUP:
            write(smem.tile)
        steps(smem)
        if t < WARP_GROUP:
            multiply(smem.tile)

    return kernel


def load_written(case):
    steps = between(case, fencing(case), 1)

    def kernel(source, words):
        smem, t = WORDS.open(), cuda.threadIdx.x
        begin(smem, False)
        if t == 1:
            words[0, 2] = 1
        steps(smem)
        if t == 0:
            load(smem, source)
            mbarrier.wait(smem.loaded, 0)

    return kernel


@pytest.mark.parametrize("seed", SEEDS)
def test_write_then_tma_store(seed):
    check(store_written, of_shared, WORDS, 1, cases("proxy_async_shared_cta", "proxy_async_global"), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_write_then_wgmma(seed):
    check(multiply_written, of_shared, OPERAND, WARP_GROUP, few("proxy_async_shared_cta", "proxy_async_global"), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_write_of_global_memory_then_tma_load(seed):
    check(load_written, of_global, WORDS, 1, cases("proxy_async_global", "proxy_async_shared_cta"), seed)


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("proxy_async", "shared and global"),
        ("proxy_async_shared_cta", "shared"),
        ("proxy_async_shared_cluster", "shared"),
        ("proxy_async_global", "global"),
        ("acq_rel_gpu", "neither: it is between threads"),
        ("mbarrier_init", "neither: it is of mbarriers"),
    ],
)
def test_which_fence_is_of_which_memory(name, of):
    good = [Case(NEVER, 0, NEVER, (True, False), False, name)]
    for build, memory, shared, seconds in (
        (store_written, "shared", WORDS, 1),
        (multiply_written, "shared", OPERAND, WARP_GROUP),
        (load_written, "global", WORDS, 1),
    ):
        check(build, lambda case, memory=memory: write_then_async_read(case, memory in of), shared, seconds, good, 0)


# A TMA load, then a read ----------------------------------------------------------------------------------------------


def load_then_read(case):
    """A wait on the barrier of the load, then synchronisation with whoever reads: ok, whoever waits.

    The wait acquires what the copy wrote ("Completion mechanisms for asynchronous copy operations"), and from there on
    it is ordinary causality. A fence has no part in it: the async proxy's writes are made visible by the wait.
    """
    waited = case.by_second != NEVER
    for place in (case.by_first, case.by_other):
        waited = waited or (place != NEVER and case.ordered(place, 2))
    return "ok" if waited and case.act == "wait" else "read-before-arrival"


def reading(case, seconds):
    """What roles do in place of the fence: wait, or fence, which is no substitute."""
    if case.act != "wait":
        return between(case, fencing(case), seconds)

    @cuda.jit(device=True)
    def wait(smem):
        mbarrier.wait(smem.loaded, 0)

    return between(case, wait, seconds)


@pytest.mark.parametrize("seed", SEEDS)
def test_tma_load_then_generic_read(seed):
    def build(case):
        steps = reading(case, 1)

        def kernel(source, _):
            smem, t = WORDS.open(), cuda.threadIdx.x
            begin(smem, False)
            if t == 1:
                load(smem, source)
            steps(smem)
            if t == 0:
                cluster.ld_shared_v4_b32(smem.tile.address(0, 0))
            mbarrier.wait(smem.loaded, 0)

        return kernel

    check(build, load_then_read, WORDS, 1, cases("wait", "proxy_async"), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_tma_load_then_wgmma(seed):
    def build(case):
        steps = reading(case, WARP_GROUP)

        def kernel(source, _):
            smem, t = OPERAND.open(), cuda.threadIdx.x
            begin(smem, False)
            if t == WARP_GROUP:
                load(smem, source)
            steps(smem)
            if t < WARP_GROUP:
                multiply(smem.tile)
            mbarrier.wait(smem.loaded, 0)

        return kernel

    check(build, load_then_read, OPERAND, WARP_GROUP, few("wait"), seed)


# A read, then a TMA load that overwrites -----------------------------------------------------------------------------


def generic_read_then_refill(case):
    """Synchronised and fenced by the reader before: ok. Not synchronised: an error.

    Synchronised alone, or fenced elsewhere: undecided. The two accesses are of different proxies, so causality order
    wants a fence; but a load returns its value before its thread arrives, and the manual's own pipelines have none.
    """
    if not case.ordered(0, 2):
        return "overwrite-while-read"
    return "ok" if case.act == "proxy_async_shared_cta" and case.first_acted else "undecided"


@pytest.mark.parametrize("seed", SEEDS)
def test_generic_read_then_tma_refill(seed):
    def build(case):
        steps = between(case, fencing(case), 1)

        def kernel(source, _):
            smem, t = WORDS.open(), cuda.threadIdx.x
            begin(smem, True)
            if t == 1:
                cluster.ld_shared_v4_b32(smem.tile.address(0, 0))
            steps(smem)
            if t == 0:
                load(smem, source)
                mbarrier.wait(smem.loaded, 0)

        return kernel

    check(build, generic_read_then_refill, WORDS, 1, cases("proxy_async_shared_cta", "proxy_async_global"), seed)


class Release(NamedTuple):
    """How a warp group gives back what WGMMA read.

    Attributes
    ----------
    waits : int
        In which interval it waits.
    groups : int
        How many groups the wait leaves in flight, of the one that there is.
    by : str
        What stands between the intervals.
    fences : bool
        Whether it fences the proxies before, too.
    """

    waits: int
    groups: int
    by: str
    fences: bool


ARRIVALS = ("nothing", "syncthreads", "all arrive", "one arrives", "one arrives relaxed")


def wgmma_then_refill(case):
    """The wait, for all groups, by the warp group itself, then synchronisation: ok.

    wgmma.wait_group tells the threads that execute it that the operands have been read ("Asynchronous operations"); one
    of them may pass that on. Both accesses are of the async proxy, so a fence adds nothing. A relaxed arrival says that
    the wait is over, but makes no causality order: undecided.
    """
    if case.by == "nothing" or case.waits != 0 or case.groups:
        return "overwrite-while-read"
    return "undecided" if case.by == "one arrives relaxed" else "ok"


@pytest.mark.parametrize("seed", SEEDS)
def test_wgmma_then_tma_refill(seed):
    def build(case):
        waits, groups, by, fences = case

        def kernel(source, _):
            smem, t = OPERAND.open(), cuda.threadIdx.x
            begin(smem, True)
            if t == WARP_GROUP + 1:
                mbarrier.inval(smem.met[0])
                mbarrier.init(smem.met[0], WARP_GROUP if by == "all arrive" else 1)
            cuda.syncthreads()
            if t < WARP_GROUP:
                a = wgmma.fragment("float16", (0, 0, 0, 0))
                acc = wgmma.zeros(float32, 8)
                wgmma.fence()
                acc = wgmma.mma(a, smem.tile.T, acc)
                wgmma.commit_group()
                if waits == 0:
                    acc, a = wgmma.wait_group((acc, a), groups)
                if fences:
                    fence.proxy_async()
                if by == "all arrive" or (by == "one arrives" and t == 0):
                    mbarrier.arrive(smem.met[0], 1)
                if by == "one arrives relaxed" and t == 0:
                    mbarrier.arrive_remote_relaxed(smem.met[0], 1)
            if by == "syncthreads":
                cuda.syncthreads()
            if t < WARP_GROUP:
                if waits == 1:
                    acc, a = wgmma.wait_group((acc, a), groups)
                timer.nanosleep(1000)
                wgmma.wait_group((acc, a), 0)
            if t == WARP_GROUP:
                if by.endswith("arrive") or by.startswith("one"):
                    mbarrier.wait(smem.met[0], 0)
                timer.nanosleep(500)
                load(smem, source)
                mbarrier.wait(smem.loaded, 0)

        return kernel

    table = [Release(*case) for case in itertools.product((NEVER, 0, 1), (0, 1), ARRIVALS, (False, True))]
    check(build, wgmma_then_refill, OPERAND, WARP_GROUP, table, seed)


# The initialisation of a barrier, then its use ------------------------------------------------------------------------


def init_then_tma(case):
    """As a generic write that the async proxy reads, but that fence.mbarrier_init by the initialiser does too.

    That fence is of "the prior mbarrier.init executed by the current thread": by another thread it does nothing.
    """
    proxies = case.act == "proxy_async_shared_cta"
    if case.ordered(0, 2) and case.first_acted and (proxies or case.act == "mbarrier_init"):
        return "ok"
    if case.ordered(0, 2) and proxies and case.acted_on_the_way:
        return "undecided"
    return "phase-overrun"


@pytest.mark.parametrize("seed", SEEDS)
def test_init_then_tma_of_the_block(seed):
    def build(case):
        steps = between(case, fencing(case), 1)

        def kernel(source, _):
            smem, t = WORDS.open(), cuda.threadIdx.x
            begin(smem, False)
            if t == 1:
                mbarrier.inval(smem.loaded)
                mbarrier.init(smem.loaded, 1)
            steps(smem)
            if t == 0:
                load(smem, source)
                mbarrier.wait(smem.loaded, 0)

        return kernel

    acts = "mbarrier_init", "proxy_async_shared_cta", "proxy_async_global"
    check(build, init_then_tma, WORDS, 1, cases(*acts), seed)


class Peer(NamedTuple):
    """How a block makes its barrier known to another one.

    Attributes
    ----------
    fences : str
        Which fence.
    by : str
        Who executes it: of the initialiser's block ``initialiser`` or ``other``, before they arrive; ``peer``, behind.
    meets : str
        How they arrive at the barrier of the cluster, if they do.
    uses : str
        By an arrival of its own, or as the barrier of its TMA load.
    """

    fences: str
    by: str
    meets: str
    uses: str


def init_then_peer(case):
    """fence.mbarrier_init by the initialiser, then any arrival at the cluster's barrier: ok, as the manual has it.

    Without it a releasing arrival, or a relaxed one behind fence.acq_rel, orders the initialisation for ordinary use by
    base causality; but the manual has no use of a barrier by another block without the fence: undecided. The async
    proxy, which counts the bytes of a load, is not reached so: an error, as is any use that nothing orders.
    """
    fenced = case.by == "initialiser"
    if case.meets != "nothing" and case.fences == "mbarrier_init" and fenced:
        return "ok"
    released = case.meets == "release" or (case.meets == "relaxed" and case.fences == "acq_rel_cluster" and fenced)
    return "undecided" if released and case.uses == "arrival" else "phase-overrun"


@pytest.mark.parametrize("seed", SEEDS)
def test_init_then_use_by_another_block(seed):
    def build(case):
        execute = getattr(fence, case.fences)
        _, by, meets, uses = case

        def kernel(source, _):
            smem = WORDS.open()
            is_peer, is_first = cluster.rank() == 1, cuda.threadIdx.x == 0
            if not is_peer and is_first:
                mbarrier.init(smem.loaded, 2 if uses == "arrival" else 1)
            if not is_peer and by == ("initialiser" if is_first else "other"):
                execute()
            if meets == "relaxed":
                cluster.arrive_relaxed_unaligned()
                cluster.wait_unaligned()
            elif meets == "release":
                cluster.sync_unaligned()
            if is_peer and is_first:
                if by == "peer":
                    execute()
                timer.nanosleep(1000)
                there = cluster.map_shared(smem.loaded, 0)
                if uses == "arrival":
                    mbarrier.arrive_remote(there, 1)
                else:
                    tma.load(cluster.map_shared(smem.tile, 0), source, (0, 0), there)
            if not is_peer and is_first:
                mbarrier.arrive_expect_tx(smem.loaded, 0 if uses == "arrival" else smem.tile.nbytes)
                mbarrier.wait_cluster(smem.loaded, 0)
            cluster.sync_unaligned()

        return kernel

    table = itertools.product(
        ("mbarrier_init", "acq_rel_cluster"),
        ("initialiser", "other", "peer", "nobody"),
        ("nothing", "relaxed", "release"),
        ("arrival", "load"),
    )
    check(build, init_then_peer, WORDS, 0, [Peer(*case) for case in table], seed, grid=2, cluster=2)
