"""Quantization as graphs have it: scales that fit what is quantized, and dequantized constants."""

from typing import Any

import numpy as np

from bench.values.draw import LARGEST, Array, Drawer, Unfit, Value


def scale_of(d: Drawer, array: Array, dtype: str) -> tuple[float, int]:
    """A scale and a zero point for these numbers: most of them lie in the range, few are cut."""
    info = np.iinfo(dtype)
    low, high = min(float(array.min()), 0.0), max(float(array.max()), 0.0)
    span = max(high - low, 1e-3) * d.number(0.6, 1.3)
    scale = np.float32(span / (info.max - info.min))
    if d.chance(0.15):
        scale = np.float32(2.0 ** np.round(np.log2(scale)))
    usual = int(np.clip(round(info.min - low / float(scale)), info.min, info.max))
    middle = (info.min + info.max + 1) // 2
    zero = d.choice((usual, usual, usual, middle, info.min, int(d.rng.integers(info.min, info.max))
                     )) if low else d.choice((info.min, info.min, middle, usual))
    return float(scale), int(zero)


def quantized(d: Drawer, x: Value, dtype: str = "", like: Value | None = None) -> Value:
    """The float value quantized, with the scale of another value if told."""
    if x.dtype != "float32":
        raise Unfit("only floats are quantized")
    dtype = dtype or d.choice(d.types)
    scale, zero = scale_of(d, x.array, dtype) if like is None else (like.scale, like.zero)
    dtype = like.dtype if like is not None else dtype
    return d.emit("QuantizeLinear", x, d.constant(scale, "float32"), d.constant(zero, dtype),
                  steps=(scale, zero))


def dequantized(d: Drawer, x: Value) -> Value:
    if x.scale is None:
        raise Unfit("it has no scale")
    return d.emit("DequantizeLinear", x, d.constant(x.scale, "float32"),
                  d.constant(x.zero, x.dtype))


def real(d: Drawer, x: Value) -> Value:
    """The value as floats."""
    if x.dtype == "float32":
        return x
    return dequantized(d, x) if x.scale is not None else d.emit("Cast", x, to=1)


def weight(d: Drawer, array: Array, axis: int | None = None) -> "Value | str":
    """A constant of floats: dequantized from int8 more often than not, with a scale for each
    channel along the axis.
    """
    if d.chance(0.2):
        return d.constant(array)
    each = axis is not None and d.chance(0.5)
    others = tuple(place for place in range(array.ndim) if place != axis) if each else None
    most = np.maximum(np.abs(array).max(axis=others), 1e-3)
    dtype = d.choice(("int8", "int8", "int8", "int8", "uint8"))
    scale = np.asarray(most / (127 if dtype == "int8" else 120), np.float32)
    zero = np.zeros(scale.shape, dtype) if dtype == "int8" else np.full(scale.shape, 128, dtype)
    spread = scale.reshape([-1 if place == axis else 1 for place in range(array.ndim)]
                           ) if each else scale
    steps = np.clip(np.rint(array / spread) + int(zero.flat[0]), *_limits(dtype)).astype(dtype)
    attributes: dict[str, Any] = {"axis": axis} if each else {}
    return d.emit("DequantizeLinear", d.constant(steps), d.constant(scale), d.constant(zero),
                  **attributes)


def _limits(dtype: str) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return (-127 if dtype == "int8" else int(info.min)), int(info.max)


def operand(d: Drawer, x: Value) -> "Value | str":
    """Something of the same type that broadcasts with x: another value, x itself, or a constant."""
    fitting = [one for one in d.values if one.dtype == x.dtype and one is not x
               and _broadcast(one.shape, x.shape)]
    if fitting and d.chance(0.45):
        return d.choice(fitting)
    if d.chance(0.08):
        return x
    if x.dtype == "float32" and d.chance(0.2):
        return dequantized(d, quantized(d, d.input(d.normal(*x.shape))))
    shape = [extent if d.chance(0.6) else 1 for extent in x.shape]
    begin = d.below(len(shape) + 1) if d.chance(0.5) else 0
    shape = shape[begin:]
    if d.chance(0.12) and x.rank < 4:
        shape = [1] * d.below(3) + [1] * (x.rank - len(shape)) + shape
    if x.dtype == "float32":
        size = float(np.abs(x.array).max()) * d.number(0.1, 1)
        array = d.normal(*shape) * np.float32(np.clip(size, 0.1, LARGEST))
        return weight(d, array.astype(np.float32)) if d.chance(0.6) else d.constant(array)
    if x.dtype == "bool":
        return d.constant(d.rng.random(shape) < 0.5)
    source = d.rng.choice(x.array.reshape(-1), shape) if d.chance(0.5) else d.rng.integers(
        x.array.min(), int(x.array.max()) + 1, shape)
    return d.constant(np.asarray(source).astype(x.array.dtype))


def _broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    try:
        return bool(np.prod(np.broadcast_shapes(one, other)) <= 2048)
    except ValueError:
        return False
