"""Operations of ML programs over windows, products of matrices, and resizing."""

import numpy as np

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.core_ml.quantization import ScaledSteps
from compiler.frontend.core_ml.registry import operation


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


def _operands(op) -> list[str]:
    return [op.value(name) for name in ("x", "weight", "bias") if name != "bias" or op.has(name)]


@operation("conv")
def conv(op):
    kernel = op.shape("weight")[2:]
    rank = len(kernel)
    return op.node("Conv", _operands(op), kernel_shape=kernel,
                   strides=op.integers("strides", [1] * rank),
                   dilations=op.integers("dilations", [1] * rank), group=op.integer("groups", 1),
                   **padding(op, rank))


@operation("conv_transpose")
def conv_transpose(op):
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
    return op.node("ConvTranspose", _operands(op), kernel_shape=kernel, strides=strides, pads=pads,
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
    bias = np.asarray(op.known("bias", np.zeros(op.shape("weight")[0])), np.float32)
    if op.rank("x") == 2:
        return op.node("Gemm", [op.value("x"), op.value("weight"), op.write.constant(bias)],
                       transB=1)
    product = op.node("MatMul", [op.value("x"), _turned(op)])
    return op.node("Add", [product, op.write.constant(bias)])


def _turned(op) -> str:
    """The transposed weight."""
    weight = op.constant("weight")
    if isinstance(weight, ScaledSteps):
        return op.program.dequantized(weight.turned)
    return op.write.constant(np.ascontiguousarray(np.asarray(weight, np.float32).T))


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
