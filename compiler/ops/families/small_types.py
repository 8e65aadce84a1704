"""Types of few bits at the ends of a network, and products that are stored as floats of such.

`bitcast` is a view: no kernel computes it. Bits of the byte that a number of fewer bits does not
have may be anything in an input; networks leave 0 there.

Products of floats are summed in float32, in the order of a machine whose blocks have `lanes`
inputs: blocks of input channels first to last, in each the rows of the window and their pixels; of
a block's products neighbours are added first, then neighbours of these sums. So the meaning of a
machine's layer is exact to the bit. A processor sums in another order.
"""

from collections.abc import Sequence

import numpy as np

from compiler import te
from compiler.ops.families.convolutions import convolved_type, convolved
from compiler.ops.families.products import row_products, rows_type
from compiler.ops.families.requantization import is_by_channel
from compiler.ops.records.broadcasting import along
from compiler.ops.records.channels_last import ChannelsLast, by_axis
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Array, Attributes, Inputs, Kind, Numbers, Operator, Range
from compiler.ops.records.rules import Types, need, need_arity
from compiler.ops.records.stored_floats import (STORED_FLOATS, carrier, numbers, numbers_of,
                                                stored, stored_array)
from compiler.ops.records.windows import image_views
from compiler.te import Expr, Tensor

CHUNK_ELEMENTS = 1 << 22
"""Products that are made at once."""


# Types


def _bitcast_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    pair = types[0].dtype, node.attrs["to"]
    need("uint8" in pair and any(dtype in te.SMALL for dtype in pair), node,
         f"bitcast must be between uint8 and one of {', '.join(te.SMALL)}, not from {pair[0]} to "
         f"{pair[1]!r}")
    return TensorType(types[0].shape, node.attrs["to"])


def _check_type(node: Node, name: str) -> str:
    dtype = node.attrs[name]
    need(dtype in STORED_FLOATS, node,
         f"{name} must be one of {', '.join(STORED_FLOATS)}, not {dtype!r}")
    return carrier(dtype)


def _check_scale(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2)
    x, scale = types
    axis = node.attrs["axis"]
    extents = x.shape[axis:axis + 1] if axis >= 0 else None
    need(scale.dtype == "float32" and scale.shape in ((), extents), node,
         f"scale must be a float32 or match axis {axis} of {x}, not {scale}")
    return x


def _encode_type(node: Node, types: Types) -> TensorType:
    x = _check_scale(node, types)
    need(x.dtype == "float32", node, f"input {node.inputs[0]!r} must be float32, not {x.dtype}")
    return TensorType(x.shape, _check_type(node, "dtype"))


def _decode_type(node: Node, types: Types) -> TensorType:
    x, wanted = _check_scale(node, types), _check_type(node, "dtype")
    need(x.dtype == wanted, node, f"input {node.inputs[0]!r} must be {wanted}, not {x.dtype}")
    return TensorType(x.shape, "float32")


def _check_product(node: Node, types: Types) -> None:
    need_arity(node, types, 4)
    wanted = (_check_type(node, "element"), _check_type(node, "weight"), "float32", "float32")
    for name, type_, dtype in zip(node.inputs, types, wanted, strict=True):
        need(type_.dtype == dtype, node, f"input {name!r} must be {dtype}, not {type_.dtype}")
    need(node.attrs["lanes"] > 0, node, f"lanes must be at least 1, not {node.attrs['lanes']!r}")


def _fconv2d_type(node: Node, types: Types) -> TensorType:
    _check_product(node, types)
    return convolved_type(node, types)


def _fdense_type(node: Node, types: Types) -> TensorType:
    _check_product(node, types)
    return rows_type(node, types)


# Expressions


def _bitcast(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, = inputs
    return te.compute(x.shape, lambda *at: x[at], name=name)


def _scale(parameter: Tensor, attrs: Attributes, indices: Sequence[Expr]) -> Expr:
    return parameter[indices[attrs["axis"]]] if parameter.shape else parameter[()]


def _encode(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, scale = inputs
    return te.compute(x.shape, lambda *at: stored(
        x[at] / _scale(scale, attrs, at), attrs["dtype"]), name)


def _decode(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    q, scale = inputs
    return te.compute(q.shape, lambda *at: numbers(q[at], attrs["dtype"]) * _scale(
        scale, attrs, at), name)


def _known(attrs: Attributes, inputs: Inputs, name: str) -> tuple[Tensor, Tensor]:
    """The numbers of both factors."""
    def known(tensor: Tensor, role: str) -> Tensor:
        return te.compute(tensor.shape, lambda *at: numbers(tensor[at], attrs[role]),
                          f"{name}_{role}")

    return known(inputs[0], "element"), known(inputs[1], "weight")


def _result(attrs: Attributes, acc: Tensor, channel: int, inputs: Inputs, name: str) -> Tensor:
    _, _, scale, offset = inputs

    def element(*at):
        value = acc[at] * scale[at[channel]] + offset[at[channel]]
        if attrs["relu"]:
            value = te.maximum(value, te.const(0.0, "float32"))
        return stored(value, attrs["element"])

    return te.compute(acc.shape, element, name)


def _fconv2d(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``x`` [N,Ci,H,W], ``w`` [Co,Ci,kh,kw], ``scale``, ``offset`` [Co]."""
    x, w = _known(attrs, inputs, name)
    return _result(attrs, convolved(attrs, x, w, 0, "float32", f"{name}_acc"), 1, inputs, name)


def _fdense(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``x`` [...,K], ``w`` [N,K], ``scale``, ``offset`` [N]."""
    x, w = _known(attrs, inputs, name)
    return _result(attrs, row_products(x, w, True, "float32", f"{name}_acc"), -1, inputs, name)


# Meanings


def _bitcast_meaning(attrs: Attributes, x: np.ndarray) -> np.ndarray:
    return x.view(te.numpy_dtype(attrs["to"]))


def _encode_meaning(attrs: Attributes, x: Array, scale: Array) -> Array:
    return stored_array(x / along(scale, x.ndim, attrs["axis"]), attrs["dtype"])


def _decode_meaning(attrs: Attributes, q: Array, scale: Array) -> Array:
    return numbers_of(q, attrs["dtype"]) * along(scale, q.ndim, attrs["axis"])


def _affine(attrs: Attributes, sums: Array, scale: Array, offset: Array) -> Array:
    """Results of sums with the channels last."""
    value = sums * scale + offset
    if attrs["relu"]:
        value = np.where(np.isnan(value), value, np.maximum(value, np.float32(0)))
    return stored_array(value, attrs["element"])


def ordered_sums(x: Array, w: Array, lanes: int) -> Array:
    """Sums of products in float32, in a machine's order: of x [rows, channels, taps] and
    w [outputs, channels, taps], [rows, outputs].
    """
    rows, channels, taps = x.shape
    blocks = -(-channels // lanes)
    missing = ((0, 0), (0, blocks * lanes - channels), (0, 0))
    x, w = (np.pad(one, missing).reshape(-1, blocks, lanes, taps) for one in (x, w))
    total = np.full((rows, len(w)), -0.0, np.float32)
    step = max(1, CHUNK_ELEMENTS // (len(w) * lanes))
    for first in range(0, rows, step):
        part = x[first:first + step]
        sums = total[first:first + step]
        for place in range(blocks * taps):
            block, tap = divmod(place, taps)
            terms = part[:, None, block, :, tap] * w[None, :, block, :, tap]
            while terms.shape[-1] > 1:
                if terms.shape[-1] % 2:
                    alone = np.full((*terms.shape[:-1], 1), -0.0, np.float32)
                    terms = np.concatenate((terms, alone), axis=-1)
                terms = terms[..., 0::2] + terms[..., 1::2]
            sums += terms[..., 0]
    return total


def _fconv2d_meaning(attrs: Attributes, x: Array, w: Array, scale: Array, offset: Array) -> Array:
    views = image_views(numbers_of(x, attrs["element"]), w.shape[2:], attrs["strides"],
                        attrs["pads"], np.float32(0), attrs.get("dilations", (1, 1)))
    images, channels, rows, columns = views.shape[:4]
    flat = views.transpose(0, 2, 3, 1, 4, 5).reshape(images * rows * columns, channels, -1)
    sums = ordered_sums(flat, numbers_of(w, attrs["weight"]).reshape(*w.shape[:2], -1),
                        attrs["lanes"])
    made = _affine(attrs, sums, scale, offset).reshape(images, rows, columns, len(w))
    return np.ascontiguousarray(made.transpose(0, 3, 1, 2))


def _fdense_meaning(attrs: Attributes, x: Array, w: Array, scale: Array, offset: Array) -> Array:
    flat = numbers_of(x, attrs["element"]).reshape(-1, x.shape[-1], 1)
    sums = ordered_sums(flat, numbers_of(w, attrs["weight"])[..., None], attrs["lanes"])
    return _affine(attrs, sums, scale, offset).reshape(*x.shape[:-1], len(w))


# Records


def _positive(parameters: Sequence[Array]) -> Sequence[Range]:
    return (Range("scale", parameters[0], parameters[0] > 0, "positive"),)


def _any(parameters: Sequence[Array]) -> Sequence[Range]:
    return ()


_PRODUCT = "relu (0 or 1), element and weight (types), lanes"

# Conversions read their operand in many places, so they are kernels of their own: opaque.
OPERATORS = (
    Operator(
        name="bitcast", summary="the bytes of x as another type", inputs="x",
        attributes="to: uint8 of a type that no operator computes with, or such a type of uint8",
        define=_bitcast, meaning=_bitcast_meaning, type=_bitcast_type, reads_small=True,
        view=lambda attrs, whole, part: True),
    Operator(
        name="encodefloat", summary="x / scale as the nearest float of few bits, saturated",
        inputs="x, scale", attributes=f"axis, dtype ({', '.join(STORED_FLOATS)})",
        define=_encode, meaning=_encode_meaning, type=_encode_type, numbers=Numbers.FLOAT,
        kind=Kind.OPAQUE, data_inputs=1, parameters=_positive, pixelwise=is_by_channel,
        channels_last=ChannelsLast(by_axis)),
    Operator(
        name="decodefloat", summary="the number of a float of few bits, times scale",
        inputs="q, scale", attributes="axis, dtype (as encodefloat)",
        define=_decode, meaning=_decode_meaning, type=_decode_type, numbers=Numbers.FLOAT,
        kind=Kind.OPAQUE, data_inputs=1, parameters=_positive, pixelwise=is_by_channel,
        channels_last=ChannelsLast(by_axis)),
    Operator(
        name="fconv2d", summary="convolution of floats of few bits, sums * scale + offset",
        inputs="x, w [Co,Ci,kh,kw], scale, offset float32 [Co]",
        attributes=f"strides, pads, dilations (1, 1), {_PRODUCT}",
        define=_fconv2d, meaning=_fconv2d_meaning, type=_fconv2d_type, numbers=Numbers.FLOAT,
        kind=Kind.COMPLEX, data_inputs=1, parameters=_any),
    Operator(
        name="fdense", summary="rows of floats of few bits by a matrix, sums * scale + offset",
        inputs="x [...,K], w [N,K], scale, offset float32 [N]", attributes=_PRODUCT,
        define=_fdense, meaning=_fdense_meaning, type=_fdense_type, numbers=Numbers.FLOAT,
        kind=Kind.COMPLEX, data_inputs=1, parameters=_any),
)
