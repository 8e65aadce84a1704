"""A normal form for comparing expressions: constants folded, conversions without effect dropped,
masks of whole bytes as conversions.

Every rule keeps the value of every expression, exactly, so two expressions with one normal form
are equal; nothing is reordered.
"""

from collections.abc import Callable
from operator import is_
from typing import Any

import numpy as np

from compiler.ir.arithmetic import apply_binary, apply_cast, cut
from compiler.te import (Binary, Call, Cast, Const, Expr, Select, bits, is_float, is_integer,
                         children, is_record, is_signed, numpy_dtype, with_children)

_MASKS = {(1 << width) - 1: f"uint{width}" for width in (8, 16, 32)}
"""Masks that keep what a type without a sign does."""

_WIDENED = {"float32": ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
            "float64": ("float16", "bfloat16", "float32")}
"""The floats of which a type of floats holds every value."""


def normal(expr: Expr) -> Expr:
    known = getattr(expr, "_folded", None)          # True: the expression itself
    if known is not None:
        return expr if known is True else known
    before = children(expr)
    after = tuple([normal(child) for child in before])
    new = expr if all(map(is_, before, after)) else with_children(expr, after)
    found = _rule(new)
    result = new if found is None else found
    object.__setattr__(expr, "_folded", True if result is expr else result)
    return result


def casts_join(source: str, middle: str, target: str) -> bool:
    """True if ``Cast(Cast(x, middle), target)`` is ``Cast(x, target)`` for every x of `source`.

    Among integers: when `middle` holds every value of `source`, or keeps at least as many low
    bits as `target` takes. Among floats: when `middle` holds every value of `source`.
    """
    if source in _WIDENED.get(middle, ()) and is_float(target):
        return True
    if not all(is_integer(dtype) for dtype in (source, middle, target)):
        return False
    return bits(middle) >= bits(target) or _holds(middle, source)


def _holds(wide: str, narrow: str) -> bool:
    if is_signed(narrow) and not is_signed(wide):
        return False
    return bits(wide) - is_signed(wide) >= bits(narrow) - is_signed(narrow)


def negated(expr: Expr) -> Expr:
    """``0 - expr``, of integers, which wrap; the negation of a difference is a difference."""
    if isinstance(expr, Binary) and expr.op == "sub":
        return expr.b if expr.a == Const(0, expr.dtype) else Binary("sub", expr.b, expr.a)
    return Binary("sub", Const(0, expr.dtype), expr)


def is_signed_integer(dtype: str) -> bool:
    return is_integer(dtype) and is_signed(dtype)


def constant(value, dtype: str) -> Const:
    """A NumPy scalar of `dtype` as a constant."""
    return Const(numpy_dtype(dtype).type(value).item(), dtype)


def _rule(node: Expr) -> Expr | None:
    rule = _RULES.get(type(node))           # most nodes are leaves, which have none
    return rule(node) if rule else None


def _of_cast(node: Cast) -> Expr | None:
    match node:
        case Cast(value, dtype) if value.dtype == dtype:
            return value
        case Cast(Const() as value, dtype) if not is_record(dtype):
            return constant(apply_cast(_array(value), dtype)[0], dtype)
        case Cast(Cast(value, middle), dtype) if casts_join(value.dtype, middle, dtype):
            return normal(Cast(value, dtype))
        case _:
            return None


def _of_binary(node: Binary) -> Expr | None:
    match node:
        case Binary(op, Const() as a, Const() as b):
            return _folded(op, a, b, node.dtype)
        case Binary("and", value, Const(int(mask))) | Binary("and", Const(int(mask)), value) \
                if mask in _MASKS and bits(_MASKS[mask]) < bits(value.dtype):
            return normal(Cast(Cast(value, _MASKS[mask]), value.dtype))
        case Binary("sub", Const(0), Binary("sub")) if is_integer(node.dtype):
            return negated(node.b)
        case Binary("max", a, b) if is_signed_integer(node.dtype) and (
                b == negated(a) or a == negated(b)):
            return Call("abs", (a if b == negated(a) else b,))
        case _:
            return None


def _of_select(node: Select) -> Expr | None:
    match node:
        case Select(Const(chosen), a, b):
            return a if chosen else b
        case _:
            return None


_RULES: dict[type, Callable[[Any], Expr | None]] = {
    Cast: _of_cast, Binary: _of_binary, Select: _of_select}


def _folded(op: str, a: Const, b: Const, dtype: str) -> Const | None:
    try:
        return constant(cut(apply_binary(op, _array(a), _array(b)), dtype)[0], dtype)
    except (ValueError, ZeroDivisionError):     # has no value; whoever runs it will say so
        return None


def _array(value: Const) -> np.ndarray:
    return np.array([value.value], numpy_dtype(value.dtype))
