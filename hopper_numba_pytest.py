"""hopper_numba's plugin for pytest: the fixture `hazard_check`.

pytest imports it in every run where hopper_numba is installed, so it imports nothing of it before a test asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


@pytest.fixture
def hazard_check() -> Callable[..., list[Any]]:
    """Call a function that launches kernels once for each of several seeds, and fail with a report of the hazards.

    Its kernels are interpreted, plain ``cuda.jit`` ones too, and no GPU is needed::

        def test_scale(hazard_check):
            def launch():
                x = cuda.to_device(np.ones(64, np.float32))
                scale[1, 64](x, 2)
                np.testing.assert_array_equal(x.copy_to_host(), 2)

            hazard_check(launch)

    `hazard_check` takes the function, its arguments, and as `seeds` a number of seeds from 0 on, 8 unless given, or the
    seeds themselves; it returns a list of the `HazardError` that the PTX manual leaves undecided.
    """
    from hopper_numba.findings import Findings

    def check(function: Callable, *args: Any, seeds: int | Iterable[int] = 8, **kwargs: Any) -> list[Any]:
        __tracebackhide__ = True
        findings = Findings()
        try:
            for seed in range(seeds) if isinstance(seeds, int) else seeds:
                findings.run(lambda: function(*args, **kwargs), seed)
        except Exception:  # which may come of a hazard
            if not findings.errors:
                raise
        if findings.errors:
            pytest.fail(findings.report(), pytrace=False)
        if not findings.launches:
            pytest.fail(f"hazard_check: {function!r} launched no kernel", pytrace=False)
        return [finding.error for finding in findings.undecided]

    return check
