"""Gradients of functions of single elements.

The gradient of a function of one element is that of the result times a slope, which `SLOPES` has of
the element x and the result y. Of two elements that are equal, `minimum` and `maximum` give all to
the second, so that ``maximum(x, 0)`` has the gradient of `relu`, 0 at 0. What only rounds is
constant between its steps, and at them: its gradient is 0.
"""

from collections.abc import Callable
from math import pi, sqrt

from compiler.frontend.building.values import Value
from compiler.gradients.rules.adjoint import Adjoint, Gradient, Rule, apply

Slope = Callable[[Value, Value], Value]

SLOPES: dict[str, Slope] = {
    "neg": lambda x, y: x.like(-1),
    "abs": lambda x, y: apply("sign", x),
    "erf": lambda x, y: (-(x * x)).exp() * (2 / sqrt(pi)),
    "log": lambda x, y: 1 / x,
    "sqrt": lambda x, y: 0.5 / y,
    "sin": lambda x, y: apply("cos", x),
    "cos": lambda x, y: -apply("sin", x),
    "tan": lambda x, y: y * y + 1,
    "asin": lambda x, y: 1 / (1 - x * x).sqrt(),
    "acos": lambda x, y: -1 / (1 - x * x).sqrt(),
    "atan": lambda x, y: 1 / (x * x + 1),
    "sinh": lambda x, y: apply("cosh", x),
    "cosh": lambda x, y: apply("sinh", x),
    "tanh": lambda x, y: 1 - y * y,
    "asinh": lambda x, y: 1 / (x * x + 1).sqrt(),
    "acosh": lambda x, y: 1 / ((x - 1) * (x + 1)).sqrt(),
    "atanh": lambda x, y: 1 / (1 - x * x),
}


def _times(slope: Slope) -> Rule:
    return lambda at: [lambda: at.gradient * slope(at.x, at.result)]


def _exp(at: Adjoint) -> list[Gradient]:
    """0 where the gradient of the result is: a power that is infinite, as in a sigmoid of what is
    far below zero, would make NaN of it.
    """
    return [lambda: at.gradient.equal(0).where(0, at.gradient * at.result)]


def _add(at: Adjoint) -> list[Gradient]:
    return [lambda: at.gradient, lambda: at.gradient]


def _sub(at: Adjoint) -> list[Gradient]:
    return [lambda: at.gradient, lambda: -at.gradient]


def _mul(at: Adjoint) -> list[Gradient]:
    a, b = at.inputs
    return [lambda: at.gradient * b, lambda: at.gradient * a]


def _div(at: Adjoint) -> list[Gradient]:
    a, b = at.inputs
    return [lambda: at.gradient / b, lambda: -(at.gradient * at.result) / b]


def _rest(at: Adjoint) -> list[Gradient]:
    """A rest is a - q b, with a quotient q that is constant between its steps."""
    a, b = at.inputs
    return [lambda: at.gradient,
            lambda: -at.gradient * apply("rint", (a - at.result) / b)]


def _chosen(first: str) -> Rule:
    """All goes to the operand that the result is; `first` compares a with b where that is a."""
    def rule(at: Adjoint) -> list[Gradient]:
        a, b = at.inputs
        chosen = b < a if first == "greater" else a < b
        return [lambda: chosen.where(at.gradient, 0), lambda: chosen.where(0, at.gradient)]
    return rule


def _pow(at: Adjoint) -> list[Gradient]:
    """No gradient where the exponent is 0, nor to the exponent of 0: there 0 meets infinity."""
    a, b = at.inputs

    def of_base() -> Value:
        return at.gradient * b.equal(0).where(0, b * a ** (b - 1))

    def of_exponent() -> Value:
        gone = a.equal(0) & (b >= 0)
        return at.gradient * gone.where(0, at.result * a.log())

    return [of_base, of_exponent]


def _where(at: Adjoint) -> list[Gradient | None]:
    condition = at.x
    return [None, lambda: condition.where(at.gradient, 0), lambda: condition.where(0, at.gradient)]


def _cast(at: Adjoint) -> list[Gradient]:
    return [lambda: at.gradient]


def _none(at: Adjoint) -> list[None]:
    return [None]


GRADIENTS: dict[str, Rule] = {
    **{name: _times(slope) for name, slope in SLOPES.items()},
    **dict.fromkeys(("floor", "ceil", "rint", "sign"), _none),
    "exp": _exp, "add": _add, "sub": _sub, "mul": _mul, "div": _div, "mod": _rest, "fmod": _rest,
    "maximum": _chosen("greater"), "minimum": _chosen("less"), "pow": _pow, "where": _where,
    "cast": _cast,
}
