"""Requantization in floats, where that is exact.

``clamp(rshift_rne(x, n) + zp, lo, hi)`` of int64 is what operators on quantized tensors end with.
Processors have few instructions for 64-bit integers; as long as no number on the way exceeds 53
bits, the same in float64 takes half of them, and a fifth in float32 where 24 bits suffice::

    min(max(rhe((int64(a) * m + c) / 2**n) + zp, lo), hi)
      ->  int64(min(max(int32(rint((float64(a) * m + c) * 2**-n)) + zp, lo), hi))

Products and sums of such integers and a product with a power of two are exact. The last sum may
have more bits where the bounds have not: what is rounded there lies beyond them, before as after.
Where 32 bits may not hold the integer, floats are clamped before: by bounds a quarter beyond an
integer, which round to it, and are never zero, whose sign `max` would have to look at.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from compiler.ir import Program, map_exprs
from compiler.te import Binary, Cast, Const, Expr, bits, is_integer, maximum, minimum, rewrite, rint
from compiler.tensorize.ranges import limits

__all__ = ["in_floats"]

EXACT = {"float32": 1 << 24, "float64": 1 << 53}
"""Integers up to here are exact, shortest type first."""


def in_floats(program: Program, dtypes: Sequence[str] = tuple(EXACT)) -> Program:
    """The program with such requantizations in floats of these types: the same numbers."""
    rule = partial(_rounded, dtypes)
    return replace(program, body=map_exprs(program.body, lambda expr: rewrite(expr, rule)))


def _rounded(dtypes: Sequence[str], node: Expr) -> Expr | None:
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
    below, beyond = low - zp - 0.25, high - zp + 0.25
    small = max(map(abs, limits(x))) / 2.0 ** amount + abs(zp) + 1 < 2**31
    for dtype in dtypes:
        clamps = max(-below, beyond) * 2.0 ** amount <= EXACT[dtype]
        steps = _exact(x, 2.0 ** -amount, dtype, clamps)
        if steps is not None and small:
            whole = Cast(rint(steps), "int32") + Const(zp, "int32")
            return Cast(minimum(maximum(whole, low), high), "int64")
        if steps is not None:
            rounded = rint(minimum(maximum(steps, below), beyond))
            return Cast(Cast(rounded, "int32"), "int64") + Const(zp, "int64")
    return None


def _number(expr: Expr) -> int | None:
    """The one value of an expression."""
    least, most = limits(expr)
    return least if least == most else None


def _exact(x: Expr, factor: float, dtype: str, clamps: bool = False) -> Expr | None:
    """The integer times a power of two in floats, if that is exact; where it `clamps`, up to the
    largest number that is, and not less beyond.
    """
    least, most = limits(x)
    if not clamps and max(-least, most) > EXACT[dtype]:
        return None
    if least == most:
        return Const(least * factor, dtype) if abs(least) <= EXACT[dtype] else None
    match x:
        case Cast(value, _) if is_integer(value.dtype) and bits(value.dtype) <= 32:
            inside = limits(value)
            return _times(Cast(value, dtype), factor) if max(-inside[0], inside[1]) <= EXACT[
                dtype] else None
        case Binary("add" | "sub" as op, a, b):
            left, right = _exact(a, factor, dtype), _exact(b, factor, dtype)
        case Binary("mul" as op, a, b):
            left, right = _exact(a, 1.0, dtype), _exact(b, factor, dtype)
        case _:
            return None
    return None if left is None or right is None else Binary(op, left, right)


def _times(x: Expr, factor: float) -> Expr:
    return x if factor == 1.0 else x * Const(factor, x.dtype)
