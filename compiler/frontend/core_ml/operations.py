"""The operations of ML programs."""

import numpy as np
import onnx

from compiler.frontend.core_ml.registry import operation
from compiler.frontend.values import NodeRefused

UNARY = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "erf": "Erf", "exp": "Exp",
         "sqrt": "Sqrt", "abs": "Abs", "floor": "Floor", "ceil": "Ceil", "round": "Round",
         "sign": "Sign", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos",
         "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "atanh": "Atanh", "logical_not": "Not",
         "softplus": "Softplus", "softsign": "Softsign", "identity": "Identity"}
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "real_div": "Div", "pow": "Pow",
          "maximum": "Max", "minimum": "Min", "equal": "Equal", "less": "Less",
          "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual",
          "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
REDUCTIONS = {f"reduce_{name}": f"Reduce{op}" for name, op in (
    ("mean", "Mean"), ("sum", "Sum"), ("max", "Max"), ("min", "Min"), ("prod", "Prod"),
    ("l1_norm", "L1"), ("l2_norm", "L2"), ("sum_square", "SumSquare"), ("log_sum", "LogSum"),
    ("log_sum_exp", "LogSumExp"))}
CASTS = {"fp16": onnx.TensorProto.FLOAT, "fp32": onnx.TensorProto.FLOAT,
         "int32": onnx.TensorProto.INT32, "int16": onnx.TensorProto.INT16,
         "uint16": onnx.TensorProto.UINT16, "int8": onnx.TensorProto.INT8,
         "uint8": onnx.TensorProto.UINT8, "bool": onnx.TensorProto.BOOL}
END = np.iinfo(np.int64).max


# ---- element by element --------------------------------------------------------------------------

@operation(*UNARY)
def unary(op):
    return op.node(UNARY[op.type], [op.value("x")])


@operation(*BINARY)
def binary(op):
    return op.node(BINARY[op.type], [op.value("x"), op.value("y")])


@operation("not_equal")
def not_equal(op):
    return op.node("Not", [op.node("Equal", [op.value("x"), op.value("y")])])


@operation("floor_div")
def floor_div(op):
    return op.node("Floor", [op.node("Div", [op.value("x"), op.value("y")])])


@operation("square")
def square(op):
    return op.node("Mul", [op.value("x"), op.value("x")])


@operation("rsqrt", "inverse", "log")
def with_epsilon(op):
    x = op.node("Add", [op.value("x"), op.scalar(op.number(
        "epsilon", {"rsqrt": 1e-12, "inverse": 1e-4, "log": 1e-45}[op.type]))])
    if op.type == "log":
        return op.node("Log", [x])
    return op.node("Reciprocal", [op.node("Sqrt", [x]) if op.type == "rsqrt" else x])


@operation("relu6")
def relu6(op):
    return op.node("Clip", [op.value("x"), op.scalar(0), op.scalar(6)])


@operation("clip")
def clip(op):
    return op.node("Clip", [op.value("x"), op.scalar(op.number("alpha")),
                            op.scalar(op.number("beta"))])


@operation("leaky_relu")
def leaky_relu(op):
    return op.node("LeakyRelu", [op.value("x")], alpha=op.number("alpha", 0.01))


@operation("elu")
def elu(op):
    return op.node("Elu", [op.value("x")], alpha=op.number("alpha", 1.0))


@operation("prelu")
def prelu(op):
    slopes = np.asarray(op.known("alpha"), np.float32).reshape(-1, *[1] * (op.rank("x") - 2))
    return op.node("PRelu", [op.value("x"), op.write.constant(slopes)])


@operation("thresholded_relu")
def thresholded_relu(op):
    x = op.value("x")
    kept = op.node("GreaterOrEqual", [x, op.scalar(op.number("alpha", 1.0))])
    return op.node("Where", [kept, x, op.scalar(0)])


@operation("clamped_relu")
def clamped_relu(op):
    leaky = op.node("LeakyRelu", [op.value("x")], alpha=op.number("alpha"))
    return op.node("Min", [leaky, op.scalar(op.number("beta"))])


@operation("sigmoid_hard")
def sigmoid_hard(op):
    return op.node("HardSigmoid", [op.value("x")], alpha=op.number("alpha", 0.2),
                   beta=op.number("beta", 0.5))


@operation("scaled_tanh")
def scaled_tanh(op):
    inner = op.node("Mul", [op.value("x"), op.scalar(op.number("beta", 1.0))])
    return op.node("Mul", [op.node("Tanh", [inner]), op.scalar(op.number("alpha", 1.0))])


@operation("linear_activation")
def linear_activation(op):
    scaled = op.node("Mul", [op.value("x"), op.scalar(op.number("alpha"))])
    return op.node("Add", [scaled, op.scalar(op.number("beta", 0.0))])


@operation("silu")
def silu(op):
    x = op.value("x")
    return op.node("Mul", [x, op.node("Sigmoid", [x])])


@operation("gelu")
def gelu(op):
    mode, x = op.known("mode", "EXACT"), op.value("x")
    if mode == "SIGMOID_APPROXIMATION":
        inner = op.node("Mul", [x, op.scalar(1.702)])
        return op.node("Mul", [x, op.node("Sigmoid", [inner])])
    return op.node("Gelu", [x], approximate="none" if mode == "EXACT" else "tanh")


@operation("select")
def select(op):
    return op.node("Where", [op.value("cond"), op.value("a"), op.value("b")])


@operation("softmax")
def softmax(op):
    return op.node("Softmax", [op.value("x")], axis=op.integer("axis", -1))


@operation("cast")
def cast(op):
    dtype = op.known("dtype")
    if dtype not in CASTS:
        raise NodeRefused(f"its type must be one of {', '.join(CASTS)}, not {dtype}")
    return op.node("Cast", [op.value("x")], to=CASTS[dtype])


# ---- windows and products ------------------------------------------------------------------------

def padding(op, rank):
    """ONNX's attributes for a padding."""
    kind = op.known("pad_type", "valid")
    if kind == "custom":
        pads = op.integers("pad", [0] * 2 * rank)
        return {"pads": [*pads[0::2], *pads[1::2]]}
    auto = {"valid": "VALID", "same": "SAME_UPPER", "same_lower": "SAME_LOWER"}
    if kind not in auto:
        raise NodeRefused(f"its padding must be valid, same or custom, not {kind}")
    return {"auto_pad": auto[kind]}


@operation("conv")
def conv(op):
    inputs = [op.value("x"), op.value("weight")]
    if op.has("bias"):
        inputs.append(op.value("bias"))
    kernel = op.shape("weight")[2:]
    rank = len(kernel)
    return op.node("Conv", inputs, kernel_shape=kernel, strides=op.integers("strides", [1] * rank),
                   dilations=op.integers("dilations", [1] * rank), group=op.integer("groups", 1),
                   **padding(op, rank))


@operation("conv_transpose")
def conv_transpose(op):
    inputs = [op.value("x"), op.value("weight")]
    if op.has("bias"):
        inputs.append(op.value("bias"))
    kernel = op.shape("weight")[2:]
    rank = len(kernel)
    strides, dilations = (op.integers(name, [1] * rank) for name in ("strides", "dilations"))
    told = padding(op, rank)
    pads = told.get("pads", [0] * 2 * rank)
    if told.get("auto_pad", "VALID") != "VALID":
        raise NodeRefused("its padding must be valid or custom, not same")
    more = [0] * rank
    if op.has("output_shape"):
        reach = [(extent - 1) * stride + (window - 1) * dilation + 1 - before - after
                 for extent, stride, window, dilation, before, after in zip(
                     op.shape("x")[2:], strides, kernel, dilations, pads[:rank], pads[rank:])]
        wanted = op.integers("output_shape")[-rank:]
        more = [out - made for out, made in zip(wanted, reach)]
        if min(more) < 0:
            raise NodeRefused(f"its output must have at least {reach} elements, not {wanted}")
    return op.node("ConvTranspose", inputs, kernel_shape=kernel, strides=strides, pads=pads,
                   dilations=dilations, output_padding=more, group=op.integer("groups", 1))


@operation("max_pool", "avg_pool")
def pool(op):
    kernel = op.integers("kernel_sizes")
    rank = len(kernel)
    name, more = "MaxPool", {}
    if op.type == "avg_pool":
        name, more = "AveragePool", {
            "count_include_pad": int(not op.flag("exclude_padding_from_average"))}
    return op.node(name, [op.value("x")], kernel_shape=kernel,
                   strides=op.integers("strides", [1] * rank),
                   ceil_mode=int(op.flag("ceil_mode")), **padding(op, rank), **more)


@operation("linear")
def linear(op):
    weight = np.asarray(op.known("weight"), np.float32)
    bias = np.asarray(op.known("bias", np.zeros(len(weight))), np.float32)
    if op.rank("x") == 2:
        return op.node("Gemm", [op.value("x"), op.write.constant(weight),
                                op.write.constant(bias)], transB=1)
    product = op.node("MatMul", [op.value("x"), op.write.constant(
        np.ascontiguousarray(weight.T))])
    return op.node("Add", [product, op.write.constant(bias)])


@operation("matmul")
def matmul(op):
    sides = []
    for name in ("x", "y"):
        side, rank = op.value(name), op.rank(name)
        if op.flag(f"transpose_{name}"):
            side = op.node("Transpose", [side], perm=[*range(rank - 2), rank - 1, rank - 2])
        sides.append(side)
    return op.node("MatMul", sides)


@operation("einsum")
def einsum(op):
    return op.node("Einsum", op.values("values"), equation=op.known("equation"))


@operation("scaled_dot_product_attention")
def attention(op):
    """softmax(q k' / root of the width + mask) v."""
    rank, width = op.rank("key"), op.shape("query")[-1]
    key = op.node("Transpose", [op.value("key")], perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = op.node("Mul", [op.node("MatMul", [op.value("query"), key]),
                             op.scalar(width ** -0.5)])
    if op.has("attn_mask"):
        mask = op.value("attn_mask")
        if op.program.types[op.names("attn_mask")[0]] == np.bool_:
            mask = op.node("Where", [mask, op.scalar(0), op.scalar(-np.inf)])
        scores = op.node("Add", [scores, mask])
    return op.node("MatMul", [op.node("Softmax", [scores], axis=-1), op.value("value")])


# ---- norms and reductions ------------------------------------------------------------------------

def per_channel(op, name, default, count):
    array = np.asarray(op.known(name, np.full(count, default)), np.float32)
    return op.write.constant(array)


@operation("batch_norm")
def batch_norm(op):
    count = op.shape("mean")[0]
    return op.node("BatchNormalization", [
        op.value("x"), per_channel(op, "gamma", 1, count), per_channel(op, "beta", 0, count),
        per_channel(op, "mean", 0, count), per_channel(op, "variance", 1, count)],
        epsilon=op.number("epsilon", 1e-5))


@operation("instance_norm")
def instance_norm(op):
    count = op.shape("x")[1]
    return op.node("InstanceNormalization", [
        op.value("x"), per_channel(op, "gamma", 1, count), per_channel(op, "beta", 0, count)],
        epsilon=op.number("epsilon", 1e-5))


@operation("layer_norm")
def layer_norm(op):
    rank = op.rank("x")
    axes = sorted(axis % rank for axis in op.integers("axes", list(range(rank))))
    if axes != list(range(rank - len(axes), rank)):
        raise NodeRefused(f"its axes must be the last ones, not {axes}")
    shape = op.shape("x")[axes[0]:]
    gamma, beta = (op.write.constant(np.asarray(
        op.known(name, np.full(shape, default)), np.float32)) for name, default in (
            ("gamma", 1), ("beta", 0)))
    return op.node("LayerNormalization", [op.value("x"), gamma, beta], axis=axes[0] - rank,
                   epsilon=op.number("epsilon", 1e-5))


@operation("local_response_norm")
def local_response_norm(op):
    return op.node("LRN", [op.value("x")], size=op.integer("size"), alpha=op.number("alpha", 1e-4),
                   beta=op.number("beta", 0.75), bias=op.number("k", 1.0))


@operation(*REDUCTIONS)
def reduction(op):
    inputs = [op.value("x")]
    if op.has("axes"):
        inputs.append(op.write.integers(*op.integers("axes")))
    return op.node(REDUCTIONS[op.type], inputs, keepdims=int(op.flag("keep_dims")))


@operation("reduce_argmax", "reduce_argmin")
def argument(op):
    made = op.node("ArgMax" if op.type.endswith("max") else "ArgMin", [op.value("x")],
                   axis=op.integer("axis", -1), keepdims=int(op.flag("keep_dims")))
    return op.node("Cast", [made], to=onnx.TensorProto.INT32)


@operation("topk")
def topk(op):
    values, places = op.write.several(
        "TopK", [op.value("x"), op.write.integers(op.integer("k", 1))], 2,
        axis=op.integer("axis", -1), largest=int(not op.flag("ascending")))
    return [values, op.node("Cast", [places], to=onnx.TensorProto.INT32)]


@operation("cumsum")
def cumsum(op):
    axis = op.write.constant(np.int64(op.integer("axis", 0)))
    return op.node("CumSum", [op.value("x"), axis], exclusive=int(op.flag("exclusive")),
                   reverse=int(op.flag("reverse")))


# ---- movement ------------------------------------------------------------------------------------

@operation("concat")
def concat(op):
    if op.flag("interleave"):
        raise NodeRefused("its parts must follow each other, not interleave")
    return op.node("Concat", op.values("values"), axis=op.integer("axis"))


@operation("stack")
def stack(op):
    axis = op.integer("axis")
    return op.node("Concat", [op.node("Unsqueeze", [value, op.write.integers(axis)])
                              for value in op.values("values")], axis=axis)


@operation("split")
def split(op):
    axis, count = op.integer("axis"), len(op.outputs)
    inputs = [op.value("x")]
    if op.has("split_sizes"):
        return op.write.several("Split", [*inputs, op.write.integers(
            *op.integers("split_sizes"))], count, axis=axis)
    return op.write.several("Split", inputs, count, axis=axis, num_outputs=count)


@operation("reshape")
def reshape(op):
    shape = op.names("shape")[0]
    if shape in op.program.constants:
        return op.node("Reshape", [op.value("x"), op.write.integers(*op.integers("shape"))])
    return op.node("Reshape", [op.value("x"), op.node("Cast", [op.value("shape")],
                                                      to=onnx.TensorProto.INT64)])


@operation("squeeze")
def squeeze(op):
    inputs = [op.value("x")]
    if op.has("axes"):
        inputs.append(op.write.integers(*op.integers("axes")))
    return op.node("Squeeze", inputs)


@operation("expand_dims")
def expand_dims(op):
    return op.node("Unsqueeze", [op.value("x"), op.write.integers(*op.integers("axes"))])


@operation("flatten2d")
def flatten(op):
    return op.node("Flatten", [op.value("x")], axis=op.integer("axis", 1))


@operation("transpose")
def transpose(op):
    rank = op.rank("x")
    return op.node("Transpose", [op.value("x")],
                   perm=[axis % rank for axis in op.integers("perm")])


@operation("slice_by_index")
def slice_by_index(op):
    begin, end = op.integers("begin"), op.integers("end")
    rank = len(begin)
    steps = op.integers("stride", [1] * rank)
    masks = {name: [bool(bit) for bit in np.asarray(op.known(f"{name}_mask", [False] * rank))]
             for name in ("begin", "end", "squeeze")}
    for axis in range(rank):
        forward = steps[axis] > 0
        if masks["squeeze"][axis]:
            end[axis] = begin[axis] + 1 if begin[axis] != -1 else END
            steps[axis] = 1
            continue
        if masks["begin"][axis]:
            begin[axis] = 0 if forward else END
        if masks["end"][axis]:
            end[axis] = END if forward else -END - 1
    made = op.node("Slice", [op.value("x"), op.write.integers(*begin), op.write.integers(*end),
                             op.write.integers(*range(rank)), op.write.integers(*steps)])
    gone = [axis for axis in range(rank) if masks["squeeze"][axis]]
    return op.node("Squeeze", [made, op.write.integers(*gone)]) if gone else made


@operation("slice_by_size")
def slice_by_size(op):
    begin, size = op.integers("begin"), op.integers("size")
    ends = [END if extent == -1 else start + extent for start, extent in zip(begin, size)]
    return op.node("Slice", [op.value("x"), op.write.integers(*begin), op.write.integers(*ends)])


@operation("pad")
def pad(op):
    mode = op.known("mode", "constant")
    pads = op.integers("pad")
    pads = [0] * (2 * op.rank("x") - len(pads)) + pads
    if mode not in ("constant", "reflect", "replicate"):
        raise NodeRefused(f"its mode must be constant, reflect or replicate, not {mode}")
    inputs = [op.value("x"), op.write.integers(*pads[0::2], *pads[1::2])]
    if mode == "constant":
        inputs.append(op.scalar(op.number("constant_val", 0.0), "x"))
    return op.node("Pad", inputs, mode="edge" if mode == "replicate" else mode)


@operation("crop")
def crop(op):
    sides = [op.integers(f"crop_{name}") for name in ("height", "width")]
    ends = [-after if after else END for _, after in sides]
    return op.node("Slice", [op.value("x"), op.write.integers(*(before for before, _ in sides)),
                             op.write.integers(*ends), op.write.integers(-2, -1)])


@operation("gather")
def gather(op):
    if op.known("batch_dims", 0):
        raise NodeRefused("its number of batch dimensions must be 0")
    return op.node("Gather", [op.value("x"), op.value("indices")], axis=op.integer("axis", 0))


@operation("gather_along_axis")
def gather_along_axis(op):
    return op.node("GatherElements", [op.value("x"), op.value("indices")],
                   axis=op.integer("axis", 0))


@operation("tile")
def tile(op):
    return op.node("Tile", [op.value("x"), op.write.integers(*op.integers("reps"))])


@operation("reverse")
def reverse(op):
    axes = op.integers("axes", list(range(op.rank("x"))))
    count = len(axes)
    return op.node("Slice", [op.value("x"), op.write.integers(*[-1] * count), op.write.integers(
        *[-END - 1] * count), op.write.integers(*axes), op.write.integers(*[-1] * count)])


@operation("depth_to_space", "space_to_depth", "pixel_shuffle")
def depth_and_space(op):
    if op.type == "space_to_depth":
        return op.node("SpaceToDepth", [op.value("x")], blocksize=op.integer("block_size"))
    if op.type == "pixel_shuffle":
        return op.node("DepthToSpace", [op.value("x")], blocksize=op.integer("upscale_factor"),
                       mode="CRD")
    return op.node("DepthToSpace", [op.value("x")], blocksize=op.integer("block_size"))


# ---- resizing ------------------------------------------------------------------------------------

@operation("upsample_nearest_neighbor", "upsample_bilinear")
def upsample(op):
    scales = [op.number(f"scale_factor_{name}", 1.0) for name in ("height", "width")]
    inputs = [op.value("x"), "", op.write.constant(np.array(scales, np.float32))]
    if op.type == "upsample_nearest_neighbor":
        return op.node("Resize", inputs, axes=(2, 3), mode="nearest", nearest_mode="floor",
                       coordinate_transformation_mode="asymmetric")
    corners = op.flag("align_corners", True)
    half = op.flag("half_pixel_centers", not corners)
    place = "align_corners" if corners else "half_pixel" if half else "asymmetric"
    return op.node("Resize", inputs, axes=(2, 3), mode="linear",
                   coordinate_transformation_mode=place)


@operation("resize_nearest_neighbor", "resize_bilinear")
def resize(op):
    sizes = [op.integer(f"target_size_{name}") for name in ("height", "width")]
    inputs = [op.value("x"), "", "", op.write.integers(*sizes)]
    if op.type == "resize_nearest_neighbor":
        return op.node("Resize", inputs, axes=(2, 3), mode="nearest", nearest_mode="floor",
                       coordinate_transformation_mode="asymmetric")
    places = {"ALIGN_CORNERS": "align_corners", "STRICT_ALIGN_CORNERS": "align_corners",
              "UNALIGN_CORNERS": "half_pixel"}
    mode = op.known("sampling_mode", "DEFAULT")
    if mode not in places:
        raise NodeRefused(f"its sampling mode must be one of {', '.join(places)}, not {mode}")
    return op.node("Resize", inputs, axes=(2, 3), mode="linear",
                   coordinate_transformation_mode=places[mode])


# ---- tensors of shapes and numbers ---------------------------------------------------------------

@operation("shape")
def shape(op):
    return op.node("Cast", [op.node("Shape", [op.value("x")])], to=onnx.TensorProto.INT32)


@operation("fill")
def fill(op):
    value = np.asarray(op.known("value", 0.0))
    return np.full(op.integers("shape"), value.reshape(()), value.dtype)


@operation("constexpr_affine_dequantize")
def affine_dequantize(op):
    data, axis = np.asarray(op.known("quantized_data")), op.integer("axis")
    shape = [-1 if place == axis else 1 for place in range(data.ndim)]
    scale, zero = (np.asarray(op.known(name)).astype(np.float32) for name in ("scale",
                                                                             "zero_point"))
    scale, zero = (array.reshape(shape) if array.ndim else array for array in (scale, zero))
    return (data.astype(np.float32) - zero) * scale


@operation("constexpr_cast")
def constant_cast(op):
    return np.asarray(op.known("source_val")).astype(np.float32)
