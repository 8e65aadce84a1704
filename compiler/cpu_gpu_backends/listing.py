"""The host's work with the kernels of a segment, as lines that people read."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from compiler.cpu_gpu_backends.memory import storage
from compiler.graph.fusion import Group
from compiler.graph.graph import Graph
from compiler.graph.memory import MemoryPlan
from compiler.graph.room import bytes_of


class ListedStep(Protocol):
    """A group of operators and its code."""

    @property
    def group(self) -> Group: ...

    def calls(self, names: Sequence[str], scratch: Sequence[str]) -> Iterator[str]:
        """The kernels that are started, with these names of arguments; none for a view."""
        ...


def listing(graph: Graph, plan: MemoryPlan, steps: Sequence[ListedStep]) -> Iterator[str]:
    """The buffers with their bytes, then all that the host starts, in order."""
    root = storage([step.group for step in steps])
    outside = {**dict.fromkeys(graph.inputs, "input"), **dict.fromkeys(graph.constants, "constant")}
    outside |= dict.fromkeys(map(root, graph.outputs), "output")
    yield f"Buffers: {plan.size:,} bytes for results and scratch, and those outside of them"
    for value in dict.fromkeys((*outside, *(step.group.output for step in steps))):
        place = outside.get(value) or (f"as {root(value)}" if root(value) != value else
                                       f"at {plan.offsets[value]:,}")
        type_ = graph.values[value]
        yield f"  {value}: {type_}, {bytes_of(type_):,} bytes, {place}"
    yield ""
    yield "In order:"
    for step, workspaces in zip(steps, plan.workspaces, strict=True):
        names = [*step.group.inputs, step.group.output]
        scratch = [f"scratch at {offset:,}" for offset in workspaces]
        calls = [*step.calls(names, scratch)] or [f"{names[-1]} is a view of {names[0]}"]
        yield from (f"  {call}" for call in calls)
    yield f"Results: {', '.join(graph.outputs)}"
