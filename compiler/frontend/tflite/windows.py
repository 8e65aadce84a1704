"""Operators that compute sums and maxima over windows, and products of matrices."""

import numpy as np

from compiler.frontend.tflite.registry import operator
from compiler.frontend.tflite.elementwise import activated
from compiler.frontend.building.values import NodeRefused

PADDINGS = ("SAME_UPPER", "VALID")


@operator("CONV_2D")
def conv_2d(c, op):
    weights = op.input(1)
    group = c.tensor(op.input(0)).shape[3] // max(c.tensor(weights).shape[3], 1)
    _convolution(c, op, (0, 3, 1, 2), group)


@operator("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(c, op):
    _convolution(c, op, (3, 0, 1, 2), c.tensor(op.input(0)).shape[3])


def _convolution(c, op, perm, group):
    x, weights, target = op.input(0), op.input(1), op.outputs[0]
    blocks = c.dilated.get(x)
    how = {"auto_pad": PADDINGS[op.option("Padding")],
           "dilations": [op.option("DilationHFactor", 1), op.option("DilationWFactor", 1)],
           "strides": [op.option("StrideH"), op.option("StrideW")]}
    if blocks is not None:
        how = {"pads": blocks.pads, "dilations": blocks.block, "strides": [1, 1]}
        x, c.dilated[target] = blocks.image, blocks
    inputs = [c.real(x, True), c.weights(weights, perm)]
    if op.input(2) >= 0:
        inputs.append(c.bias(op.input(2)))
    made = c.write.node("Conv", inputs, kernel_shape=c.tensor(weights).shape[1:3], group=group,
                        **how)
    c.define(target, activated(c, op, made), True)


@operator("TRANSPOSE_CONV")
def transpose_conv(c, op):
    weights, x, target = op.input(1), op.input(2), op.outputs[0]
    if -1 in (*c.tensor(target).signature[1:3], *c.tensor(x).signature[1:3]):
        raise NodeRefused("its image must have no open dimension")
    kernel = c.tensor(weights).shape[1:3]
    strides = [op.option("StrideH"), op.option("StrideW")]
    inputs = [c.real(x, True), c.weights(weights, (3, 0, 1, 2))]
    if op.input(3) >= 0:
        inputs.append(c.bias(op.input(3)))
    pads, more = [], []
    for out, extent, window, stride in zip(c.tensor(target).shape[1:3], c.tensor(x).shape[1:3],
                                           kernel, strides):
        reach = (extent - 1) * stride + window
        pads.append(max(reach - out, 0))
        more.append(max(out - reach, 0))
    begin = [pad // 2 for pad in pads]
    made = c.write.node("ConvTranspose", inputs, kernel_shape=kernel, strides=strides,
                        output_padding=more,
                        pads=[*begin, *(pad - low for pad, low in zip(pads, begin))])
    c.define(target, activated(c, op, made), True)


@operator("CONV_3D")
def conv_3d(c, op):
    to_first, to_last = (0, 4, 1, 2, 3), (0, 2, 3, 4, 1)
    x = c.write.node("Transpose", [c.real(op.input(0))], perm=to_first)
    inputs = [x, c.weights(op.input(1), (4, 3, 0, 1, 2))]
    if op.input(2) >= 0:
        inputs.append(c.bias(op.input(2)))
    made = c.write.node(
        "Conv", inputs, kernel_shape=c.tensor(op.input(1)).shape[:3],
        strides=[op.option(f"Stride{axis}") for axis in "DHW"],
        dilations=[op.option(f"Dilation{axis}Factor", 1) for axis in "DHW"],
        auto_pad=PADDINGS[op.option("Padding")])
    made = activated(c, op, made)
    c.define(op.outputs[0], c.write.node("Transpose", [made], perm=to_last))


@operator("AVERAGE_POOL_2D", "MAX_POOL_2D")
def pool_2d(c, op):
    kind = "AveragePool" if op.code.startswith("AVERAGE") else "MaxPool"
    made = c.write.node(kind, [c.real(op.input(0), True)],
                        kernel_shape=[op.option("FilterHeight"), op.option("FilterWidth")],
                        strides=[op.option("StrideH"), op.option("StrideW")],
                        auto_pad=PADDINGS[op.option("Padding")])
    c.define(op.outputs[0], activated(c, op, made), True)


@operator("FULLY_CONNECTED")
def fully_connected(c, op):
    x, weights, target = op.input(0), op.input(1), op.outputs[0]
    if op.option("WeightsFormat"):
        raise NodeRefused("weights must be in the default format, not shuffled")
    columns = c.tensor(weights).shape[1]
    given = c.value(x)
    if c.rank(x) != 2 or c.tensor(x).shape[1] != columns:
        given = c.write.node("Reshape", [given, c.write.integers(-1, columns)])
    inputs = [c.dequantized(given, x) if c.is_quantized(x) else given, c.real(weights)]
    if op.input(2) >= 0:
        inputs.append(c.bias(op.input(2)))
    made = activated(c, op, c.write.node("Gemm", inputs, transB=1))
    if c.rank(target) == 2:
        c.define(target, made)
    else:
        c.define_reshaped(target, made)


@operator("BATCH_MATMUL")
def batch_matmul(c, op):
    sides = []
    for place, adjoint in zip(op.inputs, (op.option("AdjX"), op.option("AdjY"))):
        rank = c.rank(place)
        axes = [*range(rank - 2), rank - 1, rank - 2]
        sides.append(c.weights(place, axes) if adjoint else c.real(place))
    c.define(op.outputs[0], c.write.node("MatMul", sides))


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(c, op):
    """Gates are in the order input, forget, cell, output there, and i, o, f, c in ONNX."""
    left_out = {"peepholes": range(9, 12), "a projection": (16, 17),
                "normalized gates": range(20, 24)}
    for what, places in left_out.items():
        if any(op.input(place) >= 0 for place in places):
            raise NodeRefused(f"an LSTM must have no {what.removeprefix('a ')}")
    if c.is_quantized(op.input(0)) or op.input(1) < 0 or op.option("ProjClip"):
        raise NodeRefused("an LSTM must be of float32, with all four gates and no clipped "
                          "projection")
    order, activations = (0, 3, 1, 2), {1: "Relu", 4: "Tanh"}
    activation = op.option("FusedActivationFunction", 4)
    if activation not in activations:
        raise NodeRefused("the activation of an LSTM must be tanh or relu")
    arrays = {place: c.array(op.input(place)) for place in (*range(1, 9), *range(12, 16))}
    if any(array is None or array.dtype.kind != "f" for array in arrays.values()):
        raise NodeRefused("weights of an LSTM must be constants of float32")
    w, r, b = (np.concatenate([arrays[first + gate] for gate in order])[None]
               for first in (1, 5, 12))
    x = c.real(op.input(0))
    if not op.option("TimeMajor"):
        x = c.write.node("Transpose", [x], perm=(1, 0, 2))
    clip = {"clip": op.option("CellClip")} if op.option("CellClip") else {}
    function = activations[activation]
    made = c.write.several(
        "LSTM", [x, c.write.constant(w), c.write.constant(r),
                 c.write.constant(np.concatenate([b, np.zeros_like(b)], axis=1))], 1,
        hidden_size=r.shape[2], activations=["Sigmoid", function, function], **clip)[0]
    y = c.write.node("Squeeze", [made, c.write.integers(1)])
    c.define(op.outputs[0], y if op.option("TimeMajor") else c.write.node(
        "Transpose", [y], perm=(1, 0, 2)))
