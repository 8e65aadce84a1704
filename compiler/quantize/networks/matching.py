"""Finds where a float graph computes what patterns match: found by values, not by operators.

Elementwise operators that depend on as many values as a pattern has inputs are tried with numbers,
and so is the pattern's real expression. They are the same function if they agree on all of them, as
exporters may write it: in the order of factors, by multiplying or dividing, before or after a clip.
A pattern with a tolerance is taken for functions that are so near to it, as GELU by erf and by tanh
are. Constants of channels that a pattern has are tried with their own numbers, values with those of
`compiler.quantize.networks.trials`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.ops.patterns import Pattern
from compiler.ops.records.broadcasting import common_shape
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find
from compiler.ops.term_patterns import TermPattern
from compiler.quantize.networks.trials import agree, evaluated, numbers_of

Array = np.ndarray
MOST_REGIONS = 256      # that are tried for each value
CHANNELS = 64           # of different numbers that are tried


@dataclass(frozen=True, slots=True)
class Match:
    """The nodes, in order, that compute what a pattern matches of the values `sources`, and of
    constants: `numbers` of each channel, in float64, which lie along the result as `shape` says. Of
    a sum of terms `weight` is the constant whose rows it reads.
    """

    pattern: Pattern | TermPattern
    nodes: tuple[Node, ...]
    sources: tuple[str, ...]
    numbers: tuple[Array, ...] = ()
    shape: tuple[int, ...] = ()
    weight: str = ""


@dataclass(frozen=True, slots=True)
class _Constants:
    """Constants of one region in the order of a pattern's, by name, in the shape of the widest."""

    names: tuple[str, ...] = ()
    numbers: tuple[Array, ...] = ()
    shape: tuple[int, ...] = ()

    def tried(self) -> tuple[Array, ...]:
        """The different numbers of channels, of many some that span them."""
        if not self.names:
            return ()
        rows = np.unique(np.stack(self.numbers, axis=1), axis=0)
        places = np.unique(np.linspace(0, len(rows) - 1, CHANNELS).astype(int))
        return tuple(rows[places].T)


def matches_of(graph: Graph, patterns: Sequence[Pattern | TermPattern],
               taken: Iterable[str] = (), without: Collection[tuple[str, str]] = ()
               ) -> dict[str, Match]:
    """The matches by the value that their last node makes; no node is in two of them, and none
    makes a value that is `taken`. Of several for one value that of most nodes is taken, of patterns
    the first. `without` names patterns, each with a value that it shall not make.
    """
    most = max((len(pattern.constants) for pattern in patterns), default=0)
    return _Search(graph, most > 0, {*taken}, without).run(patterns) if patterns else {}


@dataclass(slots=True)
class _Search:
    """`of_channels`: nodes that read constants of channels count as elementwise, too."""

    graph: Graph
    of_channels: bool
    taken: set[str]
    without: Collection[tuple[str, str]]
    producers: Mapping[str, Node] = field(init=False)
    readers: Mapping[str, list[str]] = field(init=False)
    places: Mapping[str, int] = field(init=False)

    def __post_init__(self):
        self.producers = {node.outputs[0]: node for node in self.graph.nodes}
        self.places = {value: place for place, value in enumerate(self.producers)}
        readers: dict[str, list[str]] = {}
        for node in self.graph.nodes:
            for value in node.inputs:
                readers.setdefault(value, []).append(node.outputs[0])
        self.readers = readers

    def run(self, patterns: Sequence[Pattern | TermPattern]) -> dict[str, Match]:
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

    def _best(self, value: str, patterns: Sequence[Pattern | TermPattern]) -> Match | None:
        patterns = [pattern for pattern in patterns if (pattern.name, value) not in self.without]
        regions = sorted(self._regions(value), key=len, reverse=True)
        for region in regions:
            sources = self._sources(region)
            for pattern in patterns:
                if len(sources) == len(pattern.inputs) and self._fits(value, sources):
                    for order, constants in product(permutations(sources), self._constants(
                            region, len(pattern.constants), value)):
                        if self._agrees(pattern, region, order, constants):
                            nodes = sorted(region, key=self.places.__getitem__)
                            return Match(pattern, tuple(map(self.producers.__getitem__, nodes)),
                                         order, constants.numbers, constants.shape)
        return None

    def _is_elementwise(self, value: str) -> bool:
        """True if an elementwise operator makes the value, of values and single numbers, or numbers
        of channels."""
        node = self.producers.get(value)
        return (node is not None and find(node.op).kind is Kind.ELEMENTWISE and all(
            array.size == 1 or self.of_channels and array.dtype == np.float32
            and sum(extent > 1 for extent in array.shape) == 1
            for each in node.inputs if (array := self.graph.constants.get(each)) is not None))

    def _constants(self, region: frozenset[str], count: int, result: str) -> list[_Constants]:
        """The ways to take so many constants that the region reads for those of a pattern: all that
        have several numbers, along one axis of the result, are among them."""
        known = self.graph.constants
        read = dict.fromkeys(value for made in region for value in self.producers[made].inputs
                             if value in known and known[value].dtype == np.float32)
        several = {value for value in read if known[value].size > 1}
        axes = {next(place for place, extent in enumerate(known[value].shape) if extent > 1)
                - known[value].ndim for value in several}
        if len(axes) > 1 or len(several) > count:
            return []
        if not count:
            return [_Constants()]
        shape = (1,)
        for axis in axes:
            shape = (self.graph.values[result].shape[axis], *(-1 - axis) * [1])
        return [_Constants(names, tuple(np.broadcast_to(known[name].reshape(-1), shape[:1]).astype(
            np.float64) for name in names), shape)
            for names in permutations(read, count) if several <= {*names}]

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

    def _agrees(self, pattern: Pattern | TermPattern, region: frozenset[str],
                sources: Sequence[str], constants: _Constants) -> bool:
        """True if the nodes and the pattern are one function of the sources, and constants."""
        numbers, channels = numbers_of(len(sources)), constants.tried()
        if channels:
            numbers = [np.tile(each, len(channels[0])) for each in numbers]
            channels = [np.repeat(each, len(numbers[0]) // len(each)) for each in channels]
        nodes = [self.producers[value] for value in sorted(region, key=self.places.__getitem__)]
        made = evaluated(self.graph.constants, nodes, dict(zip((*sources, *constants.names),
                                                     (*numbers, *channels), strict=True)))
        return made is not None and agree(made, pattern, numbers, channels)
