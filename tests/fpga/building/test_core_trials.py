"""Trials of cores: what tools make of them, the FPGA that has room, and failures, with stand-ins
for the tools. `tests.lockstep.test_explore_cores` has the real ones.
"""

import json
import sys
from pathlib import Path

import pytest

from accel.machine.config import preset
from accel.machine.machine import Machine
from compiler.native import BuildError
from fpga.building import bare_core, core_trials, flow
from fpga.building.bare_core import smallest
from fpga.building.core_trials import CoreTrial, run_core
from fpga.building.tools import Tool, Tools
from runtime.exploring.cores import BuiltCore
from runtime.tuning.kinds import run_text

MACHINE = Machine(preset("tiny-1x4x4"))
CELLS = {"core.load.a": "LUT4", "core.load.b": "CCU2C", "core.inp.c": "DP16KD",
         "core.gemm.d": "MULT18X18D", "core.gemm.e": "TRELLIS_FF", "chain": "TRELLIS_FF"}
TAKEN = {"luts": 3, "registers": 1, "multipliers": 1, "block_rams": 1}

NEXTPNR = """#!{python}
import json, sys
open({calls!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')
given = dict(zip(sys.argv, sys.argv[1:]))
path = {{'from': 'posedge $glbnet$clk', 'to': 'posedge $glbnet$clk', 'path': []}}
json.dump({{'fmax': {{'$glbnet$clk': {{'achieved': 91.234, 'constraint': 100.0}}}},
           'critical_paths': [path],
           'utilization': {{cell: {{'used': 1, 'available': 9}} for cell in {cells!r}}}}},
          open(given['--report'], 'w'))
sys.exit({status})
"""


class Stubs:
    """Stand-ins for yosys, which has made `CELLS`, and for nextpnr, whose calls are kept."""

    def __init__(self, folder: Path):
        self.folder, self.asked = folder, list[str]()
        self.netlist, self.calls = folder / "netlist", folder / "calls"
        self.netlist.mkdir()
        (self.netlist / "top.json").write_text(json.dumps({"modules": {"top": {"cells": {
            name: {"type": kind} for name, kind in CELLS.items()}}}}))
        self.make_nextpnr()

    def make_nextpnr(self, status: int = 0) -> None:
        path = self.folder / "nextpnr"
        path.write_text(NEXTPNR.format(python=sys.executable, calls=str(self.calls), status=status,
                                       cells=list(flow.CELLS.values())))
        path.chmod(0o755)

    def tools(self, *names: str) -> Tools:
        self.asked += names
        made = object.__new__(Tools)
        made.yosys, made.nextpnr = (Tool(str(self.folder / name), f"{name} 1")
                                    for name in ("yosys", "nextpnr"))
        return made


@pytest.fixture
def stubs(monkeypatch, tmp_path) -> Stubs:
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "cache"))
    made = Stubs(tmp_path)
    monkeypatch.setattr(core_trials, "Tools", made.tools)
    monkeypatch.setattr(bare_core, "synthesize", lambda machine, tools: (made.netlist, 1))
    return made


def trial(routed: bool = False, **other: str) -> CoreTrial:
    return CoreTrial(**{"name": "base", "toml": MACHINE.config.to_toml(), "sources": ("",),
                        "machine_hash": MACHINE.hash, "routed": routed} | other)


def test_a_core_has_the_cells_that_yosys_made(stubs):
    """Registers of the harness do not count, and nextpnr is not asked for."""
    core = BuiltCore.of(run_text(trial().text))
    assert core == BuiltCore(TAKEN, ("yosys 1",))
    assert stubs.asked == ["yosys"] and not stubs.calls.exists()
    assert core.error_of("luts", 4) == pytest.approx(1 / 3)


def test_a_routed_core_has_a_clock_on_the_smallest_fpga(stubs):
    seconds, text = run_core(trial(routed=True).text)
    core = BuiltCore.of(run_text(trial(routed=True).text))
    assert core.text == text and seconds > 0
    assert core == BuiltCore(TAKEN | {"mhz": 91.23}, ("yosys 1", "nextpnr 1"), "LFE5U-25F")
    call, = stubs.calls.read_text().splitlines()        # the second time it is in the cache
    assert "--25k --package CABGA381 --speed 6" in call and "--seed 1" in call
    assert run_core(trial(routed=True).text)[0] == 0


def test_what_cannot_be_routed_keeps_its_cells(stubs):
    stubs.make_nextpnr(status=3)
    core = BuiltCore.of(run_text(trial(routed=True).text))
    assert core.figures == TAKEN and not core.device
    assert core.error.startswith("nextpnr failed with status 3")


def test_another_machine_is_no_result(stubs):
    result = run_text(trial(machine_hash="f" * 64).text)
    assert result.value is None and result.error.startswith("The machine is another one here: ")
    assert BuiltCore.of(result).error == result.error and not BuiltCore.of(result).figures


@pytest.mark.parametrize(("more", "device"), [
    ({}, "25k"), ({"luts": 20_000}, "25k"), ({"luts": 21_000}, "45k"), ({"block_rams": 79}, "45k"),
    ({"luts": 40_000}, "85k"), ({"multipliers": 156, "block_rams": 208}, "85k")])
def test_a_core_gets_the_smallest_fpga_with_room(more, device):
    assert smallest(TAKEN | more, "base") == device


def test_a_core_that_no_fpga_has_room_for_is_refused():
    with pytest.raises(BuildError, match="^The core of wide must fit the largest ECP5, which has "
                                         "156 multipliers; it takes 288$"):
        smallest(TAKEN | {"multipliers": 288}, "wide")
