"""Numbers of rows, spelled with instructions that every machine has.

A logarithm is written with choices, and a mantissa with a shift to the left, for which a machine
may have an instruction of its own. Where it has none, a choice becomes arithmetic with a flag, and
the shift a product with powers of two::

    select(x > 0, y >> k, y)    y >> f k          f = clamp(x, 0, 1)
    select(x > 0, a, b)         b + (a - b) f
    a << (n & 31)               a 2^i 2^j 2^k     i + j + k = n & 31, factors of 16 bits

All is exact modulo 2^32, for any number.
"""

from collections.abc import Callable

from compiler import te
from compiler.te import Binary, Const, Expr, Select, rewrite

MOST = 14
"""The greatest power of two in a factor of 16 bits, of which another is made by a shift."""

BITS, AMOUNT = 32, 31
"""Those of a number, and the mask of what it is shifted by."""


def spelled(value: Expr, known: Callable[[Expr], Expr]) -> Expr:
    """The value without choices between numbers above zero and others, and without shifts to the
    left by what is computed. `known` makes a number of its own of a part that is read more than
    once.
    """
    def rule(node: Expr) -> Expr | None:
        match node:
            case Select(Binary("gt", x, Const(0)), a, b):
                return known(_chosen(known(te.clamp(x, *map(_number, (0, 1)))), a, b))
            case Binary("shl", a, Binary("and", n, Const(31))):
                return _to_the_left(a, known(n - (n >> 5) * BITS))
        return None
    return rewrite(value, rule)


def _number(value: int) -> Expr:
    return te.const(value, "int32")


def _times(a: Expr, b: Expr) -> Expr:
    """A product with a factor of 16 bits."""
    return a * b.astype("int16").astype("int32")


def _chosen(flag: Expr, a: Expr, b: Expr) -> Expr:
    match a, b:
        case Const(), Const(0):
            return flag * a
        case Binary("shr", inner, Const(amount)), _ if inner == b:
            return b >> (flag * int(amount) & AMOUNT)
    return b + _times(a - b, flag)


def _to_the_left(a: Expr, amount: Expr) -> Expr:
    """The product with the power of two of an amount of 0 to 31, in factors."""
    for most in (MOST, MOST, AMOUNT - 2 * MOST):
        part = te.minimum(amount, most)
        a = _times(a, _number(1 << most) >> (most - part & AMOUNT))
        amount = amount - part
    return a
