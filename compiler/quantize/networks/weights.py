"""Weights of nodes, as described by the records of their operators
(`compiler.ops.records.weights`)."""

from collections.abc import Mapping

import numpy as np

from compiler.graph.graph import Node
from compiler.ops.records.weights import Weights, of_channels
from compiler.ops.registry import OPERATORS, find

WEIGHTED = {name for name, operator in OPERATORS.items() if operator.weights}
"""Operators that multiply by weights, where these are constants."""
MATRICES = {name for name, operator in OPERATORS.items()
            if operator.weights and operator.weights.axis < 0}

Array = np.ndarray


def _weights(node: Node) -> Weights:
    weights = find(node.op).weights
    assert weights is not None
    return weights


def channel_axis(node: Node) -> int:
    """The axis of the weight that has a scale for each output channel (of a group)."""
    return _weights(node).scale_axis(node.attrs)


def result_axis(node: Node, rank: int) -> int:
    """The axis of the result that has the output channels."""
    return _weights(node).axis % rank


def canonical(node: Node, weight: Array) -> Array:
    """A view [groups, outputs / group, inputs / group, taps] of the node's weight."""
    return _weights(node).alike(node.attrs, weight)


def restored(node: Node, view: Array, shape: tuple[int, ...]) -> Array:
    """The weight of this shape that `canonical` sees as `view`."""
    return _weights(node).restored(node.attrs, view, shape)


def outputs(node: Node, weight: Array) -> int:
    """The number of the node's output channels."""
    return _weights(node).outputs(node.attrs, weight)


def scaled(node: Node, weight: Array, *, outward: Array | None = None,
           inward: Array | None = None) -> Array:
    """The weight with each output channel, or each input channel, times a number."""
    return _weights(node).scaled(node.attrs, weight, outward=outward, inward=inward)


def has_constants(node: Node, tensors: Mapping[str, Array]) -> bool:
    """True if the node's weight, and its bias if any, are constants, the bias one of channels."""
    if any(name not in tensors for name in node.inputs[1:]):
        return False
    count = outputs(node, tensors[node.inputs[1]])
    return all(of_channels(tensors[name], count) is not None for name in node.inputs[2:])


def vector(node: Node, tensors: Mapping[str, Array]) -> Array:
    """The node's bias, one number for each output channel; zeros when it has none."""
    count = outputs(node, tensors[node.inputs[1]])
    if len(node.inputs) < 3:
        return np.zeros(count, np.float32)
    bias = of_channels(tensors[node.inputs[2]], count)
    assert bias is not None
    return bias.astype(np.float32)
