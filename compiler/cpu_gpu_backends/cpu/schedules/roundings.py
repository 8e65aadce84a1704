"""Requantization in floats, or in short integers, where that is exact.

``clamp(rshift_rne(x, n) + zp, lo, hi)`` of int64 is what operators on quantized tensors end with.
Processors have few instructions for 64-bit integers; as long as no number on the way exceeds 53
bits, the same in float64 takes half of them, and a fifth in float32 where 24 bits suffice::

    min(max(rhe((int64(a) * m + c) / 2**n) + zp, lo), hi)
      ->  int64(min(max(int32(rint((float64(a) * m + c) * 2**-n)) + zp, lo), hi))

Products and sums of such integers and a product with a power of two are exact. The last sum may
have more bits where the bounds have not: what is rounded there lies beyond them, before as after.
Where 32 bits may not hold the integer, floats are clamped before: by bounds a quarter beyond an
integer, which round to it, and are never zero, whose sign `max` would have to look at.

Processors without such floats round in 32 bits. Of a longer product they keep the upper bits, at
least two more than the result has, and in the last of these whether any bit below is set: all that
rounding asks of them::

    rhe(p / 2**n)  ->  (t + 2**(k-1) - 1 + ((t >> k) & 1)) >> k     k = n - 32
                       t = int32(p >> 32) | (int32(p) != 0)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from compiler.ir import Program, map_exprs
from compiler.te import Binary, Cast, Const, Expr, bits, is_integer, maximum, minimum, rewrite, rint
from compiler.tensorize.ranges import limits, narrowed

EXACT = {"float32": 1 << 24, "float64": 1 << 53}
"""Integers up to here are exact, shortest type first."""

WORD, BELOW = "int32", 2        # bits of a result that rounding looks at


@dataclass(frozen=True, slots=True)
class _Requantization:
    """``clamp(rshift_rne(x, amount) + zp, low, high)`` of int64."""

    x: Expr
    amount: int
    zp: int
    low: int
    high: int

    @staticmethod
    def of(node: Expr) -> "_Requantization | None":
        """The requantization that an expression is; None where it is no such requantization."""
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
        return _Requantization(x, amount, zp, low, high)

    @property
    def most(self) -> int:
        """No x is farther from zero."""
        return max(map(abs, limits(self.x)))

    def clamped(self, whole: Expr) -> Expr:
        """The result, from what was rounded in a word that holds the sum with the zero point."""
        whole = whole + Const(self.zp, WORD)
        return Cast(minimum(maximum(whole, self.low), self.high), "int64")


def in_floats(program: Program, dtypes: Sequence[str] = tuple(EXACT)) -> Program:
    """The program with such requantizations in floats of these types: the same numbers."""
    return _rewritten(program, partial(_in_floats, dtypes))


def in_words(program: Program) -> Program:
    """The program with such requantizations in integers of 32 bits, or in fewer instructions for 64
    where the upper bits do not fit: the same numbers.
    """
    return _rewritten(program, _in_words)


def _rewritten(program: Program, rule: Callable[[_Requantization], Expr | None]) -> Program:
    def apply(node: Expr) -> Expr | None:
        found = _Requantization.of(node)
        return None if found is None else rule(found)

    return replace(program, body=map_exprs(program.body, lambda expr: rewrite(expr, apply)))


def _in_floats(dtypes: Sequence[str], of: _Requantization) -> Expr | None:
    below, beyond = of.low - of.zp - 0.25, of.high - of.zp + 0.25
    small = of.most / 2.0 ** of.amount + abs(of.zp) + 1 < 2**31
    for dtype in dtypes:
        clamps = max(-below, beyond) * 2.0 ** of.amount <= EXACT[dtype]
        steps = _exact(of.x, 2.0 ** -of.amount, dtype, clamps)
        if steps is not None and small:
            return of.clamped(Cast(rint(steps), WORD))
        if steps is not None:
            rounded = rint(minimum(maximum(steps, below), beyond))
            return Cast(Cast(rounded, WORD), "int64") + Const(of.zp, "int64")
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


def _in_words(of: _Requantization) -> Expr | None:
    """Cuts off what 32 bits do not hold: nothing, a word, which costs no shift, or all but two bits
    of what is cut off anyway.
    """
    if of.amount == 0:
        return None
    for cut in (0, 32, of.amount - BELOW):
        left = of.amount - cut
        if cut <= of.amount - BELOW * (cut > 0) and cut >= 0 and left < 32 and (
                (of.most >> cut) + 1 + (1 << left >> 1) + abs(of.zp) < 2**31):
            return of.clamped(_rounded(_upper(of.x, cut), left))
    if of.most + (1 << of.amount - 1) >= 2**63:
        return None
    wide = _rounded(of.x, of.amount) + Const(of.zp, "int64")
    return minimum(maximum(wide, of.low), of.high)


def _upper(x: Expr, cut: int) -> Expr:
    """x / 2**cut as a word, whose last bit is set where anything was cut off."""
    low = narrowed(Cast(x, WORD))
    if cut == 0:
        return low
    rest = low if cut == 32 else Cast(x & ((1 << cut) - 1), WORD) if cut < 32 else (
        x & ((1 << cut) - 1))
    return Cast(x >> cut, WORD) | Cast(Cast(rest, "bool"), WORD)


def _rounded(x: Expr, amount: int) -> Expr:
    """rhe(x / 2**amount), where the sum with half of that does not overflow."""
    odd = (x >> amount) & 1
    return (x + ((1 << amount - 1) - 1) + odd) >> amount
