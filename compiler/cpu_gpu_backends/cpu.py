"""The CPU as a target: every group of operators becomes one kernel of native code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from compiler.cpu_gpu_backends.cpu_groups import Recipe, group_program, recipe_of
from compiler.cpu_gpu_backends.cpu_tiles import Vectors
from compiler.cpu_gpu_backends.llvm import Kernel, build, host
from compiler.graph.fusion import Group, Groups, fuse, separate
from compiler.graph.graph import Graph, Node, TensorType
from compiler.graph.reference import check_inputs
from compiler.ops import nchw

__all__ = ["CpuTarget", "HostSegment"]

KERNELS = 1024              # how many compiled kernels are kept
# Operators that sum float32 products: rounding once less is within what their order permits.
CONTRACTED = {"conv2d", "convtranspose2d", "dense", "matmul"}


@dataclass(frozen=True, slots=True)
class Step:
    """One group and its code, which takes the group's inputs in order, then its output and its
    workspaces; a group that is only a view has none.
    """

    group: Group
    kernel: Kernel | None
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
            values[step.group.output] = _executed(step, [values[v] for v in step.group.inputs])
        return {name: values[name] for name in self.graph.outputs}


def _executed(step: Step, inputs: Sequence[np.ndarray]) -> np.ndarray:
    if step.kernel is None:
        return inputs[0].reshape(step.type.shape)
    result, *workspaces = (np.empty(b.shape, b.dtype) for b in step.kernel.program.outputs)
    seen = (array.reshape(buffer.shape) for array, buffer
            in zip(inputs, step.kernel.program.inputs, strict=True))
    step.kernel(*seen, result, *workspaces)
    return result.reshape(step.type.shape)


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """Compiles for the processor that this runs on. Equal groups share a kernel, also across
    graphs, so that compiling a network again costs next to nothing.

    Without `fusion` every operator is a group of its own.
    """

    name: str = "cpu"
    fusion: bool = True

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """None when the CPU takes the node, else the reason why not."""
        if node.op in nchw.OPERATORS:
            return None
        return f"operator must be one of {', '.join(nchw.OPERATORS)}, not {node.op!r}"

    def compile(self, graph: Graph) -> HostSegment:
        """Refuses with ValueError a node that `refusal` has a reason against."""
        for node in graph.nodes:
            if reason := self.refusal(graph, node):
                raise ValueError(f"{node.name}: {reason}")
        groups = self.groups(graph)
        return HostSegment(graph, tuple(_step(graph, group) for group in groups.groups),
                           _dense(graph.constants))

    def groups(self, graph: Graph) -> Groups:
        """What is computed together."""
        return fuse(graph) if self.fusion else separate(graph)


def _step(graph: Graph, group: Group) -> Step:
    kernel = None if group.is_view else _kernel(recipe_of(group, graph.values))
    return Step(group, kernel, graph.values[group.output])


def _dense(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays as kernels read them: in row-major order, aligned."""
    return {name: np.require(array, requirements=("C", "A")) for name, array in arrays.items()}


@lru_cache(KERNELS)
def _kernel(recipe: Recipe) -> Kernel:
    contract = any(one.op in CONTRACTED for one in recipe.operations)
    return build(group_program(recipe, _vectors()), contract=contract)


def _vectors() -> Vectors:
    """Of this processor: AVX-512, AVX2, else what all of them have."""
    if host().has("avx512f"):
        return Vectors(16, 16)
    return Vectors(8, 8) if host().has("avx2") else Vectors(4, 8)
