"""What the package declares about itself is true."""

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import hopper_numba
import hopper_numba.intrinsics

ROOT = Path(__file__).parent.parent
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())
REQUIREMENTS = [Requirement(text) for text in DECLARED["project"]["dependencies"]]


def python(code, cwd):
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)


def test_version_is_consistent():
    assert hopper_numba.__version__ == metadata.version("hopper-numba") == DECLARED["project"]["version"]


def test_intrinsics_is_the_top_level_folder():
    assert Path(hopper_numba.intrinsics.__file__) == ROOT / "intrinsics" / "__init__.py"


def test_intrinsics_under_another_name_is_refused():
    run = python("import intrinsics", cwd=ROOT)
    assert run.returncode == 1
    assert "ImportError" in run.stderr
    assert "hopper_numba.intrinsics" in run.stderr


def test_nothing_named_intrinsics_is_installed(tmp_path):
    run = python("import hopper_numba.intrinsics, intrinsics", cwd=tmp_path)
    assert run.returncode == 1
    assert "No module named 'intrinsics'" in run.stderr


def test_every_folder_of_code_is_packaged():
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "hopper_numba").rglob("__init__.py")}
    packages = {".".join(folder.parts) for folder in folders} | {"hopper_numba.intrinsics"}
    assert packages == set(DECLARED["tool"]["setuptools"]["packages"])


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda requirement: requirement.name)
def test_every_dependency_has_both_bounds(requirement):
    assert {specifier.operator for specifier in requirement.specifier} == {">=", "<"}


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda requirement: requirement.name)
def test_installed_metadata_is_that_of_the_checkout(requirement):
    assert requirement in [Requirement(text) for text in metadata.requires("hopper-numba")]


def test_either_toolkit_is_an_extra():
    assert {"cu12", "cu13"} <= set(metadata.metadata("hopper-numba").get_all("Provides-Extra"))


@pytest.mark.gpu
def test_importing_leaves_the_gpu_alone(tmp_path):
    opened = (
        "any('/dev/nvidia' in str(Path(link).readlink()) for link in Path('/proc/self/fd').iterdir() if link.exists())"
    )
    code = f"from pathlib import Path; import hopper_numba, hopper_numba.intrinsics; print({opened})"
    run = python(f"{code}; from cuda.core import Device; Device().set_current(); print({opened})", cwd=tmp_path)
    assert run.stdout.split() == ["False", "True"], run.stderr
