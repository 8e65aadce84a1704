"""Moves dequantization below operators that only move or select elements."""

from dataclasses import dataclass
from typing import ClassVar

from compiler.graph.graph import Graph, Node
from compiler.graph.passes.quantized import QUANTIZED
from compiler.graph.rewrite import Builder
from compiler.ops.registry import find

__all__ = ["SinkDequantize"]


@dataclass(frozen=True, slots=True)
class SinkDequantize:
    """maxpool(dequantize(q)) -> dequantize(maxpool(q)), and what only moves elements alike: exact,
    since a positive scale keeps order.

    Before: any graph. After: no operator that `picks` elements reads a per-tensor dequantized
    activation; dequantizations that nobody reads any more are left to dead code elimination.
    """

    name: ClassVar[str] = "sink-dequantize"

    def __call__(self, graph: Graph) -> Graph:
        builder = Builder.like(graph)
        dequantized: dict[str, Node] = {}
        for node in graph.nodes:
            if find(node.op).picks and node.inputs[0] in dequantized:
                node = _sunk(builder, node, dequantized[node.inputs[0]])
            builder.add(node)
            if _sinks(builder, node):
                dequantized[node.outputs[0]] = node
        same = tuple(builder.nodes) == graph.nodes
        return graph if same else builder.finish(graph.outputs)


def _sinks(builder: Builder, node: Node) -> bool:
    if node.op != "dequantizelinear" or node.inputs[0] in builder.constants:
        return False
    typed = builder.values
    return typed[node.inputs[1]].shape == () and typed[node.inputs[0]].dtype in QUANTIZED


def _sunk(builder: Builder, node: Node, dequantize: Node) -> Node:
    """Adds the operator on integers; the dequantization that now follows it."""
    source, scale, zero = dequantize.inputs
    below = builder.emit(node.op, node.name, [source],
                         builder.fresh(f"{node.outputs[0]}_quantized"), **node.attrs)
    return Node("dequantizelinear", builder.fresh_node(f"{node.name}_dequantize"),
                (below, scale, zero), node.outputs, dequantize.attrs)
