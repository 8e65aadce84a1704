"""Networks in C on a board in Verilator: ``axi_board.h``, and ``axi_main.c``, which runs them."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path

import numpy as np

from accel.machine.machine import Machine
from accel.sim.rtl.netlist import whole_words
from compiler.exports.names import c_type
from fpga.driver.export import export_accelerated
from fpga.emulation.library import build_library
from fpga.link.registers import ADDRESSES
from fpga.zynq.export import NAME, zynq_verilog
from runtime import Module

__all__ = ["WARNINGS", "AxiNetwork", "Call", "Fault"]

WARNINGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")
HERE = Path(__file__).parent

Values = Mapping[str, np.ndarray]


class Fault(IntEnum):
    """``axi_fault``."""

    NONE = 0
    NO_MEMORY = 1
    BUS_ERRORS = 2
    RESET = 3
    HELD_IN_RESET = 4
    NO_CLOCK = 5
    DEAD = 6


@dataclass(frozen=True)
class Call:
    """A call of net_init or net_run, and what the board shows then."""

    name: str
    result: int
    status: int
    index: int
    waiting: int
    cycles: int
    interrupt: int


@cache
def _board(machine: Machine) -> Path:
    """The shared object of a board with this machine, built on first use."""
    header = (HERE / "axi_board.h").read_text()
    source = (HERE / "axi_board.cpp").read_text().replace('#include "axi_board.h"\n', header)
    return build_library(NAME, whole_words(zynq_verilog(machine, 50)),
                         f"#define AXI_RUN_WORD {ADDRESSES['run']}\n{source}",
                         f"the Zynq with {machine.config.name}")


class AxiNetwork:
    """A module as a program in C, in a folder, on a board that holds the module's machine or
    another one.
    """

    def __init__(self, module: Module, folder: Path, machine: Machine | None = None,
                 apart: bool = False, processor: str | None = None):
        self.module, self.folder = module, folder
        of = export_accelerated(module, folder, "net", machine=processor, apart=apart).interface
        board = _board(machine or module.machine)
        tensors = [f"{kind}({c_type(array.dtype)}, {member}, {array.elements})"
                   for kind, arrays, members in (
                       ("INPUT", of.inputs, of.input_members),
                       ("OUTPUT", of.outputs, of.output_members))
                   for array, member in zip(arrays, members, strict=True)]
        subprocess.run(
            ["gcc", *WARNINGS, "-O1", "-ffp-contract=off", f"-I{folder}", f"-I{HERE}", "-include",
             "axi_board.h",
             f"-DTENSORS={' '.join(tensors)}", f"-DINPUTS={_listed(of.input_members)}",
             f"-DOUTPUTS={_listed(of.output_members)}", str(HERE / "axi_main.c"),
             *map(str, sorted(folder.glob("*.[co]"))), str(board), f"-Wl,-rpath,{board.parent}",
             "-lm", "-o", str(folder / "main")], check=True)

    def calls(self, inputs: Sequence[Values], *, seed: int = 1, cached: bool = True,
              fault: Fault = Fault.NONE, altered: int = -1, sleeps: bool = False) -> list[Call]:
        """Runs the program; if the driver `sleeps`, until the interrupt. After a run that fails
        there is one more.
        """
        graph = self.module.graph
        (self.folder / "inputs").write_bytes(b"".join(
            given[name].tobytes() for given in inputs for name in graph.inputs))
        options = map(str, (seed, int(cached), int(fault), altered, int(sleeps)))
        said = subprocess.run([self.folder / "main", "inputs", "outputs", *options],
                              cwd=self.folder, text=True, check=True, capture_output=True,
                              timeout=600).stdout
        return [Call(name, *map(int, numbers)) for name, *numbers in map(
            str.split, said.splitlines())]

    def outputs(self) -> list[Values]:
        """The outputs of each run that the last call of `calls` has made to its end."""
        graph = self.module.graph
        types = [(name, graph.values[name].dtype, graph.values[name].shape)
                 for name in graph.outputs]
        runs = np.fromfile(self.folder / "outputs", np.dtype(types))
        return [{name: run[name] for name in graph.outputs} for run in runs]


def _listed(members: Sequence[str]) -> str:
    return f"{{{', '.join(members)}}}"
