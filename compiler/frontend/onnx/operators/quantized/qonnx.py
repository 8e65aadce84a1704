"""QONNX: operators that quantize floats to floats, as FPGA flows write them.

Activations of up to 16 bits with one scale are quantized and dequantized by the graph's own
operators; weights become constants that are dequantized. What neither has is float arithmetic.
"""

from collections.abc import Callable

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.nodes.registry import operator
from compiler.frontend.onnx.operators.quantized.between import Codes
from compiler.frontend.onnx.operators.quantized.linear import (dequantize_linear, positive,
                                                               quantize_linear)

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
NEAREST = ("ROUND", "HALF_EVEN")


def of_qonnx(*names: str, since: int = 1) -> Callable[[Callable], Callable]:
    """Registers a function under these names in every domain of QONNX."""
    def register(function: Callable) -> Callable:
        for domain in DOMAINS:
            operator(*names, since=since, domain=domain)(function)
        return function
    return register


@of_qonnx("Quant", "IntQuant")
def quant(t, x, scale, zero, bits, *, narrow=0, rounding_mode="ROUND", signed=1):
    scale, zero = _one(scale), _one(zero)
    width = _whole(t, bits, "bit width")
    if width == 1 and signed:
        return _signs(t, x / scale + zero, scale, zero, x.role)
    low, high = bounds_of(width, signed, narrow)
    dtype = _form(t, x, scale, zero, low, high)
    if dtype and rounding_mode.upper() in NEAREST:
        return _between(t, x, scale, zero, low, high, dtype)
    steps = (x / scale + zero).maximum(float(low)).minimum(float(high))
    return _stored(t, rounded(t, steps, rounding_mode), scale, zero, low, high, x.role)


@of_qonnx("BipolarQuant")
def bipolar_quant(t, x, scale):
    return _signs(t, x, _one(scale), t.constant(np.float32(0)), x.role)


@of_qonnx("Trunc")
def trunc(t, x, scale, zero, in_bits, out_bits, *, rounding_mode="FLOOR"):
    """The result has the scale of the input, as version 1 is documented."""
    scale, zero = _one(scale), _one(zero)
    dropped = _whole(t, in_bits, "bit width") - _whole(t, out_bits, "bit width of the result")
    steps = t.emit("rint", x / scale + zero) / 2.0 ** dropped
    return (rounded(t, steps, rounding_mode) - zero) * scale


@of_qonnx("Trunc", since=2)
def trunc_to_scale(t, x, scale, zero, in_bits, out_scale, out_bits, *, narrow=0,
                   rounding_mode="FLOOR", signed=1):
    """Divides by the power of two that is nearest to the quotient of the scales."""
    scale, zero, out_scale = _one(scale), _one(zero), _one(out_scale)
    width = _whole(t, out_bits, "bit width of the result")
    scales = t.demand(out_scale, "scale of the result"), t.demand(scale, "scale")
    if not (positive(scale) and positive(out_scale)):
        raise NodeRefused("every scale must be positive and finite")
    quotient = scales[0] / scales[1]
    power = t.constant((2.0 ** np.rint(np.log2(quotient))).astype(np.float32))
    low, high = bounds_of(width, signed, narrow)
    steps = t.emit("rint", x / scale + zero) / power
    steps = rounded(t, steps.maximum(float(low)).minimum(float(high)), rounding_mode)
    return _stored(t, steps, out_scale, zero / power, low, high, x.role)


def _one(value: Value) -> Value:
    """One number for all, whatever dimensions it is written with."""
    return value.reshape() if value.size == 1 else value


def bounds_of(bits: int, signed: int, narrow: int) -> tuple[int, int]:
    """The least and the greatest integer."""
    if signed:
        return -(1 << bits - 1) + bool(narrow), (1 << bits - 1) - 1
    return 0, (1 << bits) - 1 - bool(narrow)


def rounded(t, x: Value, mode: str) -> Value:
    """Integers; UP and DOWN are away from zero and towards it."""
    nearest = {"CEIL": lambda: -t.emit("floor", -x), "FLOOR": lambda: t.emit("floor", x),
               **dict.fromkeys(NEAREST, lambda: t.emit("rint", x))}
    magnitude = {"UP": lambda size: -t.emit("floor", -size),
                 "DOWN": lambda size: t.emit("floor", size),
                 "HALF_UP": lambda size: t.emit("floor", size + 0.5),
                 "HALF_DOWN": lambda size: -t.emit("floor", -(size - 0.5))}
    name = mode.upper()
    if name in nearest:
        return nearest[name]()
    if name not in magnitude:
        raise NodeRefused(f"rounding_mode must be one of {', '.join((*nearest, *magnitude))}, "
                          f"not {mode!r}")
    size = magnitude[name](x.abs())
    return (x < 0).where(-size, size)


def _whole(t, bits: Value, role: str) -> int:
    number = number_of(t, bits, role)
    if not 1 <= number <= 64 or number % 1:
        raise NodeRefused(f"its {role} must be an integer of 1 to 64, not {number:g}")
    return int(number)


def number_of(t, value: Value, role: str) -> float:
    """The one number of a constant."""
    array = t.demand(value, role)
    if array.size != 1:
        raise NodeRefused(f"its {role} must be one number, not {array.size}")
    return float(array.reshape(()))


def _form(t, x: Value, scale: Value, zero: Value, low: int, high: int) -> str | None:
    """The type in which the graph's quantization gives such integers; None where none does."""
    if x.constant or not (scale.constant and zero.constant and scale.size == zero.size == 1):
        return None
    point = number_of(t, zero, "zero point")
    if (x.dtype, scale.dtype) != ("float32", "float32") or not positive(scale) or point % 1:
        return None
    return type_of(low, high) if low <= point <= high else None


def type_of(low: int, high: int) -> str | None:
    """The smallest type that holds these integers and has a quantization."""
    for dtype in ("int8", "uint8", "int16", "uint16"):
        info = np.iinfo(dtype)
        if info.min <= low and high <= info.max:
            return dtype
    return None


def _between(t, x: Value, scale: Value, zero: Value, low: int, high: int,
             dtype: str) -> Value:
    """Quantized and dequantized; narrower bounds than those of the type come before."""
    info, step = np.iinfo(dtype), np.float32(number_of(t, scale, "scale"))
    point = int(number_of(t, zero, "zero point"))
    if (low, high) != (info.min, info.max):
        x = t.emit("clip", x, lo=float((low - point) * step), hi=float((high - point) * step))
    parameters = scale.reshape(), t.constant(np.array(point, dtype))
    return dequantize_linear(t, quantize_linear(t, x, *parameters), *parameters)


def _signs(t, x: Value, scale: Value, zero: Value, role: str) -> Value:
    """1 from zero on, else -1, in steps of the scale."""
    steps = (x >= 0).where(t.constant(np.float32(1)), t.constant(np.float32(-1)))
    return _stored(t, steps, scale, zero, -1, 1, role)


def _stored(t, steps: Value, scale: Value, zero: Value, low: int, high: int, role: str) -> Value:
    """Integers minus their zero point, in steps of the scale. Constants are dequantized, and so
    are activations of one scale, for whoever computes with integers behind them.
    """
    if steps.constant and scale.constant and zero.constant:
        return constant_of(t, t.demand(steps, "data"), scale, zero, role)
    numbers = (steps - zero) * scale
    dtype = _form(t, steps, scale, zero, low, high)
    return _between(t, numbers, scale, zero, low, high, dtype) if dtype else numbers


def constant_of(t, steps: np.ndarray, scale: Value, zero: Value, role: str) -> Value:
    """A constant of integers, dequantized: without a zero point where bytes hold what that leaves,
    or where they do not hold the integers; of floats where scales stand along several axes.
    """
    point = t.demand(zero, "zero point")
    moved = steps - point
    for dtype, integers, own in (("int8", moved, None), ("uint8", steps, zero),
                                 ("int8", steps, zero), ("int16", moved, None),
                                 ("int32", moved, None)):
        axes = {axis for value in (scale, own) if value is not None
                for axis in _along(value, steps.ndim)}
        if len(axes) < 2 and positive(scale) and _holds(dtype, integers) and (
                own is None or _holds(dtype, point)):
            own = own if own is None else _row(own).astype(dtype)
            return Codes(t.constant(integers.astype(dtype), role), _row(scale), own,
                         min(axes, default=0)).numbers(t)
    return t.constant(moved, role) * scale


def _row(value: Value) -> Value:
    """One number, or a row of them."""
    return value.reshape(*(value.size,) * (value.size > 1))


def _holds(dtype: str, numbers: np.ndarray) -> bool:
    """True if the type has all these numbers, which may be no integers."""
    with np.errstate(invalid="ignore"):
        return np.array_equal(numbers.astype(dtype), numbers)


def _along(value: Value, rank: int) -> list[int]:
    """The axes of a tensor of this rank that the value's elements differ along."""
    extents = (1,) * (rank - value.rank) + value.shape
    return [axis for axis, extent in enumerate(extents) if extent > 1]
