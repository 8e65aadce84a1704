"""Batch norms, and products and sums with a constant a channel: folded into the layer before, or a
convolution of their own, depthwise and 1x1, which the accelerator has.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, helper

from compiler.quantize.nodes import Names, attribute, rewired
from compiler.quantize.weights import WEIGHTED, outputs, scaled, vector

__all__ = ["Affine", "as_convolution", "fold", "read_affine"]

Array = np.ndarray
Shapes = Mapping[str, tuple[int, ...]]
"""Of the values whose shapes are known; 0 stands for an extent that is not."""


@dataclass(frozen=True, slots=True)
class Affine:
    """(x - mean) * gain + bias: float32 vectors of one number, or of one for each place along the
    axis.
    """

    source: str
    axis: int
    gain: Array
    mean: Array
    bias: Array


def read_affine(node: NodeProto, tensors: Mapping[str, Array], shapes: Shapes) -> Affine | None:
    """What the node does to each channel, None for any other node."""
    if node.op_type == "BatchNormalization":
        return _read_norm(node, tensors)
    if node.op_type not in ("Mul", "Add", "Sub", "Div") or len(node.input) != 2:
        return None
    data, constant = node.input
    if data in tensors and node.op_type in ("Mul", "Add"):
        data, constant = constant, data
    if data in tensors or constant not in tensors:
        return None
    axis = 1 if len(shapes.get(data, ())) == 4 else len(shapes.get(data, ())) - 1
    number = _channelwise(tensors[constant], shapes.get(data, ()), axis)
    if number is None or (node.op_type == "Div" and not number.all()):
        return None
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    match node.op_type:
        case "Mul": return Affine(data, axis, number, zero, zero)
        case "Div": return Affine(data, axis, one / number, zero, zero)
        case "Add": return Affine(data, axis, one, zero, number)
    return Affine(data, axis, one, number, zero)


def _read_norm(node: NodeProto, tensors: Mapping[str, Array]) -> Affine | None:
    used = [value for value in node.output if value]
    if (not all(name in tensors for name in node.input[1:]) or len(used) > 1
            or attribute(node, "training_mode", 0)):
        return None
    weight, bias, mean, variance = (tensors[name] for name in node.input[1:])
    epsilon = attribute(node, "epsilon", 1e-5)
    return Affine(node.input[0], 1, weight / np.sqrt(variance + np.float32(epsilon)), mean, bias)


def _channelwise(constant: Array, shape: tuple[int, ...], axis: int) -> Array | None:
    """The constant as a vector when it has one number, or one for each place along the axis."""
    if constant.dtype != np.float32 or len(shape) < 2 or constant.ndim > len(shape):
        return None
    extents = (1,) * (len(shape) - constant.ndim) + constant.shape
    others = [extent for place, extent in enumerate(extents) if place != axis]
    fits = extents[axis] in (1, shape[axis]) and set(others) <= {1}
    return constant.reshape(-1) if fits else None


def fold(node: NodeProto, affine: Affine, tensors: dict[str, Array], names: Names,
         shared: bool, rank: int) -> NodeProto | None:
    """The one operator with weights that equals the two, whose numbers then stand in `tensors`;
    None when there is none. `shared` says whether other nodes read the weight, `rank` is that of
    the data.
    """
    if node.op_type not in WEIGHTED or node.input[1] not in tensors:
        return None
    weight = node.input[1]
    if any(name and name not in tensors for name in node.input[2:]):
        return None
    if node.op_type in ("Gemm", "MatMul") and (tensors[weight].ndim != 2
                                               or affine.axis != rank - 1):
        return None
    count = outputs(node, tensors[weight])
    before = vector(node, tensors)
    gain = np.broadcast_to(affine.gain, (count,))
    bias = (affine.bias + (before - affine.mean) * affine.gain).astype(np.float32)
    made = scaled(node, tensors[weight], outward=gain)
    kept = names.fresh(weight) if shared else weight
    added = names.fresh(f"{node.name}.bias")
    tensors[kept], tensors[added] = made, np.broadcast_to(bias, (count,)).copy()
    folded = rewired(node, [node.input[0], kept, added])
    if node.op_type == "MatMul" and rank == 2:
        folded.op_type = "Gemm"
    return folded


def as_convolution(node: NodeProto, affine: Affine, tensors: dict[str, Array], names: Names,
                   shapes: Shapes) -> NodeProto | None:
    """The depthwise 1x1 convolution that equals the node, None where its input is no image."""
    shape = shapes.get(affine.source, ())
    if len(shape) != 4 or not shape[1]:
        return None
    gain, offset = (np.broadcast_to(one, (shape[1],)).astype(np.float32) for one in
                    (affine.gain, affine.bias - affine.mean * affine.gain))
    weight, bias = (names.fresh(f"{node.name}.{role}") for role in ("weight", "bias"))
    tensors[weight], tensors[bias] = gain.reshape(-1, 1, 1, 1).copy(), offset.copy()
    return helper.make_node("Conv", [affine.source, weight, bias], list(node.output)[:1], node.name,
                            kernel_shape=[1, 1], group=shape[1])
