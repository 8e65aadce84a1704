"""Networks on a netlist: each program's memory compared with what its instructions declare."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from accel.figures.accesses import AccessProfile
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.sim.meaning import functional
from accel.sim.timed import cycle
from compiler.errors import DEFECT, Error, RequestError
from runtime import SimulatedDevice, compile_for
from runtime.exporting.ports import random_inputs

from .gates import GateCore
from .power import PARTS, NetPrices, Used


class MappedCoreError(Error):
    """A netlist that does something else than its machine."""

    exit_status = DEFECT


@dataclass
class Ran:
    """Counts of networks that ran on a netlist.

    Parameters
    ----------
    runs, programs, cycles, compared : how many inputs and programs ran, their cycles together, and
        the bytes of memory that were compared.
    used : the energy of each program. profiles : what the simulators count of it.
    """

    runs: int = 0
    cycles: int = 0
    compared: int = 0
    used: list[Used] = field(default_factory=list)
    profiles: list[AccessProfile] = field(default_factory=list)

    @property
    def programs(self) -> int:
        return len(self.used)

    def joined(self) -> Used:
        """All of it as one run."""
        units: dict[str, dict[str, float]] = {}
        for one in self.used:
            for unit, parts in one.units.items():
                row = units.setdefault(unit, dict.fromkeys(PARTS, 0.0))
                for part, joules in parts.items():
                    row[part] += joules
        return Used(self.cycles, units, self.used[0].leakage_w if self.used else {})


def run_network(core: GateCore, prices: NetPrices, model: Any, runs: int,
                inputs: Callable[[int, Any], Mapping[str, np.ndarray]] | None = None,
                progress: Callable[[int], None] = lambda done: None) -> Ran:
    """Runs a network on a netlist, each time with other inputs and another start of flip-flops and
    memories.

    `inputs` gives those of a run by its number and the graph; without it they are random. Raises
    MappedCoreError where memory, status or cycles are not those of the machine, RequestError for a
    network that is left to the host.
    """
    ran = Ran()

    def simulate(machine: Machine, program: AccelProgram, memory: np.ndarray) -> Run:
        expected = functional.simulate(machine, program, memory)
        timed = cycle.simulate(machine, program, memory)
        run, activity = core.activity(program, memory, undefined=ran.runs + 1)
        _require_same(core, run, expected, timed.cycles)
        ran.cycles += run.cycles
        ran.compared += memory.size
        ran.used.append(prices.of(activity))
        ran.profiles.append(AccessProfile.of(machine, program, timed))
        return run

    module = compile_for(model, SimulatedDevice(core.netlist.machine, simulate))
    if not module.accelerated:
        raise RequestError(f"The network must have layers that {core.netlist.machine.config.name} "
                           "computes: all of it is left to the host")
    for number in range(runs):
        module(inputs(number, module.graph) if inputs else random_inputs(module.graph, number))
        ran.runs += 1
        progress(ran.runs)
    return ran


def _require_same(core: GateCore, run: Run, expected: Run, cycles: int) -> None:
    where = f"The netlist of {core.netlist.machine.config.name} must do what its machine does:"
    if run.status is not expected.status:
        raise MappedCoreError(f"{where} it ends with {run.status.name}, not {expected.status.name}")
    if wrong := int(np.count_nonzero(run.memory != expected.memory)):
        raise MappedCoreError(f"{where} {wrong} of {run.memory.size} bytes of memory differ")
    if run.cycles != cycles:
        raise MappedCoreError(f"{where} it takes {run.cycles} cycles, not {cycles}")
