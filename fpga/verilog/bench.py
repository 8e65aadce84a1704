"""Inputs of the test bench: a program, the memory before it, and the memory that it leaves."""

from collections.abc import Mapping

import numpy as np

from accel.machine.isa import BASES
from accel.machine.machine import Machine
from accel.sim.meaning import functional
from accel.sim.programs.case import Case
from accel.sim.programs.forms import Form, forms
from accel.sim.programs.generate import with_forms
from fpga.link.registers import ADDRESSES

MOST_CYCLES = 1_000_000         # hundreds of times those of the program
COUNTER_BITS = 6
REGISTERS = ("run", "count", *(f"base_{name}" for name in BASES), "interrupt", "done", "status")


def program(machine: Machine) -> Case:
    """A program of every instruction of the machine, on random data."""
    first: dict[str, Form] = {}
    for form in forms(machine):
        first.setdefault(form.name, form)
    return with_forms(machine, 0, [*first.values()])


def bench_files(machine: Machine, axi: bool) -> dict[str, str]:
    """The files that the test bench reads, by name; `axi` for the one with registers."""
    case = program(machine)
    run = functional.simulate(machine, case.program, case.memory)
    bus_bytes = machine.config.bus_bytes
    settings: dict[str, int] = {
        "BUS_BYTES": bus_bytes, "WORDS": case.memory.size // bus_bytes,
        "MOST_CYCLES": MOST_CYCLES, "COUNT": case.program.count, "STATUS": int(run.status),
        **{f"BASE_{name.upper()}": base for name, base in case.program.bases.items()}}
    settings |= ({f"REGISTER_{name.upper()}": 4 * ADDRESSES[name] for name in REGISTERS} if axi
                 else {"CHANNELS": machine.config.channels})
    ports = "" if axi else _ports(machine)
    return {"bench.vh": _settings(settings) + ports, "memory.hex": _hex(case.memory, bus_bytes),
            "expected.hex": _hex(run.memory, bus_bytes)}


def _settings(settings: Mapping[str, int]) -> str:
    return "".join(f"localparam [31:0] {name} = {value};\n" for name, value in settings.items())


def _ports(machine: Machine) -> str:
    """A macro that connects each memory port of the core to the place of its channel."""
    lines = [f".{port}__{stream}__{name}({stream}_{name}[{channel}]),"
             for channel, port in enumerate(machine.config.memory_ports)
             for stream in ("request", "wdata", "rdata", "ack")
             for name in ("valid", "ready", "payload") if (stream, name) != ("ack", "ready")]
    return "`define MEMORY_PORTS \\\n" + " \\\n".join(lines) + "\n"


def _hex(memory: np.ndarray, bus_bytes: int) -> str:
    """A word of the bus a line, its highest byte first, for ``$readmemh``."""
    return "".join(f"{word.tobytes().hex()}\n"
                   for word in memory.reshape(-1, bus_bytes)[:, ::-1])
