"""Ranges of integer expressions, and the conversions that they allow.

`widened` computes in a word, 32 bits by default, what is computed in fewer, `narrowed` what is
computed in more; both keep every value. So an operator that is written with other widths than an
intrinsic's body can meet it.
"""

from fractions import Fraction
from functools import lru_cache

from compiler.te import (COMPARISONS, Binary, Call, Cast, Const, Expr, Select, bits, is_integer,
                         is_signed, rewrite)

from .normal import normal

WORD = "int32"
_MODULAR = frozenset("add sub mul and or xor".split())
"""Operators whose low bits depend on the low bits of their operands alone."""

_SHIFTS = {"shr": lambda value, amount: value >> amount,
           "rshift_rne": lambda value, amount: round(Fraction(value, 1 << amount))}


@lru_cache(4096)
def limits(expr: Expr) -> tuple[int, int]:
    """Least and greatest value that an integer expression can have, or wider bounds of them."""
    if expr.dtype == "bool":
        return 0, 1
    whole = _of_type(expr.dtype)
    match expr:
        case Const(value, _):
            return int(value), int(value)
        case Cast(value, _) if is_integer(value.dtype) or value.dtype == "bool":
            found = limits(value)
        case Select(_, a, b):
            found = _hull(limits(a), limits(b))
        case Call("abs", (value,)):
            low, high = limits(value)
            found = 0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high))
        case Binary(op, a, b):
            found = _of_binary(op, limits(a), limits(b)) or whole
        case _:
            return whole
    return found if whole[0] <= found[0] and found[1] <= whole[1] else whole


def fits(expr: Expr, dtype: str) -> bool:
    """True if every value of an integer expression is one of `dtype`."""
    (low, high), (least, most) = limits(expr), _of_type(dtype)
    return least <= low and high <= most


def _of_type(dtype: str) -> tuple[int, int]:
    low = -(1 << bits(dtype) - 1) if is_signed(dtype) else 0
    return low, low + (1 << bits(dtype)) - 1


def _hull(*ranges: tuple[int, int]) -> tuple[int, int]:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _of_binary(op: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int] | None:
    """The exact result's range; None where nothing is known of it."""
    match op:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "mul":
            ends = [x * y for x in a for y in b]
            return min(ends), max(ends)
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "and" if a[0] == a[1] and b[0] == b[1]:
            return a[0] & b[0], a[0] & b[0]
        case "and" if a[0] >= 0 or b[0] >= 0:
            return 0, min(high for low, high in (a, b) if low >= 0)
        case "shr" | "rshift_rne" if 0 <= b[0] and b[1] < 64:
            ends = [_SHIFTS[op](x, amount) for x in a for amount in b]
            return min(ends), max(ends)
    return None


@lru_cache(4096)
def widened(expr: Expr, word: str = WORD) -> Expr:
    """`expr` with all arithmetic of integers of fewer bits than a word done in a word, in normal
    form, without conversions that change no value of theirs.
    """
    return rewrite(normal(expr), lambda node: _widen(node, word))


def _widen(node: Expr, word: str) -> Expr | None:
    match node:
        case Binary(op, a, b) if _is_small(a.dtype, word):
            wide = Binary(op, _converted(a, word), _converted(b, word))
            return wide if op in COMPARISONS else _converted(wide, a.dtype)
        case Call("abs", (value,)) if _is_small(value.dtype, word):
            return _converted(Call("abs", (_converted(value, word),)), value.dtype)
        case Select(condition, a, b) if _is_small(a.dtype, word):
            wide = Select(condition, _converted(a, word), _converted(b, word))
            return _converted(wide, a.dtype)
        case Cast(value, dtype) if is_integer(dtype):
            return _converted(value, dtype)
    return None


def _is_small(dtype: str, word: str) -> bool:
    return is_integer(dtype) and bits(dtype) < bits(word)


def _converted(value: Expr, dtype: str) -> Expr:
    """``Cast(value, dtype)``, without a conversion in between that keeps every value."""
    if isinstance(value, Cast) and is_integer(value.value.dtype) and fits(value.value, value.dtype):
        return _converted(value.value, dtype)
    return normal(Cast(value, dtype))


@lru_cache(4096)
def narrowed(expr: Expr, word: str = WORD) -> Expr:
    """`expr` with arithmetic of more bits than a word done in a word where a conversion to a word
    follows and no value of it changes by that.
    """
    return rewrite(expr, lambda node: _narrow(node, word))


def _narrow(node: Expr, word: str) -> Expr | None:
    match node:
        case Cast(value, dtype) if dtype == word and _is_wide(value.dtype, word):
            return _low(value, word)
    return None


def _is_wide(dtype: str, word: str) -> bool:
    return is_integer(dtype) and is_signed(dtype) and bits(dtype) > bits(word)


def _low(value: Expr, word: str) -> Expr:
    """The low bits of a wider expression, as a word."""
    if not _is_wide(value.dtype, word):
        return _converted(value, word)
    exact = not isinstance(value, Binary) or all(fits(side, word) for side in (value.a, value.b))
    match value:
        case Binary(op, a, b) if op in _MODULAR or exact and (
                op in ("min", "max") or op in _SHIFTS and limits(b)[1] < bits(word)):
            return normal(Binary(op, _low(a, word), _low(b, word)))
        case Call("abs", (inner,)) if fits(inner, word):
            return normal(Call("abs", (_low(inner, word),)))
        case Select(condition, a, b):
            return normal(Select(condition, _low(a, word), _low(b, word)))
        case _:
            return _converted(value, word)
