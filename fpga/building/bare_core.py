"""The bare core of a machine on an ECP5: synthesis, place and route of it alone.

There are no pins and no memory controller. Its inputs come from a chain of registers and its
outputs end in registers, so that every path inside the core or at its ports counts, and no path to
a pin does. The registers of this harness are not counted in the figures.

Flow and tools are those of bitstreams (`fpga.building.flow`, `fpga.building.tools`), and so is the
cache.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from accel.hw.core import Core
from accel.hw.parts import ECP5
from accel.machine.machine import Machine
from compiler.native import BuildError
from fpga.building import flow
from fpga.building.build import CAPACITY, NAMES, roomy
from fpga.building.flow import SIZES
from fpga.building.tools import Tools

TARGET_MHZ = 100        # of place and route, which may fall short of it or exceed it

DEVICES = ("25k", "45k", "85k")
"""Dies of an ECP5 by nextpnr's names, the smallest first; a 12F has that of a 25F."""

LARGEST = DEVICES[-1]

FILLED = 0.85           # the share of a die's cells above which a core gets the next larger one


def options(device: str) -> tuple[str, ...]:
    """nextpnr's options for a die, speed grade 6."""
    return f"--{device}", "--package", "CABGA381", "--speed", "6", "--freq", str(TARGET_MHZ)


class Harness(wiring.Component):
    """The core between registers; see the module's text."""

    clk: Signal
    i: Signal

    def __init__(self, machine: Machine):
        self.core = Core(machine)
        self.registers = 0
        super().__init__({"clk": In(1), "i": In(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self.core
        m.domains.sync = ClockDomain()
        m.d.comb += ClockSignal().eq(self.clk)
        last = self.i

        def chained(width: int) -> Signal:
            nonlocal last
            register = Signal(width, reset_less=True, name="chain")
            m.d.sync += register.eq((register << 1) | last)
            last = register[-1]
            self.registers += width
            return register

        m.d.comb += ResetSignal().eq(chained(1))
        for path, member, port in core.signature.flatten(core):
            name = "_".join(map(str, path))
            if member.flow == In:
                m.d.comb += port.eq(chained(len(Value.cast(port))))
                continue
            seen = Signal(member.shape, name=f"seen_{name}", attrs={"keep": 1}, reset_less=True)
            m.d.sync += seen.eq(port)
            self.registers += len(Value.cast(seen))
        return m


@dataclass(frozen=True)
class PlacedCore:
    """A placed and routed core. `path`: nanoseconds on the critical path, unit by unit."""

    seed: int
    mhz: float
    path: tuple[tuple[str, float], ...]
    luts: int
    registers: int
    multipliers: int
    block_rams: int


def synthesize(machine: Machine, tools: Tools) -> tuple[Path, int]:
    """Returns the folder of the netlist, and the number of registers of the harness."""
    harness = Harness(machine)
    return netlist(harness, machine.config.name, tools), harness.registers


def netlist(component: wiring.Component, name: str, tools: Tools) -> Path:
    """The folder of the netlist ``top.json`` of a component, as the largest ECP5 has it."""
    platform, text = ECP5(), ""
    for platform.shallow_blocks in (True, False):
        text = rtlil.convert(component, name="top", emit_src=False, platform=platform)
        if roomy(text, options(LARGEST)):
            break
    return flow.synthesize(text, tools, name)


def place(netlist: Path, seed: int, tools: Tools, harness_registers: int) -> PlacedCore:
    """Places and routes on the largest ECP5 with one seed."""
    routed = flow.place(netlist, options(LARGEST), seed, tools)
    used = {**routed.used, "registers": routed.used["registers"] - harness_registers}
    return PlacedCore(seed, routed.mhz, routed.path, **used)


def smallest(taken: Mapping[str, int], name: str) -> str:
    """The smallest die with room for these cells, by the names of `fpga.building.flow.CELLS`; of
    the largest one all may be taken. Raises BuildError where they do not fit that.
    """
    for device in DEVICES:
        share = 1 if device == LARGEST else FILLED
        if all(count <= share * CAPACITY[device][cell] for cell, count in taken.items()):
            return device
    cell = next(cell for cell, count in taken.items() if count > CAPACITY[LARGEST][cell])
    raise BuildError(f"The core of {name} must fit the largest ECP5, which has "
                     f"{CAPACITY[LARGEST][cell]:,} {NAMES[cell]}; it takes {taken[cell]:,}")


def parts_of(netlist: Path, unit: str = "") -> dict[str, Counter[str]]:
    """The cells of a flattened core, or of a unit, by part and by type.

    A cell has the name of its output, so that a few gates at the edge of a part count for its
    neighbour. Registers of the harness do not count.
    """
    cells = json.loads(netlist.read_text())["modules"]["top"]["cells"]
    front = f"core.{unit}." if unit else ""
    known = {front + name for name, cell in cells.items() if cell["type"] == "$scopeinfo"}
    counted = {cell for sizes in SIZES.values() for cell in sizes}
    parts: dict[str, Counter[str]] = {}
    for name, cell in cells.items():
        path = (front + name).split(".")
        if cell["type"] not in counted or path[0] != "core" and cell["type"] == "TRELLIS_FF":
            continue
        depth = next((depth for depth in (3, 2) if ".".join(path[:depth]) in known), 1)
        inside, *part = path[1:depth] or [unit or "core"]
        whole = not part or inside == "acc" or re.search(r"slice|copy|words|indexes", part[0])
        key = inside if whole else f"{inside}.{part[0]}"
        parts.setdefault(key if path[0] == "core" else "core", Counter())[cell["type"]] += 1
    return parts
