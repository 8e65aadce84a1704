"""Weights of products in rows along their sums, as tensor cores read them."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.records.weights import MATRIX, PRODUCT
from compiler.ops.registry import find


@dataclass(frozen=True, slots=True)
class WeightsInRows:
    """matmul(a, b [K,N]) -> matmul(a, b [N,K], trans_b=1) for constant b, and so for dense.

    Before: any graph. After: the same values, from weights [...,N,K]. The graph itself where no
    weight is a constant [...,K,N]. Exact.
    """

    name: ClassVar[str] = "weights-in-rows"

    def __call__(self, graph: Graph) -> Graph:
        taken = [node for node in graph.nodes if find(node.op).weights in (MATRIX, PRODUCT)
                 and not node.attrs.get("trans_b", 0) and node.inputs[1] in graph.constants]
        if not taken:
            return graph
        builder, rows = Builder.like(graph), dict[str, str]()
        for node in graph.nodes:
            builder.add(_turned(builder, node, rows) if node in taken else node)
        return eliminate_dead_code(builder.finish(graph.outputs))


def _turned(builder: Builder, node: Node, rows: dict[str, str]) -> Node:
    weight = node.inputs[1]
    if weight not in rows:
        array = np.ascontiguousarray(builder.constants[weight].swapaxes(-1, -2))
        rows[weight] = builder.add_constant(builder.fresh(f"{weight}_rows"), array)
    return replace(node, inputs=(node.inputs[0], rows[weight], *node.inputs[2:]),
                   attrs={**node.attrs, "trans_b": 1})
