"""Each bug is reported under every schedule, at its lines and with what to add; without it nothing is."""

import re

import pytest
from bugs import BUGS
from findings import findings

SEEDS = range(4)


def run(bug, fixed, seed):
    return findings(
        bug.build(fixed), bug.args(), bug.shared, bug.threads, seed=seed, grid=bug.blocks, cluster=bug.cluster
    )


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.build.__name__)
def test_is_reported(bug):
    for seed in SEEDS:
        first = run(bug, False, seed)[0]
        text = str(first)
        assert first.kind == bug.kind, text
        assert first.is_error
        assert re.search(bug.says, text), text
        marked = bug.lines("(1)") + bug.lines("(2)")
        assert first.line in bug.lines("(2)"), text
        for line in marked:
            assert re.search(rf"{re.escape(first.filename)}:{line}\b", text), (line, text)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.build.__name__)
def test_without_it_is_clean(bug):
    for seed in SEEDS:
        assert not run(bug, True, seed)
