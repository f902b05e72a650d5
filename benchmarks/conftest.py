"""Benchmarks need a Hopper GPU and Torch, whose products are cuBLAS's."""

import pytest

from hopper_numba.device import why_no_hopper


@pytest.fixture(autouse=True)
def hopper():
    pytest.importorskip("torch", reason="cuBLAS is called through Torch: pip install hopper-numba[bench]")
    if reason := why_no_hopper():
        pytest.skip(f"needs a Hopper GPU: {reason}")


def pytest_benchmark_update_machine_info(config, machine_info):
    if not why_no_hopper():
        from hopper_numba.measuring.board import environment

        machine_info["gpu"] = environment()
