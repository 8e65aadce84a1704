"""Functions of integers as text: what `qmap` computes of its elements.

A text is an expression in Python's syntax over ``x0``, ``x1``, ``x2`` and integers::

    requantize((x0 - 3) * (x1 + 128), 40000, 22, -7, -128, 127)
    clamp(max(x0, x1) - 5, -128, 127)

+, -, * and shifts by a number; comparisons, which `select(condition, a, b)` reads; `min`, `max`,
`abs`, `clamp(x, lo, hi)`; ``rshift_rne(x, n) = x / 2**n``, rounded half to even; and
``requantize(acc, mult, shift, zp, lo, hi)``, which is `compiler.ops.arithmetic.requantize` without
a bias: all its parameters are numbers.

A text is read in three ways: as a tensor expression in int32, as exact arithmetic in NumPy, and as
ranges. Ranges prove that no result on the way leaves int32, so the first two agree.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from compiler import te
from compiler.ops import arithmetic
from compiler.ops.fixed_point import MAX_MULTIPLIER, MAX_SHIFT, MIN_MULTIPLIER, requantize
from compiler.te import Expr

__all__ = ["INT8", "OPERANDS", "IntegerRange", "computed", "expression", "operands", "range_of"]

OPERANDS = ("x0", "x1", "x2")
INT8, INT32 = (-128, 127), (-2**31, 2**31 - 1)

_SYMBOLS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.LShift: "shl", ast.RShift: "shr",
    ast.USub: "neg", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq",
    ast.NotEq: "ne"}
_ARGUMENTS = {"min": 2, "max": 2, "abs": 1, "clamp": 3, "select": 3, "rshift_rne": 2,
              "requantize": 6}
_NUMBERS = {"shl": 1, "shr": 1, "rshift_rne": 1, "requantize": 5}
"""How many of the last arguments must be numbers."""
_CONDITIONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))


class IntegerRange(NamedTuple):
    """The least and the greatest integer that a value can be."""

    low: int
    high: int

    def within(self, other: tuple[int, int]) -> bool:
        return other[0] <= self.low and self.high <= other[1]


def operands(text: str) -> frozenset[str]:
    """The operands that a text reads. Refuses with ValueError what is no such text."""
    return frozenset(node.id for node in ast.walk(_tree(text))
                     if isinstance(node, ast.Name) and node.id in OPERANDS)


def expression(text: str, elements: Sequence[Expr]) -> Expr:
    """The expression in int32 of these elements, which are int32."""
    return _read(_tree(text), dict(zip(OPERANDS, elements)), _EXPRESSIONS)


def computed(text: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The exact result for arrays of integers, as int64; shapes broadcast."""
    wide = (array.astype(np.int64) for array in arrays)
    return _read(_tree(text), dict(zip(OPERANDS, wide)), _ARRAYS)


def range_of(text: str, ranges: Sequence[tuple[int, int]]) -> IntegerRange:
    """A range that has all results for operands of these ranges. Refuses with ValueError a text of
    which a result on the way could leave int32.
    """
    known = {name: IntegerRange(*range_) for name, range_ in zip(OPERANDS, ranges)}
    return _read(_tree(text), known, _RANGES)


# Text


@lru_cache(1024)
def _tree(text: str) -> ast.expr:
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError, ValueError):
        raise _refused(text, "it is no expression") from None
    _check(tree, text, condition=False)
    return tree


def _refused(text: str, reason: str) -> ValueError:
    return ValueError(f"function must be an expression of integers: {reason}, not {text!r}")


def _parts(tree: ast.expr) -> tuple[str, list[ast.expr]]:
    """The name of an operation and its arguments; no name where it is none."""
    match tree:
        case ast.BinOp(a, op, b): return _SYMBOLS.get(type(op), ""), [a, b]
        case ast.UnaryOp(ast.USub(), a): return "neg", [a]
        case ast.Compare(a, [op], [b]): return _SYMBOLS.get(type(op), ""), [a, b]
        case ast.Call(ast.Name(name), args, []) if _ARGUMENTS.get(name) == len(args):
            return name, args
    return "", []


def _number(tree: ast.expr) -> int | None:
    match tree:
        case ast.Constant(int(value)) if not isinstance(value, bool): return value
        case ast.UnaryOp(ast.USub(), ast.Constant(int(value))): return -value
    return None


def _check(tree: ast.expr, text: str, condition: bool) -> None:
    number = _number(tree)
    if number is not None and not condition:
        if not INT32[0] <= number <= INT32[1]:
            raise _refused(text, f"{number} is no int32")
        return
    if isinstance(tree, ast.Name) and tree.id in OPERANDS and not condition:
        return
    name, arguments = _parts(tree)
    if not name or (name in _CONDITIONS) != condition:
        raise _refused(text, f"{ast.unparse(tree)} is no {'condition' if condition else 'integer'}")
    numbers = _NUMBERS.get(name, 0)
    for place, argument in enumerate(arguments):
        if place >= len(arguments) - numbers and _number(argument) is None:
            raise _refused(text, f"{ast.unparse(argument)} must be a number")
        _check(argument, text, name == "select" and place == 0)
    _check_numbers(name, [_number(argument) or 0 for argument in arguments], text)


def _check_numbers(name: str, numbers: list[int], text: str) -> None:
    if name in ("shl", "shr", "rshift_rne") and not 0 <= numbers[1] <= 31:
        raise _refused(text, f"a shift by {numbers[1]} is not 0 to 31")
    if name == "requantize":
        _, mult, shift, zp, lo, hi = numbers
        if not (mult == 0 or MIN_MULTIPLIER <= mult <= MAX_MULTIPLIER) or not (
                0 <= shift <= MAX_SHIFT):
            raise _refused(text, f"{mult} / 2**{shift} is no multiplier of the machine")
        if not (-128 <= zp <= 127 and -128 <= lo <= hi <= 127):
            raise _refused(text, f"zp {zp}, lo {lo} and hi {hi} are no int8 in order")


def _read(tree: ast.expr, known: Mapping[str, Any], meaning: Mapping[str, Callable]) -> Any:
    number = _number(tree)
    if number is not None:
        return meaning["number"](number)
    if isinstance(tree, ast.Name):
        return known[tree.id]
    name, arguments = _parts(tree)
    split = len(arguments) - _NUMBERS.get(name, 0)
    values = [_read(argument, known, meaning) for argument in arguments[:split]]
    return meaning[name](*values, *(_number(argument) for argument in arguments[split:]))


# Three readings


def _requantized(acc: Expr, mult: int, shift: int, zp: int, lo: int, hi: int) -> Expr:
    """A number that is added last is the bias."""
    match acc:
        case te.Binary("add" | "sub" as op, before, te.Const(int() as bias)):
            acc, bias = before, bias if op == "add" else -bias
        case _:
            bias = 0
    return arithmetic.requantize(acc, te.const(bias, "int32"), te.const(mult, "uint16"),
                                 te.const(shift, "uint8"), zp, lo, hi)


_EXPRESSIONS: dict[str, Callable] = {
    "number": lambda value: te.const(value, "int32"),
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "shl": lambda a, n: a << n, "shr": lambda a, n: a >> n, "neg": lambda a: 0 - a,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "eq": lambda a, b: a.equal(b), "ne": lambda a, b: a.not_equal(b),
    "min": te.minimum, "max": te.maximum, "abs": te.abs, "clamp": te.clamp, "select": te.select,
    "rshift_rne": te.rshift_rne, "requantize": _requantized}


def _rounded_shift(x: np.ndarray, n: int) -> np.ndarray:
    """Half to even: floor(x / 2**n + 1/2), less one where that is odd and x was halfway."""
    if n == 0:
        return x
    half = 1 << (n - 1)
    up = (x + half) >> n
    return up - (((x & (2 * half - 1)) == half) & (up & 1 == 1))


_ARRAYS: dict[str, Callable] = {
    "number": np.int64,
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "shl": lambda a, n: a << n, "shr": lambda a, n: a >> n, "neg": np.negative,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "min": np.minimum, "max": np.maximum, "abs": np.abs,
    "clamp": lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi), "select": np.where,
    "rshift_rne": _rounded_shift,
    "requantize": lambda acc, *parameters: requantize(
        np.asarray(acc).astype(np.float64), *parameters).astype(np.int64)}


def _in_int32(rule: Callable[..., tuple[int, int]]) -> Callable[..., IntegerRange]:
    def checked(*arguments: Any) -> IntegerRange:
        low, high = rule(*arguments)
        if not IntegerRange(low, high).within(INT32):
            raise ValueError(f"its results on the way must fit int32, not reach "
                             f"{high if high > INT32[1] else low}")
        return IntegerRange(low, high)
    return checked


def _product(a: IntegerRange, b: IntegerRange) -> tuple[int, int]:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _magnitude(x: IntegerRange) -> tuple[int, int]:
    return max(x.low, -x.high, 0), max(-x.low, x.high)


def _least(a: IntegerRange, b: IntegerRange) -> tuple[int, int]:
    return min(a.low, b.low), min(a.high, b.high)


def _greatest(a: IntegerRange, b: IntegerRange) -> tuple[int, int]:
    return max(a.low, b.low), max(a.high, b.high)


def _monotone(function: Callable[..., np.ndarray]) -> Callable[..., tuple[int, int]]:
    def ends(x: IntegerRange, *numbers: int) -> tuple[int, int]:
        low, high = function(np.array(x), *numbers).tolist()
        return low, high
    return ends


_RANGES: dict[str, Callable] = {
    "number": lambda value: IntegerRange(value, value),
    "add": _in_int32(lambda a, b: (a.low + b.low, a.high + b.high)),
    "sub": _in_int32(lambda a, b: (a.low - b.high, a.high - b.low)),
    "mul": _in_int32(_product),
    "shl": _in_int32(lambda a, n: (a.low << n, a.high << n)),
    "shr": _in_int32(lambda a, n: (a.low >> n, a.high >> n)),
    "neg": _in_int32(lambda a: (-a.high, -a.low)),
    **dict.fromkeys(_CONDITIONS, lambda a, b: None),
    "min": _in_int32(_least), "max": _in_int32(_greatest), "abs": _in_int32(_magnitude),
    "clamp": _in_int32(lambda x, lo, hi: _least(IntegerRange(*_greatest(x, lo)), hi)),
    "select": _in_int32(lambda condition, a, b: (min(a.low, b.low), max(a.high, b.high))),
    "rshift_rne": _in_int32(_monotone(_rounded_shift)),
    "requantize": _in_int32(_monotone(_ARRAYS["requantize"]))}
