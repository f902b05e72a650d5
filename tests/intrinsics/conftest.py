"""Compiles kernels the way the product does, every time."""

import re

import pytest

from hopper_numba import compile as product


@pytest.fixture
def compile_kernel(monkeypatch):
    """As the product's, without its disk cache; findings of ptxas fail the test."""
    monkeypatch.setattr(product, "disk_cache", lambda: None)
    return product.compile_kernel


@pytest.fixture
def machine_code():
    """The instructions of a compiled kernel, one a line."""
    return lambda compiled: "\n".join(re.findall(r"^ +/\*[0-9a-f]{4,}\*/ +(.*?) *;", compiled.sass, re.MULTILINE))
