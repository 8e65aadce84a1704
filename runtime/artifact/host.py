"""Segments of the host as JSON; their machine code is members.

Kernels of the same code and interface are kept once.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from compiler.cpu_gpu_backends.cpu import HostSegment, Step
from compiler.cpu_gpu_backends.llvm import Kernel
from compiler.cpu_gpu_backends.llvm.machine import Machine as Processor
from compiler.graph.graph import Graph
from compiler.ir import Program, Seq
from compiler.te import Buffer

from .container import Container, Members

__all__ = ["Kernels", "host_json", "host_of", "kernel_of", "processor_json"]


class Kernels:
    """The kernels of a module, as they are collected."""

    def __init__(self, members: Members):
        self.members = members
        self.made: list[dict[str, Any]] = []
        self._known: dict[bytes, int] = {}

    def number(self, kernel: Kernel) -> int:
        """By which the kernel is known."""
        program, code = kernel.program, kernel.code
        interface = {"name": program.name,
                     "inputs": [_buffer_json(buffer) for buffer in program.inputs],
                     "outputs": [_buffer_json(buffer) for buffer in program.outputs]}
        key = hashlib.sha256(repr(interface).encode() + code).digest()
        if key not in self._known:
            self._known[key] = len(self.made)
            member = self.members.add(f"kernels/{len(self.made)}.o", code)
            self.made.append({**interface, "code": member})
        return self._known[key]


def kernel_of(made: Mapping[str, Any], container: Container) -> Kernel:
    """Linked into this process."""
    inputs, outputs = (tuple(map(_buffer_of, made[key])) for key in ("inputs", "outputs"))
    return Kernel.restored(Program(made["name"], inputs, outputs, Seq(())),
                           container.data(made["code"]))


def host_json(segment: HostSegment, kernels: Kernels) -> dict[str, Any]:
    """The numbers of the kernels of its nodes."""
    return {"kernels": [kernels.number(step.kernel) for step in segment.steps]}


def host_of(made: Mapping[str, Any], graph: Graph, kernels: list[Kernel]) -> HostSegment:
    """`graph` is the segment's."""
    steps = []
    for node, number in zip(graph.nodes, made["kernels"], strict=True):
        kernel, types = kernels[number], [graph.values[v] for v in (*node.inputs, *node.outputs)]
        buffers = (*kernel.program.inputs, *kernel.program.outputs)
        if [(b.shape, b.dtype) for b in buffers] != [(t.shape, t.dtype) for t in types]:
            raise ValueError(f"{node.name} must have a kernel for its types")
        steps.append(Step(node, kernel, types[-1]))
    return HostSegment(graph, tuple(steps), graph.constants)


def processor_json(processor: Processor) -> dict[str, Any]:
    """In LLVM's words."""
    features = ",".join([*(f"+{one}" for one in processor.features),
                         *(f"-{one}" for one in processor.absent)])
    return {"triple": processor.triple, "cpu": processor.cpu, "features": features}


def _buffer_json(buffer: Buffer) -> dict[str, Any]:
    return {"name": buffer.name, "dtype": buffer.dtype, "shape": list(buffer.shape)}


def _buffer_of(made: Mapping[str, Any]) -> Buffer:
    return Buffer(made["name"], tuple(made["shape"]), made["dtype"])
