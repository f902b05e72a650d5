"""The architecture's rules, read from the source: imports go one way, and few files know llvmlite."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted([*ROOT.glob("intrinsics/**/*.py"), *ROOT.glob("hopper_numba/**/*.py")])

# who may import llvmlite and the inside of Numba's compiler: a port to Numba's successor touches these
KNOWS_NUMBA = {
    "intrinsics/ptx.py",
    "intrinsics/types.py",
    "intrinsics/accumulators.py",
    "intrinsics/addresses.py",
    "intrinsics/operands.py",
    "hopper_numba/compile.py",
    "hopper_numba/fingerprint.py",
    "hopper_numba/jit.py",
    "hopper_numba/objects.py",
}
INSIDE = (
    "llvmlite",
    *(f"numba.cuda.{name}" for name in ("cgutils", "compiler", "core", "cudadecl", "cudaimpl", "cudadrv")),
    *(f"numba.cuda.{name}" for name in ("descriptor", "extending", "typeconv", "typing")),
)

LAYERS = [
    ("intrinsics",),
    ("objects", "shared", "interpreter", "device", "fingerprint", "diagnosis", "residency"),
    ("roles",),
    ("pipeline",),
    ("stand_ins",),
    ("findings",),
    ("streams",),
    ("arrays",),
    ("copies",),
    ("kinds",),
    ("compile", "tensor_map"),
    ("arguments",),
    ("jit",),
    ("stages", "gemm"),
    ("matmul_checks",),
    ("matmul",),
    ("measuring",),
    ("bench", "check", "demo", "doctor", "reference", "tune", "__main__", "__init__"),
]


def imported(path):
    """The modules that a file imports at any depth, by absolute name."""
    package = ["hopper_numba", *path.relative_to(ROOT).with_suffix("").parts[:-1]]
    if package[1:2] == ["hopper_numba"]:
        package = package[1:]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def layer(name):
    """The layer of a module below hopper_numba, or None."""
    part = name.split(".")[1] if name.startswith("hopper_numba.") else None
    return next((i for i, members in enumerate(LAYERS) if part in members), None)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    relative = path.relative_to(ROOT).with_suffix("")
    name = ".".join(relative.parts if relative.parts[0] == "hopper_numba" else ("hopper_numba", *relative.parts))
    own = layer(name)
    assert own is not None, f"{relative} belongs to no layer"
    above = {found for found in imported(path) if (layer(found) or 0) > own}
    assert not above


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_few_files_know_the_inside_of_numba(path):
    known = {found for found in imported(path) if found.startswith(INSIDE)}
    assert not known or str(path.relative_to(ROOT)) in KNOWS_NUMBA
