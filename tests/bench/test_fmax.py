"""The clock of the core: what needs no tools, and refusals."""

import json

import pytest
from amaranth.back import rtlil

from accel.config import preset
from accel.hw.parts import ECP5
from accel.machine import Machine
from bench import fmax

MACHINE = Machine(preset("tiny-1x4x4"))


def test_harness_leaves_nothing_open_and_takes_primitives():
    harness = fmax.Harness(MACHINE)
    text = rtlil.convert(harness, name="top", emit_src=False, platform=ECP5())
    for kind in ("DP16KD", "MULT18X18D"):
        assert f"cell \\{kind}" in text
    inputs = 1 + 1 + 32 + 4 * 32        # rst, start, count, bases; then the memory port
    assert harness.registers > inputs + MACHINE.config.bus_bytes * 8


@pytest.mark.parametrize("cell, unit", [
    ("core.load.front.walking_TRELLIS_FF_Q", "load.front"), ("core.tokens.x", "tokens"),
    ("core.vector.datapath.s0_add1$slice", "vector.datapath"), ("core.status_TRELLIS_FF_Q", "core"),
    ("seen_done_TRELLIS_FF_Q", "harness")])
def test_cells_are_of_units(cell, unit):
    assert fmax._unit(cell) == unit


def test_a_report_becomes_a_placement(monkeypatch, tmp_path):
    def steps(*path):
        return [{"delay": delay, "to": {"cell": cell}} for cell, delay in path]

    report = {
        "fmax": {"$glbnet$clk": {"achieved": 101.234, "constraint": 125.0}},
        "utilization": {cell: {"used": 1000, "available": 2000} for cell in fmax.CELLS.values()},
        "critical_paths": [
            {"from": "<async>", "to": "posedge $glbnet$clk", "path": []},
            {"from": "posedge $glbnet$clk", "to": "posedge $glbnet$clk", "path": steps(
                ("core.load.front.a", 0.5), ("core.load.front.b", 1.25), ("core.arbiter.c", 2.0))}]}
    (tmp_path / "report.json").write_text(json.dumps(report))
    monkeypatch.setattr(fmax, "build_once", lambda *_: tmp_path)
    tools = object.__new__(fmax.Tools)
    tools.versions = "none", "none"
    found = fmax.place(tmp_path, 3, tools, 100)
    assert (found.seed, found.mhz, found.registers, found.luts) == (3, 101.23, 900, 1000)
    assert found.path == (("load.front", 1.75), ("arbiter", 2.0))


@pytest.mark.parametrize("arguments, message", [
    (["--config", "nope"], "bench.fmax: Preset must be one of "),
    (["--native"], "bench.fmax: nextpnr-ecp5 must be there for place and route: install it")])
def test_wrong_requests(monkeypatch, capsys, arguments, message):
    monkeypatch.setattr("sys.argv", ["fmax", *arguments])
    monkeypatch.setenv("PATH", "")
    assert fmax.main() == 2
    assert capsys.readouterr().err.startswith(message)


def test_seeds_are_limited(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fmax", "--seeds", "6"])
    with pytest.raises(SystemExit, match="^2$"):
        fmax.main()
    assert "invalid choice: 6" in capsys.readouterr().err
