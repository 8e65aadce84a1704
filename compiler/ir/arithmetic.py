"""The meaning of operators in expressions: one definition, on NumPy arrays, exact to the bit.

Operands are arrays of the operand's type (never 0-dimensional, whose overflow NumPy reports) and
so is the result, but for the types of `HELD`, whose results `cut` brings into their range. The
interpreter, the folding of constants and the accelerator's simulators use this.
"""

import math
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from compiler.te import (HELD, SMALL, Binary, Call, Cast, Const, Expr, Select, bits, is_float,
                         numpy_dtype)

FOLDS: dict[str, np.ufunc] = {"sum": np.add, "max": np.maximum, "min": np.minimum}
"""What a reduction of each kind folds two values with."""

_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "shl": np.left_shift, "shr": np.right_shift,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}
_CALLS = {"abs": np.abs, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh,
          "floor": np.floor, "ceil": np.ceil, "rint": np.rint, "pow": np.power,
          "sin": np.sin, "cos": np.cos, "tan": np.tan,
          "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
          "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
          "erf": np.frompyfunc(math.erf, 1, 1), "tf32": lambda a: _tf32(a)}


def apply_binary(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if op == "rshift_rne":
        return _rshift_rne(a, b)
    if op in ("floordiv", "mod", "div") and a.dtype.kind in "iu" and not b.all():
        raise ZeroDivisionError(f"Divisor of {op} must not be zero")
    with np.errstate(all="ignore"):                 # floats follow IEEE 754, silently
        return _BINARY[op](a, b)


def apply_expr(expr: Expr, known: Mapping[Any, np.ndarray]) -> np.ndarray:
    """The value of an expression of constants and of what is `known`, by expression."""
    if expr in known:
        return known[expr]
    match expr:
        case Const(value, dtype): return np.full((1,), value, numpy_dtype(dtype))
        case Binary(op, a, b):
            return cut(apply_binary(op, apply_expr(a, known), apply_expr(b, known)), expr.dtype)
        case Select(condition, a, b):
            return np.where(*(apply_expr(part, known) for part in (condition, a, b)))
        case Cast(value, dtype): return apply_cast(apply_expr(value, known), dtype)
        case Call(function, args):
            return apply_call(function, *(apply_expr(argument, known) for argument in args))
    raise AssertionError(expr)


def apply_call(function: str, a: np.ndarray, *more: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(_CALLS[function](a, *more)).astype(a.dtype)


def apply_fold(kind: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Folds two values of a reduction; `kind` is among `FOLDS`."""
    with np.errstate(all="ignore"):
        return FOLDS[kind](a, b)


def _tf32(a: np.ndarray) -> np.ndarray:
    """Rounds the lower 13 bits of the mantissa away, ties away from zero."""
    bits = a.view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(a), rounded.view(np.float32), a)


def apply_cast(a: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        if dtype in SMALL and is_float(dtype):
            return rounded(a, dtype)
        return cut(a.astype(numpy_dtype(dtype)), dtype)


def rounded(a: np.ndarray, dtype: str, saturates: bool = True) -> np.ndarray:
    """The nearest numbers of a small type of floats, of two as near the even one; what is too
    large becomes the greatest or, where nothing `saturates`, what ml_dtypes has for it. NaN has
    one code.
    """
    info = ml_dtypes.finfo(dtype)
    a = _odd(a) if a.dtype == np.float64 else a.astype(np.float32)
    a = np.where(np.isnan(a), np.float32(np.nan), a)
    if saturates:
        a = np.clip(a, np.float32(info.min), np.float32(info.max))
    return a.astype(numpy_dtype(dtype))


def _odd(array: np.ndarray) -> np.ndarray:
    """Numbers of float64 in float32, inexact ones with an odd last bit: rounded once more, they are
    what they would be rounded once, which ml_dtypes does not do with float64.
    """
    near = array.astype(np.float32)
    raw = near.view(np.uint32) - (np.abs(near) > np.abs(array)).astype(np.uint32)
    return np.where((near == array) | np.isnan(near), near, (raw | 1).view(np.float32))


def cut(a: np.ndarray, dtype: str) -> np.ndarray:
    """The low bits of integers, as numbers of a type that has fewer than their array."""
    if dtype not in HELD:
        return a
    unused = a.dtype.type(a.dtype.itemsize * 8 - bits(dtype))
    return a << unused >> unused


def _rshift_rne(value: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """Exact quotient and rest of 2**amount; a tie goes to the even quotient."""
    limit = value.dtype.itemsize * 8 - 1
    if amount.size and not 0 <= amount.min() <= amount.max() <= limit:
        raise ValueError(f"Amount of rshift_rne must be from 0 to {limit}, not {amount}")
    one = value.dtype.type(1)
    quotient = value >> amount
    rest = value - (quotient << amount)
    half = one << (np.maximum(amount, one) - one)
    up = (rest > half) | ((rest == half) & ((quotient & one) == one))
    return quotient + (up & (amount > 0))
