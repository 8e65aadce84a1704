"""Finds where a float graph sums a term of a tensor and of each row of a constant: what products of
one's own stand for (`compiler.ops.term_patterns`). Found by values, as `matching` finds elementwise
operators. ::

    x [..,K] -> reshape [..,1,K] -> elementwise operators, with w [N,K] -> reduce_sum -> [..,N]
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find
from compiler.ops.term_patterns import TermPattern
from compiler.quantize.networks.matching import Match
from compiler.quantize.networks.trials import agree, evaluated, numbers_of


def totals_of(graph: Graph, patterns: Sequence[TermPattern],
              without: Collection[tuple[str, str]] = ()) -> dict[str, Match]:
    """The matches by the value that their sum makes; of several patterns the first. `without` names
    patterns, each with a value that it shall not make.
    """
    if not patterns:
        return {}
    producers, readers = graph.producers(), graph.consumers()
    found = dict[str, Match]()
    for node in graph.nodes:
        terms = _terms(graph, producers, readers, node) if node.op == "reduce_sum" else None
        if terms is None:
            continue
        nodes, apart, weight = terms
        pattern = next((pattern for pattern in patterns
                        if (pattern.name, node.outputs[0]) not in without
                        and _sums(graph, pattern, nodes, apart.outputs[0], weight)), None)
        if pattern is not None:
            found[node.outputs[0]] = Match(pattern, (apart, *nodes, node), apart.inputs[:1],
                                           weight=weight)
    return found


def _terms(graph: Graph, producers: Mapping[str, Node], readers: Mapping[str, Sequence[Node]],
           total: Node) -> tuple[list[Node], Node, str] | None:
    """The elementwise nodes that a sum along the last axis reads, in order, the reshape before
    them, and the constant; None where there is anything else.
    """
    rank = len(graph.values[total.inputs[0]].shape)
    if tuple(total.attrs["axes"]) != (rank - 1,) or total.attrs["keepdims"] or rank < 3:
        return None
    inside = list(_elementwise(graph, producers, readers, total))
    places = {node.name: place for place, node in enumerate(graph.nodes)}
    nodes = sorted(inside, key=lambda node: places[node.name])
    made = {node.outputs[0] for node in nodes}
    read = dict.fromkeys(value for node in nodes for value in node.inputs if value not in made)
    data = [value for value in read if value not in graph.constants]
    weights = [value for value in read
               if value in graph.constants and graph.constants[value].size > 1]
    if len(data) != 1 or len(weights) != 1:
        return None
    apart = producers.get(data[0])
    whole, shape = graph.values[total.inputs[0]].shape, graph.values[data[0]].shape
    if (apart is None or apart.op != "reshape" or shape != (*whole[:-2], 1, whole[-1])
            or graph.values[apart.inputs[0]].shape != (*whole[:-2], whole[-1])
            or graph.values[data[0]].dtype != "float32" or data[0] in graph.outputs
            or not all(reader in nodes for reader in readers[data[0]])):
        return None
    weight = graph.constants[weights[0]]
    rows = weight.dtype == np.float32 and weight.shape[-2:] == whole[-2:]
    return (nodes, apart, weights[0]) if rows and weight.size == whole[-2] * whole[-1] else None


def _elementwise(graph: Graph, producers: Mapping[str, Node],
                 readers: Mapping[str, Sequence[Node]], total: Node) -> Iterator[Node]:
    """The elementwise nodes, nearest first, of which only these and the sum read the results."""
    taken, waiting = {total.name}, [total.inputs[0]]
    for value in waiting:
        node = producers.get(value)
        if (node is not None and node.name not in taken and value not in graph.outputs
                and find(node.op).kind is Kind.ELEMENTWISE
                and all(reader.name in taken for reader in readers[value])):
            taken.add(node.name)
            waiting += node.inputs
            yield node


def _sums(graph: Graph, pattern: TermPattern, nodes: Sequence[Node], data: str, weight: str
          ) -> bool:
    """True if the nodes compute the pattern's term."""
    numbers = numbers_of(2)
    made = evaluated(graph.constants, nodes, dict(zip((data, weight), numbers, strict=True)))
    return made is not None and agree(made, pattern, numbers)
