"""Weights of operators seen alike: [groups, outputs / group, inputs / group, taps].

Output channel o of a group g of G is channel g * outputs / G + o of the result, inputs alike; so
in the operator's own order of both, whatever the operator.
"""

from collections.abc import Mapping

import numpy as np

from compiler.graph.graph import Node
from compiler.ops.registry import OPERATORS

__all__ = ["MATRICES", "TRANSPOSED", "WEIGHTED", "canonical", "channel_axis", "outputs", "scaled",
           "vector"]

WEIGHTED = {name for name, operator in OPERATORS.items() if operator.contracts and operator.integer}
"""Operators that multiply by weights, where these are constants."""

MATRICES = ("dense", "matmul")
TRANSPOSED = "convtranspose2d"

Array = np.ndarray


def channel_axis(node: Node) -> int:
    """The axis of the weight that has a scale for each output channel (of a group)."""
    if node.op in MATRICES:
        return 0 if node.attrs.get("trans_b", 0) else 1
    return int(node.op == TRANSPOSED)


def canonical(node: Node, weight: Array) -> Array:
    """A view of the node's weight as this module's docstring says."""
    if node.op in MATRICES:
        return (weight if channel_axis(node) == 0 else weight.T)[None, :, :, None]
    group = node.attrs.get("group", 1)
    view = weight.reshape(group, len(weight) // group, weight.shape[1], -1)
    return view.swapaxes(1, 2) if node.op == TRANSPOSED else view


def _restored(node: Node, view: Array, shape: tuple[int, ...]) -> Array:
    if node.op in MATRICES:
        matrix = view[0, :, :, 0]
        return np.ascontiguousarray(matrix if channel_axis(node) == 0 else matrix.T)
    view = np.ascontiguousarray(view.swapaxes(1, 2)) if node.op == TRANSPOSED else view
    return view.reshape(shape)


def outputs(node: Node, weight: Array) -> int:
    """How many output channels the node has."""
    view = canonical(node, weight)
    return view.shape[0] * view.shape[1]


def scaled(node: Node, weight: Array, *, outward: Array | None = None,
           inward: Array | None = None) -> Array:
    """The weight with each output channel, or each input channel, times a number."""
    view = canonical(node, weight)
    group, outs, ins, _ = view.shape
    if outward is not None:
        view = view * outward.reshape(group, outs, 1, 1)
    if inward is not None:
        view = view * inward.reshape(group, 1, ins, 1)
    return _restored(node, view.astype(weight.dtype, copy=False), weight.shape)


def vector(node: Node, tensors: Mapping[str, Array]) -> Array:
    """The node's bias, one number for each output channel; zeros when it has none."""
    count = outputs(node, tensors[node.inputs[1]])
    if len(node.inputs) < 3:
        return np.zeros(count, np.float32)
    return np.broadcast_to(tensors[node.inputs[2]].reshape(-1), (count,)).astype(np.float32)
