"""Trials of points: a network compiled for a machine, proved, and simulated with exact time.

A trial is text, so that it can be run anywhere. The result's value is the cycles; its details are
`PointFigures` as JSON. What cannot be measured is a result too, with the reason.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from accel.estimates.technology import technology_of
from accel.figures.layers import LayerRow
from accel.machine.config import AccelConfig
from accel.machine.intrinsics import SHIPPED, on_each_vector
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.mapping.quantizing import ACTIVATION_BITS
from accel.sim.timed import cycle
from compiler.errors import ArgumentError, Error
from compiler.frontend.models import graph_of
from compiler.graph.graph import Graph
from compiler.native import digest
from compiler.te import numpy_dtype
from compiler.tune.space import Result
from runtime.driver.calibrated import file_digest
from runtime.driver.compilation import compile_on
from runtime.driver.pipeline import is_about_float
from runtime.devices.device import SimulatedDevice
from runtime.module import Module
from runtime.pricing.hosts import TABLE, host_of, host_text
from runtime.report import report
from runtime.driver.targets import Targets, accelerator
from runtime.whole import HostPart, host_part

__all__ = ["PointFigures", "PointTrial", "file_digest", "is_lasting", "is_point", "machine_of",
           "run_point"]

BEGIN = '{"point": '     # of a trial's text
CYCLES = "cycles"
KEPT = 4                # networks
SEED = 0                # of the inputs with which values are compared


Shapes = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class PointFigures:
    """The figures of a network on a machine.

    Parameters
    ----------
    macs : useful multiply-accumulates. dram_bytes : over the memory port.
    host : nodes that the host computes.
    layers : a row for each: name, cycles, ideal cycles, bytes, what bounds it
        (`accel.figures.layers.LayerRow.bound`).
    compared : elements of outputs that were compared with the reference and equal; 0: none were.
    joules : that were counted in the run, and in each layer, without what leaks; None where no
        energies are known.
    host_layers, host_seconds, copy_seconds, host_joules : the host's part
        (`runtime.whole.HostPart`), its energy with that of copies; None where that is absent.
    accuracy : of the quantized network, in dB or by a user's metric; None where it was not
        quantized here.
    instructions : of those of one's own the name, how often it is executed, why it is not, and the
        LUTs that it takes then.
    """

    macs: int
    dram_bytes: int
    host: int
    layers: tuple[tuple[str, int, int, int, str], ...]
    compared: int = 0
    joules: float | None = None
    layer_joules: tuple[float, ...] = ()
    host_layers: tuple[str, ...] = ()
    host_seconds: float = 0.0
    copy_seconds: float = 0.0
    host_joules: float | None = 0.0
    accuracy: float | None = None
    instructions: tuple[tuple[str, int, str, int | None], ...] = ()

    @property
    def beside_seconds(self) -> float:
        """The seconds of host and copies."""
        return self.host_seconds + self.copy_seconds

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> "PointFigures":
        fields = json.loads(text)
        return cls(**fields | {"layers": tuple(map(tuple, fields["layers"])),
                               "layer_joules": tuple(fields["layer_joules"]),
                               "host_layers": tuple(fields["host_layers"]),
                               "instructions": tuple(map(tuple, fields["instructions"]))})


@dataclass(frozen=True, slots=True)
class PointTrial:
    """A network that is to be measured on a machine.

    Parameters
    ----------
    network : its file, with this `digest` (`file_digest`).
    toml : the machine's configuration.
    sources : what declares its instructions, as in `runtime.exploring.points.ExploredPoint`.
    machine_hash : of the machine here.
    values : whether values are computed, and compared with those of the host.
    effort : of the search for mappings (`accel.mapping.plans.search.EFFORTS`).
    technology : its text (`accel.estimates.technology.technology_of`), by whose energies joules
        are counted; "": none are.
    host : the text of the one that computes the rest (`runtime.pricing.hosts.host_of`).
    shapes : extents of dimensions that the network leaves open.
    """

    network: str
    digest: str
    toml: str
    sources: tuple[str, ...]
    machine_hash: str
    values: bool = False
    technology: str = ""
    effort: int = 0
    host: str = field(default_factory=lambda: host_text(TABLE))
    shapes: Shapes = ()

    @property
    def target(self) -> str:
        """The device that a worker needs: its processor, which simulates."""
        return "cpu"

    @property
    def id(self) -> str:
        return digest([self.digest, self.toml, self.machine_hash, str(self.values), self.technology,
                       str(self.effort), self.host, str(self.shapes)])

    @property
    def text(self) -> str:
        return json.dumps({"point": asdict(self)})

    @property
    def file(self) -> Path:
        """The file that a worker elsewhere needs."""
        return Path(self.network)

    def at(self, path: str) -> "PointTrial":
        """The trial where the network's file is elsewhere."""
        return replace(self, network=path)

    @classmethod
    def of(cls, text: str) -> "PointTrial":
        """Raises ArgumentError for a text that is no trial of a point."""
        try:
            fields = json.loads(text)["point"]
            return cls(**fields | {"sources": tuple(fields["sources"]),
                                   "shapes": tuple((name, int(extent))
                                                   for name, extent in fields["shapes"])})
        except (ValueError, TypeError, LookupError, RecursionError):
            raise ArgumentError(f"Trial must be what PointTrial.text gives, not {text[:80]!r}"
                                ) from None


def is_point(text: str) -> bool:
    """True if a trial, as text, is one of a point."""
    return text.startswith(BEGIN)


def is_lasting(result: Result) -> bool:
    """True if a result tells about the machine, also where it says that the machine cannot.

    Others say that a process was lost, or took too long: another time there may be a result.
    """
    return result.unit == CYCLES


def run_point(trial: PointTrial) -> Result:
    """Measures a point here. Every failure is a result, too."""
    try:
        return _measured(trial)
    except Error as error:
        return _failure(str(error))
    except Exception as error:      # noqa: BLE001 - a machine may lead to any defect of a back end
        return _failure(f"{type(error).__name__}: {error}")


def _failure(error: str) -> Result:
    return Result(None, CYCLES, " ".join(error.split()))


def _measured(trial: PointTrial) -> Result:
    machine = machine_of(trial.toml, trial.sources, trial.machine_hash)
    graph = _graph(trial.network, trial.digest, trial.shapes)

    def simulate(machine: Machine, program: Any, memory: np.ndarray) -> Any:
        return cycle.simulate(machine, program, memory, values=trial.values, timeline=True)

    device = SimulatedDevice(machine, simulate)
    module = compile_on(graph, Targets([accelerator(machine, device, effort=trial.effort)]),
                        cache=False)
    if not module.accelerated:
        return _failure(f"all of the network runs on the host{_why(module, machine)}")
    inputs = _inputs(graph, trial.values)
    for name, array in inputs.items():
        module.set_input(name, array)
    runs = module.run()
    figures = report(module, runs, machine, 0.0)
    compared = _compared(trial, module, inputs) if trial.values else 0
    joules, each = _counted(trial.technology, machine, module, runs)
    beside = _beside(trial, module)
    rows = [LayerRow.of(row) for row in figures["layers"]]
    result = PointFigures(
        figures["macs"], sum(row.dram_bytes for row in rows), len(figures["host"]),
        tuple((row.name, row.cycles, row.ideal_cycles, row.dram_bytes, row.bound)
              for row in rows), compared, joules, each,
        beside.layers, beside.seconds, beside.copy_seconds, beside.joules,
        instructions=tuple((row["name"], row["executed"], row["reason"], row["luts"])
                           for row in figures["instructions"] if row["own"]))
    return Result(float(figures["cycles"]), CYCLES, details=result.text)


def _why(module: Module, machine: Machine) -> str:
    """Why the accelerator has nothing: the network must be quantized, else the first reason."""
    if machine.config.output in ACTIVATION_BITS and any(map(is_about_float, module.graph.notes)):
        return ": a network in float must come with --calibration FILE, by which it is quantized"
    node, reason = next(iter(module.partition.stay.items()), ("", "it has no operators"))
    return f", such as {node}: {reason}"


def _beside(trial: PointTrial, module: Module) -> HostPart:
    energies = technology_of(trial.technology).energies if trial.technology else None
    found = host_part(module, host_of(trial.host), energies)
    assert found is not None, "a point has the accelerator and the host alone"
    return found


def machine_of(toml: str, sources: Sequence[str], expected: str) -> Machine:
    """The machine of a configuration with the instructions of these sources
    (`runtime.exploring.points.ExploredPoint`). Raises ArgumentError where its hash is not the one
    that whoever explores expects.
    """
    first, *more = sources
    declarations = load_machine(first).declarations if first else SHIPPED
    for source in more:
        known = {one.name for one in declarations}
        other = load_machine(source)
        declarations += tuple(one for one in other.declarations
                              if one.name in other.own and one.name not in known)
    config = AccelConfig(**tomllib.loads(toml))
    machine = Machine(config, on_each_vector(config.structure, declarations))
    if machine.hash != expected:
        raise ArgumentError(f"The machine is another one here: its hash is {machine.hash[:12]}, "
                            f"not {expected[:12]}")
    return machine


@lru_cache(KEPT)
def _graph(path: str, expected: str, shapes: Shapes) -> Graph:
    if file_digest(Path(path)) != expected:
        raise ArgumentError(f"The network {path!r} is another one now")
    return graph_of(path, dict(shapes))


def _inputs(graph: Graph, values: bool) -> Mapping[str, np.ndarray]:
    """Random inputs of the graph's types, or zeros where values do not matter."""
    random, inputs = np.random.default_rng(SEED), {}
    for name in graph.inputs:
        kind = graph.values[name]
        dtype = numpy_dtype(kind.dtype)
        if not values:
            inputs[name] = np.zeros(kind.shape, dtype)
        elif dtype.kind in "iu":
            bounds = np.iinfo(dtype)
            inputs[name] = random.integers(bounds.min, bounds.max, kind.shape, dtype, endpoint=True)
        else:
            inputs[name] = random.random(kind.shape).astype(dtype)
    return inputs


def _compared(trial: PointTrial, module: Module, inputs: Mapping[str, np.ndarray]) -> int:
    """The number of elements of all outputs. Raises ArgumentError where one is not the host's."""
    reference = _reference(trial.network, trial.digest, trial.shapes)(inputs)
    total = 0
    for name in module.graph.outputs:
        found, wanted = np.asarray(module.get_output(name)), np.asarray(reference[name])
        if different := int((found != wanted).sum()):
            raise ArgumentError(f"{different} of {wanted.size} elements of {name} differ from the "
                                f"reference")
        total += wanted.size
    return total


@lru_cache(KEPT)
def _reference(path: str, expected: str, shapes: Shapes) -> Module:
    """The network on the host alone."""
    return compile_on(_graph(path, expected, shapes), Targets([]))


def _counted(text: str, machine: Machine, module: Module, runs: Sequence[Any]
             ) -> tuple[float | None, tuple[float, ...]]:
    """Joules of all runs, and of each layer, without leakage: what leaks depends on the clock."""
    from accel.estimates.energy import energy
    from accel.figures.accesses import AccessProfile

    built = technology_of(text) if text else None
    if built is None or built.energies is None:
        return None, ()
    still = replace(built, energies=replace(built.energies, leakage=None))
    used = [energy(AccessProfile.of(machine, compiled.program, run), machine, still)
            for compiled, run in zip(module.accelerated, runs, strict=True)]
    return (sum(one.joules for one in used),
            tuple(layer.joules for one in used for layer in one.layers))
