"""QONNX's FloatQuant: floats with so many bits of exponent and mantissa."""

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.operators.quantized.qonnx import number_of, of_qonnx, rounded

MOST_EXPONENT_BITS = 8


@of_qonnx("FloatQuant")
def float_quant(t, x, scale, exponent_bits, mantissa_bits, bias, most=None, *, has_inf=0, has_nan=0,
                has_subnormal=0, rounding_mode="ROUND", saturation=1, signed=1):
    """Numbers below the least power have its steps, whatever `has_subnormal` says."""
    bits, mantissa, offset = (number_of(t, *each) for each in (
        (exponent_bits, "exponent's bit width"), (mantissa_bits, "mantissa's bit width"),
        (bias, "exponent's bias")))
    if not 1 <= bits <= MOST_EXPONENT_BITS or bits % 1 or offset % 1 or mantissa % 1:
        raise NodeRefused(f"its exponent must have 1 to {MOST_EXPONENT_BITS} bits and an integer "
                          f"bias, not {bits:g} and {offset:g}")
    least, last = int(1 - offset), int(2 ** bits - 1 - offset)
    largest = (2 - 2.0 ** -mantissa) * 2.0 ** last
    if most is not None:
        largest = min(largest, number_of(t, most, "largest number"))
    numbers = x / scale
    step = _steps(t, numbers, least, last, int(mantissa))
    near = step * rounded(t, numbers / step, rounding_mode)
    low = -largest if signed else 0.0
    if saturation:
        return near.maximum(low).minimum(largest) * scale
    if not (has_inf or has_nan):
        raise NodeRefused("it must saturate, or have infinities or NaN for what is beyond")
    above, below = (np.inf, -np.inf) if has_inf else (np.nan, np.nan)
    return (near > largest).where(above, (near < low).where(below, near)) * scale


def _steps(t, x: Value, least: int, last: int, mantissa: int) -> Value:
    """The distance between neighbours around each number: a power of two that follows from how
    many powers of two the magnitude reaches.
    """
    if x.constant:
        exponents = np.clip(np.frexp(t.demand(x, "data"))[1] - 1, least, last)
        return t.constant(np.ldexp(np.float32(1), exponents - mantissa).astype(np.float32))
    powers = t.constant(2.0 ** np.arange(least + 1, last + 1, dtype=np.float32))
    reached = (x.abs().unsqueeze(x.rank) >= powers).astype("int32").sum(x.rank)
    sizes = t.constant(2.0 ** np.arange(least - mantissa, last - mantissa + 1, dtype=np.float32))
    return t.emit("gather", sizes, reached, axis=0)
