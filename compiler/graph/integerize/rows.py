"""Softmax and normalizations of int8 rows: what `integerize` makes of them between
quantizations (`compiler/ops/families/row_functions.py` has their meaning).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import floor, log2

import numpy as np

from compiler.graph.integerize.quantized import QuantizedView
from compiler.graph.integerize.row_functions import (LayerNorm, Mask, RmsNorm, RowFunction,
                                                     Softmax, Values, recognized)
from compiler.ops.families.row_functions import (MOST_ELEMENTS, RECIPROCALS, ROOTS, Fractions,
                                                 exponentials, power_bits, rms_unit)
from compiler.ops.records.integer_forms import (Bounds, IntegerNode, StaysFloat, Stored, clamp_to,
                                                multiplier_of)
from compiler.ops.records.node import TensorType

KEPT = 127
"""What an element that counts has in a mask of int8; others have `MASKED`."""
UNDERFLOW = 104.0
"""The exponential of less than minus that is 0 in float32."""

MOST_EPSILON = 1 << 29
PROBABILITY = 2.0**-28
"""What a step of the product of a power and the reciprocal of their sum is."""


def row_function(view: QuantizedView, value: str) -> RowFunction | None:
    """The function of rows of a dequantized tensor that a float value is."""
    def constant(name: str) -> np.ndarray | None:
        if name in view.graph.constants:
            return view.graph.constants[name]
        node = view.producers.get(name)
        if node is None or node.op != "dequantizelinear" or not view.is_constant(name):
            return None
        array, scale, zero = (view.graph.constants[one].astype(np.float64) for one in node.inputs)
        return (array - zero) * scale if not scale.ndim else None

    found = recognized(Values(view.producers.get, constant, view.shape), value)
    return found if found is not None and view.is_computed(found.source) else None


def rows_of(view: QuantizedView, found: RowFunction, out: Stored, bounds: Bounds,
            stored_mask: Callable[[Mask, tuple[int, ...]], str]) -> Sequence[IntegerNode]:
    """The integer operators of a function, of which each reads the one before. `stored_mask` gives
    the int8 form of a mask of rows of a shape. Raises StaysFloat with the reason.
    """
    x, shape = view.activation(found.source), view.shape(found.source)
    if x.dtype != "int8" or len(shape) < 2:
        raise StaysFloat(f"its rows must be int8 of two dimensions or more, not "
                         f"{TensorType(shape, x.dtype)}")
    count = shape[-1]
    if count > MOST_ELEMENTS:
        raise StaysFloat(f"its rows have {count} elements; integers of 32 bits take "
                         f"{MOST_ELEMENTS}")
    if isinstance(found, Softmax) and found.mask is not None:
        return _masked_softmax(x, found.mask, shape, out, bounds, stored_mask)
    if isinstance(found, Softmax):
        return _softmax(x, out, bounds)
    if isinstance(found, RmsNorm):
        return (_rms_norm(found, x, count, out, bounds),)
    return (_layer_norm(found, x, count, out, bounds),)


def _masked_softmax(x: Stored, mask: Mask, shape: tuple[int, ...], out: Stored, bounds: Bounds,
                    stored_mask: Callable[[Mask, tuple[int, ...]], str]) -> Sequence[IntegerNode]:
    """Makes what doesn't count the least of all before the maximum is looked for, and behind that
    where the exponential is 0. Where a level leaves nothing of a row, all of it is least, and then
    counts alike.
    """
    if mask.low + 255 * x.scale > -UNDERFLOW:
        raise StaysFloat(f"its mask adds {mask.low:g} to numbers that differ by {255 * x.scale:g}")
    lost = _lost(mask, x, out)
    behind = before = stored_mask(mask, shape)
    if lost.any():
        before = stored_mask(replace(mask, level=np.zeros_like(mask.level), valid=(
            None if mask.valid is None else mask.valid & ~lost)), shape)
    below, powers = _softmax(x, out, bounds, masked=True)
    # The least element that counts, below the greatest one, is as low as what doesn't.
    seen = "max(x0, -127)" if np.exp(-255 * x.scale) > out.scale / 2 else "x0"
    return (IntegerNode("qmap", (x.value, before), {"function": "min(x0, x1)"}),
            replace(below, inputs=()),
            IntegerNode("qmap", (behind,), {"function": f"min({seen}, x1)"}), powers)


def _lost(mask: Mask, x: Stored, out: Stored) -> np.ndarray:
    """Tells the rows of which float32 keeps nothing beside the level added to them; of others the
    level must leave what is worth half a step of a probability.
    """
    step = np.spacing(np.minimum(np.abs(mask.level), np.float32(2)**126))
    greatest = max(x.zp + 128, 127 - x.zp) * x.scale
    lost = step > 4 * greatest
    if not (lost | (step <= 2 * out.scale)).all():
        raise StaysFloat(f"its mask adds {np.abs(mask.level).max():g} to whole rows, of which "
                         f"float32 keeps no more than steps of {step.max():g}")
    return lost


def _softmax(x: Stored, out: Stored, bounds: Bounds, masked: bool = False
             ) -> Sequence[IntegerNode]:
    mult, shift = multiplier_of(PROBABILITY / out.scale, 1 / PROBABILITY)
    high, low = exponentials(x.scale, masked)
    return (IntegerNode("qbelow_max", (x.value,), {}),
            IntegerNode("qsoftmax", (), {"mult": mult, "shift": shift}
                        | clamp_to(out, bounds),
                        (("high", high), ("low", low), ("reciprocals", RECIPROCALS))))


def _layer_norm(found: LayerNorm, x: Stored, count: int, out: Stored, bounds: Bounds
                ) -> IntegerNode:
    parts = Fractions(count)
    epsilon = _epsilon(found, x, count * 2.0**(parts.fine + parts.coarse))
    weight, bias = found.weight, found.bias / parts.unit
    finer = _finer((weight, 1 << 14), (bias, 1 << 30))
    mult, shift = multiplier_of(parts.unit * 2.0**-finer / out.scale, 2.0**31)
    return IntegerNode("qlayer_norm", (x.value,), {
        "epsilon": epsilon, "mult": mult, "shift": shift} | clamp_to(out, bounds),
        (("weight", _steps(weight, finer, np.int16)), ("bias", _steps(bias, finer, np.int32)),
         ("roots", ROOTS)))


def _rms_norm(found: RmsNorm, x: Stored, count: int, out: Stored, bounds: Bounds) -> IntegerNode:
    epsilon = _epsilon(found, x, count * 4.0**power_bits(count))
    steps = np.abs(found.weight) * rms_unit(count) / out.scale
    pairs = [multiplier_of(float(step), 2.0**15) for step in steps]
    mult, shift = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    sign = np.where(found.weight < 0, -1, 1).astype(np.int8)
    return IntegerNode("qrms_norm", (x.value,), {
        "zero": x.zp, "epsilon": epsilon} | clamp_to(out, bounds),
        (("mult", mult), ("shift", shift), ("roots", ROOTS),
         *((("sign", sign),) if (sign < 0).any() else ())))


def _epsilon(found: LayerNorm | RmsNorm, x: Stored, factor: float) -> int:
    """The epsilon of a mean square in steps of the stored sum, which is `factor` times as much."""
    epsilon = found.epsilon / x.scale**2 * factor
    if not 0 <= epsilon < MOST_EPSILON:
        raise StaysFloat(f"its epsilon {found.epsilon:g} is {epsilon:.3g} steps; integers of 32 "
                         f"bits take {MOST_EPSILON}")
    return round(epsilon)


def _finer(*limited: tuple[np.ndarray, int]) -> int:
    """By how many bits constants are stored finer: the most that leave each below its limit."""
    limits = [floor(log2(most / np.abs(array).max())) for array, most in limited if np.any(array)]
    return min(limits, default=0)


def _steps(array: np.ndarray, finer: int, dtype: type) -> np.ndarray:
    return np.rint(array * 2.0**finer).astype(dtype)
