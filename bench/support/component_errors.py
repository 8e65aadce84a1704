"""Estimates of units and components of one's own beside what yosys makes of them for an ECP5.

yosys runs for one that it has not made before: from half a minute to five minutes.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.lib import wiring

from accel.estimates import model
from accel.estimates.area import area
from accel.estimates.memories import shallow_blocks
from accel.estimates.netlists import amounts_by_module, summed
from accel.estimates.runs import EXAMPLES, syntheses
from accel.estimates.structure import unit_of
from accel.hw.core.core import made
from accel.hw.parts import ECP5
from accel.machine.config import preset
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.structure import UnitKind
from accel.sim.slice.netlist import netlist_of
from bench.frame import Sheet
from bench.inputs.hardware.components import HELD_OUT
from fpga.building import flow
from fpga.building.tools import Tools

SMALL = "tiny-1x4x4"
"""The geometry of units: yosys of the wheels fails for that of softmax with 16 lanes."""

UNITS = {"gather": "gather.py", "top_k": "top_k.py", "two_vectors": "two_vectors.py",
         "running_max": "running_max.py", "softmax": "softmax.py"}
"""Machines of which the unit of their own is judged."""

PAGE = Path(__file__).parents[2] / "docs" / "estimates.md"
BEGIN = "<!-- python -m bench accelerator.estimates --only units components --write -->\n"

END = "<!-- end of it -->\n"

FIGURES = ("luts", "registers", "multipliers", "block_rams")

Judged = tuple[Mapping[str, float], Mapping[str, int]]
"""What one takes by `FIGURES`, as it is estimated, and as yosys makes it."""


def machine_of(name: str) -> Machine:
    """The machine of an example in the geometry of `SMALL`."""
    machine = load_machine(EXAMPLES / UNITS[name])
    return Machine(replace(preset(SMALL), structure=machine.config.structure),
                   machine.declarations)


def unit(name: str) -> Judged:
    """A unit of an example: that of vector within the core of its machine, which is kept with the
    data (`accel.estimates.runs`)."""
    if name == "two_vectors":
        run = next(run for run in syntheses() if run.spec.declared == UNITS[name])
        cells = sum((Counter(cells) for part, cells in run.parts.items()
                     if unit_of(part) == "vector2"), Counter[str]())
        return _estimated(run.spec.machine, "vector2"), flow.taken(cells)
    machine = machine_of(name)
    own, = machine.structure.of_kind(UnitKind.STREAM)
    platform = ECP5()
    platform.shallow_blocks = shallow_blocks(machine)
    return _estimated(machine, own.name), _synthesized(made(machine, own), platform, name)


def _estimated(machine: Machine, name: str) -> Mapping[str, float]:
    found = area(machine).units[name]
    return {figure: found[figure].value for figure in FIGURES}


def component(name: str) -> Judged:
    """A component by itself."""
    counted = summed(amounts_by_module(netlist_of(HELD_OUT[name](), "component")).values())
    return ({"luts": counted.luts + model.RAM_LUTS * counted.distributed,
             "registers": counted.registers, "multipliers": counted.multipliers,
             "block_rams": counted.block_rams}, _synthesized(HELD_OUT[name](), ECP5(), name))


def _synthesized(hardware: wiring.Component, platform: ECP5, name: str) -> Mapping[str, int]:
    text = rtlil.convert(hardware, name="top", emit_src=False, platform=platform)
    cells = flow.cells(flow.synthesize(text, Tools("yosys"), name))
    return flow.taken(Counter(cells))


def judge_each(sheet: Sheet, part: str, measure: Callable[[str], Judged]) -> None:
    """Prints and keeps the figures of each case, and the worst error of LUTs."""
    worst = 0.0
    for name in sheet.cases:
        found, real = measure(name)
        error = found["luts"] / real["luts"] - 1
        worst = max(worst, abs(error))
        print(f"{name:14} " + "  ".join(
            f"{figure} {real[figure]:,} ({_off(found[figure], real[figure])})"
            for figure in FIGURES), flush=True)
        sheet.row({"part": part, "name": name, "estimated": found, "yosys": real})
    sheet.figure(f"{part}_worst_error_of_luts", worst, ".4f")


def _off(found: float, real: float) -> str:
    return f"{found / real - 1:+.1%}" if real else f"{found:+.0f}"


def write_table(rows: list[Any]) -> None:
    """Puts the rows of `judge_each` into the page."""
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + _table(rows) + END + rest.split(END)[1])


def _table(rows: list[Any]) -> str:
    lines = [["of", "", *("LUTs", "registers", "multipliers", "block RAMs")], ["---"] * 6]
    for row in rows:
        lines.append([row["part"], row["name"].replace("_", " "), *(
            f"{row['yosys'][figure]:,} ({_off(row['estimated'][figure], row['yosys'][figure])})"
            if row["yosys"][figure] or row["estimated"][figure] else "0" for figure in FIGURES)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
