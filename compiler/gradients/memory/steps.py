"""Rewrites a step of training so that it computes parts of the network a second time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compiler.gradients.memory.chain import Links, links
from compiler.gradients.memory.choice import Part, chosen, least_budget
from compiler.gradients.steps import TrainingStep
from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder
from compiler.lazy import cached_property


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
    nodes = [*graph.nodes[:step.forward], *again.gradients()]
    gradient = len(nodes)
    for node in _early([*nodes, *graph.nodes[step.gradient:]], gradient):
        builder.add(node)
    return replace(step, graph=builder.finish(graph.outputs))


@dataclass(slots=True)
class _Again:
    """`clones` has, for each value that is computed again, the name of the second one; `waiting`
    the nodes of each part, by the values that are computed by them.
    """

    graph: Graph
    parts: Sequence[Part]
    step: TrainingStep
    builder: Builder
    clones: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    bodies: list[list[Node]] = field(default_factory=list)

    def gradients(self) -> Iterator[Node]:
        """The nodes of gradients, with those of each part before the first that reads it."""
        nodes = self.graph.nodes
        read = {name for node in nodes[self.step.forward:self.step.gradient]
                for name in node.inputs}
        for number, (first, last) in enumerate(self.parts):
            self._prepare(number, nodes[first:last], self._crossing(last), read)
        done = set[int]()
        for node in nodes[self.step.forward:self.step.gradient]:
            for name in node.inputs:
                number = self.waiting.get(name)
                if number is not None and number not in done:
                    done.add(number)
                    yield from self.bodies[number]
            yield _renamed(node, self.clones)

    def _crossing(self, last: int) -> set[str]:
        """The values that nodes of the network read behind a part; they stay."""
        return {name for node in self.graph.nodes[last:self.step.forward] for name in node.inputs}

    def _prepare(self, number: int, nodes: Sequence[Node], crossing: set[str], read: set[str]
                 ) -> None:
        made = {node.outputs[0] for node in nodes} - crossing
        needed, body = read & made, list[Node]()
        for node in reversed(nodes):
            if node.outputs[0] in needed:
                body.append(node)
                needed.update(made.intersection(node.inputs))
        names = {node.outputs[0]: self.builder.fresh(f"{node.outputs[0]}.again")
                 for node in body}
        self.clones.update(names)
        self.waiting.update(dict.fromkeys(names, number))
        self.bodies.append([replace(_renamed(node, names),
                                    name=self.builder.fresh_node(f"{node.name}.again"),
                                    outputs=(names[node.outputs[0]],)) for node in body[::-1]])


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    inputs = tuple(names.get(name, name) for name in node.inputs)
    return node if inputs == node.inputs else replace(node, inputs=inputs)


def _early(nodes: Sequence[Node], first: int) -> Iterator[Node]:
    """The nodes, those from number `first` on as soon as what they read is there."""
    place: dict[str, int] = {node.outputs[0]: number for number, node in enumerate(nodes[:first])}
    behind: dict[int, list[Node]] = {}
    for node in nodes[first:]:
        after = max((place.get(name, -1) for name in node.inputs), default=-1)
        place[node.outputs[0]] = after
        behind.setdefault(after, []).append(node)
    yield from behind.get(-1, ())
    for number, node in enumerate(nodes[:first]):
        yield node
        yield from behind.get(number, ())
