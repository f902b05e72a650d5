"""Configs, spaces of them and the checked-in defaults."""

import importlib
import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hopper_numba import Config, interpret, matmul_v0, matmul_v1
from hopper_numba.matmul import STAGES, build_stage
from hopper_numba.measuring.candidates import examine
from hopper_numba.stages import config as module
from hopper_numba.stages.config import DEFAULTS, KNOWN, Space, add_choice, default, read_choices, write_choices

FLOAT16 = np.dtype(np.float16)
SMALL = Config((64, 32, 64))
BY_BLOCK = ("v3", "v4", "v5")  # their results are stored by 16 columns


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"tile": [64, 64, 64]}, TypeError, r"tile must be a tuple of three integers, M, N and K; got \[64, 64, 64\]"),
        ({"tile": (64, 64)}, TypeError, r"tile must be .*; got \(64, 64\)"),
        ({"tile": (64, 64.0, 64)}, TypeError, "N of tile must be an integer; got 64.0"),
        ({"tile": (64, 64, 0)}, ValueError, "K of tile must be 1 to 1024; got 0"),
        ({"stages": True}, TypeError, "stages must be an integer; got True"),
        ({"group": -8}, ValueError, "group must be 1 to 1048576; got -8"),
        ({"group": 2**62}, ValueError, "group must be 1 to 1048576; got 4611686018427387904"),
        ({"blocks": 33}, ValueError, "blocks must be 1 to 32; got 33"),
        ({"blocks": "3"}, TypeError, "blocks must be an integer; got '3'"),
    ],
)
def test_a_wrong_value_is_refused_by_name(wrong, error, message):
    with pytest.raises(error, match=f"Config: {message}"):
        Config(**{"tile": (64, 64, 64), **wrong})


def test_defaults_without_a_stage_say_which_file(monkeypatch):
    monkeypatch.setattr(module, "_checked_in", lambda: {"NVIDIA H200": {}})
    with pytest.raises(ValueError, match=r"defaults\.json has no config of v4 for NVIDIA H200"):
        default("v4", "another board")


def test_it_is_short_in_words():
    assert str(Config((128, 256, 64), 4, 8)) == "128x256x64, 4 stages, groups of 8"
    assert str(Config((128, 128, 128), blocks=3)) == "128x128x128, 3 blocks an SM"


def test_equal_ones_are_one_key_and_travel():
    one = Config((128, 256, 64), 4, 8, 2)
    assert len({one, Config((128, 256, 64), 4, 8, 2), Config((128, 256, 64), 4, 8, 1)}) == 2
    assert pickle.loads(pickle.dumps(one)) == one
    assert Config.from_object(json.loads(json.dumps(one.as_object()))) == one


@pytest.mark.parametrize("values", [[64, 64, 64], {"stages": 2}, {"tile": [64, 64, 64], "ring": 2}, {"tile": "abc"}])
def test_other_objects_are_no_configs(values):
    with pytest.raises(TypeError):
        Config.from_object(values)


def test_a_space_is_every_combination():
    space = Space(tile=((64, 64, 64), (128, 64, 64)), stages=(2, 3), group=(8,))
    assert [str(config) for config in space] == [
        "64x64x64, 2 stages, groups of 8",
        "64x64x64, 3 stages, groups of 8",
        "128x64x64, 2 stages, groups of 8",
        "128x64x64, 3 stages, groups of 8",
    ]


# Stages --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "config", "message"),
    [
        ("v0", Config((48, 64, 64)), "V0: config's M of tile must be 32 to 256 in steps of 32; got 48"),
        ("v0", Config((64, 64, 32)), "V0: config's K of tile must be 64 to 256 in steps of 64; got 32"),
        ("v0", Config((64, 64, 64), stages=2), "V0: config's stages must be 1; got 2"),
        ("v1", Config((128, 64, 64)), "V1: config's M of tile must be 64; got 128"),
        ("v1", Config((64, 264, 64)), "V1: config's N of tile must be 8 to 256 in steps of 8; got 264"),
        ("v1", Config((64, 64, 64), group=8), "V1: config's group must be 1; got 8"),
        *((stage, Config((64, 64, 64), 2), "M of tile must be 128; got 64") for stage in ("v2", "v3", "v4", "v5")),
        *((stage, Config((128, 64, 32), 2), "K of tile must be 64; got 32") for stage in ("v2", "v3", "v4", "v5")),
        ("v2", Config((128, 12, 64), 2), "V2: config's N of tile must be 8 to 256 in steps of 8; got 12"),
        *((stage, Config((128, 24, 64), 2), "N of tile must be 16 to 256 in steps of 16") for stage in BY_BLOCK),
        *((stage, Config((128, 272, 64), 2), "N of tile must be .*; got 272") for stage in ("v2", *BY_BLOCK)),
        *((stage, Config((128, 64, 64), 2, group=8), "group must be 1; got 8") for stage in ("v2", "v3")),
        *((stage, Config((128, 64, 64)), "stages must be 2 to 16; got 1") for stage in ("v2", "v5")),
        ("v6", Config((128, 256, 64), 2), "V6: config's M of tile must be 256; got 128"),
        ("v6", Config((256, 32, 64), 2), "V6: config's N of tile must be 64 to 256 in steps of 64; got 32"),
        ("v6", Config((256, 256, 128), 2), "V6: config's K of tile must be 64; got 128"),
        ("v6", Config((256, 256, 64)), "V6: config's stages must be 2 to 16; got 1"),
        ("v6", Config((256, 256, 64), 2, blocks=2), "V6: config's blocks must be 1; got 2"),
    ],
)
def test_a_stage_refuses_what_it_cannot_be_built_with(stage, config, message):
    with pytest.raises(ValueError, match=message):
        build_stage(stage, FLOAT16, config)


@pytest.mark.parametrize(
    ("stage", "config", "sum_of"),
    [
        ("v2", Config((128, 256, 64), 5), r"a 81920 \+ b 163840 \+ loaded 40 = 245800"),
        ("v3", Config((128, 256, 64), 5), r"a 81920 \+ b 163840 \+ full 40 \+ empty 40 = 245840"),
        ("v4", Config((128, 256, 64), 5), r"5 stages x \(a 16384 \+ b 32768 \+ barriers 16\) = 245840"),
        ("v5", Config((128, 256, 64), 5), r"5 stages x \(a 16384 \+ b 32768 \+ barriers 16\) = 245840"),
        ("v6", Config((256, 256, 64), 4), r"4 stages x \(a 32768 \+ b 32768 \+ barriers 16\) = 262208"),
        ("v6", Config((256, 192, 64), 4), r"pipe 229440 \+ c_tile 24576 \+ .* = 254072"),  # the ring alone would fit
    ],
)
def test_a_ring_that_is_too_large_is_refused_with_the_sum(stage, config, sum_of):
    with pytest.raises(ValueError, match=f"shared memory of a block is at most 232448 bytes; got {sum_of}"):
        build_stage(stage, FLOAT16, config)


def test_a_rule_is_told_in_few_words():
    with pytest.raises(ValueError, match="V9: config's stages must be 2 to 4; got 1"):
        SMALL.require("V9", m=[64], n=[32, 64], k=[64], stages=range(2, 5))
    with pytest.raises(ValueError, match="V9: config's N of tile must be 64 or 128; got 32"):
        SMALL.require("V9", m=[64], n=[64, 128], k=[64])


def test_a_stage_is_built_once_for_a_config():
    assert build_stage("v1", FLOAT16, default("v1")) is build_stage("v1", FLOAT16)
    assert build_stage("v1", FLOAT16, SMALL) is not build_stage("v1", FLOAT16)


def test_a_stage_of_fewer_dtypes_refuses_the_others(monkeypatch):
    monkeypatch.setattr(STAGES["v1"], "DTYPES", (np.dtype("bfloat16"),), raising=False)
    with pytest.raises(TypeError, match="matmul_v1: a and b must be of bfloat16; got float16"):
        build_stage("v1", FLOAT16)


@pytest.mark.parametrize("matmul", [matmul_v0, matmul_v1])
def test_a_call_takes_a_config(matmul, monkeypatch):
    a, b = (np.random.default_rng(0).integers(-4, 5, (72, 136)).astype(np.float16) for _ in range(2))
    used = []
    calling = importlib.import_module("hopper_numba.matmul")  # the package's attribute of that name is the function
    monkeypatch.setattr(calling, "build_stage", lambda *args: used.append(args[2]) or build_stage(*args))
    with interpret():
        np.testing.assert_array_equal(matmul(a, b.T, config=SMALL), a @ b.T)
        np.testing.assert_array_equal(matmul(a, b.T), a @ b.T)
    assert used == [SMALL, None]


def test_a_call_refuses_what_is_no_config():
    a = np.zeros((8, 8), np.float16)
    with (
        interpret(),
        pytest.raises(TypeError, match=r"matmul: config must be a hopper_numba.Config; got \(64, 64, 64\)"),
    ):
        matmul_v1(a, a.T, config=(64, 64, 64))


# Defaults ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", STAGES)
def test_each_default_is_a_candidate_and_compiles(stage):
    for board in read_choices(DEFAULTS):
        assert default(stage, board) in STAGES[stage].SPACE
        assert examine(stage, FLOAT16, default(stage, board)) == ""


def test_the_defaults_are_of_stages_and_written_as_they_are(tmp_path):
    choices = read_choices(DEFAULTS)
    assert set().union(*choices.values()) == set(STAGES) == set(choices[KNOWN])
    write_choices(tmp_path / "again.json", choices)
    assert (tmp_path / "again.json").read_text() == DEFAULTS.read_text()


@pytest.fixture
def boards(monkeypatch):
    choices = {KNOWN: {"v0": Config((64, 64, 64)), "v1": Config((64, 8, 64))}, "other": {"v1": Config((64, 16, 64))}}
    monkeypatch.setattr(module, "_checked_in", lambda: choices)


def test_a_board_has_its_own_and_an_unknown_one_those_of_an_h200(boards):
    assert default("v1", "other") == Config((64, 16, 64))
    assert default("v0", "other") == default("v0", "unheard of") == default("v0") == Config((64, 64, 64))


def test_choices_are_written_sorted_and_read_back(tmp_path):
    path = tmp_path / "choices.json"
    choices = {"b": {"v1": Config((64, 8, 64)), "v0": Config((64, 64, 64), 2, 3, 4)}, "a": {"v2": Config((8, 8, 8))}}
    write_choices(path, choices)
    assert read_choices(path) == choices
    assert path.read_text() == (
        '{\n "a": {\n  "v2": {"tile": [8, 8, 8], "stages": 1, "group": 1, "blocks": 1}\n },\n'
        ' "b": {\n  "v0": {"tile": [64, 64, 64], "stages": 2, "group": 3, "blocks": 4},\n'
        '  "v1": {"tile": [64, 8, 64], "stages": 1, "group": 1, "blocks": 1}\n }\n}\n'
    )


def test_choices_of_many_at_once_are_all_kept(tmp_path):
    path, boards = tmp_path / "choices.json", [f"board {i}" for i in range(16)]
    with ThreadPoolExecutor(len(boards)) as pool:
        for done in [pool.submit(add_choice, path, board, "v0", Config((8, 8, 8))) for board in boards]:
            done.result()
    assert read_choices(path) == {board: {"v0": Config((8, 8, 8))} for board in boards}


def test_a_link_stays_a_link_and_a_file_keeps_its_mode(tmp_path):
    path, link = tmp_path / f"{'long' * 60}.json", tmp_path / "link.json"
    path.write_text("{}")
    path.chmod(0o640)
    link.symlink_to(path)
    add_choice(link, "board", "v0", Config((8, 8, 8)))
    assert link.is_symlink()
    assert read_choices(path) == {"board": {"v0": Config((8, 8, 8))}}
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "choices.json"
    write_choices(path, {"a": {"v0": Config((8, 8, 8))}})
    before = path.read_text()

    def half(self, text):
        with open(self, "w") as file:
            file.write(text[:10])
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="no space left"):
        write_choices(path, {"a": {"v0": Config((16, 16, 16))}})
    assert path.read_text() == before
    assert os.listdir(tmp_path) == ["choices.json"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", '{"a": []}', '{"a": {"v0": {}}}', '{"a": {"v0": {"tile": [0, 8, 8]}}}'),
        pytest.param("[" * 100_000, id="deep"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path, text):
    path = tmp_path / "choices.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"choices\.json must have configs by board and stage"):
        read_choices(path)
