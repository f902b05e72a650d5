"""`hopper-numba doctor`: what this machine has, what it lacks and the command that mends it.

Nothing but the standard library and `packaging` is imported before a check runs, and a check that fails is a line of
the report: the doctor is for machines on which something is broken.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from hopper_numba.device import describe, find_gpus, why_no_hopper

DISTRIBUTION = "hopper-numba"
LIBRARIES = {"libNVVM": "nvvm", "nvJitLink": "nvJitLink", "NVRTC": "nvrtc", "CUDA runtime": "cudart"}
PROGRAMS = ("nvdisasm", "cuobjdump")


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes
    ----------
    name : str
        What was looked for.
    value : str
        What was found, or why nothing was.
    ok : bool
        False if the interpreter or the compiler cannot do without it.
    mend : str
        The command that mends it; empty if there is nothing to mend.
    """

    name: str
    value: str
    ok: bool = True
    mend: str = ""


def check_packages() -> list[Finding]:
    """Compare the versions of Python and of every dependency with what the package declares."""
    distribution = metadata.distribution(DISTRIBUTION)
    python = platform.python_version()
    wanted = distribution.metadata["Requires-Python"]
    supported = SpecifierSet(wanted).contains(python)
    findings = [
        Finding("python", python if supported else f"{python}, needs {wanted}", ok=supported),
        Finding(DISTRIBUTION, distribution.version),
    ]
    requirements = [Requirement(text) for text in distribution.requires or ()]
    return findings + [_check_package(requirement) for requirement in requirements if requirement.marker is None]


def check_toolkit() -> list[Finding]:
    """Look for the parts of the CUDA toolkit that compiling and disassembling need."""
    from cuda import pathfinder

    mend = _pip_install(f"{DISTRIBUTION}[cu{_toolkit_major()}]")
    findings = []
    for name, library in LIBRARIES.items():
        try:
            path = pathfinder.load_nvidia_dynamic_lib(library).abs_path
            findings.append(Finding(name, path or "loaded"))
        except pathfinder.DynamicLibNotFoundError:
            findings.append(Finding(name, "missing", ok=False, mend=mend))
    try:
        findings.append(Finding("libdevice", pathfinder.find_bitcode_lib("device")))
    except pathfinder.BitcodeLibNotFoundError:
        findings.append(Finding("libdevice", "missing", ok=False, mend=mend))
    for program in PROGRAMS:
        path = pathfinder.find_nvidia_binary_utility(program)
        missing = Finding(program, "missing, needed to show SASS", mend=_pip_install(f"nvidia-cuda-{program}"))
        findings.append(Finding(program, path) if path else missing)
    return findings


def check_gpus() -> list[Finding]:
    """Report the driver and its GPUs. Their absence is no error: there is the interpreter."""
    gpus, why_none = find_gpus()
    if why_none:
        return [Finding("GPU", f"none: {why_none}")]
    return [_check_driver(), *(Finding(f"GPU {index}", describe(gpu)) for index, gpu in enumerate(gpus))]


def check_uses() -> list[Finding]:
    """Try what people come for: the interpreter, the compiler, a Hopper GPU."""
    mend = _pip_install("--upgrade", f"{DISTRIBUTION}[cu{_toolkit_major()}]")
    findings = []
    for name, attempt in {"interpreter": _import_interpreter, "compiler": _compile_empty_kernel}.items():
        try:
            attempt()
            findings.append(Finding(name, "works"))
        except Exception as error:  # whatever it is, it is what the report has to say
            findings.append(Finding(name, f"broken: {type(error).__name__}: {error}", ok=False, mend=mend))
    none = "none: HOPPER_NUMBA_INTERPRET=1 runs kernels in the interpreter"
    return [*findings, Finding("Hopper GPU", none if why_no_hopper() else "usable")]


SECTIONS: dict[str, Callable[[], list[Finding]]] = {
    "Versions": check_packages,
    "CUDA toolkit": check_toolkit,
    "Driver and GPUs": check_gpus,
    "What works": check_uses,
}


def main(argv: Sequence[str] = ()) -> int:
    """Print the report.

    Parameters
    ----------
    argv : sequence of str
        Arguments; there are none but ``--help``.

    Returns
    -------
    int
        0 if the interpreter and the compiler have all they need, else 1. A missing GPU is reported, and no error.
    """
    parser = argparse.ArgumentParser(prog="hopper-numba doctor", description="Say what this machine has and lacks.")
    parser.parse_args(argv)
    findings = []
    for title, check in SECTIONS.items():
        print(title)
        for finding in _run(title, check):
            findings.append(finding)
            print(f"  {finding.name:<17}{finding.value}")
    mends = dict.fromkeys(finding.mend for finding in findings if finding.mend)
    if mends:
        print("To mend it", *mends, sep="\n  ")
    return 0 if all(finding.ok for finding in findings) else 1


def _run(title: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return check()
    except ImportError as error:
        return [Finding(title.lower(), f"cannot be read: {error}", ok=False)]


def _check_package(requirement: Requirement) -> Finding:
    mend = _pip_install(f"{requirement.name}{requirement.specifier}")
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return Finding(requirement.name, "missing", ok=False, mend=mend)
    if requirement.specifier.contains(version, prereleases=True):
        return Finding(requirement.name, version)
    return Finding(requirement.name, f"{version}, needs {requirement.specifier}", ok=False, mend=mend)


def _check_driver() -> Finding:
    from cuda.core import system

    cuda = system.get_user_mode_driver_version()
    value = f"{_driver_release()}, CUDA {'.'.join(map(str, cuda))}"
    if cuda[0] >= _toolkit_major():
        return Finding("driver", value)
    # Not `ok=False`: what is compiled here may run elsewhere.
    return Finding(
        "driver",
        f"{value}, too old for the kernels of the installed CUDA {_toolkit_major()}",
        mend=_pip_install(f"{DISTRIBUTION}[cu{cuda[0]}]"),
    )


def _driver_release() -> str:
    from cuda.core import system

    try:
        return ".".join(map(str, system.get_kernel_mode_driver_version()))
    except Exception:  # NVML may be missing where CUDA works
        return "of unknown release"


def _toolkit_major() -> int:
    try:
        return Version(metadata.version("cuda-bindings")).major
    except metadata.PackageNotFoundError:
        return 13


def _import_interpreter() -> None:
    importlib.import_module("greenlet")
    importlib.import_module("hopper_numba.interpreter")


def _compile_empty_kernel() -> None:
    """Go the way every kernel goes: LTO-IR from libNVVM, a cubin from nvJitLink. Parts that do not fit fail here."""
    from hopper_numba.compile import compile_anew

    def empty() -> None:
        return

    compile_anew(empty, (), threads=32, min_blocks=1, fastmath=False)


def _pip_install(*arguments: str) -> str:
    return shlex.join([sys.executable, "-m", "pip", "install", *arguments])
