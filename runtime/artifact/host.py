"""Segments of the host as JSON; their machine code is members.

Kernels of the same code and interface are kept once.
"""

import hashlib
from collections.abc import Mapping
from math import prod
from typing import Any

from compiler.cpu_gpu_backends.cpu.target import GroupCode, HostSegment, on_cache_lines
from compiler.cpu_gpu_backends.llvm import Kernel
from compiler.cpu_gpu_backends.llvm.machine import Processor as Processor
from compiler.cpu_gpu_backends.llvm.objects.elf import ObjectError, require_object
from compiler.graph.fusion import Group
from compiler.graph.graph import Graph
from compiler.graph.lowering.winograd import Convolution, Sizes, best_size
from compiler.ir import Program, Seq
from compiler.te import Buffer

from .container import ArtifactError, Container, Members


class Kernels:
    """Collects the kernels of a module."""

    def __init__(self, members: Members):
        self.members = members
        self.entries: list[dict[str, Any]] = []
        self._known: dict[bytes, int] = {}
        self._numbers: dict[Kernel, int] = {}

    def number(self, kernel: Kernel) -> int:
        """The number of the kernel in the file."""
        if kernel not in self._numbers:
            self._numbers[kernel] = self._added(kernel)
        return self._numbers[kernel]

    def _added(self, kernel: Kernel) -> int:
        program, code = kernel.program, kernel.code
        interface = {"name": program.name,
                     "inputs": [buffer_json(buffer) for buffer in program.inputs],
                     "outputs": [buffer_json(buffer) for buffer in program.outputs]}
        key = hashlib.sha256(repr(interface).encode() + code).digest()
        if key not in self._known:
            self._known[key] = len(self.entries)
            member = self.members.add(f"kernels/{len(self.entries)}.o", code)
            self.entries.append({**interface, "code": member})
        return self._known[key]


def kernel_of(entry: Mapping[str, Any], container: Container) -> Kernel:
    """Links the kernel into this process, if the object file is intact."""
    inputs, outputs = (tuple(map(buffer_of, entry[key])) for key in ("inputs", "outputs"))
    code = container.data(entry["code"])
    try:
        require_object(code)
        return Kernel.restored(Program(entry["name"], inputs, outputs, Seq(())), code)
    except (ObjectError, RuntimeError) as error:        # LLVM's refusals are RuntimeErrors
        raise ArtifactError(f"was altered: {entry['code']} cannot be linked: {error}") from None


def host_json(segment: HostSegment, kernels: Kernels) -> dict[str, Any]:
    """A segment as JSON: its groups, each with the number of its kernel; a view has none; and the
    sizes of Winograd's products.
    """
    return {"winograd": dict(segment.sizes),
            "groups": [{"nodes": [node.name for node in step.group.nodes],
                        "kernel": step.kernel and kernels.number(step.kernel)}
                       for step in segment.steps]}


def host_of(entry: Mapping[str, Any], graph: Graph, kernels: list[Kernel]) -> HostSegment:
    """Reads a host segment; `graph` is the segment's, lowered."""
    nodes = {node.name: node for node in graph.nodes}
    groups = [Group.of((nodes[name] for name in group["nodes"]), graph)
              for group in entry["groups"]]
    if sorted(node.name for group in groups for node in group.nodes) != sorted(nodes):
        raise ValueError("groups must hold every node once")
    known = {*graph.inputs, *graph.constants}
    for group in groups:
        if not known.issuperset(group.inputs):
            raise ValueError("a group must read what is there")
        known.add(group.output)
    steps = (_step(graph, group, None if saved["kernel"] is None else kernels[saved["kernel"]])
             for group, saved in zip(groups, entry["groups"], strict=True))
    return HostSegment(graph, tuple(steps), on_cache_lines(graph.constants),
                       sizes=entry["winograd"])


def sizes_of(entry: Mapping[str, Any]) -> Sizes:
    """The sizes of Winograd's products that a segment was compiled with; of integers, which any
    size gives exactly, the best where another processor had no use for them.
    """
    def size(convolution: Convolution) -> int:
        chosen = entry["winograd"].get(str(convolution))
        if chosen is None and convolution.dtype != "float32":
            return best_size(convolution)
        if chosen not in convolution.times():
            raise ValueError(f"convolution {convolution} must have a size that it can be computed "
                             f"with, not {chosen}")
        return chosen

    return size


def _step(graph: Graph, group: Group, kernel: Kernel | None) -> GroupCode:
    """A step of a group. Kernels may see arrays in other shapes, with equal types and numbers of
    elements.
    """
    if (kernel is None) != group.is_view:
        raise ValueError(f"{group.nodes[-1].name} must have a kernel unless it is a view")
    types = [graph.values[value] for value in (*group.inputs, group.output)]
    buffers = () if kernel is None else (*kernel.program.inputs, kernel.program.outputs[0])
    if kernel is not None and [(prod(b.shape), b.dtype) for b in buffers] != [
            (prod(t.shape), t.dtype) for t in types]:
        raise ValueError(f"{group.nodes[-1].name} must have a kernel for its types")
    return GroupCode(group, kernel, types[-1])


def processor_json(processor: Processor) -> dict[str, Any]:
    """The processor as JSON, in LLVM's words."""
    features = ",".join([*(f"+{feature}" for feature in processor.features),
                         *(f"-{feature}" for feature in processor.absent)])
    return {"triple": processor.triple, "cpu": processor.cpu, "features": features}


def buffer_json(buffer: Buffer) -> dict[str, Any]:
    return {"name": buffer.name, "dtype": buffer.dtype, "shape": list(buffer.shape)}


def buffer_of(entry: Mapping[str, Any]) -> Buffer:
    return Buffer(entry["name"], tuple(entry["shape"]), entry["dtype"])
