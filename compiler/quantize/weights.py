"""Weights of operators seen alike: [groups, outputs / group, inputs / group, taps].

Output channel o of a group g of G is channel g * outputs / G + o of the result, inputs alike; so
in ONNX's own order of both, whatever the operator.
"""

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto

from compiler.quantize.nodes import attribute

__all__ = ["WEIGHTED", "canonical", "channel_axis", "outputs", "scaled", "vector"]

WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")

Array = np.ndarray


def channel_axis(node: NodeProto) -> int:
    """The axis of the weight along which ONNX has a scale for each output channel (of a group)."""
    if node.op_type == "Gemm":
        return 0 if attribute(node, "transB", 0) else 1
    return 0 if node.op_type == "Conv" else 1


def canonical(node: NodeProto, weight: Array) -> Array:
    """A view of the node's weight as this module's docstring says."""
    group = attribute(node, "group", 1)
    match node.op_type:
        case "Conv":
            return weight.reshape(group, len(weight) // group, weight.shape[1], -1)
        case "ConvTranspose":
            inward = len(weight) // group
            return weight.reshape(group, inward, weight.shape[1], -1).swapaxes(1, 2)
    matrix = weight if channel_axis(node) == 0 else weight.T
    return matrix[None, :, :, None]


def _restored(node: NodeProto, view: Array, shape: tuple[int, ...]) -> Array:
    match node.op_type:
        case "Conv":
            return view.reshape(shape)
        case "ConvTranspose":
            return np.ascontiguousarray(view.swapaxes(1, 2)).reshape(shape)
    matrix = view[0, :, :, 0]
    return np.ascontiguousarray(matrix if channel_axis(node) == 0 else matrix.T)


def outputs(node: NodeProto, weight: Array) -> int:
    """How many output channels the node has."""
    view = canonical(node, weight)
    return view.shape[0] * view.shape[1]


def scaled(node: NodeProto, weight: Array, *, outward: Array | None = None,
           inward: Array | None = None) -> Array:
    """The weight with each output channel, or each input channel, times a number."""
    view = canonical(node, weight)
    group, outs, ins, _ = view.shape
    if outward is not None:
        view = view * outward.reshape(group, outs, 1, 1)
    if inward is not None:
        view = view * inward.reshape(group, 1, ins, 1)
    return _restored(node, view.astype(weight.dtype, copy=False), weight.shape)


def vector(node: NodeProto, tensors: Mapping[str, Array]) -> Array:
    """The node's bias, one number for each output channel; zeros when it has none."""
    count = outputs(node, tensors[node.input[1]])
    if len(node.input) < 3 or not node.input[2]:
        return np.zeros(count, np.float32)
    return np.broadcast_to(tensors[node.input[2]].reshape(-1), (count,)).astype(np.float32)
