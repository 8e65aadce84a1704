"""Writes and reads whole modules."""

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import IO, Any

from accel.machine.config import AccelConfig
from accel.machine.machine import Machine, MachineRecord
from accel.machine.rules import DeclarationError
from compiler.cpu_gpu_backends.llvm import host
from compiler.files import whole_file
from compiler.graph.division.partition import Partition
from compiler.graph.division.protocols import Compiled
from compiler.graph.graph import Graph

from .container import ArtifactError, opened, write_archive
from .graphs import graph_json, graph_of, partition_json, partition_of
from .host import kernel_of, processor_json
from .parts import Shelf, Stock, part_json, part_of


@dataclass(frozen=True)
class Saved:
    """A module that waits for its devices (`runtime.driver.loading`): `machine` is that of the
    accelerator, if it needs one.
    """

    graph: Graph
    partition: Partition
    parts: tuple[Compiled, ...]
    settings: Mapping[str, int | bool]
    machine: Machine | None
    auto: Mapping[str, Any] | None = None
    layout: Mapping[str, Any] | None = None
    scales: Mapping[str, tuple[float, int]] | None = None


def save(module: Any, path: str | PathLike[str]) -> None:
    """Saves a `runtime.Module` atomically. Raises FileError where the file cannot be written, and
    ArtifactError for a segment that no file can hold.
    """
    with whole_file(path) as file:
        write(module, file)


def write(module: Any, file: IO[bytes]) -> None:
    """Writes the module as a file that `read` reads."""
    shelf = Shelf()
    parts = [part_json(step.compiled, number, shelf) for number, step in enumerate(module.steps)]
    machine = module.machine
    write_archive(file, {
        "made_with": {"lockstep-hw": _version("lockstep-hw"), "llvmlite": _version("llvmlite"),
                      "python": platform.python_version()},
        "settings": module.settings,
        "auto": module.auto,
        "layout": module.layout,
        "scales": {name: {"scale": scale, "zero_point": zero_point}
                   for name, (scale, zero_point) in module.scales.items()},
        "machine": machine and {"config": machine.config.values(), **asdict(machine.record)},
        "processor": processor_json(host()),
        "graph": graph_json(module.graph, shelf.members),
        "partition": partition_json(module.partition),
        "parts": parts,
        "kernels": shelf.kernels.entries,
    }, shelf.members)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:        # run from a checkout that is not installed
        return ""


def read(path: str | PathLike[str], machine: Machine | None = None) -> Saved:
    """Reads a module without its devices: see `runtime.load`."""
    with opened(Path(path)) as container:
        manifest = container.manifest
        graph = graph_of(manifest["graph"], container)
        partition = partition_of(manifest["partition"], graph)
        machine = _machine(manifest["machine"], machine)
        kernels = None
        if manifest["processor"] == processor_json(host()):
            kernels = [kernel_of(entry, container) for entry in manifest["kernels"]]
        stock = Stock(container, graph, machine, kernels)
        parts = tuple(part_of(entry, segment, stock) for segment, entry
                      in zip(partition.segments, manifest["parts"], strict=True))
        return Saved(graph, partition, parts, dict(manifest["settings"]), machine,
                     _auto(manifest.get("auto"), partition), _layout(manifest.get("layout")),
                     _scales(manifest.get("scales"), graph))


def _auto(entry: Mapping[str, Any] | None, partition: Partition) -> Mapping[str, Any] | None:
    """The figures that `auto` decided by; None for other targets."""
    if entry is not None and len(entry["segments"]) != len(partition.segments):
        raise ValueError("figures of auto must be those of its segments")
    return entry


def _layout(entry: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The figures of the layout pass."""
    if entry is not None and len(entry["conversions"]) != entry["count"]:
        raise ValueError("figures of the layout must count its conversions")
    return entry


def _scales(entry: Mapping[str, Any] | None, graph: Graph) -> dict[str, tuple[float, int]] | None:
    """Scales and zero points of inputs and outputs; None in an older file."""
    if entry is None:
        return None
    if not {*graph.inputs, *graph.outputs}.issuperset(entry):
        raise ValueError("scales must be those of inputs and outputs")
    return {name: (float(one["scale"]), one["zero_point"]) for name, one in entry.items()}


def _machine(entry: Mapping[str, Any] | None, given: Machine | None) -> Machine | None:
    if entry is None:
        return None
    known = MachineRecord.parse(entry)
    try:
        machine = given or Machine(AccelConfig(**entry["config"]))
    except DeclarationError:        # a unit that no shipped instruction is of
        raise ArtifactError(f"was compiled for machine {known}, which has units of its own: give "
                            f"its machine: --machine M") from None
    if machine.hash != entry["hash"]:
        hint = ("compile the network again" if given else
                "compile the network again, or give its machine if it has instructions of your "
                "own: --machine M")
        raise ArtifactError(f"was compiled for machine {known}, not for {machine.record}: "
                            f"{known.difference(machine.record)}; {hint}")
    return machine
