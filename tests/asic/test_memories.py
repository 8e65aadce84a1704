"""Memories as macros: what they take, by the memories that others publish, and what they do."""

import re
from pathlib import Path

import numpy as np
import pytest

from asic import liberty
from asic.library import read_library
from asic.memories import (Macros, MacroShape, _least_squares, liberty_text, processes,
                           verilog_text)

CELLS = Path(__file__).with_name("cells.lib")


def test_published_memories_are_met():
    """Mean errors are as the fit leaves them; a table that was spoiled would not fit."""
    at_45, at_130 = processes()
    assert max(at_130.errors.values()) < 0.1
    assert at_45.errors["time"] < 0.06 and at_45.errors["area"] < 0.17
    assert at_130.at("area", MacroShape(256, 64, 64)) == pytest.approx(93180, rel=0.03)
    assert at_130.at("time", MacroShape(2048, 64, 64)) == pytest.approx(5.39, rel=0.1)


def test_more_bits_take_more():
    for process in processes():
        for form in ("area", "time", "read", "write", "leakage"):
            sizes = [process.at(form, MacroShape(rows, 32, 32)) for rows in (16, 64, 256, 1024)]
            assert sizes == sorted(sizes) and sizes[0] > 0


def test_least_squares_has_nothing_below_zero():
    rng = np.random.default_rng(3)
    for _ in range(20):
        design = rng.normal(size=(12, 3))
        found = _least_squares(design)
        assert found.min() >= 0
        left = ((design @ found - 1) ** 2).sum()
        for step in 1e-3 * np.eye(3):
            for moved in (found + step, np.maximum(found - step, 0)):
                assert ((design @ moved - 1) ** 2).sum() >= left - 1e-12


def test_other_processes_are_scaled(monkeypatch):
    cells = read_library(CELLS, 130.0)
    same, twice = Macros.of(cells), Macros.of(read_library(CELLS, 260.0))
    shape = MacroShape(256, 32, 8)
    one, other = same.macro(shape), twice.macro(shape)
    assert other.area_um2 == pytest.approx(4 * one.area_um2)
    assert other.access_ns == pytest.approx(2 * one.access_ns)
    assert other.read_pj == pytest.approx(2 * one.read_pj)
    assert one.read_pj == pytest.approx(same.process.at("read", shape) * (2.0 / 1.2) ** 2)
    assert "scaled" in twice.source and "scaled" not in same.source
    assert Macros.of(read_library(CELLS, 40.0)).process.node_nm == 45


def test_liberty_of_macros_says_what_they_take():
    cells = read_library(CELLS, 130.0)
    macros, shape = Macros.of(cells), MacroShape(64, 32, 8)
    library = liberty.parse(liberty_text(cells, macros, [shape, shape], 0.001))
    (cell,) = library.of("cell")
    macro = macros.macro(shape)
    assert cell.name == shape.name == "ram_64x32_8"
    assert cell.number("area") == pytest.approx(macro.area_um2, rel=1e-4)
    widths = {bus.name: bus.values["bus_type"] for bus in cell.of("bus")}
    assert widths == {"r_addr": f"{shape.name}_6", "w_addr": f"{shape.name}_6",
                      "w_en": f"{shape.name}_4", "w_data": f"{shape.name}_32",
                      "r_data": f"{shape.name}_32"}
    (leaving,) = [bus for bus in cell.of("bus") if bus.name == "r_data"]
    rise = next(next(leaving.of("timing")).of("cell_rise"))
    assert float(rise.values["values"]) == pytest.approx(macro.access_ns, rel=1e-4)
    (wires,) = library.of("wire_load")
    assert wires.number("capacitance") == 0.001


def test_small_memories_are_no_macros():
    assert not MacroShape(16, 26, 26).is_macro and not MacroShape(4, 512, 32).is_macro
    assert MacroShape(16, 64, 64).is_macro


def test_verilog_of_macros():
    text = verilog_text([MacroShape(64, 32, 8)], body=True)
    assert len(re.findall(r"if \(w_en\[\d\]\)", text)) == 4
    assert "blackbox" in verilog_text([MacroShape(64, 32, 8)], body=False)
