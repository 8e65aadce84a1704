"""Products with a multiplier of their own below zero, as processors compute them."""

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.registry import find

BELOW = 2
"""The last inputs of such a product: multiplier and shift of what is below zero."""


@dataclass(frozen=True, slots=True)
class SplitProducts:
    """qconv2d(x, ..., mult, shift, mult_below, shift_below) of int8 -> the greater of
    qconv2d(x, ..., mult, shift) and qconv2d(x, ..., mult_below, shift_below): kernels for products
    requantize once.

    Before: any graph. After: no product of int8 has a multiplier of its own below zero. Exact.
    """

    name: ClassVar[str] = "split-products"

    def __call__(self, graph: Graph) -> Graph:
        if not any(_is_sloped(graph, node) for node in graph.nodes):
            return graph
        builder = Builder.like(graph)
        for node in graph.nodes:
            if _is_sloped(graph, node):
                _split(builder, node)
            else:
                builder.add(node)
        return eliminate_dead_code(builder.finish(graph.outputs))


def _split(builder: Builder, node: Node) -> None:
    *others, mult, shift, mult_below, shift_below = node.inputs
    parts = [builder.add(replace(node, name=builder.fresh_node(f"{node.name}.{role}"),
                                 inputs=(*others, *factors),
                                 outputs=(builder.fresh(f"{node.name}.{role}"),)))
             for role, factors in (("above", (mult, shift)), ("below", (mult_below, shift_below)))]
    builder.emit("qmap", node.name, parts, node.outputs[0], function="max(x0, x1)")


def _is_sloped(graph: Graph, node: Node) -> bool:
    """True if a product of int8 has these inputs."""
    operator = find(node.op)
    return (operator.below and graph.values[node.outputs[0]].dtype == "int8"
            and len(node.inputs) == 5 + BELOW)
