"""The integer arithmetic of quantized networks, as expressions.

One definition serves the operators of networks and the bodies of the accelerator's intrinsics, so
that the second unify with the first. All results are exact: products and sums are formed in 64
bits and rounded once, half to even.
"""

from compiler import te
from compiler.te import Expr

PARAM = te.record("param", bias="int32", mult="uint16", shift="uint8")
"""Per-channel parameters of `requantize`: eight bytes a channel."""


def requantize(acc: Expr, bias: Expr, mult: Expr, shift: Expr, zp, lo, hi) -> Expr:
    """``clamp(zp + rhe((acc + bias) * mult / 2**shift), lo, hi)`` as int32.

    `acc` is an integer of at most 48 bits, `bias` int32 (so that int64 holds all), `mult` uint16,
    `shift` uint8 of which six bits count; `zp`, `lo`, `hi` are expressions of at most 32 bits, or
    numbers of 16.
    """
    total = acc.astype("int64") + bias.astype("int64")
    scaled = te.rshift_rne(total * mult.astype("int64"), (shift & 63).astype("int64"))
    return _clamped(scaled, zp, lo, hi)


def requantize_by_word(total: Expr, mult: Expr, shift: int, zp: int, lo: int, hi: int) -> Expr:
    """``clamp(zp + rhe(total * mult / 2**shift), lo, hi)`` as int32; `total` and `mult` are int32,
    `shift` is 1 to 61.
    """
    product = total.astype("int64") * mult.astype("int64")
    return _clamped(te.rshift_rne(product, te.const(shift, "int64")), zp, lo, hi)


def requantize_twice(acc: Expr, mult: int, shift: int, zp: int, lo: int, hi: int) -> Expr:
    """``clamp(zp + away(up(acc * mult / 2**31) / 2**(shift - 31)), lo, hi)`` as int32: `up` rounds
    half up, `away` half away from zero. `acc` is int32, `mult` has 31 bits, `shift` is 31 to 62.
    """
    high = acc.astype("int64") * te.const(mult, "int64") + (1 << 30) >> 31
    right = shift - 31
    away = high + (1 << right >> 1) + (high >> 63) >> right if right else high
    return _clamped(away, zp, lo, hi)


def scaled(total: Expr, scale: Expr, zp: int, lo: int, hi: int) -> Expr:
    """``clamp(zp + rhe(total * scale), lo, hi)`` as int32: int32 `total` and `scale` are multiplied
    in float32, which rounds both the total and the product.
    """
    steps = te.rint(total.astype("float32") * scale)
    return te.clamp(steps, float(lo - zp), float(hi - zp)).astype("int32") + zp


def add_scaled(a: Expr, b: Expr, ma, mb, c, s, zp, lo, hi) -> Expr:
    """``clamp(zp + rhe((a * ma + b * mb + c) / 2**s), lo, hi)`` as int32.

    `a`, `b`, `c` are int32, `ma` and `mb` uint16, `s` uint8 of which six bits count; `zp`, `lo`,
    `hi` int8 or int16. Every parameter may be an expression or a number.
    """
    total = (a.astype("int64") * _wide(ma, "uint16") + b.astype("int64") * _wide(mb, "uint16")
             + _wide(c, "int32"))
    amount = (s & 63).astype("int64") if isinstance(s, Expr) else te.const(s & 63, "int64")
    return _clamped(te.rshift_rne(total, amount), zp, lo, hi)


def exponent_of(x: Expr) -> Expr:
    """``floor(log2 x)`` of an int32 expression; 0 for numbers below 2."""
    total: Expr = te.const(0, "int32")
    for bits in (16, 8, 4, 2, 1):
        shifted = x >> bits
        total = total + te.select(shifted > 0, te.const(bits, "int32"), 0)
        x = te.select(shifted > 0, shifted, x)
    return total


def _clamped(value: Expr, zp, lo, hi) -> Expr:
    shifted = value + _wide(zp, _narrowest(zp))
    return te.clamp(shifted, _wide(lo, _narrowest(lo)), _wide(hi, _narrowest(hi))).astype("int32")


def _narrowest(value) -> str:
    """The type of a number: int8 if it fits, else int16."""
    return "int8" if isinstance(value, Expr) or -128 <= value <= 127 else "int16"


def _wide(value, dtype: str) -> Expr:
    narrow = value if isinstance(value, Expr) else te.const(value, dtype)
    return narrow.astype("int64")
