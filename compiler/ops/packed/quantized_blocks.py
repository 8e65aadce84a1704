"""Convolutions and products of int8 whose channels lie in blocks
(`compiler.ops.packed.channel_blocks`).

Processors multiply unsigned bytes by signed ones, four neighbours at a time, so an activation x is
read as the byte ``x + 128`` and four inputs of a weight lie side by side. ``bias`` makes up for the
128, and a result is ::

    clamp(zp + rhe((sum((x + 128) * w) + bias) * scale), lo, hi)

with a sum of int32 and one multiplication in the type of the scale. That is what `qconv2d`
computes: with ``scale = mult / 2**shift`` in float64, exactly; with a scale of its own in float32.
It is at most 1, and no sum of a channel can wrap (see `for_bytes`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from compiler import te
from compiler.ops.families.convolutions import convolved_sums
from compiler.ops.families.requantization import requantized, rescaled_array
from compiler.ops.records.windows import image_axes, pixel_rows, reach_of, windowed
from compiler.ops.integers.arithmetic import scaled
from compiler.ops.packed.channel_blocks import from_blocks, in_blocks, outputs_last
from compiler.ops.records.blocks import LANES, blocks_of
from compiler.ops.records.operator import Array, Attributes, Inputs, Kind, Numbers, Operator, Shapes
from compiler.ops.sums import residuals
from compiler.te import Expr, Tensor

GROUPED = 4
"""Inputs whose products are added at once."""

OFFSET = 128

MOST = 2**31 - 2**15
"""What sums must stay below, so that with a zero point of 16 bits they fit int32."""


# Arrays


def for_bytes(weight: Array, bias: Array, *factors: Array) -> tuple[Array, Array] | None:
    """``bias`` int32 and ``scale`` of each channel, the first dimension of the weight: in float64
    of a multiplier and a shift, or as it is; None where a sum may not fit int32, with a zero point
    of 16 bits, or a scale is above 1.
    """
    rows = weight.reshape(len(weight), -1).astype(np.int64)
    total = bias.astype(np.int64) - OFFSET * rows.sum(axis=1)
    most = 255 * np.abs(rows).sum(axis=1) + np.abs(total)
    scale = factors[0]
    if len(factors) == 2:
        scale = np.ldexp(scale.astype(np.float64), -factors[1].astype(np.int64))
    if most.size and (most.max() >= MOST or scale.max() > 1):
        return None
    return total.astype(np.int32), scale


def for_bytes_met(weight: Array, bias: Array, mult: Array, shift: Array, factor: Array
                  ) -> tuple[Array, ...] | None:
    """As `for_bytes`, and the factor of an int8 that the sums meet."""
    found = for_bytes(weight, bias, mult, shift)
    if found is None:
        return None
    rows = np.abs(weight.reshape(len(weight), -1).astype(np.int64)).sum(axis=1)
    most = 255 * rows + np.abs(found[0].astype(np.int64)) + 128 * np.abs(factor.astype(np.int64))
    return None if most.max(initial=0) >= MOST else (*found, factor)


def grouped_inputs(weight: Array, apart: bool) -> Array:
    """[Co,Ci,kh,kw] as [Co/16,kh,1,kw*Ci/4,16,4], all inputs of a row of a window side by side, or
    as [Co/16,kh,kw,Ci/4,16,4] where the pixels of a row are `apart`; zeros where there are no
    channels.
    """
    return _window_last(_filled(weight, blocks_of(weight.shape[1]) * LANES), apart)


def grouped_stem(weight: Array, apart: bool) -> Array:
    """As `grouped_inputs`, of at most four inputs, which are filled up to four."""
    return _window_last(_filled(weight, GROUPED), apart)


def _window_last(weight: Array, apart: bool) -> Array:
    cut = outputs_last(weight).transpose(0, 2, 3, 1, 4)         # [Co/16,kh,kw,Ci,16]
    blocks, kh, kw, depth, lanes = cut.shape
    taps, depth = (kw, depth) if apart else (1, kw * depth)
    cut = cut.reshape(blocks, kh, taps, depth // GROUPED, GROUPED, lanes)
    return np.ascontiguousarray(cut.swapaxes(-1, -2))


def _weight_of(w: Array, channels: int) -> Array:
    """The weight [Co,Ci,kh,kw] of `grouped_inputs`, or of `grouped_stem`."""
    cut = np.moveaxis(w, -2, 1)                                 # [Co/16,16,kh,taps,K/4,4]
    weight = cut.reshape(w.shape[0] * LANES, w.shape[1], -1, channels)
    return weight.transpose(0, 3, 1, 2)


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


Met = Callable[..., Expr]
"""What the sum at a place meets before it is requantized."""


def _qconv2d_blocks(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    return _of_blocks(attrs, inputs, name, None)


def _qconv2d_add_blocks(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, residual, w, bias, scale, factor = inputs

    def of(*place: Expr) -> Expr:
        return residuals.met(attrs, residual[place].astype("int32"),
                   factor[place[1], place[-1]].astype("int32"))

    return _of_blocks(attrs, (x, w, bias, scale), name, of)


def _of_blocks(attrs: Attributes, inputs: Inputs, name: str, met: Met | None) -> Tensor:
    x, w, *_ = inputs
    group = attrs.get("group", 1)
    if len(x.shape) != 5 or len(w.shape) != 6 or w.shape[0] % group or x.shape[1] % group or (
            w.shape[3] * GROUPED % (x.shape[1] // group * LANES)):
        raise ValueError(f"weight must be of the {x.shape[1]} blocks of channels in {group} "
                         f"groups, not {w.shape}")
    images, blocks, *size, _ = x.shape
    return _convolved(attrs, inputs, (images, blocks * LANES, *size), group, lambda n, c, h, v: x[
        n, c // LANES, h, v, c % LANES], name, met)


def _qconv2d_into_blocks(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, w, *_ = inputs
    if len(x.shape) != 4 or len(w.shape) != 6 or x.shape[1] > GROUPED:
        raise ValueError(f"image must be [N,Ci,H,W] with at most {GROUPED} channels, and weight "
                         f"[Co/{LANES},kh,taps,K/{GROUPED},{LANES},{GROUPED}], not {x.shape} and "
                         f"{w.shape}")
    images, channels, *size = x.shape

    def pixel(n, c, h, v):
        return te.select(c < channels, x[n, c, h, v], 0) if channels < GROUPED else x[n, c, h, v]

    return _convolved(attrs, inputs, (images, GROUPED, *size), 1, pixel, name)


def _convolved(attrs: Attributes, inputs: Inputs, shape: Sequence[int], group: int,
               pixel: Callable[..., Expr], name: str, met: Met | None = None) -> Tensor:
    """The convolution of the image [N,C,H,W] that ``pixel(n, c, h, w)`` gives, of which it makes
    rows [N,H,W*C] as the windows see them, + 128.
    """
    _, w, *parameters = inputs
    images, channels, *size = shape
    outputs, kh, taps, steps = w.shape[:4]
    depth, each, acc = channels // group, outputs // group, f"{name}_acc"
    kernel = kh, taps * steps * GROUPED // depth
    if taps not in (1, kernel[1]) or taps == 1 < kernel[1] and group > 1:
        raise ValueError(f"weight must have one tap, or all, of a row, not {w.shape}")
    strides, dilations = attrs["strides"], attrs.get("dilations", (1, 1))
    (_, _, *windows), rows = pixel_rows(attrs, shape, kernel, attrs["pad_value"] + OFFSET, acc,
                                        lambda *place: _raised(pixel(*place)))
    y, v, k, t = (te.reduce_axis(extent, f"{acc}_{axis}") for axis, extent in
                  (("kh", kh), ("kw", taps), ("k", steps), ("t", GROUPED)))

    def products(n, b, h, column, c):
        first = (column * strides[1] + v.var * dilations[1]) * channels
        if group > 1:
            first = first + b // each * depth
        element = rows[n, h * strides[0] + y.var * dilations[0],
                       first + (GROUPED * k.var + t.var)]
        return te.sum(element.astype("int32") * w[b, y.var, v.var, k.var, c, t].astype("int32"),
                      (y, v, k, t))

    sums = te.compute((images, outputs, *windows, LANES), products, acc)
    return _requantized(attrs, sums, parameters, name, met)


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
    """The elements that windows of x see: its elements + 128, int32. `taps` are rows and columns of
    the kernel, which the sums run over as `axes`.
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
    return _requantized(attrs, _grouped_sums(x, w, f"{name}_acc"), parameters, name)


def _qpacked_matmul_add(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, residual, w, bias, scale, factor = inputs
    sums, columns = _grouped_sums(x, w, f"{name}_acc"), residual.shape[-1]

    def of(*place: Expr) -> Expr:
        element, column = residual[place], place[-1]
        inside = element if columns == sums.shape[-1] else te.select(column < columns, element, 0)
        return residuals.met(attrs, inside.astype("int32"), factor[column].astype("int32"))

    return _requantized(attrs, sums, (bias, scale), name, of)


def _grouped_matmul(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, w = inputs
    return _grouped_sums(x, w, name)


def _grouped_sums(x: Tensor, w: Tensor, name: str) -> Tensor:
    """Sums of (x + 128) * w; leading dimensions of w are those of x, or there are none."""
    *rows, depth = x.shape
    *leading, blocks, groups = w.shape[:-2]
    if len(w.shape) < 4 or groups != -(-depth // GROUPED) or leading and leading != rows[:-1]:
        raise ValueError(f"weight must be [N/{LANES},{-(-depth // GROUPED)},{LANES},{GROUPED}], "
                         f"not {w.shape}")
    whole = groups * GROUPED

    def raised(*place):
        element = _raised(x[place])
        return element if whole == depth else te.select(place[-1] < depth, element, 0)

    steps = te.compute((*rows, whole), raised, f"{name}_padded")
    k, t = te.reduce_axis(groups, f"{name}_k"), te.reduce_axis(GROUPED, f"{name}_t")

    def products(*place):
        *row, n = place
        weight = w[(*row[:len(leading)], n // LANES, k.var, n % LANES, t.var)]
        return te.sum(steps[(*row, GROUPED * k.var + t.var)].astype("int32")
                      * weight.astype("int32"), (k, t))

    return te.compute((*rows, blocks * LANES), products, name)


def _group_columns(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The matrices of ``b`` [...,K,N], or [...,N,K] where ``trans_b`` is 1."""
    b, = inputs
    *leading, depth, columns = b.shape
    if attrs["trans_b"]:
        depth, columns = columns, depth
    shape = (*leading, blocks_of(columns), -(-depth // GROUPED), LANES, GROUPED)

    def element(*place):
        *outer, block, group, lane, step = place
        n, k = block * LANES + lane, group * GROUPED + step
        inside = [n < columns] * (columns % LANES > 0) + [k < depth] * (depth % GROUPED > 0)
        value = b[(*outer, n, k) if attrs["trans_b"] else (*outer, k, n)]
        return te.select(te.all_of(*inside), value, 0) if inside else value

    return te.compute(shape, element, name)


def _qproducts(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    sums, columns = inputs
    if columns.shape != (*sums.shape[:-2], 1, sums.shape[-1]):
        raise ValueError(f"columns must be one row for the matrices of {sums.shape}, not "
                         f"{columns.shape}")

    def element(*place):
        *outer, _, n = place
        total = sums[place] - columns[(*outer, te.const(0, te.INDEX), n)] * (OFFSET + attrs["a_zp"])
        return requantized(attrs, total)

    return te.compute(sums.shape, element, name)


def _requantized(attrs: Attributes, sums: Tensor, parameters: Inputs, name: str,
                 met: Met | None = None) -> Tensor:
    bias, scale = parameters
    zp, low, high = (attrs[name] for name in ("zp", "lo", "hi"))

    def element(*place):
        channel = (place[1], place[-1]) if len(sums.shape) == 5 and len(bias.shape) == 2 else (
            place[-1],)
        total, share = sums[place] + bias[channel], _share(scale[channel])
        total = total + met(*place) if met else total
        if scale.dtype == "float32":
            return scaled(total, share, zp, low, high).astype("int8")
        value = total.astype("float64") * share
        return te.clamp(te.rint(value).astype("int32") + zp, low, high).astype("int8")

    return te.compute(sums.shape, element, name)


def _share(scale: Expr) -> Expr:
    """The scale, which is from 0 to 1: said so that what it multiplies is seen to stay in 32 bits.
    """
    some = te.select(scale > 0.0, scale, te.const(0.0, scale.dtype))
    return te.select(some < 1.0, some, te.const(1.0, scale.dtype))


# Meanings


def _meant(attrs, sums: Array, bias: Array, scale: Array) -> Array:
    zp = attrs["zp"]
    steps = np.rint((sums + bias).astype(scale.dtype) * scale)
    return (np.clip(steps, attrs["lo"] - zp, attrs["hi"] - zp) + zp).astype(np.int8)


def _image_meaning(attrs, image: Array, weight: Array, bias: Array, scale: Array,
                   met: Array | int = 0) -> Array:
    bias, scale = (vector.reshape(1, -1, 1, 1) for vector in (bias, scale))
    sums = met + convolved_sums(attrs, image.astype(np.int16) + OFFSET, weight,
                                attrs["pad_value"] + OFFSET)
    return in_blocks(_meant(attrs, sums, bias, scale))


def _qconv2d_blocks_meaning(attrs, x: Array, w: Array, bias: Array, scale: Array) -> Array:
    depth = x.shape[1] * LANES // attrs.get("group", 1)
    return _image_meaning(attrs, from_blocks(x), _weight_of(w, depth), bias, scale)


def _qconv2d_add_blocks_meaning(attrs, x: Array, residual: Array, w: Array, bias: Array,
                                scale: Array, factor: Array) -> Array:
    depth = x.shape[1] * LANES // attrs.get("group", 1)
    whole = residuals.met(attrs, from_blocks(residual).astype(np.int64),
                          factor.reshape(1, -1, 1, 1))
    return _image_meaning(attrs, from_blocks(x), _weight_of(w, depth), bias, scale, whole)


def _qconv2d_into_blocks_meaning(attrs, x: Array, w: Array, bias: Array, scale: Array) -> Array:
    return _image_meaning(attrs, x, _weight_of(w, GROUPED)[:, :x.shape[1]], bias, scale)


def _qdepthwise_blocks_meaning(attrs, x: Array, w: Array, bias: Array, scale: Array) -> Array:
    weight = np.moveaxis(w, 3, 1).reshape(-1, 1, *w.shape[1:3])
    return _image_meaning({**attrs, "group": len(weight)}, from_blocks(x), weight, bias, scale)


def _qpacked_matmul_meaning(attrs, x: Array, w: Array, bias: Array, scale: Array) -> Array:
    return _meant(attrs, _grouped_meaning(attrs, x, w).astype(np.float64), bias, scale)


def _qpacked_matmul_add_meaning(attrs, x: Array, residual: Array, w: Array, bias: Array,
                                scale: Array, factor: Array) -> Array:
    sums = _grouped_meaning(attrs, x, w).astype(np.float64)
    columns = residual.shape[-1]
    sums[..., :columns] += residuals.met(attrs, residual.astype(np.int64), factor[:columns])
    return _meant(attrs, sums, bias, scale)


def _grouped_meaning(attrs, x: Array, w: Array) -> Array:
    weight = np.moveaxis(w, -3, -2)
    weight = weight.reshape(*w.shape[:-4], w.shape[-4] * LANES, -1)[..., :x.shape[-1]]
    sums = (x.astype(np.float64) + OFFSET) @ weight.swapaxes(-1, -2).astype(np.float64)
    return sums.astype(np.int64).astype(np.int32)


def _group_columns_meaning(attrs, b: Array) -> Array:
    rows = b if attrs["trans_b"] else b.swapaxes(-1, -2)
    matrices = [grouped_columns(matrix) for matrix in rows.reshape(-1, *rows.shape[-2:])]
    return np.stack(matrices).reshape(*rows.shape[:-2], *matrices[0].shape)


def _qproducts_meaning(attrs, sums: Array, columns: Array) -> Array:
    total = sums.astype(np.int64) - (OFFSET + attrs["a_zp"]) * columns.astype(np.int64)
    return rescaled_array(attrs, total.astype(np.int32).astype(np.float64), np.int8)


# Records

_RESULT = "pad_value, zp, lo, hi"
_WINDOWS = f"strides, pads (top, left, bottom, right), dilations (1), {_RESULT}"
_CHANNELS = "bias int32 [Co/16,16], scale float64 or float32 [Co/16,16], from 0 to 1"


def _is_pointwise(attrs: Attributes, shapes: Shapes) -> bool:
    """True if every pixel is computed from the one in its place."""
    x, weight, *_ = shapes
    return (x is not None and weight is not None and weight[1:3] == (1, 1)
            and weight[3] * GROUPED == x[1] * LANES // attrs.get("group", 1)
            and attrs["strides"] == (1, 1) and attrs["pads"] == (0, 0, 0, 0))


def _operator(name: str, summary: str, inputs: str, attributes: str,
              define: Callable[[Attributes, Inputs, str], Tensor], meaning) -> Operator:
    return Operator(name=name, summary=summary, inputs=inputs, attributes=attributes,
                    define=define, meaning=meaning, numbers=Numbers.INTEGER, kind=Kind.COMPLEX)


OPERATORS = (
    replace(_operator("qconv2d_blocks",
                      "convolution of int8 images in blocks of 16 channels, requantized",
                      f"x [N,Ci/16,H,W,16], w [Co/16,kh,taps,K/4,16,4], {_CHANNELS}",
                      f"{_WINDOWS}, group (1)", _qconv2d_blocks, _qconv2d_blocks_meaning),
            pixelwise=_is_pointwise),
    _operator("qconv2d_add_blocks", "such a convolution, to whose sums r * factor is added",
              f"x, r [N,Co/16,Ho,Wo,16], w, {_CHANNELS}, factor int16 [Co/16,16]",
              f"{_WINDOWS}, group (1), fine (0)", _qconv2d_add_blocks, _qconv2d_add_blocks_meaning),
    _operator("qdepthwise_blocks", "convolution of each channel of such images by itself",
              f"x [N,C/16,H,W,16], w [C/16,kh,kw,16], {_CHANNELS}", _WINDOWS,
              _qdepthwise_blocks, _qdepthwise_blocks_meaning),
    _operator("qconv2d_into_blocks", "convolution of int8 images of few channels into such blocks",
              f"x [N,Ci,H,W], w [Co/16,kh,taps,K/4,16,4], {_CHANNELS}", _WINDOWS,
              _qconv2d_into_blocks, _qconv2d_into_blocks_meaning),
    _operator("qpacked_matmul", "product of int8 with columns in blocks of 16, requantized",
              "x [...,K], w [N/16,K/4,16,4], bias int32 [N], scale float64 or float32 [N], "
              "from 0 to 1",
              "zp, lo, hi",
              _qpacked_matmul, _qpacked_matmul_meaning),
    _operator("qpacked_matmul_add", "such a product, to whose sums r * factor is added",
              "x [...,K], r [...,at most N], w, bias, scale, factor int16 [N]",
              "zp, lo, hi, fine (0)",
              _qpacked_matmul_add, _qpacked_matmul_add_meaning),
    _operator("grouped_matmul", "product of int8 + 128 with columns in blocks of 16, in int32",
              "x [...,M,K], w [...,N/16,K/4,16,4]", "", _grouped_matmul, _grouped_meaning),
    replace(_operator("group_columns", "matrices with columns in blocks of 16, zeros around them",
                      "b [...,K,N]", "trans_b: b is [...,N,K]", _group_columns,
                      _group_columns_meaning), kind=Kind.INJECTIVE),
    replace(_operator("qproducts", "sums - (128 + a_zp) * columns, requantized",
                      "sums int32 [...,M,N], columns int32 [...,1,N]",
                      "a_zp, bias, mult, shift, zp, lo, hi", _qproducts, _qproducts_meaning),
            kind=Kind.ELEMENTWISE),
)
