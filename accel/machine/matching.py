"""The pattern of a declaration that the quantizer looks for in float networks."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from compiler.ops.integers.integer_text import OPERANDS
from compiler.ops.patterns import Immediates, Pattern
from compiler.ops.records.integer_forms import Stored
from compiler.ops.term_patterns import TermPattern
from compiler.te import Binary, Call, Const, Expr, Select, Var, walk
from compiler.tensorize import Immediate

_REAL = frozenset("add sub mul div min max lt le gt ge eq ne".split())

FIELDS = ("int8", "uint8", "int16", "uint16", "int32")
"""Types of fields of a record that constants of a network fill."""


def pattern_of(name: str, value: Callable[..., Expr], names: Sequence[str],
               fields: Mapping[str, Immediate], members: Mapping[str, str], stored: str,
               matches: Callable[..., Any] | None, immediates: Immediates | None,
               tolerance: float) -> Pattern | None:
    """The pattern of a vector operation that takes `names`, of which `fields` are immediates and
    `members` may be fields of its record. Refuses with ValueError what cannot be matched.
    """
    _require_tolerance(name, tolerance)
    if matches is None:
        _require_nothing(name, immediates, tolerance)
        return None
    for other in names:
        if other not in ("a", "b", *fields, *members):
            raise ValueError(f"Vector operation {name} must take a, b, immediates and parameters "
                             f"of channels alone to match something, not {other}")
    record = _record(name, {each: members[each] for each in names if each in members})
    operands = [operand for operand in ("a", "b") if operand in names]
    variables = _variables(name, matches, operands, record)
    inputs, constants = variables[:len(operands)], variables[len(operands):]
    scalars = tuple(fields[each] for each in names if each in fields)
    given = dict(zip(operands, (Var(place, "int32") for place in OPERANDS)))
    given |= {each.name: each for each in record} | {each.name: each.var for each in scalars}
    body = value(*(given[each] for each in names))
    if not isinstance(body, Expr) or body.dtype != "int32":
        raise ValueError(f"Result of vector operation {name} must be an int32 expression, "
                         f"not {body!r}")
    return Pattern(name, inputs, _real(name, matches(*variables), variables), body, scalars,
                   _told(name, immediates, [each.name for each in (*scalars, *record)],
                         len(inputs), len(constants), stored), constants, record, tolerance)


def _require_tolerance(name: str, tolerance: object) -> None:
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not (
            0 <= tolerance < inf):
        raise ValueError(f"Tolerance of {name} must be a finite number of 0 or more, "
                         f"not {tolerance!r}")


def _require_nothing(name: str, immediates: Immediates | None, tolerance: float) -> None:
    """Refuses, without a pattern, what says more about it."""
    if immediates is not None:
        raise ValueError(f"Immediates of vector operation {name} must come with matches: what they "
                         f"are follows from the scales of what it matches")
    if tolerance:
        raise ValueError(f"Tolerance of vector operation {name} must come with matches")


def _record(name: str, members: Mapping[str, str]) -> tuple[Var, ...]:
    """The fields of a record that a body reads, with their types."""
    for member, dtype in members.items():
        if dtype not in FIELDS:
            raise ValueError(f"Field {member} of {name} must be one of {', '.join(FIELDS)} to "
                             f"match something, not {dtype}")
        if member in OPERANDS:
            raise ValueError(f"Field {member} of {name} must have another name to match something: "
                             f"operands are called so")
    return tuple(Var(member, dtype) for member, dtype in members.items())


def _variables(name: str, matches: Callable[..., Any], operands: Sequence[str],
               record: Sequence[Var]) -> tuple[Var, ...]:
    """The real numbers of a pattern: one for each operand, then constants of channels."""
    inputs = _parameters("Matches", name, matches)
    if len(inputs) < len(operands) or len(inputs) > len(operands) and not record:
        more = ", and then constants of channels, which fill its record" if record else ""
        raise ValueError(f"Matches of {name} must take as many numbers as it has operands, "
                         f"{', '.join(operands)}{more}, not {', '.join(inputs) or 'none'}")
    return tuple(Var(each, "float32") for each in inputs)


def term_pattern_of(name: str, term: Callable[[Expr, Expr], Expr], types: tuple[str, str, str],
                    matches: Callable[..., Any] | None) -> TermPattern | None:
    """The pattern of a product with a term of these types: input, weight, accumulator. Refuses with
    ValueError what cannot be matched.
    """
    if matches is None:
        return None
    if types != ("int8", "int8", "int32"):
        raise ValueError(f"Product {name} must sum int8 in int32 to match something, not "
                         f"{types[0]} and {types[1]} in {types[2]}")
    inputs = _parameters("Matches", name, matches)
    if len(inputs) != 2:
        raise ValueError(f"Matches of {name} must take an input and a weight, not "
                         f"{', '.join(inputs) or 'none'}")
    x, w = (Var(each, "float32") for each in inputs)
    body = term(Var("x0", "int32"), Var("x1", "int32"))
    if not isinstance(body, Expr) or body.dtype != "int32":
        raise ValueError(f"Term of {name} must be an int32 expression, not {body!r}")
    pattern = TermPattern(name, (x, w), _real(name, matches(x, w), (x, w)), body)
    try:
        factors = [pattern.factor(scale, scale) for scale in (1.0, 0.75)]
    except ValueError as reason:
        raise ValueError(f"Term of {name} cannot match something: {reason}") from None
    if None in factors:
        raise ValueError(f"Matches of {name} must be a multiple of its term, where both numbers "
                         f"have one scale")
    return pattern


def _parameters(what: str, name: str, function: object) -> list[str]:
    if not callable(function):
        raise ValueError(f"{what} of {name} must be a function, not {function!r}")
    parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise ValueError(f"Parameter {parameter.name} of what {name} matches must be a plain "
                             f"one")
    return [parameter.name for parameter in parameters]


def _real(name: str, real: object, inputs: Sequence[Var]) -> Expr:
    if not isinstance(real, Expr) or real.dtype != "float32":
        kind = real.dtype if isinstance(real, Expr) else repr(real)
        raise ValueError(f"Matches of {name} must give an expression of real numbers, not {kind}")
    for node in walk(real):
        match node:
            case Const() | Var() | Select() | Call():
                pass
            case Binary(op) if op in _REAL:
                pass
            case _:
                what = node.op if isinstance(node, Binary) else type(node).__name__.lower()
                raise ValueError(f"Matches of {name} must be a function of real numbers, without "
                                 f"{what}")
    for variable in inputs:
        if variable not in walk(real):
            raise ValueError(f"Matches of {name} must depend on {variable.name}")
    return real


def _told(name: str, immediates: Immediates | None, wanted: Sequence[str], count: int,
          constants: int, stored: str) -> Immediates:
    """The function of immediates, after a trial that shows which ones it gives."""
    if immediates is None:
        if wanted:
            raise ValueError(f"Vector operation {name} must say by immediates= what "
                             f"{', '.join(wanted)} are where it matches")
        return lambda *quantized: {}
    if len(_parameters("Immediates", name, immediates)) != count + constants + 1:
        arrays = f", {constants} constants of channels" if constants else ""
        raise ValueError(f"Immediates of {name} must be a function of what it matches, "
                         f"{count} quantized{arrays} and then the result, each with scale and zp")
    *inputs, out = (Stored("", 1 / 16, 0, stored) for _ in range(count + 1))
    try:
        given = immediates(*inputs, *(np.full(3, 0.5) for _ in range(constants)), out)
    except (ValueError, ArithmeticError):       # none for these scales
        return immediates
    if not isinstance(given, Mapping) or set(given) != set(wanted):
        told = ", ".join(given) if isinstance(given, Mapping) else repr(given)
        raise ValueError(f"Immediates of {name} must be {', '.join(wanted) or 'none'}, by name, "
                         f"not {told}")
    return immediates
