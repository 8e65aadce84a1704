"""Scales as integers: 16-bit multipliers and shifts, and what applying them means.

Requantization is `clamp(zp + rhe((acc + bias) * mult / 2**shift), lo, hi)` with rhe = round half to
even of the exact value, once. The sum fits 33 bits and the product 49, so float64 holds every
step exactly and `rint` is rhe; sums of up to 48 bits are int64. docs/machine.md, section Numbers,
is the source.
"""

import math

import numpy as np

from compiler.errors import DEFECT, Error
from compiler.ir.arithmetic import apply_binary

STORED = ("int8", "int16")
"""Types of quantized activations in stored form."""

MIN_MULTIPLIER, MAX_MULTIPLIER, MAX_SHIFT = 2**15, 2**16 - 1, 46


class ScaleRefused(Error, ValueError):
    """A scale that no multiplier and shift of the machine can express."""

    exit_status = DEFECT


def limits_of(dtype: str) -> tuple[int, int]:
    """The least and the greatest number of a type in stored form."""
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def quantize_multiplier(real: float) -> tuple[int, int]:
    """(mult, shift) with mult / 2**shift nearest to real: mult 0 or 2**15 .. 2**16 - 1,
    shift 0 .. 46, relative error at most 2**-16. Zero gives (0, 0).
    """
    if real == 0:
        return 0, 0
    if not 0 < real < math.inf:
        raise ScaleRefused(_range_text(real))
    fraction, exponent = math.frexp(real)
    mult = round(math.ldexp(fraction, 16))
    if mult > MAX_MULTIPLIER:
        mult, exponent = MIN_MULTIPLIER, exponent + 1
    shift = 16 - exponent
    if not 0 <= shift <= MAX_SHIFT:
        raise ScaleRefused(_range_text(real))
    return mult, shift


def multiplier_error(real: float) -> float:
    """The relative error of the multiplier that stands for a scale, 0 for one that it has none for.
    """
    try:
        mult, shift = quantize_multiplier(real)
    except ScaleRefused:
        return 0.0
    return abs(math.ldexp(mult, -shift) / real - 1) if real else 0.0


def _range_text(real: float) -> str:
    return f"requantization scale must be 0 or between 2**-31 and 65535, not {real!r}"


def add_multipliers(a: float, b: float) -> tuple[int, int, int]:
    """(ma, mb, shift) with ma / 2**shift = a and mb / 2**shift = b; the larger has 16 bits."""
    if not (a >= 0 and b >= 0):
        raise ScaleRefused(_range_text(min(a, b)))
    _, shift = quantize_multiplier(max(a, b))
    return round(math.ldexp(a, shift)), round(math.ldexp(b, shift)), shift


def requantize(total: np.ndarray, mult, shift, zp: int, lo: int, hi: int,
               dtype: np.dtype | type = np.int8) -> np.ndarray:
    """total * mult / 2**shift as int8, or another type; total is an exact integer in float64, or of
    up to 48 bits in int64, bias included."""
    if total.dtype == np.int64:
        wide = apply_binary("rshift_rne", total * np.asarray(mult, np.int64),
                            np.asarray(shift, np.int64))
        return np.clip(wide + zp, lo, hi).astype(dtype)
    scaled = np.ldexp(total * np.asarray(mult, np.float64), -np.asarray(shift, np.int32))
    return np.clip(np.rint(scaled) + zp, lo, hi).astype(dtype)
