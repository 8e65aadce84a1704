"""Products and sums with a constant for each channel, such as batch norms: folded into the previous
layer, or written as a depthwise 1x1 convolution, which is no convolution on int8 but one
requantization (`compiler.ops.families.affine`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from compiler.graph.graph import Node, TensorType
from compiler.ops.families.convolutions import pixel_convolution
from compiler.quantize.networks.names import Names
from compiler.quantize.networks.weights import (MATRICES, WEIGHTED, has_constants, outputs, scaled,
                                                vector)

Array = np.ndarray
Types = Mapping[str, TensorType]


@dataclass(frozen=True, slots=True)
class Affine:
    """(x - mean) * gain + bias: float32 vectors with one number, or one for each place along the
    axis.
    """

    source: str
    axis: int
    gain: Array
    mean: Array
    bias: Array


def read_affine(node: Node, tensors: Mapping[str, Array], types: Types) -> Affine | None:
    """The node as an affine function of each channel; None for any other node."""
    if node.op not in ("mul", "add", "sub", "div"):
        return None
    data, constant = node.inputs
    if data in tensors and node.op in ("mul", "add"):
        data, constant = constant, data
    if data in tensors or constant not in tensors:
        return None
    shape = types[data].shape
    axis = 1 if len(shape) == 4 else len(shape) - 1
    number = _channelwise(tensors[constant], shape, axis)
    if number is None or (node.op == "div" and not number.all()):
        return None
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    match node.op:
        case "mul": return Affine(data, axis, number, zero, zero)
        case "div": return Affine(data, axis, one / number, zero, zero)
        case "add": return Affine(data, axis, one, zero, number)
    return Affine(data, axis, one, number, zero)


def _channelwise(constant: Array, shape: tuple[int, ...], axis: int) -> Array | None:
    """The constant as a vector when it has one number, or one for each place along the axis."""
    if constant.dtype != np.float32 or len(shape) < 2 or constant.ndim > len(shape):
        return None
    extents = (1,) * (len(shape) - constant.ndim) + constant.shape
    others = [extent for place, extent in enumerate(extents) if place != axis]
    fits = extents[axis] in (1, shape[axis]) and set(others) <= {1}
    return constant.reshape(-1) if fits else None


def fold(node: Node, affine: Affine, tensors: dict[str, Array], names: Names, shared: bool,
         rank: int) -> Node | None:
    """The one operator with weights that equals the two, or None. Its numbers are added to
    `tensors`. `shared` says whether other nodes read the weight, `rank` is that of the data.
    """
    if node.op not in WEIGHTED or node.inputs[1] not in tensors:
        return None
    weight = node.inputs[1]
    if node.op in MATRICES and (tensors[weight].ndim != 2 or affine.axis != rank - 1):
        return None
    if not has_constants(node, tensors):
        return None
    count = outputs(node, tensors[weight])
    before = vector(node, tensors)
    gain = np.broadcast_to(affine.gain, (count,))
    bias = (affine.bias + (before - affine.mean) * affine.gain).astype(np.float32)
    folded = scaled(node, tensors[weight], outward=gain)
    kept = names.fresh(weight) if shared else weight
    added = names.fresh(f"{node.name}.bias")
    tensors[kept], tensors[added] = folded, np.broadcast_to(bias, (count,)).copy()
    return with_bias(replace(node, inputs=(node.inputs[0], kept, added)), rank)


def with_bias(node: Node, rank: int) -> Node:
    """The node; a product of two matrices as `dense`, which can have a bias as a third input."""
    if node.op != "matmul" or rank != 2:
        return node
    return replace(node, op="dense", attrs={"trans_b": 0})


def as_convolution(node: Node, affine: Affine, tensors: dict[str, Array], names: Names,
                   types: Types) -> Node | None:
    """The depthwise 1x1 convolution that equals the node; None where its input is no image."""
    shape = types[affine.source].shape
    if len(shape) != 4:
        return None
    gain, offset = (np.broadcast_to(coefficient, (shape[1],)).astype(np.float32) for coefficient in
                    (affine.gain, affine.bias - affine.mean * affine.gain))
    weight, bias = (names.fresh(f"{node.name}.{role}") for role in ("weight", "bias"))
    tensors[weight], tensors[bias] = gain.reshape(-1, 1, 1, 1).copy(), offset.copy()
    return pixel_convolution(node.name, (affine.source, weight, bias), node.outputs, shape[1])
