"""``lockstep asic``: what is refused, and the whole way in a library made up for tests."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from accel.estimates.technology import load_technology
from accel.machine.loading import load_machine
from asic import gates, library, netlist
from asic.gates import GateCore
from asic.library import Ready, read_library
from asic.netlist import FASTEST_NS, synthesize
from asic.power import NetPrices
from asic.running import MappedCoreError, run_network
from asic.timing import STA
from compiler.errors import RequestError
from compiler.native import BuildError
from fpga.building.tools import YOSYS, find
from lockstep.cli import main
from lockstep.testing.models import DIGITS, DIGITS_FLOAT

CELLS = Path(__file__).parents[1] / "asic" / "cells.lib"
MACHINE = "ecp5-1x2x2"


@pytest.mark.parametrize(("options", "said"), [
    (["--node", "130"], "--node must come with --liberty"),
    (["--liberty", str(CELLS)], "--liberty must come with --node NM"),
    (["--liberty", str(CELLS), "--library", "osu018"], "--liberty must not come with --library"),
    (["--library", "nangate45"], "--library"),
    (["--liberty", "nowhere.lib", "--node", "45"],
     "--liberty nowhere.lib must be a file that can be read: No such file or directory"),
    (["--liberty", str(CELLS), "--node", "130", "--network", "nowhere.onnx"],
     "--network must be a file that exists, not 'nowhere.onnx'"),
    (["--liberty", str(CELLS), "--node", "130", "--network", "nothing"],
     "'nothing' must be a file that exists, or a network"),
])
def test_requests_are_refused(options, said, capsys):
    assert main(["asic", "--machine", MACHINE, *options]) == 2
    assert said in capsys.readouterr().err


def test_missing_programs_and_packages_are_named(monkeypatch, capsys):
    monkeypatch.setitem(library.READY, "osu018", Ready("qflow-tech-osu018", "/nowhere.lib", 180.0))
    assert main(["asic", "--machine", MACHINE]) == 2
    assert "apt install qflow-tech-osu018" in capsys.readouterr().err
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    assert main(["asic", "--machine", MACHINE, "--liberty", str(CELLS), "--node", "130"]) == 2
    assert "apt install opensta" in capsys.readouterr().err


def _has_yosys() -> bool:
    try:
        return bool(find(YOSYS))
    except BuildError:
        return False


def test_a_network_of_the_host_is_refused():
    core: Any = SimpleNamespace(netlist=SimpleNamespace(machine=load_machine(MACHINE)))
    prices: Any = None
    with pytest.raises(RequestError, match="all of it is left to the host"):
        run_network(core, prices, DIGITS_FLOAT, 1)


@pytest.mark.slow
@pytest.mark.skipif(not _has_yosys(), reason="no yosys")
def test_a_netlist_runs_digits_and_a_wrong_one_is_found():
    mapped = synthesize(load_machine(MACHINE), read_library(CELLS, 130.0), FASTEST_NS)
    assert set(mapped.units) >= {"core", "gemm", "vector", "load", "store", "fetch", "acc"}
    core = GateCore(mapped)
    ran = run_network(core, NetPrices(core), DIGITS, 2)
    assert (ran.runs, ran.programs) == (2, 2)
    assert ran.cycles > 2000 and ran.compared > 2000
    used = ran.joined()
    assert used.units["gemm"]["logic"] > 0 and used.units["acc"]["memories"] > 0
    before, module, behind = (mapped.folder / "core.v").read_text().partition("module core_gemm ")
    broken = before + module + behind.replace("  XOR ", "  NAND ", 20)
    assert module and behind.count("  XOR ") > 20
    core.flat = gates.flatten(broken)
    core._tables = gates.Tables(core.flat, core.cells, [
        (cell, shape) for cell in core.flat.cells for shape in mapped.shapes
        if cell.kind == shape.name], core._ports)
    with pytest.raises(MappedCoreError, match="must do what its machine does"):
        run_network(core, NetPrices(GateCore(mapped)), DIGITS, 1)


@pytest.mark.slow
@pytest.mark.skipif(not (_has_yosys() and shutil.which(STA)), reason="no yosys or no OpenSTA")
def test_the_whole_way(tmp_path, capsys):
    technology, report, folder = (tmp_path / name for name in ("own.toml", "r.json", "netlist"))
    assert main(["asic", "--machine", MACHINE, "--liberty", str(CELLS), "--node", "130", "-o",
                 str(technology), "--json", str(report), "--netlist", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "pre-layout" in said and "bytes of memory as declared" in said
    figures = json.loads(report.read_text())
    units = figures["units"]
    assert sum(unit["share"] for unit in units.values()) == pytest.approx(1)
    assert figures["area_mm2"] == pytest.approx(sum(
        unit["logic_um2"] + unit["memory_um2"] for unit in units.values()) * 1e-6)
    assert figures["mhz"] == pytest.approx(1e3 / max(
        unit["period_ns"] or 0 for unit in units.values()), rel=1e-3)
    own = load_technology(technology)
    assert own.has == {"silicon", "clock", "energy", "leakage"}
    assert own.mhz == pytest.approx(figures["mhz"], rel=1e-4)
    assert {path.name for path in folder.iterdir()} == {"core.v", "cells.v", "macros.v",
                                                        "macros.lib"}
    assert main(["run", "digits", "--target", f"accel:{MACHINE}", "--technology",
                 str(technology)]) == 0
    assert "own" in capsys.readouterr().out


def test_memories_become_macros_where_they_fit():
    def cell(**changed: str) -> dict:
        numbers = {"SIZE": "1000000", "WIDTH": "100000", "RD_PORTS": "1", "WR_PORTS": "1",
                   "RD_CLK_ENABLE": "1", "WR_CLK_ENABLE": "1", "RD_TRANSPARENCY_MASK": "0",
                   "RD_WIDE_CONTINUATION": "0", "OFFSET": "0", "INIT": "xx"}
        return {"type": "$mem_v2", "parameters": numbers | changed, "connections": {
            "WR_EN": [7] * 8 + [8] * 24, "RD_CLK": [2], "WR_ADDR": [*range(10, 16)],
            "WR_DATA": [*range(20, 52)], "RD_EN": [3], "RD_ADDR": [*range(60, 66)],
            "RD_DATA": [*range(70, 102)]}}

    def replaced(one: dict) -> tuple[list, dict]:
        design = {"modules": {"core": {"cells": {"m": one}}}}
        return list(netlist._replace_memories(design)), design["modules"]["core"]["cells"]["m"]

    shapes, made = replaced(cell())
    assert [(shape.rows, shape.bits, shape.part) for shape in shapes] == [(64, 32, 1)]
    assert made["type"] == shapes[0].name and made["connections"]["w_en"] == [7] * 8 + [8] * 24
    whole = cell()
    whole["connections"]["WR_EN"] = [7] * 16 + [8] * 16
    shapes, made = replaced(whole)
    assert shapes[0].part == 16 and made["connections"]["w_en"] == [7, 8]
    for changed in ({"RD_PORTS": "10"}, {"RD_CLK_ENABLE": "0"}, {"INIT": "01"}, {"SIZE": "1000"},
                    {"RD_TRANSPARENCY_MASK": "1"}):
        shapes, kept = replaced(cell(**changed))
        assert not shapes and kept["type"] == "$mem_v2"
