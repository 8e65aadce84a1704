"""Index expressions as linear forms.

A linear form is a sum of integer multiples of *atoms* plus a constant. Atoms are variables and
whatever is not linear: a ``floordiv``, ``mod``, ``min``, ``max``, a product of variables. Indices
are taken as mathematical integers: they never come near the limits of their type.
"""

from dataclasses import dataclass
from math import gcd

from compiler.te import INDEX, Binary, Buffer, Const, Expr, Var

Extents = dict[Var, int]
"""Known ranges: a variable that is listed runs from 0 to its extent, exclusive."""


_AFFINE = frozenset(("add", "sub", "mul", "floordiv", "mod", "min", "max"))


@dataclass(frozen=True, slots=True)
class Linear:
    """``sum(coefficient * atom) + constant``; no coefficient is zero."""

    terms: tuple[tuple[Expr, int], ...] = ()
    constant: int = 0

    def __add__(self, other: "Linear") -> "Linear":
        constant = self.constant + other.constant
        if not (self.terms and other.terms):
            return Linear(self.terms or other.terms, constant)
        terms = dict(self.terms)
        for atom, factor in other.terms:
            terms[atom] = terms.get(atom, 0) + factor
        return Linear(tuple((a, f) for a, f in terms.items() if f), constant)

    def scaled(self, factor: int) -> "Linear":
        if factor == 0:
            return Linear()
        return Linear(tuple((a, f * factor) for a, f in self.terms), self.constant * factor)

    def __sub__(self, other: "Linear") -> "Linear":
        return self + other.scaled(-1)


def is_index(expr: Expr) -> bool:
    """True if it is built from variables, integers and index arithmetic alone."""
    if isinstance(expr, Binary):
        return expr.op in _AFFINE and is_index(expr.a) and is_index(expr.b)
    return isinstance(expr, Var | Const) and expr.dtype == INDEX


def affine(expr: Expr) -> tuple[dict[Var, int], int] | None:
    """Coefficients and constant when `expr` is affine in its variables, else None."""
    form = linear(expr)
    if not all(isinstance(atom, Var) for atom, _ in form.terms):
        return None
    return {atom: factor for atom, factor in form.terms if isinstance(atom, Var)}, form.constant


def linear(expr: Expr, extents: Extents | None = None) -> Linear:
    """Linear form of an index expression; `extents` let divisions be resolved."""
    known = getattr(expr, "_linear", None)
    if known is not None:
        return known
    if isinstance(expr, Const):
        form = Linear((), int(expr.value))
    elif not isinstance(expr, Binary) or expr.op not in _AFFINE:
        form = Linear(((expr, 1),))
    else:
        extents, op = extents or {}, expr.op
        a, b = linear(expr.a, extents), linear(expr.b, extents)
        match op:
            case "add": form = _joined(a + b)
            case "sub": form = _joined(a - b)
            case "mul": form = _product(a, b)
            case "min" | "max": return _extremum(op, a, b, extents)
            case _: return _division(op, a, b, extents)
        if not (hasattr(expr.a, "_linear") and hasattr(expr.b, "_linear")):
            return form
    object.__setattr__(expr, "_linear", form)       # the same whatever the extents are
    return form


def _product(a: Linear, b: Linear) -> Linear:
    if not a.terms:
        return b.scaled(a.constant)
    if not b.terms:
        return a.scaled(b.constant)
    return Linear(((Binary("mul", from_linear(a), from_linear(b)), 1),))


def _division(op: str, a: Linear, b: Linear, extents: Extents) -> Linear:
    """Multiples of the divisor leave the division: ``(8*x + y) // 4`` is ``2*x + y // 4``. What is
    less than all other terms move by does, too: ``(4*x + y) // 16`` is ``x // 4`` for y below 4.
    """
    if b.terms or b.constant <= 0:
        return Linear(((Binary(op, from_linear(a), from_linear(b)), 1),))
    c = b.constant
    whole = Linear(tuple((t, f // c) for t, f in a.terms if f % c == 0), a.constant // c)
    rest = Linear(tuple((t, f) for t, f in a.terms if f % c), a.constant % c)
    span = interval(rest, extents)
    if span and span[0] >= 0 and span[1] < c:
        return whole if op == "floordiv" else rest
    if (parts := _coarse(rest, c, extents)) is not None:
        step, coarse, fine = parts
        inner = _division(op, coarse, Linear((), c // step), extents)
        return whole + inner if op == "floordiv" else _joined(inner.scaled(step) + fine)
    atom = Linear(((Binary(op, from_linear(rest), Const(c, INDEX)), 1),))
    return whole + atom if op == "floordiv" else atom


def _coarse(form: Linear, divisor: int, extents: Extents) -> tuple[int, Linear, Linear] | None:
    """A form as ``step * coarse + fine``, with `fine` from 0 to before `step`, which divides the
    divisor; None where there is no step but 1.
    """
    for step in sorted({gcd(factor, divisor) for _, factor in form.terms} - {1}, reverse=True):
        coarse = Linear(tuple((t, f // step) for t, f in form.terms if f % step == 0),
                        form.constant // step)
        fine = Linear(tuple((t, f) for t, f in form.terms if f % step), form.constant % step)
        span = interval(fine, extents)
        if span and span[0] >= 0 and span[1] < step:
            return step, coarse, fine
    return None


def _extremum(op: str, a: Linear, b: Linear, extents: Extents) -> Linear:
    span = interval(a - b, extents)
    if span and (span[1] <= 0 or span[0] >= 0):
        return a if (span[1] <= 0) == (op == "min") else b
    return Linear(((Binary(op, from_linear(a), from_linear(b)), 1),))


def _joined(form: Linear) -> Linear:
    """``c*k*(e // c) + k*(e % c)`` is ``k*e``."""
    terms = dict(form.terms)
    for atom, factor in form.terms:
        match atom:
            case Binary("mod", e, Const(c) as divisor):
                twin = Binary("floordiv", e, divisor)
                if terms.get(twin) == factor * c:
                    return _joined(form - Linear(((atom, factor), (twin, factor * int(c))))
                                   + linear(e).scaled(factor))
    return form


def interval(form: Linear, extents: Extents) -> tuple[int, int] | None:
    """Least and greatest value over the box of `extents`, or None when an atom is unknown."""
    low = high = form.constant
    for atom, factor in form.terms:
        span = _atom_interval(atom, extents)
        if span is None:
            return None
        ends = (span[0] * factor, span[1] * factor)
        low, high = low + min(ends), high + max(ends)
    return low, high


def _atom_interval(atom: Expr, extents: Extents) -> tuple[int, int] | None:
    match atom:
        case Var() if atom in extents:
            return 0, extents[atom] - 1
        case Binary("mod", _, Const(c)) if c > 0:
            return 0, int(c) - 1
        case Binary("floordiv", e, Const(c)) if c > 0:
            span = interval(linear(e, extents), extents)
            return span and (span[0] // int(c), span[1] // int(c))
        case _:
            return None


def from_linear(form: Linear) -> Expr:
    """Canonical expression: positive terms first, in order of appearance, the constant last."""
    terms = sorted(form.terms, key=lambda term: term[1] < 0)
    if not terms or (terms[0][1] < 0):
        result: Expr = Const(form.constant, INDEX)
        constant = 0
    else:
        result, terms = _term(*terms[0]), terms[1:]
        constant = form.constant
    for atom, factor in terms:
        result = Binary("add" if factor > 0 else "sub", result, _term(atom, abs(factor)))
    if constant:
        op = "add" if constant > 0 else "sub"
        result = Binary(op, result, Const(abs(constant), INDEX))
    return result


def offset(buffer: Buffer, indices: tuple[Expr, ...], pitches: tuple[int, ...] = ()) -> Expr:
    """The place of an element, counted in elements from the first: what every back end addresses.
    `pitches` take the place of the buffer's own.
    """
    place: Expr = Const(0, INDEX)
    for index, pitch in zip(indices, pitches or buffer.pitches, strict=True):
        term = index if pitch == 1 else index * pitch
        place = term if place == Const(0, INDEX) else place + term
    return place


def _term(atom: Expr, factor: int) -> Expr:
    return atom if factor == 1 else Binary("mul", atom, Const(factor, INDEX))
