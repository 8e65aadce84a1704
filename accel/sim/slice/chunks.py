"""Which nodes of a graph are computed together, and when.

A chunk is what runs if anything that it reads has changed. Its nodes are of one module, and where
a path leaves the module and comes back, of one side of that. Nodes that nothing connects are
together only if mostly the same changes wake them.

A cycle has two halves: before the memory has made its offers, and after that. The first half has
all nodes that do not depend on the offers: whether write data is there is among them.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from accel.sim.slice.graph import SliceGraph, SliceNode

ALIKE = 0.8
"""The part of what wakes a few nodes that must wake a chunk for these to join it."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """`number`: of every node that computes something, the place of its chunk, in the order in
    which they run. Those from `late` on depend on what the memory offers."""

    number: dict[SliceNode, int]
    count: int
    late: int


@dataclass(slots=True)
class _Cluster:
    nodes: list[SliceNode]
    wakes: set[SliceNode]
    made: set[SliceNode] = field(default_factory=set)

    def join(self, other: "_Cluster") -> None:
        self.nodes += other.nodes
        self.wakes |= other.wakes
        self.made |= other.made


def chunks_of(graph: SliceGraph, late_inputs: Iterable[str]) -> Chunks:
    """Chunks of a graph; `late_inputs` are the ports that show what the memory offers."""
    late = {node for name in late_inputs for node in graph.inputs[name]}
    half: dict[SliceNode, bool] = dict.fromkeys(late, True)
    level: dict[SliceNode, int] = {}
    for node in graph.nodes():
        sources = node.sources()
        here = any(half.get(source, False) for source in sources
                   if source.combinational or source in late)
        level[node] = max((level[source] + (source.module != node.module) for source in sources
                           if source.combinational and half[source] == here), default=0)
        half[node] = here
    places: dict[tuple[bool, int, str], list[SliceNode]] = defaultdict(list)
    for node in graph.nodes():
        places[half[node], level[node], node.module].append(node)
    number: dict[SliceNode, int] = {}
    count, first_late = 0, None
    for place in sorted(places):
        if place[0] and first_late is None:
            count = first_late = -(-count // 64) * 64       # a word of flags has one half
        for cluster in _clusters(places[place]):
            for node in cluster:
                number[node] = count
            count += 1
    return Chunks(number, count, count if first_late is None else first_late)


def _clusters(nodes: Sequence[SliceNode]) -> list[list[SliceNode]]:
    """Nodes of one place, in parts that the same changes wake."""
    clusters: list[_Cluster] = []
    for part in sorted(_connected(nodes), key=lambda part: (-len(part), part[0].number)):
        inside = set(part)
        wakes = {source for node in part for source in node.sources()
                 if source not in inside or source.kind == "register"}
        made = {node for node in part if node.kind == "register"}
        mine = _Cluster(part, wakes - made or wakes, made)
        small = len(part) <= 2
        best = max(clusters, default=None, key=lambda one: len(
            mine.wakes & (one.wakes | one.made if small else one.wakes)))
        if best is not None and len(mine.wakes & (
                best.wakes | best.made if small else best.wakes)) >= ALIKE * len(mine.wakes):
            best.join(mine)
        else:
            clusters.append(mine)
    return [cluster.nodes for cluster in clusters]


def _connected(nodes: Sequence[SliceNode]) -> list[list[SliceNode]]:
    """Nodes in parts between which no combinational value passes."""
    up = {node: node for node in nodes}

    def root(node: SliceNode) -> SliceNode:
        while up[node] is not node:
            up[node] = up[up[node]]
            node = up[node]
        return node

    for node in nodes:
        for source in node.sources():
            if source.combinational and source in up:
                up[root(node)] = root(source)
    parts: dict[SliceNode, list[SliceNode]] = defaultdict(list)
    for node in nodes:
        parts[root(node)].append(node)
    return [*parts.values()]
