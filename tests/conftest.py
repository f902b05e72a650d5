"""Skips the tests marked `gpu` where there is no Hopper GPU."""

import pytest

from hopper_numba.device import why_no_hopper


def pytest_collection_modifyitems(items):
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = why_no_hopper() if marked else ""
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"needs a Hopper GPU: {reason}"))


def pytest_terminal_summary(terminalreporter):
    reasons = {
        report.longrepr[2]
        for report in terminalreporter.stats.get("skipped", [])
        if "Hopper GPU" in str(report.longrepr)
    }
    count = sum("Hopper GPU" in str(report.longrepr) for report in terminalreporter.stats.get("skipped", []))
    for reason in reasons:
        terminalreporter.write_line(f"{count} tests were {reason[0].lower()}{reason[1:]}")


@pytest.fixture
def environment(monkeypatch):
    """Sets variables that `interpreter.active` reads once."""
    from hopper_numba.interpreter import settings

    def choose(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        settings.environment.cache_clear()

    yield choose
    monkeypatch.undo()
    settings.environment.cache_clear()
