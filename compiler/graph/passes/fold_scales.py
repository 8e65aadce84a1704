"""Batch norms, and other products and sums with a number for each channel, in the weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.records.weights import of_channels
from compiler.ops.registry import find

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class FoldScales:
    """(conv(x, w) + bias) * k + c -> conv(x, w * k) + (bias * k + c), where k and c have one
    number, or one for each output channel: what a batch norm is once its statistics are constants.
    So with - c.

    Before: any graph. After: the result of no convolution or dense layer with constant weights is
    only multiplied by, or added to, such a constant, nor is one only taken from it. Nor is a
    constant left that only these read. Results change by the rounding of weights and biases.
    """

    name: ClassVar[str] = "fold-scales"

    def __call__(self, graph: Graph) -> Graph:
        builder, readers = Builder.like(graph), graph.consumers()
        nodes: list[Node] = []
        sums: dict[str, int] = {}           # where the node is that makes the value
        for node in graph.nodes:
            value, factor = _parts(graph, node, sums, nodes)
            if factor is None or value in graph.outputs or len(readers[value]) > 1:
                if _takes_factors(graph, node):
                    sums[node.outputs[0]] = len(nodes)
                nodes.append(node)
            else:
                place = sums[node.outputs[0]] = sums.pop(value)
                nodes[place] = _folded(builder, nodes[place], node, factor)
        if len(nodes) == len(graph.nodes):
            return graph
        for node in nodes:
            builder.add(node)
        return eliminate_dead_code(builder.finish(graph.outputs))


def _takes_factors(graph: Graph, node: Node) -> bool:
    weights = find(node.op).weights
    known = all(value in graph.constants for value in node.inputs[1:])
    if weights is None or not known or not weights.biased:
        return False
    count = graph.values[node.outputs[0]].shape[weights.axis]
    return len(node.inputs) < 3 or of_channels(graph.constants[node.inputs[2]], count) is not None


def _parts(graph: Graph, node: Node, sums: Mapping[str, int],
           nodes: Sequence[Node]) -> tuple[str, Array | None]:
    """The operand that is such a sum, and the other one as a vector; None where it is not to be
    folded.
    """
    known = [value for value in node.inputs if value in graph.constants]
    value = next((value for value in node.inputs if value in sums), "")
    subtracted = node.op == "sub" and node.inputs[1:] == tuple(known)
    if not (node.op in ("add", "mul") or subtracted) or len(known) != 1 or not value:
        return value, None
    shape, array = graph.values[value].shape, graph.constants[known[0]]
    weights = find(nodes[sums[value]].op).weights
    assert weights is not None
    place = weights.axis % len(shape)
    channels = tuple(extent if axis == place else 1 for axis, extent in enumerate(shape))
    aligned = (1,) * (len(shape) - array.ndim) + array.shape
    fits = aligned in (channels, (1,) * len(shape))
    return value, np.broadcast_to(array.reshape(-1), shape[place]) if fits else None


def _folded(builder: Builder, sums: Node, node: Node, factor: Array) -> Node:
    """The convolution that makes what the node made of its result."""
    name, bias = sums.inputs[1], np.zeros(len(factor), np.float32)
    if len(sums.inputs) == 3:
        given = of_channels(builder.constants[sums.inputs[2]], len(factor))
        assert given is not None
        bias = given
    if node.op == "mul":
        weights = find(sums.op).weights
        assert weights is not None
        scaled = weights.scaled(sums.attrs, builder.constants[name], outward=factor)
        name = builder.add_constant(builder.fresh(f"{sums.name}:weight"), scaled)
        bias = bias * factor
    else:
        bias = bias - factor if node.op == "sub" else bias + factor
    bias_name = builder.add_constant(builder.fresh(f"{sums.name}:bias"), bias)
    return replace(sums, inputs=(sums.inputs[0], name, bias_name), outputs=node.outputs)
