"""Convolutions of images with their channels last, as tensor cores want them: products of matrices.

Each pixel of the result is a row of the product, what its window sees a row of the first factor,
[N*Ho*Wo,kh,kw,Ci], and an output channel a row of the second, [Co,kh,kw,Ci]: the channels of a
pixel lie side by side in both. Of few channels the pixels of a window's row do, and the weight is
[Co,kh,kw*Ci]. Nobody needs to store the first factor: a kernel forms the tile of it that it
multiplies next. A processor without vectors needs no product: it reads each window where it lies,
with the weights of several outputs side by side, [Co/k,kh,kw,Ci,k].
"""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from compiler import te
from compiler.ops.families.convolutions import biased_sums, convolved_sums, requantized_sums
from compiler.ops.families.requantization import of_channels, sums_of
from compiler.ops.records.windows import image_axes, inside_of, reach_of, window_shape
from compiler.ops.records.channels_last import FROM_LAST, TO_LAST
from compiler.ops.records.operator import Array, Attributes, Inputs, Kind, Numbers, Operator
from compiler.te import Expr, Tensor

Result = Callable[[Expr, Expr], Expr]
"""An element of the result, from its sum and its channel."""


# Expressions


def _conv2d_last(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    return _convolved(attrs, inputs, 0, "float32", _biased(inputs), name)


def _qconv2d_last(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    return _convolved(attrs, inputs, attrs["pad_value"], sums_of(attrs),
                      _requantized(attrs, inputs), name)


def _conv2d_direct(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    return _direct(attrs, inputs, 0, "float32", _biased(inputs), name)


def _qconv2d_direct(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    return _direct(attrs, inputs, attrs["pad_value"], sums_of(attrs), _requantized(attrs, inputs),
                   name)


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
    x, _, *parameters = inputs
    return lambda total, c: of_channels(attrs, total, c, parameters, x.dtype)


def _convolved(attrs: Attributes, inputs: Inputs, value, dtype: str, result: Result,
               name: str) -> Tensor:
    x, w = _image_and_weight(inputs, 3, 4)
    outputs, height, *row = w.shape
    channels = x.shape[3]
    kernel = height, prod(row) // channels
    if prod(row) % channels or row[1:] not in ([], [channels]):
        raise ValueError(f"input channels must equal the weight's, not {channels} those of "
                         f"{w.shape}")
    rows, columns = _windows(attrs, x, kernel)
    count = x.shape[0] * rows * columns

    def seen(p: Expr, kh: Expr, kw: Expr, c: Expr) -> Expr:
        return _pixel(attrs, x, kernel, (p // (rows * columns), p // columns % rows, p % columns),
                      (kh, kw), c, value)

    shape = count, height, *row
    pixels = te.compute(shape, seen if len(row) > 1 else lambda p, kh, k: seen(
        p, kh, k // channels, k % channels), f"{name}_pixels")
    axes = tuple(te.reduce_axis(extent, f"{name}_{axis}") for extent, axis in zip(
        shape[1:], ("kh", "kw", "ci") if len(row) > 1 else ("kh", "k")))
    taps = tuple(axis.var for axis in axes)

    def products(p, c):
        return te.sum(pixels[p, *taps].astype(dtype) * w[c, *taps].astype(dtype), axes)

    sums = te.compute((count, outputs), products, f"{name}_acc")
    return te.compute((x.shape[0], rows, columns, outputs), lambda n, h, v, c: result(
        sums[(n * rows + h) * columns + v, c], c), name)


def _direct(attrs: Attributes, inputs: Inputs, value, dtype: str, result: Result,
            name: str) -> Tensor:
    x, w = _image_and_weight(inputs, 5)
    _, *kernel, depth, lanes = w.shape
    if depth != x.shape[3]:
        raise ValueError(f"input channels must equal the weight's {depth}, not {x.shape[3]}")
    if not 0 <= w.shape[0] * lanes - attrs["channels"] < lanes:
        raise ValueError(f"channels must be those of {w.shape[0]} blocks of {lanes}, not "
                         f"{attrs['channels']}")
    kh, kw = image_axes(kernel, name)
    ci = te.reduce_axis(depth, f"{name}_ci")

    def products(n, h, v, c):
        pixel = _pixel(attrs, x, kernel, (n, h, v), (kh.var, kw.var), ci.var, value)
        return te.sum(pixel.astype(dtype) * w[c // lanes, kh.var, kw.var, ci.var,
                                              c % lanes].astype(dtype), (kh, kw, ci))

    shape = x.shape[0], *_windows(attrs, x, kernel), attrs["channels"]
    sums = te.compute(shape, products, f"{name}_acc")
    return te.compute(shape, lambda n, h, v, c: result(sums[n, h, v, c], c), name)


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


def _image_and_weight(inputs: Inputs, *ranks: int) -> tuple[Tensor, Tensor]:
    x, w = inputs[:2]
    if len(x.shape) != 4 or len(w.shape) not in ranks:
        raise ValueError(f"image and weight must have 4 and {' or '.join(map(str, ranks))} "
                         f"dimensions, not {x.shape} and {w.shape}")
    return x, w


def _windows(attrs: Attributes, x: Tensor, kernel: Sequence[int]) -> tuple[int, int]:
    """Windows in a column and in a row of the image."""
    return window_shape(x.shape[1:3], reach_of(attrs, kernel), attrs["strides"], attrs["pads"])


def _pixel(attrs: Attributes, x: Tensor, kernel: Sequence[int], window: tuple[Expr, Expr, Expr],
           taps: tuple[Expr, Expr], channel: Expr, value) -> Expr:
    """The pixel that a tap of a window [image, row, column] sees; the value outside of the
    image."""
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


def _conv2d_direct_meaning(attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    return _conv2d_meaning(attrs, x, _outputs_first(attrs, w), bias)


def _depthwise_meaning(attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    return _last(biased_sums(_sums_by_channels(attrs, x, w, 0), bias))


def _qconv2d_meaning(attrs, x: Array, w: Array, *parameters: Array) -> Array:
    sums = _sums(attrs, x, w, attrs["pad_value"])
    return _last(requantized_sums(attrs, x.dtype, sums, *parameters))


def _qconv2d_direct_meaning(attrs, x: Array, w: Array, *parameters: Array) -> Array:
    return _qconv2d_meaning(attrs, x, _outputs_first(attrs, w), *parameters)


def _qdepthwise_meaning(attrs, x: Array, w: Array, *parameters: Array) -> Array:
    sums = _sums_by_channels(attrs, x, w, attrs["pad_value"])
    return _last(requantized_sums(attrs, x.dtype, sums, *parameters))


def _sums(attrs, x: Array, w: Array, value) -> Array:
    """[N,Co,Ho,Wo], as those below."""
    w = w.reshape(*w.shape[:2], -1, x.shape[3])
    return convolved_sums(attrs, x.transpose(FROM_LAST), w.transpose(FROM_LAST), value)


def _sums_by_channels(attrs, x: Array, w: Array, value) -> Array:
    return convolved_sums({**attrs, "group": x.shape[3]}, x.transpose(FROM_LAST),
                          np.moveaxis(w, -1, 0)[:, None], value)


def _outputs_first(attrs, w: Array) -> Array:
    """The weight [Co,kh,kw,Ci] of one in blocks of outputs."""
    return np.moveaxis(w, -1, 1).reshape(-1, *w.shape[1:-1])[:attrs["channels"]]


def _last(image: Array) -> Array:
    return np.ascontiguousarray(image.transpose(TO_LAST))


# Records


_FACTORS = "x [N,H,W,Ci], w [Co,kh,kw,Ci] or [Co,kh,kw*Ci]"
_BLOCKS = "x [N,H,W,Ci], w [Co/k,kh,kw,Ci,k]"
_WINDOW = "strides, pads (top, left, bottom, right), dilations (1)"
_RESULT = f"{_WINDOW}, pad_value, zp, lo, hi, sums (int32)"


def _operator(name: str, summary: str, inputs: str, attributes: str,
              define: Callable[[Attributes, Inputs, str], Tensor], meaning, numbers: Numbers
              ) -> Operator:
    return Operator(name=name, summary=summary, inputs=inputs, attributes=attributes,
                    define=define, meaning=meaning, numbers=numbers, kind=Kind.COMPLEX,
                    contracts=numbers is Numbers.FLOAT, halves=numbers is Numbers.FLOAT,
                    scales=numbers is Numbers.INTEGER)


OPERATORS = (
    _operator("conv2d_last", "convolution of images with channels last",
              f"{_FACTORS}, bias [Co]?", _WINDOW, _conv2d_last, _conv2d_meaning, Numbers.FLOAT),
    _operator("conv2d_direct",
              "the same, several outputs at a time, for processors without vectors",
              f"{_BLOCKS}, bias [Co]?", f"{_WINDOW}, channels", _conv2d_direct,
              _conv2d_direct_meaning, Numbers.FLOAT),
    _operator("depthwise_last", "convolution of each channel of such images by itself",
              "x [N,H,W,C], w [kh,kw,C], bias [C]?", _WINDOW, _depthwise_last, _depthwise_meaning,
              Numbers.FLOAT),
    _operator("qconv2d_last", "convolution of integer images with channels last, requantized",
              f"{_FACTORS}, bias, mult, shift [Co]", _RESULT, _qconv2d_last, _qconv2d_meaning,
              Numbers.INTEGER),
    _operator("qconv2d_direct",
              "the same, several outputs at a time, for processors without vectors",
              f"{_BLOCKS}, bias, mult, shift [Co]", f"{_RESULT}, channels", _qconv2d_direct,
              _qconv2d_direct_meaning, Numbers.INTEGER),
    _operator("qdepthwise_last", "convolution of each channel of such images by itself",
              "x [N,H,W,C], w [kh,kw,C], bias, mult, shift [C]", _RESULT, _qdepthwise_last,
              _qdepthwise_meaning, Numbers.INTEGER),
)
