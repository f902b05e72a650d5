"""The disk cache: what changes a kernel changes its key, and processes share the folder safely."""

import enum
import os
import subprocess
import sys
import textwrap
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numba import cuda
from numba.cuda import types
from numba.cuda.extending import intrinsic, overload

import hopper_numba.compile as route
from hopper_numba import SharedLayout, jit, tile
from hopper_numba.fingerprint import Unknown, fingerprint
from hopper_numba.intrinsics import mbarrier, ptx, warp
from hopper_numba.intrinsics.operands import u32


def made(source, **names):
    """The function `kernel` of a piece of source."""
    namespace = {"cuda": cuda, "mbarrier": mbarrier, "warp": warp, "np": np, **names}
    exec(textwrap.dedent(source), namespace)
    return namespace["kernel"]


def twice(x):
    return x + x


def constant(n):
    """A user's intrinsic that is `n`."""

    @intrinsic
    def number(typingctx):
        return types.int64(), lambda context, builder, sig, args: context.get_constant(types.int64, n)

    return number


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
        (enum.IntEnum("Colour", {"RED": 1}), enum.IntEnum("Colour", {"RED": 2})),
        (frozenset({"a", "b"}), frozenset({"a", "c"})),
        (((7, 2), (3,)), ((7,), (2, 3))),
        (namedtuple("Pair", "x y")(1, 2), namedtuple("Pair", "y x")(1, 2)),
        (constant(1), constant(2)),
        (cuda.jit(device=True)(twice), cuda.jit(device=True, fastmath=True)(twice)),
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


def test_members_of_modules_in_modules_count():
    def nested(value):
        outer, inner = ModuleType("outer"), ModuleType("inner")
        outer.inner, inner.deepest = inner, ModuleType("deepest")
        inner.deepest.X = value
        return made("def kernel(x): x[0] = outer.inner.deepest.X", outer=outer)

    assert fingerprint(nested(1)) != fingerprint(nested(2))
    assert fingerprint(nested(1)) == fingerprint(nested(1))


def test_defaults_count():
    def kernel(x, n=1):
        x[0] = n

    first = fingerprint(kernel)
    kernel.__defaults__ = (2,)
    assert fingerprint(kernel) != first


@pytest.mark.parametrize("captured", [object(), type("Mine", (), {"x": 1})], ids=["object", "class"])
def test_what_cannot_be_told_is_not_cached(captured):
    with pytest.raises(Unknown, match="whose content is unknown"):
        fingerprint(made("def kernel(x): x[0] = captured", captured=captured))


def test_overloads_are_not_cached():
    def stub(x):
        """Overloaded."""

    @overload(stub)
    def of_stub(x):
        return lambda x: x + 1

    with pytest.raises(Unknown, match=r"overloads of .*stub"):
        fingerprint(made("def kernel(x): x[0] = stub(x[1])", stub=stub))


def test_a_user_without_a_home_has_a_cache_where_it_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert route._user_cache() == tmp_path
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.delenv("HOPPER_NUMBA_CACHE_DIR", raising=False)
    route.disk_cache.cache_clear()
    with pytest.warns(route.CacheWarning, match="no home"):
        assert route.disk_cache() is None
    route.disk_cache.cache_clear()


def test_keys_do_not_depend_on_the_process(tmp_path):
    path = tmp_path / "keyed.py"
    path.write_text(
        "from hopper_numba.fingerprint import fingerprint\n"
        "names = frozenset({'a', 'b', 'c'})\n"
        "def helper(x=len): return x in {'p', 'q', 'r'}\n"
        "def kernel(x): x[0] = 'a' in names or helper()\n"
        "print(fingerprint(kernel))\n"
    )
    keys = [
        subprocess.check_output([sys.executable, path], env={**os.environ, "PYTHONHASHSEED": seed}, text=True)
        for seed in "12"
    ]
    assert keys[0] == keys[1]


@jit(threads=32)
def one(x):
    x[0] = 1


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache folder of the test's own."""
    monkeypatch.setenv("HOPPER_NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    route.disk_cache.cache_clear()
    yield tmp_path / "cache"
    route.disk_cache.cache_clear()


VECTOR = types.Array(types.float32, 1, "C")


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"x" * 99])
def test_a_damaged_entry_is_compiled_again(cache, damage, monkeypatch):
    compiled, plain = [], route.compile_anew
    monkeypatch.setattr(route, "compile_anew", lambda *args: compiled.append(args) or plain(*args))
    route.compile_kernel(one.py_func, (VECTOR,), 32)
    (entry,) = [path for path in cache.rglob("*") if path.is_file() and path.stat().st_size > 1000]
    entry.write_bytes(damage(entry.read_bytes()))
    assert route.compile_kernel(one.py_func, (VECTOR,), 32).resources.registers > 0
    assert len(compiled) == 2
    route.compile_kernel(one.py_func, (VECTOR,), 32)
    assert len(compiled) == 2, "the entry was mended"


def test_a_folder_that_cannot_be_made_is_a_warning(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOPPER_NUMBA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    route.disk_cache.cache_clear()
    with pytest.warns(route.CacheWarning, match="kernels are not cached on disk"):
        assert route.compile_kernel(one.py_func, (VECTOR,), 32).cubin
    route.disk_cache.cache_clear()


PROGRAM = """
    import sys, time
    from numba import cuda
    from numba.cuda import types
    from hopper_numba import jit
    import hopper_numba.compile as route

    compiled = []
    plain = route.compile_anew
    route.compile_anew = lambda *args: compiled.append(1) or plain(*args)

    OFFSET = {offset}

    @cuda.jit(device=True)
    def helper(x):
        return x + OFFSET

    @jit(threads=32)
    def kernel(x):
        x[cuda.threadIdx.x] = helper(x[0])

    result = kernel.compile((types.Array(types.float32, 1, "C"),))
    print(len(compiled), len(result.cubin), result.resources.registers, "numba.cuda.vector_types" in sys.modules)
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
    # what is in the cache needs none of Numba's own functions, which take a while to load
    assert again == ["0", *results[0][1:3], "False"]
    assert finish(start(tmp_path, offset=2))[0] == "1"
    assert not list(Path(tmp_path, "cache").rglob("*.tmp"))
