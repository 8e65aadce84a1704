"""Convolutions and products of int8 whose channels lie in blocks (`compiler.ops.channel_blocks`).

Processors multiply unsigned bytes by signed ones, four neighbours at a time, so an activation x is
read as the byte ``x + 128`` and four inputs of a weight lie side by side. ``bias`` makes up for the
128, and a result is ::

    clamp(zp + rhe((sum((x + 128) * w) + bias) * scale), lo, hi)

with a sum of int32 and one multiplication in float64. That is exact, and what `qconv2d` computes,
where ``scale = mult / 2**shift`` and no sum of a channel can wrap (see `for_bytes`).
"""

from collections.abc import Callable, Sequence

import numpy as np

from compiler import te
from compiler.ops.blocks import LANES
from compiler.ops.channel_blocks import blocks_of, from_blocks, in_blocks, outputs_last
from compiler.ops.convolutions import convolved_sums
from compiler.ops.operator import Array, Attributes, Inputs, Kind, Numbers, Operator
from compiler.ops.windows import image_axes, reach_of, windowed
from compiler.te import Expr, Tensor

__all__ = ["GROUPED", "OPERATORS", "for_bytes", "grouped_columns", "grouped_inputs",
           "grouped_stem"]

GROUPED = 4
"""Inputs whose products are added at once."""

OFFSET = 128


# Arrays


def for_bytes(weight: Array, bias: Array, mult: Array,
              shift: Array) -> tuple[Array, Array] | None:
    """``bias`` int32 and ``scale`` float64 of each channel, the first dimension of the weight;
    None where a sum may not fit int32.
    """
    rows = weight.reshape(len(weight), -1).astype(np.int64)
    total = bias.astype(np.int64) - OFFSET * rows.sum(axis=1)
    most = 255 * np.abs(rows).sum(axis=1) + np.abs(total)
    if most.size and most.max() >= 2**31:
        return None
    return total.astype(np.int32), np.ldexp(mult.astype(np.float64), -shift.astype(np.int64))


def grouped_inputs(weight: Array) -> Array:
    """[Co,Ci,kh,kw] as [Co/16,Ci/16,kh,kw,4,16,4], zeros where there are no channels."""
    wide = _filled(weight, blocks_of(weight.shape[1]) * LANES)
    cut = outputs_last(wide)                                    # [Co/16,Ci,kh,kw,16]
    blocks, _, kh, kw, lanes = cut.shape
    cut = cut.reshape(blocks, -1, LANES // GROUPED, GROUPED, kh, kw, lanes)
    return np.ascontiguousarray(cut.transpose(0, 1, 4, 5, 2, 6, 3))


def grouped_stem(weight: Array) -> Array:
    """[Co,Ci,kh,kw] with at most four inputs as [Co/16,kh,kw,16,4]."""
    return np.ascontiguousarray(outputs_last(_filled(weight, GROUPED)).transpose(0, 2, 3, 4, 1))


def grouped_columns(weight: Array) -> Array:
    """[N,K] as [N/16,K/4,16,4], zeros where there are none."""
    wide = outputs_last(_filled(weight, -(-weight.shape[1] // GROUPED) * GROUPED))  # [N/16,K,16]
    cut = wide.reshape(len(wide), -1, GROUPED, LANES)
    return np.ascontiguousarray(cut.transpose(0, 1, 3, 2))


def _filled(weight: Array, inputs: int) -> Array:
    wide = np.zeros((len(weight), inputs, *weight.shape[2:]), weight.dtype)
    wide[:, :weight.shape[1]] = weight
    return wide


# Expressions


def _raised(x: Expr) -> Expr:
    """x + 128."""
    return x.astype("uint8") ^ OFFSET


def _qconv2d_blocks(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, w, *parameters = inputs
    group = attrs.get("group", 1)
    outputs, depth = w.shape[:2]
    if len(x.shape) != 5 or len(w.shape) != 7 or x.shape[1] != depth * group or outputs % group:
        raise ValueError(f"weight must be of the {x.shape[1]} blocks of channels in {group} "
                         f"groups, not {w.shape}")
    each, acc = outputs // group, f"{name}_acc"
    window = _Window(attrs, x, w.shape[2:4], acc)
    cb, q, t = (te.reduce_axis(extent, f"{acc}_{axis}") for axis, extent in
                (("cb", depth), ("q", LANES // GROUPED), ("t", GROUPED)))

    def products(n, b, h, v, c):
        block = cb.var if group == 1 else b // each * depth + cb.var
        pixel = window.pixel(n, block, h, v, GROUPED * q.var + t.var)
        return te.sum(pixel * w[b, cb, *window.taps, q, c, t].astype("int32"),
                      (cb, *window.axes, q, t))

    return _requantized(attrs, te.compute(window.shape(outputs), products, acc), parameters, name)


def _qconv2d_into_blocks(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, w, *parameters = inputs
    if len(x.shape) != 4 or len(w.shape) != 5 or x.shape[1] > GROUPED:
        raise ValueError(f"image must be [N,Ci,H,W] with at most {GROUPED} channels, and weight "
                         f"[Co/{LANES},kh,kw,{LANES},{GROUPED}], not {x.shape} and {w.shape}")
    acc, channels = f"{name}_acc", x.shape[1]
    images, _, rows, columns = x.shape
    pixels = te.compute((images, 1, rows, columns, GROUPED), lambda n, b, h, v, t: te.select(
        t < channels, x[n, t, h, v], 0) if channels < GROUPED else x[n, t, h, v], f"{acc}_pixels")
    window = _Window(attrs, pixels, w.shape[1:3], acc)
    t = te.reduce_axis(GROUPED, f"{acc}_t")

    def products(n, b, h, v, c):
        pixel = window.pixel(n, te.const(0, te.INDEX), h, v, t.var)
        return te.sum(pixel * w[b, *window.taps, c, t].astype("int32"), (*window.axes, t))

    return _requantized(attrs, te.compute(window.shape(w.shape[0]), products, acc), parameters,
                        name)


def _qdepthwise_blocks(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, w, *parameters = inputs
    if len(x.shape) != 5 or len(w.shape) != 4 or w.shape[0] != x.shape[1]:
        raise ValueError(f"weight must be of {x.shape[1]} blocks of channels, not {w.shape}")
    acc = f"{name}_acc"
    window = _Window(attrs, x, w.shape[1:3], acc)

    def products(n, b, h, v, c):
        return te.sum(window.pixel(n, b, h, v, c) * w[b, *window.taps, c].astype("int32"),
                      window.axes)

    return _requantized(attrs, te.compute(window.shape(w.shape[0]), products, acc), parameters,
                        name)


class _Window:
    """What the windows of x see: its elements + 128, int32. `taps` are rows and columns of the
    kernel, which the sums run over as `axes`.
    """

    def __init__(self, attrs: Attributes, x: Tensor, kernel: Sequence[int], name: str):
        self.axes = image_axes(kernel, name)
        self.taps = tuple(axis.var for axis in self.axes)
        self.strides, self.dilations = attrs["strides"], attrs.get("dilations", (1, 1))
        (self.images, _, *self.size, _), self.padded = windowed(
            attrs, x, reach_of(attrs, kernel), attrs["pad_value"] + OFFSET, name, _raised)

    def shape(self, outputs: int) -> tuple[int, ...]:
        return self.images, outputs, *self.size, LANES

    def pixel(self, n: Expr, block: Expr, h: Expr, v: Expr, lane: Expr) -> Expr:
        place = [at * stride + tap * step for at, stride, tap, step in zip(
            (h, v), self.strides, self.taps, self.dilations, strict=True)]
        return self.padded[n, block, *place, lane].astype("int32")


def _qpacked_matmul(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, w, *parameters = inputs
    *rows, depth = x.shape
    if len(w.shape) != 4 or w.shape[1] != -(-depth // GROUPED):
        raise ValueError(f"weight must be [N/{LANES},{-(-depth // GROUPED)},{LANES},{GROUPED}], "
                         f"not {w.shape}")
    whole, acc = w.shape[1] * GROUPED, f"{name}_acc"

    def raised(*place):
        element = _raised(x[place])
        return element if whole == depth else te.select(place[-1] < depth, element, 0)

    steps = te.compute((*rows, whole), raised, f"{acc}_padded")
    k, t = te.reduce_axis(w.shape[1], f"{acc}_k"), te.reduce_axis(GROUPED, f"{acc}_t")

    def products(*place):
        *row, n = place
        return te.sum(steps[(*row, GROUPED * k.var + t.var)].astype("int32")
                      * w[n // LANES, k, n % LANES, t].astype("int32"), (k, t))

    sums = te.compute((*rows, w.shape[0] * LANES), products, acc)
    return _requantized(attrs, sums, parameters, name)


def _requantized(attrs: Attributes, sums: Tensor, parameters: Inputs, name: str) -> Tensor:
    bias, scale = parameters
    zp = attrs["zp"]
    low, high = (float(attrs[bound] - zp) for bound in ("lo", "hi"))

    def element(*place):
        channel = (place[1], place[-1]) if len(sums.shape) == 5 and len(bias.shape) == 2 else (
            place[-1],)
        value = (sums[place] + bias[channel]).astype("float64") * scale[channel]
        value = te.minimum(te.select(value > low, value, low), high)        # a number, never NaN
        return (te.rint(value).astype("int32") + zp).astype("int8")

    return te.compute(sums.shape, element, name)


# Meanings


def _meant(attrs, sums: Array, bias: Array, scale: Array) -> Array:
    zp = attrs["zp"]
    steps = np.rint((sums + bias) * scale)
    return (np.clip(steps, attrs["lo"] - zp, attrs["hi"] - zp) + zp).astype(np.int8)


def _image_meaning(attrs, image: Array, weight: Array, bias: Array, scale: Array) -> Array:
    bias, scale = (vector.reshape(1, -1, 1, 1) for vector in (bias, scale))
    sums = convolved_sums(attrs, image.astype(np.int16) + OFFSET, weight,
                          attrs["pad_value"] + OFFSET)
    return in_blocks(_meant(attrs, sums, bias, scale))


def _qconv2d_blocks_meaning(attrs, x: Array, w: Array, bias: Array, scale: Array) -> Array:
    blocks, depth, kh, kw, *_ = w.shape
    weight = w.transpose(0, 5, 1, 4, 6, 2, 3).reshape(blocks * LANES, depth * LANES, kh, kw)
    return _image_meaning(attrs, from_blocks(x), weight, bias, scale)


def _qconv2d_into_blocks_meaning(attrs, x: Array, w: Array, bias: Array, scale: Array) -> Array:
    weight = w.transpose(0, 3, 4, 1, 2).reshape(-1, GROUPED, *w.shape[1:3])[:, :x.shape[1]]
    return _image_meaning(attrs, x, weight, bias, scale)


def _qdepthwise_blocks_meaning(attrs, x: Array, w: Array, bias: Array, scale: Array) -> Array:
    weight = np.moveaxis(w, 3, 1).reshape(-1, 1, *w.shape[1:3])
    return _image_meaning({**attrs, "group": len(weight)}, from_blocks(x), weight, bias, scale)


def _qpacked_matmul_meaning(attrs, x: Array, w: Array, bias: Array, scale: Array) -> Array:
    weight = w.transpose(0, 2, 1, 3).reshape(w.shape[0] * LANES, -1)[:, :x.shape[-1]]
    sums = (x.astype(np.float64) + OFFSET) @ weight.T.astype(np.float64)
    return _meant(attrs, sums, bias, scale)


# Records

_RESULT = "pad_value, zp, lo, hi"
_WINDOWS = f"strides, pads (top, left, bottom, right), dilations (1), {_RESULT}"
_CHANNELS = "bias int32 [Co/16,16], scale float64 [Co/16,16]"


def _operator(name: str, summary: str, inputs: str, attributes: str,
              define: Callable[[Attributes, Inputs, str], Tensor], meaning) -> Operator:
    return Operator(name=name, summary=summary, inputs=inputs, attributes=attributes,
                    define=define, meaning=meaning, numbers=Numbers.INTEGER, kind=Kind.COMPLEX)


OPERATORS = (
    _operator("qconv2d_blocks", "convolution of int8 images in blocks of 16 channels, requantized",
              f"x [N,Ci/16,H,W,16], w [Co/16,Ci/group/16,kh,kw,4,16,4], {_CHANNELS}",
              f"{_WINDOWS}, group (1)", _qconv2d_blocks, _qconv2d_blocks_meaning),
    _operator("qdepthwise_blocks", "convolution of each channel of such images by itself",
              f"x [N,C/16,H,W,16], w [C/16,kh,kw,16], {_CHANNELS}", _WINDOWS,
              _qdepthwise_blocks, _qdepthwise_blocks_meaning),
    _operator("qconv2d_into_blocks", "convolution of int8 images of few channels into such blocks",
              f"x [N,Ci,H,W], w [Co/16,kh,kw,16,4] with zeros beyond Ci, {_CHANNELS}", _WINDOWS,
              _qconv2d_into_blocks, _qconv2d_into_blocks_meaning),
    _operator("qpacked_matmul", "product of int8 with columns in blocks of 16, requantized",
              "x [...,K], w [N/16,K/4,16,4], bias int32 [N], scale float64 [N]", "zp, lo, hi",
              _qpacked_matmul, _qpacked_matmul_meaning),
)
