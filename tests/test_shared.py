"""SharedLayout: offsets, alignment, barriers apart from tiles, and what is refused."""

import itertools

import numpy as np
import pytest

from hopper_numba import SharedLayout, barriers, tile


def test_tiles_come_first_and_aligned_barriers_behind():
    layout = SharedLayout(
        full=barriers(3), a=tile("float16", (3, 64, 64)), bias=tile("float32", (4,)), b=tile("int8", (8, 128))
    )
    assert layout.offsets == {"a": 0, "bias": 24576, "b": 25600, "full": 26624}
    assert layout.nbytes == 26624 + 24


def test_no_barrier_lies_in_a_tile():
    rng = np.random.default_rng(0)
    for _ in range(50):
        members = {}
        for i in range(rng.integers(1, 8)):
            shape = (int(rng.integers(1, 5)), 8 * int(rng.integers(1, 9)), 64)
            members[f"m{i}"] = barriers(int(rng.integers(1, 9))) if rng.random() < 0.4 else tile("float16", shape)
        layout = SharedLayout(**members)
        taken = sorted((layout.offsets[n], layout.offsets[n] + m.nbytes) for n, m in members.items())
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(taken))
        assert all(layout.offsets[n] % m.alignment == 0 for n, m in members.items())


def test_equal_content_is_equal():
    assert SharedLayout(a=tile("float16", (64, 64))) == SharedLayout(a=tile(np.float16, (64, 64)))
    assert SharedLayout(a=tile("float16", (64, 64))) != SharedLayout(a=tile("float16", (64, 64), 64))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a": 4}, r"a must be a tile\(…\), barriers\(…\) or a Pipeline; got 4"),
        ({"open": barriers()}, "'open' cannot be a member's name"),
        ({"_a": barriers()}, "'_a' cannot be a member's name"),
        *(({name: barriers()}, f"'{name}' cannot be") for name in ("base", "description", "address", "part")),
    ],
)
def test_refusals(members, message):
    with pytest.raises((TypeError, ValueError), match=message):
        SharedLayout(**members)
