"""Convolutions and products of int8 whose channels lie in blocks
(`compiler.ops.packed.channel_blocks`).

Processors multiply unsigned bytes by signed ones, four neighbours at a time, so an activation x is
read as the byte ``x + 128`` and four inputs of a weight lie side by side. Others multiply words of
16 bits, two neighbours at a time: then the weight is stored in words, two inputs side by side, and
an activation is read as a word, ``x`` as it is. ``bias`` makes up for the 128, and a result is ::

    clamp(zp + rhe((sum((x + 128) * w) + bias) * scale), lo, hi)

with a sum of int32 and one multiplication in the type of the scale. That is what `qconv2d`
computes: with ``scale = mult / 2**shift`` in float64, exactly; with a scale of its own in float32.
It is at most 1, and no sum of a channel can wrap (see `for_sums`). With the attribute ``near`` the
scale of the first kind is stored in float32, and no sum is beyond what float32 holds exactly
(`in_singles`): then one fused multiply-add gives the product, rounded once.
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

TOGETHER = {"int8": 4, "int16": 2}
"""Inputs whose products are added at once, by the type of the weight."""

RAISED = {"int8": 128, "int16": 0}
"""What activations are raised by, likewise."""

FEW, OFFSET = 4, 128

MOST = 2**31 - 2**15
"""What sums must stay below, so that with a zero point of 16 bits they fit int32."""

NEAR, SHARE = 1 << 24, 1 / 4
"""With sums up to here and scales up to there, products are within 2**22: float32 holds the sums,
and rounds a product's sum with 1.5 * 2**23 to an integer."""


# Arrays


def for_sums(weight: Array, bias: Array, *factors: Array) -> tuple[Array, Array] | None:
    """``bias`` int32 and ``scale`` of each channel, the first dimension of the weight: in float64
    of a multiplier and a shift, or as it is; None where a sum may not fit int32, with a zero point
    of 16 bits, or a scale is above 1.
    """
    rows = weight.reshape(len(weight), -1).astype(np.int64)
    total = bias.astype(np.int64) - RAISED[weight.dtype.name] * rows.sum(axis=1)
    scale = factors[0]
    if len(factors) == 2:
        scale = np.ldexp(scale.astype(np.float64), -factors[1].astype(np.int64))
    if _most(weight, total) >= MOST or scale.max(initial=0) > 1:
        return None
    return total.astype(np.int32), scale


def _most(weight: Array, bias: Array, factor: Array | None = None) -> int:
    """The greatest magnitude of a sum, or of a part of it, whatever the activations are."""
    sizes = np.abs(weight.reshape(len(weight), -1).astype(np.int64)).sum(axis=1)
    most = 255 * sizes + np.abs(bias.astype(np.int64))
    if factor is not None:
        most = most + 128 * np.abs(factor.astype(np.int64))
    return int(most.max(initial=0))


def in_singles(weight: Array, bias: Array, scale: Array, factor: Array | None = None
               ) -> Array | None:
    """The scales of `for_sums` in float32, for ``near`` sums; None where float32 does not hold a
    scale or a sum, or a product may be too great.
    """
    single, rows = scale.astype(np.float32), weight.reshape(len(weight), -1).astype(np.int64)
    bias = bias + RAISED[weight.dtype.name] * rows.sum(axis=1)      # of activations as they are
    most = 128 * np.abs(rows).sum(axis=1) + np.abs(bias)
    if factor is not None:
        most = most + 128 * np.abs(factor.astype(np.int64))
    if (scale.dtype != np.float64 or (single != scale).any() or scale.max(initial=0) > SHARE
            or most.max(initial=0) > NEAR):
        return None
    return single


def for_sums_met(weight: Array, bias: Array, mult: Array, shift: Array, factor: Array
                 ) -> tuple[Array, ...] | None:
    """As `for_sums`, and the factor of an int8 that the sums meet."""
    found = for_sums(weight, bias, mult, shift)
    if found is None or _most(weight, found[0], factor) >= MOST:
        return None
    return (*found, factor)


def grouped_inputs(weight: Array, apart: bool) -> Array:
    """[Co,Ci,kh,kw] as [Co/16,kh,1,kw*Ci/4,16,4], all inputs of a row of a window side by side, or
    as [Co/16,kh,kw,Ci/4,16,4] where the pixels of a row are `apart`; zeros where there are no
    channels. Of words two inputs lie side by side.
    """
    return _window_last(_filled(weight, blocks_of(weight.shape[1]) * LANES), apart)


def grouped_stem(weight: Array, apart: bool) -> Array:
    """As `grouped_inputs`, of at most four inputs: those of `few_inputs`, and as many zeros behind
    a row as make up a group.
    """
    return _window_last(_filled(weight, few_inputs(weight.shape[1], weight.dtype.name, apart)),
                        apart)


def few_inputs(inputs: int, dtype: str, apart: bool) -> int:
    """The inputs of a pixel of an image of few: four of bytes; of words as many as there are, or
    two, and an even number where the pixels of a row are `apart`."""
    if TOGETHER[dtype] == FEW:
        return FEW
    return max(2, inputs + inputs % 2 * apart)


def _window_last(weight: Array, apart: bool) -> Array:
    cut = outputs_last(weight).transpose(0, 2, 3, 1, 4)         # [Co/16,kh,kw,Ci,16]
    blocks, kh, kw, depth, lanes = cut.shape
    taps, depth = (kw, depth) if apart else (1, kw * depth)
    together = TOGETHER[weight.dtype.name]
    cut = np.pad(cut.reshape(blocks, kh, taps, depth, lanes),
                 ((0, 0),) * 3 + ((0, -depth % together), (0, 0)))
    cut = cut.reshape(blocks, kh, taps, -1, together, lanes)
    return np.ascontiguousarray(cut.swapaxes(-1, -2))


def _weight_of(w: Array, channels: int) -> Array:
    """The weight [Co,Ci,kh,kw] of `grouped_inputs`, or of `grouped_stem`."""
    cut = np.moveaxis(w, -2, 1)                                 # [Co/16,16,kh,taps,K/4,4]
    rows = cut.reshape(w.shape[0] * LANES, *w.shape[1:3], -1)
    rows = rows[..., :rows.shape[3] // channels * channels]
    return rows.reshape(*rows.shape[:2], -1, channels).transpose(0, 3, 1, 2)


def grouped_columns(weight: Array) -> Array:
    """[N,K] as [N/16,K/4,16,4], of words as [N/16,K/2,16,2]; zeros where there are none."""
    together = TOGETHER[weight.dtype.name]
    wide = outputs_last(_filled(weight, -(-weight.shape[1] // together) * together))  # [N/16,K,16]
    cut = wide.reshape(len(wide), -1, together, LANES)
    return np.ascontiguousarray(cut.transpose(0, 1, 3, 2))


def _filled(weight: Array, inputs: int) -> Array:
    wide = np.zeros((len(weight), inputs, *weight.shape[2:]), weight.dtype)
    wide[:, :weight.shape[1]] = weight
    return wide


# Expressions


def _raised(x: Expr) -> Expr:
    """x + 128."""
    return x.astype("uint8") ^ OFFSET


def _factor(x: Expr, weight: str) -> Expr:
    """The activation as weights of that type are multiplied by it."""
    return _raised(x) if RAISED[weight] else x.astype(weight)


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
            w.shape[3] * w.shape[5] % (x.shape[1] // group * LANES)):
        raise ValueError(f"weight must be of the {x.shape[1]} blocks of channels in {group} "
                         f"groups, not {w.shape}")
    images, blocks, *size, _ = x.shape
    return _convolved(attrs, inputs, (images, blocks * LANES, *size), group, lambda n, c, h, v: x[
        n, c // LANES, h, v, c % LANES], name, met)


def _qconv2d_into_blocks(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, w, *_ = inputs
    if len(x.shape) != 4 or len(w.shape) != 6 or x.shape[1] > FEW:
        raise ValueError(f"image must be [N,Ci,H,W] with at most {FEW} channels, and weight "
                         f"[Co/{LANES},kh,taps,K/{FEW},{LANES},{FEW}], not {x.shape} and "
                         f"{w.shape}")
    images, channels, *size = x.shape

    few = few_inputs(channels, w.dtype, w.shape[2] > 1)

    def pixel(n, c, h, v):
        return te.select(c < channels, x[n, c, h, v], 0) if channels < few else x[n, c, h, v]

    return _convolved(attrs, inputs, (images, few, *size), 1, pixel, name)


def _convolved(attrs: Attributes, inputs: Inputs, shape: Sequence[int], group: int,
               pixel: Callable[..., Expr], name: str, met: Met | None = None) -> Tensor:
    """The convolution of the image [N,C,H,W] that ``pixel(n, c, h, w)`` gives, of which it makes
    rows [N,H,W*C] as the windows see them and weights are multiplied by them.
    """
    _, w, *parameters = inputs
    images, channels, *size = shape
    outputs, kh, taps, steps, _, together = w.shape
    depth, each, acc = channels // group, outputs // group, f"{name}_acc"
    kernel = kh, taps * steps * together // depth
    if taps not in (1, kernel[1]) or taps == 1 < kernel[1] and group > 1:
        raise ValueError(f"weight must have one tap, or all, of a row, not {w.shape}")
    strides, dilations = attrs["strides"], attrs.get("dilations", (1, 1))
    (_, _, *windows), rows = pixel_rows(
        attrs, shape, kernel, attrs["pad_value"] + RAISED[w.dtype], acc,
        lambda *place: _factor(pixel(*place), w.dtype), steps * together > kernel[1] * depth)
    y, v, k, t = (te.reduce_axis(extent, f"{acc}_{axis}") for axis, extent in
                  (("kh", kh), ("kw", taps), ("k", steps), ("t", together)))

    def products(n, b, h, column, c):
        first = (column * strides[1] + v.var * dilations[1]) * channels
        if group > 1:
            first = first + b // each * depth
        element = rows[n, h * strides[0] + y.var * dilations[0],
                       first + (together * k.var + t.var)]
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
    """Sums of (x + 128) * w, or of words; leading dimensions of w are those of x, or there are
    none.
    """
    *rows, depth = x.shape
    *leading, blocks, groups = w.shape[:-2]
    together = TOGETHER[w.dtype]
    if len(w.shape) < 4 or groups != -(-depth // together) or leading and leading != rows[:-1]:
        raise ValueError(f"weight must be [N/{LANES},{-(-depth // together)},{LANES},{together}], "
                         f"not {w.shape}")
    whole, steps = groups * together, x

    def factor(*place):
        element = _factor(x[place], w.dtype)
        return element if whole == depth else te.select(place[-1] < depth, element, 0)

    if whole > depth or x.dtype != w.dtype or RAISED[w.dtype]:
        steps = te.compute((*rows, whole), factor, f"{name}_padded")
    k, t = te.reduce_axis(groups, f"{name}_k"), te.reduce_axis(together, f"{name}_t")

    def products(*place):
        *row, n = place
        weight = w[(*row[:len(leading)], n // LANES, k.var, n % LANES, t.var)]
        return te.sum(steps[(*row, together * k.var + t.var)].astype("int32")
                      * weight.astype("int32"), (k, t))

    return te.compute((*rows, blocks * LANES), products, name)


def _group_columns(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The matrices of ``b`` [...,K,N], or [...,N,K] where ``trans_b`` is 1."""
    b, = inputs
    *leading, depth, columns = b.shape
    if attrs["trans_b"]:
        depth, columns = columns, depth
    together = TOGETHER[b.dtype]
    shape = (*leading, blocks_of(columns), -(-depth // together), LANES, together)

    def element(*place):
        *outer, block, group, lane, step = place
        n, k = block * LANES + lane, group * together + step
        inside = [n < columns] * (columns % LANES > 0) + [k < depth] * (depth % together > 0)
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

    def element(*place):
        channel = (place[1], place[-1]) if len(sums.shape) == 5 and len(bias.shape) == 2 else (
            place[-1],)
        total = sums[place] + bias[channel]
        return stored(attrs, total + met(*place) if met else total, scale[channel])

    return te.compute(sums.shape, element, name)


def stored(attrs: Attributes, total: Expr, scale: Expr) -> Expr:
    """The int8 of a sum, its bias included."""
    zp, low, high = (attrs[name] for name in ("zp", "lo", "hi"))
    near = attrs.get("near")
    share = _share(scale, SHARE if near else 1.0)
    if near:
        total = te.clamp(total, -NEAR, NEAR)        # changes nothing, and says how great it is
    elif scale.dtype == "float32":
        return scaled(total, share, zp, low, high).astype("int8")
    value = total.astype("float64") * share.astype("float64")
    return te.clamp(te.rint(value).astype("int32") + zp, low, high).astype("int8")


def _share(scale: Expr, most: float) -> Expr:
    """The scale, which is from 0 to `most`: said so that what it multiplies is seen to stay in 32
    bits.
    """
    some = te.select(scale > 0.0, scale, te.const(0.0, scale.dtype))
    return te.select(some < most, some, te.const(most, scale.dtype))


# Meanings


def meant(attrs, sums: Array, bias: Array, scale: Array) -> Array:
    zp, dtype = attrs["zp"], np.float64 if attrs.get("near") else scale.dtype
    steps = np.rint((sums + bias).astype(dtype) * scale.astype(dtype))
    return (np.clip(steps, attrs["lo"] - zp, attrs["hi"] - zp) + zp).astype(np.int8)


def _image_meaning(attrs, image: Array, weight: Array, bias: Array, scale: Array,
                   met: Array | int = 0) -> Array:
    bias, scale = (vector.reshape(1, -1, 1, 1) for vector in (bias, scale))
    raised = RAISED[weight.dtype.name]
    sums = met + convolved_sums(attrs, image.astype(np.int16) + raised, weight,
                                attrs["pad_value"] + raised)
    return in_blocks(meant(attrs, sums, bias, scale))


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
    return _image_meaning(attrs, x, _weight_of(
        w, few_inputs(x.shape[1], w.dtype.name, w.shape[2] > 1))[:, :x.shape[1]], bias, scale)


def _qdepthwise_blocks_meaning(attrs, x: Array, w: Array, bias: Array, scale: Array) -> Array:
    weight = np.moveaxis(w, 3, 1).reshape(-1, 1, *w.shape[1:3])
    return _image_meaning({**attrs, "group": len(weight)}, from_blocks(x), weight, bias, scale)


def _qpacked_matmul_meaning(attrs, x: Array, w: Array, bias: Array, scale: Array) -> Array:
    return meant(attrs, _grouped_meaning(attrs, x, w).astype(np.float64), bias, scale)


def _qpacked_matmul_add_meaning(attrs, x: Array, residual: Array, w: Array, bias: Array,
                                scale: Array, factor: Array) -> Array:
    sums = _grouped_meaning(attrs, x, w).astype(np.float64)
    columns = residual.shape[-1]
    sums[..., :columns] += residuals.met(attrs, residual.astype(np.int64), factor[:columns])
    return meant(attrs, sums, bias, scale)


def _grouped_meaning(attrs, x: Array, w: Array) -> Array:
    weight = np.moveaxis(w, -3, -2)
    weight = weight.reshape(*w.shape[:-4], w.shape[-4] * LANES, -1)[..., :x.shape[-1]]
    weight = weight.swapaxes(-1, -2).astype(np.float64)
    sums = (x.astype(np.float64) + RAISED[w.dtype.name]) @ weight
    return sums.astype(np.int64).astype(np.int32)


def _group_columns_meaning(attrs, b: Array) -> Array:
    rows = b if attrs["trans_b"] else b.swapaxes(-1, -2)
    matrices = [grouped_columns(matrix) for matrix in rows.reshape(-1, *rows.shape[-2:])]
    return np.stack(matrices).reshape(*rows.shape[:-2], *matrices[0].shape)


def _qproducts_meaning(attrs, sums: Array, columns: Array) -> Array:
    total = sums.astype(np.int64) - (OFFSET + attrs["a_zp"]) * columns.astype(np.int64)
    return rescaled_array(attrs, total.astype(np.int32).astype(np.float64), np.int8)


# Records

_RESULT = "pad_value, zp, lo, hi, near (0)"
_WINDOWS = f"strides, pads (top, left, bottom, right), dilations (1), {_RESULT}"
_CHANNELS = "bias int32 [Co/16,16], scale float64 or float32 [Co/16,16], from 0 to 1"


def _is_pointwise(attrs: Attributes, shapes: Shapes) -> bool:
    """True if every pixel is computed from the one in its place."""
    x, weight, *_ = shapes
    return (x is not None and weight is not None and weight[1:3] == (1, 1)
            and weight[3] * weight[5] == x[1] * LANES // attrs.get("group", 1)
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
              "zp, lo, hi, near (0)",
              _qpacked_matmul, _qpacked_matmul_meaning),
    _operator("qpacked_matmul_add", "such a product, to whose sums r * factor is added",
              "x [...,K], r [...,at most N], w, bias, scale, factor int16 [N]",
              "zp, lo, hi, fine (0), near (0)",
              _qpacked_matmul_add, _qpacked_matmul_add_meaning),
    _operator("grouped_matmul",
              "product of int8 + 128, or of int16, with columns in blocks of 16, in int32",
              "x [...,M,K], w [...,N/16,K/4,16,4], or of int16 [...,N/16,K/2,16,2]", "",
              _grouped_matmul, _grouped_meaning),
    replace(_operator("group_columns", "matrices with columns in blocks of 16, zeros around them",
                      "b [...,K,N]", "trans_b: b is [...,N,K]", _group_columns,
                      _group_columns_meaning), kind=Kind.INJECTIVE),
    replace(_operator("qproducts", "sums - (128 + a_zp) * columns, requantized",
                      "sums int32 [...,M,N], columns int32 [...,1,N]",
                      "a_zp, bias, mult, shift, zp, lo, hi", _qproducts, _qproducts_meaning),
            kind=Kind.ELEMENTWISE),
)
