"""Segments of the processor as networks of their own, for a whole of which a device has parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler.cpu_gpu_backends.c.network import network_files
from compiler.cpu_gpu_backends.cpu.exported import exported
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.exports import HEADER_BYTES, arrays_of
from compiler.cpu_gpu_backends.llvm import MACHINES
from compiler.errors import ArgumentError
from compiler.exports import CInterface, ExportError, header
from compiler.exports.names import is_identifier
from compiler.graph.division.partition import subgraph
from compiler.graph.division.protocols import HOST
from compiler.graph.room import bytes_of

__all__ = ["HEADER_BYTES", "CInterface", "ExportError", "SegmentCode", "arrays_of", "bytes_of",
           "header", "is_identifier", "is_of_the_processor", "segment_code"]


@dataclass(frozen=True, slots=True)
class SegmentCode:
    """A segment as a network in C: its interface, its files by name, and the file of its constants,
    empty where the others have them.
    """

    interface: CInterface
    files: Mapping[str, bytes]
    weights: bytes


def is_of_the_processor(step: Any) -> bool:
    """True if the processor computes a `runtime.module.Step`."""
    return step.segment.target == HOST


def segment_code(module: Any, step: Any, name: str, machine: str | None = None,
                 apart: bool = False) -> SegmentCode:
    """The segment as C text for any processor, or as an object for one of `MACHINES`. Raises
    ArgumentError for another machine, CError for a segment that C cannot say.
    """
    graph = subgraph(module.graph, step.segment)
    if machine is None:
        text = network_files(graph, name, apart=apart)
        return SegmentCode(text.interface, {f"{name}.h": text.header.encode(),
                                            f"{name}.c": text.source.encode()}, text.weights or b"")
    if machine not in MACHINES:
        raise ArgumentError(f"machine must be one of {', '.join(MACHINES)}, not {machine!r}")
    target = CpuTarget(machine=MACHINES[machine])
    made = exported(target.compile(graph), name, MACHINES[machine], apart,
                    title=f"{graph.name}, for {machine}")
    return SegmentCode(made.interface, {f"{name}.h": header(made.interface).encode(),
                                        f"{name}.o": made.code}, made.weights)

