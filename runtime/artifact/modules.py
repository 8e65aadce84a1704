"""Whole modules: written, read, put on a device."""

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import IO, Any

from accel.machine.config import AccelConfig
from accel.machine.machine import Machine, MachineRecord
from accel.machine.program import Program
from accel.mapping.work import Work
from compiler.cpu_gpu_backends.cpu.target import CpuTarget, HostSegment
from compiler.cpu_gpu_backends.llvm import host
from compiler.files import whole_file
from compiler.graph.graph import Graph
from compiler.graph.partition import ACCEL, Partition, Segment, subgraph
from runtime.arguments import require_kind, require_path
from runtime.device import Device, SimulatedDevice, simulator
from runtime.module import AccelSegment, Module, Settings, Step

from .container import ArtifactError, Container, Members, opened, write_archive
from .graphs import graph_json, graph_of, partition_json, partition_of
from .host import Kernels, host_json, host_of, kernel_of, processor_json
from .programs import program_json, program_of, work_json, work_of

__all__ = ["Saved", "load", "read", "save", "write"]


@dataclass(frozen=True)
class Saved:
    """A module that waits for its device: `machine` is that of the accelerator, if it needs one."""

    graph: Graph
    partition: Partition
    parts: tuple[HostSegment | tuple[Program, tuple[tuple[Work, ...], ...]], ...]
    settings: Settings
    machine: Machine | None
    auto: Mapping[str, Any] | None = None
    layout: Mapping[str, Any] | None = None

    def on(self, device: Device | None) -> Module:
        """The module. Raises ProgramError for a device with another machine."""
        steps = []
        for segment, part in zip(self.partition.segments, self.parts, strict=True):
            if isinstance(part, HostSegment):
                steps.append(Step(segment, part))
            else:
                assert device is not None
                part[0].require(device.machine)
                steps.append(Step(segment, AccelSegment(*part, device)))
        return Module(self.graph, self.partition, tuple(steps), self.settings, self.auto,
                      self.layout)


def load(path: str | PathLike[str], *, sim: str = "functional", machine: Machine | None = None,
         **options) -> Module:
    """The module that `Module.save` wrote.

    Parameters
    ----------
    sim : the device behind an accelerator, with its `options`: see `runtime.simulator`.
    machine : the accelerator, where it has instructions of one's own.

    Raises ArtifactError for a file that is not such a one, or not whole, or for another machine,
    and ArgumentError for arguments that are not of their kind.
    """
    require_path(path)
    require_kind("machine", machine, Machine | None, "an accel.machine.machine.Machine")
    simulate = simulator(sim, **options)
    saved = read(path, machine)
    if saved.machine is None:
        return saved.on(None)
    return saved.on(SimulatedDevice(saved.machine, simulate))


def save(module: Module, path: str | PathLike[str]) -> None:
    """The file is whole or not there. Raises FileError where it cannot be written."""
    with whole_file(path) as file:
        write(module, file)


def write(module: Module, file: IO[bytes]) -> None:
    """As a file that `read` reads."""
    members = Members()
    kernels = Kernels(members)
    parts = [{"program": program_json(step.execute.program, number, members),
              "work": work_json(step.execute.work)} if isinstance(step.execute, AccelSegment)
             else host_json(_host_segment(step), kernels)
             for number, step in enumerate(module.steps)]
    machine = module.machine
    write_archive(file, {
        "made_with": {"lockstep-hw": _version("lockstep-hw"), "llvmlite": _version("llvmlite"),
                      "python": platform.python_version()},
        "settings": module.settings,
        "auto": module.auto,
        "layout": module.layout,
        "machine": machine and {"config": asdict(machine.config), **asdict(machine.record)},
        "processor": processor_json(host()),
        "graph": graph_json(module.graph, members),
        "partition": partition_json(module.partition),
        "parts": parts,
        "kernels": kernels.made,
    }, members)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:        # run from a checkout that is not installed
        return ""


def _host_segment(step: Step) -> HostSegment:
    if not isinstance(step.execute, HostSegment):
        raise TypeError(f"A segment must be compiled code to be saved, not {step.execute!r}")
    return step.execute


def read(path: str | PathLike[str], machine: Machine | None = None) -> Saved:
    """See `load`."""
    with opened(Path(path)) as container:
        manifest = container.manifest
        graph = graph_of(manifest["graph"], container)
        partition = partition_of(manifest["partition"], graph)
        machine = _machine(manifest["machine"], machine)
        kernels = None
        if manifest["processor"] == processor_json(host()):
            kernels = [kernel_of(made, container) for made in manifest["kernels"]]
        parts = []
        for segment, made in zip(partition.segments, manifest["parts"], strict=True):
            if segment.target == ACCEL:
                parts.append(_accelerated(made, machine, graph, segment, container))
            elif kernels is None:       # compiled for another processor
                parts.append(CpuTarget().compile(subgraph(graph, segment)))
            else:
                parts.append(host_of(made, subgraph(graph, segment), kernels))
        return Saved(graph, partition, tuple(parts), dict(manifest["settings"]), machine,
                     _auto(manifest.get("auto"), partition), _layout(manifest.get("layout")))


def _auto(made: Mapping[str, Any] | None, partition: Partition) -> Mapping[str, Any] | None:
    """What `auto` decided by, where it did."""
    if made is not None and len(made["segments"]) != len(partition.segments):
        raise ValueError("figures of auto must be those of its segments")
    return made


def _layout(made: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What the layout pass found."""
    if made is not None and len(made["conversions"]) != made["count"]:
        raise ValueError("figures of the layout must count its conversions")
    return made


def _accelerated(made: Mapping[str, Any], machine: Machine | None, graph: Graph, segment: Segment,
                 container: Container) -> tuple[Program, tuple[tuple[Work, ...], ...]]:
    if machine is None:
        raise ValueError("a segment of the accelerator must have its machine")
    program = program_of(made["program"], machine, graph, segment, container)
    return program, work_of(made["work"], graph, program)


def _machine(made: Mapping[str, Any] | None, given: Machine | None) -> Machine | None:
    if made is None:
        return None
    machine = given or Machine(AccelConfig(**made["config"]))
    if machine.hash != made["hash"]:
        hint = ("compile the network again" if given else
                "compile the network again, or give the machine if its instructions are your own")
        known = MachineRecord.parse(made)
        raise ArtifactError(f"was compiled for machine {known}, not for {machine.record}: "
                            f"{known.difference(machine.record)}; {hint}")
    return machine
