"""Products cut: multipliers are no matter for a solver of bits.

A product of the declared body becomes a symbol, which may be any number of its bits. A product of
the hardware is the same symbol where the solver proves that both its factors are those of the
body; what is left has no multiplier in it. What is proved so holds of true products, too. What is
refuted so may hold, and must be asked again without cuts.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from accel.formal.logic import Logic, Term

_SECONDS = 20.0
"""What it may take to prove that two factors are one."""


@dataclass(frozen=True, slots=True)
class _Product:
    factors: tuple[Term, Term]
    result: Term
    depends: frozenset[str]


class CutLogic(Logic):
    """A logic whose products are cut: those of bodies become symbols,
    those of hardware are looked for among them."""

    def __init__(self) -> None:
        super().__init__()
        self._products: list[_Product] = []
        self._hardware, self._given = False, tuple[Term, ...]()
        self.facts: list[Term] = []
        """What is true of the symbols."""

    def begin_body(self) -> None:
        """Products are those of a body from here on."""
        self._hardware = False

    def begin_hardware(self, given: Iterable[Term]) -> None:
        """Products are those of hardware from here on, of which some truths are given."""
        self._hardware, self._given = True, tuple(given)

    def binary(self, kind: str, a: Term, b: Term) -> Term:
        if kind != "mul" or None not in (self.constant(a), self.constant(b)):
            return super().binary(kind, a, b)
        width, depends = self.width(a), self.depends(a) | self.depends(b)
        if self._hardware:
            for product in self._products:
                if product.depends == depends and self._same(product, a, b):
                    return self.widened(product.result, width, True)
            return super().binary(kind, a, b)
        ends = [x * y for x in self.bounds(a) for y in self.bounds(b)]
        bits = max((end if end >= 0 else ~end).bit_length() for end in ends) + 1
        result = self.symbol(f"product{len(self._products)}", bits)
        self.facts.append(self.within(result, min(ends), max(ends)))
        self._products.append(_Product((a, b), result, depends))
        return self.widened(result, width, True)

    def _same(self, product: _Product, a: Term, b: Term) -> bool:
        """The low bits of a product depend on those of the factors alone."""
        width = self.width(a)
        x, y = (self.widened(factor, width, True) for factor in product.factors)
        for one, other in ((x, y), (y, x)):
            claim = self.every((self.compared("eq", a, one), self.compared("eq", b, other)))
            if self.constant(claim) or self.decide(claim, self._given, _SECONDS).proved:
                return True
        return False
