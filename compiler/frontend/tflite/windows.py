"""Operators that compute sums and maxima over windows, and products of matrices."""

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.tflite import dynamic_products
from compiler.frontend.tflite.dynamic_products import is_dynamic
from compiler.frontend.tflite.elementwise import activated
from compiler.frontend.tflite.registry import operator

PADDINGS = ("SAME_UPPER", "VALID")


@operator("CONV_2D")
def conv_2d(c, op):
    weights, way = op.input(1), "delegate"
    if c.tensor(weights).kind == "INT4":            # LiteRT's own kernel, for each of both
        way = "symmetric" if c.scales(weights).per_tensor else "asymmetric"
    group = c.tensor(op.input(0)).shape[3] // max(c.tensor(weights).shape[3], 1)
    _convolution(c, op, (0, 3, 1, 2), group, way)


@operator("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(c, op):
    _convolution(c, op, (3, 0, 1, 2), c.tensor(op.input(0)).shape[3], "asymmetric")


def _convolution(c, op, perm, group, way):
    x, weights, target = op.input(0), op.input(1), op.outputs[0]
    blocks = c.dilated.get(x)
    how = {"auto_pad": PADDINGS[op.option("Padding")],
           "dilations": [op.option("DilationHFactor", 1), op.option("DilationWFactor", 1)],
           "strides": [op.option("StrideH"), op.option("StrideW")]}
    if blocks is not None:
        how = {"pads": blocks.pads, "dilations": blocks.block, "strides": [1, 1]}
        x, c.dilated[target] = blocks.image, blocks
    how |= {"kernel_shape": c.tensor(weights).shape[1:3], "group": group}
    if is_dynamic(c, x, weights) and c.array(weights) is not None:
        made = with_bias(c, dynamic_products.convolution(c, x, weights, perm, way, how),
                         op.input(2), (-1, 1, 1))
    else:
        inputs = [c.real(x, True), c.weights(weights, perm)]
        if op.input(2) >= 0:
            inputs.append(c.bias(op.input(2)))
        made = c.write.node("Conv", inputs, **how)
    c.define(target, activated(c, op, made), True)


def with_bias(c, made, bias, shape):
    """The sum of a result and a bias, if there is one, in a shape that broadcasts."""
    if bias < 0:
        return made
    each = c.write.node("Reshape", [c.bias(bias), c.write.integers(*shape)])
    return c.write.node("Add", [made, each])


@operator("TRANSPOSE_CONV")
def transpose_conv(c, op):
    weights, x, target = op.input(1), op.input(2), op.outputs[0]
    if -1 in (*c.tensor(target).signature[1:3], *c.tensor(x).signature[1:3]):
        raise NodeRefused("its image must have no open dimension")
    kernel = c.tensor(weights).shape[1:3]
    strides = [op.option("StrideH"), op.option("StrideW")]
    given = dynamic_products.image(c, x, "delegate") if is_dynamic(c, x, weights) else (
        c.real(x, True))
    inputs = [given, c.weights(weights, (3, 0, 1, 2))]
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
    if is_dynamic(c, x, weights):
        product = dynamic_products.matrices(c, given, weights, (1, 0), way_of(c, op, weights))
        made = with_bias(c, product, op.input(2), (-1,))
    else:
        inputs = [c.dequantized(given, x) if c.is_quantized(x) else given, c.real(weights)]
        if op.input(2) >= 0:
            inputs.append(c.bias(op.input(2)))
        made = c.write.node("Gemm", inputs, transB=1)
    made = activated(c, op, made)
    if c.rank(target) == 2:
        c.define(target, made)
    else:
        c.define_reshaped(target, made)


def way_of(c, op, weights):
    """The way in which a product of matrices quantizes activations. XNNPACK takes constant weights:
    of 4 bits only whole bytes of them, of blocks only those of 32 and multiples of that.
    """
    tensor, is_constant = c.tensor(weights), c.array(weights) is not None
    block = c.scales(weights).block
    if is_constant and not block % 32 and not (tensor.kind == "INT4" and tensor.shape[-1] % 2):
        return "delegate"
    return "asymmetric" if block or op.option("AsymmetricQuantizeInputs") else "symmetric"


@operator("BATCH_MATMUL")
def batch_matmul(c, op):
    (x, weights), sides = op.inputs, []
    axes = [_adjoint_axes(c, place, op.option(name)) for place, name in ((x, "AdjX"),
                                                                        (weights, "AdjY"))]
    for place, perm in zip(op.inputs, axes):
        is_turned = perm != sorted(perm)
        sides.append(c.weights(place, perm) if is_turned else c.real(place))
    if is_dynamic(c, x, weights) and _has_columns(c, weights, axes[1]):
        made = dynamic_products.matrices(c, sides[0], weights, axes[1], way_of(c, op, weights))
    else:
        made = c.write.node("MatMul", sides)
    c.define(op.outputs[0], made)


def _adjoint_axes(c, place, adjoint):
    rank = c.rank(place)
    return [*range(rank - 2), rank - 1, rank - 2] if adjoint else [*range(rank)]


def _has_columns(c, weights, perm):
    """True if the tensor has one scale, or one for each column once permuted."""
    given = c.scales(weights)
    return given.per_tensor or given.axis == perm[-1]
