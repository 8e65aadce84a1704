"""How well are area and clock estimated, and what are the models fitted to?

``judge``        errors on machines held back from the fit; ``--write`` puts them into the page
``synthesize``   runs yosys for ``--count`` more machines
``route``        runs nextpnr for ``--count`` more of these
``gates``        maps a core to gates
``units``        runs yosys for units of the example machines, and compares; ``--write`` as above
``components``   the same of components that no example has (`bench.inputs.hardware.components`)
``fit``          fits the models to these runs

Machines are drawn at random (`bench.inputs.drawn`); every fourth is held back. Runs are appended to
the data (`accel.estimates.runs`) as they end, and those in the data are not repeated.
"""

import json
import time
from collections.abc import Iterator
from itertools import zip_longest

from amaranth.back import rtlil

from accel.estimates import clock, model
from accel.estimates.memories import shallow_blocks
from accel.estimates.runs import (DATA, EXAMPLES, MachineSpec, Routing, Synthesis, append, routings,
                                  syntheses)
from accel.hw.core.commands import CommandQueue
from accel.hw.core.fetch import Fetch
from accel.hw.compute.gemm import Gemm
from accel.hw.moving.load import Load
from accel.hw.parts import ECP5
from accel.hw.moving.store import Store
from accel.hw.vector import Vector
from accel.machine.config import ConfigError, preset
from accel.machine.loading import load_machine
from bench.frame import Bench, Sheet
from bench.inputs.drawn import drawn, specs
from bench.inputs.hardware.components import HELD_OUT
from bench.support import component_errors
from bench.support.estimate_errors import PAGE, figures, judge as judged, taken, written
from bench.support.gates import mapped, products
from fpga.building import bare_core, flow
from fpga.building.tools import Tools

UNITS = {"vector": Vector, "gemm": Gemm, "load": lambda machine: Load(machine.config),
         "store": lambda machine: Store(machine.config), "fetch": Fetch,
         "queue_load": lambda machine: CommandQueue(machine.config)}
"""Units that yosys makes by themselves, which takes a fraction of a core's time."""
ALONE = (
    (drawn(37), "load"), (drawn(22), "gemm"), (drawn(30), "vector"),
    # Floats, and queues in distributed RAM, which the cores that are made whole do not have.
    (MachineSpec(preset("ecp5-1x2x2").values(), "bfloat16.py"), "gemm"),
    *((MachineSpec(preset("ecp5-1x8x8").values() | {"queue_depth": depth}), "queue_load")
      for depth in (8, 32)),
    *((drawn(number), "load") for number in (6, 38, 14)))
"""Machines of which a unit is made by itself."""

STRUCTURES = ("two_vectors.py",)
"""Files of ``examples/machines`` with units of their own, which are held back, too."""

BENCH = Bench(__file__, __doc__, "ecp5-1x2x2")
BENCH.option("--count", type=int, default=1, help="runs")
BENCH.option("--write", action="store_true", help="into docs/estimates.md")


@BENCH.part()
def judge(sheet: Sheet) -> None:
    found = judged()
    sheet.row(found)
    for name, value, form in figures(found):
        sheet.figure(name, value, form)
    if sheet.write:
        PAGE.write_text(written(found, PAGE.read_text()))


@BENCH.part(component_errors.UNITS, extra=True)
def units(sheet: Sheet) -> None:
    """Compares units of the example machines, each by itself, with what yosys makes of them."""
    component_errors.judge_each(sheet, "units", component_errors.unit)


@BENCH.part(HELD_OUT, extra=True)
def components(sheet: Sheet) -> None:
    """Compares components that the count was not made by."""
    component_errors.judge_each(sheet, "components", component_errors.component)
    if sheet.write:
        component_errors.write_table(sheet.rows)


@BENCH.part(extra=True)
def synthesize(sheet: Sheet) -> None:
    """Runs yosys for machines that are not in the data."""
    tools, left = Tools(), sheet.count
    known = {(run.hash, run.unit) for run in syntheses()}
    for spec, held_back, unit in wanted():
        if left and (spec.machine.hash, unit) not in known:
            begin = time.monotonic()
            append(synthesized(spec, held_back, tools, unit), DATA / "area.jsonl")
            _say(spec, begin, unit)
            left -= 1


@BENCH.part(extra=True)
def route(sheet: Sheet) -> None:
    """Runs nextpnr for machines that yosys has made, in turn held back and not."""
    tools = Tools()
    known = {run.hash for run in routings()}
    small = [run for run in syntheses() if run.hash not in known and not run.unit
             and taken(run)["luts"] <= clock.LARGEST]
    turns = [[run for run in small if run.held_back == held] for held in (True, False)]
    if sum(run.held_back for run in routings()) > len(known) / 2:
        turns.reverse()
    for run in [run for pair in zip_longest(*turns) for run in pair if run][:sheet.count]:
        begin = time.monotonic()
        folder, registers = bare_core.synthesize(run.spec.machine, tools)
        placement = bare_core.place(folder, 1, tools, registers)
        seeds = {"1": round(placement.mhz, 2)}
        append(Routing(run.spec, run.hash, run.held_back, seeds, placement.path,
                       tools.nextpnr.version), DATA / "clock.jsonl")
        _say(run.spec, begin, f"{seeds['1']} MHz")


@BENCH.part(extra=True)
def gates(sheet: Sheet) -> None:
    """Maps the core of a machine that yosys has made to gates, and appends what that took."""
    name, = sheet.machines
    machine = sheet.machine
    run = next((run for run in syntheses() if run.hash == machine.hash and not run.unit), None)
    if run is None:
        raise ConfigError(f"Machine {name} must be one of the runs in {DATA / 'area.jsonl'}")
    tools = Tools()
    cells = model.measured(run)
    units = {unit: {**gates, "luts": cells[unit]["luts"] - model.RAM_LUTS
                    * cells[unit]["distributed"], "registers": cells[unit]["registers"]}
             for unit, gates in mapped(machine, tools).items() if unit in cells}
    line = {"name": machine.config.name, "hash": machine.hash, "units": units,
            "products": products(tools), "tool": tools.yosys.version}
    with (DATA / "gates.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


@BENCH.part(extra=True)
def fit(sheet: Sheet) -> None:
    """Fits the models to the runs that are not held back, and stores the coefficients."""
    model.COEFFICIENTS.write_text(fitted_area().to_toml())
    model.read.cache_clear()
    clock.COEFFICIENTS.write_text(fitted_clock().to_toml())


def synthesized(spec: MachineSpec, held_back: bool, tools: Tools, unit: str = "") -> Synthesis:
    """Runs yosys for a core, or for one of its units."""
    machine = spec.machine
    if unit:
        platform = ECP5()
        platform.shallow_blocks = shallow_blocks(machine)
        text = rtlil.convert(UNITS[unit](machine), name="top", emit_src=False, platform=platform)
        folder = flow.synthesize(text, tools, f"{unit} of {machine.config.name}")
    else:
        folder, _ = bare_core.synthesize(machine, tools)
    parts = bare_core.parts_of(folder / "top.json", unit)
    return Synthesis(spec, machine.hash, held_back, {part: dict(sorted(cells.items()))
                                                     for part, cells in sorted(parts.items())},
                     tools.yosys.version, unit)


def wanted() -> Iterator[tuple[MachineSpec, bool, str]]:
    """Runs of yosys: machines, whether they are held back, and the unit or a core."""
    drawn_ones = list(specs())
    held = [(spec, True, "") for spec, held_back in drawn_ones if held_back]
    held += [(MachineSpec(load_machine(EXAMPLES / name).config.values(), name), True, "")
             for name in STRUCTURES]
    alone = [(spec, False, unit) for spec, unit in ALONE]
    for group in zip_longest(alone, held):
        yield from (run for run in group if run)
    yield from ((spec, False, "") for spec, held_back in drawn_ones if not held_back)


def fitted_area() -> model.AreaModel:
    return model.fit([run for run in syntheses() if not run.held_back])


def fitted_clock() -> clock.ClockModel:
    return clock.fit_clock([run for run in routings() if not run.held_back])


def _say(spec: MachineSpec, begin: float, more: str = "") -> None:
    print(f"{spec.geometry['name']} {spec.declared} {time.monotonic() - begin:.0f} s {more}",
          flush=True)
