"""Which iteration computes an element: loops as functions of the indices that a statement writes.

Splitting and fusing loops makes indices like ``i_o*4 + i_i``, ``i_j // 3`` and ``i_j % 3``. An
index that is a sum of loops has them as its digits, and a quotient and its remainder give what was
divided.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.ir import Domain, For, Linear, from_linear, is_implied, linear
from compiler.te import INDEX, Binary, Const, Expr, Extent, Var

__all__ = ["Digit", "digit_values", "digits_of", "iteration_of"]


@dataclass(frozen=True, slots=True)
class Digit:
    """A loop that an index counts `weight` times."""

    loop: For
    weight: int


def digits_of(index: Expr, loops: Mapping[Var, For]) -> tuple[Digit, ...] | None:
    """The loops, that of the most significant digit first, of an index that is their sum and takes
    every value from 0 once; None where it is another one.
    """
    form = linear(index)
    terms = sorted(form.terms, key=lambda term: -term[1])
    digits = tuple(Digit(loops[atom], weight) for atom, weight in terms
                   if isinstance(atom, Var) and atom in loops)
    weight: Extent = 1
    for digit in reversed(digits):
        if digit.weight != weight:
            return None
        weight = weight * digit.loop.extent     # of which only the last one's may be a symbol
    return digits if len(digits) == len(terms) and not form.constant else None


def iteration_of(indices: Sequence[Expr], element: Sequence[Expr],
                 domain: Domain) -> dict[Var, Expr]:
    """The loops' values in the iteration of the domain in which the indices are those of the
    element. Loops that the indices do not tell are missing.
    """
    known: dict[Expr, Expr] = {}
    pending = [(linear(index), place) for index, place in zip(indices, element, strict=True)]
    while pending:
        form, place = pending.pop()
        for atom, value in _digits(form, place, domain):
            known[atom] = value
            match atom:
                case Binary("floordiv" | "mod", whole, Const(divisor) as by):
                    parts = Binary("floordiv", whole, by), Binary("mod", whole, by)
                    if all(part in known for part in parts):
                        pending.append((linear(whole),
                                        known[parts[0]] * int(divisor) + known[parts[1]]))
    once = {var: Const(0, INDEX) for var, extent in domain.loops if extent == 1}
    return once | {atom: value for atom, value in known.items() if isinstance(atom, Var)}


def _digits(form: Linear, place: Expr, domain: Domain) -> list[tuple[Expr, Expr]]:
    """The value of each atom of a form that has the value `place`; none where they overlap."""
    terms = sorted(form.terms, key=lambda term: -term[1])
    for position, (_, weight) in enumerate(terms):
        below = from_linear(Linear(tuple(terms[position + 1:])))
        if weight < 1 or not (is_implied(below >= Const(0, INDEX), domain)
                              and is_implied(below < Const(weight, INDEX), domain)):
            return []
    values = digit_values(place - form.constant, [weight for _, weight in terms])
    return [(atom, value) for (atom, _), value in zip(terms, values, strict=True)]


def digit_values(place: Expr, weights: Sequence[int]) -> list[Expr]:
    """The digits of a number, of weights that fall: in this form `normalize` finds their sums."""
    values = []
    for weight in weights:
        values.append(place // weight)
        place = place % weight
    return values
