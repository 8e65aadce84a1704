"""Pools of windows and of whole planes."""

from collections.abc import Sequence
from math import prod

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.nodes.registry import operator
from compiler.frontend.onnx.operators.windows import check_window, in_one_row, padded_sides, spatial

QUANTIZABLE = ("float32", "int8", "uint8")


def _windows(x: Value, kernel_shape, strides, pads, dilations, auto_pad: str,
             ceil_mode: int) -> tuple[dict, tuple[int, ...]]:
    """Attributes of the windows, and how far `ceil_mode` pads beyond the model's own pads."""
    rank = x.rank - 2
    if rank < 1:
        raise NodeRefused(f"input must have 3 dimensions at least, not {x.rank}")
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    check_window(rank, kernel_shape=kernel_shape, strides=strides, pads=pads, dilations=dilations)
    reach = [(k - 1) * step + 1 for k, step in zip(kernel_shape, dilations, strict=True)]
    sides = list(padded_sides(x, reach, strides, pads, auto_pad))
    more = [0] * rank
    if ceil_mode:
        more = [_beyond(size, sides[axis], sides[rank + axis], reach[axis], strides[axis])
                for axis, size in enumerate(x.shape[2:])]
    return ({"kernel": tuple(kernel_shape), "strides": tuple(strides), "pads": tuple(sides),
             "dilations": tuple(dilations)}, tuple(more))


def _beyond(size: int, before: int, after: int, reach: int, stride: int) -> int:
    """The padding that the last window lacks; it must begin in the input or in the leading pads."""
    whole = size + before + after
    count = -(-(whole - reach) // stride) + 1
    if (count - 1) * stride >= size + before:
        count -= 1
    return max((count - 1) * stride + reach - whole, 0)


def _extended(attrs: dict, more: Sequence[int]) -> dict:
    rank = len(more)
    after = (pad + extra for pad, extra in zip(attrs["pads"][rank:], more, strict=True))
    return {**attrs, "pads": (*attrs["pads"][:rank], *after)}


def _of_images(t, op: str, x: Value, attrs: dict, types: Sequence[str], **more) -> Value | None:
    """The pool as an operator of images, or of images of one row; None where that has no such
    windows, or elements.
    """
    kernel, strides, pads, dilations = (attrs[name] for name in (
        "kernel", "strides", "pads", "dilations"))
    rank = len(kernel)
    within = all(max(pads[axis], pads[rank + axis]) < size for axis, size in enumerate(kernel))
    if x.rank not in (3, 4) or x.dtype not in types or not within:
        return None
    if set(dilations) != {1}:
        if op != "maxpool":
            return None
        more["dilations"] = dilations if rank == 2 else in_one_row(dilations, 1)
    if rank == 2:
        return t.emit(op, x, kernel=kernel, strides=strides, pads=pads, **more)
    pooled = t.emit(op, x.unsqueeze(2), kernel=in_one_row(kernel, 1),
                    strides=in_one_row(strides, 1), pads=in_one_row(pads, 0), **more)
    return pooled.reshape(*pooled.shape[:2], pooled.shape[3])


@operator("MaxPool")
def max_pool(t, x, *, auto_pad, ceil_mode=0, dilations=None, kernel_shape, pads=None,
             storage_order=0, strides=None):
    attrs, more = _windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    attrs = _extended(attrs, more)
    pooled = _of_images(t, "maxpool", x, attrs, QUANTIZABLE) or t.emit("pool_max", x, **attrs)
    if len(t.outputs) < 2 or not t.outputs[1]:
        return pooled
    place = t.emit("pool_place", x, **attrs)
    return pooled, _by_columns(place, x.shape) if storage_order else place


def _by_columns(place: Value, shape: tuple[int, ...]) -> Value:
    """Converts element numbers to column-major order within each plane."""
    plane = prod(shape[2:])
    rest = place.tracer.emit("mod", place, plane)
    number = place - rest
    pitch = 1
    for axis in range(2, len(shape)):
        below = prod(shape[axis + 1:])
        number = number + rest / below * pitch
        rest = rest.tracer.emit("mod", rest, below)
        pitch *= shape[axis]
    return number


@operator("AveragePool")
def average_pool(t, x, *, auto_pad, ceil_mode=0, count_include_pad=0, dilations=None, kernel_shape,
                 pads=None, strides=None):
    attrs, more = _windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    told = count_include_pad and any(attrs["pads"])
    mean = None if any(more) and told else _of_images(      # what the last window lacks counts not
        t, "avgpool", x, _extended(attrs, more), ("float32",),
        include_pad=0 if any(more) else count_include_pad)
    if mean is not None:
        return mean
    rank = x.rank - 2
    sides = zip(attrs["pads"][:rank], attrs["pads"][rank:], strict=True)
    counted = np.pad(np.ones(x.shape[2:], np.float32), list(sides),
                     constant_values=1 if count_include_pad else 0)
    within = {**attrs, "pads": (*(0,) * rank, *more)}
    counts = t.emit("pool_sum", t.constant(counted[None, None]), **within)
    total = t.emit("pool_sum", x.astype("float32") if x.dtype != "float64" else x,
                   **_extended(attrs, more))
    return (total / counts.astype(total.dtype)).astype(x.dtype)


@operator("LpPool")
def lp_pool(t, x, *, auto_pad, ceil_mode=0, dilations=None, kernel_shape, p, pads=None,
            strides=None):
    attrs, more = _windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    powers = t.emit("pool_sum", _to_power(x.abs(), p), **_extended(attrs, more))
    return _root(powers, p)


def _to_power(x: Value, p: float) -> Value:
    return x if p == 1 else x * x if p == 2 else x ** p


def _root(x: Value, p: float) -> Value:
    return x if p == 1 else x.sqrt() if p == 2 else x ** (1 / p)


@operator("GlobalAveragePool")
def global_average_pool(t, x):
    if x.rank == 4 and x.dtype == "float32":
        return t.emit("globalavgpool", x)
    if x.rank == 3 and x.dtype == "float32":
        return t.emit("globalavgpool", x.unsqueeze(2)).reshape(*x.shape[:2], 1)
    return x.mean(*range(2, x.rank), keepdims=1)


@operator("GlobalMaxPool")
def global_max_pool(t, x):
    return x.max(*range(2, x.rank), keepdims=1)


@operator("GlobalLpPool")
def global_lp_pool(t, x, *, p):
    return _root(_to_power(x.abs(), p).sum(*range(2, x.rank), keepdims=1), p)


@operator("MaxUnpool")
def max_unpool(t, x, places, output_shape=None, *, kernel_shape, pads=None, strides=None):
    rank = spatial(x, "input")
    strides, pads = strides or (1,) * rank, pads or (0,) * (2 * rank)
    inner = [(size - 1) * stride - pads[axis] - pads[rank + axis] + kernel_shape[axis]
             for axis, (size, stride) in enumerate(zip(x.shape[2:], strides, strict=True))]
    inferred = (*x.shape[:2], *inner)
    shape = inferred if output_shape is None else tuple(t.integers(output_shape, "output shape"))

    def unpool(values: np.ndarray, where: np.ndarray) -> np.ndarray:
        for extents in (inferred, shape):
            t.check_size(extents, values.dtype.name)
        flat = np.zeros(prod(inferred), values.dtype)
        flat[where.reshape(-1)] = values.reshape(-1)
        wide = np.zeros(shape, values.dtype)
        wide[tuple(map(slice, inferred))] = flat.reshape(inferred)
        return wide

    return t.computed(unpool, x, places)


