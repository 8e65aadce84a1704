"""Technology files that `lockstep asic` writes: areas, and energies by two factors."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from accel.estimates.area import area
from accel.estimates.energy import energy
from accel.estimates.memories import memory_shapes
from accel.estimates.silicon import silicon_area
from accel.estimates.tables import PowerLaw
from accel.estimates.technology import load_technology, technology_of
from accel.figures.accesses import AccessProfile
from accel.machine.loading import load_machine
from accel.sim.timed import cycle
from asic.library import read_library
from asic.memories import Macros, MacroShape
from asic.netlist import UnitCells
from asic.power import Used
from asic.technology import GROUPS, _scaled, fit
from asic.timing import SlowestPath
from fpga.verilog.memories import memories_of
from fpga.verilog.netlist import core_verilog
from lockstep.testing.models import DIGITS
from runtime import SimulatedDevice, compile_for
from runtime.exporting.ports import random_inputs

MACHINE = load_machine("tiny-1x4x4")
PATH = Path(__file__).with_name("cells.lib")
CELLS = read_library(PATH, 130.0)
FIFO = MacroShape(64, 89, 89)


def netlist(node_nm: float = 130.0) -> Any:
    """A netlist as large as the estimates say, with one more macro."""
    macros = Macros.of(read_library(PATH, node_nm))
    shapes = Counter({MacroShape(rows, bits, bits): count
                      for (rows, bits), count in memory_shapes(MACHINE).items()})
    shapes[FIFO] += 1
    memory = sum(macros.macro(shape).area_um2 * count for shape, count in shapes.items())
    return SimpleNamespace(
        machine=MACHINE, cells=CELLS, macros=macros, shapes=shapes,
        units={"core": UnitCells(1, 5.0 * area(MACHINE).gates.value, memory, 1)})


@pytest.fixture(scope="module")
def profile() -> AccessProfile:
    found = []

    def simulate(machine, program, memory):
        run = cycle.simulate(machine, program, memory)
        found.append(AccessProfile.of(machine, program, run))
        return run

    module = compile_for(DIGITS, SimulatedDevice(MACHINE, simulate))
    module(random_inputs(module.graph, 0))
    return AccessProfile.joined(found)


def used(profile: AccessProfile, operations: float, registers: float) -> Used:
    """Energies of a netlist whose operations and registers take so many times those of 45 nm."""
    own = load_technology("45nm")
    assert own.energies is not None
    bare = replace(own.energies, clock_pj=0.0, leakage=None, dram_pj=0.0, row_pj=0.0,
                   sram=PowerLaw((1.0,), (0.0,)))
    units = energy(profile, MACHINE, replace(
        own, energies=_scaled(bare, operations, registers))).units
    rest = sum(units.values()) - sum(units[group] for group in GROUPS)
    parts = {"registers": 0.0, "clock": 1e-9, "memories": 0.0}
    return Used(profile.totals()["cycles"], {
        **{group: {"logic": units[group], **parts} for group in GROUPS},
        "control": {"logic": rest, **parts}}, {"core": 1e-3})


def test_factors_are_found(profile):
    path = SlowestPath(8.0, "load/a_reg", "gemm/b_reg", {"gemm": 8.0})
    fitted = fit("own", netlist(), path, used(profile, 20.0, 60.0), [profile])
    own = technology_of(fitted.text)
    assert own.has == {"silicon", "clock", "energy", "leakage"} and own.energies is not None
    assert own.energies.add.pj[0] == pytest.approx(20 * 0.03, rel=1e-3)
    assert own.energies.write_pj == pytest.approx(60 * 0.00794, rel=1e-3)
    assert max(abs(error) for error in fitted.errors.values()) < 1e-3
    assert own.mhz == pytest.approx(125.0)
    assert own.energies.dram_pj == 20.3


def test_a_factor_is_never_below_zero(profile):
    """Registers that take nothing, and the whole is met as well as it may be."""
    path = SlowestPath(8.0, "a", "b", {"gemm": 8.0})
    fitted = fit("own", netlist(), path, used(profile, 20.0, 0.0), [profile])
    own = technology_of(fitted.text)
    assert own.energies is not None and 0 <= own.energies.write_pj < 1e-4
    assert abs(fitted.errors["whole"]) < 1e-2


@pytest.mark.parametrize("node_nm", [130.0, 45.0])      # at 45 nm a memory has no area besides
def test_areas_are_those_of_the_netlist(profile, node_nm):
    path = SlowestPath(8.0, "a", "b", {"gemm": 8.0})
    mapped = netlist(node_nm)
    own = technology_of(fit("own", mapped, path, used(profile, 1.0, 1.0), [profile]).text)
    assert own.silicon is not None
    found = silicon_area(MACHINE, own.silicon)
    (unit,) = mapped.units.values()
    assert found.logic.value == pytest.approx(unit.logic_um2 * 1e-6, rel=1e-4)
    assert found.memories.value == pytest.approx(unit.memory_um2 * 1e-6, rel=1e-4)
    assert own.silicon.rest_um2 == pytest.approx(mapped.macros.macro(FIFO).area_um2, rel=1e-3)
    other = load_machine("ecp5-1x8x8")
    wanted = own.silicon.rest_um2 + sum(
        mapped.macros.macro(MacroShape(rows, bits, bits)).area_um2 * count
        for (rows, bits), count in memory_shapes(other).items())
    assert silicon_area(other, own.silicon).memories.value == pytest.approx(
        wanted * 1e-6, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ecp5-1x2x2", pytest.param(
    "tiny-1x4x4", marks=pytest.mark.slow), pytest.param(
    "examples/machines/two_vectors.py", marks=pytest.mark.slow), pytest.param(
    "pynq-1x16x16", marks=pytest.mark.slow)])
def test_shapes_are_those_of_the_hardware(name):
    """All memories of the Verilog but fifos, counters and what units hold."""
    machine = load_machine(name)
    there = Counter((one.depth, one.width) for one in memories_of(core_verilog(machine)))
    counted = memory_shapes(machine)
    assert counted and not counted - there
    rest = sum(rows * bits * count for (rows, bits), count in (there - counted).items())
    assert rest < 50_000
