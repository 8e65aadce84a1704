"""What every operator means, in NumPy: the judge of all that is compiled from a graph.

Float operators follow ONNX; products are summed in float64 and rounded to float32 once. Integer
operators are exact: sums of int8 products stay far below 2**53, so float64 matrix products hold
them, and accumulators wrap to int32 as the machine's do.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from compiler.ops.fixed_point import requantize
from compiler.graph.graph import Graph, Node
from compiler.ops.general import GENERAL

__all__ = ["check_inputs", "evaluate", "evaluate_node", "outputs_first"]

Array = np.ndarray
CHUNK_ELEMENTS = 1 << 24


def evaluate(graph: Graph, inputs: Mapping[str, Array],
             values: Iterable[str] | None = None) -> dict[str, Array]:
    """The named values (the graph's outputs unless told) for the given inputs.

    Every input must be given with exactly its declared type.
    """
    known = dict(graph.constants) | check_inputs(graph, inputs)
    for node in graph.nodes:
        known[node.outputs[0]] = evaluate_node(node, [known[name] for name in node.inputs])
    return {name: known[name] for name in (graph.outputs if values is None else values)}


def check_inputs(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs, when there is one of the declared type for each of the graph's and no other;
    else ValueError.
    """
    checked = {name: _checked(graph, inputs, name) for name in graph.inputs}
    for name in inputs:
        if name not in graph.inputs:
            raise ValueError(f"input must be one of {', '.join(graph.inputs)}, not {name!r}")
    return checked


def _checked(graph: Graph, inputs: Mapping[str, Array], name: str) -> Array:
    if name not in inputs:
        raise ValueError(f"input {name!r} must be given")
    array, wanted = np.asarray(inputs[name]), graph.values[name]
    found = f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
    if found != str(wanted):
        raise ValueError(f"input {name!r} must be {wanted}, not {found}")
    return array


def evaluate_node(node: Node, inputs: Sequence[Array]) -> Array:
    """The node's output for these inputs. Float overflow gives infinities, as in ONNX."""
    with np.errstate(over="ignore", invalid="ignore"):
        return MEANING[node.op](node.attrs, *inputs)


def _windows(x: Array, kernel, strides, pads, value, dilations=(1, 1)) -> Array:
    """A view [N, C, Ho, Wo, kh, kw] of x padded with the value."""
    top, left, bottom, right = pads
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)
    reach = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True))
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    return views[:, :, ::strides[0], ::strides[1], ::dilations[0], ::dilations[1]]


def _convolved(attrs, x: Array, w: Array, value) -> Array:
    return _correlate(x, w, attrs["strides"], attrs["pads"], value,
                      attrs.get("dilations", (1, 1)), attrs.get("group", 1))


def _correlate(x: Array, w: Array, strides, pads, value, dilations, group: int) -> Array:
    """Convolution sums in float64, [N, Co, Ho, Wo], a chunk of images at a time."""
    views = _windows(x, w.shape[2:], strides, pads, value, dilations)
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


def _spread(attrs, x: Array, w: Array, value) -> Array:
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


def _channelwise(vector: Array, rank: int, axis: int) -> Array:
    return vector.reshape([-1 if i == axis else 1 for i in range(rank)]) if vector.ndim else vector


def _conv2d(attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    return _biased(_convolved(attrs, x, w, 0), bias)


def _biased(sums: Array, bias: Array | None) -> Array:
    return (sums if bias is None else sums + bias.reshape(1, -1, 1, 1)).astype(np.float32)


def _convtranspose2d(attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    return _biased(_spread(attrs, x, outputs_first(w, attrs.get("group", 1)), 0), bias)


def _dense(attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    sums = _product(x, w.T if attrs["trans_b"] else w)
    return (sums if bias is None else sums + bias).astype(np.float32)


def _product(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b.astype(np.float64)


def _maxpool(attrs, x: Array) -> Array:
    lowest = -np.inf if x.dtype == np.float32 else np.iinfo(x.dtype).min
    views = _windows(x, attrs["kernel"], attrs["strides"], attrs["pads"], lowest)
    return views.max(axis=(4, 5))


def _avgpool(attrs, x: Array) -> Array:
    window = attrs["kernel"], attrs["strides"], attrs["pads"]
    counted = np.ones((1, 1, *x.shape[2:]))
    counts = _windows(counted, *window, attrs["include_pad"]).sum(axis=(4, 5))
    sums = _windows(x, *window, 0).sum(axis=(4, 5), dtype=np.float64)
    return (sums / counts).astype(np.float32)


def _globalavgpool(attrs, x: Array) -> Array:
    return x.mean(axis=(2, 3), keepdims=True, dtype=np.float64).astype(np.float32)


def _quantizelinear(attrs, x: Array, scale: Array, zero: Array) -> Array:
    scale, point = (_channelwise(v, x.ndim, attrs["axis"]) for v in (scale, zero))
    limits = np.iinfo(zero.dtype)
    steps = np.rint(x / scale) + point.astype(np.float32)
    return np.clip(steps, limits.min, limits.max).astype(zero.dtype)


def _dequantizelinear(attrs, q: Array, scale: Array, zero: Array) -> Array:
    scale, point = (_channelwise(v, q.ndim, attrs["axis"]) for v in (scale, zero))
    return (q.astype(np.int64) - point).astype(np.float32) * scale


def _clamped(attrs) -> tuple[int, int, int]:
    return attrs["zp"], attrs["lo"], attrs["hi"]


def _wrapped(sums: Array) -> Array:
    """Exact integers in float64, wrapped to int32 and back in float64."""
    return sums.astype(np.int64).astype(np.int32).astype(np.float64)


def _qconv2d(attrs, x: Array, w: Array, bias: Array, mult: Array, shift: Array) -> Array:
    return _requantized(attrs, _convolved(attrs, x, w, attrs["pad_value"]), bias, mult, shift)


def _qconvtranspose2d(attrs, x: Array, w: Array, bias: Array, mult: Array, shift: Array) -> Array:
    return _requantized(attrs, _spread(attrs, x, w, attrs["pad_value"]), bias, mult, shift)


def _requantized(attrs, sums: Array, *parameters: Array) -> Array:
    bias, mult, shift = (_channelwise(v, 4, 1) for v in parameters)
    return requantize(_wrapped(sums) + bias, mult, shift, *_clamped(attrs))


def _qdense(attrs, x: Array, w: Array, bias: Array, mult: Array, shift: Array) -> Array:
    return requantize(_wrapped(_product(x, w.T)) + bias, mult, shift, *_clamped(attrs))


def _qmatmul(attrs, a: Array, b: Array) -> Array:
    a, b = (x.astype(np.int16) - attrs.get(zp, 0) for x, zp in ((a, "a_zp"), (b, "b_zp")))
    sums = _wrapped(_product(a, b.swapaxes(-1, -2) if attrs["trans_b"] else b))
    return requantize(sums + attrs["bias"], attrs["mult"], attrs["shift"], *_clamped(attrs))


def _qadd(attrs, a: Array, b: Array) -> Array:
    total = a.astype(np.float64) * attrs["ma"] + b.astype(np.float64) * attrs["mb"] + attrs["c"]
    return requantize(total, 1, attrs["shift"], *_clamped(attrs))


def _qavgpool(attrs, x: Array, mult: Array, shift: Array) -> Array:
    views = _windows(x, attrs["kernel"], attrs["strides"], attrs["pads"], attrs["pad_value"])
    sums = _wrapped(views.sum(axis=(4, 5), dtype=np.float64))
    return requantize(sums + attrs["bias"], mult, shift, *_clamped(attrs))


def _qglobalavgpool(attrs, x: Array) -> Array:
    sums = _wrapped(x.sum(axis=(2, 3), keepdims=True, dtype=np.float64))
    return requantize(sums + attrs["bias"], attrs["mult"], attrs["shift"], *_clamped(attrs))


def _qrescale(attrs, x: Array) -> Array:
    total = x.astype(np.float64) + attrs["bias"]
    return requantize(total, attrs["mult"], attrs["shift"], *_clamped(attrs))


def _clip(attrs, x: Array) -> Array:
    return np.minimum(np.maximum(x, np.float32(attrs["lo"])), np.float32(attrs["hi"]))


def _qconcat(attrs, *parts: Array) -> Array:
    scales = zip(attrs["bias"], attrs["mult"], attrs["shift"], strict=True)
    made = [requantize(part.astype(np.float64) + bias, mult, shift, *_clamped(attrs))
            for part, (bias, mult, shift) in zip(parts, scales, strict=True)]
    return np.concatenate(made, axis=attrs.get("axis", 1))


def _qleakyrelu(attrs, x: Array) -> Array:
    total = x.astype(np.float64) + attrs["bias"]
    return np.maximum(*(requantize(total, attrs[f"mult{side}"], attrs[f"shift{side}"],
                                   *_clamped(attrs)) for side in ("", "_below")))


def _quantize(attrs, x: Array) -> Array:
    steps = np.rint(x / np.float32(attrs["scale"])) + np.float32(attrs["zp"])
    return np.clip(steps, -128, 127).astype(np.int8)


def _dequantize(attrs, x: Array) -> Array:
    return (x.astype(np.float32) - np.float32(attrs["zp"])) * np.float32(attrs["scale"])


def _reshape(attrs, x: Array) -> Array:
    return x.reshape(attrs["shape"])


MEANING: dict[str, Callable[..., Array]] = {
    "conv2d": _conv2d, "convtranspose2d": _convtranspose2d,
    "dense": _dense, "maxpool": _maxpool, "avgpool": _avgpool, "globalavgpool": _globalavgpool,
    "matmul": lambda attrs, a, b: _product(a, b).astype(np.float32),
    "relu": lambda attrs, x: np.maximum(x, np.float32(0)),
    "clip": _clip,
    "leakyrelu": lambda attrs, x: np.where(x < 0, x * np.float32(attrs["alpha"]), x),
    "identity": lambda attrs, x: x,
    "reshape": _reshape,
    "upsample": lambda attrs, x: x.repeat(attrs["factors"][0], 2).repeat(attrs["factors"][1], 3),
    "slice": lambda attrs, x: x[tuple(map(slice, attrs["begin"], attrs["end"], attrs["step"]))],
    "concat": lambda attrs, *parts: np.concatenate(parts, attrs["axis"]),
    "quantizelinear": _quantizelinear, "dequantizelinear": _dequantizelinear,
    "qconv2d": _qconv2d, "qconvtranspose2d": _qconvtranspose2d,
    "qdense": _qdense, "qadd": _qadd, "qmaxpool": _maxpool,
    "qavgpool": _qavgpool, "qglobalavgpool": _qglobalavgpool, "qrescale": _qrescale,
    "qleakyrelu": _qleakyrelu, "qconcat": _qconcat, "qmatmul": _qmatmul,
    "quantize": _quantize, "dequantize": _dequantize,
    "to_int8": lambda attrs, x: (x ^ np.uint8(128)).view(np.int8),
    "to_uint8": lambda attrs, x: x.view(np.uint8) ^ np.uint8(128),
} | {name: operator.meaning for name, operator in GENERAL.items()}
