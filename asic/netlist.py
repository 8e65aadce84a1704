"""The netlist of a core in cells of a library, by yosys: memories as macros, units kept apart.

Units (the modules right below the core) keep their borders, so that each has an area and a power of
its own; within them, modules are flattened. Memories of one clocked read port and one write port
become macros where they are large enough (`asic.memories.MacroShape.is_macro`); the others become
flip-flops.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from accel.machine.machine import Machine
from compiler.native import BuildError, build_once, call, digest
from fpga.building.tools import YOSYS, Tool, find
from fpga.verilog.netlist import core_verilog, modules

from . import liberty
from .library import Cells
from .memories import Macros, MacroShape, liberty_text, verilog_text
from .structure import modules_of, verilog_of

KIND = "netlist"                # of entries of the cache
TOP = "core"

FASTEST_NS = 0.1
"""A period that nothing reaches, so that sizes of cells aim at the fastest."""

LOAD_PINS = 4
"""Pins of a buffer that the outputs of a piece of logic are taken to drive while it is mapped."""

WIRE_FF_PER_UM = 0.2
"""Capacitance of a wire, which is nearly the same in all processes (R. Ho, K. Mai, M. Horowitz, The
future of wires, Proceedings of the IEEE, 2001)."""

WIRE_PITCHES = 12
"""Length of wire for each pin that a net drives, in sides of a NAND (`Cells.pitch_um`)."""


@dataclass(frozen=True)
class MappedCore:
    """A mapped core.

    Parameters
    ----------
    folder : ``core.v``, the netlist; ``cells.v`` and ``macros.v``, what its cells do;
        ``cells.lib`` and ``macros.lib``, the same in Liberty.
    shapes : how many macros there are of each shape.
    """

    machine: Machine
    cells: Cells
    macros: Macros
    folder: Path
    shapes: Mapping[MacroShape, int]

    @cached_property
    def units(self) -> dict[str, "UnitCells"]:
        """Cells, macros and areas of each unit; `TOP` is what lies between units."""
        return {name: self._unit(types) for name, types in self._kinds().items()}

    def _kinds(self) -> dict[str, Counter[str]]:
        """Instances of each kind, counted in the core and in its units."""
        kinds: dict[str, Counter[str]] = {}
        for text in re.split(r"^module ", (self.folder / "core.v").read_text(), flags=re.MULTILINE):
            if text:
                name = text.partition(" ")[0].removeprefix(f"{TOP}_")
                kinds[name] = Counter(_INSTANCE.findall(text))
        return dict(sorted(kinds.items(), key=lambda item: (item[0] != TOP, item[0])))

    def _unit(self, types: Mapping[str, int]) -> "UnitCells":
        shapes = {shape.name: shape for shape in self.shapes}
        areas = self.cells.gates | self.cells.gating
        held = {kind: count for kind, count in types.items() if kind in areas}
        rams = {shapes[kind]: count for kind, count in types.items() if kind in shapes}
        return UnitCells(
            sum(held.values()),
            sum(areas[kind] * count for kind, count in held.items()),
            sum(self.macros.macro(shape).area_um2 * count for shape, count in rams.items()),
            sum(rams.values()))


_INSTANCE = re.compile(r"^  (\w+) \w+ \(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class UnitCells:
    """Cells of a unit with their area, and its macros with theirs (um2)."""

    cells: int
    logic_um2: float
    memory_um2: float
    macros: int

    @property
    def um2(self) -> float:
        return self.logic_um2 + self.memory_um2


def synthesize(machine: Machine, cells: Cells, period_ns: float, yosys: Tool | None = None
               ) -> MappedCore:
    """Maps a machine's core; a netlist that the cache has is taken from there.

    `period_ns` is what sizes of cells aim at. Raises `compiler.native.BuildError` where yosys is
    missing or fails.
    """
    yosys = yosys or find(YOSYS)
    text = core_verilog(machine)
    macros = Macros.of(cells)
    key = digest([text, cells.text_hash, f"{period_ns:g}", yosys.version,
                  f"{macros.node_nm:g}", macros.source,
                  *(Path(__file__).with_name(name).read_text() for name in (
                      "netlist.py", "memories.py", "library.py", "structure.py"))])

    def make(folder: Path) -> None:
        _Synthesis(folder, yosys.path, cells, macros, period_ns).run(text)

    folder = build_once(KIND, key, f"the netlist of {machine.config.name} in {cells.name}", make,
                        "some minutes")
    shapes = {MacroShape(*shape): count for *shape, count in json.loads(
        (folder / "shapes.json").read_text())}
    return MappedCore(machine, cells, macros, folder, shapes)


@dataclass(frozen=True)
class _Synthesis:
    folder: Path
    yosys: str
    cells: Cells
    macros: Macros
    period_ns: float

    def run(self, text: str) -> None:
        (self.folder / "source.v").write_text(text)
        self._yosys("coarse", ["read_verilog source.v", f"hierarchy -top {TOP}", *(
            f"setattr -mod -set keep_hierarchy 1 {name}" for name in _unit_modules(text)),
            "proc", "flatten", "synth -run coarse:fine", "write_json coarse.json"])
        design = json.loads((self.folder / "coarse.json").read_text())
        shapes = Counter(_replace_memories(design))
        _rename_hidden(design)
        (self.folder / "coarse.json").write_text(json.dumps(design))
        (self.folder / "shapes.json").write_text(json.dumps(
            [[shape.rows, shape.bits, shape.part, count] for shape, count in
             sorted(shapes.items())]))
        (self.folder / "ports.v").write_text(verilog_text(shapes, body=False))
        (self.folder / "macros.v").write_text(verilog_text(shapes, body=True))
        (self.folder / "macros.lib").write_text(liberty_text(
            self.cells, self.macros, shapes, wire_pf(self.cells)))
        (self.folder / "drive.constr").write_text(
            f"set_driving_cell {self.cells.buffer}\nset_load {self._load():.6g} [all_outputs]\n")
        (self.folder / "cells.lib").write_bytes(liberty.unpacked(self.cells.path))
        never = "".join(f" -dont_use {name}" for name in self.cells.unused)
        (self.folder / "enables.v").write_text(ENABLES)
        gating = [*ENABLED, f"clockgate -liberty cells.lib -min_net_size {GATED}"
                  ] if self.cells.gating else []
        self._yosys("fine", [
            "read_json coarse.json", "read_verilog -lib ports.v", f"hierarchy -top {TOP}",
            "synth -run fine:check -noabc", "opt_clean -purge", *gating,
            f"dfflibmap -liberty cells.lib{never}", "opt",
            f"abc -D {1000 * self.period_ns:.0f} -constr drive.constr -liberty cells.lib{never}",
            "opt_clean -purge", "read_liberty -lib -ignore_miss_func cells.lib",
            "write_json core.json"])
        design = json.loads((self.folder / "core.json").read_text())
        holding = frozenset(shape.name for shape in shapes) | set(self.cells.flip_flops)
        (self.folder / "core.v").write_text(verilog_of(modules_of(design, holding)))
        kinds = {cell["type"] for module in design["modules"].values()
                 for cell in module["cells"].values()}
        used = sorted(kinds & self.cells.gates.keys())
        known = {*used, *self.cells.gating, *(shape.name for shape in shapes)}
        if unmapped := sorted(kind for kind in kinds - known if not kind.startswith(f"{TOP}.")):
            raise BuildError(f"yosys must map every cell of the core to {self.cells.name}, not "
                             f"leave {', '.join(unmapped[:5])}")
        self._yosys("cells", [
            "read_liberty -ignore_miss_func cells.lib", f"select {' '.join(used)}",
            "write_verilog -selected -noattr cells.v"])
        for name in ("coarse.json", "core.json", "source.v", "ports.v", "enables.v"):
            (self.folder / name).unlink()

    def _load(self) -> float:
        """The load in fF, abc's unit."""
        return 1000 * LOAD_PINS * (self.cells.pin_pf + wire_pf(self.cells))

    def _yosys(self, step: str, lines: Sequence[str]) -> None:
        (self.folder / f"{step}.ys").write_text("\n".join(lines) + "\n")
        call([self.yosys, "-q", "-l", f"{step}.log", f"{step}.ys"], self.folder)


GATED = 8
"""Registers of so many bits or more with one enable have their clock gated."""

_RESET = {"0": "D & ~R", "1": "D | R"}
ENABLES = "".join(
    f"module \\$_SDFFE_PP{value}P_ (input D, C, R, E, output Q);\n"
    f"  \\$_DFFE_PP_ _TECHMAP_REPLACE_ (.D({data}), .C(C), .E(E | R), .Q(Q));\nendmodule\n"
    for value, data in _RESET.items())
ENABLED = ("dfflegalize " + " ".join(f"-cell $_{kind}_ x" for kind in (
    "DFF_P", "DFFE_PP", "SDFF_PP0", "SDFF_PP1", "SDFFE_PP0P", "SDFFE_PP1P")),
    "techmap -map enables.v", "simplemap", "opt_merge", "opt_clean")
"""Makes a reset that comes before an enable part of the enable: yosys 0.50 gates the clocks of such
registers with the enable alone, so that they are not reset while it is low."""


def wire_pf(cells: Cells) -> float:
    """Capacitance of a wire for each pin that it drives."""
    return 1e-3 * WIRE_FF_PER_UM * WIRE_PITCHES * cells.pitch_um


def _unit_modules(text: str) -> list[str]:
    """The modules right below the core."""
    return sorted({match[1] for module in modules(text)
                   if (match := re.match(rf"module \\({TOP}\.\w+) ", module))})


def _replace_memories(design: dict[str, Any]) -> Iterator[MacroShape]:
    """Puts macros in the place of memories, where they fit. Gives the shape of each."""
    for module in design["modules"].values():
        for cell in module["cells"].values():
            if cell["type"] == "$mem_v2" and (shape := _shape(cell)):
                yield shape
                cell.update(_macro(cell, shape))


def _rename_hidden(design: dict[str, Any]) -> None:
    """Gives cells and nets that yosys has named itself names that it will not give again: it counts
    anew where it reads a design.
    """
    for module in design["modules"].values():
        for kind in ("cells", "netnames"):
            module[kind] = {f"$read${kind}${number}" if name.startswith("$") else name: one
                            for number, (name, one) in enumerate(module[kind].items())}


def _shape(cell: Mapping[str, Any]) -> MacroShape | None:
    """The shape of a memory that may be a macro."""
    def number(name: str) -> int:
        return int(cell["parameters"][name], 2)

    rows, bits = number("SIZE"), number("WIDTH")
    if not (number("RD_PORTS") == number("WR_PORTS") == 1 and number("RD_CLK_ENABLE") == 1
            and number("WR_CLK_ENABLE") == 1 and not number("RD_TRANSPARENCY_MASK")
            and not number("RD_WIDE_CONTINUATION") and number("OFFSET") == 0
            and set(cell["parameters"]["INIT"]) == {"x"}):
        return None
    enables = cell["connections"]["WR_EN"]
    ends = [place for place in range(1, bits) if enables[place] != enables[place - 1]] + [bits]
    part = ends[0]
    if bits % part or ends != list(range(part, bits + 1, part)):
        part = 1
    shape = MacroShape(rows, bits, part)
    return shape if shape.is_macro else None


def _macro(cell: Mapping[str, Any], shape: MacroShape) -> dict[str, Any]:
    old = cell["connections"]
    address = shape.address_bits
    connections = {
        "clk": old["RD_CLK"], "w_en": old["WR_EN"][::shape.part],
        "w_addr": _address(old["WR_ADDR"], address), "w_data": old["WR_DATA"],
        "r_en": old["RD_EN"], "r_addr": _address(old["RD_ADDR"], address),
        "r_data": old["RD_DATA"]}
    return {"type": shape.name, "parameters": {}, "connections": connections,
            "port_directions": {name: "output" if name == "r_data" else "input"
                                for name in connections}}


def _address(bits: list[Any], width: int) -> list[Any]:
    return [*bits[:width], *["0"] * (width - len(bits))]
