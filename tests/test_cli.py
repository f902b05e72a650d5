"""The command line hands each command its arguments and its exit status back."""

import subprocess
import sys
from importlib import metadata
from types import SimpleNamespace

import pytest

from hopper_numba.__main__ import BROKEN_PIPE, COMMANDS, main


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    output = capsys.readouterr().out
    for command, summary in COMMANDS.items():
        assert command in output
        assert summary in " ".join(output.split())


@pytest.mark.parametrize("argv", [[], ["heal"]])
def test_no_command_and_an_unknown_one_are_refused(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_gets_its_arguments(monkeypatch, command):
    seen = []
    module = SimpleNamespace(main=lambda argv: seen.extend(argv) or 7)
    monkeypatch.setitem(sys.modules, f"hopper_numba.{command}", module)
    assert main([command, "--size", "3", "more"]) == 7
    assert seen == ["--size", "3", "more"]


def test_a_reader_that_has_enough_is_no_hazard_found(tmp_path):
    process = subprocess.Popen([sys.executable, "-m", "hopper_numba", "doctor"], stdout=subprocess.PIPE, cwd=tmp_path)
    process.stdout.close()
    assert process.wait(timeout=120) == BROKEN_PIPE


def test_run_as_a_module(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "hopper_numba", "doctor"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "What works" in run.stdout
    assert "Traceback" not in run.stderr


def test_console_script():
    (script,) = metadata.entry_points(group="console_scripts", name="hopper-numba")
    assert script.load() is main
