"""Rewrites a step of training so that it computes parts of the network a second time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compiler.gradients.memory.chain import Links, links
from compiler.gradients.memory.choice import Part, chosen, least_budget
from compiler.gradients.steps import TrainingStep
from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder
from compiler.lazy import cached_property
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find


@dataclass(frozen=True)
class LittleMemory:
    """Ways to compute a step that take less memory.

    Its nodes are the network's, then those of gradients, then those that change parameters. Values
    are the step's own to the bit: the same operators compute the same operands a second time.
    """

    step: TrainingStep

    @cached_property
    def links(self) -> Links:
        return links(self.step.graph, self.step.forward, self.step.gradient)

    @cached_property
    def least(self) -> float:
        """The least budget that there is a way for."""
        return least_budget(self.links)

    def within(self, budget: float) -> TrainingStep | None:
        """The step that computes least twice, so that activations take at most about `budget`
        bytes; None where no way is known.
        """
        parts = chosen(self.links, budget)
        return None if parts is None else with_little_memory(self.step, parts)


def with_little_memory(step: TrainingStep, parts: Sequence[Part]) -> TrainingStep:
    """The step that computes these parts of the network again as their gradients are due, and
    changes each parameter as soon as its gradient is there.
    """
    graph = step.graph
    builder = Builder.like(graph)
    again = _Again(graph, parts, step, builder)
    nodes = again.nodes()
    for node in _early([*nodes, *graph.nodes[step.gradient:]], len(nodes)):
        builder.add(node)
    return replace(step, graph=builder.finish(graph.outputs))


@dataclass(slots=True)
class _Again:
    """Nodes of the network and of gradients, with parts that are computed again.

    `clones` has, for each value that is computed again, the name of the second one; `waiting` the
    number of the part that does. `behind_products` are values that kernels of products may go on
    with; `stored` has the names that values of the first time have where they are stored.
    """

    graph: Graph
    parts: Sequence[Part]
    step: TrainingStep
    builder: Builder
    clones: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    bodies: list[list[Node]] = field(default_factory=list)
    stored: dict[str, str] = field(default_factory=dict)
    behind_products: set[str] = field(default_factory=set)

    def nodes(self) -> list[Node]:
        """All nodes, those of each part before the first gradient that reads it."""
        forward, gradients = (self.graph.nodes[first:last] for first, last in (
            (0, self.step.forward), (self.step.forward, self.step.gradient)))
        read = {name for node in gradients for name in node.inputs}
        self.behind_products = _behind_products(forward)
        readers = self.graph.consumers()
        for number, (first, last) in enumerate(self.parts):
            crossing = {name for node in forward[last:] for name in node.inputs}
            self._prepare(number, forward[first:last], crossing, read, readers)
        return [*self._first_time(forward), *self._gradients(gradients)]

    def _first_time(self, forward: Iterable[Node]) -> Iterator[Node]:
        for node in forward:
            yield _renamed(node, self.stored)
            if node.outputs[0] in self.stored:
                yield self._store(node.outputs[0], self.stored[node.outputs[0]])

    def _gradients(self, gradients: Iterable[Node]) -> Iterator[Node]:
        done = set[int]()
        for node in gradients:
            for name in node.inputs:
                number = self.waiting.get(name)
                if number is not None and number not in done:
                    done.add(number)
                    yield from self.bodies[number]
            yield _renamed(node, self.clones)

    def _prepare(self, number: int, nodes: Sequence[Node], crossing: set[str], read: set[str],
                 readers: Mapping[str, Sequence[Node]]) -> None:
        made = {node.outputs[0] for node in nodes} - crossing
        needed, body = read & made, list[Node]()
        for node in reversed(nodes):
            if node.outputs[0] in needed:
                body.append(node)
                needed.update(made.intersection(node.inputs))
        again = {node.name for node in body}
        for node in reversed(body):
            name = node.outputs[0]
            if name in read and name in self.behind_products:
                self.stored[name] = self.builder.fresh(f"{name}.stored")
        names = {node.outputs[0]: self.builder.fresh(f"{node.outputs[0]}.again")
                 for node in body}
        self.clones.update(names)
        self.waiting.update(dict.fromkeys(names, number))
        left = {name for name in names if name in read or any(
            reader.name not in again for reader in readers[name])}
        self.bodies.append([twice for node in reversed(body)
                            for twice in self._second_time(node, names, node.outputs[0] in left)])

    def _second_time(self, node: Node, names: Mapping[str, str], stored: bool) -> Iterator[Node]:
        """The node once more; its value is stored where it is by itself the first time."""
        name = names[node.outputs[0]]
        apart = stored and node.outputs[0] in self.behind_products
        made = self.builder.fresh(f"{name}.made") if apart else name
        yield replace(_renamed(node, names), name=self.builder.fresh_node(f"{node.name}.again"),
                      outputs=(made,))
        if apart:
            yield self._store(made, name)

    def _store(self, name: str, stored: str) -> Node:
        """Gives a value, which a kernel stores, this name."""
        return Node("identity", self.builder.fresh_node(stored), (name,), (stored,), {"apart": 1})


def _behind_products(nodes: Iterable[Node]) -> set[str]:
    """The results of products, and what is computed from them element by element: kernels of
    products round a multiplication and an addition once, so the rest must not join or leave them.
    """
    found = set[str]()
    for node in nodes:
        operator = find(node.op)
        if operator.contracts or operator.kind is Kind.ELEMENTWISE and found.intersection(
                node.inputs):
            found.add(node.outputs[0])
    return found


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    inputs = tuple(names.get(name, name) for name in node.inputs)
    return node if inputs == node.inputs else replace(node, inputs=inputs)


def _early(nodes: Sequence[Node], first: int) -> Iterator[Node]:
    """The nodes, those from number `first` on behind the last node before that which any of their
    readers waits for: neither later nor sooner than their results are needed.
    """
    place: dict[str, int] = {node.outputs[0]: number for number, node in enumerate(nodes[:first])}
    for node in nodes[first:]:
        place[node.outputs[0]] = max((place.get(name, -1) for name in node.inputs), default=-1)
    readers: dict[str, int] = {}
    behind: dict[int, list[Node]] = {}
    for node in reversed(nodes[first:]):
        name = node.outputs[0]
        place[name] = readers.get(name, place[name])
        behind.setdefault(place[name], []).insert(0, node)
        for read in node.inputs:
            readers[read] = min(readers.get(read, place[name]), place[name])
    yield from behind.get(-1, ())
    for number, node in enumerate(nodes[:first]):
        yield node
        yield from behind.get(number, ())
