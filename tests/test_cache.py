"""The disk cache: what changes a kernel changes its key, and processes share the folder safely."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from numba import cuda

from hopper_numba import SharedLayout, tile
from hopper_numba.fingerprint import Unknown, fingerprint
from hopper_numba.intrinsics import mbarrier, ptx, warp
from hopper_numba.intrinsics.operands import u32


def made(source, **names):
    """The function `kernel` of a piece of source."""
    namespace = {"cuda": cuda, "mbarrier": mbarrier, "warp": warp, "np": np, **names}
    exec(textwrap.dedent(source), namespace)
    return namespace["kernel"]


HELPED = """
    @cuda.jit(device=True)
    def helper(x):
        return x {operation} 1

    def kernel(x):
        x[0] = helper(x[1])
"""


def test_the_same_source_has_the_same_key():
    assert fingerprint(made(HELPED.format(operation="+"))) == fingerprint(made(HELPED.format(operation="+")))


def test_a_helpers_edit_changes_the_key():
    assert fingerprint(made(HELPED.format(operation="+"))) != fingerprint(made(HELPED.format(operation="-")))


def test_a_helpers_helper_counts():
    def outer(operation):
        source = HELPED.format(operation=operation).replace(
            "def kernel(x)", "@cuda.jit(device=True)\n    def middle(x)"
        )
        return (
            source.replace("x[0] = helper(x[1])", "return helper(x)")
            + "\n    def kernel(x):\n        x[0] = middle(x[1])\n"
        )

    assert fingerprint(made(outer("+"))) != fingerprint(made(outer("-")))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (3, 4),
        (3, 3.0),
        ((1, 2), (1, 3)),
        (np.arange(3), np.arange(1, 4)),
        (np.arange(3), np.arange(3.0)),
        (np.float32, np.float64),
        (SharedLayout(a=tile("float16", (64, 64))), SharedLayout(a=tile("float16", (64, 64), 64))),
        (mbarrier.wait, mbarrier.init),
    ],
)
def test_captured_values_count(first, second):
    source = "def kernel(x): x[0] = captured"
    assert fingerprint(made(source, captured=first)) != fingerprint(made(source, captured=second))

    def closed_over(value):
        def kernel(x):
            x[0] = value

        return kernel

    assert fingerprint(closed_over(first)) != fingerprint(closed_over(second))
    assert fingerprint(closed_over(first)) == fingerprint(closed_over(first))


def test_what_a_module_is_asked_for_counts():
    assert fingerprint(made("def kernel(x): x[0] = warp.lane_index()")) != fingerprint(
        made("def kernel(x): x[0] = warp.warp_index()")
    )


def test_a_users_own_instruction_counts():
    def declared(text):
        @ptx(text, threads="any", pure="a constant")
        def constant() -> u32:
            """A constant."""
            return len("x")

        from hopper_numba.intrinsics import REGISTRY

        del REGISTRY[constant.name]
        return made("def kernel(x): x[0] = constant()", constant=constant)

    assert fingerprint(declared("mov.u32 {result}, 1;")) != fingerprint(declared("mov.u32 {result}, 2;"))


def test_options_and_signature_count():
    kernel = made(HELPED.format(operation="+"))
    assert len({fingerprint(kernel, 128), fingerprint(kernel, 256), fingerprint(kernel, 128, True)}) == 3


def test_what_cannot_be_told_is_not_cached():
    with pytest.raises(Unknown, match="whose content is unknown"):
        fingerprint(made("def kernel(x): x[0] = captured", captured=object()))


PROGRAM = """
    import sys, time
    from numba import cuda
    from numba.cuda import types
    from hopper_numba import jit
    import hopper_numba.compile as route

    compiled = []
    plain = route._compile
    route._compile = lambda *args: compiled.append(1) or plain(*args)

    OFFSET = {offset}

    @cuda.jit(device=True)
    def helper(x):
        return x + OFFSET

    @jit(threads=32)
    def kernel(x):
        x[cuda.threadIdx.x] = helper(x[0])

    result = kernel.compile((types.Array(types.float32, 1, "C"),))
    print(len(compiled), len(result.cubin), result.resources.registers)
"""


def start(folder, offset=1):
    path = folder / f"program{offset}.py"
    path.write_text(textwrap.dedent(PROGRAM.format(offset=offset)))
    environment = {**os.environ, "HOPPER_NUMBA_CACHE_DIR": str(folder / "cache")}
    return subprocess.Popen([sys.executable, path], env=environment, stdout=subprocess.PIPE, text=True)


def finish(process):
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return output.split()


def test_processes_share_an_empty_cache(tmp_path):
    results = [finish(process) for process in [start(tmp_path), start(tmp_path)]]
    assert results[0][1:] == results[1][1:]
    again = finish(start(tmp_path))
    assert again == ["0", *results[0][1:]]
    assert finish(start(tmp_path, offset=2))[0] == "1"
    assert not list(Path(tmp_path, "cache").rglob("*.tmp"))
