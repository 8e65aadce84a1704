"""Dividing a graph between an accelerator and the host.

A partition is a sequence of steps: segments, each for one target, and copies of values from one
target to the other. Inputs start on the host and outputs end there; constants are known to both.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from compiler.graph.graph import Graph, Node

__all__ = ["ACCEL", "HOST", "Copy", "Partition", "Segment", "Target", "assembled", "divide",
           "partition", "runs", "subgraph"]

Target = Literal["accel", "host"]
ACCEL: Target = "accel"
HOST: Target = "host"
Takes = Callable[[Node], str | None]
Start = Callable[[Target], float]
"""What it costs to start a segment."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Nodes in topological order for one target.

    `inputs` are the values read from outside, constants not counted; `outputs` those that other
    segments or the graph's outputs need. Both stand in order of first use and of definition.
    """

    target: Target
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(node.name for node in self.nodes)
        return f"{self.target}({', '.join(self.inputs)}) -> ({', '.join(self.outputs)}): {names}"


@dataclass(frozen=True, slots=True)
class Copy:
    """A value becomes readable by `target` too."""

    value: str
    source: Target
    target: Target

    def __str__(self) -> str:
        return f"copy {self.value}: {self.source} -> {self.target}"


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Steps in order of execution; `reasons` says of each node on the host why it is there."""

    graph: Graph
    steps: tuple[Segment | Copy, ...]
    reasons: Mapping[str, str]

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(step for step in self.steps if isinstance(step, Segment))

    @property
    def copies(self) -> tuple[Copy, ...]:
        return tuple(step for step in self.steps if isinstance(step, Copy))

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps]
        lines += [f"host because {name}: {reason}" for name, reason in self.reasons.items()]
        return "\n".join(lines) + "\n"


def partition(graph: Graph, takes: Takes) -> Partition:
    """Divides by `takes`, which gives None for a node that the accelerator accepts, else the
    reason why it does not: whatever the accelerator can have, it gets.
    """
    verdicts = {node.name: takes(node) for node in graph.nodes}
    reasons = {name: reason for name, reason in verdicts.items() if reason is not None}
    return divide(graph, {name: HOST if name in reasons else ACCEL for name in verdicts}, reasons)


def divide(graph: Graph, targets: Mapping[str, Target], reasons: Mapping[str, str],
           start: Start = lambda target: 1) -> Partition:
    """Divides by the targets of the nodes, into the segments that `runs` gives."""
    return assembled(graph, [(targets[run[0].name], run) for run in runs(graph, targets, start)],
                     reasons)


def assembled(graph: Graph, parts: Sequence[tuple[Target, Sequence[Node]]],
              reasons: Mapping[str, str]) -> Partition:
    """A partition into segments of these targets and nodes."""
    segments = [_segment(graph, target, nodes) for target, nodes in parts]
    return Partition(graph, tuple(_with_copies(graph, segments)), MappingProxyType(dict(reasons)))


def runs(graph: Graph, targets: Mapping[str, Target],
         start: Start = lambda target: 1) -> list[list[Node]]:
    """The nodes of each segment.

    Nodes change places as far as their data allow, so that each run of one target is as long as it
    can be; of the two possible first targets, the one is taken whose segments cost less to start.
    """
    return min((_runs(graph, targets, first) for first in (HOST, ACCEL)),
               key=lambda found: sum(start(targets[run[0].name]) for run in found))


def subgraph(graph: Graph, segment: Segment) -> Graph:
    """The segment as a graph of its own, with the constants that it reads."""
    read = {value for node in segment.nodes for value in node.inputs}
    made = {value for node in segment.nodes for value in node.outputs}
    constants = {value: array for value, array in graph.constants.items() if value in read}
    known = made.union(segment.inputs, constants)
    values = {value: type_ for value, type_ in graph.values.items() if value in known}
    return Graph(f"{graph.name}.{segment.nodes[0].name}", segment.inputs, segment.outputs,
                 segment.nodes, values, constants)


def _runs(graph: Graph, targets: Mapping[str, Target], target: Target) -> list[list[Node]]:
    """Takes every node of the current target that is ready, then changes the target."""
    done = set(graph.inputs) | set(graph.constants)
    waiting, runs = list(graph.nodes), []
    while waiting:
        run: list[Node] = []
        for node in waiting:
            if targets[node.name] == target and done.issuperset(node.inputs):
                run.append(node)
                done.update(node.outputs)
        taken = {node.name for node in run}
        waiting = [node for node in waiting if node.name not in taken]
        runs += [run] if run else []
        target = HOST if target == ACCEL else ACCEL
    return runs


def _segment(graph: Graph, target: Target, nodes: Sequence[Node]) -> Segment:
    made = {value: None for node in nodes for value in node.outputs}
    read = dict.fromkeys(value for node in nodes for value in node.inputs)
    inside = {node.name for node in nodes}
    needed = {value for node in graph.nodes if node.name not in inside for value in node.inputs}
    needed.update(graph.outputs)
    return Segment(target, tuple(nodes),
                   tuple(v for v in read if v not in made and v not in graph.constants),
                   tuple(v for v in made if v in needed))


def _with_copies(graph: Graph, segments: list[Segment]) -> Iterator[Segment | Copy]:
    home: dict[str, Target] = dict.fromkeys((*graph.inputs, *graph.constants), HOST)
    present = {(value, HOST) for value in home}

    def copies(values: tuple[str, ...], target: Target) -> Iterator[Copy]:
        for value in values:
            if (value, target) not in present:
                present.add((value, target))
                yield Copy(value, home[value], target)

    for segment in segments:
        yield from copies(segment.inputs, segment.target)
        yield segment
        for value in segment.outputs:
            home[value] = segment.target
            present.add((value, segment.target))
    yield from copies(graph.outputs, HOST)
