"""The border between Python and the loop around a simulated core: its ports, a run's limits and
memory, and what became of it.
"""

import ctypes
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from accel.machine import isa
from accel.machine.dram import Dram
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Counters, Run, Status
from accel.machine.structure import FETCH
from compiler.errors import DEFECT, Error

from accel.sim.dram import DramTiming, bases, patience, timing

MAX_CYCLES = 1 << 40
IDLE_CYCLES = 1 << 16           # without any event, transfer or work

_BROKEN = ("Requests of the core must be aligned, at most 64 bytes long and must not cross a "
           "64-byte boundary")


class SimulatorError(Error):
    """The core broke a rule of its memory port, or an object belongs to another machine."""

    exit_status = DEFECT


@dataclass(frozen=True, slots=True)
class Port:
    """A port of the core; `member` is its name in the Verilated model."""

    name: str
    width: int
    direction: str

    @property
    def member(self) -> str:
        head, *rest = self.name.split("__")
        return head + "".join(f"___05F{part}" for part in rest)


def ports_of(core: Any) -> list[Port]:
    """All ports of the emitted module but clock and reset, from the component's metadata."""
    members = json.loads(json.dumps(core.metadata.as_json()))["interface"]["members"]
    return list(_flatten(members))


def _flatten(members: Mapping[str, Any]) -> Iterator[Port]:
    for member in members.values():
        if member["type"] == "port":
            yield Port(member["name"], member["width"], member["dir"])
        else:
            yield from _flatten(member["members"])


def lists_header(machine: Machine) -> str:
    """The lists and numbers of a machine that the loop needs."""
    structure = machine.structure
    lists = {"REPORTERS": structure.reporters, "EXECUTION_UNITS": structure.names,
             "BUSY": [structure.counters.index(f"count_{unit}_busy") for unit in structure.names],
             "CHANNELS": [f"{channel}, {port}" for channel, port in
                          enumerate(machine.config.memory_ports)]}
    lines = ["#pragma once",
             *(f"#define LOCKSTEP_{name}(X) {' '.join(f'X({member})' for member in members)}"
               for name, members in lists.items())]
    numbers = {"UNITS": len(structure.units), "COUNTERS": len(structure.counters),
               "WATCHDOG": int(Status.WATCHDOG), "BUS_BYTES": machine.config.bus_bytes,
               "LAST_BITS": machine.config.last_bits, "CHANNEL_COUNT": machine.config.channels}
    lines += [f"#define LOCKSTEP_{name} {value}" for name, value in numbers.items()]
    return "\n".join(lines) + "\n"


class RunConfig(ctypes.Structure):
    """The limits of a run, and the memory behind the core."""

    _fields_ = [("memory_bytes", ctypes.c_uint64), ("max_cycles", ctypes.c_uint64),
                ("idle_cycles", ctypes.c_uint64), ("dram", DramTiming),
                ("base", ctypes.c_uint32 * len(isa.BASES)), ("count", ctypes.c_uint32)]


def run_result(machine: Machine) -> Any:
    """A structure in which the loop says what became of a run."""
    structure = machine.structure
    return _result_of(len(structure.units), len(structure.counters))()


@cache
def _result_of(units: int, counters: int) -> type[ctypes.Structure]:
    return type("_Result", (ctypes.Structure,), {"_fields_": [
        ("cycles", ctypes.c_uint64), ("status", ctypes.c_uint32),
        ("unit", ctypes.c_uint32), ("index", ctypes.c_uint32),
        ("protocol", ctypes.c_uint32), ("waiting", ctypes.c_uint64 * units),
        ("counters", ctypes.c_uint64 * counters)]})


def run_config(machine: Machine, program: AccelProgram, memory_bytes: int, max_cycles: int,
               dram: Dram | None) -> RunConfig:
    geometry = machine.config
    dram = dram or geometry.memory
    return RunConfig(memory_bytes=memory_bytes, max_cycles=max_cycles,
                     idle_cycles=IDLE_CYCLES + patience(dram, geometry),
                     dram=timing(dram, geometry), base=bases(dram, program), count=program.count)


def run_of(machine: Machine, result: Any, memory: np.ndarray, times: np.ndarray,
           simulator: str) -> Run:
    """The record of a run of this simulator. `times`: start and retirement (int64, 2 x
    instructions). Raises SimulatorError if the core broke a rule of the memory port."""
    require_kept_rules(result.protocol)
    structure = machine.structure
    waiting = {unit: index - 1 for unit, index in zip(structure.names, result.waiting) if index}
    counters = Counters.of(dict(zip(structure.counters, result.counters, strict=True)), structure)
    status = Status(result.status)
    unit = structure.reporters[result.unit] if status is not Status.WATCHDOG else FETCH
    return Run(status, unit, result.index, memory, result.cycles, counters, times[0], times[1],
               waiting if status is Status.DEADLOCK else {}, simulator=simulator)


def require_kept_rules(violated: int) -> None:
    """Raises SimulatorError if a request of the core was not allowed."""
    if violated:
        raise SimulatorError(_BROKEN)
