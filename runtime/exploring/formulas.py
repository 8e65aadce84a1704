"""Formulas of figures: ``energy * ms``, ``(luts + 50*multipliers) / 1000``.

Names, numbers, ``+ - * / **`` and parentheses; nothing is called or executed. Figures are
intervals, and so is what a formula makes of them: the widest that they allow, as if their errors
had nothing to do with each other.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

from compiler.errors import RequestError

LONGEST = 200           # characters

OPERATIONS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: operator.pow}

Unit = Mapping[str, float] | None
"""Powers of units; none of a pure number, and None where no unit follows."""


class ObjectiveError(RequestError):
    """An objective that there is not, or of which a point has no figure."""


class ObjectiveValue(NamedTuple):
    """A figure, with the interval that an estimate gives; exact figures are their own interval."""

    value: float
    low: float
    high: float
    extrapolated: bool = False


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula as it was written, and its tree."""

    text: str
    tree: ast.expr

    @property
    def names(self) -> tuple[str, ...]:
        """The figures that it reads, each once."""
        return tuple(dict.fromkeys(node.id for node in ast.walk(self.tree)
                                   if isinstance(node, ast.Name)))

    def of(self, figure: Callable[[str], ObjectiveValue]) -> ObjectiveValue:
        """Its value. Raises ObjectiveError where it has none."""
        try:
            return _value(self.tree, figure)
        except (ZeroDivisionError, OverflowError, TypeError):      # TypeError: a complex number
            raise ObjectiveError(f"Objective {self.text} must have a value for every machine, "
                                 f"which it does not") from None

    def unit(self, units: Mapping[str, str]) -> str:
        """The unit that follows from those of the figures; "" where none does."""
        return _unit_text(_unit(self.tree, units))


def formula_of(text: str) -> Formula:
    """Parses a formula. Raises ObjectiveError for what is none."""
    text = text.strip()
    try:
        if len(text) > LONGEST:
            raise ValueError
        tree = ast.parse(text, mode="eval").body
        _require_arithmetic(tree)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise ObjectiveError(f"A formula must be names, numbers, + - * / ** and parentheses, at "
                             f"most {LONGEST} characters, not {text!r}") from None
    return Formula(text, tree)


def _require_arithmetic(tree: ast.expr) -> None:
    match tree:
        case ast.Name() | ast.Constant(value=int() | float()) if not _is_bool(tree):
            return
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow()):
            _require_arithmetic(tree.left)
            _require_arithmetic(tree.right)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            _require_arithmetic(tree.operand)
        case _:
            raise ValueError


def _is_bool(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Constant) and isinstance(tree.value, bool)


def _value(tree: ast.expr, figure: Callable[[str], ObjectiveValue]) -> ObjectiveValue:
    match tree:
        case ast.Name():
            return figure(tree.id)
        case ast.Constant():
            number = float(tree.value)      # type: ignore[arg-type]
            return ObjectiveValue(number, number, number)
        case ast.UnaryOp():
            inner = _value(tree.operand, figure)
            return (inner if isinstance(tree.op, ast.UAdd) else
                    ObjectiveValue(-inner.value, -inner.high, -inner.low, inner.extrapolated))
        case ast.BinOp():
            return _combined(tree.op, _value(tree.left, figure), _value(tree.right, figure))
    raise AssertionError(tree)


def _combined(op: ast.operator, left: ObjectiveValue, right: ObjectiveValue) -> ObjectiveValue:
    """Each operation is monotonic in both sides but where a base or a divisor passes zero."""
    compute = OPERATIONS[type(op)]
    if isinstance(op, ast.Div) and right.low <= 0 <= right.high:
        raise ZeroDivisionError
    ends = list(_ends(op, left))
    corners = [compute(a, b) for a in ends for b in (right.low, right.high)]
    value = compute(left.value, right.value)
    if not all(map(isfinite, (value, *corners))):
        raise OverflowError
    return ObjectiveValue(value, min(value, *corners), max(value, *corners),
                          left.extrapolated or right.extrapolated)


def _ends(op: ast.operator, base: ObjectiveValue) -> Iterator[float]:
    yield from (base.low, base.high)
    if isinstance(op, ast.Pow) and base.low < 0 < base.high:
        yield 0.0


def _unit(tree: ast.expr, units: Mapping[str, str]) -> Unit:
    match tree:
        case ast.Name():
            return {units[tree.id]: 1.0} if units[tree.id] else {}
        case ast.UnaryOp():
            return _unit(tree.operand, units)
        case ast.BinOp(op=ast.Mult() | ast.Div()):
            sign = 1 if isinstance(tree.op, ast.Mult) else -1
            return _product(_unit(tree.left, units), _unit(tree.right, units), sign)
        case ast.BinOp(op=ast.Pow()):
            return _power(_unit(tree.left, units), tree.right)
        case ast.BinOp():
            left, right = _unit(tree.left, units), _unit(tree.right, units)
            return left if left == right else None
    return {}


def _product(left: Unit, right: Unit, sign: int) -> Unit:
    if left is None or right is None:
        return None
    powers = {unit: left.get(unit, 0) + sign * right.get(unit, 0) for unit in {**left, **right}}
    return {unit: power for unit, power in powers.items() if power}


def _power(base: Unit, exponent: ast.expr) -> Unit:
    if not base:
        return base
    if isinstance(exponent, ast.Constant):
        return {unit: power * float(exponent.value)         # type: ignore[arg-type]
                for unit, power in base.items()}
    return None


def _unit_text(unit: Unit) -> str:
    """``uJ*ms``, ``uJ/ms**2``."""
    above = "*".join(_raised(name, power) for name, power in (unit or {}).items() if power > 0)
    below = "".join(f"/{_raised(name, -power)}" for name, power in (unit or {}).items()
                    if power < 0)
    return f"{above or '1'}{below}" if above or below else ""


def _raised(name: str, power: float) -> str:
    return name if power == 1 else f"{name}**{power:g}"
