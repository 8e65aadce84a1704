"""Nodes that change nothing."""

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import with_nodes

__all__ = ["DropIdentities"]


@dataclass(frozen=True, slots=True)
class DropIdentities:
    """Before: any graph. After: no identity and no reshape or slice to the same shape, except one
    that must give a graph output its name because the value has another name to keep.
    """

    name: ClassVar[str] = "drop-identities"

    def __call__(self, graph: Graph) -> Graph:
        names = {value: value for value in graph.values}
        made = {value for node in graph.nodes for value in node.outputs}
        kept: list[Node] = []
        for node in graph.nodes:
            if not _is_identity(graph, node) or not _merge(graph, node, names, made):
                kept.append(node)
        renamed = (replace(node, inputs=tuple(names[value] for value in node.inputs),
                           outputs=tuple(names[value] for value in node.outputs))
                   for node in kept)
        return with_nodes(graph, renamed)


def _is_identity(graph: Graph, node: Node) -> bool:
    same = graph.values[node.inputs[0]] == graph.values[node.outputs[0]] if node.inputs else False
    return node.op == "identity" or (node.op in ("reshape", "upsample", "slice") and same)


def _merge(graph: Graph, node: Node, names: dict[str, str], made: set[str]) -> bool:
    """Gives both values of the identity one name; False when both names must stay."""
    source, target = names[node.inputs[0]], node.outputs[0]
    if target not in graph.outputs:
        names[target] = source
        return True
    if source in graph.outputs or node.inputs[0] not in made or source not in made:
        return False
    for value, name in names.items():
        if name == source:
            names[value] = target
    return True
