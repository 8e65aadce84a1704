"""The layers of Core ML's neural networks. Images lie in NCHW, as in ONNX."""

from typing import Any

import numpy as np

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.core_ml.registry import layer
from compiler.frontend.core_ml.weights import decoded

END = np.iinfo(np.int64).max
UNARY = {"sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
         "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "exp": "Exp", "erf": "Erf",
         "floor": "Floor", "ceil": "Ceil", "round": "Round", "sign": "Sign"}
BINARY = {"add": "Add", "multiply": "Mul", "max": "Max", "min": "Min", "average": "Mean",
          "addBroadcastable": "Add", "subtractBroadcastable": "Sub",
          "multiplyBroadcastable": "Mul", "divideBroadcastable": "Div",
          "powBroadcastable": "Pow", "maxBroadcastable": "Max", "minBroadcastable": "Min"}
REDUCTIONS = {f"reduce{name}": f"Reduce{name}" for name in (
    "Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "SumSquare", "LogSumExp")}
IMAGE = (-2, -1)


def _amounts(borders):
    """Elements before and behind each of the last axes."""
    return [(amount.startEdgeSize, amount.endEdgeSize) for amount in borders.borderAmounts]


def _padding(told):
    """ONNX's attributes for the padding of a window."""
    match told.WhichOneof(next(one.name for one in told.DESCRIPTOR.oneofs)):
        case "valid":
            sides = _amounts(told.valid.paddingAmounts) or [(0, 0), (0, 0)]
            return {"pads": [before for before, _ in sides] + [after for _, after in sides]}
        case "same":
            return {"auto_pad": "SAME_LOWER" if told.same.asymmetryMode else "SAME_UPPER"}
    raise NodeRefused("its padding must be valid or same")


@layer("convolution")
def convolution(t):
    told = t.told
    kernel = list(told.kernelSize) or [3, 3]
    groups, channels = max(told.nGroups, 1), told.kernelChannels
    if len(t.proto.input) > 1:
        raise NodeRefused("its weights must be constants")
    how = {"kernel_shape": kernel, "strides": list(told.stride) or [1, 1],
           "dilations": list(told.dilationFactor) or [1, 1], "group": groups, **_padding(told)}
    shape = (channels, told.outputChannels // groups) if told.isDeconvolution else (
        told.outputChannels, channels)
    weights = t.constant(told.weights, *shape, *kernel, outputs=int(told.isDeconvolution))
    inputs = [t.value(), weights]
    if told.hasBias:
        inputs.append(t.constant(told.bias, told.outputChannels))
    if told.isDeconvolution and "auto_pad" in how:
        raise NodeRefused("a transposed one must have its padding told")
    if told.isDeconvolution and told.outputShape:
        if any(how.pop("pads")):
            raise NodeRefused("a transposed one must have a padding or an output's shape, not both")
        how["output_shape"] = list(told.outputShape)
    return t.node("ConvTranspose" if told.isDeconvolution else "Conv", inputs, **how)


@layer("pooling")
def pooling(t):
    told = t.told
    kind = type(told).PoolingType.Name(told.type)
    names = {"MAX": "MaxPool", "AVERAGE": "AveragePool"}
    if kind not in names:
        raise NodeRefused("its type must be MAX or AVERAGE, not L2")
    if told.globalPooling:
        return t.node(f"Global{names[kind]}", [t.value()])
    how: dict[str, Any] = {"kernel_shape": list(told.kernelSize) or [3, 3],
                           "strides": list(told.stride) or [1, 1]}
    if told.HasField("includeLastPixel"):
        pads = list(told.includeLastPixel.paddingAmounts) or [0, 0]
        how |= {"pads": [*pads, *pads], "ceil_mode": 1}
    else:
        how |= _padding(told)
    if kind == "AVERAGE":
        how["count_include_pad"] = int(not told.avgPoolExcludePadding)
    return t.node(names[kind], [t.value()], **how)


@layer("activation")
def activation(t):
    kind, x = t.told.WhichOneof("NonlinearityType"), t.value()
    told = getattr(t.told, kind)
    plain = {"ReLU": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "softsign": "Softsign",
             "softplus": "Softplus"}
    if kind in plain:
        return t.node(plain[kind], [x])
    match kind:
        case "linear": return _line(t, x, told.alpha, told.beta)
        case "leakyReLU": return t.node("LeakyRelu", [x], alpha=told.alpha)
        case "ELU": return t.node("Elu", [x], alpha=told.alpha)
        case "sigmoidHard":
            return t.node("HardSigmoid", [x], alpha=told.alpha, beta=told.beta)
        case "thresholdedReLU":
            kept = t.node("GreaterOrEqual", [x, t.scalar(told.alpha)])
            return t.node("Where", [kept, x, t.scalar(0)])
        case "scaledTanh":
            inner = t.node("Tanh", [_line(t, x, told.beta, 0)])
            return _line(t, inner, told.alpha, 0)
        case "PReLU":
            return t.node("PRelu", [x, t.constant(told.alpha, -1, 1, 1)])
    raise NodeRefused(f"activation {kind} is not supported")


def _line(t, x, factor, offset):
    made = x if factor == 1 else t.node("Mul", [x, t.scalar(factor)])
    return made if offset == 0 and made != x else t.node("Add", [made, t.scalar(offset)])


@layer("batchnorm")
def batchnorm(t):
    told, count = t.told, t.told.channels
    gamma, beta = t.constant(told.gamma, count), t.constant(told.beta, count)
    if told.instanceNormalization:
        return t.node("InstanceNormalization", [t.value(), gamma, beta], epsilon=told.epsilon)
    return t.node("BatchNormalization", [t.value(), gamma, beta, t.constant(told.mean, count),
                                         t.constant(told.variance, count)], epsilon=told.epsilon)


@layer("innerProduct")
def inner_product(t):
    told = t.told
    weights = decoded(told.weights, (told.outputChannels, told.inputChannels))
    made = t.node("MatMul", [t.value(), t.write.constant(np.ascontiguousarray(weights.T))])
    return t.node("Add", [made, t.constant(told.bias, told.outputChannels)]
                  ) if told.hasBias else made


@layer("batchedMatmul")
def batched_matmul(t):
    told, sides = t.told, []
    if len(t.proto.input) == 1:
        weights = t.constant(told.weights, told.weightMatrixFirstDimension,
                             told.weightMatrixSecondDimension)
        made = t.node("MatMul", [t.value(), weights])
        return t.node("Add", [made, t.constant(told.bias, told.weightMatrixSecondDimension)]
                      ) if told.hasBias else made
    for place, turned in enumerate((told.transposeA, told.transposeB)):
        sides.append(t.node("Einsum", [t.value(place)], equation="...ij->...ji") if turned
                     else t.value(place))
    return t.node("MatMul", sides)


@layer(*BINARY)
def binary(t):
    values = t.values()
    if len(values) == 1:
        if t.kind not in ("add", "multiply"):
            raise NodeRefused("it must have two inputs")
        values.append(t.scalar(t.told.alpha))
    return t.node(BINARY[t.kind], values)


@layer(*UNARY)
def unary(t):
    return t.node(UNARY[t.kind], [t.value()])


@layer("unary")
def function_of_scaled(t):
    told = t.told
    kind = type(told).Operation.Name(told.type)
    x = _line(t, t.value(), told.scale, told.shift) if (told.scale, told.shift) != (1, 0) \
        else t.value()
    match kind:
        case "SQRT" | "EXP" | "ABS": return t.node(kind.title(), [x])
        case "LOG": return t.node("Log", [t.node("Max", [x, t.scalar(told.epsilon)])])
        case "POWER": return t.node("Pow", [x, t.scalar(told.alpha)])
        case "THRESHOLD": return t.node("Max", [x, t.scalar(told.alpha)])
        case "INVERSE" | "RSQRT":
            x = t.node("Add", [x, t.scalar(told.epsilon)])
            return t.node("Reciprocal", [t.node("Sqrt", [x]) if kind == "RSQRT" else x])
    raise NodeRefused(f"function {kind} is not supported")


@layer("gelu")
def gelu(t):
    mode, x = type(t.told).GeluMode.Name(t.told.mode), t.value()
    if mode == "SIGMOID_APPROXIMATION":
        return t.node("Mul", [x, t.node("Sigmoid", [_line(t, x, 1.702, 0)])])
    return t.node("Gelu", [x], approximate="none" if mode == "EXACT" else "tanh")


@layer("clip")
def clip(t):
    return t.node("Clip", [t.value(), t.scalar(t.told.minVal), t.scalar(t.told.maxVal)])


@layer("softmax", "softmaxND")
def softmax(t):
    return t.node("Softmax", [t.value()], axis=t.told.axis if t.kind == "softmaxND" else -3)


@layer("mvn")
def mvn(t):
    """Each image, or all channels together, less their mean and over their deviation."""
    told, x = t.told, t.value()
    axes = t.write.integers(*((-3, *IMAGE) if told.acrossChannels else IMAGE))
    centred = t.node("Sub", [x, t.node("ReduceMean", [x, axes], keepdims=1)])
    if not told.normalizeVariance:
        return centred
    variance = t.node("ReduceMean", [t.node("Mul", [centred, centred]), axes], keepdims=1)
    root = t.node("Sqrt", [t.node("Add", [variance, t.scalar(told.epsilon)])])
    return t.node("Div", [centred, root])


@layer("scale", "bias")
def scale(t):
    told, made = t.told, t.value()
    if t.kind == "bias":
        return t.node("Add", [made, t.constant(told.bias, *told.shape)])
    made = t.node("Mul", [made, t.constant(told.scale, *told.shapeScale)])
    return t.node("Add", [made, t.constant(told.bias, *told.shapeBias)]) if told.hasBias else made


@layer("layerNormalization")
def layer_normalization(t):
    shape = tuple(t.told.normalizedShape)
    return t.node("LayerNormalization", [t.value(), t.constant(t.told.gamma, *shape),
                                         t.constant(t.told.beta, *shape)],
                  axis=-len(shape), epsilon=t.told.eps)


@layer("lrn")
def lrn(t):
    told = t.told
    return t.node("LRN", [t.value()], size=told.localSize, alpha=told.alpha, beta=told.beta,
                  bias=told.k)


@layer("loadConstantND", "loadConstant")
def load_constant(t):
    return t.constant(t.told.data, *t.told.shape)


# ---- movement ------------------------------------------------------------------------------------

@layer("concat", "concatND")
def concat(t):
    if t.kind == "concat" and t.told.sequenceConcat:
        raise NodeRefused("it must join channels, not sequences")
    if t.kind == "concatND" and t.told.interleave:
        raise NodeRefused("its parts must follow each other, not interleave")
    return t.node("Concat", t.values(), axis=t.told.axis if t.kind == "concatND" else -3)


@layer("stack")
def stack(t):
    axis = t.told.axis
    return t.node("Concat", [t.node("Unsqueeze", [value, t.write.integers(axis)])
                             for value in t.values()], axis=axis)


@layer("splitND")
def split(t):
    told, count = t.told, len(t.proto.output)
    sizes = [t.write.integers(*told.splitSizes)] if told.splitSizes else []
    how = {} if sizes else {"num_outputs": count}
    return t.write.several("Split", [t.value(), *sizes], count, axis=told.axis, **how)


@layer("reshapeStatic")
def reshape(t):
    return t.node("Reshape", [t.value(), t.write.integers(*t.told.targetShape)])


@layer("flattenTo2D")
def flatten(t):
    return t.node("Flatten", [t.value()], axis=t.told.axis)


@layer("transpose")
def transpose(t):
    return t.node("Transpose", [t.value()], perm=[axis % len(t.told.axes) for axis in t.told.axes])


@layer("expandDims", "squeeze")
def axes_of_one(t):
    if t.kind == "squeeze" and t.told.squeezeAll:
        return t.node("Squeeze", [t.value()])
    return t.node("Squeeze" if t.kind == "squeeze" else "Unsqueeze",
                  [t.value(), t.write.integers(*t.told.axes)])


@layer("sliceStatic")
def slice_(t):
    told = t.told
    begins, ends, steps = (list(side) for side in (told.beginIds, told.endIds, told.strides))
    gone = [axis for axis, bit in enumerate(told.squeezeMasks) if bit]
    for axis in range(len(begins)):
        if axis in gone:
            ends[axis], steps[axis] = begins[axis] + 1 if begins[axis] != -1 else END, 1
            continue
        if told.beginMasks[axis]:
            begins[axis] = 0 if steps[axis] > 0 else END
        if told.endMasks[axis]:
            ends[axis] = END if steps[axis] > 0 else -END - 1
    made = t.node("Slice", [t.value(), t.write.integers(*begins), t.write.integers(*ends),
                            t.write.integers(*range(len(begins))), t.write.integers(*steps)])
    return t.node("Squeeze", [made, t.write.integers(*gone)]) if gone else made


@layer("padding")
def padding(t):
    told = t.told
    kind = told.WhichOneof("PaddingType") or "constant"
    mode = {"constant": "constant", "reflection": "reflect", "replication": "edge"}[kind]
    sides = _amounts(told.paddingAmounts)
    pads = t.write.integers(*(before for before, _ in sides), *(after for _, after in sides))
    value = [t.scalar(told.constant.value)] if mode == "constant" else [""]
    return t.node("Pad", [t.value(), pads, *value, t.write.integers(*IMAGE)], mode=mode)


@layer("crop")
def crop(t):
    if len(t.proto.input) > 1:
        raise NodeRefused("it must have one input")
    sides = _amounts(t.told.cropAmounts)
    ends = [-after if after else END for _, after in sides]
    return t.node("Slice", [t.value(), t.write.integers(*(before for before, _ in sides)),
                            t.write.integers(*ends), t.write.integers(*IMAGE)])


@layer("upsample")
def upsample(t):
    told = t.told
    scales = list(told.fractionalScalingFactor) or list(told.scalingFactor) or [1, 1]
    inputs = [t.value(), "", t.write.constant(np.array(scales, np.float32))]
    if type(told).InterpolationMode.Name(told.mode) == "NN":
        return t.node("Resize", inputs, axes=(2, 3), mode="nearest", nearest_mode="floor",
                      coordinate_transformation_mode="asymmetric")
    places = {"ALIGN_CORNERS_TRUE": "align_corners", "ALIGN_CORNERS_FALSE": "half_pixel"}
    mode = type(told).LinearUpsampleMode.Name(told.linearUpsampleMode)
    if mode not in places:
        raise NodeRefused("linear upsampling must say whether corners are aligned")
    return t.node("Resize", inputs, axes=(2, 3), mode="linear",
                  coordinate_transformation_mode=places[mode])


@layer("reorganizeData")
def reorganize(t):
    kind = type(t.told).ReorganizationType.Name(t.told.mode)
    if kind == "SPACE_TO_DEPTH":
        return t.node("SpaceToDepth", [t.value()], blocksize=t.told.blockSize)
    return t.node("DepthToSpace", [t.value()], blocksize=t.told.blockSize,
                  mode="CRD" if kind == "PIXEL_SHUFFLE" else "DCR")


@layer(*REDUCTIONS)
def reduction(t):
    told = t.told
    axes = [] if told.reduceAll or not told.axes else [t.write.integers(*told.axes)]
    return t.node(REDUCTIONS[t.kind], [t.value(), *axes], keepdims=int(told.keepDims))
