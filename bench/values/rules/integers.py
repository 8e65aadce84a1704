"""Readers of a quantized tensor as the numbers that it holds."""

import numpy as np
from onnx import TensorProto

from bench.values.draw import Drawer, Unfit, Value
from bench.values.rules.registry import QUANTIZED, ROWS, rule
from bench.values.rules.steps import dequantized, quantized, scale_of


@rule("Cast", "CastLike")
def cast(d: Drawer, x: Value, op: str) -> Value:
    to = d.choice(("float32", "int32", "int64", "uint8", "int8", "int16", "uint16", "bool"))
    if x.dtype == "float32" and (to != "int32" and to != "int64" and to != "float32"):
        raise Unfit("out of range")
    if op == "CastLike":
        return d.emit(op, x, d.constant(0, to))
    return d.emit(op, x, to=TensorProto.DataType.Value(
        {"float32": "FLOAT"}.get(to, to.upper())))


@rule("DequantizeLinear", types=QUANTIZED)
def dequantize(d: Drawer, x: Value, op: str) -> Value:
    if x.scale is None or d.chance(0.1):
        scale, zero = scale_of(d, np.array([-1, 2], np.float32), x.dtype)
        return d.emit(op, x, d.constant(scale, "float32"), d.constant(zero, x.dtype))
    return dequantized(d, x)


@rule("DequantizeLinear:channels", types=QUANTIZED, ranks=ROWS)
def dequantize_channels(d: Drawer, x: Value, op: str) -> Value:
    axis = d.below(x.rank)
    scales = d.rng.uniform(0.01, 0.1, x.shape[axis]).astype(np.float32)
    zeros = d.rng.choice(x.array.reshape(-1), x.shape[axis])
    return d.emit(op, x, d.constant(scales), d.constant(zeros), axis=axis)


@rule("QuantizeLinear", types=("float32",))
def quantize(d: Drawer, x: Value, op: str) -> Value:
    return quantized(d, x)


@rule("Gather:index", types=QUANTIZED)
def index(d: Drawer, x: Value, op: str) -> Value:
    """Its elements, cast, as places of a table."""
    if np.abs(x.array.astype(int)).max() > 600:
        raise Unfit("places of a small table alone")
    places = d.emit("Cast", x, to=d.choice((TensorProto.INT64, TensorProto.INT32)))
    extent = int(np.abs(places.array).max()) + 2
    return d.emit(op, d.constant(d.normal(extent)), places)


@rule("OneHot", types=QUANTIZED)
def one_hot(d: Drawer, x: Value, op: str) -> Value:
    depth = d.constant(d.below(9, 2), "int64")
    return d.emit(op, x, depth, d.constant([0.5, 2], "float32"))


@rule("Shape", "Size")
def extent(d: Drawer, x: Value, op: str) -> Value:
    return d.emit(op, x)
