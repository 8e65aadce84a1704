"""The bench that kills commands sees what they leave, and finds nothing."""

import subprocess
import sys

import pytest

from bench.robustness import killed
from bench.robustness.killed import BENCH, HOUSE, JOBS, MARK, Place, _before_ours


def test_leftovers_are_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(killed, "PATIENCE_SECONDS", 0.1)
    place = Place(tmp_path / "place", JOBS["kernels"])
    (place.root / "out.npz").write_text("")
    assert place.leftovers() == []
    (place.root / ".out.npz.1").write_text("")
    (place.root / "cache" / "builds" / "build-kernels-key").mkdir(parents=True)
    (place.root / "tmp" / "cc1.s").write_text("")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE,
                          env={MARK: place.mark}) as process:
        assert place.leftovers() == [f"{sys.executable} -c input() ", ".out.npz.1",
                                     "build-kernels-key", "cc1.s"]
        process.kill()


def test_python_that_is_interrupted_while_it_starts_is_none_of_ours():
    python = 'Traceback (most recent call last):\n  File "/usr/lib/functools.py"\n'
    ours = f'  File "{HOUSE}/lockstep/__main__.py", line 1\n'
    assert _before_ours(f"{python}KeyboardInterrupt\n")
    assert not _before_ours(f"{python}{ours}KeyboardInterrupt\n")
    assert not _before_ours(f"{python}ValueError: wrong\n")


@pytest.mark.slow
def test_kernels(capsys):
    assert BENCH.main(["--only", "kernels", "--kills", "3", "--ends", "1"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert {"killed_wrong 0", "killed_leftovers 0", "ended_wrong 0", "killed_kernels 3",
            "ended_kernels 1", "later_runs_kernels 1"} <= set(said)


@pytest.mark.slow
def test_trainings(capsys):
    assert BENCH.main(["--only", "trainings", "--row", "3"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert {"train_killed_wrong 0", "train_killed_leftovers 0",
            "train_killed_digits 3"} <= set(said)
