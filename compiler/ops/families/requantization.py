"""The common parts of operators on quantized tensors: checks of their parameters, and results with
another scale. Activations are int8, or int16; results have the type of the activation.

Sums are exact: those of products stay far below 2**53, so float64 matrix products hold them in
NumPy, and accumulators wrap to int32, or to the type that the attribute ``sums`` says. One
multiplier for a whole tensor is given by the attributes ``bias``, ``mult`` and ``shift``; ``zp``,
``lo`` and ``hi`` are the zero point of the result and its bounds.

What LiteRT computes to the bit takes other numbers, which no machine has: with the attribute
``twice`` the multiplier has 31 bits, and results are rounded as `arithmetic.requantize_twice` does;
with ``scale`` a whole tensor has this scale in float32, and products have a scale of each channel
in float32, in the place of a multiplier and a shift, as in `arithmetic.scaled`. Processors without
float64 take an integer of 31 bits there, and one shift for all channels, the attribute ``shift``
(`compiler.graph.lowering.scales_as_integers`).
"""

from collections.abc import Sequence

import numpy as np

from compiler import te
from compiler.ops.integers import arithmetic, litert
from compiler.ops.integers.fixed_point import (MAX_MULTIPLIER, MAX_SHIFT, MIN_MULTIPLIER, STORED,
                                               limits_of, requantize)
from compiler.ops.records.node import Node
from compiler.ops.records.operator import Attributes, Inputs, Range, Shapes
from compiler.ops.records.rules import Types, need, need_arity
from compiler.te import Expr


SHIFT = "shift"
"""Attribute: the shift of all channels. Their scales are integers, their sums do not wrap."""

SUMS = ("int32", "int64")
"""Types of the sums of products. Those in int64 have at most 48 bits, so that requantization is
exact."""


def sums_of(attrs: Attributes) -> str:
    """The type in which products are summed."""
    return attrs.get("sums", "int32")


def check_stored(node: Node, name: str, value: int, dtype: str) -> None:
    """Checks that a number is one of the type."""
    low, high = limits_of(dtype)
    need(low <= value <= high, node, f"{name} must be an {dtype}, not {value!r}")


def check_clamp(node: Node, dtype: str = "int8") -> None:
    """The zero point of the result and its bounds."""
    zp, lo, hi = (node.attrs[name] for name in ("zp", "lo", "hi"))
    low, high = limits_of(dtype)
    check_stored(node, "zp", zp, dtype)
    need(low <= lo <= hi <= high, node,
         f"lo and hi must be ordered {dtype}, not {lo!r} and {hi!r}")


def check_requantized(node: Node, dtype: str = "int8") -> None:
    """The attributes of operators that carry one multiplier for the whole tensor."""
    if (scale := node.attrs.get("scale")) is not None:
        need(0 <= scale < np.inf, node, f"scale must be 0 or above, and finite, not {scale!r}")
        check_clamp(node, dtype)
        return
    bias, mult, shift = (node.attrs[name] for name in ("bias", "mult", "shift"))
    if node.attrs.get("twice"):
        need(1 << 30 <= mult < 1 << 31, node,
             f"mult must have 31 bits where it rounds twice, not be {mult!r}")
        need(31 <= shift <= 62, node,
             f"shift must be 31 to 62 where it rounds twice, not {shift!r}")
    else:
        check_multiplier(node, bias, mult, shift)
    check_clamp(node, dtype)


def check_multiplier(node: Node, bias: int, mult: int, shift: int) -> None:
    """Checks one multiplier of the machine, and a bias of 32 bits."""
    need(mult == 0 or MIN_MULTIPLIER <= mult <= MAX_MULTIPLIER, node,
         f"mult must be 0 or {MIN_MULTIPLIER} to {MAX_MULTIPLIER}, not {mult!r}")
    need(0 <= shift <= MAX_SHIFT, node, f"shift must be 0 to {MAX_SHIFT}, not {shift!r}")
    need(-2**31 <= bias < 2**31, node, f"bias must be an int32, not {bias!r}")


def check_channels(node: Node, types: Types) -> None:
    """Data and weight of int8 or int16, then three int32 vectors: bias, mult, shift; or five. Or
    data and weight of int8, then bias in int32, and scale in float32, or in int32 with the
    attribute `SHIFT`.
    """
    need_arity(node, types, 4, 5, 7)
    scaled = len(types) == 4
    factors = (("int8",),) * 2 if scaled else (STORED,) * 2
    of_scale = "int32" if SHIFT in node.attrs else "float32"
    numbers = (("int32",), (of_scale,)) if scaled else (("int32",),) * 5
    for name, type_, allowed in zip(node.inputs, types, (*factors, *numbers), strict=False):
        need(type_.dtype in allowed, node,
             f"input {name!r} must be {' or '.join(allowed)}, not {type_.dtype}")
    need(sums_of(node.attrs) in SUMS, node,
         f"sums must be {' or '.join(SUMS)}, not {sums_of(node.attrs)!r}")
    check_clamp(node, types[0].dtype)


def check_padded(node: Node, types: Types) -> None:
    """Checks what `check_channels` does, and the value for pads."""
    check_channels(node, types)
    check_stored(node, "pad_value", node.attrs["pad_value"], types[0].dtype)


def multipliers(parameters: Sequence[np.ndarray]) -> Sequence[Range]:
    """The ranges of multipliers and shifts, the last two parameters, or four where what is below
    zero has its own: what the machine has. Or that of scales; none beside a weight alone."""
    if len(parameters) == 1:
        return ()
    if len(parameters) == 3:
        scale = parameters[2]
        return (Range("scale", scale, (scale >= 0) & np.isfinite(scale), "0 or above, and finite"),)
    ranges: list[Range] = []
    first = 2 if len(parameters) == 6 else len(parameters) - 2
    for mult, shift in zip(parameters[first::2], parameters[first + 1::2], strict=True):
        fits = (mult == 0) | ((mult >= MIN_MULTIPLIER) & (mult <= MAX_MULTIPLIER))
        ranges += (Range("multiplier", mult, fits, f"0 or {MIN_MULTIPLIER} to {MAX_MULTIPLIER}"),
                   Range("shift", shift, (shift >= 0) & (shift <= MAX_SHIFT), f"0 to {MAX_SHIFT}"))
    return ranges


def rescaled(attrs: Attributes, x: Expr) -> Expr:
    """An element with another scale and zero point."""
    return requantized(attrs, x.astype("int32"), x.dtype)


def requantized(attrs: Attributes, acc: Expr, dtype: str = "int8") -> Expr:
    """An element of the type from an int32 sum, by the multiplier of the whole tensor."""
    if "scale" in attrs:
        return arithmetic.scaled(acc + attrs["bias"], te.const(attrs["scale"], "float32"),
                                 *clamp_of(attrs)).astype(dtype)
    if attrs.get("twice"):
        return arithmetic.requantize_twice(acc + attrs["bias"], *(attrs[name] for name in (
            "mult", "shift", "zp", "lo", "hi"))).astype(dtype)
    return arithmetic.requantize(
        acc, te.const(attrs["bias"], "int32"), te.const(attrs["mult"], "uint16"),
        te.const(attrs["shift"], "uint8"), attrs["zp"], attrs["lo"], attrs["hi"]).astype(dtype)


def of_channels(attrs: Attributes, acc: Expr, channel: Expr, parameters: Inputs, dtype: str
                ) -> Expr:
    """An element of the type from a sum of its channel: ``bias``, ``mult``, ``shift`` of each
    channel, and perhaps ``mult_below``, ``shift_below``: then the greater of both; or ``bias`` and
    ``scale``, which with the attribute ``shift`` is an integer."""
    bias, *factors = parameters
    if SHIFT in attrs:
        return arithmetic.requantize_by_word(acc + bias[channel], factors[0][channel], attrs[SHIFT],
                                           *clamp_of(attrs)).astype(dtype)
    if len(factors) == 1:
        return arithmetic.scaled(acc + bias[channel], factors[0][channel], attrs["zp"], attrs["lo"],
                                 attrs["hi"]).astype(dtype)
    made = [arithmetic.requantize(acc, bias[channel], mult[channel], shift[channel], attrs["zp"],
                                  attrs["lo"], attrs["hi"]).astype(dtype)
            for mult, shift in zip(factors[::2], factors[1::2], strict=True)]
    return te.maximum(*made) if len(made) == 2 else made[0]


def arrays_of_channels(attrs, totals: np.ndarray, factors: Sequence[np.ndarray],
                       dtype: np.dtype | type) -> np.ndarray:
    """The results of exact integers in float64, the bias among them, and multipliers and shifts, or
    scales, that broadcast to them."""
    if SHIFT in attrs:
        return requantize(totals.astype(np.int64), factors[0], attrs[SHIFT], *clamp_of(attrs),
                          dtype)
    if len(factors) == 1:
        return scaled_array(attrs, totals, factors[0])
    made = [requantize(totals, mult, shift, *clamp_of(attrs), dtype)
            for mult, shift in zip(factors[::2], factors[1::2], strict=True)]
    return np.maximum(*made) if len(made) == 2 else made[0]


def scaled_array(attrs, totals: np.ndarray, scale: np.ndarray | np.float32) -> np.ndarray:
    """int8 from exact integers in float64 and scales in float32: `arithmetic.scaled`."""
    steps = np.rint(totals.astype(np.float32) * scale)
    zp = attrs["zp"]
    return (np.clip(steps, attrs["lo"] - zp, attrs["hi"] - zp) + zp).astype(np.int8)


def is_by_channel(attrs: Attributes, shapes: Shapes) -> bool:
    """True if the axis of parameters is that of channels; of two dimensions, which meet images as
    rows and columns, it is none.
    """
    x = shapes[0]
    return attrs["axis"] == 1 and (x is None or len(x) != 2)


def clamp_of(attrs) -> tuple[int, int, int]:
    """Zero point of the result and its bounds, as `fixed_point.requantize` wants them."""
    return attrs["zp"], attrs["lo"], attrs["hi"]


def rescaled_array(attrs, sums: np.ndarray, dtype: np.dtype | type = np.int8) -> np.ndarray:
    """Elements from exact integers in float64, by the multiplier of the whole tensor."""
    if "scale" in attrs:
        return scaled_array(attrs, sums + attrs["bias"], np.float32(attrs["scale"]))
    if attrs.get("twice"):
        total = sums.astype(np.int64) + attrs["bias"]
        away = litert.requantized(total, attrs["mult"], 31 - attrs["shift"])
        return np.clip(away + attrs["zp"], attrs["lo"], attrs["hi"]).astype(dtype)
    return requantize(sums + attrs["bias"], attrs["mult"], attrs["shift"], *clamp_of(attrs), dtype)


def wrapped(sums: np.ndarray, dtype: str = "int32") -> np.ndarray:
    """Exact integers in float64, wrapped to int32 and back in float64; or as int64."""
    whole = sums.astype(np.int64)
    return whole if dtype == "int64" else whole.astype(np.int32).astype(np.float64)
