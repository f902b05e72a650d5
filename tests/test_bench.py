"""`hopper-numba bench` without a GPU: what is asked of it, what it makes of measurements, and the picture."""

import json
import math
import sys

import numpy as np
import pytest
from matplotlib.image import imread

from hopper_numba import bench, interpret
from hopper_numba.measuring import clock, ncu
from hopper_numba.measuring.plot import plot
from hopper_numba.measuring.report import markdown
from hopper_numba.measuring.results import FLOAT16_LIMITS, Timing, figures, line, why_wrong

BURST, SUSTAINED = {"sm_mhz": 1900.0}, {"sm_mhz": 1500.0, "watts": 690.0}


def row(name, tflops, cublas_tflops=800.0, accumulate="float32", size=(8192, 8192, 8192)):
    """A row made of three bursts and three sustained runs, the middle one of this speed."""
    made = {"name": name, **dict(zip("mnk", size, strict=True)), "dtype": "float16", "accumulate": accumulate}
    errors = {"max_error": 0.25, "mean_error": 0.0125, "p99_error": 0.1}
    made |= errors | {f"cublas_{name}": error for name, error in errors.items()}
    for prefix, state in (("", BURST), ("sustained_", SUSTAINED)):
        cublas = Timing(1 / cublas_tflops, state)
        laps = [(cublas, Timing(1 / (tflops * factor), state), cublas) for factor in (0.9, 1.0, 1.1)]
        made |= figures(prefix, lambda seconds: 1 / seconds, laps)
    return made


def results(*rows):
    environment = {"board": "NVIDIA H200", "power_limit_watts": 700.0, "driver": "580", "commit": "abc"}
    environment |= dict.fromkeys(("burst", "sustained", "clocks"), "as they are")
    return {"environment": environment, "rows": list(rows)}


# Arguments ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stages", "v99"], "invalid choice: 'v99'"),
        (["--size", "8192", "8192"], "expected 3 arguments"),
        (["--size", "8192", "8190", "8192"], "N and K positive multiples of 8; got 8192 8190 8192"),
        (["--size", "0", "8", "8"], "M must be positive"),
        (["--dtype", "float32"], "invalid choice: 'float32'"),
        (["--repeat", "0"], "--repeat must be at least 1; got 0"),
        (["--json", "nowhere/results.json"], "--json: there is no folder nowhere"),
        (["--json", "/"], "--json: / cannot be written"),
        (["--plot", "picture.xyz"], "--plot: the picture's name must end with .png or .svg or .pdf; got picture.xyz"),
        (["--size", "99999999999", "8", "8"], "M, N and K must be at most"),
        (["--plot", "nowhere/picture.png"], "--plot: there is no folder nowhere"),
        (["--from", "nowhere.json"], "--from: there is no file nowhere.json"),
        *(
            (["--from", "nowhere.json", *others], "only --size and --plot go with it")
            for others in (["--ncu"], ["--stages", "v0"], ["--repeat", "2"], ["--dtype", "bfloat16"], ["--commit", "x"])
        ),
    ],
)
def test_arguments_that_mean_nothing_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        bench.main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[1", "{}", "[]", '{"environment": {}, "rows": [{"name": "v0"}]}'])
def test_a_file_without_results_is_refused(text, tmp_path, capsys):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(SystemExit) as stop:
        bench.main(["--from", str(tmp_path / "results.json")])
    assert stop.value.code == 2
    assert "has no results of this command" in capsys.readouterr().err


def test_a_stage_that_does_not_take_the_dtype_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(bench, "dtypes_of", lambda stage: (bench.NAMES["float16"],))
    with pytest.raises(SystemExit):
        bench.main(["--stages", "v1", "--dtype", "bfloat16"])
    assert "v1 multiplies float16; got --dtype bfloat16" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reason", "message"), [("no usable CUDA driver", "it needs a Hopper GPU: no usable CUDA driver")]
)
def test_without_a_gpu_it_says_so(monkeypatch, capsys, reason, message):
    monkeypatch.setattr(bench, "why_no_hopper", lambda: reason)
    with pytest.raises(SystemExit) as stop:
        bench.main([])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_interpreted_it_says_so(environment, capsys):
    environment(HOPPER_NUMBA_INTERPRET="1")
    with pytest.raises(SystemExit):
        bench.main([])
    assert "unset HOPPER_NUMBA_INTERPRET" in capsys.readouterr().err


def test_a_missing_package_is_named(monkeypatch, capsys):
    monkeypatch.setattr(bench, "why_no_hopper", lambda: "")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SystemExit) as stop:
        bench.main([])
    assert stop.value.code == 2
    assert "it needs torch: pip install 'hopper-numba[bench]'" in capsys.readouterr().err


# Verdicts -------------------------------------------------------------------------------------------------------------

CUBLAS = {"max_error": 0.25, "mean_error": 0.0125, "p99_error": 0.1}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, ""),
        ({"max_error": 0.2524, "mean_error": 0.0126}, ""),
        ({"max_error": 0.2526}, "max_error 0.253, more than 0.253"),
        ({"mean_error": 0.0127}, "mean_error 0.0127, more than 0.0126"),
        ({"max_error": math.nan, "mean_error": math.nan}, "max_error nan"),
        ({"max_error": math.inf}, "max_error inf"),
    ],
)
def test_float32_accumulators_are_no_less_accurate_than_cublas(changed, reason):
    found = why_wrong("float32", CUBLAS | changed, CUBLAS, (8192, 8192, 8192))
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


@pytest.mark.parametrize("name", FLOAT16_LIMITS)
@pytest.mark.parametrize(
    ("k", "factor", "is_right"),
    [
        *((8192, 0.99, True), (8192, 1.01, False), (8192, math.nan, False)),
        *((32768, 1.98, True), (32768, 2.01, False)),
        *((2048, 0.50, True), (2048, 0.52, False)),
        *((8, 0.09, True), (8, 0.10, False)),
    ],
)
def test_float16_accumulators_keep_what_is_published(name, k, factor, is_right):
    good = dict.fromkeys(FLOAT16_LIMITS, 0.0)
    spread = 1.5 if name == "max_error" and k != 8192 else 1.0
    found = why_wrong("float16", good | {name: FLOAT16_LIMITS[name] * factor * spread}, {}, (8192, 8192, k))
    assert (found == "") == is_right
    assert is_right or name in found


def test_the_largest_error_of_other_outputs_is_another():
    """What cuBLAS and V6 leave at 10240 x 10240 x 10240, to the last digit; and one sum of theirs that is wrong."""
    right = {"max_error": 0.06425, "mean_error": 0.002605, "p99_error": 0.01249}
    assert why_wrong("float16", right, {}, (10240, 10240, 10240)) == ""
    assert why_wrong("float16", right, {}, (8192, 8192, 8192))
    assert "max_error" in why_wrong("float16", right | {"max_error": 0.1}, {}, (10240, 10240, 10240))


# Rows -----------------------------------------------------------------------------------------------------------------


def test_a_ratio_is_to_the_two_runs_of_cublas_around_it():
    def lap(*seconds):
        return tuple(Timing(second, {"sm_mhz": 1000.0 + second, "watts": 500.0}) for second in seconds)

    laps = [lap(1, 1, 3), lap(3, 2, 3), lap(3, 4, 6)]
    found = figures("sustained_", lambda seconds: 12 / seconds, laps)
    assert found == {
        "sustained_ratio": 1.5,
        "sustained_ratios": [2.0, 1.5, 1.125],
        "sustained_tflops": 6.0,
        "sustained_tflops_range": [3.0, 12.0],
        "sustained_state": {"sm_mhz": 1002.0, "watts": 500.0},
        "cublas_sustained_tflops": 4.0,
        "cublas_sustained_tflops_range": [2.0, 12.0],
        "cublas_sustained_state": {"sm_mhz": 1003.0, "watts": 500.0},
    }


def test_a_row_has_the_keys_that_readers_rely_on():
    assert {
        *("name", "m", "n", "k", "dtype", "accumulate", "tflops", "cublas_tflops", "ratio", "sustained_ratio"),
        *("max_error", "mean_error"),
    } <= row("v0", 400.0).keys()


def test_the_line_of_a_row():
    made = row("v6", 880.0)
    words = line(made).split()
    assert words == [
        *("v6", "8192", "x", "8192", "x", "8192", "880", "1.100", "0.990", "to", "1.210"),
        *("1900", "1.100", "1500", "690", "0.25", "0.0125"),
    ]
    assert "nan" in line(made | {"max_error": None})


def test_the_line_of_a_wrong_row_says_why():
    assert line({"name": "v3", "m": 1, "n": 8, "k": 8, "wrong": "max_error nan, more than 0.2"}).endswith(
        "WRONG, not timed: max_error nan, more than 0.2"
    )


def names_in(printed):
    """The first words of the rows below the titles, which stand below what the table is of."""
    head, table = printed.split("\n\n")
    assert head.startswith("NVIDIA H200, 700 W, driver 580, commit abc\n")
    titles, *rows = table.splitlines()
    assert titles.startswith("name")
    return [text.split()[0] for text in rows]


def test_results_are_read_printed_and_drawn_again(tmp_path, capsys):
    source, picture = tmp_path / "results.json", tmp_path / "picture.png"
    source.write_text(json.dumps(results(row("v0", 400.0), row("triton", 790.0))))
    assert bench.main(["--from", str(source), "--plot", str(picture)]) == 0
    assert names_in(capsys.readouterr().out) == ["v0", "triton"]
    assert picture.stat().st_size


def test_some_sizes_of_results_are_read_again(tmp_path, capsys):
    source = tmp_path / "results.json"
    source.write_text(json.dumps(results(row("v0", 400.0), row("v1", 500.0, size=(4096, 4096, 14336)))))
    assert bench.main(["--from", str(source), "--size", "4096", "4096", "14336"]) == 0
    assert names_in(capsys.readouterr().out) == ["v1"]


def test_sizes_that_results_have_not_are_refused(tmp_path, capsys):
    source = tmp_path / "results.json"
    source.write_text(json.dumps(results(row("v0", 400.0))))
    with pytest.raises(SystemExit) as stop:
        bench.main(["--from", str(source), "--size", "8", "16", "24"])
    assert stop.value.code == 2
    assert f"--size: {source} has no rows of [8, 16, 24]" in capsys.readouterr().err


def test_a_wrong_row_makes_the_exit_status_1(tmp_path, capsys):
    source = tmp_path / "results.json"
    source.write_text(json.dumps(results({"name": "v0", "m": 8, "n": 8, "k": 8, "wrong": "max_error nan"})))
    assert bench.main(["--from", str(source), "--plot", str(tmp_path / "picture.png")]) == 1
    assert not (tmp_path / "picture.png").exists()
    assert "--plot: no row was timed" in capsys.readouterr().out


def test_cycles_are_counted_for_a_while():
    counted = np.zeros(2, np.int64)
    with interpret():
        clock.count[1](counted)
    cycles, nanoseconds = counted
    assert clock.WHILE <= nanoseconds < clock.WHILE + 1000
    assert cycles > 0


# The README's tables -------------------------------------------------------------------------------------------------


def test_a_table_says_what_is_wrong_what_is_missing_and_what_is_no_number():
    other = (4096, 4096, 4096)
    wrong = {"name": "v1", "m": 8192, "n": 8192, "k": 8192, "wrong": "max_error nan"}
    rows = [
        *(row("v0", 400.0) | {"max_error": None}, wrong | {"max_error": 3.0, "mean_error": None}),
        *(row("v0", 600.0, size=other), row("triton", 700.0, size=other)),
        wrong | dict.fromkeys("mnk", 4096) | {"name": "v6"},
    ]
    lines = markdown(results(*rows)).splitlines()
    assert [text for text in lines if text.startswith("| V1 |")] == [
        "| V1 | the tensor cores read shared memory themselves | wrong |  |  |  | 3 | nan |",
        "| V1 | wrong |  |",
    ]
    assert any(text.startswith("| V0 |") and text.endswith("| nan | 0.013 |") for text in lines)
    assert "| Triton, persistent with TMA |  | 0.88 |" in lines
    assert "| V6 |  | wrong |" in lines


def test_a_table_of_wrong_rows_alone():
    wrong = {"name": "v1", "m": 8, "n": 8, "k": 8, "wrong": "", "max_error": 3.0, "mean_error": 1.0}
    assert "| cuBLAS |" not in markdown(results(wrong))
    assert markdown(results()) == "nothing was measured"


# The picture ----------------------------------------------------------------------------------------------------------


def test_the_picture_has_the_bars_the_lines_and_their_figures(tmp_path):
    path = tmp_path / "ladder.svg"
    rows = [row("v0", 412.0), row("v6", 851.0, accumulate="float16"), row("v1", 604.0, size=(4096, 4096, 14336))]
    plot(results(*rows), path)
    drawn = path.read_text()
    wanted = ("v0", "412", "v6", "851", "604", "cuBLAS 800", "published peak 989")
    titles = [f"NVIDIA H200, {size}, float16" for size in ("8192 × 8192 × 8192", "4096 × 4096 × 14336")]
    assert [text for text in (*wanted, *titles) if f"<!-- {text}" not in drawn] == []


def test_the_same_results_make_the_same_picture(tmp_path):
    pictures = [tmp_path / "a.png", tmp_path / "b.png"]
    for picture in pictures:
        plot(results(row("v0", 412.0)), picture)
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    assert b"Software" not in pictures[0].read_bytes()
    assert len({tuple(pixel) for pixel in imread(pictures[0]).reshape(-1, 4)}) > 10


def test_nothing_timed_is_nothing_to_plot(tmp_path):
    with pytest.raises(ValueError, match="no row was timed"):
        plot(results(), tmp_path / "a.png")


# Nsight Compute -------------------------------------------------------------------------------------------------------

STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
NCU_TITLES = (
    *("ID", "Process ID", "Kernel Name", "Device", *ncu.TENSOR_PIPE[:2], ncu.DRAM[1], ncu.REGISTERS),
    *(STALLED.format(reason) for reason in ("gmma", "barrier", "selected", "wait", "wait_not_issued")),
)
NCU_UNITS = ("", "", "", "", "%", "%", "%", "register/thread", *("warp",) * 5)
NCU_V6 = ("0", "77", "v6/matmul_v6", "0", "0", "93.25", "20.5", "90", "3.5", "0.25", "1", "1,234.5", "7000")
# a range's name comes before the kernel's, whose own may have slashes as well
NCU_CUBLAS = (
    "1",
    "77",
    "cublas/nvjet_sm90_hsh_128x256_64x4_2x1_v_bz_coopA_NNT/x",
    "0",
    "93.5",
    "94",
    "n/a",
    "168",
    "1",
    "2",
    "1",
    "3",
    "7000",
)


def ncu_output(*rows):
    lines = ["==PROF== Connected to process 77 (/usr/bin/python3)", "a line of the program"]
    lines += [",".join(f'"{cell}"' for cell in cells) for cells in (NCU_TITLES, NCU_UNITS, *rows)]
    return "\n".join([*lines[:2], '==PROF== Profiling "v6": 0%....100% - 9 passes', *lines[2:], ""])


def test_what_nsight_compute_prints_is_read():
    launches = ncu.parse(ncu_output(NCU_V6, NCU_CUBLAS))
    assert ncu.summary(launches["v6"]) == {
        "tensor_pipe_percent": 93.25,  # the first is zero
        "dram_percent": 20.5,
        "registers": 90,
        "stalls": {"wait": 1234.5, "gmma": 3.5, "barrier": 0.25},
    }
    cublas = ncu.summary(launches["cublas"])
    assert "dram_percent" not in cublas
    assert list(cublas["stalls"]) == ["wait", "barrier", "gmma"]
    assert ncu.line("cublas", cublas).split(maxsplit=1)[1] == (
        "tensor pipe 94%, registers 168; warps stalled at an issue: wait 3.0, barrier 2.0, gmma 1.0"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "may not read the GPU's performance"),
        ("==PROF== Connected\n==ERROR== The application returned an error code (1).", "application returned"),
    ],
)
def test_what_nsight_compute_complains_of_is_told(text, message):
    with pytest.raises(RuntimeError, match=message):
        ncu.parse(text)


@pytest.fixture
def fake_ncu(tmp_path, monkeypatch):
    """A program `ncu` on PATH that lists these metrics, prints this when it profiles, and notes its arguments."""

    def make(listed, printed, status=0):
        (tmp_path / "listed").write_text("\n".join(f"{name}   Counter   %" for name in listed))
        (tmp_path / "printed").write_text(printed)
        tool = tmp_path / "ncu"
        tool.write_text(
            f'#!/bin/sh\nif [ "$1" = --query-metrics ]; then cat {tmp_path}/listed; exit 0; fi\n'
            f'echo "$@" > {tmp_path}/arguments; cat {tmp_path}/printed; exit {status}\n'
        )
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        return tmp_path / "arguments"

    return make


def test_only_metrics_that_are_there_are_asked_for(fake_ncu):
    gmma, again = (STALLED.format(reason).removesuffix(".ratio") for reason in ("gmma", "gmma_not_issued"))
    arguments = fake_ncu(["sm__pipe_tensor_cycles_active", "dram__bytes", gmma, again], ncu_output(NCU_V6))
    found = ncu.profile(["v6"], (256, 512, 64), "float16")
    assert found["v6"]["registers"] == 90
    words = arguments.read_text().split()
    assert words[words.index("--metrics") + 1].split(",") == [ncu.TENSOR_PIPE[1], f"{gmma}.ratio", ncu.REGISTERS]
    assert words[-5:] == ["256", "512", "64", "float16", "v6"]


@pytest.mark.parametrize(
    ("listed", "printed", "status", "message"),
    [
        (["sm__pipe_tensor_cycles_active"], ncu_output(NCU_V6), 0, "names no launch of v0, only of v6"),
        (["sm__pipe_tensor_cycles_active"], "no such driver", 3, "ended with status 3: no such driver"),
        (["dram__bytes"], "", 0, "has none of the metrics"),
    ],
)
def test_when_nsight_compute_says_nothing_of_a_launch(fake_ncu, listed, printed, status, message):
    fake_ncu(listed, printed, status)
    with pytest.raises(RuntimeError, match=message):
        ncu.profile(["v6", "v0"], (256, 256, 64), "float16")


def test_nsight_compute_is_looked_for(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(SystemExit):
        bench.main(["--ncu"])
    assert "neither on PATH nor" in capsys.readouterr().err
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ncu").touch(mode=0o755)
    assert ncu.find() == str(tmp_path / "bin/ncu")
