"""Where ONNX's reference implementation is wrong: what the specification says, in NumPy."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import load_op

OPSET = 26
CONTEXT = {"log": lambda *_: None, "opsets": {"": OPSET}, "verbose": 0, "new_ops": None,
           "existing_functions": {}, "evaluator_cls": ReferenceEvaluator}
"""How an operator of the reference implementation is made without an evaluator."""


Array = np.ndarray
Correction = Callable[[onnx.NodeProto, Sequence[Array | None]], Sequence[Any] | None]

OPERATORS: dict[str, Correction] = {}
"""By operator: the right outputs, or None where the reference implementation is right."""


def _shrink(node: onnx.NodeProto, arrays: Sequence[Array | None]) -> Sequence[Any] | None:
    """For integers the specification casts `bias` and `lambd` to the type of x first;
    the implementation adds them in float and cuts the sum.
    """
    x = arrays[0]
    if x is None or x.dtype.kind == "f":
        return None
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    bias, lambd = (np.array(given.get(name, usual)).astype(x.dtype)
                   for name, usual in (("bias", 0.0), ("lambd", 0.5)))
    below = np.where(x < np.negative(lambd), x + bias, np.zeros_like(x))
    return [np.where(x > lambd, x - bias, below).astype(x.dtype)]


def _global_max_pool(node: onnx.NodeProto, arrays: Sequence[Array | None]) -> Sequence[Any] | None:
    """The implementation takes the maximum over axes that are right for images alone."""
    x, = arrays
    assert x is not None
    return [x.max(axis=tuple(range(2, x.ndim)), keepdims=True)]


def _lrn(node: onnx.NodeProto, arrays: Sequence[Array | None]) -> Sequence[Any] | None:
    """The implementation computes as many channels as there are images in the batch."""
    x, = arrays
    assert x is not None
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    size, half = given["size"], (given["size"] - 1) // 2
    padded = np.pad(x**2, [(0, 0), (half, size - 1 - half), *[(0, 0)] * (x.ndim - 2)])
    total = sum(padded[:, place:place + x.shape[1]] for place in range(size))
    factor = given.get("bias", 1.0) + given.get("alpha", 1e-4) / size * total
    return [(x / factor ** given.get("beta", 0.75)).astype(x.dtype)]


def _conv_transpose(node: onnx.NodeProto, arrays: Sequence[Array | None]) -> Sequence[Any] | None:
    """In groups the implementation gives each group the biases of the first channels, and places
    groups of several channels one upon the other. Each group is computed by itself.
    """
    x, w, *rest = arrays
    assert x is not None and w is not None
    group = {one.name: one.i for one in node.attribute}.get("group", 1)
    if group == 1:
        return None
    alone = onnx.NodeProto()
    alone.CopyFrom(node)
    next(one for one in alone.attribute if one.name == "group").i = 1
    bias = rest[0] if rest and rest[0] is not None else np.zeros(w.shape[1] * group, w.dtype)
    parts = [load_op("", "ConvTranspose", OPSET)(alone, CONTEXT).run(*one)[0] for one in zip(
        np.split(x, group, 1), np.split(w, group), np.split(bias, group), strict=True)]
    return [np.concatenate(parts, 1)]


def _lp_normalization(node: onnx.NodeProto, arrays: Sequence[Array | None]
                      ) -> Sequence[Any] | None:
    """With p = 1 the implementation adds numbers up, not their magnitudes."""
    x, = arrays
    assert x is not None
    given = {one.name: one.i for one in node.attribute}
    if given.get("p", 2) != 1:
        return None
    norm = np.abs(x).sum(axis=given.get("axis", -1), keepdims=True)
    return [np.where(norm == 0, 0, x / norm).astype(x.dtype)]


def _gather_elements(node: onnx.NodeProto, arrays: Sequence[Array | None]) -> Sequence[Any] | None:
    """The implementation wraps indices that are outside, and errs along axes of more than 32."""
    x, places = arrays
    assert x is not None and places is not None
    axis = {one.name: one.i for one in node.attribute}.get("axis", 0)
    return [np.take_along_axis(x, places.astype(np.int64), axis)]


def _max_pool(node: onnx.NodeProto, arrays: Sequence[Array | None]) -> Sequence[Any] | None:
    """The implementation takes some uneven pads for those of another axis, and numbers greatest
    elements without their channels.
    """
    x, = arrays
    assert x is not None
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    kernel, rank = given["kernel_shape"], len(given["kernel_shape"])
    pads, steps, gaps = (given.get(name, [usual] * count) for name, usual, count in (
        ("pads", 0, 2 * rank), ("strides", 1, rank), ("dilations", 1, rank)))
    if given.get("ceil_mode") or given.get("storage_order") or "auto_pad" in given or (
            len(node.output) > 1 and any(pads)):
        return None
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    sides = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
    padded = np.pad(x, sides, constant_values=least)
    reach = [(size - 1) * gap + 1 for size, gap in zip(kernel, gaps, strict=True)]
    axes = tuple(range(2, 2 + rank))
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axes)
    taken = (slice(None), slice(None), *(slice(None, None, step) for step in steps),
             *(slice(None, None, gap) for gap in gaps))
    seen = windows[taken].reshape(*windows[taken].shape[:-rank], -1)
    if len(node.output) == 1:
        return [seen.max(-1)]
    first, places = np.unravel_index(seen.argmax(-1), kernel), np.indices(seen.shape[:-1])
    for axis in range(rank):
        places[2 + axis] = places[2 + axis] * steps[axis] + first[axis] * gaps[axis]
    return [seen.max(-1), np.ravel_multi_index(tuple(places), x.shape)]


def _quantize(node: onnx.NodeProto, arrays: Sequence[Array | None]) -> Sequence[Any] | None:
    """The implementation converts to int32 before it saturates, so far numbers change their sign.
    """
    x, scale, *rest = arrays
    zero = rest[0] if rest else None
    assert x is not None and scale is not None
    if zero is None or scale.size != 1 or not np.any(np.abs(x) >= 2.0**30 * scale):
        return None
    info = np.iinfo(zero.dtype)
    steps = np.rint(x / scale.reshape(())).astype(np.float64) + float(zero.reshape(()))
    return [np.clip(steps, info.min, info.max).astype(zero.dtype)]


OPERATORS.update({
    "QuantizeLinear": _quantize,
    "ConvTranspose": _conv_transpose,
    "GatherElements": _gather_elements,
    "GlobalMaxPool": _global_max_pool,
    "LRN": _lrn,
    "LpNormalization": _lp_normalization,
    "MaxPool": _max_pool,
    "Shrink": _shrink,
})


def of_type(node: onnx.NodeProto, arrays: Sequence[Array | None], results: Sequence[Any]
            ) -> list[Array]:
    """The results as arrays; reductions of int32, which NumPy widens, in the type of what is
    reduced.
    """
    first = arrays[0] if arrays else None
    if node.op_type.startswith("Reduce") and first is not None:
        return [np.asarray(result).astype(first.dtype) for result in results]
    return [np.asarray(result) for result in results]
