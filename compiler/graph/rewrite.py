"""Making graphs from graphs: a builder that infers types, dead code, replacement by rule."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from compiler.graph.graph import Graph, Node, TensorType
from compiler.ops.registry import infer


class Builder:
    """A graph under construction. Types of results are inferred, never stated.

    `add` refuses with TypeRefused what `verify` would refuse. Names that the builder makes up
    (`fresh`) never meet a name that was reserved or used before.
    """

    def __init__(self, name: str, reserved: Iterable[str] = ()):
        self.name = name
        self.inputs: list[str] = []
        self.nodes: list[Node] = []
        self.values: dict[str, TensorType] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.notes: list[str] = []
        self._values = _Names(reserved)
        self._nodes = _Names()

    @classmethod
    def like(cls, graph: Graph) -> "Builder":
        """A builder with the graph's inputs, constants and notes, and none of its nodes."""
        builder = cls(graph.name, graph.values)
        builder._nodes.taken.update(node.name for node in graph.nodes)
        for value in graph.inputs:
            builder.add_input(value, graph.values[value])
        for value, array in graph.constants.items():
            builder.add_constant(value, array)
        builder.notes.extend(graph.notes)
        return builder

    def fresh(self, stem: str) -> str:
        """A value name that nothing uses: the stem, or the stem and a number."""
        return self._values.unused(stem)

    def fresh_node(self, stem: str) -> str:
        """A node name that nothing uses: the stem, or the stem and a number."""
        return self._nodes.unused(stem)

    def add_input(self, value: str, type_: TensorType) -> str:
        self.inputs.append(value)
        return self._define(value, type_)

    def add_constant(self, value: str, array: np.ndarray) -> str:
        self.constants[value] = array
        return self._define(value, TensorType.of(array))

    def add(self, node: Node) -> str:
        """Appends the node and returns the name of its output."""
        result = infer(node, [self.values[value] for value in node.inputs])
        self.nodes.append(node)
        self._nodes.taken.add(node.name)
        return self._define(node.outputs[0], result)

    def emit(self, op: str, name: str, inputs: Sequence[str], output: str,
             **attrs: object) -> str:
        return self.add(Node(op, name, tuple(inputs), (output,), attrs))

    def rename(self, start: int, values: Mapping[str, str], nodes: Mapping[str, str]) -> None:
        """Gives results of the nodes from number `start` on, and those nodes, other names, which
        nothing else has.
        """
        for place in range(start, len(self.nodes)):
            node = self.nodes[place]
            self.nodes[place] = replace(
                node, name=nodes.get(node.name, node.name),
                inputs=tuple(values.get(value, value) for value in node.inputs),
                outputs=tuple(values.get(value, value) for value in node.outputs))
        for old, new in values.items():
            self.values[new] = self.values.pop(old)
        self._values.taken.update(values.values())

    def finish(self, outputs: Iterable[str]) -> Graph:
        return Graph(self.name, tuple(self.inputs), tuple(outputs), tuple(self.nodes),
                     self.values, self.constants, tuple(self.notes))

    def _define(self, value: str, type_: TensorType) -> str:
        self.values[value] = type_
        self._values.taken.add(value)
        return value


class _Names:
    """The names that are taken; none is ever free again."""

    def __init__(self, taken: Iterable[str] = ()):
        self.taken = set(taken)
        self._next: dict[str, int] = {}

    def unused(self, stem: str) -> str:
        name, count = stem, self._next.get(stem, 1)
        while name in self.taken:
            name, count = f"{stem}_{count}", count + 1
        self._next[stem] = count
        self.taken.add(name)
        return name


def with_nodes(graph: Graph, nodes: Iterable[Node],
               constants: Mapping[str, np.ndarray] | None = None) -> Graph:
    """The graph with other nodes and further constants; types are inferred again. The graph itself
    where nothing differs.
    """
    nodes = tuple(nodes)
    if nodes == graph.nodes and not constants:
        return graph
    builder = Builder.like(graph)
    for value, array in (constants or {}).items():
        builder.add_constant(value, array)
    for node in nodes:
        builder.add(node)
    return builder.finish(graph.outputs)


def replace_nodes(graph: Graph, rule: Callable[[Node], Sequence[Node] | None]) -> Graph:
    """Each node for which the rule gives nodes is replaced by them, in its place.

    The replacement must define the same values; None leaves the node alone.
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        replacement = rule(node)
        nodes.extend((node,) if replacement is None else replacement)
    return with_nodes(graph, nodes)


def eliminate_dead_code(graph: Graph) -> Graph:
    """The graph without the nodes and constants that no output needs; inputs stay. The graph itself
    where all are needed.
    """
    needed, nodes = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            nodes.append(node)
            needed.update(node.inputs)
    live = needed.union(graph.inputs)
    if len(nodes) == len(graph.nodes) and live.issuperset(graph.values):
        return graph
    return Graph(graph.name, graph.inputs, graph.outputs, tuple(reversed(nodes)),
                 {value: type_ for value, type_ in graph.values.items() if value in live},
                 {value: array for value, array in graph.constants.items() if value in needed},
                 graph.notes)
