"""Algebraic clean-up: nodes that change nothing, and detours."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.graph.graph import Graph, Node
from compiler.graph.passes.algebra import SAME, SHORTER, GraphView, Rule
from compiler.graph.rewrite import eliminate_dead_code, with_nodes


@dataclass(frozen=True, slots=True)
class CleanUp:
    """x + 0, x * 1, x / 1, concat(x), a cast to the same type, ... -> x; what is undone is not
    done; reshape(reshape(x)) -> reshape(x), and so transposes, casts, clamps.

    Before: any graph. After: no rule of `compiler.graph.passes.algebra` applies, so the pass does
    nothing a second time. Every element is the same to the bit; a NaN stays a NaN. Outputs keep
    their names: where a value has another name to keep, or is an input or a constant, an `identity`
    gives the output its own. Detours that others read too stay.
    """

    name: ClassVar[str] = "clean-up"

    def __call__(self, graph: Graph) -> Graph:
        """Rules see what others left, until none applies: each takes a node away, or has one read
        from further up.
        """
        while True:
            cleaned = _shortened(_without_same(graph))
            if cleaned.nodes == graph.nodes:
                return graph
            graph = cleaned


def _first(rules: Sequence[Rule], view: GraphView, node: Node):
    return next((rewritten for rule in rules if (rewritten := rule(view, node)) is not None), None)


def _without_same(graph: Graph) -> Graph:
    """Readers of what is the same as another value read that one."""
    walk = _Merging(graph)
    for node in graph.nodes:
        walk.visit(node)
    return eliminate_dead_code(with_nodes(graph, map(walk.renamed, walk.kept)))


class _Merging:
    """`names` has the value that each value is; `outward` the name of an output for the value that
    it is, which has no other name to keep.
    """

    def __init__(self, graph: Graph):
        self.graph = graph
        self.producers: dict[str, Node] = {}
        self.view = GraphView(graph, self.producers)
        self.names = {value: value for value in graph.values}
        self.outward: dict[str, str] = {}
        self.kept: list[Node] = []

    def visit(self, node: Node) -> None:
        inputs = tuple(self.names[value] for value in node.inputs)
        node = node if inputs == node.inputs else replace(node, inputs=inputs)
        source, target = _first(SAME, self.view, node), node.outputs[0]
        if isinstance(source, str):
            if self._merge(source, target):
                return
            node = Node("identity", node.name, (source,), node.outputs)
        self.kept.append(node)
        self.producers[target] = node

    def _merge(self, source: str, target: str) -> bool:
        """Gives both one name; False when both names must stay."""
        if target in self.graph.outputs:
            named = source in self.graph.outputs or source in self.outward
            if named or source not in self.producers:
                return False
            self.outward[source] = target
        self.names[target] = source
        return True

    def renamed(self, node: Node) -> Node:
        if not self.outward:
            return node
        inputs, outputs = (tuple(self.outward.get(value, value) for value in values)
                           for values in (node.inputs, node.outputs))
        return replace(node, inputs=inputs, outputs=outputs)


def _shortened(graph: Graph) -> Graph:
    """Takes away the detours that nobody else reads: any other would be computed beside what
    replaces it.
    """
    readers, outputs = graph.consumers(), set(graph.outputs)
    makers: dict[str, Node] = {}
    alone = {value: node for value, node in graph.producers().items()
             if len(readers[value]) == 1 and value not in outputs}
    nodes = []
    for node in graph.nodes:
        shorter = _first(SHORTER, GraphView(graph, makers), node)
        node = shorter if isinstance(shorter, Node) else node
        nodes.append(node)
        if node.outputs[0] in alone:
            makers[node.outputs[0]] = node
    return eliminate_dead_code(with_nodes(graph, nodes))
