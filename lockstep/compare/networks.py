"""Networks to measure machines with, and what they take there."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from accel.estimates.energy import energy
from accel.estimates.technology import Technology, load_technology
from accel.figures.accesses import AccessProfile
from accel.figures.layers import LayerRow
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.machine.words import decode_words
from compiler.errors import RequestError
from compiler.frontend.kinds import names_model
from compiler.te import numpy_dtype
from lockstep.options.network_files import SIZE, network_file
from runtime.driver.calibrated import Calibration
from runtime.module import Module
from runtime.pricing.hosts import TABLE, known_host
from runtime.whole import HostPart, host_part, waiting_joules

DEFAULT = ("digits", "keywords")


@dataclass(frozen=True)
class NetworkCycles:
    """One inference of a network on a machine, in the cycle simulator.

    Parameters
    ----------
    cycles : of all programs.
    macs : useful multiply-accumulates. share : of the array's peak, 0 to 1.
    layers : on the accelerator. host : nodes that the host computes.
    executed : instructions in the stream, by name. iterations : block products, entries, runs.
    instructions : what each instruction of gemm and vector did, or why it did nothing
        (`runtime.instructions.instruction_rows`).
    rows : of each layer the name, cycles, bytes moved, and what bounds it
        (`accel.figures.layers.LayerRow.bound`).
    busy : cycles in which each unit was busy. joules : energy by unit
        (`accel.estimates.energy.ENERGY_UNITS`); none where the technology has none.
    seconds : of the accelerator, at the technology's clock.
    beside : the host's part (`runtime.whole.HostPart`), with the energy of host and copies.
    waiting_joules : that leak in the accelerator meanwhile.
    accuracy : of a network that was quantized for the machine; None for one in int8.
    """

    cycles: int
    macs: int
    share: float
    layers: int
    host: int
    executed: Mapping[str, int]
    iterations: Mapping[str, int]
    rows: Sequence[tuple[str, int, int, str]]
    busy: Mapping[str, int]
    joules: Mapping[str, float]
    seconds: float
    beside: HostPart
    waiting_joules: float
    accuracy: float | None = None
    instructions: Sequence[Mapping[str, Any]] = ()

    @property
    def whole_joules(self) -> float | None:
        """The energy of the whole inference; None where some part of it is absent."""
        if self.beside.joules is None or not self.joules:
            return None
        return sum(self.joules.values()) + self.waiting_joules + self.beside.joules


def networks(names: Sequence[str], size: int = SIZE, int8: bool = True) -> dict[str, Path]:
    """The files of networks, by name: files of one's own, or what `network_file` makes of names, in
    int8 or in float. Raises RequestError for what is neither.
    """
    return {name: _file(name, size, int8) for name in dict.fromkeys(names)}


def _file(name: str, size: int, int8: bool) -> Path:
    if not names_model(name):
        return network_file(name, size, int8)
    if not Path(name).exists():
        raise RequestError(f"{name!r} must be a file that exists")
    return Path(name)


def measure(machine: Machine, path: Path, calibration: Calibration | None = None,
            host: str = TABLE, technology: Technology | None = None,
            shapes: Mapping[str, int] | None = None) -> NetworkCycles:
    """Compile the network for the accelerator and run it once, without values, in a technology; one
    in float is quantized for the machine first; `shapes` are extents of dimensions that it leaves
    open. Raises DeviceError where the run fails.
    """
    from runtime import compile, report

    technology, accuracy = technology or load_technology(), None
    if calibration and calibration.takes(path):
        made = calibration.quantized(path, machine)
        path, accuracy = made.path, made.accuracy
    module = compile(str(path), machine=machine, sim="cycle", values=False, timeline=True,
                     shapes=shapes)
    for name in module.graph.inputs:            # cycles do not depend on values
        kind = module.graph.values[name]
        module.set_input(name, np.zeros(kind.shape, numpy_dtype(kind.dtype)))
    runs = module.run()
    figures = report(module, runs, machine, 0.0)
    seconds = figures["cycles"] / (technology.clock(machine).value * 1e6)
    executed, iterations = _executed(machine, [one.program for one in module.accelerated])
    rows = [(row.name, row.cycles, row.dram_bytes, row.bound)
            for row in map(LayerRow.of, figures["layers"])]
    busy = {unit: sum(run.counters.activity[unit]["busy"] for run in runs)
            for unit in machine.structure.names}
    beside = host_part(module, known_host(host), technology.energies)
    assert beside is not None, "an accelerator and the host alone compute the network"
    return NetworkCycles(
        figures["cycles"], figures["macs"], figures["utilization"],
        sum(row["op"] != "fetch" for row in figures["layers"]), len(figures["host"]),
        executed, iterations, rows, busy,
        _joules(machine, module, runs, technology) if technology.energies else {}, seconds, beside,
        waiting_joules(machine, technology.energies, beside), accuracy, figures["instructions"])


def _joules(machine: Machine, module: Module, runs: Sequence[Run], technology: Technology
            ) -> dict[str, float]:
    profiles = [AccessProfile.of(machine, compiled.program, run)
                for compiled, run in zip(module.accelerated, runs, strict=True)]
    if not profiles:
        return {}
    return dict(energy(AccessProfile.joined(profiles), machine, technology).units)


def _executed(machine: Machine, programs: Sequence[AccelProgram | None]
              ) -> tuple[dict[str, int], dict[str, int]]:
    executed, iterations = Counter[str](), Counter[str]()
    for program in programs:
        for instruction in decode_words(machine, program.words) if program else ():
            executed[instruction.name] += 1
            iterations[instruction.name] += prod(
                loop["extent"] for loop in instruction.fields.get("loops", ()))
    order = [name for name in machine.opcodes if name in executed]
    return {name: executed[name] for name in order}, {name: iterations[name] for name in order}
