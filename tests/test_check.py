"""`hopper-numba check` and the fixture `hazard_check`: what they run, what they tell, how they end."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from numba import cuda

from hopper_numba import check, interpreter
from hopper_numba.findings import Findings
from hopper_numba.matmul import STAGES, build_stage
from hopper_numba.stages.config import default

RACE = """
from numba import cuda
import numpy as np

@cuda.jit
def racing(x):
    x[0] = cuda.threadIdx.x

x = cuda.to_device(np.zeros(1))
"""
CLEAN = """
from numba import cuda
import numpy as np

@cuda.jit
def clean(x):
    x[cuda.threadIdx.x] = 1

clean[1, 64](cuda.to_device(np.zeros(64)))
"""


@pytest.fixture
def script(tmp_path):
    def write(*parts):
        path = tmp_path / "script.py"
        path.write_text("\n".join(textwrap.dedent(part) for part in parts))
        return str(path)

    return write


def objects(capsys):
    return json.loads(capsys.readouterr().out)


# Scripts -------------------------------------------------------------------------------------------------------------


def test_a_clean_script_runs_as_python_runs_it(script, capsys, tmp_path):
    (tmp_path / "helper.py").write_text("VALUE = 5")
    path = script("import sys, helper\nprint(__name__, sys.argv, helper.VALUE)", CLEAN)
    before = sys.argv, [*sys.path]
    assert check.main([path, "--seeds", "2", "more"]) == 0
    assert (sys.argv, sys.path) == before
    output = capsys.readouterr().out
    assert output.startswith(f"__main__ {[path, '--seeds', '2', 'more']} 5\n")
    assert output.endswith("0 hazards, 0 orders left open; interpreted under seed 0: clean once\n")


def test_a_hazard_is_told_once_with_all_that_helps(script, capsys):
    path = script(RACE, "for _ in range(3):\n    racing[1, 64](x)")
    assert check.main(["--seeds", "3", path]) == 1
    report = capsys.readouterr().out
    assert report.count("data-race: ") == 1
    line = RACE.splitlines().index("    x[0] = cuda.threadIdx.x") + 1
    assert report.count(f"at {path}:{line}: x[0] = cuda.threadIdx.x\n  in block (0, 0, 0), thread ") == 2
    assert "\n  add a barrier between the two\n  under seed 0\n" in report
    assert "\n1 hazard, 0 orders left open; interpreted under seeds 0 to 2: racing 9 times\n" in report
    assert report.endswith(f"{check.AGAIN}\n")


def test_a_seed_that_is_named_is_the_only_one(script, capsys):
    path = script(RACE, "racing[1, 64](x)")
    assert check.main(["--seed", "6", "--json", path]) == 1
    (found,) = objects(capsys)
    assert found["seed"] == 6


def test_json_has_everything_and_nothing_else(script, capsys):
    path = script("print('hello')", RACE, "racing[2, 64](x)")
    assert check.main(["--json", path]) == 1
    output = capsys.readouterr()
    assert "hello" in output.err
    first, *_ = json.loads(output.out)
    assert first["message"].startswith("data-race: an ordinary write writes")
    assert (first["kind"], first["is_error"], first["seed"]) == ("data-race", True, 0)
    assert first["filename"] == path
    assert first["other"] == [path, first["line"]]
    assert first["block"] == [0, 0, 0]
    assert isinstance(first["thread"], int)
    assert first["advice"] == "a barrier between the two"
    assert check.main(["--json", script(CLEAN)]) == 0
    assert objects(capsys) == []


def test_an_error_that_ends_the_run_is_a_hazard_too(script, capsys):
    path = script(
        CLEAN,
        """
        @cuda.jit
        def outside(x):
            x[cuda.threadIdx.x] = 1

        outside[1, 64](np.zeros(63))
        print("not reached")
        """,
    )
    assert check.main([path]) == 1
    report = capsys.readouterr().out
    assert report.startswith("out-of-bounds: x[63] is outside its shape (63,)\n")
    assert "under seed 0" in report
    assert "1 hazard, " in report
    assert "not reached" not in report


def test_a_deadlock_and_a_hazard_before_it_are_both_told(script, capsys):
    path = script(
        RACE,
        """
        from hopper_numba import SharedLayout, barriers, jit
        from hopper_numba.intrinsics import mbarrier
        SHARED = SharedLayout(ready=barriers())

        @jit(threads=32, shared=SHARED)
        def waiting():
            smem = SHARED.open()
            if cuda.threadIdx.x == 0:
                mbarrier.init(smem.ready, 1)
            cuda.syncthreads()
            mbarrier.wait(smem.ready, 0)

        racing[1, 64](x)
        waiting[1]()
        """,
    )
    assert check.main(["--json", path]) == 1
    assert [found["kind"] for found in objects(capsys)] == ["data-race", "deadlock"]


UNDECIDED = """
from numba import cuda
import numpy as np
from hopper_numba import SharedLayout, TensorMap, jit, tile
from hopper_numba.intrinsics import fence, memory, tma

SHARED = SharedLayout(out=tile(np.float32, (8, 32), swizzle=None))

@jit(threads=32, shared=SHARED)
def store(result):
    smem = SHARED.open()
    for row in range(8):
        memory.st_shared_b32(smem.out.address(row, cuda.threadIdx.x), row)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        fence.proxy_async_shared_cta()  # by the thread that stores, not by those that wrote
        tma.store(result, (0, 0), smem.out)
        tma.commit_group()
        tma.wait_group(0)

store[1](TensorMap(np.zeros((8, 32), np.float32), SHARED.members["out"]))
"""


def test_an_order_that_is_left_open_is_told_shortly_and_is_no_error(script, capsys):
    path = script(UNDECIDED)
    assert check.main([path]) == 0
    opened, between, counts = capsys.readouterr().out.splitlines()[:3]
    assert opened == "left open by the PTX manual:"
    lines = UNDECIDED.splitlines()
    store, write = (i + 1 for text in ("tma.store(", "st_shared") for i, line in enumerate(lines) if text in line)
    assert between.strip().startswith(f"{path}:{store} and {path}:{write}: tma.store follows memory.st_shared_b32; ")
    assert between.endswith("leaves open; add the fence by the threads that wrote, before the barrier")
    assert not counts
    assert check.main(["--json", path]) == 0
    assert [(found["kind"], found["is_error"]) for found in objects(capsys)] == [("undecided-order", False)]


FAILURES = {
    "1 / 0": "ZeroDivisionError",
    "import sys; sys.exit(3)": "ended with sys.exit(3)",
    "if True print()": "SyntaxError",
    "from nowhere import nothing": "ModuleNotFoundError",
    "cuda.jit(lambda x: 1 // x)[1, 1](0)": "in block (0, 0, 0), thread 0",
    "clean[1, 1]('text')": "argument x: the interpreter takes NumPy arrays",
}


@pytest.mark.parametrize("statement", FAILURES)
def test_a_script_that_fails_of_itself_could_not_be_checked(script, capsys, statement):
    path = script(CLEAN, statement)
    assert check.main(["--seeds", "3", path]) == 2
    output = capsys.readouterr()
    assert FAILURES[statement] in output.err
    assert "runpy" not in output.err or "SyntaxError" in output.err
    assert "under seed 0:" in output.out  # and under no other


def test_a_script_that_fails_after_a_hazard_had_one(script, capsys):
    assert check.main([script(RACE, "racing[1, 64](x)\n1 / 0")]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("end", ["sys.exit()", "sys.exit(0)"])
def test_a_script_may_exit(script, end):
    assert check.main([script(CLEAN, f"import sys\n{end}")]) == 0


def test_a_script_that_launches_nothing_could_not_be_checked(script, capsys):
    assert check.main([script("print('hello')")]) == 2
    output = capsys.readouterr()
    assert "no kernel" in output.out
    assert "nothing was checked" in output.err


# Stages --------------------------------------------------------------------------------------------------------------


def test_a_stage_is_checked_under_eight_seeds(monkeypatch, capsys):
    monkeypatch.setattr(check, "shape_of", lambda stage: (8, 8, 72))
    assert check.main(["--stage", "v1"]) == 0
    assert "interpreted under seeds 0 to 7: matmul_v1 8 times" in capsys.readouterr().out


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_is_clean(stage, capsys):
    assert check.main(["--stage", stage, "--seed", "5"]) == 0
    assert f"interpreted under seed 5: matmul_{stage} once" in capsys.readouterr().out


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_is_checked_for_several_blocks_edges_and_more_k_tiles_than_its_ring_has(stage):
    config = default(stage)
    m, n, k = check.shape_of(stage)
    blocks = build_stage(stage, np.dtype(np.float16)).grid(m, n)
    assert min(blocks) > 1
    assert m % config.tile[0] and n % config.tile[1] and k % config.tile[2]
    assert -(-k // config.tile[2]) > config.stages


def test_a_stage_is_checked_for_a_shape(capsys, monkeypatch):
    seen = []
    monkeypatch.setattr(check.hopper_numba, "matmul_v0", lambda a, b: seen.append((a.shape, b.shape)))
    assert check.main(["--stage", "v0", "--shape", "8,16,24", "--seeds", "2"]) == 2  # it launched nothing
    assert seen == [((8, 24), (24, 16))] * 2


WRONG = {
    "--stage v9": "invalid choice: 'v9'",
    "--stage v1 --shape 8,8": "must be three positive integers; got '8,8'",
    "--stage v1 --shape 8,0,8": "must be three positive integers; got '8,0,8'",
    "--stage v1 --shape 8,x,8": "must be three positive integers; got '8,x,8'",
    "--stage v1 --seeds 0": "must be 1 to 1000000; got 0",
    "--stage v1 --seeds x": "invalid integer value: 'x'",
    "--stage v1 --seed -1": "must be 0 to 1000000; got -1",
    "--stage v1 --seed 1 --seeds 2": "not allowed with",
    "--stage v1 script.py": "name either a script or --stage",
    "--shape 8,8,8 script.py": "--shape goes with --stage",
    "no/such/script.py": "there is no file no/such/script.py",
    "": "name either a script or --stage",
}


@pytest.mark.parametrize("argv", WRONG)
def test_arguments_that_mean_nothing_are_refused(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        check.main(argv.split())
    assert stop.value.code == 2
    assert WRONG[argv] in capsys.readouterr().err


def test_the_command_ends_with_the_status(script):
    for parts, status in (([CLEAN], 0), ([RACE, "racing[1, 64](x)"], 1), (["1 / 0"], 2)):
        run = subprocess.run(
            [sys.executable, "-m", "hopper_numba", "check", script(*parts)], capture_output=True, text=True, check=False
        )
        assert run.returncode == status, run.stdout + run.stderr


# Findings ------------------------------------------------------------------------------------------------------------


def test_the_seed_that_is_told_is_the_first_that_shows_it_and_replays_it():
    @cuda.jit
    def sometimes(x):
        if cuda.threadIdx.x % 32 == 0:
            x[cuda.threadIdx.x] = 1
            for _ in range(2000):
                x[cuda.threadIdx.x + 1] = 1
            if x[32 - cuda.threadIdx.x] == 0:  # the other has not begun
                x[64] = 1

    def launch():
        sometimes[1, 64](np.zeros(64, np.int32))

    findings = Findings()
    for seed in range(12):
        findings.run(launch, seed)
    (outside,) = [finding for finding in findings.errors if finding.error.kind == "out-of-bounds"]
    assert outside.seed in (5, 9)  # one of two warps is late
    for seed, kinds in ((outside.seed, {"out-of-bounds"}), (0, {"data-race"})):
        again = Findings()
        again.run(launch, seed)
        assert {finding.error.kind for finding in again.errors} == kinds


def test_errors_without_a_place_are_told_apart_by_their_text():
    findings = Findings()
    for text in ("one", "two", "one"):

        def fail(text=text):
            raise interpreter.UnfinishedError(text)

        findings.run(fail, 0)
    assert [str(finding.error) for finding in findings.errors] == ["one", "two"]


# The fixture ---------------------------------------------------------------------------------------------------------


@cuda.jit
def scale(x, factor):
    x[cuda.threadIdx.x] *= factor


def test_hazard_check_runs_under_eight_seeds(hazard_check):
    seeds = []

    def launch(n, factor=2):
        seeds.append(interpreter.active().seed)
        x = cuda.to_device(np.ones(n))
        scale[1, n](x, factor)
        assert x.copy_to_host().tolist() == [factor] * n

    assert hazard_check(launch, 8, factor=3) == []
    assert hazard_check(launch, 8, seeds=[9, 11]) == []
    assert seeds == [*range(8), 9, 11]
    assert interpreter.active() is None


def test_hazard_check_gives_back_what_is_left_open(hazard_check, script):
    code = compile(UNDECIDED, script(UNDECIDED), "exec")
    (left_open,) = hazard_check(lambda: exec(code, {}), seeds=1)
    assert left_open.kind == "undecided-order"


def test_hazard_check_fails_with_the_report(hazard_check):
    @cuda.jit
    def racing(x):
        x[0] = cuda.threadIdx.x

    def launch():
        racing[1, 64](np.zeros(1))
        raise KeyError("of what came out")

    with pytest.raises(pytest.fail.Exception, match=r"data-race: [\s\S]*under seed 0\n\n1 hazard, ") as failed:
        hazard_check(launch)
    assert not failed.value.pytrace


def test_hazard_check_lets_other_errors_through(hazard_check):
    def launch():
        scale[1, 8](np.ones(8), 2)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        hazard_check(launch)


def test_hazard_check_fails_where_no_kernel_is_launched(hazard_check):
    with pytest.raises(pytest.fail.Exception, match="launched no kernel"):
        hazard_check(lambda: None)


def test_the_fixture_comes_with_the_installation_and_imports_nothing_before_it_is_used(tmp_path):
    (tmp_path / "test_users.py").write_text(
        textwrap.dedent("""
        import sys

        def test_without():
            assert "hopper_numba" not in sys.modules

        def test_with(hazard_check):
            import numpy as np
            from numba import cuda

            @cuda.jit
            def racing(x):
                x[0] = cuda.threadIdx.x

            hazard_check(lambda: racing[1, 64](np.zeros(1)), seeds=2)
        """)
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 failed, 1 passed" in run.stdout
    assert "data-race: " in run.stdout
    assert "hopper_numba_pytest.py" not in run.stdout


def test_a_script_that_interprets_by_itself_is_checked_too(script, capsys):
    path = script(RACE, "from hopper_numba import interpret\nwith interpret(3, collect=True):\n    racing[1, 64](x)\n")
    assert check.main([path]) == 1
    assert "data-race" in capsys.readouterr().out


def test_a_fault_that_a_script_catches_counts(script, capsys):
    path = script(RACE, "try:\n    racing[1, 64](np.zeros(0))\nexcept Exception:\n    print('went on')\n")
    assert check.main([path]) == 1
    out = capsys.readouterr().out
    assert "went on" in out and "out-of-bounds" in out
