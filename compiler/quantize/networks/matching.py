"""Finds where a float graph computes what patterns match: found by values, not by operators.

Elementwise operators that depend on as many values as a pattern has inputs are tried with numbers,
and so is the pattern's real expression. They are the same function if they agree on all of them, as
exporters may write it: in the order of factors, by multiplying or dividing, before or after a clip.
A pattern with a tolerance is taken for functions that are so near to it, as GELU by erf and by tanh
are. The numbers lie densely about zero, where functions bend, and are powers of two beyond; a bend in
between, or a difference below a thousandth of a percent, is not seen.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.reference import evaluate_node
from compiler.ops.patterns import Pattern
from compiler.ops.records.broadcasting import common_shape
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find

__all__ = ["Match", "matches_of"]

Array = np.ndarray
MOST_REGIONS = 256      # that are tried for each value
CLOSE, FAR = 8.0, 20    # numbers up to 8, and powers of two up to 2**20
RELATIVE, ABSOLUTE = 1e-5, 1e-6


@dataclass(frozen=True, slots=True)
class Match:
    """The nodes, in order, that compute what a pattern matches of the values `sources`."""

    pattern: Pattern
    nodes: tuple[Node, ...]
    sources: tuple[str, ...]


def matches_of(graph: Graph, patterns: Sequence[Pattern],
               without: Collection[tuple[str, str]] = ()) -> dict[str, Match]:
    """The matches by the value that their last node makes; no node is in two of them. Of several
    for one value that of most nodes is taken, of patterns the first. `without` names patterns, each
    with a value that it shall not make.
    """
    return _Search(graph, without).run(patterns) if patterns else {}


@dataclass(slots=True)
class _Search:
    graph: Graph
    without: Collection[tuple[str, str]]
    producers: Mapping[str, Node] = field(init=False)
    readers: Mapping[str, list[str]] = field(init=False)
    places: Mapping[str, int] = field(init=False)
    taken: set[str] = field(default_factory=set)

    def __post_init__(self):
        self.producers = {node.outputs[0]: node for node in self.graph.nodes}
        self.places = {value: place for place, value in enumerate(self.producers)}
        readers: dict[str, list[str]] = {}
        for node in self.graph.nodes:
            for value in node.inputs:
                readers.setdefault(value, []).append(node.outputs[0])
        self.readers = readers

    def run(self, patterns: Sequence[Pattern]) -> dict[str, Match]:
        found: dict[str, Match] = {}
        for node in reversed(self.graph.nodes):
            value = node.outputs[0]
            if value in self.taken or self.graph.values[value].dtype != "float32" or (
                    not self._is_elementwise(value)):
                continue
            match = self._best(value, patterns)
            if match is not None:
                found[value] = match
                self.taken.update(inner.outputs[0] for inner in match.nodes)
        return found

    def _best(self, value: str, patterns: Sequence[Pattern]) -> Match | None:
        patterns = [pattern for pattern in patterns if (pattern.name, value) not in self.without]
        regions = sorted(self._regions(value), key=len, reverse=True)
        for region in regions:
            sources = self._sources(region)
            for pattern in patterns:
                if len(sources) == len(pattern.inputs) and self._fits(value, sources):
                    for order in permutations(sources):
                        if self._agrees(pattern, region, order, value):
                            nodes = sorted(region, key=self.places.__getitem__)
                            return Match(pattern, tuple(map(self.producers.__getitem__, nodes)),
                                         order)
        return None

    def _is_elementwise(self, value: str) -> bool:
        """True if an elementwise operator makes the value, of values and single numbers."""
        node = self.producers.get(value)
        return (node is not None and find(node.op).kind is Kind.ELEMENTWISE and all(
            self.graph.constants[each].size == 1 for each in node.inputs
            if each in self.graph.constants))

    def _regions(self, value: str) -> Iterator[frozenset[str]]:
        """The results of nodes that together make the value, of which nothing else reads any other;
        the fewest nodes first.
        """
        waiting = [frozenset([value])]
        seen = set(waiting)
        for region in waiting:
            yield region
            for source in self._sources(region):
                larger = region | {source}
                if (len(seen) < MOST_REGIONS and larger not in seen and source not in self.taken
                        and self._is_elementwise(source) and source not in self.graph.outputs
                        and region.issuperset(self.readers[source])):
                    seen.add(larger)
                    waiting.append(larger)

    def _sources(self, region: frozenset[str]) -> list[str]:
        """The computed values that a region reads, in order."""
        read = dict.fromkeys(value for result in region for value in self.producers[result].inputs
                             if value not in region and value not in self.graph.constants)
        return sorted(read, key=lambda value: self.places.get(value, -1))

    def _fits(self, result: str, sources: Sequence[str]) -> bool:
        first, *rest = (self.graph.values[value] for value in sources)
        whole = common_shape(first.shape, rest[0].shape) if rest else first.shape
        return (all(type_.dtype == "float32" for type_ in (first, *rest))
                and whole == self.graph.values[result].shape)

    def _agrees(self, pattern: Pattern, region: frozenset[str], sources: Sequence[str],
                result: str) -> bool:
        """True if the nodes and the pattern are one function of the sources."""
        numbers = _numbers(len(sources))
        wanted = np.broadcast_to(pattern.value(*numbers), numbers[0].shape)
        known = dict(zip(sources, numbers, strict=True))
        for value in sorted(region, key=self.places.__getitem__):
            node = self.producers[value]
            inputs = [known[each] if each in known else self.graph.constants[each].reshape(1)
                      for each in node.inputs]
            made = np.asarray(evaluate_node(node, inputs))
            if made.shape not in (numbers[0].shape, (1,)):
                return False
            known[value] = made
        near = np.abs(wanted)[np.all([np.abs(each) <= CLOSE for each in numbers], axis=0)]
        near = near[np.isfinite(near)]
        about = float(near.mean()) if near.size else 0.0
        return bool(np.allclose(known[result], wanted, RELATIVE,
                                max(ABSOLUTE * about, pattern.tolerance), equal_nan=True))


def _numbers(count: int) -> list[Array]:
    """Numbers that functions of so many are tried with."""
    powers = 2.0 ** np.arange(-10, FAR + 1)
    if count == 1:
        return [np.concatenate([np.linspace(-CLOSE, CLOSE, 1021), powers, -powers])]
    random = np.random.default_rng(0).uniform(-CLOSE, CLOSE, (count, 1500))
    some = np.concatenate([powers[::3], -powers[::3], [0.0]])
    grid = np.stack(np.meshgrid(*[some] * count)).reshape(count, -1)
    return list(np.concatenate([random, grid], axis=1))
