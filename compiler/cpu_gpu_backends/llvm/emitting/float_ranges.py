"""Between which numbers a float lies, as its expression alone tells: so that a conversion to an
integer that holds all of them needs no check.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite, isnan

import numpy as np

from compiler.tensorize import ranges
from compiler.te import Binary, Call, Cast, Const, Expr, Select, is_float, is_integer, numpy_dtype


@dataclass(frozen=True, slots=True)
class FloatRange:
    """From `low` to `high`, or perhaps `nan`."""

    low: float = -inf
    high: float = inf
    nan: bool = True

    def within(self, other: "FloatRange") -> bool:
        """True if all numbers here lie there; NaN is none."""
        return other.low <= self.low and self.high <= other.high


ANY = FloatRange()

_ROUNDED: Mapping = {"rint": np.rint, "floor": floor, "ceil": ceil}


def limits(dtype: str) -> FloatRange:
    """The range of an integer type."""
    info = np.iinfo(numpy_dtype(dtype))
    return FloatRange(int(info.min), int(info.max), nan=False)


def float_range(expr: Expr) -> FloatRange:
    """All values that a number may have lie there."""
    match expr:
        case Const(value) if is_float(expr.dtype):
            return ANY if isnan(value) else FloatRange(value, value, nan=False)
        case Cast(value) if is_integer(value.dtype) and is_float(expr.dtype):
            low, high = ranges.limits(value)
            return _in_type(FloatRange(low, high, nan=False), expr.dtype)
        case Call("rint" | "floor" | "ceil" as function, (value,)):
            found, rounded = float_range(value), _ROUNDED[function]
            low, high = (bound if bound in (inf, -inf) else float(rounded(bound))
                         for bound in (found.low, found.high))
            return FloatRange(low, high, found.nan)
        case Binary("min", a, b):
            a, b = float_range(a), float_range(b)
            return FloatRange(min(a.low, b.low), min(a.high, b.high), a.nan or b.nan)
        case Binary("max", a, b):
            a, b = float_range(a), float_range(b)
            return FloatRange(max(a.low, b.low), max(a.high, b.high), a.nan or b.nan)
        case Binary("add" | "sub" | "mul" as op, a, b):
            return _in_type(_of_binary(op, float_range(a), float_range(b)), expr.dtype)
        case Select(Binary("gt" | "ge", x, bound), value, other) if x == value and bound == other:
            found, least = float_range(x), float_range(bound)     # NaN is not greater: other
            return FloatRange(max(found.low, least.low), max(found.high, least.high), least.nan)
        case Select(Binary("lt" | "le", x, bound), value, other) if x == value and bound == other:
            found, most = float_range(x), float_range(bound)
            return FloatRange(min(found.low, most.low), min(found.high, most.high), most.nan)
        case _:
            return ANY


def _of_binary(op: str, a: FloatRange, b: FloatRange) -> FloatRange:
    """Sums and products of finite numbers are no NaN; what is rounded on the way stays between the
    rounded ends.
    """
    if a.nan or b.nan or not all(map(isfinite, (a.low, a.high, b.low, b.high))):
        return ANY
    ends = [x + y if op == "add" else x - y if op == "sub" else x * y
            for x in (a.low, a.high) for y in (b.low, b.high)]
    return FloatRange(min(ends), max(ends), nan=False)


def _in_type(found: FloatRange, dtype: str) -> FloatRange:
    """The range after rounding to the type. Ends that it does not hold move outwards."""
    if dtype == "float64" or found == ANY:
        return found
    if dtype != "float32" or max(-found.low, found.high) > np.finfo(np.float32).max:
        return ANY
    return FloatRange(_outside(found.low, -inf), _outside(found.high, inf), found.nan)


def _outside(end: float, beyond: float) -> float:
    near = np.float32(end)
    return float(near if near == end else np.nextafter(near, np.float32(beyond)))
