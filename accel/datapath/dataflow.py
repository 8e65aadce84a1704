"""Bodies of intrinsics as operations on exact integers.

A body is lowered to a graph of `DataflowNode`s. Every value is an integer with an `Interval` that
holds it; widths follow from intervals, and where a type would overflow the graph says so with
`wrap`. Types are gone: an int64 product of a 33-bit and a 17-bit operand is a product of 50 bits.

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

Indices are ``("axis", k)`` (of the destination), ``("reduce", k)`` or ``("at", number)``; or one
index counts the elements of the operand in row-major order: ``("each", axes, numbers)``, with a
number for each place along some axes and each term. A node
has a value for each destination element along `axes` and, below the last fold, for each of `terms`.

gemm computes the terms of its reduction beside each other. vector reduces over the lanes of a row:
each lane computes a term, with the operators that it has for other bodies, and `across` gathers
them; what the folds leave is the value of every lane.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from accel.machine.intrinsics import TABLE
from compiler import te
from compiler.errors import Error
from compiler.ir.affine import Linear, from_linear, linear
from compiler.ir.arithmetic import apply_binary, apply_cast
from compiler.te import (INDEX, Binary, Call, Cast, Const, Expr, Read, Reduce, Select, Var,
                         numpy_dtype, walk)
from compiler.tensorize import Intrinsic, Operand

__all__ = ["EXPENSIVE", "WIDE", "Dataflow", "DataflowNode", "Interval", "PlanError",
           "bus_of", "lower", "meaning", "topological"]

EXPENSIVE = ("mul", "rshift", "lshift", "lookup")
"""Kinds of operations that bodies share; bodies exclude each other in time."""

_GATHERING = ("fold", "across", "mux", "pad", "take")
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
        return cls.of(te.bits(dtype), te.is_signed(dtype))

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
            case "fold": terms = -(-attr[1] // 2)
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


def bus_of(operand: Operand) -> str:
    """The name of the bus that feeds an operand: for gemm its buffer, for vector its name. The bus
    ``table`` has the number of a table."""
    return operand.scopes[0] if operand.scopes[0] in ("inp", "wgt") else operand.name


def _stored(operand: Operand) -> Interval:
    """The interval of an operand, wherever it is stored."""
    intervals = []
    for _, dtype in operand.storage:
        record, _, field = dtype.partition(".")
        stored = te.record_fields(record)[field] if field else dtype
        intervals.append(Interval.of_type(stored))
    whole = Interval.of_type(operand.dtype)
    union = Interval(min(i.low for i in intervals), max(i.high for i in intervals))
    return Interval(max(whole.low, union.low), min(whole.high, union.high))


Lanes = tuple[tuple[int, ...], np.ndarray]
"""Axes of the destination, and numbers of shape (*extents along them, terms)."""


class _Lowering:
    """Lowers one body into a graph."""

    def __init__(self, graph: Dataflow, body: Intrinsic, tables: int,
                 shapes: Mapping[str, tuple[int, ...]], reduced: tuple[int, ...]):
        self.graph, self.body, self.tables, self.shapes = graph, body, tables, shapes
        self.across = len(body.axes) - 1 if body.unit == "vector" else None
        self.axes = [(axis.var, axis.extent) for axis in body.axes]
        self.terms = list(body.reduce_axes)
        if self.across is not None and self.terms:      # the lanes of a row are the terms
            self.axes[self.across], self.terms = self.terms[0], []
        self.indices = {var: ("axis", k) for k, (var, _) in enumerate(self.axes)}
        if tuple(extent for _, extent in self.terms) == reduced:
            self.indices |= {var: ("reduce", k) for k, (var, _) in enumerate(self.terms)}
        self.lanes = {var for var, _ in (*self.axes, *self.terms)}
        self.count = prod(extent for _, extent in body.reduce_axes)

    def refuse(self, sentence: str):
        raise PlanError(f"{sentence} (body of {self.body.name})")

    def value(self) -> DataflowNode:
        """The whole body, wrapped to the destination's type."""
        body = self.body
        if body.value.dtype != body.dst.dtype:
            self.refuse(f"Value must be {body.dst.dtype}, not {body.value.dtype}")
        if not isinstance(body.value, Reduce):
            return self.expr(body.value)
        node, left = self.expr(body.value.value), self.count
        if self.across is not None and self.across in node.axes:
            node = self.graph.make("across", (node,), (self.across, left))
        if node.terms == 1 and left > 1:
            self.refuse("Value under a reduction must depend on its indices")
        while left > 1:
            node = self.graph.make("fold", (node,), (body.value.op, left))
            node, left = self.typed(node, body.value.dtype), -(-left // 2)
        return self.typed(node, body.value.dtype)

    def typed(self, node: DataflowNode, dtype: str) -> DataflowNode:
        return self.graph.make("wrap", (node,), (te.bits(dtype), te.is_signed(dtype)))

    def expr(self, expr: Expr) -> DataflowNode:
        if expr.dtype != "bool" and not te.is_integer(expr.dtype):
            self.refuse(f"Values must be integers, not {expr.dtype}")
        if not isinstance(expr, Const) and self.is_static(expr):
            return self.lane(expr)
        match expr:
            case Const(value, _): return self.graph.const(int(value))
            case Var(): return self.immediate(expr)
            case Read(): return self.read(expr)
            case Binary(op, a, b): return self.binary(op, self.expr(a), self.expr(b), expr.dtype)
            case Call("abs", (a,)):
                return self.typed(self.graph.make("abs", (self.expr(a),)), expr.dtype)
            case Select(condition, a, b):
                return self.graph.make("select", tuple(map(self.expr, (condition, a, b))))
            case Cast(value, "bool"):
                return self.binary("ne", self.expr(value), self.graph.const(0), "bool")
            case Cast(value, dtype): return self.typed(self.expr(value), dtype)
            case _: self.refuse(f"Expression must be one that a datapath computes, "
                                f"not {type(expr).__name__.lower()}")
        raise AssertionError

    def immediate(self, var: Var) -> DataflowNode:
        for immediate in self.body.immediates:
            if immediate.var == var:
                whole = Interval.of_type(var.dtype)
                return self.graph.leaf("imm", (var.name,),
                                       Interval(max(whole.low, immediate.low),
                                                min(whole.high, immediate.high)))
        raise AssertionError(var)

    def is_static(self, expr: Expr) -> bool:
        """Whether nothing but the place of a lane or term decides its value."""
        return all(isinstance(node, Const | Binary | Select | Cast) or node in self.lanes
                   for node in walk(expr))

    def lane(self, expr: Expr) -> DataflowNode:
        axes, (numbers,) = self.numbers(expr)
        low, high = int(numbers.min()), int(numbers.max())
        if low == high:
            return self.graph.const(low)
        return self.graph.leaf("lane", (_each(axes, numbers),), Interval(low, high), axes,
                               numbers.shape[-1])

    def numbers(self, *exprs: Expr) -> tuple[tuple[int, ...], list[np.ndarray]]:
        """The values of static expressions for each place along some axes, and each term."""
        used = {node for expr in exprs for node in walk(expr)}
        axes = tuple(k for k, (var, _) in enumerate(self.axes) if var in used)
        terms = self.terms if any(var in used for var, _ in self.terms) else []
        lanes = [self.axes[k] for k in axes]
        shape = tuple(extent for _, extent in (*lanes, *terms))
        places = dict(zip((var for var, _ in (*lanes, *terms)), np.indices(shape or (1,)),
                          strict=False))
        whole = (*(extent for _, extent in lanes), prod(extent for _, extent in terms))
        return axes, [np.broadcast_to(_static(expr, places), shape or (1,)).reshape(whole)
                      for expr in exprs]

    def read(self, read: Read) -> DataflowNode:
        if read.buffer.name == TABLE.name:
            return self.lookup(read.indices[0])
        operand = self.body.operand(read.buffer.name)
        indices = tuple(index for index in map(self.index, read.indices) if index)
        if len(indices) < len(read.indices) or operand.shape != self.shapes[bus_of(operand)]:
            return self.elements(operand, read)
        axes = frozenset(k for kind, k in indices if kind == "axis")
        terms = self.count if any(kind == "reduce" for kind, _ in indices) else 1
        return self.graph.leaf("read", (bus_of(operand), indices), _stored(operand), axes, terms)

    def index(self, index: Expr) -> tuple[str, int] | None:
        if isinstance(index, Const):
            return ("at", int(index.value))
        return self.indices.get(index) if isinstance(index, Var) else None

    def elements(self, operand: Operand, read: Read) -> DataflowNode:
        """A read whose indices are any expressions: of lanes, which are known, and of values, among
        which the datapath chooses. They lie within the operand whatever the values are.
        """
        known, moving = zip(*map(self.parts, read.indices), strict=True)
        axes, numbers = self.numbers(*known)
        for place, node, extent in zip(numbers, moving, operand.shape, strict=True):
            low = int(place.min()) + node.interval.low
            high = int(place.max()) + node.interval.high
            if not 0 <= low <= high < extent:
                self.refuse(f"Index of {operand.name} must lie in 0 ... {extent - 1}, not in "
                            f"{low} ... {high}" + ("" if node.kind == "const" else "; mask it"))
        return self.chosen(operand, axes, numbers, moving, ())

    def chosen(self, operand: Operand, axes: tuple[int, ...], numbers: Sequence[np.ndarray],
               moving: Sequence[DataflowNode], fixed: tuple[int, ...]) -> DataflowNode:
        """The element at `numbers` plus `moving`, of which the first few are `fixed`."""
        if len(fixed) == len(moving):
            at = [place + step for place, step in zip(numbers, fixed, strict=True)]
            flat = np.ravel_multi_index(at, operand.shape)
            return self.graph.leaf("read", (bus_of(operand), (_each(axes, flat),)),
                                   _stored(operand), axes, flat.shape[-1])
        node = moving[len(fixed)]
        low, high = node.interval.low, node.interval.high
        values = [self.chosen(operand, axes, numbers, moving, (*fixed, step))
                  for step in range(low, high + 1)]
        first = node if low == 0 else self.graph.make("sub", (node, self.graph.const(low)))
        return self.graph.make("element", (first, *values)) if low < high else values[0]

    def parts(self, index: Expr) -> tuple[Expr, DataflowNode]:
        """An index as the sum of what is known for each lane, and of what values decide."""
        if self.is_static(index):
            return index, self.graph.const(0)
        form = linear(index) if index.dtype == INDEX else Linear(((index, 1),))
        known = tuple(term for term in form.terms if self.is_static(term[0]))
        node = self.graph.const(0)
        for atom, factor in form.terms:
            if (atom, factor) not in known:
                term = self.expr(atom)
                if factor != 1:
                    term = self.graph.make("mul", (term, self.graph.const(factor)))
                node = term if node.kind == "const" else self.graph.make("add", (node, term))
        return from_linear(Linear(known, form.constant)), node

    def lookup(self, index: Expr) -> DataflowNode:
        place, whole = self.expr(index), Interval(0, TABLE.shape[0] - 1)
        if place.interval not in whole:
            self.refuse(f"Index of {TABLE.name} must lie in 0 ... {whole.high}, not in "
                        f"{place.interval.low} ... {place.interval.high}; mask it")
        number = self.graph.leaf("read", (TABLE.name, ()), Interval(0, self.tables - 1))
        return self.graph.make("lookup", (place, number))

    def binary(self, op: str, a: DataflowNode, b: DataflowNode, dtype: str) -> DataflowNode:
        if op in ("div", "floordiv", "mod"):
            self.refuse(f"Operator must be one that fits a pipeline, not {op}")
        if op in ("shl", "shr", "rshift_rne"):
            return self.shift(op, a, b, dtype)
        node = self.graph.make(op, (a, b))
        return node if op in COMPARISONS else self.typed(node, dtype)

    def shift(self, op: str, x: DataflowNode, amount: DataflowNode, dtype: str) -> DataflowNode:
        whole = Interval(0, te.bits(dtype) - 1)
        if amount.interval not in whole:
            self.refuse(f"Amount of {op} must lie in 0 ... {whole.high}, not in "
                        f"{amount.interval.low} ... {amount.interval.high}; mask it")
        if op == "shl" and amount.kind == "const":
            return self.typed(self.graph.make("lsl", (x,), amount.attr), dtype)
        if op == "shl":
            return self.graph.make("lshift", (x, amount), (te.bits(dtype), te.is_signed(dtype)))
        if op == "shr" and amount.kind == "const":
            return self.graph.make("asr", (x,), amount.attr)
        if op == "shr" and amount.kind == "lane":
            return self.graph.make("drop", (x, amount))
        if amount.kind == "const":
            if amount.attr[0] == 0:
                return x
            wide = self.graph.make("lsl", (x,), (2,))
            exact = self.graph.make("stick", (wide, amount), (0, 6))
            return self.graph.make("round", (exact,))
        exact = self.graph.make("rshift", (x, amount))
        if op == "rshift_rne":
            return self.graph.make("round", (exact,))
        return self.graph.make("asr", (exact,), (2,))


def _each(axes: tuple[int, ...], numbers: np.ndarray) -> tuple:
    return ("each", axes, tuple(map(int, numbers.reshape(-1))))


def _static(expr: Expr, places: Mapping[Var, np.ndarray]) -> np.ndarray:
    """The value of an expression of constants and lanes at every place."""
    match expr:
        case Const(value, dtype): return np.full((1,), value, numpy_dtype(dtype))
        case Var(): return places[expr]
        case Binary(op, a, b): return apply_binary(op, _static(a, places), _static(b, places))
        case Select(condition, a, b): return np.where(*(_static(x, places)
                                                        for x in (condition, a, b)))
        case Cast(value, dtype): return apply_cast(_static(value, places), dtype)
    raise AssertionError(expr)


def shapes_of(bodies: Sequence[Intrinsic]) -> dict[str, tuple[int, ...]]:
    """The operands of a datapath, with the shape of what it takes of each at once: of the largest,
    where bodies take the first elements of an entry."""
    shapes: dict[str, tuple[int, ...]] = {}
    for operand in (operand for body in bodies for operand in body.operands):
        shape = () if operand.name == TABLE.name else operand.shape
        if prod(shape) > prod(shapes.get(bus_of(operand), (0,))):
            shapes[bus_of(operand)] = shape
    return shapes


def lower(graph: Dataflow, body: Intrinsic, tables: int, shapes: Mapping[str, tuple[int, ...]],
          reduced: tuple[int, ...]) -> DataflowNode:
    """The value of one destination element, on a machine that holds so many tables, in a datapath
    that takes operands of these shapes and counts the terms of a reduction of these extents."""
    return _Lowering(graph, body, tables, shapes, reduced).value()
