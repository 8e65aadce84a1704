"""Convolutions of images and of tensors with any number of axes.

`qconvtranspose2d` is a convolution of its input with strides - 1 pixels of `pad_value` between
neighbours and `pad_value` around, by the kernel turned by 180 degrees.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from compiler import te
from compiler.ops.families.affine import affine
from compiler.ops.records.planes import (are_planes, arrays_in_planes, check_factors, in_planes,
                                          of_planes)
from compiler.ops.families.requantization import (arrays_of_channels, check_padded, check_stored,
                                                  multipliers, of_channels, sums_of, wrapped)
from compiler.ops.records.windows import (check_dilations, check_numbers, check_steps,
                                           check_windows, image_axes, image_views, image_windows,
                                           kernel_axes, pixel_of, reach_of, views_of, windowed)
from compiler.ops.records.broadcasting import along
from compiler.ops.records.integer_forms import (Bounds, IntegerNode, QuantizedInputs, Stored,
                                                clamp_to, weighted)
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import (Array, Attributes, Convolved, Inputs, Kind, Numbers,
                                           Operator, Shapes)
from compiler.ops.records.rules import Types, need, need_arity, need_dtype, need_factors, need_rank
from compiler.ops.records.sums import kept, narrowed, sum_dtype
from compiler.ops.records.weights import CONVOLVED, TRANSPOSED
from compiler.te import Expr, Tensor

CHUNK_ELEMENTS = 1 << 24


# Types


def _conv2d_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2, 3)
    need_factors(node, types)
    return replace(convolved_type(node, types), dtype="float32")


def _convtranspose2d_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2, 3)
    need_dtype(node, types, "float32")
    x, w = _image_and_weight(node, types)
    group = node.attrs.get("group", 1)
    need(group > 0, node, f"group must be at least 1, not {group!r}")
    need(x.shape[1] == w.shape[0], node,
         f"input channels must equal the weight's {w.shape[0]}, not {x.shape[1]}")
    need(w.shape[0] % group == 0, node,
         f"input channels must be a multiple of the group {group}, not {w.shape[0]}")
    return _transposed_type(node, types, w.shape[1] * group)


def _qconv2d_type(node: Node, types: Types) -> TensorType:
    if are_planes(node):
        check_factors(node, types)
        check_stored(node, "pad_value", node.attrs["pad_value"], types[0].dtype)
        return of_planes(node, convolved_type(node, types), 1)
    return conv_type(node, types)


def conv_type(node: Node, types: Types) -> TensorType:
    """The type of a convolution of integers."""
    check_padded(node, types)
    return convolved_type(node, types)


def _qconvtranspose2d_type(node: Node, types: Types) -> TensorType:
    check_padded(node, types)
    x, w = _image_and_weight(node, types)
    _grouped(node, x, *w.shape[:2])
    return _transposed_type(node, types, w.shape[0])


def convolved_type(node: Node, types: Types) -> TensorType:
    """The type of a convolution; vectors (a bias, say) must have a number for each channel."""
    x, w = _image_and_weight(node, types)
    _grouped(node, x, *w.shape[:2])
    _vectors(node, types[2:], w.shape[0])
    extents = image_windows(node, x, w.shape[2:], check_dilations(node))
    return TensorType((x.shape[0], w.shape[0], *extents), x.dtype)


def _grouped(node: Node, x: TensorType, outputs: int, inputs: int) -> int:
    """The number of groups, which divides the outputs; each reads `inputs` channels."""
    group = node.attrs.get("group", 1)
    times = "" if group == 1 else f" in each of {group} groups"
    need(group > 0, node, f"group must be at least 1, not {group!r}")
    need(x.shape[1] == inputs * group, node,
         f"input channels must equal the weight's {inputs}{times}, not {x.shape[1]}")
    need(outputs % group == 0, node,
         f"output channels must be a multiple of the group {group}, not {outputs}")
    return group


def _image_and_weight(node: Node, types: Types) -> tuple[TensorType, TensorType]:
    """The first two inputs, both with four dimensions."""
    x, w = types[:2]
    need_rank(node, 0, x, 4)
    need_rank(node, 1, w, 4)
    return x, w


def _vectors(node: Node, types: Types, channels: int) -> None:
    for name, vector in zip(node.inputs[2:], types, strict=True):
        need(vector.shape == (channels,), node,
             f"input {name!r} must have shape ({channels},), not {vector.shape!r}")


def _transposed_type(node: Node, types: Types, channels: int) -> TensorType:
    """The type of a transposed convolution."""
    x, w = types[:2]
    _vectors(node, types[2:], channels)
    strides, pads = check_steps(node, w.shape[2:])
    more = node.attrs.get("output_padding", (0, 0))
    check_numbers(node, "output_padding", more, 2, 0)
    sides = _transposed_shape(x.shape[2:], w.shape[2:], strides, pads, check_dilations(node), more)
    need(min(sides) > 0, node, f"pads must leave an output, not {pads!r}, which leave {sides!r}")
    return TensorType((x.shape[0], channels, *sides), x.dtype)


def _transposed_shape(size: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
                      pads: Sequence[int], dilations: Sequence[int] = (1, 1),
                      output_padding: Sequence[int] = (0, 0)) -> tuple[int, int]:
    """Output height and width of a transposed convolution."""
    cut = (pads[0] + pads[2], pads[1] + pads[3])
    rows, columns = ((n - 1) * s + (k - 1) * d + 1 + more - less for n, k, s, d, more, less
                     in zip(size, kernel, strides, dilations, output_padding, cut, strict=True))
    return rows, columns


# Expressions


def _conv2d(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``x`` [N,Ci,H,W], ``w`` [Co,Ci/group,kh,kw], perhaps ``bias`` [Co]; sums in float32."""
    return _biased(convolved, attrs, inputs, name)


def _convtranspose2d(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``x`` [N,Ci,H,W], ``w`` [Ci,Co/group,kh,kw], perhaps ``bias`` [Co]; sums in float32."""
    return _biased(_transposed, attrs, inputs, name)


def _qconv2d(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``x`` and ``w`` as `conv2d`; ``bias``, ``mult``, ``shift`` [Co], perhaps ``mult_below``,
    ``shift_below``, or ``bias`` and ``scale``; sums wrap. Or ``x`` and ``w`` alone, in planes."""
    if len(inputs) == 2:
        x, w = inputs
        acc = convolved(attrs, x, w, attrs["pad_value"], "int32", f"{name}_acc")
        return in_planes(attrs, acc, 1, x.dtype, name)
    return _requantized(convolved, attrs, inputs, name)


def _qconvtranspose2d(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """Like `qconv2d`, with ``w`` [Co,Ci/group,kh,kw] too; between pixels stands the pad value."""
    return _requantized(_turned, attrs, inputs, name)


Sums = Callable[[Attributes, Tensor, Tensor, int, str, str], Tensor]


def _biased(sums: Sums, attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, w, *rest = inputs
    if not rest:
        return sums(attrs, x, w, 0, "float32", name)
    bias, acc = rest[0], sums(attrs, x, w, 0, "float32", f"{name}_acc")
    return te.compute(acc.shape, lambda n, c, h, w: acc[n, c, h, w] + bias[c], name)


def _requantized(sums: Sums, attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, w, *parameters = inputs
    acc = sums(attrs, x, w, attrs["pad_value"], sums_of(attrs), f"{name}_acc")
    return te.compute(acc.shape, lambda n, c, h, w: of_channels(
        attrs, acc[n, c, h, w], c, parameters, inputs[0].dtype), name)


def convolved(attrs: Attributes, x: Tensor, weight: Tensor, pad_value, dtype: str,
               name: str) -> Tensor:
    """Sums of products in `dtype`, [N,Co,Ho,Wo]."""
    reach = reach_of(attrs, weight.shape[2:])
    (images, _, rows, columns), padded = windowed(attrs, x, reach, pad_value, name)
    shape = (images, weight.shape[0], rows, columns)
    return _products(shape, attrs, padded, weight.shape[1:], attrs["strides"], dtype, name,
                     lambda c, i, kh, kw: weight[c, i, kh, kw])


def _products(shape: Sequence[int], attrs: Attributes, padded: Tensor, weights: Sequence[int],
              strides: Sequence[int], dtype: str, name: str,
              weight: Callable[..., Expr]) -> Tensor:
    """Sums over windows; ``weight(c, i, kh, kw)`` is that of output channel c and the i-th input
    channel of its group, `weights` the extents of the last three.
    """
    (sh, sw), (dh, dw) = strides, attrs.get("dilations", (1, 1))
    depth, *kernel = weights
    each = shape[1] // attrs.get("group", 1)
    rc, (kh, kw) = te.reduce_axis(depth, f"{name}_rc"), image_axes(kernel, name)

    def products(n, c, h, w):
        channel = _in_group(c, rc.var, each, depth) if each < shape[1] else rc.var
        pixel = padded[n, channel, h * sh + _times(kh.var, dh), w * sw + _times(kw.var, dw)]
        return te.sum(pixel.astype(dtype) * weight(c, rc.var, kh.var, kw.var).astype(dtype),
                      (rc, kh, kw))

    return te.compute(tuple(shape), products, name)


def _in_group(output: Expr, number: Expr, each: int, depth: int) -> Expr:
    """Input channel `number` of the group of an output channel; `each` and `depth` are the outputs
    and inputs of a group.
    """
    return (output if each == 1 else output // each) * depth + number


def _times(tap: Expr, dilation: int) -> Expr:
    return tap if dilation == 1 else tap * dilation


def _transposed(attrs: Attributes, x: Tensor, weight: Tensor, pad_value, dtype: str,
                name: str) -> Tensor:
    """Sums of products, ``weight`` [Ci,Co/group,kh,kw]."""
    group = attrs.get("group", 1)
    inputs, each, *kernel = weight.shape

    def turned(c, i, kh, kw):
        channels = (_in_group(c, i, each, inputs // group), c % each) if group > 1 else (i, c)
        return weight[*channels, kernel[0] - 1 - kh, kernel[1] - 1 - kw]

    return _spread(attrs, x, (each * group, inputs // group, *kernel), pad_value, dtype, name,
                   turned)


def _turned(attrs: Attributes, x: Tensor, weight: Tensor, pad_value, dtype: str,
            name: str) -> Tensor:
    """Sums of products, ``weight`` [Co,Ci/group,kh,kw]."""
    height, width = weight.shape[2:]
    return _spread(attrs, x, weight.shape, pad_value, dtype, name,
                   lambda c, i, kh, kw: weight[c, i, height - 1 - kh, width - 1 - kw])


def _spread(attrs: Attributes, x: Tensor, weights: Sequence[int], pad_value, dtype: str, name: str,
            weight: Callable[..., Expr]) -> Tensor:
    """A transposed convolution as one of stride 1 over x with its pixels apart."""
    (sh, sw), (top, left, bottom, right) = attrs["strides"], attrs["pads"]
    below, beside = attrs.get("output_padding", (0, 0))
    reach = reach_of(attrs, weights[2:])
    images, channels, rows, columns = x.shape
    height = (rows - 1) * sh + 2 * reach[0] - 1 - top - bottom + below
    width = (columns - 1) * sw + 2 * reach[1] - 1 - left - right + beside
    above, before = reach[0] - 1 - top, reach[1] - 1 - left

    def pixel(n, c, h, w):
        row, column = h - above, w - before
        there = [row >= 0, row < rows * sh, (row % sh).equal(0),
                 column >= 0, column < columns * sw, (column % sw).equal(0)]
        return te.select(te.all_of(*there), x[n, c, row // sh, column // sw], pad_value)

    wide = te.compute((images, channels, height, width), pixel, f"{name}_spread")
    shape = (images, weights[0], height - reach[0] + 1, width - reach[1] + 1)
    return _products(shape, attrs, wide, weights[1:], (1, 1), dtype, name, weight)


def _conv(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, w = inputs
    outputs, depth, *kernel = w.shape
    group, wide = attrs["group"], sum_dtype(x.dtype)
    if len(w.shape) != len(x.shape) or w.dtype != x.dtype:
        raise ValueError(f"weight must have the type and the dimensions of {x.dtype}{x.shape}, "
                         f"not {w.dtype}{w.shape}")
    if group < 1 or x.shape[1] != depth * group or outputs % group:
        raise ValueError(f"channels must be the weight's {depth} in each of {group} groups that "
                         f"divide {outputs}, not {x.shape[1]}")
    extents, each = check_windows(x, kernel, attrs), outputs // group
    rc, taps = te.reduce_axis(depth, f"{name}_rc"), kernel_axes(kernel, name)

    def element(n: Expr, c: Expr, *places: Expr):
        channel = rc.var if group == 1 else c // each * depth + rc.var
        pixel = pixel_of(x, (n, channel), places, [tap.var for tap in taps], attrs, kernel, extents,
                         te.const(0, x.dtype))
        weight = w[(c, rc.var, *(tap.var for tap in taps))]
        return te.sum(pixel.astype(wide) * weight.astype(wide), (rc, *taps))

    return narrowed((x.shape[0], outputs, *extents), lambda *indices: element(*indices), x.dtype,
                    name)


# Meanings


def _conv2d_meaning(attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    return biased_sums(convolved_sums(attrs, x, w, 0), bias)


def _convtranspose2d_meaning(attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    return biased_sums(_spread_sums(attrs, x, outputs_first(w, attrs.get("group", 1)), 0), bias)


def _qconv2d_meaning(attrs, x: Array, w: Array, *parameters: Array) -> Array:
    sums = convolved_sums(attrs, x, w, attrs["pad_value"])
    if not parameters:
        return arrays_in_planes(attrs, sums, 1, x.dtype)
    return requantized_sums(attrs, x.dtype, sums, *parameters)


def _qconvtranspose2d_meaning(attrs, x: Array, w: Array, *parameters: Array) -> Array:
    sums = _spread_sums(attrs, x, w, attrs["pad_value"])
    return requantized_sums(attrs, x.dtype, sums, *parameters)


def biased_sums(sums: Array, bias: Array | None) -> Array:
    return (sums if bias is None else sums + bias.reshape(1, -1, 1, 1)).astype(np.float32)


def requantized_sums(attrs, dtype: np.dtype, sums: Array, *parameters: Array) -> Array:
    bias, *factors = (along(v, 4, 1) for v in parameters)
    return arrays_of_channels(attrs, wrapped(sums, sums_of(attrs)) + bias, factors, dtype)


def convolved_sums(attrs, x: Array, w: Array, value) -> Array:
    return _correlate(x, w, attrs["strides"], attrs["pads"], value,
                      attrs.get("dilations", (1, 1)), attrs.get("group", 1))


def _correlate(x: Array, w: Array, strides, pads, value, dilations, group: int) -> Array:
    """Convolution sums in float64, [N, Co, Ho, Wo], a chunk of images at a time."""
    views = image_views(x, w.shape[2:], strides, pads, value, dilations)
    images, channels, rows, columns = views.shape[:4]
    depth = w.shape[1] * w.shape[2] * w.shape[3]
    chunk = max(1, CHUNK_ELEMENTS // (rows * columns * depth * group))
    flat = w.reshape(group, -1, depth).transpose(0, 2, 1).astype(np.float64)
    sums = [_columns(views[i:i + chunk], group, depth) @ flat for i in range(0, images, chunk)]
    whole = np.concatenate(sums, axis=1).reshape(group, images, rows, columns, -1)
    return whole.transpose(1, 0, 4, 2, 3).reshape(images, -1, rows, columns)


def _columns(views: Array, group: int, depth: int) -> Array:
    """The windows of each group, [group, N * Ho * Wo, depth]."""
    images, channels, *rest = views.shape
    cut = views.reshape(images, group, channels // group, *rest)
    return cut.transpose(1, 0, 3, 4, 2, 5, 6).reshape(group, -1, depth).astype(np.float64)


def _spread_sums(attrs, x: Array, w: Array, value) -> Array:
    """Sums of a transposed convolution, w [Co, Ci/group, kh, kw]: a convolution by the turned
    kernel of x with the value between its pixels and around.
    """
    strides, dilations = attrs["strides"], attrs.get("dilations", (1, 1))
    *outer, height, width = x.shape
    wide = np.full((*outer, (height - 1) * strides[0] + 1, (width - 1) * strides[1] + 1), value,
                   x.dtype)
    wide[:, :, ::strides[0], ::strides[1]] = x
    reach = [(size - 1) * step for size, step in zip(w.shape[2:], dilations, strict=True)] * 2
    more = (0, 0, *attrs.get("output_padding", (0, 0)))
    pads = [around + added - cut for around, added, cut
            in zip(reach, more, attrs["pads"], strict=True)]
    top, left, bottom, right = (max(pad, 0) for pad in pads)
    wide = np.pad(wide, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)
    top, left, bottom, right = (max(-pad, 0) for pad in pads)
    wide = wide[:, :, top:wide.shape[2] - bottom, left:wide.shape[3] - right]
    return _correlate(wide, w[:, :, ::-1, ::-1], (1, 1), (0, 0, 0, 0), value, dilations,
                      attrs.get("group", 1))


def outputs_first(w: Array, group: int) -> Array:
    """The weight of a transposed convolution, [Ci, Co/group, kh, kw], as [Co, Ci/group, kh, kw].
    """
    inputs, outputs, *kernel = w.shape
    cut = w.reshape(group, inputs // group, outputs, *kernel).swapaxes(1, 2)
    return np.ascontiguousarray(cut).reshape(group * outputs, inputs // group, *kernel)


def _conv_meaning(attrs: Attributes, x: Array, w: Array) -> Array:
    wide = np.int64 if x.dtype.kind in "iu" else np.float64
    views = views_of(attrs, x.astype(wide), w.shape[2:], 0)
    group, rank = attrs["group"], w.ndim - 2
    n, c, *rest = views.shape
    views = views.reshape(n, group, c // group, *rest)
    weights = w.reshape(group, -1, *w.shape[1:]).astype(wide)
    places, taps = "uvwxyz"[:rank], "defhij"[:rank]
    sums = np.einsum(f"ngc{places}{taps},goc{taps}->ngo{places}", views, weights)
    return sums.reshape(n, -1, *sums.shape[3:])


# Integer forms


def _conv2d_integer(view: QuantizedInputs, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    made = integer_convolution(view, node, out, clamp_to(out, bounds))
    x, constants = view.activation(node.inputs[0]), dict(made.constants)
    weight, scales = view.weight(node.inputs[1], axis=0)
    if "sums" in made.attrs or not _is_of_elements(node.attrs, weight.shape):
        return made
    return affine(x, weight.reshape(-1), x.scale * scales / out.scale, constants, out, bounds)


def integer_convolution(view: QuantizedInputs, node: Node, out: Stored, clamp: Mapping[str, object]
                        ) -> IntegerNode:
    """The `qconv2d` of a convolution, also where each element is a part of one element."""
    x = view.activation(node.inputs[0])
    weight, scales = view.weight(node.inputs[1], axis=0)
    sums, constants = weighted(view, node.inputs[2:], x, weight, scales, out)
    attrs = {**node.attrs, **sums, "pad_value": x.zp, **clamp}
    return IntegerNode("qconv2d", (x.value,), attrs, constants)


def _is_of_elements(attrs: Attributes, weight: tuple[int, ...]) -> bool:
    """True if each element is computed from the one in its place, by a factor of its channel."""
    return is_pointwise(attrs, (None, weight)) and (
        weight[1] == 1 and attrs.get("group", 1) == weight[0])


def _convtranspose2d_integer(view: QuantizedInputs, node: Node, out: Stored,
                             bounds: Bounds) -> IntegerNode:
    """ONNX has the scales along an axis of a group's outputs: every group has the same."""
    x, group = view.activation(node.inputs[0]), node.attrs.get("group", 1)
    weight, scales = view.weight(node.inputs[1], axis=1)
    sums, constants = weighted(view, node.inputs[2:], x, outputs_first(weight, group),
                               np.tile(scales, group), out)
    attrs = {**node.attrs, **sums, "pad_value": x.zp, **clamp_to(out, bounds)}
    return IntegerNode("qconvtranspose2d", (x.value,), attrs, constants)


# Records


def pixel_convolution(name: str, inputs: Sequence[str], outputs: Sequence[str],
                      group: int = 1) -> Node:
    """A convolution of each pixel by itself: of data, a weight [Co,Ci/group,1,1] and a bias."""
    groups = {"group": group} if group > 1 else {}
    return image_convolution(name, inputs, outputs,
                             {"strides": (1, 1), "pads": (0, 0, 0, 0), **groups})


def image_convolution(name: str, inputs: Sequence[str], outputs: Sequence[str],
                      attrs: Attributes) -> Node:
    """A convolution of images of float32: of data, a weight [Co,Ci/group,kh,kw] and a bias."""
    return Node("conv2d", name, tuple(inputs), tuple(outputs), attrs)


def is_pointwise(attrs: Attributes, shapes: Shapes) -> bool:
    """True if every pixel is computed from the one in its place."""
    weight = shapes[1]
    return (weight is not None and weight[2:4] == (1, 1) and attrs["strides"] == (1, 1)
            and attrs["pads"] == (0, 0, 0, 0))


_WINDOW = "strides, pads (top, left, bottom, right), dilations (1), group (1)"

OPERATORS = (
    Operator(
        name="conv2d", summary="convolution of images",
        inputs="x, w [Co,Ci/group,kh,kw], bias [Co]?",
        attributes=f"{_WINDOW}, whole (0): 1 where sums are integers, which stay exact",
        define=_conv2d, meaning=_conv2d_meaning, type=_conv2d_type, numbers=Numbers.FLOAT,
        kind=Kind.COMPLEX, pixelwise=is_pointwise, contracts=True, halves=True,
        integer=_conv2d_integer, sums="qconv2d", floats="fconv2d", weights=CONVOLVED,
        convolved=Convolved("conv2d_last", "depthwise_last", "conv2d_direct")),
    Operator(
        name="convtranspose2d", summary="transposed convolution of images",
        inputs="x, w [Ci,Co/group,kh,kw], bias [Co]?",
        attributes=f"{_WINDOW}, output_padding (below, right; 0)",
        define=_convtranspose2d, meaning=_convtranspose2d_meaning, type=_convtranspose2d_type,
        numbers=Numbers.FLOAT, kind=Kind.COMPLEX, contracts=True,
        integer=_convtranspose2d_integer, weights=TRANSPOSED),
    Operator(
        name="qconv2d", summary="convolution of int8 images, a multiplier for each channel",
        inputs="x, w [Co,Ci/group,kh,kw], bias, mult, shift, mult_below?, shift_below? [Co]; or "
               "bias, scale float32 [Co]; or none of these",
        attributes="as conv2d, pad_value, zp, lo, hi, sums (int32); or as conv2d, pad_value, "
                   "planes", below=True,
        define=_qconv2d, meaning=_qconv2d_meaning, type=_qconv2d_type, numbers=Numbers.INTEGER,
        kind=Kind.COMPLEX, data_inputs=1, parameters=multipliers, pixelwise=is_pointwise,
        scales=True, pads=lambda attrs: attrs["pad_value"],
        convolved=Convolved("qconv2d_last", "qdepthwise_last", "qconv2d_direct")),
    Operator(
        name="qconvtranspose2d", summary="transposed convolution of int8 images",
        inputs="x, w [Co,Ci/group,kh,kw], bias, mult, shift, mult_below?, shift_below? [Co]; or "
               "bias, scale float32 [Co]",
        attributes="as convtranspose2d, pad_value, zp, lo, hi, sums (int32)", below=True,
        define=_qconvtranspose2d, meaning=_qconvtranspose2d_meaning, type=_qconvtranspose2d_type,
        numbers=Numbers.INTEGER, kind=Kind.COMPLEX, data_inputs=1, parameters=multipliers,
        scales=True),
    Operator(
        name="conv", summary="convolution over any number of axes, of any number type",
        inputs="x [N,Ci,...], w [Co,Ci/group,...]",
        attributes="strides, pads (before each axis, then after), dilations, group",
        define=_conv, meaning=kept(_conv_meaning), kind=Kind.COMPLEX, contracts=True),
)
