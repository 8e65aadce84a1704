"""Segments of the processor as networks of their own, for a whole of which a device has parts."""

from compiler.cpu_gpu_backends.cpu.exported import HEADER_BYTES, Exported, exported
from compiler.cpu_gpu_backends.cpu.segment import HostSegment
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.llvm import MACHINES, host
from compiler.errors import ArgumentError
from compiler.exports import CArray, CInterface, ExportError, header
from compiler.exports.names import is_identifier
from compiler.graph.graph import Graph
from compiler.graph.partition import subgraph
from compiler.graph.room import bytes_of
from runtime.module import Module, Step

__all__ = ["HEADER_BYTES", "CInterface", "Exported", "ExportError", "arrays_of", "bytes_of",
           "header", "is_identifier", "is_of_the_processor", "segment_code"]


def is_of_the_processor(step: Step) -> bool:
    return isinstance(step.compiled, HostSegment)


def segment_code(module: Module, step: Step, name: str, machine: str | None = None,
                 apart: bool = False) -> Exported:
    """The segment's code for a processor of `MACHINES`, by default this computer."""
    if machine is not None and machine not in MACHINES:
        raise ArgumentError(f"machine must be one of {', '.join(MACHINES)}, not {machine!r}")
    target = CpuTarget(machine=MACHINES[machine] if machine else None)
    graph = subgraph(module.graph, step.segment)
    return exported(target.compile(graph), name, target.machine or host(), apart,
                    title=f"{graph.name}, for {machine or 'a processor like this one'}")


def arrays_of(graph: Graph, names: tuple[str, ...]) -> tuple[CArray, ...]:
    """Inputs or outputs of a network, as C is told of them."""
    return tuple(CArray(name, graph.values[name].dtype, graph.values[name].shape)
                 for name in names)
