"""Between floats and integers with a scale, and elementwise arithmetic of int8."""

from collections.abc import Sequence

import numpy as np

from compiler import te
from compiler.ops.integers import arithmetic
from compiler.ops.records.broadcasting import along
from compiler.ops.families.elementwise import unary
from compiler.ops.integers.fixed_point import (MAX_MULTIPLIER, MAX_SHIFT, STORED, limits_of,
                                               requantize)
from compiler.ops.records.channels_last import ChannelsLast, by_axis
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import (Algebra, Array, Attributes, Inputs, Kind, Numbers,
                                           Operator, Range)
from compiler.ops.families.requantization import (check_clamp, check_requantized, check_stored,
                                                  clamp_of, is_by_channel, rescaled,
                                                  rescaled_array)
from compiler.ops.records.rules import TypeRule, Types, need, need_arity, need_dtype, of_stored
from compiler.te import Expr, Tensor


_LIMITS = {"int8": (-128.0, 127.0), "uint8": (0.0, 255.0), "int16": (-32768.0, 32767.0),
           "uint16": (0.0, 65535.0)}


_MOST_STEPS = 2**30

# Types


def _check_scale(node: Node, types: Types) -> tuple[TensorType, TensorType, TensorType]:
    need_arity(node, types, 3)
    x, scale, zero = types
    need(scale.dtype == "float32", node, f"scale must be float32, not {scale.dtype}")
    axis = node.attrs["axis"]
    extents = x.shape[axis:axis + 1] if axis >= 0 else None
    need(scale.shape in ((), extents), node,
         f"scale must be a scalar or match axis {axis} of {x}, not {scale}")
    need(zero.shape == scale.shape, node,
         f"zero point must have the shape of the scale {scale}, not {zero}")
    return x, scale, zero


def _quantizelinear_type(node: Node, types: Types) -> TensorType:
    x, _, zero = _check_scale(node, types)
    need(x.dtype == "float32", node,
         f"input {node.inputs[0]!r} must be float32, not {x.dtype}")
    need(zero.dtype in _LIMITS, node,
         f"zero point must be int8, uint8, int16 or uint16, not {zero.dtype}")
    return TensorType(x.shape, zero.dtype)


def _dequantizelinear_type(node: Node, types: Types) -> TensorType:
    x, _, zero = _check_scale(node, types)
    need(x.dtype in (*_LIMITS, "int32"), node,
         f"input {node.inputs[0]!r} must be int8, uint8, int16, uint16 or int32, not {x.dtype}")
    need(zero.dtype == x.dtype, node, f"zero point must be {x.dtype}, not {zero.dtype}")
    return TensorType(x.shape, "float32")


def _fake_quantize_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2)
    x, scale = types
    need(x.dtype == "float32" == scale.dtype, node,
         f"input and scale must be float32, not {x.dtype} and {scale.dtype}")
    axis, low, high = (node.attrs[name] for name in ("axis", "lo", "hi"))
    need(scale.shape in ((), x.shape[axis:axis + 1] if axis >= 0 else None), node,
         f"scale must be a scalar or match axis {axis} of {x}, not {scale}")
    need(-_MOST_STEPS <= low <= 0 <= high <= _MOST_STEPS and low < high, node,
         f"lo and hi must lie around 0, at most {_MOST_STEPS} away, not {low!r} and {high!r}")
    return x


def _qadd_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2)
    for name, type_ in zip(node.inputs, types, strict=True):
        need(type_.dtype in STORED, node,
             f"input {name!r} must be {' or '.join(STORED)}, not {type_.dtype}")
    a, b = types
    need(a == b, node, f"qadd inputs must have one type, not {a} and {b}")
    for name in ("ma", "mb"):
        need(0 <= node.attrs[name] <= MAX_MULTIPLIER, node,
             f"{name} must be 0 to {MAX_MULTIPLIER}, not {node.attrs[name]!r}")
    shift, c = node.attrs["shift"], node.attrs["c"]
    need(0 <= shift <= MAX_SHIFT, node, f"shift must be 0 to {MAX_SHIFT}, not {shift!r}")
    need(-2**31 <= c < 2**31, node, f"c must be an int32, not {c!r}")
    check_clamp(node, a.dtype)
    return a


def _qrescale_type(node: Node, types: Types) -> TensorType:
    check_requantized(node, types[0].dtype)
    return types[0]


def _converted(source: str, target: str) -> TypeRule:
    def cast(node: Node, types: Types) -> TensorType:
        need_arity(node, types, 1)
        need_dtype(node, types, source)
        return TensorType(types[0].shape, target)
    return cast


def _quantize_type(node: Node, types: Types) -> TensorType:
    target = node.attrs.get("dtype", "int8")
    need(target in STORED, node, f"dtype must be {' or '.join(STORED)}, not {target!r}")
    _check_one_scale(node, target)
    return _converted("float32", target)(node, types)


def _dequantize_type(node: Node, types: Types) -> TensorType:
    _check_one_scale(node, types[0].dtype)
    return TensorType(types[0].shape, "float32")


def _check_one_scale(node: Node, dtype: str) -> None:
    scale, zp = node.attrs["scale"], node.attrs["zp"]
    need(0 < scale < float("inf"), node, f"scale must be positive, not {scale!r}")
    check_stored(node, "zp", zp, dtype)


# Expressions


def _quantized(x: Expr, scale: Expr | float, point: Expr | float, dtype: str) -> Expr:
    """Rounded half to even, then moved by the zero point, then saturated."""
    return te.clamp(te.rint(x / scale) + point, *_LIMITS[dtype]).astype(dtype)


def _qadd(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """Two-scale sum of equal shapes, rounded once."""
    a, b = inputs
    scales = [attrs[key] for key in ("ma", "mb", "c", "shift", "zp", "lo", "hi")]
    return te.compute(a.shape, lambda *indices: arithmetic.add_scaled(
        a[indices].astype("int32"), b[indices].astype("int32"), *scales).astype(a.dtype), name)


def _quantizelinear(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``x`` by ``scale`` and ``zero_point``, both scalars or vectors along ``axis``."""
    x, scale, zero = inputs
    return te.compute(x.shape, lambda *indices: _quantized(
        x[indices], _element_along(scale, attrs, indices),
        _element_along(zero, attrs, indices).astype("float32"), zero.dtype), name)


def _dequantizelinear(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``(q - zero_point) * scale``: the difference exactly, the product in float32."""
    q, scale, zero = inputs

    def value(*indices):
        steps = q[indices].astype("int64") - _element_along(zero, attrs, indices).astype("int64")
        return steps.astype("float32") * _element_along(scale, attrs, indices)

    return te.compute(q.shape, value, name)


def _fake_quantize(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """Quantizes and dequantizes, for numbers of any width: steps are int32 on
    the way, so none is -0.
    """
    x, scale = inputs

    def value(*indices):
        step = _element_along(scale, attrs, indices)
        steps = te.rint(te.clamp(x[indices] / step, float(attrs["lo"]), float(attrs["hi"])))
        return steps.astype("int32").astype("float32") * step

    return te.compute(x.shape, value, name)


def _element_along(parameter: Tensor, attrs: Attributes, indices: Sequence[Expr]) -> Expr:
    return parameter[indices[attrs["axis"]]] if parameter.shape else parameter[()]


# Meanings


def _quantizelinear_meaning(attrs, x: Array, scale: Array, zero: Array) -> Array:
    scale, point = (along(v, x.ndim, attrs["axis"]) for v in (scale, zero))
    limits = np.iinfo(zero.dtype)
    steps = np.rint(x / scale) + point.astype(np.float32)
    return np.clip(steps, limits.min, limits.max).astype(zero.dtype)


def _dequantizelinear_meaning(attrs, q: Array, scale: Array, zero: Array) -> Array:
    scale, point = (along(v, q.ndim, attrs["axis"]) for v in (scale, zero))
    return (q.astype(np.int64) - point).astype(np.float32) * scale


def _fake_quantize_meaning(attrs, x: Array, scale: Array) -> Array:
    scale = along(scale, x.ndim, attrs["axis"])
    steps = np.rint(np.clip(x / scale, np.float32(attrs["lo"]), np.float32(attrs["hi"])))
    return steps.astype(np.int32).astype(np.float32) * scale


def _qadd_meaning(attrs, a: Array, b: Array) -> Array:
    total = a.astype(np.float64) * attrs["ma"] + b.astype(np.float64) * attrs["mb"] + attrs["c"]
    return requantize(total, 1, attrs["shift"], *clamp_of(attrs), a.dtype)


def _quantize_meaning(attrs, x: Array) -> Array:
    steps = np.rint(x / np.float32(attrs["scale"])) + np.float32(attrs["zp"])
    dtype = attrs.get("dtype", "int8")
    return np.clip(steps, *limits_of(dtype)).astype(dtype)


def _dequantize_meaning(attrs, x: Array) -> Array:
    return (x.astype(np.float32) - np.float32(attrs["zp"])) * np.float32(attrs["scale"])


# Records


def _positive(parameters: Sequence[Array]) -> Sequence[Range]:
    return (Range("scale", parameters[0], parameters[0] > 0, "positive"),)


def _keeps_scale(attrs: Attributes, types: Types, result: TensorType) -> bool:
    return (attrs["mult"] == 1 << attrs["shift"] and attrs["bias"] == -attrs["zp"]
            and (attrs["lo"], attrs["hi"]) == limits_of(result.dtype))


OPERATORS = (
    Operator(
        name="quantizelinear", summary="x / scale, rounded half to even, + zero_point, saturated",
        inputs="x, scale, zero_point", attributes="axis", define=_quantizelinear,
        meaning=_quantizelinear_meaning, type=_quantizelinear_type, numbers=Numbers.FLOAT,
        kind=Kind.ELEMENTWISE, data_inputs=1, parameters=_positive, pixelwise=is_by_channel,
        channels_last=ChannelsLast(by_axis)),
    Operator(
        name="dequantizelinear", summary="(q - zero_point) * scale",
        inputs="q, scale, zero_point", attributes="axis", define=_dequantizelinear,
        meaning=_dequantizelinear_meaning, type=_dequantizelinear_type, numbers=Numbers.FLOAT,
        kind=Kind.ELEMENTWISE, data_inputs=1, parameters=_positive, pixelwise=is_by_channel,
        channels_last=ChannelsLast(by_axis), algebra=Algebra(never_minus_zero=True)),
    Operator(
        name="fake_quantize", summary="x / scale, clipped, rounded half to even, * scale",
        inputs="x, scale", attributes="axis, lo and hi (in steps)", define=_fake_quantize,
        meaning=_fake_quantize_meaning, type=_fake_quantize_type, numbers=Numbers.FLOAT,
        kind=Kind.ELEMENTWISE, data_inputs=1, channels_last=ChannelsLast(by_axis),
        algebra=Algebra(never_minus_zero=True)),
    Operator(
        name="quantize", summary="float32 as int8 or int16 in stored form", inputs="x float32",
        attributes="scale, zp (stored form), dtype (int8)",
        define=unary(lambda attrs, x: _quantized(x, float(np.float32(attrs["scale"])),
                                                 float(attrs["zp"]), attrs.get("dtype", "int8"))),
        meaning=_quantize_meaning, type=_quantize_type, numbers=Numbers.CONVERSION,
        kind=Kind.ELEMENTWISE),
    Operator(
        name="dequantize", summary="int8 or int16 in stored form as float32", inputs="x int8|int16",
        attributes="scale, zp (stored form)",
        define=unary(lambda attrs, x: (x.astype("float32") - float(attrs["zp"]))
                     * float(np.float32(attrs["scale"]))),
        meaning=_dequantize_meaning, type=of_stored(_dequantize_type), numbers=Numbers.CONVERSION,
        kind=Kind.ELEMENTWISE, algebra=Algebra(never_minus_zero=True)),
    Operator(
        name="to_int8", summary="uint8 in stored form, x - 128", inputs="x uint8",
        define=unary(lambda attrs, x: (x ^ 128).astype("int8")),
        meaning=lambda attrs, x: (x ^ np.uint8(128)).view(np.int8),
        type=_converted("uint8", "int8"), numbers=Numbers.CONVERSION, kind=Kind.ELEMENTWISE,
        algebra=Algebra(inverse="to_uint8")),
    Operator(
        name="to_uint8", summary="uint8 of the stored form, x + 128", inputs="x int8",
        define=unary(lambda attrs, x: x.astype("uint8") ^ 128),
        meaning=lambda attrs, x: x.view(np.uint8) ^ np.uint8(128),
        type=_converted("int8", "uint8"), numbers=Numbers.CONVERSION, kind=Kind.ELEMENTWISE,
        algebra=Algebra(inverse="to_int8")),
    Operator(
        name="to_int16", summary="uint16 in stored form, x - 32768", inputs="x uint16",
        define=unary(lambda attrs, x: (x ^ 32768).astype("int16")),
        meaning=lambda attrs, x: (x ^ np.uint16(32768)).view(np.int16),
        type=_converted("uint16", "int16"), numbers=Numbers.CONVERSION, kind=Kind.ELEMENTWISE,
        algebra=Algebra(inverse="to_uint16")),
    Operator(
        name="to_uint16", summary="uint16 of the stored form, x + 32768", inputs="x int16",
        define=unary(lambda attrs, x: x.astype("uint16") ^ 32768),
        meaning=lambda attrs, x: x.view(np.uint16) ^ np.uint16(32768),
        type=_converted("int16", "uint16"), numbers=Numbers.CONVERSION, kind=Kind.ELEMENTWISE,
        algebra=Algebra(inverse="to_int16")),
    Operator(
        name="qadd", summary="(a * ma + b * mb + c) / 2**shift + zp, rounded once, clamped",
        inputs="a, b", attributes="ma, mb, c, shift, zp, lo, hi", define=_qadd,
        meaning=_qadd_meaning, type=_qadd_type, numbers=Numbers.INTEGER, kind=Kind.ELEMENTWISE),
    Operator(
        name="qrescale", summary="(x + bias) * mult / 2**shift + zp, rounded once, clamped",
        inputs="x", attributes="bias, mult, shift, zp, lo, hi", define=unary(rescaled),
        meaning=lambda attrs, x: rescaled_array(attrs, x.astype(np.float64), x.dtype),
        type=of_stored(_qrescale_type), numbers=Numbers.INTEGER, kind=Kind.ELEMENTWISE,
        algebra=Algebra(unchanged=_keeps_scale)),
)
