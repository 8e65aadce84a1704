"""Convolutions of images with their channels last, as tensor cores want them: products of matrices.

Each pixel of the result is a row of the product, what its window sees a row of the first factor,
[N*Ho*Wo,kh,kw,Ci], and an output channel a row of the second, [Co,kh,kw,Ci]: the channels of a
pixel lie side by side in both. Nobody needs to store the first factor: a kernel forms the tile of
it that it multiplies next.
"""

from collections.abc import Callable, Sequence

import numpy as np

from compiler import te
from compiler.ops.arithmetic import requantize
from compiler.ops.channels_last import FROM_LAST, TO_LAST
from compiler.ops.convolutions import biased_sums, convolved_sums, requantized_sums
from compiler.ops.operator import Array, Attributes, Inputs, Kind, Numbers, Operator
from compiler.ops.requantization import sums_of
from compiler.ops.windows import image_axes, inside_of, reach_of, window_shape
from compiler.te import Expr, Tensor

__all__ = ["OPERATORS"]

Result = Callable[[Expr, Expr], Expr]
"""An element of the result, from its sum and its channel."""


# Expressions


def _conv2d_last(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    return _convolved(attrs, inputs, 0, "float32", _biased(inputs), name)


def _qconv2d_last(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    return _convolved(attrs, inputs, attrs["pad_value"], sums_of(attrs),
                      _requantized(attrs, inputs), name)


def _depthwise_last(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    return _by_channels(attrs, inputs, 0, "float32", _biased(inputs), name)


def _qdepthwise_last(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    return _by_channels(attrs, inputs, attrs["pad_value"], sums_of(attrs),
                        _requantized(attrs, inputs), name)


def _biased(inputs: Inputs) -> Result:
    if len(inputs) == 2:
        return lambda total, c: total
    return lambda total, c: total + inputs[2][c]


def _requantized(attrs: Attributes, inputs: Inputs) -> Result:
    x, _, bias, mult, shift = inputs
    return lambda total, c: requantize(total, bias[c], mult[c], shift[c], attrs["zp"], attrs["lo"],
                                       attrs["hi"]).astype(x.dtype)


def _convolved(attrs: Attributes, inputs: Inputs, value, dtype: str, result: Result,
               name: str) -> Tensor:
    x, w = _image_and_weight(inputs, 4)
    outputs, *kernel, depth = w.shape
    if depth != x.shape[3]:
        raise ValueError(f"input channels must equal the weight's {depth}, not {x.shape[3]}")
    rows, columns = _windows(attrs, x, kernel)
    count = x.shape[0] * rows * columns

    def seen(p, kh, kw, c):
        return _pixel(attrs, x, kernel, (p // (rows * columns), p // columns % rows, p % columns),
                      (kh, kw), c, value)

    pixels = te.compute((count, *kernel, depth), seen, f"{name}_pixels")
    (kh, kw), ci = image_axes(kernel, name), te.reduce_axis(depth, f"{name}_ci")

    def products(p, c):
        return te.sum(pixels[p, kh.var, kw.var, ci.var].astype(dtype)
                      * w[c, kh.var, kw.var, ci.var].astype(dtype), (kh, kw, ci))

    sums = te.compute((count, outputs), products, f"{name}_acc")
    return te.compute((x.shape[0], rows, columns, outputs), lambda n, h, v, c: result(
        sums[(n * rows + h) * columns + v, c], c), name)


def _by_channels(attrs: Attributes, inputs: Inputs, value, dtype: str, result: Result,
                 name: str) -> Tensor:
    x, w = _image_and_weight(inputs, 3)
    *kernel, channels = w.shape
    if channels != x.shape[3]:
        raise ValueError(f"input channels must equal the weight's {channels}, not {x.shape[3]}")
    kh, kw = image_axes(kernel, name)

    def products(n, h, v, c):
        pixel = _pixel(attrs, x, kernel, (n, h, v), (kh.var, kw.var), c, value)
        return te.sum(pixel.astype(dtype) * w[kh.var, kw.var, c].astype(dtype), (kh, kw))

    shape = x.shape[0], *_windows(attrs, x, kernel), channels
    sums = te.compute(shape, products, f"{name}_acc")
    return te.compute(shape, lambda n, h, v, c: result(sums[n, h, v, c], c), name)


def _image_and_weight(inputs: Inputs, rank: int) -> tuple[Tensor, Tensor]:
    x, w = inputs[:2]
    if len(x.shape) != 4 or len(w.shape) != rank:
        raise ValueError(f"image and weight must have 4 and {rank} dimensions, not {x.shape} and "
                         f"{w.shape}")
    return x, w


def _windows(attrs: Attributes, x: Tensor, kernel: Sequence[int]) -> tuple[int, int]:
    """Windows in a column and in a row of the image."""
    return window_shape(x.shape[1:3], reach_of(attrs, kernel), attrs["strides"], attrs["pads"])


def _pixel(attrs: Attributes, x: Tensor, kernel: Sequence[int], window: tuple[Expr, Expr, Expr],
           taps: tuple[Expr, Expr], channel: Expr, value) -> Expr:
    """What a tap of a window [image, row, column] sees; the value outside of the image."""
    place, conditions = [], []
    for at, tap, step, apart, before, reach, size, count in zip(
            window[1:], taps, attrs["strides"], attrs.get("dilations", (1, 1)), attrs["pads"],
            reach_of(attrs, kernel), x.shape[1:3], _windows(attrs, x, kernel)):
        index = at * step + tap * apart
        conditions += inside_of(index, before, (count - 1) * step + reach, size)
        place.append(index - before)
    pixel = x[window[0], *place, channel]
    return te.select(te.all_of(*conditions), pixel, value) if conditions else pixel


# Meanings


def _conv2d_meaning(attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    return _last(biased_sums(_sums(attrs, x, w, 0), bias))


def _depthwise_meaning(attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    return _last(biased_sums(_sums_by_channels(attrs, x, w, 0), bias))


def _qconv2d_meaning(attrs, x: Array, w: Array, *parameters: Array) -> Array:
    sums = _sums(attrs, x, w, attrs["pad_value"])
    return _last(requantized_sums(attrs, x.dtype, sums, *parameters))


def _qdepthwise_meaning(attrs, x: Array, w: Array, *parameters: Array) -> Array:
    sums = _sums_by_channels(attrs, x, w, attrs["pad_value"])
    return _last(requantized_sums(attrs, x.dtype, sums, *parameters))


def _sums(attrs, x: Array, w: Array, value) -> Array:
    """[N,Co,Ho,Wo], as those below."""
    return convolved_sums(attrs, x.transpose(FROM_LAST), w.transpose(FROM_LAST), value)


def _sums_by_channels(attrs, x: Array, w: Array, value) -> Array:
    return convolved_sums({**attrs, "group": x.shape[3]}, x.transpose(FROM_LAST),
                          np.moveaxis(w, -1, 0)[:, None], value)


def _last(image: Array) -> Array:
    return np.ascontiguousarray(image.transpose(TO_LAST))


# Records


_WINDOW = "strides, pads (top, left, bottom, right), dilations (1)"
_RESULT = f"{_WINDOW}, pad_value, zp, lo, hi, sums (int32)"


def _operator(name: str, summary: str, inputs: str, attributes: str,
              define: Callable[[Attributes, Inputs, str], Tensor], meaning, numbers: Numbers
              ) -> Operator:
    return Operator(name=name, summary=summary, inputs=inputs, attributes=attributes,
                    define=define, meaning=meaning, numbers=numbers, kind=Kind.COMPLEX,
                    contracts=numbers is Numbers.FLOAT, halves=numbers is Numbers.FLOAT)


OPERATORS = (
    _operator("conv2d_last", "convolution of images with channels last",
              "x [N,H,W,Ci], w [Co,kh,kw,Ci], bias [Co]?", _WINDOW, _conv2d_last, _conv2d_meaning,
              Numbers.FLOAT),
    _operator("depthwise_last", "convolution of each channel of such images by itself",
              "x [N,H,W,C], w [kh,kw,C], bias [C]?", _WINDOW, _depthwise_last, _depthwise_meaning,
              Numbers.FLOAT),
    _operator("qconv2d_last", "convolution of integer images with channels last, requantized",
              "x [N,H,W,Ci], w [Co,kh,kw,Ci], bias, mult, shift [Co]", _RESULT, _qconv2d_last,
              _qconv2d_meaning, Numbers.INTEGER),
    _operator("qdepthwise_last", "convolution of each channel of such images by itself",
              "x [N,H,W,C], w [kh,kw,C], bias, mult, shift [C]", _RESULT, _qdepthwise_last,
              _qdepthwise_meaning, Numbers.INTEGER),
)
