"""Compiled segments as JSON: a codec for each kind of `Compiled`."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from accel.machine.machine import Machine
from accel.mapping.compiled import CompiledSegment
from accel.mapping.positions.prefixes import with_room
from compiler.cpu_gpu_backends.cpu.target import CpuTarget, HostSegment
from compiler.cpu_gpu_backends.gpu.segment import GpuSegment
from compiler.cpu_gpu_backends.llvm import Kernel
from compiler.graph.division.partition import Segment, subgraph
from compiler.graph.division.protocols import Compiled
from compiler.graph.graph import Graph

from .container import ArtifactError, Container, Members
from .gpu import gpu_json, gpu_of
from .host import Kernels, host_json, host_of, sizes_of
from .programs import (prefix_json, prefixes_of, program_json, program_of, puts_of, work_json,
                       work_of)


class Shelf:
    """Takes the binary data of a module's segments, and what they share."""

    def __init__(self):
        self.members = Members()
        self.kernels = Kernels(self.members)


@dataclass(frozen=True)
class Stock:
    """The sources for reading a module's segments. Without `kernels`, the machine code in the file
    is another processor's, so the host's segments are compiled anew.
    """

    container: Container
    graph: Graph
    machine: Machine | None
    kernels: list[Kernel] | None


def part_json(compiled: Compiled, number: int, shelf: Shelf) -> dict[str, Any]:
    """The segment of this number as JSON. Raises ArtifactError for one that no codec can write."""
    if compiled.kind not in CODECS:
        raise ArtifactError(f"cannot hold segment {number}: only programs of the accelerator and "
                            f"code of the host and of GPUs can be saved, not "
                            f"{type(compiled).__name__}")
    return CODECS[compiled.kind].write(compiled, number, shelf)


def part_of(entry: Mapping[str, Any], segment: Segment, stock: Stock) -> Compiled:
    return next(codec for codec in CODECS.values() if codec.field in entry).read(
        entry, segment, stock)


def _program_json(compiled: CompiledSegment, number: int, shelf: Shelf) -> dict[str, Any]:
    puts = {"puts": [asdict(put) for put in compiled.puts]} if compiled.puts else {}
    prefixes = {"prefixes": [prefix_json(prefix, number, shelf.members)
                             for prefix in compiled.prefixes]} if compiled.prefixes else {}
    return {"program": program_json(compiled.program, number, shelf.members),
            "work": work_json(compiled.work), **puts, **prefixes}


def _program_of(entry: Mapping[str, Any], segment: Segment, stock: Stock) -> CompiledSegment:
    if stock.machine is None:
        raise ValueError("a segment of the accelerator must have its machine")
    program = program_of(entry["program"], stock.machine, stock.graph, segment, stock.container)
    prefixes = prefixes_of(entry.get("prefixes", ()), stock.graph, segment, program,
                           stock.container)
    return CompiledSegment(
        with_room(program, prefixes), work_of(entry["work"], stock.graph, program.layers),
        puts=puts_of(entry.get("puts", ()), segment, program), prefixes=prefixes)


def _host_json(segment: HostSegment, number: int, shelf: Shelf) -> dict[str, Any]:
    return host_json(segment, shelf.kernels)


def _host_of(entry: Mapping[str, Any], segment: Segment, stock: Stock) -> HostSegment:
    part = subgraph(stock.graph, segment)
    if stock.kernels is None:
        return CpuTarget().compile(part, sizes_of(entry))
    return host_of(entry, CpuTarget().lowered(part, sizes_of(entry)), stock.kernels)


def _gpu_json(segment: GpuSegment, number: int, shelf: Shelf) -> dict[str, Any]:
    return gpu_json(segment, number, shelf.members)


def _gpu_of(entry: Mapping[str, Any], segment: Segment, stock: Stock) -> GpuSegment:
    return gpu_of(entry["gpu"], subgraph(stock.graph, segment), stock.container)


@dataclass(frozen=True)
class _Codec:
    """A codec; only the JSON of its kind has `field`."""

    field: str
    write: Callable[[Any, int, Shelf], dict[str, Any]]
    read: Callable[[Mapping[str, Any], Segment, Stock], Compiled]


CODECS: dict[str | None, _Codec] = {
    CompiledSegment.kind: _Codec("program", _program_json, _program_of),
    GpuSegment.kind: _Codec("gpu", _gpu_json, _gpu_of),
    HostSegment.kind: _Codec("groups", _host_json, _host_of)}
