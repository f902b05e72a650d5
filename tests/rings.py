"""Small kernels, each with a `Pipeline` used in another way, and what they leave. CPU and GPU tests run them."""

import dataclasses
from collections.abc import Callable

import numpy as np
from numba import cuda, float32, uint32
from numba.cuda import types

from hopper_numba import Pipeline, Roles, SharedLayout, TensorMap, jit, tile, warp_groups, warps
from hopper_numba.intrinsics import barrier, cluster, fence, memory, tma, warp, wgmma
from hopper_numba.jit import HopperKernel

ROWS, COLUMNS = 8, 64
WORDS = ROWS * COLUMNS // 2
SMALL = tile("float16", (ROWS, COLUMNS))
LEFT, RIGHT = tile("float16", (64, COLUMNS)), tile("float16", (16, COLUMNS))
ITEMS = 3
"""How often the persistent kernel begins anew."""


@dataclasses.dataclass
class Ring:
    """A kernel and its data.

    Attributes
    ----------
    build : function
        Of the number of stages; gives the kernel, which takes tensor maps of `tiles`, `out` of uint32, and `count`.
    tiles : tuple of Tile
        Of each tensor map.
    shape : function
        Of the number of tiles along K: the shape of `out`.
    wanted : function
        Of the arrays and that number: what is in `out` after the launch.
    blocks : int
        Of one cluster.
    stages : tuple of int
    """

    build: Callable[[int], HopperKernel]
    tiles: tuple
    shape: Callable[[int], tuple[int, ...]]
    wanted: Callable[[list[np.ndarray], int], np.ndarray]
    blocks: int = 1
    stages: tuple[int, ...] = (1, 2, 3)

    @property
    def name(self) -> str:
        return self.build.__name__

    def arrays(self, count: int) -> list[np.ndarray]:
        """What is copied: small integers, all different in a tile as far as that goes."""
        random = np.random.default_rng(count)
        columns = COLUMNS * max(count, 1)
        return [random.integers(-4, 5, (one.rows * self.blocks, columns)).astype(np.float16) for one in self.tiles]

    def maps(self, arrays: list) -> list[TensorMap]:
        return [TensorMap(array, one) for array, one in zip(arrays, self.tiles, strict=True)]

    @property
    def signature(self) -> tuple:
        return *self.maps(self.arrays(1)), types.Array(types.uint32, len(self.shape(1)), "C"), types.int64


RINGS: list[Ring] = []


def ring(**properties):
    def add(build):
        RINGS.append(Ring(build, **properties))
        return build

    return add


def words_of(array, count):
    """The words of each tile along K, by tile, row and column."""
    tiles = array[:, : COLUMNS * count].reshape(len(array), count, COLUMNS)
    return np.ascontiguousarray(tiles.swapaxes(0, 1)).view(np.uint32)


@cuda.jit(device=True)
def word(one, i):
    """The i-th word of a tile of `SMALL`'s shape."""
    return memory.ld_shared_b32(one.address(i // (COLUMNS // 2), i % (COLUMNS // 2) * 2))


@cuda.jit(device=True)
def fill(pipe, source, count):
    """A producer's loop, over tiles of one operand; the cursor goes on where it was."""
    for k in range(count):
        pipe.producer_acquire()
        tma.load(pipe.a, source, (k * COLUMNS, 0), pipe.full)
        pipe.producer_advance()


@cuda.jit(device=True)
def spoil(tiles, stages):
    """What may be done where nobody reads any stage: write to it."""
    for stage in range(stages):
        memory.st_shared_b32(tiles[stage].address(0, 0), 0x77777777)
    fence.proxy_async_shared_cta()


@ring(
    tiles=(SMALL,),
    shape=lambda count: (count, WORDS),
    wanted=lambda arrays, count: words_of(arrays[0], count).reshape(count, WORDS),
)
def read_by_a_warp_group(stages):
    """Ordinary reads by a warp group, which meets before its one arrival."""
    roles = Roles(consumers=warp_groups(1), producer=warps(1))
    shared = SharedLayout(pipe=Pipeline(stages, roles.producer, roles.consumers, a=SMALL))

    @jit(threads=roles.threads, shared=shared)
    def kernel(source, out, count):
        smem = shared.open()
        if roles.producer.here() and roles.producer.elected():
            smem.pipe.init()
        cuda.syncthreads()
        pipe = smem.pipe.open()
        if roles.producer.here():
            if roles.producer.elected():
                fill(pipe, source, count)
        else:
            t = 32 * warp.warp_index() + warp.lane_index()
            for k in range(count):
                pipe.consumer_wait()
                out[k, t] = word(pipe.a, t)
                out[k, 128 + t] = word(pipe.a, 128 + t)
                barrier.sync(1, 128)
                pipe.consumer_release()

    return kernel


@ring(
    tiles=(SMALL,),
    shape=lambda count: (count, WORDS),
    wanted=lambda arrays, count: words_of(arrays[0], count).reshape(count, WORDS),
)
def read_by_warps(stages):
    """Ordinary reads by two warps, each thread of which arrives."""
    roles = Roles(consumers=warps(2), producer=warps(1))
    shared = SharedLayout(pipe=Pipeline(stages, roles.producer, roles.consumers, a=SMALL))

    @jit(threads=roles.threads, shared=shared)
    def kernel(source, out, count):
        smem = shared.open()
        if roles.producer.here() and roles.producer.elected():
            smem.pipe.init()
        cuda.syncthreads()
        pipe = smem.pipe.open()
        if roles.consumers.here():
            t = 32 * roles.consumers.index() + warp.lane_index()
            for k in range(count):
                pipe.consumer_wait()
                for i in range(WORDS // 64):
                    out[k, 64 * i + t] = word(pipe.a, 64 * i + t)
                pipe.consumer_release()
        elif roles.producer.elected():
            fill(pipe, source, count)

    return kernel


def sums(arrays, count):
    """The product, over all of K."""
    if count == 0:
        return np.zeros((64, 16), np.uint32)
    a, b = (array.astype(np.int64) for array in arrays)
    return (a @ b.T).astype(np.int32).view(np.uint32)


@cuda.jit(device=True)
def keep(row, column, low, high, out):
    out[row, column] = uint32(int(low))
    out[row, column + 1] = uint32(int(high))


@cuda.jit(device=True)
def keep_item(row, column, low, high, out, item):
    out[item, row, column] = uint32(int(low))
    out[item, row, column + 1] = uint32(int(high))


@ring(tiles=(LEFT, RIGHT), shape=lambda count: (64, 16), wanted=sums)
def multiplied_at_once(stages):
    """WGMMA, waited for before each release."""
    roles = Roles(consumers=warp_groups(1), producer=warps(1))
    shared = SharedLayout(pipe=Pipeline(stages, roles.producer, roles.consumers, a=LEFT, b=RIGHT))

    @jit(threads=roles.threads, shared=shared)
    def kernel(left, right, out, count):
        smem = shared.open()
        if roles.producer.here() and roles.producer.elected():
            smem.pipe.init()
        cuda.syncthreads()
        pipe = smem.pipe.open()
        if roles.producer.here():
            if roles.producer.elected():
                for k in range(count):
                    pipe.producer_acquire()
                    tma.load(pipe.a, left, (k * COLUMNS, 0), pipe.full)
                    tma.load(pipe.b, right, (k * COLUMNS, 0), pipe.full)
                    pipe.producer_advance()
        else:
            acc = wgmma.zeros(float32, 16)
            for _ in range(count):
                pipe.consumer_wait()
                wgmma.fence()
                for step in range(COLUMNS // 16):
                    acc = wgmma.mma(pipe.a.part(64, 16, 0, step), pipe.b.part(16, 16, 0, step).T, acc)
                wgmma.commit_group()
                acc = wgmma.wait_group(acc, 0)
                pipe.consumer_release()
            wgmma.for_each_pair(keep, acc, (out,))

    return kernel


@ring(
    tiles=(LEFT, RIGHT),
    shape=lambda count: (ITEMS, 64, 16),
    wanted=lambda arrays, count: np.stack([sums(arrays, count)] * ITEMS),
    stages=(2, 3, 4),
)
def multiplied_with_a_lag(stages):
    """WGMMA with a product always in flight: the stage before is given back. One loop after another."""
    roles = Roles(consumers=warp_groups(1), producer=warps(1))
    shared = SharedLayout(pipe=Pipeline(stages, roles.producer, roles.consumers, a=LEFT, b=RIGHT))

    @jit(threads=roles.threads, shared=shared)
    def kernel(left, right, out, count):
        smem = shared.open()
        if roles.producer.here() and roles.producer.elected():
            smem.pipe.init()
        cuda.syncthreads()
        pipe = smem.pipe.open()
        if roles.producer.here():
            if roles.producer.elected():
                for _ in range(ITEMS):
                    for k in range(count):
                        pipe.producer_acquire()
                        tma.load(pipe.a, left, (k * COLUMNS, 0), pipe.full)
                        tma.load(pipe.b, right, (k * COLUMNS, 0), pipe.full)
                        pipe.producer_advance()
                    pipe.producer_drain()
                    spoil(smem.pipe.a, stages)
        else:
            for item in range(ITEMS):
                acc = wgmma.zeros(float32, 16)
                for _ in range(count):
                    pipe.consumer_wait()
                    wgmma.fence()
                    for step in range(COLUMNS // 16):
                        acc = wgmma.mma(pipe.a.part(64, 16, 0, step), pipe.b.part(16, 16, 0, step).T, acc)
                    wgmma.commit_group()
                    acc = wgmma.wait_group(acc, 1)
                    pipe.consumer_release_previous()
                    pipe.consumer_advance()
                acc = wgmma.wait_group(acc, 0)
                pipe.consumer_release_previous()
                wgmma.for_each_pair(keep_item, acc, (out, item))

    return kernel


@ring(
    tiles=(SMALL,),
    shape=lambda count: (ITEMS, count, WORDS),
    wanted=lambda arrays, count: np.broadcast_to(
        words_of(arrays[0], count).reshape(count, WORDS), (ITEMS, count, WORDS)
    ),
)
def persistent(stages):
    """One loop after another through the same ring; in between the producer waits until it is empty."""
    roles = Roles(consumers=warps(2), producer=warps(1))
    shared = SharedLayout(pipe=Pipeline(stages, roles.producer, roles.consumers, a=SMALL))

    @jit(threads=roles.threads, shared=shared)
    def kernel(source, out, count):
        smem = shared.open()
        if roles.producer.here() and roles.producer.elected():
            smem.pipe.init()
        cuda.syncthreads()
        pipe = smem.pipe.open()
        if roles.producer.here():
            if roles.producer.elected():
                for _ in range(ITEMS):
                    fill(pipe, source, count)
                    pipe.producer_drain()
                    spoil(smem.pipe.a, stages)
        else:
            t = 32 * roles.consumers.index() + warp.lane_index()
            for item in range(ITEMS):
                for k in range(count):
                    pipe.consumer_wait()
                    for i in range(WORDS // 64):
                        out[item, k, 64 * i + t] = word(pipe.a, 64 * i + t)
                    pipe.consumer_release()

    return kernel


@ring(
    tiles=(SMALL, SMALL),
    shape=lambda count: (2, count, WORDS),
    wanted=lambda arrays, count: np.stack([words_of(array, count).reshape(count, WORDS) for array in arrays]),
)
def two_pipelines(stages):
    """Two rings of different lengths, each with a producer of its own."""
    roles = Roles(consumers=warps(2), first=warps(1), second=warps(1))
    shared = SharedLayout(
        one=Pipeline(stages, roles.first, roles.consumers, a=SMALL),
        other=Pipeline(stages + 1, roles.second, roles.consumers, a=SMALL),
    )

    @jit(threads=roles.threads, shared=shared)
    def kernel(first, second, out, count):
        smem = shared.open()
        if roles.first.here():
            if roles.first.elected():
                smem.one.init()
        elif roles.second.here() and roles.second.elected():
            smem.other.init()
        cuda.syncthreads()
        one, other = smem.one.open(), smem.other.open()
        if roles.first.here():
            if roles.first.elected():
                fill(one, first, count)
        elif roles.second.here():
            if roles.second.elected():
                fill(other, second, count)
        else:
            t = 32 * roles.consumers.index() + warp.lane_index()
            for k in range(count):
                one.consumer_wait()
                other.consumer_wait()
                for i in range(WORDS // 64):
                    out[0, k, 64 * i + t] = word(one.a, 64 * i + t)
                    out[1, k, 64 * i + t] = word(other.a, 64 * i + t)
                one.consumer_release()
                other.consumer_release()

    return kernel


@ring(
    tiles=(SMALL, SMALL),
    shape=lambda count: (2, count, WORDS),
    wanted=lambda arrays, count: np.stack([words_of(array, count).reshape(count, WORDS) for array in arrays]),
)
def two_producers(stages):
    """Two warps fill a stage, a tile each."""
    roles = Roles(consumers=warps(2), producers=warps(2))
    shared = SharedLayout(pipe=Pipeline(stages, roles.producers, roles.consumers, a=SMALL, b=SMALL))

    @jit(threads=roles.threads, shared=shared)
    def kernel(first, second, out, count):
        smem = shared.open()
        if roles.producers.here() and roles.producers.index() == 0 and roles.producers.elected():
            smem.pipe.init()
        cuda.syncthreads()
        pipe = smem.pipe.open()
        if roles.producers.here():
            if roles.producers.elected():
                for k in range(count):
                    pipe.producer_acquire()
                    if roles.producers.index() == 0:
                        tma.load(pipe.a, first, (k * COLUMNS, 0), pipe.full)
                    else:
                        tma.load(pipe.b, second, (k * COLUMNS, 0), pipe.full)
                    pipe.producer_advance()
        else:
            t = 32 * roles.consumers.index() + warp.lane_index()
            for k in range(count):
                pipe.consumer_wait()
                for i in range(WORDS // 64):
                    out[0, k, 64 * i + t] = word(pipe.a, 64 * i + t)
                    out[1, k, 64 * i + t] = word(pipe.b, 64 * i + t)
                pipe.consumer_release()

    return kernel


def both_and_own(arrays, count):
    """By block and tile: the words of both halves of the shared tile, then of the block's own one."""
    halves = words_of(arrays[0], count).reshape(count, 2 * WORDS)
    own = words_of(arrays[1], count).reshape(count, 2, WORDS)
    return np.stack([np.concatenate([halves, own[:, rank]], axis=1) for rank in range(2)])


@ring(tiles=(SMALL, SMALL), shape=lambda count: (2, count, 3 * WORDS), wanted=both_and_own, blocks=2)
def shared_by_a_cluster(stages):
    """Each of two blocks loads half of a tile for both of them, and a tile of its own."""
    roles = Roles(consumers=warps(2), producer=warps(1))
    halves = tile("float16", (2, ROWS, COLUMNS))
    shared = SharedLayout(pipe=Pipeline(stages, roles.producer, roles.consumers, cluster=2, b=halves, a=SMALL))

    @jit(threads=roles.threads, shared=shared, cluster=2)
    def kernel(first, second, out, count):
        smem = shared.open()
        rank = cluster.rank()
        if roles.producer.here() and roles.producer.elected():
            smem.pipe.init()
        cluster.sync()  # nobody loads for a block whose barriers are not there yet
        pipe = smem.pipe.open()
        if roles.producer.here():
            if roles.producer.elected():
                for k in range(count):
                    pipe.producer_acquire()
                    tma.load(pipe.b[rank], first, (k * COLUMNS, rank * ROWS), pipe.full, multicast=3)
                    tma.load(pipe.a, second, (k * COLUMNS, rank * ROWS), pipe.full)
                    pipe.producer_advance()
                pipe.producer_drain()
        else:
            t = 32 * roles.consumers.index() + warp.lane_index()
            for k in range(count):
                pipe.consumer_wait()
                for i in range(WORDS // 64):
                    out[rank, k, 64 * i + t] = word(pipe.b[0], 64 * i + t)
                    out[rank, k, WORDS + 64 * i + t] = word(pipe.b[1], 64 * i + t)
                    out[rank, k, 2 * WORDS + 64 * i + t] = word(pipe.a, 64 * i + t)
                pipe.consumer_release()

    return kernel
