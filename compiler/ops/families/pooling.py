"""Pooling: maxima, sums and averages of windows, of images and of tensors with any number of axes.

Pads hold what changes no result; those of `qavgpool` hold `pad_value`.
"""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from compiler import te
from compiler.ops.integers import fixed_point
from compiler.ops.integers.fixed_point import STORED, limits_of
from compiler.ops.integers.arithmetic import requantize
from compiler.ops.records.blocks import BlockForm
from compiler.ops.records.channels_last import ChannelsLast, with_channels
from compiler.ops.families.extrema import alike, beats
from compiler.ops.records.integer_forms import (Bounds, IntegerNode, QuantizedInputs, Stored,
                                                check_accumulator, clamp_to, multiplier_of, scaled)
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Array, Attributes, Inputs, Kind, Numbers, Operator, Shapes
from compiler.ops.families.requantization import (check_clamp, check_requantized, check_stored,
                                                  clamp_of, multipliers, requantized,
                                                  rescaled_array, wrapped)
from compiler.ops.records.rules import Types, need, need_arity, need_dtype, need_rank, of_stored
from compiler.ops.records.sums import kept, narrowed, sum_dtype
from compiler.ops.records.windows import (check_dilations, check_windows, image_axes, image_views,
                                           image_windows, kernel_axes, pixel_of, reach_of,
                                           views_of, windowed)
from compiler.te import Expr, Tensor


DILATED = ("maxpool", "qmaxpool")
"""Pools whose windows may have dilations."""
_INFINITY = float("inf")
_LOWEST = {"float32": -_INFINITY, "int8": -128, "uint8": 0, "int16": -(1 << 15), "uint16": 0}


# Types


def _maxpool_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    need(types[0].dtype in _LOWEST, node,
         f"input {node.inputs[0]!r} must be {', '.join(_LOWEST)}, not {types[0].dtype}")
    return _pooled(node, types)


def _avgpool_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    need_dtype(node, types, "float32")
    need(node.attrs["include_pad"] in (0, 1), node,
         f"include_pad must be 0 or 1, not {node.attrs['include_pad']!r}")
    return _pooled(node, types)


def _globalavgpool_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    need_dtype(node, types, "float32")
    return _averaged(node, types)


def _qavgpool_type(node: Node, types: Types) -> TensorType:
    """One multiplier for all windows, or one for each place of a window."""
    need_arity(node, types, 3)
    for name, type_, allowed in zip(node.inputs, types, (STORED, ("int32",), ("int32",)),
                                    strict=True):
        need(type_.dtype in allowed, node,
             f"input {name!r} must be {' or '.join(allowed)}, not {type_.dtype}")
    bias, value = node.attrs["bias"], node.attrs["pad_value"]
    need(-2**31 <= bias < 2**31, node, f"bias must be an int32, not {bias!r}")
    check_stored(node, "pad_value", value, types[0].dtype)
    check_clamp(node, types[0].dtype)
    result = _pooled(node, types)
    for name, type_ in zip(node.inputs[1:], types[1:], strict=True):
        need(type_.shape in (result.shape[2:], (1, 1)), node,
             f"input {name!r} must have shape {result.shape[2:]} or (1, 1), not {type_.shape}")
    need(types[1] == types[2], node,
         f"mult and shift must have one shape, not {types[1].shape} and {types[2].shape}")
    return result


def _qglobalavgpool_type(node: Node, types: Types) -> TensorType:
    check_requantized(node, types[0].dtype)
    return _averaged(node, types)


def _pooled(node: Node, types: Types) -> TensorType:
    """The type of a pool: each window makes one element of each channel."""
    x = types[0]
    need_rank(node, 0, x, 4)
    kernel, pads = node.attrs["kernel"], node.attrs["pads"]
    dilations = check_dilations(node) if node.op in DILATED else (1, 1)
    shape = (*x.shape[:2], *image_windows(node, x, kernel, dilations))
    need(max(pads[0], pads[2]) < kernel[0] and max(pads[1], pads[3]) < kernel[1], node,
         f"pads must be smaller than the kernel {kernel!r}, not {pads!r}")
    return TensorType(shape, x.dtype)


def _averaged(node: Node, types: Types) -> TensorType:
    """The type of global averages: one pixel a channel."""
    need_rank(node, 0, types[0], 4)
    return TensorType((*types[0].shape[:2], 1, 1), types[0].dtype)


# Expressions


def _maxpool(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``x`` [N,C,H,W] of any type with a lowest value, which is what it is padded with."""
    x, kernel, (sh, sw) = inputs[0], attrs["kernel"], attrs["strides"]
    dh, dw = attrs.get("dilations", (1, 1))
    shape, padded = windowed(attrs, x, reach_of(attrs, kernel), _LOWEST[x.dtype], name)
    kh, kw = image_axes(kernel, name)
    return te.compute(shape, lambda n, c, h, w: te.max(
        padded[n, c, h * sh + kh.var * dh, w * sw + kw.var * dw], (kh, kw)), name)


def _avgpool(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """Mean of each window of ``x``, summed in float64 and rounded once. Pads count as elements
    where ``include_pad`` is 1.
    """
    kernel, strides, pads = attrs["kernel"], attrs["strides"], attrs["pads"]
    total = _window_sums(attrs, inputs[0], 0, "float64", f"{name}_sum")

    def mean(n, c, *place):
        if attrs["include_pad"]:
            return (total[n, c, *place] / float(kernel[0] * kernel[1])).astype("float32")
        rows, columns = (_reached(*side) for side in zip(
            place, strides, kernel, pads[:2], inputs[0].shape[2:], strict=True))
        return (total[n, c, *place] / (rows * columns).astype("float64")).astype("float32")

    return te.compute(total.shape, lambda n, c, h, w: mean(n, c, h, w), name)


def _reached(index: Expr, stride: int, kernel: int, before: int, size: int) -> Expr:
    """Elements along one axis in window number `index`."""
    first = index * stride - before
    return te.minimum(first + kernel, size) - te.maximum(first, 0)


def _qavgpool(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """Sum of each window, requantized; the multipliers hold the number of elements."""
    x, mult, shift = inputs
    total = _window_sums(attrs, x, attrs["pad_value"], "int32", f"{name}_sum")
    each = mult.shape == total.shape[2:4]

    def average(n, c, h, w, *lane):
        place = (h, w) if each else (te.const(0, te.INDEX),) * 2
        return requantize(total[n, c, h, w, *lane], te.const(attrs["bias"], "int32"), mult[place],
                          shift[place], attrs["zp"], attrs["lo"], attrs["hi"]).astype(x.dtype)

    return te.compute(total.shape, _of_rank(len(total.shape), average), name)


def _window_sums(attrs: Attributes, x: Tensor, pad_value, dtype: str, name: str) -> Tensor:
    (sh, sw), kernel = attrs["strides"], attrs["kernel"]
    shape, padded = windowed(attrs, x, kernel, pad_value, name)
    kh, kw = image_axes(kernel, name)
    return te.compute(shape, _of_rank(len(shape), lambda n, c, h, w, *lane: te.sum(
        padded[n, c, h * sh + kh.var, w * sw + kw.var, *lane].astype(dtype), (kh, kw))), name)


def _of_rank(rank: int, element: Callable[..., Expr]) -> Callable[..., Expr]:
    """An element of an image, or of one whose pixels are rows."""
    return (lambda n, c, h, w: element(n, c, h, w)) if rank == 4 else (
        lambda n, c, h, w, lane: element(n, c, h, w, lane))


def _globalavgpool(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """Mean of each plane of ``x``, summed in float64 and rounded once."""
    x = inputs[0]
    total = _planes(x, "float64", f"{name}_sum")
    area = float(x.shape[2] * x.shape[3])
    return te.compute(total.shape,
                      lambda n, c, h, w: (total[n, c, h, w] / area).astype("float32"), name)


def _qglobalavgpool(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """Sum of each plane, requantized; the multiplier holds the area."""
    total = _planes(inputs[0], "int32", f"{name}_sum")
    return te.compute(total.shape, lambda n, c, h, w: requantized(
        attrs, total[n, c, h, w], inputs[0].dtype), name)


def _planes(x: Tensor, dtype: str, name: str) -> Tensor:
    rh, rw = (te.reduce_axis(extent, f"{name}_r{axis}")
              for axis, extent in zip("hw", x.shape[2:], strict=True))
    return te.compute((*x.shape[:2], 1, 1), lambda n, c, h, w: te.sum(
        x[n, c, rh.var, rw.var].astype(dtype), (rh, rw)), name)


def _pool(op: str) -> Callable[[Attributes, Inputs, str], Tensor]:
    def define(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
        x, kernel = inputs[0], attrs["kernel"]
        extents, wide = check_windows(x, kernel, attrs), sum_dtype(x.dtype)
        taps = kernel_axes(kernel, name)
        outside = te.neutral(op, x.dtype) if op == "max" else te.const(0, x.dtype)

        def element(n: Expr, c: Expr, *places: Expr):
            pixel = pixel_of(x, (n, c), places, [tap.var for tap in taps], attrs, kernel, extents,
                             outside)
            return (te.max if op == "max" else te.sum)(pixel.astype(wide), taps)

        return narrowed((*x.shape[:2], *extents), lambda *indices: element(*indices), x.dtype, name)
    return define


def _pool_place(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, kernel = inputs[0], attrs["kernel"]
    extents = check_windows(x, kernel, attrs)
    taps = kernel_axes(kernel, name)
    pitches = _pitches(x.shape)

    def pick(l, r):
        first = te.all_of(alike(r[0], l[0]), r[1] < l[1])
        right = te.any_of(beats("gt", r[0], l[0]), first)
        return te.select(right, r[0], l[0]), te.select(right, r[1], l[1])

    nowhere = te.const(2**63 - 1, "int64")
    reducer = te.reducer("place", pick, (te.neutral("max", x.dtype), nowhere))

    def element(n: Expr, c: Expr, *places: Expr):
        at = [tap.var for tap in taps]
        pixel = pixel_of(x, (n, c), places, at, attrs, kernel, extents, te.neutral("max", x.dtype))
        where = n * pitches[0] + c * pitches[1]
        inside = []
        for axis, (place, tap) in enumerate(zip(places, at, strict=True)):
            stride, step, low = (attrs[key][axis] for key in ("strides", "dilations", "pads"))
            index = place * stride + tap * step - low
            inside += [index >= 0, index < x.shape[2 + axis]]
            where = where + index * pitches[2 + axis]
        return reducer((pixel, te.select(te.all_of(*inside), where, nowhere)), taps)

    return te.compute((*x.shape[:2], *extents), lambda *indices: element(*indices),
                      (f"{name}_value", name))[1]


def _pitches(shape: Sequence[int]) -> list[int]:
    """The distance of neighbours along each axis."""
    return [prod(shape[axis + 1:]) for axis in range(len(shape))]


# Meanings


def _maxpool_meaning(attrs, x: Array) -> Array:
    lowest = -np.inf if x.dtype == np.float32 else np.iinfo(x.dtype).min
    views = image_views(x, attrs["kernel"], attrs["strides"], attrs["pads"], lowest,
                        attrs.get("dilations", (1, 1)))
    return views.max(axis=(4, 5))


def _avgpool_meaning(attrs, x: Array) -> Array:
    window = attrs["kernel"], attrs["strides"], attrs["pads"]
    counted = np.ones((1, 1, *x.shape[2:]))
    counts = image_views(counted, *window, attrs["include_pad"]).sum(axis=(4, 5))
    sums = image_views(x, *window, 0).sum(axis=(4, 5), dtype=np.float64)
    return (sums / counts).astype(np.float32)


def _globalavgpool_meaning(attrs, x: Array) -> Array:
    return x.mean(axis=(2, 3), keepdims=True, dtype=np.float64).astype(np.float32)


def _qavgpool_meaning(attrs, x: Array, mult: Array, shift: Array) -> Array:
    views = image_views(x, attrs["kernel"], attrs["strides"], attrs["pads"], attrs["pad_value"])
    sums = wrapped(views.sum(axis=(4, 5), dtype=np.float64))
    return fixed_point.requantize(sums + attrs["bias"], mult, shift, *clamp_of(attrs), x.dtype)


def _qavgpool_lanes_meaning(attrs, x: Array, mult: Array, shift: Array) -> Array:
    rows = [_qavgpool_meaning(attrs, x[..., lane], mult, shift) for lane in range(x.shape[-1])]
    return np.stack(rows, axis=-1)


def _qglobalavgpool_meaning(attrs, x: Array) -> Array:
    sums = wrapped(x.sum(axis=(2, 3), keepdims=True, dtype=np.float64))
    return rescaled_array(attrs, sums, x.dtype)


def _outside(op: str, dtype: np.dtype):
    if op == "sum":
        return 0
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _pool_meaning(op: str) -> Callable[..., Array]:
    def meaning(attrs: Attributes, x: Array) -> Array:
        views = views_of(attrs, x, attrs["kernel"], _outside(op, x.dtype))
        axes = tuple(range(-len(attrs["kernel"]), 0))
        return views.max(axes) if op == "max" else views.astype(
            x.dtype if x.dtype.kind in "iu" else np.float64).sum(axes)
    return meaning


def _pool_place_meaning(attrs: Attributes, x: Array) -> Array:
    rank = len(attrs["kernel"])
    numbers = np.arange(x.size).reshape(x.shape)
    values = views_of(attrs, x, attrs["kernel"], _outside("max", x.dtype))
    where = views_of(attrs, numbers, attrs["kernel"], 2**63 - 1)
    flat = values.shape[:-rank]
    best = values.reshape(*flat, -1).argmax(-1)
    return np.take_along_axis(where.reshape(*flat, -1), best[..., None], -1)[..., 0]


# Integer forms


def _avgpool_integer(view: QuantizedInputs, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    """Padded with the zero point, which adds nothing to a sum. One multiplier where all windows
    count as many elements, else one for each window.
    """
    x = view.activation(node.inputs[0])
    attrs = {name: node.attrs[name] for name in ("kernel", "strides", "pads")}
    area = attrs["kernel"][0] * attrs["kernel"][1]
    bias = -x.zp * area
    bound = -float(limits_of(x.dtype)[0]) * area + abs(bias)
    check_accumulator(np.array([bound]))
    counts = _counts(node, view.shape(node.inputs[0])[2:])
    if np.all(counts == counts[0, 0]):
        counts = counts[:1, :1]
    pairs = [multiplier_of(x.scale / (out.scale * int(count)), bound) for count in counts.flat]
    mult, shift = (np.array(column, np.int32).reshape(counts.shape)
                   for column in zip(*pairs, strict=True))
    return IntegerNode("qavgpool", (x.value,),
                       {**attrs, "pad_value": x.zp, "bias": bias} | clamp_to(out, bounds),
                       (("mult", mult), ("shift", shift)))


def _counts(node: Node, size: tuple[int, ...]) -> Array:
    """The number of elements that each window of an average counts, [Ho, Wo]."""
    (kh, kw), (sh, sw), (top, left, bottom, right) = (
        node.attrs[name] for name in ("kernel", "strides", "pads"))
    counted = np.pad(np.ones(size, int), ((top, bottom), (left, right)),
                     constant_values=node.attrs["include_pad"])
    windows = np.lib.stride_tricks.sliding_window_view(counted, (kh, kw))[::sh, ::sw]
    return windows.sum(axis=(2, 3))


def _globalavgpool_integer(view: QuantizedInputs, node: Node, out: Stored,
                           bounds: Bounds) -> IntegerNode:
    x = view.activation(node.inputs[0])
    rows, columns = view.shape(node.inputs[0])[2:]
    return scaled("qglobalavgpool", x, rows * columns, out, bounds)


def _always(attrs: Attributes, shapes: Shapes) -> bool:
    return True


# Records
_MANY = "kernel, strides, pads (before each axis, then after), dilations"
_AS_PIXELS = ChannelsLast(with_channels, "pool_max")

OPERATORS = (
    Operator(
        name="maxpool", summary="greatest element of each window", inputs="x",
        attributes="kernel, strides, pads, dilations (1, 1)", define=_maxpool,
        meaning=_maxpool_meaning,
        type=_maxpool_type, numbers=Numbers.FLOAT, kind=Kind.COMPLEX, channels_last=_AS_PIXELS,
        blocks=BlockForm("pool_max", with_channels), stored="qmaxpool", picks=True,
        homogeneous=True),
    Operator(
        name="avgpool", summary="mean of each window", inputs="x",
        attributes="kernel, strides, pads, include_pad: 1 when pads count as elements",
        define=_avgpool, meaning=_avgpool_meaning, type=_avgpool_type, numbers=Numbers.FLOAT,
        kind=Kind.COMPLEX, integer=_avgpool_integer, homogeneous=True),
    Operator(
        name="globalavgpool", summary="mean of each channel", inputs="x",
        define=_globalavgpool, meaning=_globalavgpool_meaning, type=_globalavgpool_type,
        numbers=Numbers.FLOAT, kind=Kind.REDUCTION, integer=_globalavgpool_integer,
        pixelwise=_always,
        blocks=BlockForm("mean", lambda attrs: {"axes": (2, 3), "keepdims": 1}),
        homogeneous=True),
    Operator(
        name="qmaxpool", summary="greatest element of each window of int8", inputs="x",
        attributes="kernel, strides, pads, dilations (1, 1)", define=_maxpool,
        meaning=_maxpool_meaning,
        type=of_stored(_pooled), numbers=Numbers.INTEGER, kind=Kind.COMPLEX,
        channels_last=_AS_PIXELS, blocks=BlockForm("pool_max", with_channels),
        pads=lambda attrs: _LOWEST["int8"]),
    Operator(
        name="qavgpool", summary="sum of each window of int8, requantized",
        inputs="x, mult, shift [Ho,Wo] or [1,1]",
        attributes="as maxpool, pad_value, bias, zp, lo, hi",
        define=_qavgpool, meaning=_qavgpool_meaning, type=_qavgpool_type, numbers=Numbers.INTEGER,
        kind=Kind.COMPLEX, data_inputs=1, parameters=multipliers,
        pads=lambda attrs: attrs["pad_value"], channels_last=ChannelsLast(pixels="qavgpool_lanes")),
    Operator(
        name="qavgpool_lanes", summary="the same of images whose pixels are rows",
        inputs="x [N,C,H,W,L], mult, shift [Ho,Wo] or [1,1]",
        attributes="those of qavgpool", define=_qavgpool, meaning=_qavgpool_lanes_meaning,
        numbers=Numbers.INTEGER, kind=Kind.COMPLEX),
    Operator(
        name="qglobalavgpool", summary="sum of each channel of int8, requantized", inputs="x",
        attributes="bias, mult, shift, zp, lo, hi",
        define=_qglobalavgpool, meaning=_qglobalavgpool_meaning,
        type=of_stored(_qglobalavgpool_type), numbers=Numbers.INTEGER, kind=Kind.REDUCTION,
        pixelwise=_always,
        blocks=BlockForm("qmean", lambda attrs: {**attrs, "axes": (2, 3), "keepdims": 1})),
    Operator(
        name="pool_max", summary="greatest element of each window, over any number of axes",
        inputs="x [N,C,...]", attributes=_MANY, define=_pool("max"),
        meaning=kept(_pool_meaning("max")), kind=Kind.COMPLEX),
    Operator(
        name="pool_sum", summary="sum of each window, over any number of axes",
        inputs="x [N,C,...]", attributes=_MANY, define=_pool("sum"),
        meaning=kept(_pool_meaning("sum")), kind=Kind.COMPLEX),
    Operator(
        name="pool_place", inputs="x [N,C,...]", attributes=_MANY,
        summary="number of the greatest element of each window, the first of equals, among all of "
                "x in row-major order",
        define=_pool_place, meaning=_pool_place_meaning),
)
