"""Pads of int8 images in the windows that read them."""

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import eliminate_dead_code, with_nodes
from compiler.ops.registry import find


@dataclass(frozen=True, slots=True)
class PadsInWindows:
    """qconv2d(pad(x, value)) -> qconv2d(x) with more pads, and pools alike, where the pads of both
    hold the same value: rows and columns at the four sides.

    Before: integer operators. After: no such pad is read by a window that could have it. Every
    element is the same to the bit.
    """

    name: ClassVar[str] = "pads-in-windows"

    def __call__(self, graph: Graph) -> Graph:
        pads = {node.outputs[0]: node for node in graph.nodes if node.op == "pad"}
        if not pads:
            return graph
        nodes = [_padded(graph, node, pads[node.inputs[0]]) if node.inputs
                 and node.inputs[0] in pads else node for node in graph.nodes]
        return eliminate_dead_code(with_nodes(graph, nodes))


def sides_of(graph: Graph, node: Node) -> tuple[int, int, int, int] | None:
    """Top, left, bottom and right of a pad of rows and columns; None of any other."""
    before, after = node.attrs["before"], node.attrs["after"]
    if (node.attrs["mode"] != "constant" or node.inputs[1] not in graph.constants
            or any(node.attrs.get("between", ())) or len(before) != 4
            or any((*before[:2], *after[:2])) or min(*before, *after) < 0):
        return None
    return before[2], before[3], after[2], after[3]


def _padded(graph: Graph, node: Node, pad: Node) -> Node:
    sides, held = sides_of(graph, pad), find(node.op).pads
    if (sides is None or held is None or graph.values[pad.inputs[0]].dtype != "int8"
            or held(node.attrs) != graph.constants[pad.inputs[1]].item()):
        return node
    pads = tuple(own + more for own, more in zip(node.attrs["pads"], sides, strict=True))
    kernel = node.attrs.get("kernel")
    if kernel and not all(side < kernel[place % 2] for place, side in enumerate(pads)):
        return node
    return replace(node, inputs=(pad.inputs[0], *node.inputs[1:]),
                   attrs={**node.attrs, "pads": pads})
