"""Activations that have a form on int8, and what gives back its input."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from compiler import te
from compiler.ops.families.elementwise import unary
from compiler.ops.families.requantization import (check_multiplier, check_requantized, clamp_of,
                                                  rescaled)
from compiler.ops.integers.fixed_point import requantize
from compiler.ops.records.integer_forms import (Bounds, IntegerNode, QuantizedInputs, StaysFloat,
                                                Stored, scaled)
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Algebra, Array, Attributes, Kind, Numbers, Operator
from compiler.ops.records.rules import Types, need, need_arity, need_dtype, of_stored


# Types


def _relu_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    need_dtype(node, types, "float32")
    return types[0]


def _clip_type(node: Node, types: Types) -> TensorType:
    for name in ("lo", "hi"):
        need(node.attrs[name] == node.attrs[name], node, f"{name} must be a number, not nan")
    return _relu_type(node, types)


def _leakyrelu_type(node: Node, types: Types) -> TensorType:
    alpha = node.attrs["alpha"]
    need(abs(alpha) < float("inf"), node, f"alpha must be finite, not {alpha!r}")
    return _relu_type(node, types)


def _same_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    return types[0]


def _qleakyrelu_type(node: Node, types: Types) -> TensorType:
    """The greater of two requantizations: the first where x + bias is positive."""
    check_requantized(node, types[0].dtype)
    mult, shift, below, less = (node.attrs[name] for name in
                                ("mult", "shift", "mult_below", "shift_below"))
    check_multiplier(node, 0, below, less)
    need(below << shift <= mult << less, node,
         f"slope below zero must be at most {mult} / 2**{shift}, not {below} / 2**{less}")
    return types[0]


# Expressions
_relu = unary(lambda attrs, x: te.maximum(x, 0))
_clip = unary(lambda attrs, x: te.minimum(te.maximum(x, _float32(attrs["lo"])),
                                          _float32(attrs["hi"])))
_leakyrelu = unary(lambda attrs, x: te.select(x < 0, x * _float32(attrs["alpha"]), x))
_qleakyrelu = unary(lambda attrs, x: te.maximum(rescaled(attrs, x), rescaled(
    {**attrs, "mult": attrs["mult_below"], "shift": attrs["shift_below"]}, x)))


def _float32(value: float) -> float:
    return float(np.float32(value))


# Meanings


def _clip_meaning(attrs, x: Array) -> Array:
    return np.minimum(np.maximum(x, np.float32(attrs["lo"])), np.float32(attrs["hi"]))


def _qleakyrelu_meaning(attrs, x: Array) -> Array:
    total = x.astype(np.float64) + attrs["bias"]
    return np.maximum(*(requantize(total, attrs[f"mult{side}"], attrs[f"shift{side}"],
                                   *clamp_of(attrs), x.dtype) for side in ("", "_below")))


# Integer forms


def _slope_hindrance(attrs: Attributes, shapes: Sequence[tuple[int, ...]]) -> str | None:
    alpha = attrs["alpha"]
    return None if 0 <= alpha <= 1 else f"its slope below zero must be 0 to 1, not {alpha:g}"


def _leakyrelu_integer(view: QuantizedInputs, node: Node, out: Stored,
                       bounds: Bounds) -> IntegerNode:
    if hindrance := _slope_hindrance(node.attrs, ()):
        raise StaysFloat(hindrance)
    alpha = node.attrs["alpha"]
    x = view.activation(node.inputs[0])
    above, below = (scaled("qleakyrelu", replace(x, scale=x.scale * slope), 1, out, bounds)
                    for slope in (1.0, alpha))
    attrs = {"mult_below": below.attrs["mult"], "shift_below": below.attrs["shift"]}
    return replace(above, attrs={**above.attrs, **attrs})


# Records
OPERATORS = (
    Operator(
        name="relu", summary="the greater of x and 0", inputs="x", define=_relu,
        meaning=lambda attrs, x: np.maximum(x, np.float32(0)), type=_relu_type,
        numbers=Numbers.FLOAT, kind=Kind.ELEMENTWISE, bounds=lambda attrs: (0.0, inf),
        homogeneous=True),
    Operator(
        name="clip", summary="x within bounds; hi where lo is above it", inputs="x",
        attributes="lo, hi: numbers, infinite ones too", define=_clip, meaning=_clip_meaning,
        type=_clip_type, numbers=Numbers.FLOAT, kind=Kind.ELEMENTWISE,
        bounds=lambda attrs: (attrs["lo"], attrs["hi"]),
        algebra=Algebra(unchanged=lambda attrs, types, result:
                        (attrs["lo"], attrs["hi"]) == (-inf, inf))),
    Operator(
        name="leakyrelu", summary="x, below zero times a slope", inputs="x",
        attributes="alpha: the slope below zero", define=_leakyrelu,
        meaning=lambda attrs, x: np.where(x < 0, x * np.float32(attrs["alpha"]), x),
        type=_leakyrelu_type, numbers=Numbers.FLOAT, kind=Kind.ELEMENTWISE,
        integer=_leakyrelu_integer, hindrance=_slope_hindrance, homogeneous=True,
        slope=lambda attrs: attrs["alpha"] if 0 <= attrs["alpha"] <= 1 else None,
        algebra=Algebra(unchanged=lambda attrs, types, result: attrs["alpha"] == 1)),
    Operator(
        name="identity", summary="x", inputs="x",
        attributes="apart: 1 where kernels store x here, as a step of training that computes it "
                   "twice asks for", define=unary(lambda attrs, x: x),
        meaning=lambda attrs, x: x, type=_same_type, numbers=Numbers.FLOAT, kind=Kind.ELEMENTWISE,
        algebra=Algebra(unchanged=lambda attrs, types, result: not attrs.get("apart"))),
    Operator(
        name="qleakyrelu", summary="the greater of two changes of scale: the slope below zero is "
                                   "not above the other", inputs="x",
        attributes="as qrescale, mult_below, shift_below", define=_qleakyrelu,
        meaning=_qleakyrelu_meaning, type=of_stored(_qleakyrelu_type), numbers=Numbers.INTEGER,
        kind=Kind.ELEMENTWISE),
)
