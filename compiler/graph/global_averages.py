"""Averages of whole planes as means along axes, which may lie in any order."""

from dataclasses import replace

from compiler.graph.graph import Graph
from compiler.ops.registry import find

__all__ = ["with_means"]

AVERAGES = ("globalavgpool", "qglobalavgpool")


def with_means(graph: Graph) -> Graph:
    """globalavgpool(x) -> mean(x) along rows and columns; the same of int8. Exact: it is the form
    that averages have on blocks of channels.
    """
    if not any(node.op in AVERAGES for node in graph.nodes):
        return graph
    nodes = []
    for node in graph.nodes:
        form = find(node.op).blocks
        if node.op in AVERAGES and form is not None:
            node = replace(node, op=form.op, attrs=dict(form.attrs(node.attrs) or {}))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))
