"""Averages of whole planes as means along axes, which may lie in any order."""

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.graph.graph import Graph, Node
from compiler.ops.registry import find

AVERAGES = ("globalavgpool", "qglobalavgpool")


@dataclass(frozen=True, slots=True)
class AveragesAsMeans:
    """globalavgpool(x) -> mean(x) along rows and columns; the same of int8.

    Before: any graph. After: no averages of whole planes. Exact: it is the form that averages have
    on blocks of channels.
    """

    name: ClassVar[str] = "averages-as-means"

    def __call__(self, graph: Graph) -> Graph:
        if not any(node.op in AVERAGES for node in graph.nodes):
            return graph
        return replace(graph, nodes=tuple(map(_as_mean, graph.nodes)))


def _as_mean(node: Node) -> Node:
    form = find(node.op).blocks
    if node.op not in AVERAGES or form is None:
        return node
    return replace(node, op=form.op, attrs=dict(form.attrs(node.attrs) or {}))
