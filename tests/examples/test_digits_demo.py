"""The main job, on few images and the smallest machine."""

import sys

from examples.digits import demo


def test_demo_finds_both_simulators_equal(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["demo", "--config", "tiny-1x4x4", "--images", "4"])
    assert demo.main() == 0
    out = capsys.readouterr().out
    assert "4 of 4 images" in out and "accuracy, int8, RTL" in out
    assert all(layer in out for layer in ("conv1", "add", "pool", "average", "dense"))


def test_demo_reports_a_difference(monkeypatch, capsys):
    """A wrong simulator does not go unnoticed."""
    real = demo._infer
    calls = []

    def wrong(module, image):
        logits, runs = real(module, image)
        calls.append(module)
        return (logits + 1 if len(calls) == 6 else logits), runs

    monkeypatch.setattr(demo, "_infer", wrong)
    monkeypatch.setattr(sys, "argv", ["demo", "--config", "tiny-1x4x4", "--images", "2"])
    assert demo.main() == 1
    assert "1 of 2 images" in capsys.readouterr().out
