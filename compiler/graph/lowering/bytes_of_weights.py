"""Weights of 9 bits as weights of bytes, for kernels that multiply bytes."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.records.planes import are_planes
from compiler.ops.families.requantization import sums_of
from compiler.ops.records.weights import terms_of
from compiler.ops.registry import find

MOST = 3
"""Terms of a weight: others are not the difference of two bytes."""


@dataclass(frozen=True, slots=True)
class BytesOfWeights:
    """qconv2d(x, w int16) -> qconv2d(concat(x, x), concat(w1, w2) int8) where w = w1 + w2, and so
    for other products without groups.

    Before: any graph. After: the same values; no such product of int8 has weights that are the
    difference of two bytes. The graph itself where there are none. Exact.
    """

    name: ClassVar[str] = "bytes-of-weights"

    def __call__(self, graph: Graph) -> Graph:
        found = {node.name: terms for node in graph.nodes if (terms := _terms(graph, node))}
        if not found:
            return graph
        builder, joined = Builder.like(graph), dict[tuple[str, int], str]()
        for node in graph.nodes:
            builder.add(_of_bytes(builder, node, found[node.name], joined)
                        if node.name in found else node)
        return eliminate_dead_code(builder.finish(graph.outputs))


def _terms(graph: Graph, node: Node) -> list[np.ndarray] | None:
    """The terms of the weights of a product of int8; None where there is no need for any."""
    operator = find(node.op)
    if (not operator.scales or are_planes(node) or node.attrs.get("group", 1) > 1
            or sums_of(node.attrs) != "int32"):
        return None
    weight = graph.constants.get(node.inputs[operator.data_inputs or 1])
    if graph.values[node.inputs[0]].dtype != "int8" or weight is None or weight.dtype != np.int16:
        return None
    return terms_of(weight, "int8", MOST)


def _of_bytes(builder: Builder, node: Node, terms: list[np.ndarray],
              joined: dict[tuple[str, int], str]) -> Node:
    place, x = find(node.op).data_inputs or 1, node.inputs[0]
    key = x, len(terms)
    if key not in joined:
        value = builder.fresh(f"{x}.again")
        axis = 1 if terms[0].ndim == 4 else len(builder.values[x].shape) - 1
        joined[key] = builder.emit("concat", builder.fresh_node(value), [x] * len(terms), value,
                                   axis=axis)
    weight = builder.add_constant(builder.fresh(f"{node.inputs[place]}.bytes"),
                                  np.concatenate(terms, axis=1))
    return replace(node, inputs=(joined[key], *node.inputs[1:place], weight,
                                 *node.inputs[place + 1:]))
