"""Numbers of rows, spelled with instructions that every machine has.

A logarithm is written with choices, and a mantissa with a shift to the left, for which a machine
may have an instruction of its own. Where it has none, a choice becomes arithmetic with a flag, and
the shift a product with powers of two::

    select(x > 0, k, 0)         f k                         f = clamp(x, 0, 1)
    select(x > 0, y >> k, y)    y >> f k
    select(x > 0, a, b)         b + (a - b) f
    a << (n & 31)               a p p (1 + m - 2 h)         m = n & 31, h = m >> 1, p = 2^h

All is exact modulo 2^32, for any number. A factor has 16 bits; of 2^15 it makes -2^15, twice.
"""

from collections.abc import Callable

from compiler import te
from compiler.te import Binary, Const, Expr, Select, rewrite

BITS, AMOUNT = 32, 31
"""The bits of a number, and the mask of what it is shifted by."""

HALF = 15
"""The most that half an amount is."""


def spelled(value: Expr, known: Callable[[Expr], Expr]) -> Expr:
    """The value without choices between numbers above zero and others, and without shifts to the
    left by what is computed. `known` makes a number of its own of a part that is read more than
    once.
    """
    def rule(node: Expr) -> Expr | None:
        match node:
            case Binary("add", Const(0), other):
                return other
            case Select(Binary("gt", x, Const(0)), a, b):
                return known(_chosen(known(te.clamp(x, *map(_number, (0, 1)))), a, b, known))
            case Binary("shl", a, Binary("and", n, Const(31))):
                return _to_the_left(a, known(n - (n >> 5) * BITS), known)
        return None
    return rewrite(value, rule)


def _number(value: int) -> Expr:
    return te.const(value, "int32")


def _times(a: Expr, b: Expr) -> Expr:
    """A product with a factor of 16 bits."""
    return a * b.astype("int16").astype("int32")


def _chosen(flag: Expr, a: Expr, b: Expr, known: Callable[[Expr], Expr]) -> Expr:
    match a, b:
        case Const(value), Const(0):
            return _several(flag, int(value), known)
        case Binary("shr", inner, Const(amount)), _ if inner == b:
            return b >> (_several(flag, int(amount), known) & AMOUNT)
    return b + _times(a - b, flag)


def _several(flag: Expr, count: int, known: Callable[[Expr], Expr]) -> Expr:
    return flag if count == 1 else known(flag * count)


def _to_the_left(a: Expr, amount: Expr, known: Callable[[Expr], Expr]) -> Expr:
    half = known(amount >> 1)
    power = known(_number(1 << HALF) >> (HALF - half & AMOUNT))
    return _times(_times(_times(a, power), power), amount - half * 2 + 1)
