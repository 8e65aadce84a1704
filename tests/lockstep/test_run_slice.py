"""``lockstep run`` on hardware that the cycle simulator was not made for, and with --sim slice."""

import json
from pathlib import Path

import pytest

from accel.sim.timed import made_for
from lockstep.cli import main
from lockstep.testing.models import DIGITS

RUN = ["run", str(DIGITS), "--machine", "tiny-1x4x4", "--no-values"]


def told(path: Path, *options: str) -> tuple[str, int]:
    """The simulator and the cycles of a report."""
    assert main([*RUN, "--json", str(path), *options]) == 0
    figures = json.loads(path.read_text())
    return figures["simulator"], figures["cycles"]


def test_other_hardware_runs_on_its_slice_and_says_so(monkeypatch, tmp_path, capsys):
    name, cycles = told(tmp_path / "a.json")
    assert name == "cycle" and "the slice" not in capsys.readouterr().out
    assert told(tmp_path / "b.json", "--sim", "slice") == ("slice", cycles)
    assert "the slice" not in capsys.readouterr().out
    monkeypatch.setattr(made_for, "recorded", lambda: "another")
    assert told(tmp_path / "c.json") == ("slice", cycles)
    assert ("cycles by the slice of the RTL: the cycle simulator was made for another machine"
            in capsys.readouterr().out)


def test_energy_of_what_the_slice_runs(monkeypatch, tmp_path):
    """Counted in words: without what vector reads again while it waits, and all else the same."""
    used = []
    for recorded in (made_for.recorded(), "another"):
        monkeypatch.setattr(made_for, "recorded", lambda recorded=recorded: recorded)
        told(tmp_path / "a.json", "--technology", "45nm")
        used.append(json.loads((tmp_path / "a.json").read_text())["energy"]["units"])
    for unit, joules in used[0].items():
        if unit in ("res", "par", "acc"):
            assert 0.8 * joules < used[1][unit] <= joules, unit
        else:
            assert used[1][unit] == pytest.approx(joules), unit


def test_what_the_slice_does_not_know_is_refused(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(made_for, "recorded", lambda: "another")
    assert main([*RUN, "--report", str(tmp_path / "page.html")]) == 2
    assert capsys.readouterr().err == (
        "lockstep: error: --report must be left out for a machine that the cycle simulator was "
        "not made for: the slice of its RTL has cycles and counters alone\n")
