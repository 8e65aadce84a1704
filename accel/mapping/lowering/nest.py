"""Affine views of loop nests: what a nest of loops does to an address, with outer loops fixed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compiler.graph.division.protocols import CannotCompile
from compiler.te import COMPARISONS, Binary, Const, Expr, Var


class LoweringError(CannotCompile):
    """A scheduled program that the machine has no instruction for."""


class NotAffine(Exception):
    """The expression depends on loops in a way that one instruction cannot follow."""


@dataclass(frozen=True, slots=True)
class AffineAddress:
    """``offset + sum of coefficients[v] * v`` over the loops that an instruction runs itself."""

    offset: int
    coefficients: Mapping[Var, int]

    def __add__(self, other: "AffineAddress") -> "AffineAddress":
        merged = dict(self.coefficients)
        for var, factor in other.coefficients.items():
            merged[var] = merged.get(var, 0) + factor
        return AffineAddress(self.offset + other.offset, {v: f for v, f in merged.items() if f})

    def scaled(self, factor: int) -> "AffineAddress":
        return AffineAddress(self.offset * factor,
                             {v: f * factor for v, f in self.coefficients.items() if factor})

    def over(self, var: Var) -> int:
        return self.coefficients.get(var, 0)

    def at(self, fixed: Mapping[Var, int]) -> "AffineAddress":
        """The address with the variables in `fixed` at their values."""
        inside = self.offset + sum(f * fixed[v] for v, f in self.coefficients.items() if v in fixed)
        return AffineAddress(inside, {v: f for v, f in self.coefficients.items() if v not in fixed})


Interval = tuple[int, int]
"""Values of a loop variable from the first to before the second."""

Box = Mapping[Var, Interval]


class NotABox(NotAffine):
    """A condition that ties loops together, so that it does not hold in a box of them."""

    def __init__(self, condition: Expr, form: AffineAddress, box: Box):
        super().__init__(condition)
        self.form, self.box = form, box

    @property
    def loops(self) -> Iterable[Var]:
        return self.form.coefficients

    def inside(self, var: Var) -> Interval:
        """Values of `var` for which the condition holds whatever the others are; may be empty."""
        low, high = self.box[var]
        others = AffineAddress(self.form.offset, {v: f for v, f in self.form.coefficients.items()
                                                  if v != var})
        return _clipped(_range(others, self.box)[0], self.form.over(var), low, high)


def affine(expr: Expr, fixed: Mapping[Var, int]) -> AffineAddress:
    """`expr` with the variables in `fixed` at their values."""
    match expr:
        case Const(value, _):
            return AffineAddress(int(value), {})
        case Var() if expr in fixed:
            return AffineAddress(fixed[expr], {})
        case Var():
            return AffineAddress(0, {expr: 1})
        case Binary("add", a, b):
            return affine(a, fixed) + affine(b, fixed)
        case Binary("sub", a, b):
            return affine(a, fixed) + affine(b, fixed).scaled(-1)
        case Binary(op, a, b):
            return _product_or_constant(op, affine(a, fixed), affine(b, fixed))
    raise NotAffine(expr)


def _product_or_constant(op: str, a: AffineAddress, b: AffineAddress) -> AffineAddress:
    if op == "mul" and not (a.coefficients and b.coefficients):
        return a.scaled(b.offset) if not b.coefficients else b.scaled(a.offset)
    if a.coefficients or b.coefficients:
        raise NotAffine(op)
    operations = {"floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y, "min": min,
                  "max": max}
    if op not in operations:
        raise NotAffine(op)
    return AffineAddress(operations[op](a.offset, b.offset), {})


def conjuncts(condition: Expr) -> Iterable[Expr]:
    """Splits a condition into those that `and` joins."""
    if isinstance(condition, Binary) and condition.op == "and":
        yield from conjuncts(condition.a)
        yield from conjuncts(condition.b)
    else:
        yield condition


def solve(condition: Expr, fixed: Mapping[Var, int], within: Box) -> dict[Var, Interval] | None:
    """The box, within `within`, in which the `condition` holds; None if it is empty.

    Raises NotAffine, or NotABox where only the loops together decide.
    """
    box = dict(within)
    for conjunct in conjuncts(condition):
        if isinstance(conjunct, Const):
            if not conjunct.value:
                return None
            continue
        for form in at_least_zero(conjunct, fixed):
            if not form.coefficients:
                if form.offset < 0:
                    return None
                continue
            if len(form.coefficients) > 1:
                low, high = _range(form, box)
                if high < 0:
                    return None
                if low < 0:
                    raise NotABox(conjunct, form, box)
                continue
            (var, factor), = form.coefficients.items()
            box[var] = _clipped(form.offset, factor, *box[var])
            if box[var][0] >= box[var][1]:
                return None
    return box


def _clipped(offset: int, factor: int, low: int, high: int) -> Interval:
    """The part of the values from `low` to before `high` where ``offset + factor * v >= 0``."""
    if factor > 0:
        return max(low, -(offset // factor)), high
    return low, min(high, offset // -factor + 1)


def _range(form: AffineAddress, box: Box) -> Interval:
    """Least and greatest value of `form` over a box."""
    ends = [(factor * box[var][0], factor * (box[var][1] - 1))
            for var, factor in form.coefficients.items()]
    return form.offset + sum(map(min, ends)), form.offset + sum(map(max, ends))


def at_least_zero(condition: Expr, fixed: Mapping[Var, int]) -> list[AffineAddress]:
    """Affine forms that are all >= 0 exactly where the comparison holds."""
    if not isinstance(condition, Binary) or condition.op not in COMPARISONS:
        raise NotAffine(condition)
    difference = affine(condition.a, fixed) + affine(condition.b, fixed).scaled(-1)
    up, down, minus_one = difference, difference.scaled(-1), AffineAddress(-1, {})
    if condition.op == "ne":
        if difference.coefficients:
            raise NotAffine(condition)
        return [AffineAddress(abs(difference.offset) - 1, {})]
    return {"ge": [up], "gt": [up + minus_one], "le": [down], "lt": [down + minus_one],
            "eq": [up, down]}[condition.op]
