"""Readers with numbers that a run decides: scales, places and positions."""

import numpy as np

from bench.values.draw import Drawer, Unfit, Value
from bench.values.rules.registry import ROWS, rule
from bench.values.rules.steps import dequantized, quantized, scale_of


@rule("QuantizeLinear:channels", types=("float32",), ranks=ROWS)
def quantize_channels(d: Drawer, x: Value, op: str) -> Value:
    """With a scale and a zero point for each slice along an axis."""
    dtype, axis = d.choice(d.types), d.below(x.rank)
    steps = [scale_of(d, part, dtype) for part in np.moveaxis(x.array, axis, 0)]
    scales, zeros = zip(*steps, strict=True)
    return d.emit(op, x, d.constant(scales, "float32"), d.constant(zeros, dtype), axis=axis)


@rule("QuantizeLinear:computed", types=("float32",))
def quantize_computed(d: Drawer, x: Value, op: str) -> Value:
    """With a scale that is an input."""
    dtype = d.choice(d.types)
    scale, zero = scale_of(d, x.array, dtype)
    return d.emit(op, x, d.input(np.array(scale, np.float32)), d.constant(zero, dtype))


@rule("DynamicQuantizeLinear", types=("float32",))
def quantize_dynamically(d: Drawer, x: Value, op: str) -> Value:
    """With the scale and the zero point that fit, which give the numbers back."""
    if not np.any(x.array):
        raise Unfit("ONNX defines a scale of 0 for zeros, and its reference gives 1/255")
    steps = d.emit_all(op, x, outputs=3)
    return d.emit("DequantizeLinear", *steps) if d.chance(0.6) else steps[0]


@rule("Gather:computed", "ScatterElements:computed", ranks=ROWS)
def computed_places(d: Drawer, x: Value, op: str) -> Value:
    """At places that are an input; two of what is scattered may have the same."""
    axis = d.below(x.rank)
    if op == "Gather":
        places = d.input(d.rng.integers(0, x.shape[axis], d.choice(((), (1,), (3,)))))
        return d.emit(op, x, places, axis=axis, steps=(x.scale, x.zero))
    shape = [d.below(4, 1) if place == axis else extent for place, extent in enumerate(x.shape)]
    parts = d.constant(d.rng.choice(x.array.reshape(-1), shape))
    usual = {"float32": ("add", "max", "min", "none"), "bool": ("none",)}.get(
        x.dtype, ("max", "min", "none"))
    return d.emit(op, x, d.input(d.rng.integers(0, x.shape[axis], shape)), parts, axis=axis,
                  reduction=d.choice(usual))


@rule("Where:put", ranks=ROWS, operand=2)
def put(d: Drawer, x: Value, op: str) -> Value:
    """A row at a place of the cache that is an input, as exporters write it."""
    axis = d.below(x.rank)
    extent = x.shape[axis]
    numbers = d.constant(np.arange(extent).reshape(-1, *(1,) * (x.rank - 1 - axis)), "int64")
    here = d.emit("Equal", numbers, d.input(d.rng.integers(0, extent, (1,))))
    shape = [1 if place == axis else size for place, size in enumerate(x.shape)]
    row = d.input(d.rng.choice(x.array.reshape(-1), shape), x.scale, x.zero)
    if x.scale is None or d.chance(0.4):
        return d.emit(op, here, row, x, steps=(x.scale, x.zero))
    return quantized(d, d.emit(op, here, dequantized(d, row), dequantized(d, x)), like=x)


@rule("MaxPool:places", ranks=(4,))
def places_of_greatest(d: Drawer, x: Value, op: str) -> Value:
    """The second result of a pool: where the greatest element of each window is."""
    kernel = [d.below(min(extent, 3) + 1, 1) for extent in x.shape[2:]]
    return d.emit_all(op, x, outputs=2, kernel_shape=kernel,
                      strides=[d.below(3, 1) for _ in kernel])[1]
