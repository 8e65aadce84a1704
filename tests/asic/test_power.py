"""The energy of a netlist's run, by hand."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asic import liberty
from asic.characters import Characters, CellTable
from asic.gates import NetActivity, flatten
from asic.library import read_library
from asic.memories import Macros, MacroShape
from asic.netlist import WIRE_FF_PER_UM, WIRE_PITCHES, wire_pf
from asic.power import NetPrices

PATH = Path(__file__).with_name("cells.lib")
CELLS = read_library(PATH, 130.0)
GROUPS = {cell.name: cell for cell in liberty.read(PATH).of("cell")}
SHAPE = MacroShape(64, 32, 32)

TEXT = """module core (clk, rst, a, y);
  input clk;
  input rst;
  input a;
  output y;
  wire n1;
  wire q;
  INV g0 (.A(a), .Y(n1));
  DFF q_reg (.CK(clk), .D(n1), .Q(q));
  assign y = q;
endmodule
"""


def core(text: str, memories=()) -> Any:
    flat = flatten(text)
    return SimpleNamespace(
        flat=flat, library=liberty.read(PATH), cells=GROUPS, memories=memories,
        flops=[cell for cell in flat.cells if cell.kind == "DFF"],
        netlist=SimpleNamespace(cells=CELLS, macros=Macros.of(CELLS)))


def test_tables_are_read_between_their_points():
    table = CellTable(np.array([0.1, 0.5]), np.array([1.0, 3.0]),
                      np.array([[1.0, 2.0], [3.0, 6.0]]))

    def at(slew, load):
        return float(table.at(np.array([slew]), np.array([load]))[0])

    assert at(0.1, 1.0) == 1 and at(0.5, 3.0) == 6 and at(0.3, 2.0) == pytest.approx(3)
    assert at(0.0, 0.0) == 1 and at(9.0, 9.0) == 6


def test_characters_are_those_of_the_library():
    known = Characters(liberty.read(PATH), CELLS)
    inverter = known.cells["INV"]
    assert inverter.leakage == pytest.approx(1e-9)
    assert inverter.pins["A"].capacitance == pytest.approx(1e-14)
    slew, load = np.array([0.1e-9]), np.array([0.01e-12])
    assert inverter.pins["Y"].energy(slew, load)[0] == pytest.approx(0.2e-12)     # 0.1 and 0.3 pJ
    assert inverter.pins["Y"].energy(np.array([0.5e-9]), np.array([0.1e-12]))[0] == (
        pytest.approx(0.5e-12))
    assert inverter.pins["Y"].slew(slew, np.array([0.1e-12]))[0] == pytest.approx(0.5e-9)
    assert known.typical_slew == pytest.approx(0.5e-9)


def test_wires_are_as_long_as_the_module_says():
    assert wire_pf(CELLS) == pytest.approx(1e-3 * WIRE_FF_PER_UM * WIRE_PITCHES * 5 ** 0.5)


def test_an_inverter_and_a_flip_flop_by_hand():
    """100 cycles; a changes 10 times, n1 10, q 9. n1 has the D pin of 0.01 pF and a wire."""
    one = core(TEXT)
    flat = one.flat
    changes = np.zeros(flat.nets + 3, np.int64)
    inverter, flop = flat.cells
    changes[inverter.pins["A"][0]] = changes[inverter.pins["Y"][0]] = 10
    changes[flop.pins["Q"][0]] = 9
    used = NetPrices(one).of(NetActivity(100, changes, np.zeros(0), np.zeros(0), np.array([100])))
    wire = wire_pf(CELLS)
    half = 0.5 * 2.0 ** 2                               # pJ for each pF
    load = 0.01 + wire
    # the inverter at its load and at the slew 0.5 ns of an input: 0.3 pJ at 0.01 pF, 0.5 at 0.1 pF
    inside = 0.3 + (load - 0.01) / 0.09 * 0.2
    assert used.units["core"]["logic"] == pytest.approx(1e-12 * 10 * (inside + half * load))
    # D: 0.1 pJ each of 10 changes; Q: 0.6 pJ each of 9, on a net without a pin
    assert used.units["core"]["registers"] == pytest.approx(1e-12 * (10 * 0.1 + 9 * 0.6))
    # the clock: 0.2 and 0.4 pJ a cycle inside, and CV^2 of its pin and wire
    assert used.units["core"]["clock"] == pytest.approx(
        1e-12 * 100 * (0.6 + 2 * half * (0.01 + wire)))
    assert used.leakage_w == {"core": pytest.approx(5e-9)}


def test_a_gated_clock_takes_what_it_moves():
    one = core(TEXT)
    nothing = np.zeros(one.flat.nets + 3, np.int64)
    whole, half = (NetPrices(one).of(NetActivity(100, nothing, np.zeros(0), np.zeros(0),
                                           np.array([cycles]))) for cycles in (100, 50))
    assert half.joules == pytest.approx(whole.joules / 2) and half.joules > 0


def test_a_cell_that_gates_a_clock_has_it_in_every_cycle():
    """Its pin and wire, and what it leaks; GATE has no energies of its own."""
    one = core(TEXT.replace("  DFF q_reg (.CK(clk)", "  GATE own (.CK(clk), .E(a), .GCK(gck));\n"
                                                    "  DFF q_reg (.CK(gck)"))
    nothing = np.zeros(one.flat.nets + 3, np.int64)

    def clock(cycles: int) -> float:
        return NetPrices(one).of(NetActivity(100, nothing, np.zeros(0), np.zeros(0), np.array(
            [cycles]))).units["core"]["clock"]

    edges = 1e-12 * 2.0 ** 2 * (0.01 + wire_pf(CELLS))
    assert clock(0) == pytest.approx(100 * edges)
    assert clock(40) == pytest.approx(100 * edges + 40 * (edges + 0.6e-12))


def test_macros_take_their_accesses():
    pins = ", ".join([".clk(clk)", ".r_en(rst)", ".w_en(rst)", *(
        f".{pin}({{{', '.join(['a'] * width)}}})" for pin, width in (
            ("r_addr", 6), ("w_addr", 6), ("w_data", 32))),
        f".r_data({{{', '.join(f'n{place}' for place in range(32))}}})"])
    flat = flatten(f"module core (clk, rst, a);\n  input clk;\n  input rst;\n  input a;\n"
                   f"  {SHAPE.name} ram ({pins});\nendmodule\n")
    one = core(TEXT)
    one.flat, one.flops, one.memories = flat, [], [(flat.cells[0], SHAPE)]
    used = NetPrices(one).of(NetActivity(10, np.zeros(flat.nets, np.int64), np.array([3]),
                                         np.array([2]), np.zeros(0)))
    macro = one.netlist.macros.macro(SHAPE)
    assert used.units["core"]["memories"] == pytest.approx(
        1e-12 * (3 * macro.read_pj + 2 * macro.write_pj))
    assert used.leakage_w["core"] == pytest.approx(1e-3 * macro.leakage_mw)
