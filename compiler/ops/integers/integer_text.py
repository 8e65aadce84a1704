"""Functions of integers as text: what `qmap` computes of its elements.

A text is an expression in Python's syntax over ``x0``, ``x1``, ... and integers::

    requantize((x0 - 3) * (x1 + 128), 40000, 22, -7, -128, 127)
    clamp(max(x0, x1) - 5, -128, 127)

+, -, *, &, |, ^ and shifts; comparisons, which `select(condition, a, b)` reads; `min`,
`max`, `abs`, `clamp(x, lo, hi)`; ``rshift_rne(x, n) = x / 2**n``, rounded half to even; and
``requantize(acc, mult, shift, zp, lo, hi)``, which is `compiler.ops.integers.arithmetic.requantize`
without a bias: all its parameters are numbers. Everything is int32 but what `int64(x)`, or the name
of another type, converts; conversions wrap, and take comparisons too. A number has the type of what
it meets.

A text is read in three ways: as a tensor expression, as exact arithmetic in NumPy, and as ranges.
Ranges prove that no result on the way leaves its type, so the first two agree. `text_of` writes a
tensor expression down.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from compiler import te
from compiler.ir.arithmetic import apply_binary
from compiler.ir.printer import expr_text
from compiler.ops.integers import arithmetic
from compiler.ops.integers.fixed_point import MAX_MULTIPLIER, MAX_SHIFT, MIN_MULTIPLIER, requantize
from compiler.te import Expr

OPERANDS = tuple(f"x{place}" for place in range(10))
"""Two tensors, and the fields of a record that may be constants of channels."""
INT8, INT32 = (-128, 127), (-2**31, 2**31 - 1)
LONGEST = 20000         # characters that `text_of` writes

_TYPES = {dtype: (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
          for dtype in ("int8", "uint8", "int16", "uint16", "int32")} | {"int64": (-2**62, 2**62)}
"""What results of each type must fit; of int64, with room for a rounding."""

_SYMBOLS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.LShift: "shl", ast.RShift: "shr",
    ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.USub: "neg", ast.Lt: "lt",
    ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
_ARGUMENTS = {"min": 2, "max": 2, "abs": 1, "clamp": 3, "select": 3, "rshift_rne": 2,
              "requantize": 6, **dict.fromkeys(_TYPES, 1)}
_NUMBERS = {"requantize": 5}
"""How many of the last arguments must be numbers."""
_CONDITIONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))
_SHIFTS = ("shl", "shr", "rshift_rne")


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
    """The expression of these elements, which are int32."""
    return read(text, dict(zip(OPERANDS, elements)), _EXPRESSIONS)


def computed(text: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The exact result for arrays of integers, as int64; shapes broadcast."""
    wide = (array.astype(np.int64) for array in arrays)
    return read(text, dict(zip(OPERANDS, wide)), _ARRAYS)


def range_of(text: str, ranges: Sequence[tuple[int, int]]) -> IntegerRange:
    """A range that has all results for operands of these ranges. Refuses with ValueError a text of
    which a result on the way could leave its type.
    """
    known = {name: _Typed.of(*range_, "int32") for name, range_ in zip(OPERANDS, ranges)}
    return IntegerRange(*read(text, known, _RANGES))


def read(text: str, known: Mapping[str, Any], meaning: Mapping[str, Callable]) -> Any:
    """The value of a text for operands that are `known`: `meaning` has a function for ``number``
    and for each operation, of values and, last, of plain numbers; amounts of shifts may be either.
    """
    return _read(_tree(text), known, meaning)


def text_of(expr: Expr) -> str:
    """The text of an expression of integers over variables that have the operands' names. Refuses
    with ValueError what has none.
    """
    text = _written(expr)
    if len(text) > LONGEST:
        raise ValueError(f"its text must have at most {LONGEST} characters, not {len(text)}")
    return text


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
        if not _TYPES["int64"][0] <= number <= _TYPES["int64"][1]:
            raise _refused(text, f"{number} is no int64")
        return
    if isinstance(tree, ast.Name) and tree.id in OPERANDS and not condition:
        return
    name, arguments = _parts(tree)
    if name in _TYPES and not condition:
        _check(arguments[0], text, isinstance(arguments[0], ast.Compare))
        return
    if not name or (name in _CONDITIONS) != condition:
        raise _refused(text, f"{ast.unparse(tree)} is no {'condition' if condition else 'integer'}")
    numbers = _NUMBERS.get(name, 0)
    for place, argument in enumerate(arguments):
        if place >= len(arguments) - numbers and _number(argument) is None:
            raise _refused(text, f"{ast.unparse(argument)} must be a number")
        _check(argument, text, name == "select" and place == 0)
    _check_numbers(name, [_number(argument) or 0 for argument in arguments], text)


def _check_numbers(name: str, numbers: list[int], text: str) -> None:
    if name in _SHIFTS and not 0 <= numbers[1] <= 63:
        raise _refused(text, f"a shift by {numbers[1]} is not 0 to 63")
    if name == "requantize":
        _, mult, shift, zp, lo, hi = numbers
        if not (mult == 0 or MIN_MULTIPLIER <= mult <= MAX_MULTIPLIER) or not (
                0 <= shift <= MAX_SHIFT):
            raise _refused(text, f"{mult} / 2**{shift} is no multiplier of the machine")
        least, most = _TYPES["int16"]
        if not (least <= zp <= most and least <= lo <= hi <= most):
            raise _refused(text, f"zp {zp}, lo {lo} and hi {hi} are no int16 in order")


def _read(tree: ast.expr, known: Mapping[str, Any], meaning: Mapping[str, Callable]) -> Any:
    number = _number(tree)
    if number is not None:
        return meaning["number"](number)
    if isinstance(tree, ast.Name):
        return known[tree.id]
    name, arguments = _parts(tree)
    split = len(arguments) - _NUMBERS.get(name, name in _SHIFTS)
    values = [_read(argument, known, meaning) for argument in arguments[:split]]
    plain = map(_number, arguments[split:])
    return meaning[name](*values, *(
        _read(argument, known, meaning) if number is None else number
        for argument, number in zip(arguments[split:], plain)))


# Writing


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "shl": "<<",
          "shr": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def _written(expr: Expr, beside: Expr | None = None) -> str:
    """The text; a number beside something else has its type."""
    match expr:
        case te.Var(name) if name in OPERANDS:
            return name
        case te.Const(int(value), dtype) if dtype in _TYPES:
            adopts = dtype == "int32" or beside is not None and not isinstance(beside, te.Const)
            return str(value) if adopts else f"{dtype}({value})"
        case te.Binary(op, a, b) if op in _SHIFTS:
            amount = str(b.value) if isinstance(b, te.Const) else _written(b)
            return (f"rshift_rne({_written(a)}, {amount})" if op == "rshift_rne"
                    else f"({_written(a)} {_SIGNS[op]} {amount})")
        case te.Binary("min" | "max" as op, a, b):
            return f"{op}({_written(a, b)}, {_written(b, a)})"
        case te.Binary(op, a, b) if op in _SIGNS and op not in _SHIFTS and a.dtype in _TYPES:
            return f"({_written(a, b)} {_SIGNS[op]} {_written(b, a)})"
        case te.Call("abs", (a,)):
            return f"abs({_written(a)})"
        case te.Select(condition, a, b):
            return f"select({_written(condition)}, {_written(a, b)}, {_written(b, a)})"
        case te.Cast(value, dtype) if dtype in _TYPES and value.dtype in (*_TYPES, "bool"):
            return f"{dtype}({_written(value)})"
    raise ValueError(f"{expr_text(expr)} has no text")


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


def _met(build: Callable[..., Expr]) -> Callable[..., Expr]:
    """`build` with numbers in the type of what they meet."""
    def of(*arguments: Expr) -> Expr:
        dtype = next((a.dtype for a in arguments if not isinstance(a, te.Const)), "int32")
        return build(*(te.const(a.value, dtype) if isinstance(a, te.Const) else a
                       for a in arguments))
    return of


_EXPRESSIONS: dict[str, Callable] = {
    "number": lambda value: te.const(value, "int32" if INT32[0] <= value <= INT32[1] else "int64"),
    "shl": lambda a, n: a << n, "shr": lambda a, n: a >> n, "neg": lambda a: 0 - a,
    "abs": te.abs, "rshift_rne": te.rshift_rne, "requantize": _requantized,
    "clamp": _met(te.clamp),
    "select": lambda condition, a, b: _met(lambda a, b: te.select(condition, a, b))(a, b),
    **{op: _met(partial(te.Binary, op)) for op in (*_SIGNS, "min", "max") if op not in _SHIFTS},
    **{dtype: partial(lambda dtype, x: te.Cast(x, dtype), dtype) for dtype in _TYPES}}


def _rounded_shift(x: np.ndarray, n: int | np.ndarray) -> np.ndarray:
    return apply_binary("rshift_rne", np.asarray(x, np.int64), np.asarray(n, np.int64))


_ARRAYS: dict[str, Callable] = {
    "number": np.int64,
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "shl": lambda a, n: a << n, "shr": lambda a, n: a >> n, "neg": np.negative,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "min": np.minimum, "max": np.maximum, "abs": np.abs,
    "clamp": lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi), "select": np.where,
    "rshift_rne": _rounded_shift,
    "requantize": lambda acc, *parameters: requantize(
        np.asarray(acc).astype(np.float64), *parameters, dtype=np.int64),
    **{dtype: partial(lambda dtype, x: np.asarray(x).astype(dtype).astype(np.int64), dtype)
       for dtype in _TYPES}}


class _Typed(IntegerRange):
    """A range of a type; numbers have none yet."""

    dtype: str

    @classmethod
    def of(cls, low: int, high: int, dtype: str) -> "_Typed":
        made = cls(low, high)
        made.dtype = dtype
        return made


_CONDITION = _Typed.of(0, 1, "bool")


def _type_of(arguments: Sequence[Any]) -> str:
    """The type of what an operation computes with."""
    ranges = [argument for argument in arguments if isinstance(argument, _Typed)]
    types = sorted({range_.dtype for range_ in ranges if range_.dtype})
    if len(types) > 1:
        raise ValueError(f"its operations must be on one type, not on {' and '.join(types)}")
    dtype = types[0] if types else "int32"
    for range_ in ranges:
        if not range_.dtype and not range_.within(_TYPES[dtype]):
            raise ValueError(f"{range_.low} is no {dtype}")
    return dtype


def _checked(rule: Callable[..., tuple[int, int]]) -> Callable[..., _Typed]:
    """The range that a rule gives, which must fit the type."""
    def checked(*arguments: Any) -> _Typed:
        dtype = _type_of(arguments)
        low, high = rule(*arguments)
        if not IntegerRange(low, high).within(_TYPES[dtype]):
            raise ValueError(f"its results on the way must fit {dtype}, not reach "
                             f"{high if high > _TYPES[dtype][1] else low}")
        return _Typed.of(low, high, dtype)
    return checked


def _compared(a: _Typed, b: _Typed) -> _Typed:
    _type_of((a, b))
    return _CONDITION


def _shifted(rule: Callable[[int, int], int]) -> Callable[..., _Typed]:
    """The range of shifts, which go one way with a number and, from 0 away, with the amount."""
    def checked(a: _Typed, n: _Typed | int) -> _Typed:
        amounts = n if isinstance(n, _Typed) else (n, n)
        width = te.bits(_type_of((a, n)))
        for end in amounts:
            if not 0 <= end < width:
                raise ValueError(f"a shift by {end} is not 0 to {width - 1}")
        ends = [rule(x, amount) for x in a for amount in amounts]
        return _checked(lambda a, n: (min(ends), max(ends)))(a, n)
    return checked


def _converted(dtype: str, x: _Typed) -> _Typed:
    return _Typed.of(*(x if x.within(_TYPES[dtype]) else _TYPES[dtype]), dtype)


def _product(a: IntegerRange, b: IntegerRange) -> tuple[int, int]:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _magnitude(x: IntegerRange) -> tuple[int, int]:
    return max(x.low, -x.high, 0), max(-x.low, x.high)


def _least(a: IntegerRange, b: IntegerRange) -> tuple[int, int]:
    return min(a.low, b.low), min(a.high, b.high)


def _greatest(a: IntegerRange, b: IntegerRange) -> tuple[int, int]:
    return max(a.low, b.low), max(a.high, b.high)


def _bits_of(a: IntegerRange, b: IntegerRange) -> tuple[int, int]:
    """The range of as many bits as the longer one has."""
    most = (1 << max(end.bit_length() if end >= 0 else (~end).bit_length()
                     for end in (*a, *b))) - 1
    return (0 if min(a.low, b.low) >= 0 else ~most), most


def _masked(a: IntegerRange, b: IntegerRange) -> tuple[int, int]:
    masks = [x.high for x in (a, b) if x.low >= 0]
    return (0, min(masks)) if masks else _bits_of(a, b)


def _monotone(function: Callable[..., np.ndarray]) -> Callable[..., tuple[int, int]]:
    def ends(x: IntegerRange, *numbers: int) -> tuple[int, int]:
        low, high = function(np.array(x), *numbers).tolist()
        return low, high
    return ends


_RANGES: dict[str, Callable] = {
    "number": lambda value: _Typed.of(value, value, ""),
    "add": _checked(lambda a, b: (a.low + b.low, a.high + b.high)),
    "sub": _checked(lambda a, b: (a.low - b.high, a.high - b.low)),
    "mul": _checked(_product),
    "and": _checked(_masked), "or": _checked(_bits_of), "xor": _checked(_bits_of),
    "shl": _shifted(int.__lshift__), "shr": _shifted(int.__rshift__),
    "neg": _checked(lambda a: (-a.high, -a.low)),
    **dict.fromkeys(_CONDITIONS, _compared),
    "min": _checked(_least), "max": _checked(_greatest), "abs": _checked(_magnitude),
    "clamp": _checked(lambda x, lo, hi: _least(IntegerRange(*_greatest(x, lo)), hi)),
    "select": lambda condition, a, b: _checked(
        lambda a, b: (min(a.low, b.low), max(a.high, b.high)))(a, b),
    "rshift_rne": _shifted(lambda x, n: int(_rounded_shift(np.array(x, np.int64), n))),
    "requantize": _checked(_monotone(_ARRAYS["requantize"])),
    **{dtype: partial(_converted, dtype) for dtype in _TYPES}}
