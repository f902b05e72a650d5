"""`Pipeline`: what is refused, any number of tiles and stages in every way of use, and that each bug is reported."""

import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from mutants.examine import COUNTS, GROUPS, ORDER
from mutants.mutate import mutants_of
from numba import cuda, float32
from numba.cuda import types
from rings import COLUMNS, LEFT, RIGHT, RINGS, SMALL, WORDS, fill, keep, word

from hopper_numba import (
    Pipeline,
    Roles,
    SharedLayout,
    TensorMap,
    barriers,
    interpret,
    jit,
    threads,
    tile,
    warp_groups,
    warps,
)
from hopper_numba.diagnosis import KernelTypeError
from hopper_numba.fingerprint import fingerprint
from hopper_numba.interpreter import HazardError
from hopper_numba.intrinsics import memory, tma, warp, wgmma
from hopper_numba.intrinsics.tiles import Barriers, Tile
from hopper_numba.pipeline import NAMES
from hopper_numba.roles import Role

ROLES = Roles(consumers=warp_groups(2), producer=warps(1))
PRODUCER, CONSUMERS = ROLES.producer, ROLES.consumers
THREE = Roles(consumers=warps(1), producers=warps(3))


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"),
    [
        ((0, PRODUCER, CONSUMERS), {}, ValueError, "Pipeline: stages must be 1 to 256; got 0"),
        ((257, PRODUCER, CONSUMERS), {}, ValueError, "Pipeline: stages must be 1 to 256; got 257"),
        ((2.0, PRODUCER, CONSUMERS), {}, ValueError, "Pipeline: stages must be 1 to 256; got 2.0"),
        ((True, PRODUCER, CONSUMERS), {}, ValueError, "Pipeline: stages must be 1 to 256; got True"),
        ((2, PRODUCER, CONSUMERS), {"cluster": 0}, ValueError, "Pipeline: cluster must be 1 to 8; got 0"),
        ((2, PRODUCER, CONSUMERS), {"cluster": (2, 1)}, ValueError, "Pipeline: cluster must be 1 to 8; got (2, 1)"),
        ((2, 1, CONSUMERS), {}, TypeError, "Pipeline: producers must be a role of the block's Roles; got 1"),
        (
            (2, PRODUCER, ROLES),
            {},
            TypeError,
            "Pipeline: consumers must be a role of the block's Roles; got Roles(cons",
        ),
        (
            (2, PRODUCER, CONSUMERS),
            {"a": None},
            TypeError,
            "Pipeline: a must be a tile(…) of two dimensions or more; got",
        ),
        ((2, PRODUCER, CONSUMERS), {"a": barriers(2)}, TypeError, "of two dimensions or more; got Barriers(count=2)"),
        ((2, PRODUCER, CONSUMERS), {"a": tile("float16", (64,), None)}, TypeError, "two dimensions or more; got Tile("),
        ((2, PRODUCER, CONSUMERS), {"base": SMALL}, ValueError, "SharedLayout: 'base' cannot be a member's name"),
        ((2, PRODUCER, CONSUMERS), {"_a": SMALL}, ValueError, "SharedLayout: '_a' cannot be a member's name"),
        (
            (2, Roles(one=warps(1)).one, CONSUMERS),
            {},
            ValueError,
            "Pipeline: producers and consumers must be roles of one Roles; "
            "got warps(1) from 0 and warp_groups(2) from 0, which share threads",
        ),
        ((2, threads(40), CONSUMERS), {}, TypeError, "Pipeline: producers must be a role of the block's Roles; got"),
        ((2, PRODUCER, CONSUMERS), {"a": SMALL.T}, ValueError, "Pipeline: a must be a whole tile as it lies in memory"),
        (
            (2, THREE.producers, THREE.consumers),
            {"a": SMALL},
            ValueError,
            "Pipeline: 3 producers cannot share the 1024 bytes of a stage evenly",
        ),
        (
            (4, PRODUCER, CONSUMERS),
            {"a": tile("float16", (256, 64)), "b": tile("float16", (256, 64))},
            ValueError,
            "Pipeline: shared memory of a block is at most 232448 bytes; "
            "got 4 stages x (a 32768 + b 32768 + barriers 16) = 262208",
        ),
    ],
)
def test_refused(arguments, options, error, says):
    tiles = {} if options.keys() - {"cluster"} else {"a": SMALL}
    with pytest.raises(error, match=re.escape(says)):
        Pipeline(*arguments, **options, **tiles)


@pytest.mark.parametrize("base", [Pipeline, Role, Roles, SharedLayout, Tile, Barriers])
def test_no_subclass_is_compiled_as_its_base(base):
    with pytest.raises(TypeError, match=f"Mine: {base.__name__} takes no subclasses"):
        type("Mine", (base,), {})


def test_a_stage_without_tiles_is_refused():
    with pytest.raises(ValueError, match="Pipeline: name at least one tile of a stage"):
        Pipeline(2, PRODUCER, CONSUMERS)


@pytest.mark.parametrize("name", sorted(NAMES - {"stages", "producers", "consumers", "cluster"}))
def test_names_that_a_cursor_has_itself_are_refused(name):
    with pytest.raises(ValueError, match=f"Pipeline: '{name}' cannot be a tile's name: advance, "):
        Pipeline(2, PRODUCER, CONSUMERS, **{name: SMALL})


def test_what_does_not_fit_beside_a_pipeline_is_refused_with_the_sum():
    pipeline = Pipeline(3, PRODUCER, CONSUMERS, a=tile("float16", (256, 64)), b=tile("float16", (256, 64)))
    shared = SharedLayout(pipe=pipeline, c=tile("float16", (256, 128)))
    with pytest.raises(ValueError, match=r"at most 232448 bytes; got pipe 196656 \+ c 65536 = "):
        jit(lambda: None, threads=ROLES.threads, shared=shared)


# What it is ----------------------------------------------------------------------------------------------------------


def test_bytes_arrivals_and_places():
    halves = tile("float16", (2, 64, 64))
    roles = Roles(consumers=warp_groups(2), producers=warps(2))
    pipeline = Pipeline(3, roles.producers, roles.consumers, cluster=2, a=halves, b=SMALL)
    assert (pipeline.stage_nbytes, pipeline.share) == (2 * 8192 + 1024, 8192 + 512)
    assert pipeline.arrivals == 4  # two warp groups in each of two blocks
    assert Pipeline(1, THREE.consumers, THREE.producers, a=SMALL).arrivals == 96
    assert Pipeline(1, CONSUMERS, CONSUMERS, a=SMALL).arrivals == 2  # who loads may read
    assert pipeline.tiles == {"a": halves, "b": SMALL}
    assert pipeline.members["a"].shape == (3, 2, 64, 64)
    assert pipeline.offsets["full"] == 3 * pipeline.stage_nbytes
    assert pipeline.nbytes == 3 * (pipeline.stage_nbytes + 16)


def test_barriers_lie_behind_all_tiles():
    pipeline = Pipeline(2, PRODUCER, CONSUMERS, a=SMALL)
    shared = SharedLayout(last=barriers(), pipe=pipeline, c=SMALL)
    assert shared.offsets == {"c": 0, "pipe": 1024, "last": 1024 + pipeline.nbytes}


def test_equal_pipelines_are_equal_and_others_are_not():
    def one(stages=2, producer=PRODUCER, consumers=CONSUMERS, **tiles):
        return Pipeline(stages, producer, consumers, **(tiles or {"a": SMALL}))

    assert one() == one() and hash(one()) == hash(one())
    assert len({one(), one(3), one(consumers=PRODUCER), one(a=LEFT), one(b=SMALL)}) == 5


# Every use, any number of tiles --------------------------------------------------------------------------------------

EACH = pytest.mark.parametrize("ring", RINGS, ids=lambda ring: ring.name)


def counts(stages):
    return sorted({0, 1, stages - 1, stages, stages + 1, 2 * stages + 1})


def run(ring, kernel, count, seed):
    """Whether the result is right, and what was found."""
    arrays, out = ring.arrays(count), np.full(ring.shape(count), 0x99999999, np.uint32)
    with interpret(seed=seed) as settings:
        kernel[ring.blocks](*ring.maps(arrays), out, count)
    return np.array_equal(out, ring.wanted(arrays, count)), settings.hazards


@EACH
def test_any_number_of_tiles_and_stages(ring):
    for stages in ring.stages:
        kernel = ring.build(stages)
        for count in counts(stages):
            for seed in (0, 1 + count):
                is_right, found = run(ring, kernel, count, seed)
                assert is_right, (stages, count, seed)
                # of ordinary reads before a refill the manual says nothing
                assert {hazard.kind for hazard in found} <= {"undecided-order"}, (stages, count, seed)


@EACH
def test_compiled_it_costs_nothing(ring):
    compiled = ring.build(2).compile(ring.signature)
    assert compiled.findings == []
    assert compiled.resources.stack == 0 and ".local" not in compiled.ptx


# Bugs ----------------------------------------------------------------------------------------------------------------

REPORTED = ORDER | COUNTS | GROUPS | {"missing-wgmma-fence", "missing-proxy-fence", "out-of-bounds"}


def what_is_reported(ring, kernel, mutant):
    """The first hazard of a mutant, under a few seeds."""
    with mutant.in_place():
        for seed in range(4):
            for count in (5, 1):
                try:
                    run(ring, kernel, count, seed)
                except HazardError as error:
                    return error
    return None


@EACH
def test_a_call_that_is_left_out_is_reported(ring):
    """Each call that synchronises, of the kernel: no init or barrier behind it, no wait, no advance, no drain."""
    kernel = ring.build(2)
    left_out = [m for m in mutants_of(kernel) if m.what == "deleted" and m.place.startswith("rings.py")]
    assert {"pipeline.init", "pipeline.producer_acquire", "pipeline.consumer_wait"} <= {m.call for m in left_out}
    for mutant in left_out:
        error = what_is_reported(ring, kernel, mutant)
        assert error is not None and error.kind in REPORTED, f"{mutant.place} {mutant}: {error}"
        assert error.filename.endswith("rings.py"), f"{mutant}: {error}"


@pytest.mark.parametrize(
    ("name", "count"), [("persistent", 3), ("multiplied_with_a_lag", 3), ("shared_by_a_cluster", 5)]
)
def test_what_only_a_drain_or_a_cluster_needs(name, count):
    """The calls of `Pipeline` that no stage of matmul reaches, left out or altered."""
    (ring,) = [ring for ring in RINGS if ring.name == name]
    kernel = ring.build(2)
    found = [m for m in mutants_of(kernel) if m.function.__name__ == "producer_drain"]
    found += [m for m in mutants_of(kernel) if "remote" in m.call and m.what != "count - 1"]  # a count of 0 is refused
    assert len(found) == count
    for mutant in found:
        error = what_is_reported(ring, kernel, mutant)
        assert error is not None and error.kind in REPORTED, f"{mutant}: {error}"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("pipeline.init", "for a Pipeline by its init(), and a barrier of the block"),
        ("pipeline.producer_advance", "acquires a stage (elected), and goes on by producer_advance"),
        ("pipeline.consumer_release", "its consumers give a stage back by consumer_release, or by"),
    ],
)
def test_a_report_says_which_call_is_missing(call, says):
    (ring,) = [ring for ring in RINGS if ring.name == "multiplied_at_once"]
    kernel = ring.build(2)
    (mutant,) = [m for m in mutants_of(kernel) if m.what == "deleted" and m.call == call]
    assert says in str(what_is_reported(ring, kernel, mutant))


def released_too_early(by_wgmma):
    """A stage is given back before it has been read."""
    roles = Roles(consumers=warp_groups(1), producer=warps(1))
    shared = SharedLayout(pipe=Pipeline(2, roles.producer, roles.consumers, a=LEFT, b=RIGHT))

    @jit(threads=roles.threads, shared=shared)
    def kernel(left, right, out):
        smem = shared.open()
        if roles.producer.here() and roles.producer.elected():
            smem.pipe.init()
        cuda.syncthreads()
        pipe = smem.pipe.open()
        if roles.producer.here():
            if roles.producer.elected():
                for k in range(6):
                    pipe.producer_acquire()
                    tma.load(pipe.a, left, (k * COLUMNS, 0), pipe.full)  # here
                    tma.load(pipe.b, right, (k * COLUMNS, 0), pipe.full)  # here
                    pipe.producer_advance()
        else:
            acc = wgmma.zeros(float32, 16)
            for _ in range(6):
                pipe.consumer_wait()
                if by_wgmma:
                    wgmma.fence()
                    acc = wgmma.mma(pipe.a.part(64, 16, 0, 0), pipe.b.part(16, 16, 0, 0).T, acc)
                    wgmma.commit_group()
                    pipe.consumer_release()
                    acc = wgmma.wait_group(acc, 0)
                else:
                    a = pipe.a
                    pipe.consumer_release()
                    lane = warp.lane_index()
                    out[warp.warp_index(), lane] = memory.ld_shared_b32(a.address(0, 2 * lane))
            wgmma.for_each_pair(keep, wgmma.wait_group(acc, 0), (out,))

    return kernel


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("by_wgmma", [False, True])
def test_a_stage_that_is_released_too_early(by_wgmma, seed):
    arrays = [np.ones((64, 6 * COLUMNS), np.float16), np.ones((16, 6 * COLUMNS), np.float16)]
    maps = [TensorMap(array, one) for array, one in zip(arrays, (LEFT, RIGHT), strict=True)]
    with interpret(seed=seed), pytest.raises(HazardError) as caught:
        released_too_early(by_wgmma)[1](*maps, np.zeros((64, 32), np.uint32))
    assert caught.value.kind == "overwrite-while-read"
    with open(__file__) as lines:
        assert "# here" in lines.read().splitlines()[caught.value.line - 1]


def test_a_report_names_the_pipelines_barrier():
    ring = RINGS[0]
    kernel = ring.build(2)
    (mutant,) = [m for m in mutants_of(kernel) if str(m) == "- pipe.consumer_release()"]
    text = str(what_is_reported(ring, kernel, mutant))
    assert "on barrier pipe.empty[0], phase 0 (parity 0): 1 of 1 arrivals missing" in text
    assert "rings.py" in text and "pipe.producer_acquire()" in text


# Where it is used ----------------------------------------------------------------------------------------------------

TEAM = Roles(consumers=warps(1), producer=warps(1))
SHARED = SharedLayout(pipe=Pipeline(2, TEAM.producer, TEAM.consumers, a=SMALL))


@cuda.jit(device=True)
def take(pipe, out, count):
    """A consumer's loop; the cursor goes on in the caller's hands."""
    for k in range(count):
        pipe.consumer_wait()
        for i in range(WORDS // 32):
            out[k, 32 * i + warp.lane_index()] = word(pipe.a, 32 * i + warp.lane_index())
        pipe.consumer_release()


@jit(threads=TEAM.threads, shared=SHARED)
def in_device_functions(source, out, places, count):
    smem = SHARED.open()
    if TEAM.producer.here() and TEAM.producer.elected():
        smem.pipe.init()
    cuda.syncthreads()
    pipe = smem.pipe.open()
    if TEAM.consumers.here():
        take(pipe, out, count)
        if TEAM.consumers.elected():
            places[0], places[1] = pipe.stage, pipe.phase
            places[2], places[3] = pipe.stages, pipe.stage_nbytes
    elif TEAM.producer.elected():
        fill(pipe, source, count)


@pytest.mark.parametrize("count", range(6))
def test_a_cursor_that_is_passed_to_a_function_goes_on(count):
    source = np.random.default_rng(0).integers(-4, 5, (8, COLUMNS * 6)).astype(np.float16)
    out, places = np.zeros((6, WORDS), np.uint32), np.zeros(4, np.uint32)
    with interpret():
        in_device_functions[1](TensorMap(source, SMALL), out, places, count)
    for k in range(count):
        part = np.ascontiguousarray(source[:, k * COLUMNS : (k + 1) * COLUMNS])
        np.testing.assert_array_equal(out[k], part.view(np.uint32).ravel())
    assert places.tolist() == [count % 2, count // 2 % 2, 2, 1024]


def test_a_cursor_that_is_passed_to_a_function_costs_nothing():
    source = TensorMap(np.zeros((8, COLUMNS), np.float16), SMALL)
    compiled = in_device_functions.compile((source, types.uint32[:, ::1], types.uint32[::1], types.int64))
    assert compiled.findings == [] and compiled.resources.stack == 0 and ".local" not in compiled.ptx


CELL = """
    import numpy as np
    from numba import cuda
    from hopper_numba import Pipeline, Roles, SharedLayout, TensorMap, interpret, jit, tile, warp_groups, warps
    from hopper_numba.intrinsics import memory, tma, warp

    rows = tile("float16", (8, 64))
    roles = Roles(consumers=warps(1), producer=warps(1))
    shared = SharedLayout(pipe=Pipeline({stages}, roles.producer, roles.consumers, a=rows))

    @jit(threads=roles.threads, shared=shared)
    def kernel(source, out, count):
        smem = shared.open()
        if roles.producer.here() and roles.producer.elected():
            smem.pipe.init()
        cuda.syncthreads()
        pipe = smem.pipe.open()
        if roles.producer.here():
            if roles.producer.elected():
                for k in range(count):
                    pipe.producer_acquire()
                    tma.load(pipe.a, source, (64 * k, 0), pipe.full)
                    pipe.producer_advance()
        else:
            for k in range(count):
                pipe.consumer_wait()
                out[k, warp.lane_index()] = memory.ld_shared_b32(pipe.a.address(0, 2 * warp.lane_index()))
                pipe.consumer_release()

    source = np.arange(8 * 64 * 3, dtype=np.float16).reshape(8, 192)
    out = np.zeros((3, 32), np.uint32)
    maps = TensorMap(source, rows)
"""


def test_in_a_notebooks_cell():
    names = {}
    exec(textwrap.dedent(CELL.format(stages=2)), names)
    with interpret():
        names["kernel"][1](names["maps"], names["out"], 3)
    np.testing.assert_array_equal(names["out"].ravel(), names["source"][0].view(np.uint32))
    assert names["kernel"].compile((names["maps"], types.uint32[:, ::1], types.int64)).findings == []


COUNTED = """
    import hopper_numba.compile as route
    from numba.cuda import types

    made = []
    plain = route.compile_anew
    route.compile_anew = lambda *args: made.append(1) or plain(*args)
    result = kernel.compile((maps, types.uint32[:, ::1], types.int64))
    print(len(made), len(result.cubin))
"""


def test_a_second_process_finds_it_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPER_NUMBA_CACHE_DIR", str(tmp_path / "cache"))

    def compiled(stages):
        path = tmp_path / f"program{stages}.py"
        path.write_text(textwrap.dedent(CELL.format(stages=stages)) + textwrap.dedent(COUNTED))
        found = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, check=True)
        return found.stdout.split()

    first = compiled(2)
    assert first[0] == "1"
    assert compiled(2) == ["0", first[1]]
    assert compiled(3)[0] == "1"


def test_roles_and_pipelines_are_part_of_a_kernels_key():
    def captured(value):
        def kernel(out):
            out[0] = value

        return fingerprint(kernel)

    def pipeline(stages, **options):
        return Pipeline(stages, TEAM.producer, TEAM.consumers, **options, a=SMALL)

    assert captured(pipeline(2)) == captured(pipeline(2))
    assert len({captured(pipeline(2)), captured(pipeline(3)), captured(pipeline(2, cluster=2))}) == 3
    assert captured(Roles(a=warps(2))) != captured(Roles(a=warps(3)))
    assert captured(Roles(a=warps(2)).a) != captured(Roles(b=warps(1), a=warps(2)).a)


# Mistakes that the compiler finds ------------------------------------------------------------------------------------


@cuda.jit(device=True)
def opened(smem):
    return smem.pipe.open()


@cuda.jit(device=True)
def handed_back(pipe):
    return pipe, 3


@cuda.jit(device=True)
def opened_twice(smem):
    return smem.pipe.open(), smem.pipe.open()


def no_such_attribute(out):
    pipe = SHARED.open().pipe.open()
    out[0] = pipe.nothing  # here


def no_such_member(out):
    SHARED.open().pipe.nothing  # here # noqa: B018


def methods_of_a_cursor_without_one(out):
    SHARED.open().pipe.producer_acquire()  # here


def too_many_arguments(out):
    pipe = SHARED.open().pipe.open()
    pipe.producer_acquire(1)  # here


def too_many_for_open(out):
    SHARED.open().pipe.open(3)  # here


def too_many_for_init(out):
    SHARED.open().pipe.init(3)  # here


def opened_again(out):
    SHARED.open().open()  # here


def returned(out):
    pipe = opened(SHARED.open())  # here
    pipe.producer_acquire()


def returned_in_a_tuple(out):
    pipe, _ = handed_back(SHARED.open().pipe.open())  # here
    pipe.producer_acquire()


def returned_with_another(out):
    pipe, _ = opened_twice(SHARED.open())  # here
    pipe.producer_acquire()


def assigned(out):
    pipe = SHARED.open().pipe.open()
    pipe.stages = 3  # here


LASTS = (
    "Pipeline.open: the cursor belongs to the function that opens it, which may pass it, by itself, to others but not"
)


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (no_such_attribute, f"{SHARED.members['pipe']} has no attribute 'nothing'"),
        (no_such_member, f"{SHARED.members['pipe']} has no attribute 'nothing'"),
        (methods_of_a_cursor_without_one, f"{SHARED.members['pipe']} has no attribute 'producer_acquire'"),
        (too_many_arguments, "Cursor.producer_acquire: too many positional arguments"),
        (too_many_for_open, "Pipeline.open: takes no arguments; got Literal[int](3)"),
        (too_many_for_init, "init: too many positional arguments"),
        (opened_again, f"{SHARED} is open already"),
        (returned, LASTS),
        (returned_in_a_tuple, LASTS),
        (returned_with_another, LASTS),
        (assigned, "Cursor.stages: cannot be assigned to"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_mistake_is_refused_with_the_kernels_line(kernel, says):
    with pytest.raises(KernelTypeError) as refusal:
        jit(kernel, threads=TEAM.threads, shared=SHARED).compile((types.uint32[::1],))
    first, second = str(refusal.value).splitlines()
    assert first.startswith(says)
    assert "# here" in second and __file__ in second


@pytest.mark.parametrize("kernel", [no_such_attribute, no_such_member, too_many_arguments, too_many_for_init])
def test_a_mistake_is_found_by_the_interpreter_too(kernel):
    with interpret(), pytest.raises((AttributeError, TypeError), match=r"nothing|positional argument"):
        jit(kernel, threads=TEAM.threads, shared=SHARED)[1](np.zeros(1, np.uint32))
