"""Floats of fewer bits than float32 on their way from res and to out: they are float32 between.

Both ways are exact, and made of gates alone: the number in float32 is rounded already.
"""

from amaranth.hdl import *

from accel.datapath.floats import SINGLE, FloatFormat


def widened(stored: Value, form: FloatFormat) -> Value:
    """A stored float as float32, 32 bits; of types of 8 bits every NaN becomes the canonical one.
    """
    fraction = form.fraction_bits
    low = SINGLE.fraction_bits - fraction
    if form.exponent_bits == SINGLE.exponent_bits:
        return Cat(Const(0, low), stored)
    exponent = stored[fraction:-1]
    less = SINGLE.bias - form.bias
    magnitude = Cat(Const(0, low), stored[:fraction],
                    (exponent + less)[:SINGLE.exponent_bits])
    subnormal: Value = Const(0, SINGLE.width - 1)
    for leading in range(fraction):             # of a fraction without hidden bit the highest
        rest = Cat(Const(0, SINGLE.fraction_bits - leading), stored[:leading],
                   Const(less + 1 - fraction + leading, SINGLE.exponent_bits))
        subnormal = Mux(stored[leading], rest, subnormal)
    magnitude = Mux(exponent == 0, subnormal, magnitude)
    if not form.is_finite:
        magnitude = Mux(exponent.all() & (stored[:fraction] == 0), SINGLE.infinity, magnitude)
    nan = stored[:-1] > (form.greatest if form.is_finite else form.infinity)
    return Mux(nan, SINGLE.nan, Cat(magnitude[:SINGLE.width - 1], stored[-1]))[:SINGLE.width]


def narrowed(value: Value, form: FloatFormat) -> Value:
    """A float32 whose number the type holds, or the canonical NaN, as stored."""
    fraction, whole = form.fraction_bits, SINGLE.fraction_bits
    if form.exponent_bits == SINGLE.exponent_bits:
        return value[SINGLE.width - form.width:]
    exponent, high = value[whole:-1], value[whole - fraction:whole]
    less = SINGLE.bias - form.bias
    magnitude = Cat(high, (exponent - less)[:form.exponent_bits])
    significand = Cat(high, Const(1, 1))
    for below in range(fraction):               # subnormal numbers, the greatest first
        magnitude = Mux(exponent == less - below, significand[1 + below:], magnitude)
    magnitude = Mux(exponent == 0, 0, magnitude)[:form.width - 1]
    if not form.is_finite:
        magnitude = Mux(exponent.all() & (high == 0), form.infinity, magnitude)
    nan = exponent.all() & value[:whole].any()
    return Mux(nan, form.nan, Cat(magnitude[:form.width - 1], value[-1]))[:form.width]
