"""``lockstep run`` on hardware that the cycle simulator was not made for, and with --sim slice."""

import json
import re
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_timeline_of_what_the_slice_runs(monkeypatch, tmp_path):
    """Stalls of layers, the trace and the page are those of the cycle simulator."""
    layers, traces, pages = [], [], []
    for recorded in (made_for.recorded(), "another"):
        monkeypatch.setattr(made_for, "recorded", lambda recorded=recorded: recorded)
        told(tmp_path / "a.json", "--trace", str(tmp_path / "t.json"), "--report",
             str(tmp_path / "page.html"))
        layers.append(json.loads((tmp_path / "a.json").read_text())["layers"])
        traces.append((tmp_path / "t.json").read_text())
        pages.append((tmp_path / "page.html").read_text())
    assert layers[0] == layers[1] and any(layer["stalls"] for layer in layers[0])
    assert traces[0] == traces[1]
    figures = [json.loads(text) for page in pages
               for text in re.findall(r'id="figures"[^>]*>(.*?)</script>', page, re.S)]
    assert figures[0]["timeline"] == figures[1]["timeline"]


@pytest.mark.slow
def test_a_page_of_a_machine_with_a_unit_of_its_own(tmp_path):
    told(tmp_path / "a.json", "--machine", "examples/machines/running_max.py", "--report",
         str(tmp_path / "page.html"), "--trace", str(tmp_path / "t.json"))
    names = {event["args"]["name"] for event in json.loads(
        (tmp_path / "t.json").read_text())["traceEvents"] if event["name"] == "process_name"}
    assert "peaks" in names and "peaks" in (tmp_path / "page.html").read_text()
