"""Writes a folder with the hardware of a machine for other tools (docs/rtl.md)."""

import csv
import io
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path

from accel.machine.machine import Machine
from compiler.files import write_text
from fpga.zynq.export import NAME, vivado_files, zynq_verilog

from .bench import bench_files
from .lint import waivers
from .memories import VerilogMemory, memories_of
from .netlist import core_verilog, tidied
from .page import page
from .ports import ports_of

BUSES: dict[str, tuple[str, Callable[[Machine, int], str]]] = {
    "native": ("core", lambda machine, clock_mhz: core_verilog(machine)),
    "axi4": (NAME, lambda machine, clock_mhz: tidied(zynq_verilog(machine, clock_mhz))),
}
"""The name of the top with each bus, and what emits it."""

_HERE = Path(__file__).parent


def export(machine: Machine, bus: str, clock_mhz: int, folder: Path,
           vivado: bool = False) -> list[Path]:
    """Writes the folder, which is made where it is missing; returns its files.

    `clock_mhz` is what a register of ``axi4`` says; `vivado` adds scripts for a Zynq.
    """
    scripts = vivado_files(clock_mhz) if vivado else {}
    folder.mkdir(parents=True, exist_ok=True)
    files = _files(machine, bus, clock_mhz) | scripts
    for name, text in files.items():
        write_text(folder / name, text)
    return [folder / name for name in files]


def _files(machine: Machine, bus: str, clock_mhz: int) -> dict[str, str]:
    """The texts by the names of their files."""
    top, emit = BUSES[bus]
    text = emit(machine, clock_mhz)
    ports, memories = ports_of(text, top), memories_of(text)
    return {f"{top}.v": text, "README.md": page(machine, top, bus, ports, memories),
            "memories.csv": _table(memories), f"{top}.vlt": waivers(f"{top}.v"),
            "bench.v": (_HERE / f"bench_{bus}.v").read_text(),
            **bench_files(machine, bus == "axi4")}


def _table(memories: list[VerilogMemory]) -> str:
    text = io.StringIO()
    names = [field.name for field in fields(VerilogMemory)]
    table = csv.DictWriter(text, names, lineterminator="\n")
    table.writeheader()
    table.writerows(asdict(memory) for memory in memories)
    return text.getvalue()
