"""Bounds of quantized tensors, before their quantization."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code


@dataclass(frozen=True, slots=True)
class BoundsBeforeQuantize:
    """maximum(quantizelinear(x), 3) -> quantizelinear(clip(x, from 3's number)), and minimum alike:
    the same integers, since the quantization keeps order and gives a bound's number the bound.
    Integers of few bits are written so.

    Before: any graph. After: no bound is computed of a quantization with one scale that nothing
    else reads.
    """

    name: ClassVar[str] = "bounds-before-quantize"

    def __call__(self, graph: Graph) -> Graph:
        readers = Counter(value for node in graph.nodes for value in node.inputs)
        readers.update(graph.outputs)
        builder, quantized = Builder.like(graph), dict[str, Node]()
        for node in graph.nodes:
            above, bound = _parts(graph, node, quantized)
            if above is not None and readers[above.outputs[0]] == 1:
                node = _moved(builder, node, above, bound)
            builder.add(node)
            if node.op == "quantizelinear" and graph.values[node.inputs[1]].shape == ():
                quantized[node.outputs[0]] = node
        same = tuple(builder.nodes) == graph.nodes
        return graph if same else eliminate_dead_code(builder.finish(graph.outputs))


def _parts(graph: Graph, node: Node, quantized: dict[str, Node]) -> tuple[Node | None, int]:
    """The quantization that a bound reads, and the bound."""
    if node.op not in ("maximum", "minimum"):
        return None, 0
    for value, other in (node.inputs, node.inputs[::-1]):
        bound = graph.constants.get(other)
        if value in quantized and bound is not None and (
                graph.values[value] == graph.values[node.outputs[0]] and bound.size == 1):
            return quantized[value], int(bound.reshape(()))
    return None, 0


def _moved(builder: Builder, node: Node, above: Node, bound: int) -> Node:
    """Adds the bound of the numbers; the quantization that follows it."""
    x, scale, zero = above.inputs
    number = float(np.float32(bound - int(builder.constants[zero])) * builder.constants[scale])
    ends = {"lo": number, "hi": np.inf} if node.op == "maximum" else {"lo": -np.inf, "hi": number}
    below = builder.emit("clip", node.name, [x], builder.fresh(f"{node.outputs[0]}_bounded"),
                         **ends)
    return Node("quantizelinear", builder.fresh_node(f"{node.name}_quantize"),
                (below, scale, zero), node.outputs, above.attrs)
