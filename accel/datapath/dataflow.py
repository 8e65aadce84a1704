"""Bodies of intrinsics as operations on exact integers.

A body is lowered (`accel.datapath.lowering`) to a graph of `DataflowNode`s. Every value is an
integer with an `Interval` that holds it; widths follow from intervals, and where a type would
overflow the graph says so with `wrap`. Types are gone: an int64 product of a 33-bit and a 17-bit
operand is a product of 50 bits, and a float is its bits, with operations made of those on integers
(`accel.datapath.floats`).

Kinds, with arguments [and attributes]::

    read [bus, indices]    imm [name]    const [value]
    lookup index table         the number that a table has for an index
    element i a b ...          the argument behind i whose number is i
    lane [numbers]             a number that differs from lane to lane, and from term to term
    add sub mul min max and or xor abs lt le gt ge eq ne    select c a b
    wrap x [bits, signed]      the low bits of x, as a number
    lsl x [n]    asr x [n]     by a constant: wires
    drop x n                   floor(x / 2**n), n of `lane`: wires
    rshift x n                 floor(4 x / 2**n), lowest bit set if anything was lost: quotient,
                               guard and sticky bit; as a whole, before it is placed into stages
    lshift x n [bits, signed]  low bits of x * 2**n, before it is placed into stages
    stick y n [low, bits]      one digit of rshift: by the bits low ... low + bits - 1 of n
    left x n [low, bits]       one digit of lshift, exact
    round y                    quotient, guard and sticky bit to the nearest, ties to even
    clip y [bits]              y, or the signed number of `bits` bits that is nearest to it
    limit x lo hi under over crossed   hi if over or crossed, else lo if under, else x
    mux a b ... [cases]        the argument of the case that holds the opcode's body
    pick a b ... c d ... [n, rows]   the one of the first n arguments whose row holds a term
                               (bodies, k, true): the opcode's body is of them, and the k-th of the
                               other arguments (a comparison; every value, where k is None) is so
    across x [axis, count]     the `count` values along an axis of the destination as terms: wires
    pad x [count, terms]       the first `count` terms of x, then zeros
    take x [count]             the first `count` terms of x, of which the others are zero
    fold x [op, count]         neighbours of `count` terms combined: half as many
    every x [first, count, fill]   of `count` terms every second, from `first` on: what operations
                               on neighbours take; `fill` where the last has no neighbour
    cat a b [bits]             a * 2**bits + b, which has as many bits
    zeros x [bits]             zeros before the first one of `bits` bits

Indices are ``("axis", k)`` (of the destination), ``("reduce", k)`` or ``("at", number)``; or one
index counts the elements of the operand in row-major order: ``("each", axes, numbers)``, with a
number for each place along some axes and each term. A node
has a value for each destination element along `axes` and, below the last fold, for each of `terms`.

gemm computes the terms of its reduction beside each other. vector reduces over the lanes of a row:
each lane computes a term, with the operators that it has for other bodies, and `across` gathers
them; what the folds leave is the value of every lane.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler import te
from compiler.errors import Error

EXPENSIVE = ("mul", "rshift", "lshift", "lookup")
"""Kinds of operations that bodies share; bodies exclude each other in time."""

_GATHERING = ("fold", "every", "across", "mux", "pad", "take")
"""Kinds that choose or combine what is there, which constants do not decide alone."""

WIDE = 36
"""Bits beyond which an adder counts as two."""

COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


class PlanError(Error, ValueError):
    """A body that no datapath can be built for: names the body and the reason."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers from `low` to `high`."""

    low: int
    high: int

    @classmethod
    def of(cls, bits: int, signed: bool) -> "Interval":
        low = -(1 << (bits - 1)) if signed else 0
        return cls(low, low + (1 << bits) - 1)

    @classmethod
    def of_type(cls, dtype: str) -> "Interval":
        """The numbers of an integer type; the bits of a float type."""
        return cls.of(te.bits(dtype), te.is_signed(dtype) and not te.is_float(dtype))

    @property
    def signed(self) -> bool:
        return self.low < 0

    @property
    def width(self) -> int:
        """Bits of the narrowest signal that holds every value."""
        bits = max((~self.low if self.low < 0 else 0).bit_length(), self.high.bit_length()
                   if self.high > 0 else 0)
        return max(bits + self.signed, 1)

    def __contains__(self, other: "Interval") -> bool:
        return self.low <= other.low and other.high <= self.high

    def __or__(self, other: "Interval") -> "Interval":
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def __str__(self) -> str:
        return f"{'s' if self.signed else 'u'}{self.width}"


@dataclass(frozen=True, slots=True, eq=False)
class DataflowNode:
    """One operation; equal only to itself, because a `Dataflow` makes each once."""

    number: int
    kind: str
    args: tuple["DataflowNode", ...]
    attr: tuple
    interval: Interval
    axes: frozenset[int]
    terms: int


def topological(roots: tuple[DataflowNode, ...]) -> Iterator[DataflowNode]:
    """Every node that the roots depend on, once, arguments first."""
    seen: set[DataflowNode] = set()

    def visit(node: DataflowNode) -> Iterator[DataflowNode]:
        if node not in seen:
            seen.add(node)
            for arg in node.args:
                yield from visit(arg)
            yield node

    for root in roots:
        yield from visit(root)


class Dataflow:
    """Builds nodes: equal operations on equal arguments are one node; constants fold."""

    def __init__(self):
        self._nodes: dict[tuple, DataflowNode] = {}

    def leaf(self, kind: str, attr: tuple, interval: Interval, axes: Iterable[int] = (),
             terms=1) -> DataflowNode:
        return self._intern(kind, (), attr, interval, frozenset(axes), terms)

    def const(self, value: int) -> DataflowNode:
        return self.leaf("const", (value,), Interval(value, value))

    def make(self, kind: str, args: tuple[DataflowNode, ...], attr: tuple = ()) -> DataflowNode:
        intervals = [arg.interval for arg in args]
        if all(arg.kind == "const" for arg in args) and kind not in _GATHERING:
            return self.const(int(meaning(kind, attr, *(arg.attr[0] for arg in args))))
        match kind, args:
            case "wrap", (x,) if x.interval in Interval.of(*attr):
                return x
            case "select", (c, a, b) if c.kind == "const" or a is b:
                return a if a is b or c.attr[0] else b
            case "mux", (first, *rest) if all(other is first for other in rest):
                return first
            case "element", (index, *values) if index.kind == "const":
                return values[index.attr[0]]
            case "fold", (x,) if x.kind == "take" and attr == ("sum", *x.attr):
                if whole := self._summed(x.args[0], x.terms):
                    return self.make(kind, (whole,), attr)
            case "min", (x, hi) if x.kind == "max" and _narrow(hi) and _narrow(x.args[1]):
                return self._limited(x.args[0], x.args[1], hi)
            case "mul", (a, b) if a.interval.width < b.interval.width:
                return self.make(kind, (b, a))
            case "mul", (a, b) if b.kind == "const" and b.attr[0].bit_count() == 1 < b.attr[0]:
                return self.make("lsl", (a,), (b.attr[0].bit_length() - 1,))
        terms = max(arg.terms for arg in args)
        axes = frozenset().union(*(arg.axes for arg in args))
        match kind:
            case "fold" | "every": terms = -(-attr[1] // 2)
            case "across": axes, terms = axes - {attr[0]}, attr[1]
            case "pad": terms = attr[1]
            case "take": terms = attr[0]
        return self._intern(kind, args, attr, _bounds(kind, attr, intervals), axes, terms)

    def _summed(self, x: DataflowNode, terms: int) -> DataflowNode | None:
        """The sum of x in so many terms, where folds come to this number."""
        while x.terms > terms:
            x = self.make("fold", (x,), ("sum", x.terms))
        return x if x.terms == terms else None

    def _limited(self, x: DataflowNode, lo: DataflowNode, hi: DataflowNode) -> DataflowNode:
        """``min(max(x, lo), hi)`` by parallel comparisons: only the bits of the result are handed
        on from x, and a value wider than `WIDE` is clipped before an addition or comparison.
        """
        bounds = lo.interval | hi.interval
        x = self._clipped(x, bounds.low, bounds.high)
        result = Interval(min(lo.interval.low, hi.interval.low), hi.interval.high)
        inside = self.make("wrap", (x,), (result.width, result.signed))
        tests = (self.make("lt", pair) for pair in ((x, lo), (hi, x), (hi, lo)))
        return self.make("limit", (inside, lo, hi, *tests))

    def _clipped(self, x: DataflowNode, low: int, high: int) -> DataflowNode:
        """A narrower `x`: equal from `low` to `high`, elsewhere too low or too high as `x` is.
        Rounding and adding keep the order, so they can follow."""
        if x.interval.width <= WIDE:
            return x
        match x.kind, x.args:
            case "round", (y,):
                return self.make("round", (self._clipped(y, 4 * low - 4, 4 * high + 4),))
            case "add", (y, z) if z.interval.width < y.interval.width:
                within = low - z.interval.high, high - z.interval.low
                return self.make("add", (self._clipped(y, *within), z))
        bits = Interval(min(low, 0) - 1, high + 1).width
        return self.make("clip", (x,), (bits,)) if bits < x.interval.width else x

    def choice(self, cases: Mapping[DataflowNode, tuple[int, ...]]) -> DataflowNode:
        """The value of the case that holds the opcode's body.

        A minimum or maximum among three cases or more is a choice itself: its comparison, which
        other bodies may have as well, then decides here, and one multiplexer does for all.
        """
        plain = self.make("mux", tuple(cases), tuple(cases.values()))
        if len(cases) <= 2 or not any(self._opens(case, plain) for case in cases):
            return plain
        rows: dict[DataflowNode, list[tuple]] = {}
        tests: dict[DataflowNode, int] = {}
        for case, bodies in cases.items():
            if not self._opens(case, plain):
                rows.setdefault(case, []).append((bodies, None, True))
                continue
            a, b = case.args
            test = tests.setdefault(self.make("lt", (a, b)), len(tests))
            for value, less in ((a, case.kind == "min"), (b, case.kind == "max")):
                rows.setdefault(value, []).append((bodies, test, less))
        return self.make("pick", (*rows, *tests), (len(rows), tuple(map(tuple, rows.values()))))

    def _opens(self, case: DataflowNode, choice: DataflowNode) -> bool:
        return case.kind in ("min", "max") and all(
            arg.interval in choice.interval for arg in case.args)

    def narrow(self, x: DataflowNode, interval: Interval) -> DataflowNode:
        """`x`, known to lie in `interval`."""
        if interval.width >= x.interval.width:
            return x
        return self._intern("wrap", (x,), (interval.width, interval.signed), interval, x.axes,
                            x.terms)

    def _intern(self, kind, args, attr, interval, axes, terms) -> DataflowNode:
        key = (kind, tuple(arg.number for arg in args), attr, interval)
        if key not in self._nodes:
            self._nodes[key] = DataflowNode(len(self._nodes), kind, args, attr, interval, axes,
                                            terms)
        return self._nodes[key]


def _narrow(bound: DataflowNode) -> bool:
    return bound.kind in ("imm", "const")


def _corners(function, a: Interval, b: Interval) -> Interval:
    values = [function(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Interval(min(values), max(values))


def _bounds(kind: str, attr: tuple, intervals: list[Interval]) -> Interval:
    """The interval of a result. Its ends are exact except for bitwise operations."""
    a = intervals[0]
    b = intervals[-1]
    match kind:
        case "add" | "min" | "max" | "mul":
            return _corners(lambda x, y: meaning(kind, attr, x, y), a, b)
        case "sub":
            return Interval(a.low - b.high, a.high - b.low)
        case "abs":
            most = max(abs(a.low), abs(a.high))
            return Interval(0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high)), most)
        case "and" if not (a.signed and b.signed):
            return Interval(0, min(i.high for i in (a, b) if not i.signed))
        case "and" | "or" | "xor":
            return Interval.of((a | b).width, a.signed or b.signed)
        case "select":
            return intervals[1] | b
        case "mux":
            return Interval(min(i.low for i in intervals), max(i.high for i in intervals))
        case "limit":
            x, lo, hi = intervals[:3]
            return Interval(min(i.low for i in (x, lo, hi)), max(i.high for i in (x, lo, hi)))
        case "pick":
            values = intervals[:attr[0]]
            return Interval(min(i.low for i in values), max(i.high for i in values))
        case "wrap":
            return Interval.of(*attr)
        case "lookup":
            return Interval.of_type("int8")
        case "across":
            return a
        case "cat":
            return Interval((a.low << attr[0]) + b.low, (a.high << attr[0]) + b.high)
        case "zeros":
            return Interval(attr[0] - a.high.bit_length(), attr[0] - a.low.bit_length())
        case "every":
            return a | Interval(attr[2], attr[2]) if attr[0] and attr[1] % 2 else a
        case "element":
            return Interval(min(i.low for i in intervals[1:]), max(i.high for i in intervals[1:]))
        case "pad":
            return a | Interval(0, 0)
        case "take":
            return a
        case "drop":
            return _corners(lambda x, n: meaning(kind, attr, x, n), a, b)
        case "lsl" | "asr" | "round" | "clip":
            return Interval(meaning(kind, attr, a.low), meaning(kind, attr, a.high))
        case "rshift":
            return _corners(lambda x, n: meaning(kind, attr, x, n), a, b)
        case "stick":
            amounts = b if b.low == b.high else Interval(0, _digit(-1, *attr))
            return _corners(_sticky, a, amounts)
        case "left":
            return _corners(lambda x, n: x << n, a, Interval(0, _digit(-1, *attr)))
        case "lshift":
            exact = _corners(lambda x, n: x << n, a, b)
            full = Interval.of(*attr)
            return exact if exact in full else full
        case "fold":
            return a if attr[0] != "sum" else Interval(min(a.low, 2 * a.low),
                                                       max(a.high, 2 * a.high))
        case _:
            assert kind in COMPARISONS, kind
            return Interval(0, 1)


def _compare(kind: str, a, b):
    return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[kind]


def _sticky(y, n):
    return y >> n | (y != y >> n << n) * 1


def _digit(n, low: int, bits: int):
    return n & ((1 << bits) - 1) << low


def _bit_length(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x.bit_length()
    lengths = [number.bit_length() for number in x.reshape(-1).tolist()]
    return np.array(lengths, x.dtype).reshape(x.shape)


def _wrap(x, bits: int, signed: bool):
    half = 1 << (bits - 1) if signed else 0
    return (x + half & (1 << bits) - 1) - half


def meaning(kind: str, attr: tuple, *args: Any) -> Any:
    """Compute an operation on Python integers, or on arrays of them (dtype object)."""
    match kind, args:
        case "add", (a, b): return a + b
        case "sub", (a, b): return a - b
        case "mul", (a, b): return a * b
        case "min", (a, b): return np.minimum(a, b) if isinstance(a, np.ndarray) else min(a, b)
        case "max", (a, b): return np.maximum(a, b) if isinstance(a, np.ndarray) else max(a, b)
        case "and", (a, b): return a & b
        case "or", (a, b): return a | b
        case "xor", (a, b): return a ^ b
        case "abs", (a,): return abs(a)
        case "select", (c, a, b): return c * a + (1 - c) * b
        case "limit", (x, lo, hi, under, over, crossed):
            above = over | crossed
            return above * hi + (1 - above) * (under * lo + (1 - under) * x)
        case "wrap", (x,): return _wrap(x, *attr)
        case "cat", (a, b): return (a << attr[0]) + b
        case "zeros", (x,): return attr[0] - _bit_length(x)
        case "element", (index, *values):
            return sum((index == number) * value for number, value in enumerate(values))
        case "drop", (x, n): return x >> n
        case "lsl", (x,): return x << attr[0]
        case "asr", (x,): return x >> attr[0]
        case "rshift", (x, n): return _sticky(x << 2, n)
        case "stick", (y, n): return _sticky(y, _digit(n, *attr))
        case "lshift", (x, n): return _wrap(x << n, *attr)
        case "left", (x, n): return x << _digit(n, *attr)
        case "round", (y,): return (y >> 2) + (y >> 1 & (y | y >> 2) & 1)
        case "clip", (y,):
            most = (1 << attr[0] - 1) - 1
            return meaning("min", (), meaning("max", (), y, -most - 1), most)
        case _, (a, b) if kind in COMPARISONS: return _compare(kind, a, b) * 1
        case _: raise AssertionError(kind)
