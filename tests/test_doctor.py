"""The doctor finds what is missing, names the command that mends it, and never fails itself."""

import sys
from importlib import metadata
from types import SimpleNamespace

import pytest
from cuda import core, pathfinder

from hopper_numba import doctor

GPU = {"name": "NVIDIA H200", "compute_capability": (9, 0)}


class Devices:
    """Stands in for cuda.core.Device."""

    def __init__(self, *gpus):
        self.gpus = [SimpleNamespace(**gpu) for gpu in gpus]

    def get_all_devices(self):
        return tuple(self.gpus)


@pytest.fixture
def no_driver(monkeypatch):
    def fail():
        raise RuntimeError("libcuda.so.1 is not there")

    monkeypatch.setattr(core, "Device", SimpleNamespace(get_all_devices=fail))


def lines(capsys):
    """The printed report: what follows each name."""
    return {line[2:19].strip(): line[19:] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}


def test_all_well_without_a_driver(no_driver, capsys):
    assert doctor.main([]) == 0
    report = lines(capsys)
    assert report["numba-cuda"] == metadata.version("numba-cuda")
    assert report["libNVVM"].endswith((".so", ".so.4"))
    assert report["GPU"] == "none: no usable CUDA driver (libcuda.so.1 is not there)"
    assert report["interpreter"] == report["compiler"] == "works"
    assert report["Hopper GPU"].startswith("none: HOPPER_NUMBA_INTERPRET=1")


def test_arguments_are_refused():
    with pytest.raises(SystemExit) as stop:
        doctor.main(["--now"])
    assert stop.value.code == 2


def test_every_dependency_is_reported(capsys):
    doctor.main([])
    report = lines(capsys)
    for name in ("python", "hopper-numba", "numba", "llvmlite", "numpy", "cuda-core", "cuda-bindings", "ml_dtypes"):
        assert report[name], name


@pytest.mark.parametrize(("version", "value"), [("2.5.0", "2.5.0, needs <2.5,>=2.1"), (None, "missing")])
def test_a_wrong_or_missing_package_is_mended_by_pip(monkeypatch, capsys, version, value):
    original = metadata.version

    def fake(name):
        if name != "numpy":
            return original(name)
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", fake)
    assert doctor.main([]) == 1
    output = capsys.readouterr().out
    assert f"numpy            {value}\n" in output
    assert f"{sys.executable} -m pip install 'numpy<2.5,>=2.1'" in output


def test_a_missing_library_is_mended_by_the_extra_of_the_toolkit_in_use(monkeypatch, capsys):
    load = pathfinder.load_nvidia_dynamic_lib

    def fake(name):
        if name == "nvJitLink":
            raise pathfinder.DynamicLibNotFoundError(name)
        return load(name)

    monkeypatch.setattr(pathfinder, "load_nvidia_dynamic_lib", fake)
    monkeypatch.setattr(doctor, "_toolkit_major", lambda: 12)
    assert doctor.main([]) == 1
    output = capsys.readouterr().out
    assert "nvJitLink        missing\n" in output
    assert "-m pip install 'hopper-numba[cu12]'" in output


def test_a_missing_disassembler_is_no_error(monkeypatch, capsys):
    monkeypatch.setattr(pathfinder, "find_nvidia_binary_utility", lambda name: None)
    assert doctor.main([]) == 0
    output = capsys.readouterr().out
    assert "cuobjdump        missing, needed to show SASS\n" in output
    assert "-m pip install nvidia-cuda-nvdisasm\n" in output


def test_a_broken_import_is_reported(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    monkeypatch.delattr("cuda.pathfinder")
    assert doctor.main([]) == 1
    assert "cuda toolkit     cannot be read: " in capsys.readouterr().out


def test_a_broken_compiler_is_reported(monkeypatch, capsys):
    def fail():
        raise RuntimeError("nvJitLink is older than libNVVM")

    monkeypatch.setattr(doctor, "_compile_empty_kernel", fail)
    assert doctor.main([]) == 1
    assert "broken: RuntimeError: nvJitLink is older than libNVVM" in capsys.readouterr().out


@pytest.mark.parametrize(("cuda", "mend"), [((13, 0), False), ((12, 4), True)])
def test_a_driver_older_than_the_toolkit_is_told_apart(monkeypatch, capsys, cuda, mend):
    monkeypatch.setattr(core, "Device", Devices(GPU))
    monkeypatch.setattr(core.system, "get_user_mode_driver_version", lambda: cuda)
    monkeypatch.setattr(core.system, "get_kernel_mode_driver_version", lambda: (580, 65, 6))
    monkeypatch.setattr(doctor, "_toolkit_major", lambda: 13)
    assert doctor.main([]) == 0
    output = capsys.readouterr().out
    assert f"580.65.6, CUDA {cuda[0]}.{cuda[1]}" in output
    assert "GPU 0            NVIDIA H200, compute capability 9.0\n" in output
    assert ("-m pip install 'hopper-numba[cu12]'" in output) == mend


def test_why_no_hopper(monkeypatch):
    monkeypatch.setattr(core, "Device", Devices(GPU))
    assert doctor.why_no_hopper() == ""
    monkeypatch.setattr(core, "Device", Devices())
    assert doctor.why_no_hopper() == "the CUDA driver shows no GPU"
    monkeypatch.setattr(core, "Device", Devices({"name": "NVIDIA A100", "compute_capability": (8, 0)}))
    assert "only NVIDIA A100, compute capability 8.0" in doctor.why_no_hopper()
