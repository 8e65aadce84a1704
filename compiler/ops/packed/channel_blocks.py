"""Images whose channels lie in blocks, as vectors of a processor want them: [N,C/16,H,W,16].

Channel c of an image is lane ``c % LANES`` of block ``c // LANES``. Lanes of the last block that
are no channel have weights and biases of zero. Weights lie in the order in which a kernel reads
them, the output channels of a block side by side: `conv2d_blocks` has [Co/16,Ci/group/16,kh,kw,16
inputs,16 outputs].

The order in which products are added is that of the weights' dimensions, whatever the processor.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from compiler import te
from compiler.ops.families.convolutions import convolved_sums, is_pointwise
from compiler.ops.records.windows import image_axes, reach_of, windowed
from compiler.ops.records.blocks import LANES, blocks_of
from compiler.ops.records.operator import Array, Attributes, Inputs, Kind, Numbers, Operator
from compiler.te import Expr, Tensor

# Arrays


def in_blocks(image: Array) -> Array:
    """[N,C,H,W] as [N,C/16,H,W,16], zeros in lanes that are no channel."""
    n, c, *size = image.shape
    wide = np.zeros((n, blocks_of(c) * LANES, *size), image.dtype)
    wide[:, :c] = image
    return np.ascontiguousarray(wide.reshape(n, -1, LANES, *size).transpose(0, 1, 3, 4, 2))


def from_blocks(blocks: Array) -> Array:
    """[N,C/16,H,W,16] as [N,C,H,W], with all lanes."""
    n, b, h, w, lanes = blocks.shape
    return blocks.transpose(0, 1, 4, 2, 3).reshape(n, b * lanes, h, w)


def outputs_last(weight: Array) -> Array:
    """[Co,...] as [Co/16,...,16]."""
    wide = np.zeros((blocks_of(len(weight)) * LANES, *weight.shape[1:]), weight.dtype)
    wide[:len(weight)] = weight
    return np.moveaxis(wide.reshape(-1, LANES, *weight.shape[1:]), 1, -1)


def packed_weight(weight: Array) -> Array:
    """[Co,Ci,kh,kw] for `conv2d_blocks`."""
    inputs = np.zeros((len(weight), blocks_of(weight.shape[1]) * LANES, *weight.shape[2:]),
                      weight.dtype)
    inputs[:, :weight.shape[1]] = weight
    cut = outputs_last(inputs)                                      # [Co/16,Ci,kh,kw,16]
    blocks, _, kh, kw, lanes = cut.shape
    cut = cut.reshape(blocks, -1, LANES, kh, kw, lanes).transpose(0, 1, 3, 4, 2, 5)
    return np.ascontiguousarray(cut)


def packed_stem(weight: Array) -> Array:
    """[Co,Ci,kh,kw] for `conv2d_into_blocks`."""
    return np.ascontiguousarray(outputs_last(weight))


def packed_depthwise(weight: Array) -> Array:
    """[C,1,kh,kw] for `depthwise_blocks`."""
    return np.ascontiguousarray(outputs_last(weight[:, 0]))


# Expressions


def _conv2d_blocks(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, w = _image(inputs, 6)
    group = attrs.get("group", 1)
    outputs, depth = w.shape[:2]
    if x.shape[1] != depth * group or outputs % group or w.shape[4:] != (LANES, LANES):
        raise ValueError(f"weight must be of the {x.shape[1]} blocks of channels in {group} "
                         f"groups, not {w.shape}")
    each = outputs // group
    cb, ci = te.reduce_axis(depth, f"{name}_cb"), te.reduce_axis(LANES, f"{name}_ci")

    def factors(b: Expr, taps: tuple[Expr, Expr], lane: Expr):
        block = cb.var if group == 1 else b // each * depth + cb.var
        return block, ci.var, w[b, cb.var, *taps, ci.var, lane]

    return _summed(attrs, x, w.shape[2:4], outputs, factors, (cb,), (ci,), inputs[2:], name)


def _depthwise_blocks(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, w = _image(inputs, 4)
    if w.shape[0] != x.shape[1] or w.shape[3] != LANES:
        raise ValueError(f"weight must be of {x.shape[1]} blocks of channels, not {w.shape}")
    return _summed(attrs, x, w.shape[1:3], w.shape[0],
                   lambda b, taps, lane: (b, lane, w[b, *taps, lane]), (), (), inputs[2:], name)


def _image(inputs: Inputs, rank: int) -> tuple[Tensor, Tensor]:
    x, w = inputs[:2]
    if len(x.shape) != 5 or x.shape[4] != LANES or len(w.shape) != rank:
        raise ValueError(f"image and weight must have 5 dimensions, the last {LANES}, and {rank}, "
                         f"not {x.shape} and {w.shape}")
    return x, w


Factors = Callable[[Expr, tuple[Expr, Expr], Expr], tuple[Expr, Expr, Expr]]


def _summed(attrs: Attributes, x: Tensor, kernel: Sequence[int], outputs: int, factors: Factors,
            outer: tuple[te.Axis, ...], inner: tuple[te.Axis, ...], bias: Inputs,
            name: str) -> Tensor:
    """Sums over windows of x in blocks. ``factors(block, taps, lane)`` are block and lane of x, and
    the weight; kernel rows and columns are between the axes `outer` and `inner`.
    """
    acc = name if not bias else f"{name}_acc"
    shape, padded = windowed(attrs, x, reach_of(attrs, kernel), 0, acc)
    (sh, sw), (dh, dw) = attrs["strides"], attrs.get("dilations", (1, 1))
    kh, kw = image_axes(kernel, acc)

    def products(n, b, h, w, c):
        block, lane, weight = factors(b, (kh.var, kw.var), c)
        pixel = padded[n, block, h * sh + kh.var * dh, w * sw + kw.var * dw, lane]
        return te.sum(pixel * weight, (*outer, kh, kw, *inner))

    sums = te.compute((shape[0], outputs, *shape[2:]), products, acc)
    return _biased(sums, bias, name)


def _conv2d_into_blocks(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, w, *bias = inputs
    if len(x.shape) != 4 or len(w.shape) != 5 or w.shape[1] != x.shape[1] or w.shape[4] != LANES:
        raise ValueError(f"image and weight must be [N,Ci,H,W] and [Co/{LANES},Ci,kh,kw,{LANES}], "
                         f"not {x.shape} and {w.shape}")
    acc = name if not bias else f"{name}_acc"
    shape, padded = windowed(attrs, x, reach_of(attrs, w.shape[2:4]), 0, acc)
    (sh, sw), (dh, dw) = attrs["strides"], attrs.get("dilations", (1, 1))
    ci, (kh, kw) = te.reduce_axis(x.shape[1], f"{acc}_ci"), image_axes(w.shape[2:4], acc)

    def products(n, b, h, w_, c):
        pixel = padded[n, ci.var, h * sh + kh.var * dh, w_ * sw + kw.var * dw]
        return te.sum(pixel * w[b, ci.var, kh.var, kw.var, c], (ci, kh, kw))

    sums = te.compute((shape[0], w.shape[0], *shape[2:], LANES), products, acc)
    return _biased(sums, bias, name)


def _biased(sums: Tensor, bias: Inputs, name: str) -> Tensor:
    if not bias:
        return sums
    added, = bias
    return te.compute(sums.shape, lambda n, b, h, w, c: sums[n, b, h, w, c] + added[b, c], name)


# Meanings


def _conv2d_blocks_meaning(attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    blocks, depth, kh, kw, _, lanes = w.shape
    weight = w.transpose(0, 5, 1, 4, 2, 3).reshape(blocks * lanes, depth * LANES, kh, kw)
    return _meant(attrs, from_blocks(x), weight, bias)


def _conv2d_into_blocks_meaning(attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    return _meant(attrs, x, np.moveaxis(w, 4, 1).reshape(-1, *w.shape[1:4]), bias)


def _depthwise_blocks_meaning(attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    weight = np.moveaxis(w, 3, 1).reshape(-1, 1, *w.shape[1:3])
    return _meant({**attrs, "group": len(weight)}, from_blocks(x), weight, bias)


def _meant(attrs, image: Array, weight: Array, bias: Array | None) -> Array:
    sums = convolved_sums(attrs, image, weight, 0)
    if bias is not None:
        sums = sums + bias.reshape(1, -1, 1, 1)
    return in_blocks(sums.astype(np.float32))


# Records

_WINDOW = "strides, pads (top, left, bottom, right), dilations (1)"


def _operator(name: str, summary: str, inputs: str, attributes: str, define, meaning) -> Operator:
    return Operator(name=name, summary=summary, inputs=inputs, attributes=attributes,
                    define=define, meaning=meaning, numbers=Numbers.FLOAT, kind=Kind.COMPLEX,
                    contracts=True)


OPERATORS = (
    replace(_operator("conv2d_blocks", "convolution of images in blocks of 16 channels",
                      "x [N,Ci/16,H,W,16], w [Co/16,Ci/group/16,kh,kw,16,16], bias [Co/16,16]?",
                      f"{_WINDOW}, group (1)", _conv2d_blocks, _conv2d_blocks_meaning),
            pixelwise=is_pointwise),
    _operator("depthwise_blocks", "convolution of each channel of such images by itself",
              "x [N,C/16,H,W,16], w [C/16,kh,kw,16], bias [C/16,16]?", _WINDOW,
              _depthwise_blocks, _depthwise_blocks_meaning),
    _operator("conv2d_into_blocks", "convolution of images of few channels into such blocks",
              "x [N,Ci,H,W], w [Co/16,Ci,kh,kw,16], bias [Co/16,16]?", _WINDOW,
              _conv2d_into_blocks, _conv2d_into_blocks_meaning),
)
