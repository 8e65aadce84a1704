"""Weights in the order in which they are read."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code


@dataclass(frozen=True, slots=True)
class TransposeWeights:
    """dense(x, w [N,K], trans_b=1) -> dense(x, w [K,N], trans_b=0) for constant w: vectors of
    results then read rows of weights.

    Before: any graph. After: `trans_b` of a dense layer is 1 only where its weight is computed.
    Exact.
    """

    name: ClassVar[str] = "transpose-weights"

    def __call__(self, graph: Graph) -> Graph:
        builder, turned = Builder.like(graph), {}
        for node in graph.nodes:
            builder.add(_turned(builder, node, turned))
        return eliminate_dead_code(builder.finish(graph.outputs)) if turned else graph


def _turned(builder: Builder, node: Node, turned: dict[str, str]) -> Node:
    if node.op != "dense" or not node.attrs["trans_b"] or node.inputs[1] not in builder.constants:
        return node
    old = node.inputs[1]
    if old not in turned:
        array = np.ascontiguousarray(builder.constants[old].T)
        turned[old] = builder.add_constant(builder.fresh(f"{old}:transposed"), array)
    return replace(node, inputs=(node.inputs[0], turned[old], *node.inputs[2:]),
                   attrs={**node.attrs, "trans_b": 0})
