"""Dividing a graph between targets.

A partition is a sequence of steps: segments, each for one target, and copies of values. A target is
known by its name. Inputs begin at one of the targets, the home, and outputs end there; constants
are known to all. What one target makes and another reads goes over the home.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from compiler.graph.graph import Graph, Node
from compiler.target_names import ACCEL, HOST

__all__ = ["ACCEL", "HOST", "Copy", "Partition", "Segment", "Start", "Takes", "Target", "assembled",
           "by_preference", "divide", "earliest", "partition", "runs", "subgraph"]

Target = str
"""The name of a target."""

Takes = Callable[[Node], str | None]
"""Gives None for a node that a target takes, else the reason why it does not."""

Start = Callable[[str], float]
"""Gives what it costs to start a segment of a target."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Nodes in topological order for one target.

    `inputs` are the values read from outside, constants not counted; `outputs` those that other
    segments or the graph's outputs need. Both stand in order of first use and of definition.
    """

    target: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(node.name for node in self.nodes)
        return f"{self.target}({', '.join(self.inputs)}) -> ({', '.join(self.outputs)}): {names}"


@dataclass(frozen=True, slots=True)
class Copy:
    """A step that makes a value readable by `target` too. The home is `source` or `target`."""

    value: str
    source: str
    target: str

    def __str__(self) -> str:
        return f"copy {self.value}: {self.source} -> {self.target}"


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Steps in order of execution. `reasons` says of a node why no target that would come before
    its own has it.
    """

    graph: Graph
    steps: tuple[Segment | Copy, ...]
    reasons: Mapping[str, str]
    home: str = HOST

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(step for step in self.steps if isinstance(step, Segment))

    @property
    def stay(self) -> dict[str, str]:
        """The nodes that stay at home, and why no target that comes before has them."""
        home = {node.name for segment in self.segments if segment.target == self.home
                for node in segment.nodes}
        return {name: reason for name, reason in self.reasons.items() if name in home}

    @property
    def copies(self) -> tuple[Copy, ...]:
        return tuple(step for step in self.steps if isinstance(step, Copy))

    def __str__(self) -> str:
        targets = {node.name: segment.target for segment in self.segments for node in segment.nodes}
        lines = [str(step) for step in self.steps]
        lines += [f"{targets.get(name, self.home)} because {name}: {reason}"
                  for name, reason in self.reasons.items()]
        return "\n".join(lines) + "\n"


def partition(graph: Graph, takes: Takes, target: str = ACCEL, home: str = HOST) -> Partition:
    """Divides between a target, which gets all that it takes, and the home."""
    return by_preference(graph, {target: takes}, home)


def by_preference(graph: Graph, takes: Mapping[str, Takes], home: str = HOST) -> Partition:
    """Divides by the order of the targets in `takes`: the first that takes a node gets it. The
    home, where it is none of them, comes last; it gets what no target takes.
    """
    targets: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for node in graph.nodes:
        targets[node.name], refused = _first(node, takes, home)
        if len(refused) == 1:
            reasons[node.name], = refused.values()
        elif refused:
            reasons[node.name] = "; ".join(f"{target}: {said}" for target, said in refused.items())
    return divide(graph, targets, reasons, home=home)


def _first(node: Node, takes: Mapping[str, Takes], home: str) -> tuple[str, dict[str, str]]:
    """The target that gets the node; the reasons of those before it."""
    refused: dict[str, str] = {}
    for target, refusal in takes.items():
        if (reason := refusal(node)) is None:
            return target, refused
        refused[target] = reason
    return home, refused


def divide(graph: Graph, targets: Mapping[str, str], reasons: Mapping[str, str],
           start: Start = lambda target: 1, home: str = HOST) -> Partition:
    """Divides by the targets of the nodes, into the segments that `runs` gives."""
    parts = runs(graph, targets, start, home)
    return assembled(graph, [(targets[run[0].name], run) for run in parts], reasons, home)


def assembled(graph: Graph, parts: Sequence[tuple[str, Sequence[Node]]],
              reasons: Mapping[str, str], home: str = HOST) -> Partition:
    """A partition into segments of these targets and nodes."""
    segments = [_segment(graph, target, nodes) for target, nodes in parts]
    return Partition(graph, tuple(_with_copies(graph, segments, home)),
                     MappingProxyType(dict(reasons)), home)


def runs(graph: Graph, targets: Mapping[str, str], start: Start = lambda target: 1,
         home: str = HOST) -> list[list[Node]]:
    """The nodes of each segment.

    Each node joins the first segment of its target that can read what it reads; where there is
    none, it begins a new one, the last. So nodes change places as far as their data allow. Any
    target may be the first: the one is taken whose segments cost least to start.
    """
    firsts = dict.fromkeys((home, *(targets[node.name] for node in graph.nodes)))
    return min((_runs(graph, targets, first) for first in firsts),
               key=lambda sequence: sum(start(targets[run[0].name]) for run in sequence))


def earliest(order: Sequence[str], target: str, at: int) -> int:
    """The first segment of `target` from position `at` on, for segments of these targets; where
    there is none, the one that would be added.
    """
    return next((i for i in range(at, len(order)) if order[i] == target), len(order))


def subgraph(graph: Graph, segment: Segment) -> Graph:
    """The segment as a graph of its own, with the constants that it reads."""
    read = {value for node in segment.nodes for value in node.inputs}
    results = {value for node in segment.nodes for value in node.outputs}
    constants = {value: array for value, array in graph.constants.items() if value in read}
    known = results.union(segment.inputs, constants)
    values = {value: type_ for value, type_ in graph.values.items() if value in known}
    return Graph(f"{graph.name}.{segment.nodes[0].name}", segment.inputs, segment.outputs,
                 segment.nodes, values, constants)


def _runs(graph: Graph, targets: Mapping[str, str], first: str) -> list[list[Node]]:
    """The nodes of each segment, when the first segment is one of target `first`; that one is
    left out where no node joins it.
    """
    order, joined = [first], [list[Node]()]
    known = dict.fromkeys((*graph.inputs, *graph.constants), 0)
    for node in graph.nodes:
        target = targets[node.name]
        at = earliest(order, target, max((known[value] for value in node.inputs), default=0))
        if at == len(order):
            order.append(target)
            joined.append([])
        joined[at].append(node)
        known.update(dict.fromkeys(node.outputs, at))
    return [run for run in joined if run]


def _segment(graph: Graph, target: str, nodes: Sequence[Node]) -> Segment:
    results = {value: None for node in nodes for value in node.outputs}
    read = dict.fromkeys(value for node in nodes for value in node.inputs)
    inside = {node.name for node in nodes}
    needed = {value for node in graph.nodes if node.name not in inside for value in node.inputs}
    needed.update(graph.outputs)
    return Segment(target, tuple(nodes),
                   tuple(v for v in read if v not in results and v not in graph.constants),
                   tuple(v for v in results if v in needed))


def _with_copies(graph: Graph, segments: list[Segment], home: str) -> Iterator[Segment | Copy]:
    holders = {value: [home] for value in (*graph.inputs, *graph.constants)}

    def copies(values: tuple[str, ...], target: str) -> Iterator[Copy]:
        for value in values:
            for reader in (home, target):
                if target not in holders[value] and reader not in holders[value]:
                    yield Copy(value, holders[value][-1] if reader == home else home, reader)
                    holders[value].append(reader)

    for segment in segments:
        yield from copies(segment.inputs, segment.target)
        yield segment
        for value in segment.outputs:
            holders[value] = [segment.target]
    yield from copies(graph.outputs, home)
