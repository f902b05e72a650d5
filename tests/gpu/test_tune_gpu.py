"""`hopper-numba tune` on a GPU, with few candidates and small matrices."""

import pytest

from hopper_numba import tune
from hopper_numba.device import default_device, require_hopper
from hopper_numba.matmul import STAGES
from hopper_numba.stages.config import Config, Space, read_choices

pytestmark = pytest.mark.gpu


def test_the_fastest_candidate_is_written(monkeypatch, tmp_path, capsys):
    for package in ("torch", "tqdm", "pynvml"):
        pytest.importorskip(package, reason="pip install 'hopper-numba[bench]'")
    narrow, wide, spilling = Config((64, 8, 64)), Config((64, 128, 64)), Config((128, 128, 64), blocks=4)
    monkeypatch.setattr(STAGES["v0"], "SPACE", Space(tile=((64, 64, 64), spilling.tile), blocks=(4,)))
    monkeypatch.setattr(STAGES["v1"], "SPACE", Space(tile=(narrow.tile, wide.tile)))
    path = tmp_path / "choices.json"
    assert tune.main(["--size", "2048", "1024", "1024", "--stages", "v0", "v1", "-o", str(path)]) == 0
    said = capsys.readouterr().out
    assert f"{spilling}: registers spill" in said
    assert "the only one left" in said and "chosen" in said
    # tiles of 8 columns multiply several times slower, so noise does not decide
    choices = {"v0": Config((64, 64, 64), blocks=4), "v1": wide}
    assert read_choices(path) == {require_hopper(default_device()).name: choices}
