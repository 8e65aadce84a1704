"""Quantizations in steps of a scale, for all spellings of PyTorch.

With constant scales these become the quantizations that the passes know. They divide by the scale
where torch multiplies by its reciprocal, so a number that lies between two steps to the last bit
may take the other one; constants are quantized as torch does it. Computed scales (dynamic
quantization), blocks and other types become general arithmetic, in torch's order.

`blocks` are the extents along each axis of what shares a scale and a zero point; None is the
whole tensor.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.pytorch.aten.registry import promoted
from compiler.te import is_float

STEPS = ("int8", "uint8", "int16", "uint16")
Blocks = Sequence[int] | None


def quantized(t, x: Value, scale: Any, zero: Any, bounds: tuple[int, int], dtype: str,
              blocks: Blocks = None, zero_is_rounded: bool = False) -> Value:
    """Gives ``x / scale``, rounded half to even, plus the zero point, within the bounds. Some
    operators round after the zero point was added.
    """
    plain = None
    if x.dtype == "float32" and not x.constant and dtype in STEPS and not zero_is_rounded:
        plain = _constants(x, scale, zero, dtype, blocks)
    if plain is not None:
        return _plainly_quantized(t, x, plain, bounds)
    kind = _kind(x, scale)
    shown, numbers = _views(x, blocks)
    factor = (1 / _parameter(t, scale, numbers)).astype(kind)
    point = _parameter(t, zero, numbers).astype(kind)
    steps = x.reshape(*shown).astype(kind) * factor
    steps = t.emit("rint", steps + point) if zero_is_rounded else t.emit("rint", steps) + point
    return steps.maximum(bounds[0]).minimum(bounds[1]).astype(dtype).reshape(*x.shape)


def dequantized(t, q: Value, scale: Any, zero: Any = 0, blocks: Blocks = None,
                dtype: str = "float32") -> Value:
    """Gives ``(q - zero point) * scale`` in the element type."""
    plain = _constants(q, scale, zero, q.dtype, blocks) if q.dtype in (*STEPS, "int32") else None
    if plain is not None:
        return _emit(t, "dequantizelinear", q, plain).astype(dtype)
    kind = _kind(q, scale)
    shown, numbers = _views(q, blocks)
    point = _parameter(t, zero, numbers)
    between = kind if is_float(point.dtype) or is_float(q.dtype) else "int32"
    steps = q.reshape(*shown).astype(between) - point.astype(between)
    factor = _parameter(t, scale, numbers).astype(kind)
    return (steps.astype(kind) * factor).astype(dtype).reshape(*q.shape)


def along(x: Value, axis: int) -> tuple[int, ...]:
    """The blocks of scales along an axis."""
    return (*x.shape[:axis], 1, *x.shape[axis + 1:])


def extrema(t, x: Value, blocks: Blocks) -> tuple[Value, Value]:
    """The least and the greatest element of each block, at most and at least 0; with the axes that
    one number for each block has.
    """
    shown, numbers = _views(x, blocks)
    axes = [axis for axis, pair in enumerate(zip(shown, numbers, strict=True)) if len({*pair}) > 1]
    x = x.reshape(*shown)
    low, high = (t.emit(op, x, axes=axes, keepdims=1) if axes else x
                 for op in ("reduce_min", "reduce_max"))
    return low.minimum(0), high.maximum(0)


# With constant parameters

Plain = tuple[np.ndarray, np.ndarray, int]
"""Scales, zero points and the axis, as the graph's operators have them."""


def _constants(x: Value, scale: Any, zero: Any, dtype: str, blocks: Blocks) -> Plain | None:
    """The parameters, if the graph's quantizations have such: one, or one for each slice along an
    axis, positive scales, and zero points of the type.
    """
    known = [number.array if isinstance(number, Value) and number.constant else number
             for number in (scale, zero)]
    axis = _axis(x, blocks)
    if axis is None or any(isinstance(number, Value) for number in known):
        return None
    shape = () if axis < 0 else (x.shape[axis],)
    scales, zeros = (np.broadcast_to(np.asarray(number).reshape(-1 if shape else ()), shape)
                     for number in known)
    every, scales = np.iinfo(dtype), scales.astype(np.float32)
    if not np.all((scales > 0) & np.isfinite(scales) & (zeros == np.rint(zeros)) & (
            zeros >= every.min) & (zeros <= every.max)):
        return None
    return scales, zeros.astype(dtype), max(axis, 0)


def _axis(x: Value, blocks: Blocks) -> int | None:
    """The axis whose slices have scales of their own, -1 for one scale, None for other blocks."""
    cut = [axis for axis, size in enumerate(blocks or ()) if size < x.shape[axis]]
    if not cut:
        return -1
    return cut[0] if blocks is not None and len(cut) == 1 and blocks[cut[0]] == 1 else None


def _plainly_quantized(t, x: Value, plain: Plain, bounds: tuple[int, int]) -> Value:
    """One scale puts narrower bounds before the quantization, where integer operators have them."""
    scales, zeros, _ = plain
    every = np.iinfo(zeros.dtype)
    if bounds == (every.min, every.max):
        return _emit(t, "quantizelinear", x, plain)
    if scales.ndim:
        return _emit(t, "quantizelinear", x, plain).maximum(bounds[0]).minimum(bounds[1])
    low, high = (float((bound - int(zeros)) * scales) for bound in bounds)
    return _emit(t, "quantizelinear", t.emit("clip", x, lo=low, hi=high), plain)


def _emit(t, op: str, x: Value, plain: Plain) -> Value:
    scales, zeros, axis = plain
    return t.emit(op, x, t.constant(scales), t.constant(zeros), axis=axis)


# In general arithmetic

def _kind(x: Value, scale: Any) -> str:
    """The type of the arithmetic: float32 where torch has float64."""
    kind = promoted(x, scale)
    return kind if is_float(kind) and kind != "float64" else "float32"


def _views(x: Value, blocks: Blocks) -> tuple[list[int], list[int]]:
    """The shapes in which blocks have axes of their own, and one number stands for each block."""
    shown: list[int] = []
    numbers: list[int] = []
    for extent, size in zip(x.shape, blocks or x.shape, strict=True):
        if size < 1 or extent % size:
            raise NodeRefused(f"its blocks {list(blocks or ())} must divide the shape "
                              f"{list(x.shape)}")
        count = extent // size
        split = 1 < size < extent
        shown += [count, size] if split else [extent]
        numbers += [count, 1] if split else [count]
    return shown, numbers


def _parameter(t, number: Any, numbers: Sequence[int]) -> Value:
    """A number, or a tensor with one for each block, as a value that broadcasts to the view."""
    if not isinstance(number, Value):
        return t.constant(np.asarray(number))
    return number.reshape(*numbers) if number.size == prod(numbers) else number.reshape()
