"""The meaning of declared bodies as terms of a solver: expressions of integers as `compiler.te`
defines them, apart from what makes hardware of them."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product

from accel.formal.logic import Logic, ProofError, Term
from compiler import te
from compiler.te import Axis, Binary, Call, Cast, Const, Expr, Read, Reduce, Select, Var

Reading = Callable[[str, tuple[Term | int, ...]], Term]
"""Gives an element of an operand, by its name and its indices, in the type of the operand."""

_PLAIN = {"add", "sub", "mul", "and", "or", "xor"}


def meaning(logic: Logic, value: Expr, axes: Sequence[Axis], place: Sequence[int],
            read: Reading, scalars: Mapping[str, Term]) -> Term:
    """The value of a body for the destination element at `place` along its axes.

    Parameters
    ----------
    scalars : immediates, in their types. Raises ProofError for floats.
    """
    known: dict[Expr, int] = {axis.var: number for axis, number in zip(axes, place, strict=True)}
    if not isinstance(value, Reduce):
        return _Meaning(logic, read, scalars, known).of(value)
    terms = [_Meaning(logic, read, scalars, known | dict(zip(
        (var for var, _ in value.axes), numbers, strict=True))).of(value.value)
        for numbers in product(*(range(extent) for _, extent in value.axes))]
    return _folded(logic, value.op, terms, value.dtype)


def _folded(logic: Logic, op: str, terms: list[Term], dtype: str) -> Term:
    """Neighbours, then neighbours of the results: of integers, any order gives the same."""
    if te.is_float(dtype):
        raise ProofError("Bodies must be of integers for a proof, not of floats")
    names = {"sum": "add", "max": "max", "min": "min"}
    while len(terms) > 1:
        pairs = [_binary(logic, names[op], a, b, te.is_signed(dtype))
                 for a, b in zip(terms[::2], terms[1::2])]
        terms = [*pairs, *terms[2 * len(pairs):]]
    return terms[0]


def _binary(logic: Logic, op: str, a: Term, b: Term, signed: bool) -> Term:
    """An operator of two integers of one type."""
    s = "s" if signed else "u"
    match op:
        case _ if op in _PLAIN: return logic.binary(op, a, b)
        case "max" | "min": return _extreme(logic, op, a, b, s)
        case "shl": return logic.binary("shl", a, b)
        case "shr": return logic.binary("ashr" if signed else "shr", a, b)
        case "rshift_rne": return _rounded(logic, a, b, signed)
        case "eq": return logic.compared("eq", a, b)
        case "ne": return logic.inverted(logic.compared("eq", a, b))
        case "lt" | "le" | "gt" | "ge": return logic.compared(s + op, a, b)
        case "floordiv" | "mod" if signed and logic.fixed(a) and logic.fixed(b):
            (x, _), (y, _) = logic.bounds(a), logic.bounds(b)
            return logic.number(x // y if op == "floordiv" else x % y, logic.width(a))
    raise ProofError(f"Bodies must have no operator {op} for a proof")


def _extreme(logic: Logic, op: str, a: Term, b: Term, sign: str) -> Term:
    first, second = (a, b) if op == "max" else (b, a)
    result = logic.chosen(logic.compared(f"{sign}lt", first, second), b, a)
    if sign == "u" or logic.fixed(result):
        return result
    choose = max if op == "max" else min
    return logic.limited(result, *map(choose, logic.bounds(a), logic.bounds(b)))


def _rounded(logic: Logic, value: Term, amount: Term, signed: bool) -> Term:
    """``value / 2**amount`` to the nearest integer, ties to even: the quotient, and one more where
    the rest is above half, or half and the quotient odd."""
    width = logic.width(value)
    quotient = logic.binary("ashr" if signed else "shr", value, amount)
    rest = logic.binary("sub", value, logic.binary("shl", quotient, amount))
    one = logic.number(1, width)
    zero = logic.compared("eq", amount, logic.number(0, width))
    half = logic.binary("shl", one, logic.binary("sub", amount, one))
    odd = logic.bits(quotient, 0, 1)
    up = logic.binary("or", logic.compared("ugt", rest, half), logic.binary(
        "and", logic.compared("eq", rest, half), odd))
    up = logic.binary("and", up, logic.inverted(zero))
    result = logic.binary("add", quotient, logic.widened(up, width, False))
    if not signed or logic.fixed(result):
        return result
    low, high = logic.bounds(value)         # a quotient is nearer to zero
    return logic.limited(result, min(low, 0), max(high, 0))


def combined(logic: Logic, kind: str, old: Term, value: Term) -> Term:
    """The result of an update of a destination with a value: ``sum``, ``max`` or ``min`` of
    numbers with a sign."""
    return _folded(logic, kind, [old, value], "int32")


class _Meaning:
    def __init__(self, logic: Logic, read: Reading, scalars: Mapping[str, Term],
                 known: Mapping[Expr, int]) -> None:
        self.logic, self._read, self._scalars, self._places = logic, read, scalars, known
        self._known: dict[int, Term] = {}

    def of(self, expr: Expr) -> Term:
        if id(expr) not in self._known:
            self._known[id(expr)] = self._compute(expr)
        return self._known[id(expr)]

    def _compute(self, expr: Expr) -> Term:
        logic = self.logic
        if te.is_float(expr.dtype):
            raise ProofError("Bodies must be of integers for a proof, not of floats")
        width = te.bits(expr.dtype)
        match expr:
            case Const(value, _): return logic.number(int(value), width)
            case Var(name, _) if expr in self._places:
                return logic.number(self._places[expr], width)
            case Var(name, _): return self._scalars[name]
            case Read(buffer, indices):
                return self._read(buffer.name, tuple(self._index(index) for index in indices))
            case Binary(op, a, b):
                return _binary(logic, op, self.of(a), self.of(b), te.is_signed(a.dtype))
            case Select(test, a, b): return logic.chosen(self.of(test), self.of(a), self.of(b))
            case Cast(value, "bool"): return logic.any(self.of(value))
            case Cast(value, _):
                return logic.widened(self.of(value), width, te.is_signed(value.dtype))
            case Call("abs", (a,)):
                value = self.of(a)
                negative = logic.compared("slt", value, logic.number(0, width))
                return logic.chosen(negative, logic.negated(value), value)
        raise ProofError(f"Bodies must have no {type(expr).__name__.lower()} for a proof")

    def _index(self, index: Expr) -> Term | int:
        return self._places[index] if index in self._places else self.of(index)
