"""The functions of LiteRT's default kernels of int8: those of XNNPACK, and its own where that has
none.

Every function takes integers less their zero points, scales in float32 as the file has them, and
gives integers to which the zero point of the result is added before the clamp. They are the
reference by which `compiler/graph/integerize/litert.py` and `litert_operators.py` make tables and
operators.
"""

import numpy as np

Array = np.ndarray
LEFT = 7
"""Bits that differences gain before they are scaled."""

FARTHEST = 32
"""Powers of 2 beyond which a multiplier leaves nothing, or everything saturates."""


def scale_of_product(a: float, b, out: float) -> Array:
    """``a * b / out`` in float32, of a tensor or of each channel."""
    return np.float32(a) * np.asarray(b, np.float32) / np.float32(out)


def scaled(total: Array, scale) -> Array:
    """Integers times a scale: in float32, then rounded half to even."""
    return np.rint(total.astype(np.float32) * np.asarray(scale, np.float32)).astype(np.int64)


def scale_of_sum(scale: float, zero: int, count: int, out: float, out_zero: int, mean: bool
                 ) -> tuple[np.float32, np.float32]:
    """Factor and offset of a sum, or a mean, of so many elements as they are stored: what they make
    of it in float32, rounded half to even, is stored.
    """
    factor = np.float32(scale) / np.float32(out)
    if mean:
        factor = factor / np.float32(count)
    return factor, np.float32(out_zero) - np.float32(zero) * np.float32(count) * factor


def quantized(x: Array, scale: float, zp: int) -> Array:
    """float32 as stored: rounded half to even."""
    return _within(np.rint(x * _reciprocal(scale)) + np.float32(zp))


def quantized_beside_zero(x: Array, scale: float, zp: int) -> Array:
    """Quantizes with the zero point added first, which decides what is even."""
    return _within(np.rint(x * _reciprocal(scale) + np.float32(zp)))


def quantized_away(x: Array, scale: float, zp: int) -> Array:
    """Rounded half away from zero."""
    steps = x / np.float32(scale)
    return _within(np.trunc(steps + np.copysign(np.float32(0.5), steps)) + np.float32(zp))


def quantized_down(x: Array, scale: float, zp: int) -> Array:
    """Rounded down."""
    return _within(np.floor(x / np.float32(scale)) + np.float32(zp))


def _reciprocal(scale: float) -> np.float32:
    return np.float32(1) / np.float32(scale)


def _within(stored: Array) -> Array:
    return np.clip(stored, -1 << 16, 1 << 16).astype(np.int64)


def averaged(total: Array, count) -> Array:
    """Sums of so many elements, divided and rounded half away from zero."""
    return np.sign(total) * ((np.abs(total) + count // 2) // count)


def added(a: Array, b: Array, scales: tuple[float, float], out: float, sign: int = 1) -> Array:
    """The sum, or the difference, by multipliers of 21 bits, rounded half up."""
    ma, mb, shift = adding_multipliers(*scales, out)
    return a * ma + sign * b * mb + (1 << shift - 1) >> shift


def adding_multipliers(a: float, b: float, out: float) -> tuple[int, int, int]:
    """Multipliers of two tensors, and the shift of their sum."""
    shares = [np.float32(scale) / np.float32(out) for scale in (a, b)]
    shift = 21 - int(np.frexp(max(shares))[1])
    ma, mb = (int(np.rint(np.ldexp(share, shift))) for share in shares)
    return ma, mb, shift


def rescaled(x: Array, scale: float, out: float) -> Array:
    """A tensor in steps of another scale, by a multiplier of 8 fractional bits, rounded half up."""
    return x * _parts_of_256(np.float32(scale) / np.float32(out)) + 128 >> 8


def rescaled_finely(x: Array, scale: float, out: float) -> Array:
    """Rescales by a multiplier of 31 bits."""
    return requantized(x, *multiplier(float(np.float32(scale)) / float(np.float32(out))))


def compared(x: Array, scale: float) -> Array:
    """The numbers that a tensor is compared by: 256ths, for scales below 1."""
    return requantized(x << 8, *multiplier(float(np.float32(scale))))


def leaky_relu(x: Array, scale: float, out: float, slope: float) -> Array:
    """Rescales, with another multiplier below zero."""
    above = np.float32(scale) / np.float32(out)
    below = above * np.float32(slope)
    return x * np.where(x < 0, _parts_of_256(below), _parts_of_256(above)) + 128 >> 8


def _parts_of_256(share: np.float32) -> int:
    return int(np.rint(share * np.float32(256)))


def multiplier(real: float) -> tuple[int, int]:
    """A number as 31 bits and the power of 2 that they are a fraction of."""
    fraction, exponent = np.frexp(min(max(real, 2.0**-FARTHEST), 2.0**FARTHEST))
    mult = int(np.floor(fraction * 2**31 + 0.5))
    return (mult >> 1, int(exponent) + 1) if mult == 2**31 else (mult, int(exponent))


def requantized(total: Array, mult: int, exponent: int) -> Array:
    """Integers times such a number: rounded to an integer, then half away from zero by a shift."""
    left, right = max(exponent, 0), max(-exponent, 0)
    high = _high_product(total << left, mult, 31)
    return _shifted(high, right)


def _high_product(a: Array, b, bits: int) -> Array:
    """``a * b / 2**bits``, rounded half up where it is positive and half down where it is not."""
    product = a * b
    nudge = np.where(product >= 0, 1 << bits - 1, 1 - (1 << bits - 1))
    return _divided(product + nudge, bits)


def _divided(x: Array, bits: int) -> Array:
    """``x / 2**bits``, rounded to zero."""
    return np.where(x < 0, -(-x >> bits), x >> bits)


def _shifted(x: Array, bits: int) -> Array:
    """``x / 2**bits``, rounded half away from zero."""
    return np.sign(x) * (np.abs(x) + (1 << bits >> 1) >> bits)


def squared_difference(a: Array, b: Array, scales: tuple[float, float], out: float) -> Array:
    """Both in steps of twice the greater scale, their difference, and its square."""
    wide = 2.0 * max(scales)
    sides = [requantized(side << LEFT, *multiplier(scale / wide))
             for side, scale in zip((a, b), scales, strict=True)]
    difference = sides[0] - sides[1]
    return requantized(difference * difference,
                       *multiplier(wide * wide / (2.0**(2 * LEFT) * out)))


def reciprocal_root(x: Array, scale: float, out: float) -> Array:
    """1 over the root, by way of 20 bits; the greatest number for zero."""
    bits = 20
    whole = np.rint(2.0**bits / np.sqrt(np.maximum(x, 1))).astype(np.int64)
    mult, exponent = multiplier(1.0 / (np.sqrt(np.float32(scale)) * np.float32(out)))
    return np.where(x <= 0, 1 << bits, requantized(whole, mult, exponent - bits))


def hard_swish(x: Array, scale: float, out: float) -> Array:
    """x times a clipped line, both of 16 bits."""
    fine = np.float32(np.float32(1 / 128) * np.float32(scale))
    line, line_exponent = _of_16_bits(float(fine / np.float32(3 / 32768)))
    whole, exponent = _of_16_bits(float(fine / np.float32(out)))
    wide = x << LEFT
    part = wide
    if line_exponent > 0:
        part = _saturated(part << line_exponent - 1)
    part = _high_product(part, line, 15)
    if line_exponent > 0:
        part = _saturated(part << 1)
    part = _shifted(part, max(-line_exponent, 0))
    product = _divided((part + (1 << 15) >> 1) * _high_product(wide, whole, 15), 15)
    return _shifted(product, -exponent)


def _of_16_bits(real: float) -> tuple[int, int]:
    mult, exponent = multiplier(real)
    return min(mult + (1 << 15) >> 16, (1 << 15) - 1), exponent


def _saturated(x: Array) -> Array:
    return np.clip(x, -1 << 15, (1 << 15) - 1)
