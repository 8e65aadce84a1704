"""What every operator means, in NumPy: the judge of all that is compiled from a graph.

Float operators follow ONNX; products are summed in float64 and rounded to float32 once. Integer
operators are exact: sums of int8 products stay far below 2**53, so float64 matrix products hold
them, and accumulators wrap to int32 as the machine's do.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from compiler.graph.fixed_point import requantize
from compiler.graph.graph import Graph, Node

__all__ = ["check_inputs", "evaluate", "evaluate_node"]

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


def _windows(x: Array, kernel, strides, pads, value) -> Array:
    """A view [N, C, Ho, Wo, kh, kw] of x padded with the value."""
    top, left, bottom, right = pads
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)
    views = np.lib.stride_tricks.sliding_window_view(padded, tuple(kernel), axis=(2, 3))
    return views[:, :, ::strides[0], ::strides[1]]


def _correlate(x: Array, w: Array, strides, pads, value) -> Array:
    """Convolution sums in float64, [N, Co, Ho, Wo], a chunk of images at a time."""
    views = _windows(x, w.shape[2:], strides, pads, value)
    images, channels, rows, columns = views.shape[:4]
    depth = channels * w.shape[2] * w.shape[3]
    chunk = max(1, CHUNK_ELEMENTS // (rows * columns * depth))
    flat = w.reshape(w.shape[0], depth).T.astype(np.float64)
    sums = [_columns(views[i:i + chunk], depth) @ flat for i in range(0, images, chunk)]
    return np.concatenate(sums).reshape(images, rows, columns, -1).transpose(0, 3, 1, 2)


def _columns(views: Array, depth: int) -> Array:
    return views.transpose(0, 2, 3, 1, 4, 5).reshape(-1, depth).astype(np.float64)


def _channelwise(vector: Array, rank: int, axis: int) -> Array:
    return vector.reshape([-1 if i == axis else 1 for i in range(rank)]) if vector.ndim else vector


def _conv2d(attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    sums = _correlate(x, w, attrs["strides"], attrs["pads"], 0)
    return (sums if bias is None else sums + bias.reshape(1, -1, 1, 1)).astype(np.float32)


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
    sums = _wrapped(_correlate(x, w, attrs["strides"], attrs["pads"], attrs["pad_value"]))
    bias, mult, shift = (_channelwise(v, 4, 1) for v in (bias, mult, shift))
    return requantize(sums + bias, mult, shift, *_clamped(attrs))


def _qdense(attrs, x: Array, w: Array, bias: Array, mult: Array, shift: Array) -> Array:
    return requantize(_wrapped(_product(x, w.T)) + bias, mult, shift, *_clamped(attrs))


def _qmatmul(attrs, a: Array, b: Array) -> Array:
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
    return np.concatenate(made, axis=1)


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
    "conv2d": _conv2d, "dense": _dense, "maxpool": _maxpool, "avgpool": _avgpool,
    "globalavgpool": _globalavgpool,
    "matmul": lambda attrs, a, b: _product(a, b).astype(np.float32),
    "relu": lambda attrs, x: np.maximum(x, np.float32(0)),
    "clip": _clip,
    "leakyrelu": lambda attrs, x: np.where(x < 0, x * np.float32(attrs["alpha"]), x),
    "identity": lambda attrs, x: x,
    "add": lambda attrs, a, b: a + b,
    "reshape": _reshape,
    "upsample": lambda attrs, x: x.repeat(attrs["factors"][0], 2).repeat(attrs["factors"][1], 3),
    "slice": lambda attrs, x: x[tuple(map(slice, attrs["begin"], attrs["end"], attrs["step"]))],
    "concat": lambda attrs, *parts: np.concatenate(parts, attrs["axis"]),
    "quantizelinear": _quantizelinear, "dequantizelinear": _dequantizelinear,
    "qconv2d": _qconv2d, "qdense": _qdense, "qadd": _qadd, "qmaxpool": _maxpool,
    "qavgpool": _qavgpool, "qglobalavgpool": _qglobalavgpool, "qrescale": _qrescale,
    "qleakyrelu": _qleakyrelu, "qconcat": _qconcat, "qmatmul": _qmatmul,
    "quantize": _quantize, "dequantize": _dequantize,
    "to_int8": lambda attrs, x: (x ^ np.uint8(128)).view(np.int8),
    "to_uint8": lambda attrs, x: x.view(np.uint8) ^ np.uint8(128),
}
