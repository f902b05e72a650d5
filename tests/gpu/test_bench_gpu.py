"""`hopper-numba bench` on a GPU: small products, hardly a pause."""

import functools
import json
import time

import pytest

pytest.importorskip("torch", reason="cuBLAS is called through Torch: pip install hopper-numba[bench]")
pytest.importorskip("pynvml", reason="the board is read through NVML: pip install hopper-numba[bench]")

pytestmark = pytest.mark.gpu


@pytest.fixture
def quick(monkeypatch):
    from hopper_numba import bench
    from hopper_numba.measuring import timing

    monkeypatch.setattr(bench, "COOLDOWN", 0.01)
    monkeypatch.setattr(timing, "SUSTAINED_SECONDS", 0.05)
    return bench.main


def test_the_rows_of_a_small_size(quick, tmp_path, capsys):
    path = tmp_path / "results.json"
    sizes = [(1024, 2048, 512), (200, 264, 136)]
    arguments = [word for size in sizes for word in ("--size", *map(str, size))]
    assert quick(["--repeat", "1", "--json", str(path), *arguments]) == 0, capsys.readouterr().out
    found = json.loads(path.read_text())
    from hopper_numba.matmul import STAGES

    for size in sizes:
        rows = {row["name"]: row for row in found["rows"] if (row["m"], row["n"], row["k"]) == size}
        assert {*STAGES, "cublas-fp16"} <= rows.keys()
        for row in rows.values():
            assert row["tflops"] > 0 and row["sustained_ratio"] > 0 and row["sustained_state"]["watts"] > 0
            assert row["state"]["sm_mhz"] < 1.02 * found["environment"]["max_sm_mhz"]
            assert row["state"]["sm_mhz"] > 0.1 * found["environment"]["max_sm_mhz"]
            assert row["ratios"] == [row["ratio"]]
            assert 0 < row["mean_error"] <= row["p99_error"] <= row["max_error"]
            if row["accumulate"] == "float16":
                unit = row["unit_variance"]
                assert unit["max_error"] < row["max_error"]
    assert found["environment"]["board"] and found["environment"]["versions"]["torch"]


def test_a_wrong_stage_is_not_timed(quick, tmp_path, monkeypatch, capsys):
    import hopper_numba

    right = hopper_numba.matmul_v1

    def wrong(a, b, out):
        right(a, b, out=out)
        out[3, 5] += 1

    path = tmp_path / "results.json"
    monkeypatch.setattr(hopper_numba, "matmul_v1", wrong)
    arguments = ["--repeat", "1", "--stages", "v1", "v0", "--size", "256", "256", "256", "--json", str(path)]
    assert quick(arguments) == 1
    rows = {row["name"]: row for row in json.loads(path.read_text())["rows"]}
    assert "max_error" in rows["v1"]["wrong"] and "tflops" not in rows["v1"]
    assert "tflops" in rows["v0"]
    assert "WRONG, not timed" in capsys.readouterr().out


def test_errors_are_those_of_the_whole_matrix():
    """Slabs, the last of them short, and the poison where nothing is written."""
    import torch

    from hopper_numba.measuring.problem import SLAB, Problem

    problem = Problem(2 * SLAB + 3, 64, 40, torch.float16)
    exact = problem.a.double() @ problem.b.double()
    torch.testing.assert_close(problem.exact, exact)
    off = torch.arange(exact.numel(), device="cuda").reshape(exact.shape).fmod(100)

    def copy():
        problem.exact = torch.zeros_like(exact)
        problem.out.copy_(off)

    assert problem.errors(copy) == {
        "max_error": 99.0,
        "mean_error": pytest.approx(off.double().mean().item()),
        "p99_error": pytest.approx(98.0, abs=1),
    }
    found = problem.errors(lambda: None)
    assert all(value != value for value in found.values())


def test_unit_variance(quick):
    import torch

    from hopper_numba.measuring.problem import Problem

    exact = Problem(512, 512, 1024, torch.float16).unit_variance.exact
    assert exact.std().item() == pytest.approx(1, rel=0.02)


def test_cublas_accumulates_in_float16_only_for_the_peer():
    import torch

    from hopper_numba.measuring.contenders import contender
    from hopper_numba.measuring.problem import Problem

    problem = Problem(512, 512, 8192, torch.float16)
    multiply = functools.partial(contender("cublas-fp16").multiply, problem.a, problem.b, out=problem.out)
    assert problem.errors(multiply)["mean_error"] > 2 * problem.cublas_errors["mean_error"]
    assert not torch.backends.cuda.matmul.allow_fp16_accumulation


def test_the_clock_is_what_nvml_says_of_a_board_that_draws_little():
    import torch

    from hopper_numba.measuring import board, clock

    clock.sm_mhz()
    torch.cuda._sleep(10**9)  # cycles of one multiprocessor: half a second
    time.sleep(0.3)
    known = board.state()["sm_mhz"]
    assert clock.sm_mhz() == pytest.approx(known, rel=0.02)
