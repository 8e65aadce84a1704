"""Words of bits as terms of a solver, and questions to it.

The solver is Bitwuzla (Niemetz and Preiner, "Bitwuzla", CAV 2023), which decides formulas of
bit-vectors and arrays. A truth is a word of one bit here, as in hardware; words of no bits are
None.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.errors import Error

Term = Any
"""A word of the solver."""


class ProofError(Error, RuntimeError):
    """A proof that cannot be tried: the solver is absent, or hardware is not one that it takes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The solver's answer to a claim.

    Parameters
    ----------
    proved : True: it holds for all values; False: it does not for `values`; None: not decided in
        the time that was given.
    seconds : it took.
    values : the value of each named symbol, where the claim is refuted.
    reason : why it was not decided.
    """

    proved: bool | None
    seconds: float
    values: dict[str, int] = field(default_factory=dict)
    reason: str = ""


class Logic:
    """Makes terms, and asks about them. Raises ProofError where Bitwuzla is not installed."""

    def __init__(self) -> None:
        try:
            import bitwuzla
        except ImportError:
            raise ProofError("Proofs need the extra prove: pip install 'lockstep-hw[prove]'") \
                from None
        self._package, self._kinds = bitwuzla, bitwuzla.Kind
        self._terms = bitwuzla.TermManager()
        self._symbols: dict[str, Term] = {}
        self._depends: dict[Term, frozenset[str]] = {}
        self._proved: set[tuple[Any, ...]] = set()
        self._limits: dict[Term, tuple[int, int]] = {}

    # ---- words ---------------------------------------------------------------------------------

    def number(self, value: int, width: int) -> Term:
        return self._terms.mk_bv_value(self._terms.mk_bv_sort(width), value % (1 << width))

    def symbol(self, name: str, width: int) -> Term:
        """The symbol of a name; asked for again, it is the same."""
        if name not in self._symbols:
            self._symbols[name] = self._terms.mk_const(self._terms.mk_bv_sort(width), name)
        return self._symbols[name]

    def table(self, name: str, address: int, width: int) -> Term:
        """An array of any words, by addresses of so many bits."""
        sort = self._terms.mk_array_sort(self._terms.mk_bv_sort(address),
                                         self._terms.mk_bv_sort(width))
        return self._terms.mk_const(sort, name)

    def filled(self, address: int, rows: Sequence[int], width: int) -> Term:
        """An array whose first rows are given; the others are 0."""
        sort = self._terms.mk_array_sort(self._terms.mk_bv_sort(address),
                                         self._terms.mk_bv_sort(width))
        array = self._terms.mk_const_array(sort, self.number(0, width))
        for place, row in enumerate(rows):
            if row:
                array = self.stored(array, self.number(place, address), self.number(row, width))
        return array

    def row(self, array: Term, address: Term) -> Term:
        return self._made("ARRAY_SELECT", array, address)

    def stored(self, array: Term, address: Term, row: Term) -> Term:
        return self._made("ARRAY_STORE", array, address, row)

    def constant(self, term: Term) -> int | None:
        """The number that a word always is, where that is plain to see."""
        return int(term.value(10)) if term.is_value() else None

    def fixed(self, term: Term) -> bool:
        """Is it plain to see that a word is always the same?"""
        return term.is_value()

    def _made(self, kind: str, *terms: Term, indices: Sequence[int] = ()) -> Term:
        return self._terms.mk_term(getattr(self._kinds, kind), list(terms), list(indices))

    @staticmethod
    def width(term: Term) -> int:
        return term.sort().bv_size()

    def bits(self, term: Term, low: int, count: int) -> Term:
        """So many bits of a word, from bit `low` on: of what it is put together of, if they lie
        in one piece of that."""
        kinds = self._kinds
        while (low, count) != (0, self.width(term)):
            if (known := self.constant(term)) is not None:
                return self.number(known >> low, count)
            kind = term.kind()
            if kind == kinds.BV_CONCAT:
                high, below = term.children()
                edge = self.width(below)
                if low < edge < low + count:
                    return self._beside(self.bits(high, 0, low + count - edge),
                                        self.bits(below, low, edge - low))
                term, low = (high, low - edge) if low >= edge else (below, low)
            elif kind == kinds.BV_EXTRACT:
                term, low = term.children()[0], low + term.indices()[1]
            elif kind in (kinds.BV_SIGN_EXTEND, kinds.BV_ZERO_EXTEND) \
                    and low + count <= self.width(term.children()[0]):
                term = term.children()[0]
            else:
                return self._made("BV_EXTRACT", term, indices=(low + count - 1, low))
        return term

    def joined(self, parts: Iterable[Term]) -> Term:
        """Words side by side, the lowest first."""
        result = None
        for part in parts:
            result = part if result is None else self._beside(part, result)
        return result

    def _beside(self, high: Term, low: Term) -> Term:
        first, last, width = self.constant(high), self.constant(low), self.width(low)
        if first is None or last is None:
            return self._made("BV_CONCAT", high, low)
        return self.number(first << width | last, self.width(high) + width)

    def widened(self, term: Term, width: int, signed: bool) -> Term:
        """A word in `width` bits: its low bits, or extended."""
        more, known = width - self.width(term), self.constant(term)
        if more <= 0:
            return self.bits(term, 0, width)
        if known is not None:
            negative = signed and known >> self.width(term) - 1
            return self.number(known - (1 << self.width(term)) if negative else known, width)
        return self._made("BV_SIGN_EXTEND" if signed else "BV_ZERO_EXTEND", term, indices=(more,))

    def binary(self, kind: str, a: Term, b: Term) -> Term:
        """``add``, ``sub``, ``mul``, ``and``, ``or``, ``xor``, ``shl``, ``shr``, ``ashr``,
        ``udiv``, ``urem``, ``sdiv``, ``srem`` of two words of one width, which that of the
        result is."""
        if kind in ("and", "or", "xor", "add"):
            for one, other in ((a, b), (b, a)):
                known, every = self.constant(one), (1 << self.width(one)) - 1
                if known == (every if kind == "and" else 0):
                    return other
                if kind == "and" and known == 0 or kind == "or" and known == every:
                    return one
        return self._made(f"BV_{kind.upper()}", a, b)

    def compared(self, kind: str, a: Term, b: Term) -> Term:
        """``eq``, ``ult``, ``ule``, ``slt``, ``sle`` and the like: a truth."""
        if a.id() == b.id():
            return self.number(kind in ("eq", "ule", "uge", "sle", "sge"), 1)
        if kind == "eq" and None not in (ends := (self.constant(a), self.constant(b))):
            return self.number(ends[0] == ends[1], 1)
        if kind == "eq":
            return self._made("BV_COMP", a, b)
        return self.chosen_if(self._made(f"BV_{kind.upper()}", a, b), self.number(1, 1),
                              self.number(0, 1))

    def inverted(self, term: Term) -> Term:
        if (known := self.constant(term)) is not None:
            return self.number(~known, self.width(term))
        return self._made("BV_NOT", term)

    def negated(self, term: Term) -> Term:
        return self._made("BV_NEG", term)

    def chosen(self, test: Term, a: Term, b: Term) -> Term:
        """`a` where the truth holds, else `b`."""
        if (known := self.constant(test)) is not None:
            return a if known else b
        return self.chosen_if(self._holds(test), a, b)

    def chosen_if(self, formula: Term, a: Term, b: Term) -> Term:
        return self._made("ITE", formula, a, b)

    def any(self, term: Term) -> Term:
        """A truth: some bit of a word is 1."""
        if self.width(term) == 1:
            return term
        if (known := self.constant(term)) is not None:
            return self.number(known != 0, 1)
        return self._made("BV_REDOR", term)

    def all(self, term: Term) -> Term:
        return self._made("BV_REDAND", term)

    def parity(self, term: Term) -> Term:
        return self._made("BV_REDXOR", term)

    def every(self, truths: Iterable[Term]) -> Term:
        """A truth: all of these hold."""
        result = self.number(1, 1)
        for truth in truths:
            result = self.binary("and", result, truth)
        return result

    def some(self, truths: Iterable[Term]) -> Term:
        """A truth: at least one of these holds."""
        result = self.number(0, 1)
        for truth in truths:
            result = self.binary("or", result, truth)
        return result

    def implied(self, premise: Term, conclusion: Term) -> Term:
        return self.binary("or", self.inverted(premise), conclusion)

    def depends(self, term: Term) -> frozenset[str]:
        """The names of the symbols in a term."""
        todo = [term]
        while todo:
            one = todo[-1]
            if one in self._depends:
                todo.pop()
                continue
            parts = [] if one.is_const() or one.is_value() else list(one.children())
            missing = [part for part in parts if part not in self._depends]
            if missing:
                todo += missing
                continue
            todo.pop()
            own = frozenset((str(one.symbol()),)) if one.is_const() else frozenset()
            self._depends[one] = own.union(*(self._depends[part] for part in parts))
        return self._depends[term]

    def bounds(self, term: Term) -> tuple[int, int]:
        """The least and the greatest that a word can be as a number with a sign, or more."""
        kinds, width = self._kinds, self.width(term)
        low, high = -(1 << width - 1), (1 << width - 1) - 1
        if term in self._limits:
            return self._limits[term]
        known = self.constant(term)
        if known is not None:
            number = known - (1 << width if known > high else 0)
            return number, number
        parts = [] if term.is_const() else list(term.children())
        kind = term.kind()
        if kind == kinds.BV_SIGN_EXTEND:
            return self.bounds(parts[0])
        if kind == kinds.BV_ZERO_EXTEND:
            return 0, (1 << self.width(parts[0])) - 1
        if kind in (kinds.BV_ADD, kinds.BV_SUB):
            (a, b), (c, d) = map(self.bounds, parts)
            ends = (a + c, b + d) if kind == kinds.BV_ADD else (a - d, b - c)
            return ends if low <= ends[0] and ends[1] <= high else (low, high)
        if kind == kinds.BV_ASHR:           # towards 0, or -1
            a, b = self.bounds(parts[0])
            return min(a, 0), max(b, -1)
        if kind == kinds.ITE:
            (a, b), (c, d) = map(self.bounds, parts[1:])
            return min(a, c), max(b, d)
        return low, high

    def limited(self, term: Term, low: int, high: int) -> Term:
        """The word, for which better bounds are known than those of its form."""
        self._limits[term] = low, high
        return term

    def within(self, term: Term, low: int, high: int) -> Term:
        """A truth: a word, as a number with a sign, lies between."""
        first, last = (self.number(end, self.width(term)) for end in (low, high))
        return self.binary("and", self.compared("sle", first, term),
                           self.compared("sle", term, last))

    def _holds(self, truth: Term) -> Term:
        return self._made("EQUAL", truth, self.number(1, 1))

    def alike(self, terms: Sequence[Term]) -> tuple[Any, ...]:
        """Terms without the names of their symbols, which are numbered as they come: two
        questions that are alike have one answer."""
        numbers: dict[int, int] = {}
        told: list[Any] = []
        for term in terms:
            todo = [term]
            while todo:
                one = todo[-1]
                parts = [] if one.is_const() or one.is_value() else list(one.children())
                missing = [part for part in parts if part.id() not in numbers]
                if missing:
                    todo += reversed(missing)
                    continue
                todo.pop()
                if one.id() not in numbers:
                    numbers[one.id()] = len(numbers)
                    told.append(
                        str(one.sort()) if one.is_const() else str(one) if one.is_value() else
                        (one.kind(), *one.indices(), *(numbers[part.id()] for part in parts)))
            told.append(numbers[term.id()])
        return tuple(told)

    # ---- questions -----------------------------------------------------------------------------

    def decide(self, claim: Term, given: Iterable[Term] = (), seconds: float = 60.0) -> Answer:
        """Is a truth 1 wherever all those that are `given` are?"""
        package, begin, given = self._package, time.monotonic(), tuple(given)
        given = self._about(claim, given)
        key = self.alike((claim, *given))
        if key in self._proved:
            return Answer(True, 0.0)
        solver = self._solver(given, seconds)
        solver.assert_formula(self._made("NOT", self._holds(claim)))
        result = solver.check_sat()
        took = time.monotonic() - begin
        if result == package.Result.SAT:
            return Answer(False, took, {name: int(solver.get_value(term).value(10))
                                        for name, term in self._symbols.items()})
        if result == package.Result.UNSAT:
            self._proved.add(key)
            return Answer(True, took)
        return Answer(None, took)

    def possible(self, given: Iterable[Term], seconds: float = 60.0) -> bool:
        """Can all truths that are given hold at once? A claim about nothing always holds."""
        solver = self._solver(list(given), seconds)
        return solver.check_sat() != self._package.Result.UNSAT

    def _solver(self, given: Iterable[Term], seconds: float) -> Any:
        package = self._package
        options = package.Options()
        options.set(package.Option.PRODUCE_MODELS, True)
        options.set(package.Option.TIME_LIMIT_PER, max(1, int(seconds * 1000)))
        solver = package.Bitwuzla(self._terms, options)
        for truth in given:
            solver.assert_formula(self._holds(truth))
        return solver

    def _about(self, claim: Term, given: Sequence[Term]) -> list[Term]:
        """The part of what is given that says anything of the symbols of a claim, or of symbols
        that it sets beside them. What says of others is true for some values: it is left out."""
        names, left, chosen = set(self.depends(claim)), list(given), []
        while near := [one for one in left if names & self.depends(one)]:
            chosen += near
            names = names.union(*map(self.depends, near))
            left = [one for one in left if one not in near]
        return chosen
