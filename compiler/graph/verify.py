"""The verifier: a graph is well formed, or one sentence says why not."""

import numpy as np

from compiler.errors import DEFECT, Error
from compiler.graph.graph import Graph, Node, TensorType
from compiler.ops.records.operator import Range
from compiler.ops.registry import find, infer


class GraphRefused(Error, ValueError):
    """A graph that breaks a rule of the graph itself; operators refuse with TypeRefused."""

    exit_status = DEFECT


def verify(graph: Graph) -> Graph:
    """The graph, when every value is defined once and before use, every type is what the
    operator's rule gives, and every multiplier is one the machine has; else GraphRefused or
    TypeRefused.
    """
    _check_constants(graph)
    defined = _starting_values(graph)
    everywhere = defined | {value for node in graph.nodes for value in node.outputs}
    names: set[str] = set()
    for node in graph.nodes:
        if node.name in names:
            raise _refused(graph, f"node names must be unique, not twice {node.name!r}")
        names.add(node.name)
        _check_inputs(graph, node, defined, everywhere)
        _check_outputs(graph, node, defined)
        _check_parameters(graph, node)
        defined.update(node.outputs)
    for value in graph.outputs:
        if value not in defined:
            raise _refused(graph, f"output {value!r} must be defined by a node or an input")
    for value in graph.values:
        if value not in defined:
            raise _refused(graph, f"value {value!r} must be defined by a node or an input")
    return graph


def _refused(graph: Graph, sentence: str) -> GraphRefused:
    return GraphRefused(f"graph {graph.name}: {sentence}")


def _starting_values(graph: Graph) -> set[str]:
    for value in graph.inputs:
        if value not in graph.values:
            raise _refused(graph, f"input {value!r} must have a type")
        if value in graph.constants:
            raise _refused(graph, f"input {value!r} must not be a constant")
    return set(graph.inputs) | set(graph.constants)


def _check_constants(graph: Graph) -> None:
    for value, array in graph.constants.items():
        typed, actual = graph.values.get(value), TensorType.of(array)
        if typed != actual:
            raise _refused(graph, f"constant {value!r} must be {typed}, not {actual}")


def _check_inputs(graph: Graph, node: Node, defined: set[str], everywhere: set[str]) -> None:
    for value in node.inputs:
        if value not in everywhere:
            raise _refused(graph, f"{node.name}: input {value!r} must be a known value")
        if value not in defined:
            raise _refused(graph, f"{node.name}: input {value!r} must be defined before its use")


def _check_outputs(graph: Graph, node: Node, defined: set[str]) -> None:
    by_rule = infer(node, [graph.values[value] for value in node.inputs])
    for value in node.outputs:
        if value in defined:
            raise _refused(graph, f"{node.name}: output {value!r} must be defined once")
        declared = graph.values.get(value)
        if declared != by_rule:
            raise _refused(graph, f"{node.name}: output {value!r} must be {by_rule} by the rule of "
                                  f"{node.op}, not {declared}")


def _check_parameters(graph: Graph, node: Node) -> None:
    """Scales, zero points, weights and per-channel parameters are constants within range."""
    operator = find(node.op)
    if operator.parameters is None:
        return
    names = node.inputs[operator.data_inputs:]
    for value in names:
        if value not in graph.constants:
            raise _refused(graph, f"{node.name}: input {value!r} must be a constant")
    for limits in operator.parameters([graph.constants[value] for value in names]):
        _check_range(graph, node, limits)


def _check_range(graph: Graph, node: Node, limits: Range) -> None:
    if not np.all(limits.fits):
        raise _refused(graph, f"{node.name}: every {limits.role} must be {limits.wanted}, "
                              f"not {limits.array[~limits.fits].flat[0].item()!r}")
