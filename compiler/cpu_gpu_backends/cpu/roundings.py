"""Requantization in float64, where that is exact.

``clamp(rshift_rne(x, n) + zp, lo, hi)`` of int64 is what operators on quantized tensors end with.
Processors have few instructions for 64-bit integers; as long as no number on the way exceeds 53
bits, the same in float64 takes half of them::

    min(max(rhe((int64(a) * m + c) / 2**n) + zp, lo), hi)
      ->  int64(int32(rint(min(max((float64(a) * m + c) * 2**-n, lo - zp - 1/4), hi - zp + 1/4)))
                + zp)

Products and sums of such integers and a product with a power of two are exact; a bound that lies a
quarter beyond an integer rounds to it, and is never zero, whose sign `max` would have to look at.
"""

from dataclasses import replace

from compiler.ir import Program, map_exprs
from compiler.te import Binary, Cast, Const, Expr, bits, is_integer, maximum, minimum, rewrite, rint
from compiler.tensorize.ranges import limits

__all__ = ["in_float64"]

EXACT = 1 << 53


def in_float64(program: Program) -> Program:
    """The program with such requantizations in float64: the same numbers."""
    return replace(program, body=map_exprs(program.body, lambda expr: rewrite(expr, _rounded)))


def _rounded(node: Expr) -> Expr | None:
    match node:
        case Binary("min", Binary("max", value, lowest), highest): zp: int | None = 0
        case _: return None
    match value:
        case Binary("add", shifted, point): value, zp = shifted, _number(point)
    match value:
        case Binary("rshift_rne", x, by) if node.dtype == "int64": amount = _number(by)
        case _: return None
    low, high = _number(lowest), _number(highest)
    if (zp is None or low is None or high is None or amount is None or not 0 <= amount < 64
            or not -2**31 <= low - zp <= high - zp < 2**31):
        return None
    steps = _exact(x, 2.0 ** -amount)
    if steps is None:
        return None
    clamped = minimum(maximum(steps, low - zp - 0.25), high - zp + 0.25)
    return Cast(Cast(rint(clamped), "int32"), "int64") + Const(zp, "int64")


def _number(expr: Expr) -> int | None:
    """The one value of an expression."""
    least, most = limits(expr)
    return least if least == most else None


def _exact(x: Expr, factor: float) -> Expr | None:
    """The integer times a power of two in float64, if that is exact."""
    least, most = limits(x)
    if least < -EXACT or most > EXACT:
        return None
    if least == most:
        return Const(least * factor, "float64")
    match x:
        case Cast(value, _) if is_integer(value.dtype) and bits(value.dtype) <= 32:
            return _times(Cast(value, "float64"), factor)
        case Binary("add" | "sub" as op, a, b):
            left, right = _exact(a, factor), _exact(b, factor)
        case Binary("mul" as op, a, b):
            left, right = _exact(a, 1.0), _exact(b, factor)
        case _:
            return None
    return None if left is None or right is None else Binary(op, left, right)


def _times(x: Expr, factor: float) -> Expr:
    return x if factor == 1.0 else x * Const(factor, "float64")
