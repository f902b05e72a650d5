"""Tuning without a GPU: what is passed over and why, who wins, what is written, and which arguments are refused."""

import importlib
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import hopper_numba.compile as route
from hopper_numba import measuring, tune
from hopper_numba.matmul import STAGES, build_stage
from hopper_numba.measuring.candidates import examine, examine_all
from hopper_numba.measuring.race import ROUNDS, race, ratio, winner
from hopper_numba.stages.config import Config, Space, read_choices, write_choices

FLOAT16 = np.dtype(np.float16)
MEASURING = "hopper_numba.measuring"

# Candidates ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "config", "reason"),
    [
        ("v0", Config((48, 64, 64)), "V0: config's M of tile must be 32 to 256 in steps of 32; got 48"),
        ("v0", Config((256, 256, 256)), "shared memory of a block is at most 232448 bytes; got a 131072 + b 131072"),
        ("v0", Config((128, 128, 64), blocks=4), "registers spill: "),
        (
            "v1",
            Config((64, 256, 64), blocks=4),
            "min_blocks=4 blocks of 128 threads on an SM leave each thread too few",
        ),
        ("v1", Config((64, 256, 64), blocks=4), "(C7602) Insufficient registers (128)"),
        ("v1", Config((64, 256, 128), blocks=3), "3 blocks x (82048 + 1024 reserved) = 249216"),
    ],
)
def test_why_a_candidate_is_passed_over(stage, config, reason):
    found = examine(stage, FLOAT16, config)
    assert reason in found
    assert "\n" not in found and "_Z" not in found


def test_processes_leave_what_they_compile_in_the_disk_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HOPPER_NUMBA_CACHE_DIR", str(tmp_path))
    route.disk_cache.cache_clear()
    good, bad = ("v1", Config((64, 24, 64))), ("v1", Config((64, 25, 64)))
    reasons = dict(examine_all([good, bad], FLOAT16))
    assert reasons == {good: "", bad: "V1: config's N of tile must be 8 to 256 in steps of 8; got 25"}
    monkeypatch.setattr(route, "compile_anew", None)
    assert build_stage("v1", FLOAT16, good[1]).compile().cubin
    route.disk_cache.cache_clear()


# The race ------------------------------------------------------------------------------------------------------------


def run(seconds, reference=1.0, drift=lambda lap: 1.0):
    """Race names by their made-up seconds; the laps, and who ran in which order."""
    order = []

    def measure(call):
        order.append(call())
        lap = order.count(order[-1]) - 1
        return drift(lap) * (reference if order[-1] == "reference" else seconds[order[-1]])

    return race({name: lambda name=name: name for name in seconds}, lambda: "reference", measure), order


def test_the_fastest_wins_whatever_the_clock_does():
    laps, _ = run({"slow": 1.02, "fast": 1.0, "middle": 1.01}, reference=0.9, drift=lambda lap: 1 + lap)
    assert winner(laps) == "fast"
    assert ratio(laps["fast"]) == pytest.approx(0.9)
    assert all(len(of_one) == ROUNDS for of_one in laps.values())


def test_all_run_once_a_round_and_another_begins_each():
    _, order = run({"a": 1.0, "b": 1.0})
    rounds = [order[i : i + 3] for i in range(0, len(order), 3)]
    assert len(rounds) == ROUNDS
    assert all(sorted(one) == ["a", "b", "reference"] for one in rounds)
    assert [one[0] for one in rounds[:4]] == ["reference", "a", "b", "reference"]


def test_who_is_clearly_slower_runs_no_more():
    laps, order = run({"fast": 1.0, "close": 1.04, "slower": 1.1, "hopeless": 1.5})
    assert {name: len(of_one) for name, of_one in laps.items()} == {
        "fast": ROUNDS,
        "close": ROUNDS,
        "slower": 2,
        "hopeless": 2,
    }
    assert order.count("reference") == ROUNDS
    alone, order = run({"fast": 1.0, "slower": 1.1})
    assert len(alone["fast"]) == 2 and order.count("reference") == 2


@pytest.mark.parametrize("lap", range(3))
@pytest.mark.parametrize(("who", "seconds"), [("other", 0.5), ("best", 2.0)])
def test_one_lap_decides_nothing(who, seconds, lap):
    laps = {"best": [1.0] * ROUNDS, "other": [1.03] * ROUNDS, "reference": [1.0] * ROUNDS}
    laps[who][lap] = seconds
    runs = {name: iter(of_one) for name, of_one in laps.items()}
    calls = {name: lambda name=name: name for name in ("best", "other")}
    assert winner(race(calls, lambda: "reference", lambda call: next(runs[call()]))) == "best"


def test_who_was_dropped_does_not_win():
    assert winner({"dropped": [(1.0, 1.2)], "ran on": [(1.0, 1.1)] * ROUNDS}) == "ran on"


# The command ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def nothing_runs(monkeypatch):
    """A machine with a GPU, where nothing is compiled and nothing runs."""
    monkeypatch.setattr(tune, "why_no_hopper", lambda: "")
    monkeypatch.setitem(sys.modules, f"{MEASURING}.tuning", None)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--stages", "v99"], "invalid choice: 'v99'"),
        (["--stages"], "--stages: expected at least one argument"),
        (["--size", "64", "64"], "--size: expected 3 arguments"),
        (["--size", "0", "64", "64"], "--size: M must be positive, N and K positive multiples of 8; got 0 64 64"),
        (["--size", "64", "64", "60"], "--size: M must be positive, N and K positive multiples of 8; got 64 64 60"),
        (["--dtype", "float32"], "invalid choice: 'float32'"),
        (["-o", "/dev/null"], "--json: /dev/null is no file"),
        (["-o", "no/such/folder/file.json"], "--json: there is no folder no/such/folder"),
        (["-o", "."], "--json: "),
        (["-o", __file__], "must have configs by board and stage"),
    ],
)
def test_wrong_arguments_are_refused_at_once(nothing_runs, capsys, argv, message):
    with pytest.raises(SystemExit) as stop:
        tune.main(argv)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_a_folder_that_takes_no_new_file_is_refused_at_once(nothing_runs, capsys, monkeypatch, tmp_path):
    folder, path = tmp_path / "folder", tmp_path / "link.json"
    folder.mkdir()
    (folder / "configs.json").write_text("{}")
    path.symlink_to(folder / "configs.json")
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != folder and allowed(path, mode))  # root may all
    with pytest.raises(SystemExit):
        tune.main(["-o", str(path)])
    assert f"--json: no file can be made in {folder}" in capsys.readouterr().err


def test_a_dtype_that_a_stage_does_not_multiply_is_refused(nothing_runs, capsys, monkeypatch):
    monkeypatch.setattr(STAGES["v1"], "DTYPES", (FLOAT16,), raising=False)
    with pytest.raises(SystemExit):
        tune.main(["--dtype", "bfloat16"])
    assert "--dtype: v1 multiplies float16; got bfloat16" in capsys.readouterr().err


def test_it_says_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(tune, "why_no_hopper", lambda: "no driver")
    with pytest.raises(SystemExit):
        tune.main([])
    assert "it needs a Hopper GPU: no driver" in capsys.readouterr().err
    monkeypatch.setattr(tune, "why_no_hopper", lambda: "")
    stand_in(monkeypatch, tqdm=None)
    with pytest.raises(SystemExit):
        tune.main([])
    assert "it needs tqdm: pip install 'hopper-numba[bench]'" in capsys.readouterr().err


def stand_in(monkeypatch, tqdm, problem=None, timing=None):
    """Put these in the place of what needs a GPU, or may not be installed."""
    torch = SimpleNamespace(cuda=SimpleNamespace(set_device=lambda device: None), float16="float16")
    for name, module in {
        "torch": torch,
        "tqdm": tqdm,
        f"{MEASURING}.problem": problem,
        f"{MEASURING}.timing": timing,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    # whatever is imported now goes again
    monkeypatch.setattr(measuring, "tuning", None, raising=False)
    monkeypatch.setitem(sys.modules, f"{MEASURING}.tuning", None)
    del sys.modules[f"{MEASURING}.tuning"]


class Bar:
    """tqdm, silent."""

    def __init__(self, items=(), *args, **options):
        self.items = items

    def __iter__(self):
        return iter(self.items)

    def __enter__(self):
        return self

    def __exit__(self, *stop):
        pass

    def update(self):
        pass


SLOW, FAST, WIDE, WRONG = (Config((64, n, 64)) for n in (64, 128, 256, 32))


@pytest.fixture
def seconds(monkeypatch):
    """Made-up times by config; one without a time fails when it is timed, and `WRONG` is wrong."""
    times = {}

    class Contender:
        def __init__(self, name, multiply, accumulate):
            self.name, self.multiply, self.accumulate = name, multiply, accumulate

        def bound(self, problem):
            return self.multiply

    class Problem:
        def __init__(self, *size):
            assert size == (512, 256, 128, "float16")

        def tflops(self, seconds):
            return 2 / seconds

        def cublas(self):
            pass

    def burst(call, cooldown):
        return SimpleNamespace(
            seconds=1.0 if getattr(call, "keywords", None) is None else times[call.keywords["config"]]
        )

    def accuracy(problem, contender):
        assert contender.accumulate == "float32"
        return {}, "max_error nan" if contender.multiply.keywords["config"] == WRONG else ""

    stand_in(
        monkeypatch,
        SimpleNamespace(tqdm=Bar),
        SimpleNamespace(Problem=Problem, Contender=Contender, accuracy=accuracy),
        SimpleNamespace(burst=burst),
    )
    tuning = importlib.import_module(f"{MEASURING}.tuning")
    reasons = {WIDE: "registers spill"}
    monkeypatch.setattr(tuning, "default_device", lambda: 0)
    monkeypatch.setattr(tuning, "require_hopper", lambda device: SimpleNamespace(name="a board"))
    monkeypatch.setattr(tuning, "examine_all", lambda found, dtype: ((one, reasons.get(one[1], "")) for one in found))
    monkeypatch.setattr(tune, "why_no_hopper", lambda: "")
    return times


def spaces(monkeypatch, **configs):
    for stage, found in configs.items():
        monkeypatch.setattr(STAGES[stage], "SPACE", Space(tile=tuple(config.tile for config in found)))


def main(path, *stages):
    return tune.main(["--stages", *stages, "--size", "512", "256", "128", "-o", str(path)])


def test_winners_are_written_beside_what_was_there(seconds, monkeypatch, tmp_path, capsys):
    seconds |= {SLOW: 1.2, FAST: 1.0}
    spaces(monkeypatch, v0=[SLOW, FAST, WIDE, WRONG], v1=[WRONG])
    path, before = tmp_path / "choices.json", {"a board": {"v0": WIDE, "v1": SLOW}, "another": {"v0": SLOW}}
    write_choices(path, before)
    assert main(path, "v0") == 0
    assert read_choices(path) == before | {"a board": {"v0": FAST, "v1": SLOW}}
    said = capsys.readouterr().out
    assert "64x256x64: registers spill" in said and "64x32x64: WRONG: max_error nan" in said
    (first, second) = (line for line in said.splitlines() if line.endswith("chosen") or "64x64x64" in line)
    assert first.split() == ["64x128x64", "2", "2", "1.000", "1.000", "to", "1.000", "chosen"]
    assert second.split()[:4] == ["64x64x64", "2", "2", "0.833"]


def test_one_without_a_rival_is_not_timed(seconds, monkeypatch, tmp_path):
    spaces(monkeypatch, v0=[FAST, WIDE], v1=[SLOW])
    assert main(tmp_path / "new.json", "v1", "v0") == 0
    assert read_choices(tmp_path / "new.json") == {"a board": {"v0": FAST, "v1": SLOW}}


def test_a_stage_without_a_candidate_fails_and_keeps_what_it_had(seconds, monkeypatch, tmp_path, capsys):
    spaces(monkeypatch, v0=[WIDE, WRONG], v1=[SLOW])
    path = tmp_path / "choices.json"
    write_choices(path, {"a board": {"v0": FAST}})
    assert main(path, "v0", "v1") == 1
    assert read_choices(path) == {"a board": {"v0": FAST, "v1": SLOW}}
    assert "no candidate is left" in capsys.readouterr().out
