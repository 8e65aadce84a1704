"""Why operators of a float graph are no match of a pattern that is near them."""

from collections.abc import Collection, Iterator, Sequence

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder
from compiler.ir.printer import expr_text
from compiler.ops.patterns import Pattern
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find
from compiler.ops.term_patterns import TermPattern
from compiler.quantize.networks.matching import Match, matches_of


def why_unmatched(graph: Graph, pattern: Pattern | TermPattern) -> str:
    """The nearest operators, and the condition by which they are none: it would be a match without.
    """
    if isinstance(pattern, TermPattern):
        return _why_no_sum(graph, pattern)
    for node in reversed(graph.nodes):
        if _is_elementwise(graph, node):
            for loose in (False, True):
                found = _alone(graph, node, pattern, loose)
                if found is not None:
                    return f"nearest is {node.name} ({node.op}), {_condition(graph, found, loose)}"
    return f"no operators compute {expr_text(pattern.real)}"


def _why_no_sum(graph: Graph, pattern: TermPattern) -> str:
    """The nearest operators that compute the term, and why there is no sum of it."""
    for node in reversed(graph.nodes):
        if _is_elementwise(graph, node) and (found := _alone(graph, node, pattern, True)):
            return f"nearest is {node.name} ({node.op}), {_sum_condition(graph, node, found)}"
    return f"no operators compute {expr_text(pattern.real)}, the term of its sum"


def _sum_condition(graph: Graph, last: Node, match: Match) -> str:
    total = next((node for node in graph.nodes if node.op == "reduce_sum"
                  and last.outputs[0] in node.inputs), None)
    if total is None:
        return "which no sum reads"
    axis = len(graph.values[last.outputs[0]].shape) - 1
    if tuple(total.attrs["axes"]) != (axis,) or total.attrs["keepdims"]:
        return f"but {total.name} ({total.op}) is no sum along the last axis that leaves it out"
    return (_read_elsewhere(graph, match.nodes, {total.name, *(node.name for node in match.nodes)})
            or "whose terms are not those of a value and of each row of a constant")


def _is_elementwise(graph: Graph, node: Node) -> bool:
    return find(node.op).kind is Kind.ELEMENTWISE and (
        graph.values[node.outputs[0]].dtype == "float32")


def _alone(graph: Graph, last: Node, pattern: Pattern | TermPattern, loose: bool
           ) -> Match | None:
    """The match that ends with a node where nothing else reads what lies before it; `loose` lets
    constants of several numbers be values.
    """
    producers, builder = graph.producers(), Builder("part")
    inside = [*_before(graph, producers, last)]
    made = {node.outputs[0] for node in inside}
    for value in dict.fromkeys(value for node in inside for value in node.inputs):
        array = graph.constants.get(value)
        if array is not None and (array.size == 1 or not loose):
            builder.add_constant(value, array)
        elif value not in made:
            builder.add_input(value, graph.values[value])
    for node in inside:
        builder.add(node)
    return matches_of(builder.finish(last.outputs), [pattern]).get(last.outputs[0])


def _before(graph: Graph, producers: dict[str, Node], last: Node) -> Iterator[Node]:
    """The elementwise operators that a value depends on without others between, in order."""
    wanted, waiting = {last.name}, [last]
    while waiting:
        for value in waiting.pop().inputs:
            node = producers.get(value)
            if node is not None and node.name not in wanted and _is_elementwise(graph, node):
                wanted.add(node.name)
                waiting.append(node)
    return (node for node in graph.nodes if node.name in wanted)


def _condition(graph: Graph, match: Match, loose: bool) -> str:
    """Names what keeps these operators from being a match."""
    if loose and (many := next((value for value in match.sources if value in graph.constants),
                               None)):
        shape = graph.constants[many].shape
        return f"where a constant of shape {shape} stands for a value"
    return (_read_elsewhere(graph, match.nodes[:-1], {node.name for node in match.nodes})
            or "but another layer has some of its operators")


def _read_elsewhere(graph: Graph, nodes: Sequence[Node], inside: Collection[str]) -> str:
    """Which of some nodes is read by others than those inside; empty where none is."""
    for node in nodes:
        value = node.outputs[0]
        if value in graph.outputs:
            return f"but {node.name} ({node.op}) is an output of the network, too"
        for reader in graph.nodes:
            if value in reader.inputs and reader.name not in inside:
                return f"but {reader.name} ({reader.op}) reads {node.name} ({node.op}), too"
    return ""
