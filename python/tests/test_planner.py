import doctest
import json
import math

import pytest

import saddle
from saddle import planner


def test_doctests():
    results = doctest.testmod(planner)
    assert results.attempted > 0 and results.failed == 0


def test_sizes_and_compute():
    assert saddle.plan("50M") == saddle.plan(50e6) == saddle.plan(50_000_000)
    by_compute = saddle.plan(flops=6e19, tokens="10B")
    assert by_compute["params"] == pytest.approx(1e9)
    best = by_compute["recommended"]
    assert math.log(12 * best["depth_continuous"]) + 2 * (5.039 + 0.0555 * best["depth_continuous"]) == pytest.approx(
        math.log(1e9), abs=1e-9)
    assert saddle.plan("50M", multiple=8)["recommended"]["width"] == 456


def test_where_a_shape_stands():
    gpt3 = saddle.plan(depth=96, width=12288)
    assert gpt3["given"]["regime"] == -1 and gpt3["recommended"]["depth"] == 80
    assert gpt3["theory"]["threshold"] == pytest.approx(math.log(12288, 3))
    assert saddle.plan(depth=12, width=768)["given"]["regime"] == 1


def test_configs(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "bert", "num_hidden_layers": 28, "hidden_size": 768}))
    found = saddle.plan(config=config)
    assert found["model"]["model"] == "bert" and found["given"]["depth"] == 28
    assert any("decoder-only" in note for note in found["notes"])
    (tmp_path / "config.toml").write_text("[model]\nname = 'language_model'\ndepth = 6\nwidth = 512\n")
    assert saddle.plan(config=tmp_path)["given"]["width"] == 512  # the folder of a run


def test_wrong_requests():
    with pytest.raises(ValueError, match="nothing to plan from"):
        saddle.plan()
    with pytest.raises(ValueError, match="depth must be a whole number from 1 to .*, found 0"):
        saddle.plan(depth=0)
    with pytest.raises(ValueError, match="tokens"):
        saddle.plan(flops=1e20)
    with pytest.raises(ValueError, match="lots") as refused:
        saddle.plan("lots")
    assert "--" not in str(refused.value)
    with pytest.raises(OSError):
        saddle.plan(config="missing.json")
