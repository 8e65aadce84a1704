"""Gates of two inputs and flip-flops that yosys maps a core to, part by part, for the estimates."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from accel.estimates.gates import nand2
from accel.machine.machine import Machine
from compiler.native import call
from fpga.building import bare_core
from fpga.building.tools import Tools

MAPPING = ("proc; opt; wreduce; peepopt; alumacc; share; opt; memory -nomap; opt -fast -full; "
           "techmap; opt -fast; abc -fast; opt_clean; tee -q -o stat.json stat -json")
"""The hierarchy is kept, and so are memories and multipliers of the FPGA."""

FACTORS = ((8, 8), (16, 8), (18, 18), (33, 17))
"""Bits of the factors of the products that are mapped by themselves."""


def mapped(machine: Machine, tools: Tools) -> dict[str, dict[str, float]]:
    """NAND2 equivalents of the units of a core, of `logic` and of `flip_flops`, without memories
    and products."""
    folder, _ = bare_core.synthesize(machine, tools)
    cells = _stat((folder / "top.il").read_text(), "read_verilog -lib -specify +/ecp5/cells_bb.v; "
                  "read_verilog -lib +/ecp5/cells_sim.v; read_rtlil top.il; hierarchy -top top",
                  "top.il", tools)
    return by_unit(cells)


def by_unit(cells: dict[str, dict[str, int]]) -> dict[str, dict[str, float]]:
    """The same, from the cells of each module by type."""
    units: dict[str, dict[str, float]] = {}
    for module, counts in cells.items():
        path = module.removeprefix("\\").split(".")
        if path[:2] == ["top", "core"]:
            unit = units.setdefault(path[2] if len(path) > 2 else "core",
                                    {"logic": 0.0, "flip_flops": 0.0})
            unit["logic"] += _gates(counts, flip_flops=False)
            unit["flip_flops"] += _gates(counts, flip_flops=True)
    return units


def products(tools: Tools) -> list[dict[str, float]]:
    """NAND2 equivalents of products of signed numbers, with the product of the bits of both."""
    text = "".join(f"module m{a}_{b}(input signed [{a - 1}:0] a, input signed [{b - 1}:0] b, "
                   f"output signed [{a + b - 1}:0] p); assign p = a * b; endmodule\n"
                   for a, b in FACTORS)
    cells = _stat(text, "read_verilog top.v", "top.v", tools)
    return [{"bits": a * b, "gates": _gates(cells[f"\\m{a}_{b}"])} for a, b in FACTORS]


def _stat(text: str, reading: str, name: str, tools: Tools) -> dict[str, dict[str, int]]:
    """Cells by type of each module."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / name).write_text(text)
        call([tools.yosys.path, "-q", "-p", f"{reading}; {MAPPING}"], cwd=folder)
        modules: dict[str, Any] = json.loads((folder / "stat.json").read_text())["modules"]
    return {module: stat["num_cells_by_type"] for module, stat in modules.items()}


def _gates(cells: dict[str, int], flip_flops: bool = False) -> float:
    """Cells of other names are memories, multipliers and modules, which are counted elsewhere."""
    return sum(nand2(cell) * count for cell, count in cells.items()
               if (cell.startswith("$_") or cell == "TRELLIS_FF")
               and ("FF" in cell) == flip_flops)
