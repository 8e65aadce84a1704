"""The CPU as a target: every node of a graph becomes one kernel of native code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from compiler import te
from compiler.cpu_gpu_backends.cpu_schedule import walk_rows
from compiler.cpu_gpu_backends.llvm import Kernel, build
from compiler.graph.graph import Attrs, Graph, Node, TensorType
from compiler.graph.reference import check_inputs
from compiler.ir import Program, lower
from compiler.ops import nchw

__all__ = ["CpuTarget", "HostSegment", "node_program"]

KERNELS = 1024              # how many compiled kernels are kept


@dataclass(frozen=True, slots=True)
class Step:
    """One node and its code; the kernel takes the node's inputs in order, then its output."""

    node: Node
    kernel: Kernel
    type: TensorType


@dataclass(frozen=True, slots=True, eq=False)
class HostSegment:
    """A graph as native code. May be called from several threads: a call owns what it computes.

    Called with an array for every input of the graph, of its declared type, it returns the
    graph's outputs. Anything else is refused with ValueError.
    """

    graph: Graph
    steps: tuple[Step, ...]
    constants: Mapping[str, np.ndarray]

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        values = {**self.constants, **_dense(check_inputs(self.graph, inputs))}
        for step in self.steps:
            made = np.empty(step.type.shape, step.type.dtype)
            step.kernel(*(values[name] for name in step.node.inputs), made)
            values[step.node.outputs[0]] = made
        return {name: values[name] for name in self.graph.outputs}


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """Compiles for the processor that this runs on. Equal nodes share a kernel, also across
    graphs, so that compiling a network again costs next to nothing.
    """

    name: str = "cpu"

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """None when the CPU takes the node, else the reason why not."""
        if node.op in nchw.OPERATORS:
            return None
        return f"operator must be one of {', '.join(nchw.OPERATORS)}, not {node.op!r}"

    def compile(self, graph: Graph) -> HostSegment:
        """Refuses with ValueError a node that `refusal` has a reason against."""
        steps = tuple(self._step(graph, node) for node in graph.nodes)
        return HostSegment(graph, steps, _dense(graph.constants))

    def _step(self, graph: Graph, node: Node) -> Step:
        if reason := self.refusal(graph, node):
            raise ValueError(f"{node.name}: {reason}")
        types = tuple(graph.values[value] for value in node.inputs)
        kernel = _kernel(node.op, Attrs(node.attrs), types)
        return Step(node, kernel, graph.values[node.outputs[0]])


def _dense(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays as kernels read them: in row-major order, aligned."""
    return {name: np.require(array, requirements=("C", "A")) for name, array in arrays.items()}


@lru_cache(KERNELS)
def _kernel(op: str, attrs: Attrs, types: tuple[TensorType, ...]) -> Kernel:
    return build(node_program(op, attrs, types))


def node_program(op: str, attrs: Mapping, types: Sequence[TensorType]) -> Program:
    """The scheduled program of an operator: inputs x0, x1, ... in order, output y."""
    inputs = [te.placeholder(type_.shape, type_.dtype, f"x{position}")
              for position, type_ in enumerate(types)]
    program = lower([nchw.build(op, attrs, inputs, "y")], op)
    return walk_rows(replace(program, inputs=tuple(tensor.buffer for tensor in inputs)))
