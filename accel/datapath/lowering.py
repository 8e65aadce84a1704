"""Lowering: the body of an intrinsic as a graph of operations on exact integers."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from accel.datapath.dataflow import COMPARISONS, Dataflow, DataflowNode, Interval, PlanError
from accel.datapath.floats import FORMATS, Floats, float_bits
from accel.machine.intrinsics import TABLE
from accel.machine.declare import is_static
from accel.machine.structure import UnitKind
from compiler import te
from compiler.ir.affine import Linear, from_linear, linear
from compiler.ir.arithmetic import apply_expr
from compiler.te import (INDEX, Binary, Call, Cast, Const, Expr, Read, Reduce, Select, Var,
                         walk)
from compiler.tensorize import Intrinsic, Operand

FOLDED = {"sum": "add", "max": "max", "min": "min"}
"""The operation of two values in a reduction of each kind."""


def bus_of(operand: Operand) -> str:
    """The name of the bus that feeds an operand: for gemm its buffer, for vector its name. The bus
    ``table`` has the number of a table."""
    return operand.scopes[0] if operand.scopes[0] in ("inp", "wgt") else operand.name


def _stored(operand: Operand) -> Interval:
    """The interval of an operand, wherever it is stored. Floats are widened before they are read.
    """
    if te.is_float(operand.dtype):
        return Interval.of_type(operand.dtype)
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
        self.across = len(body.axes) - 1 if body.unit == UnitKind.VECTOR else None
        self.axes = [(axis.var, axis.extent) for axis in body.axes]
        self.terms = list(body.reduce_axes)
        if self.across is not None and self.terms:      # the lanes of a row are the terms
            self.axes[self.across], self.terms = self.terms[0], []
        self.indices = {var: ("axis", k) for k, (var, _) in enumerate(self.axes)}
        if tuple(extent for _, extent in self.terms) == reduced:
            self.indices |= {var: ("reduce", k) for k, (var, _) in enumerate(self.terms)}
        self.lanes = {var for var, _ in (*self.axes, *self.terms)}
        self.count = prod(extent for _, extent in body.reduce_axes)
        self.floats = Floats(graph)

    def refuse(self, sentence: str):
        raise PlanError(f"{sentence} (body of {self.body.name})")

    def value(self) -> DataflowNode:
        """The whole body, wrapped to the destination's type."""
        body = self.body
        if body.value.dtype != body.dst.dtype:
            self.refuse(f"Value must be {body.dst.dtype}, not {body.value.dtype}")
        if not isinstance(body.value, Reduce):
            return self.result(self.expr(body.value))
        node, left = self.expr(body.value.value), self.count
        if self.across is not None and self.across in node.axes:
            node = self.graph.make("across", (node,), (self.across, left))
        if node.terms == 1 and left > 1:
            self.refuse("Value under a reduction must depend on its indices")
        while left > 1:
            node = self.folded(node, body.value.op, left, body.value.dtype)
            left = -(-left // 2)
        return self.result(node)

    def result(self, node: DataflowNode) -> DataflowNode:
        """A number of the destination's type, of floats the bits as a signed number."""
        dtype = self.body.dst.dtype
        return (self.graph.make("wrap", (node,), (32, True)) if te.is_float(dtype)
                else self.typed(node, dtype))

    def folded(self, node: DataflowNode, op: str, count: int, dtype: str) -> DataflowNode:
        """Neighbours combined. One float without a neighbour meets what leaves it as it is."""
        if not te.is_float(dtype):
            return self.typed(self.graph.make("fold", (node,), (op, count)), dtype)
        fill = float_bits(float(te.neutral(op, dtype).value), dtype)
        a, b = (self.graph.make("every", (node,), (first, count, fill)) for first in range(2))
        return self.floats.binary(FOLDED[op], a, b, dtype)

    def typed(self, node: DataflowNode, dtype: str) -> DataflowNode:
        return self.graph.make("wrap", (node,), (te.bits(dtype), te.is_signed(dtype)))

    def expr(self, expr: Expr) -> DataflowNode:
        if expr.dtype != "bool" and not te.is_integer(expr.dtype) and expr.dtype not in FORMATS:
            self.refuse(f"Values must be integers or {', '.join(FORMATS)}, not {expr.dtype}")
        if not isinstance(expr, Const) and is_static(expr, self.lanes):
            return self.lane(expr)
        match expr:
            case Const(value, dtype) if te.is_float(dtype):
                return self.graph.const(float_bits(float(value), dtype))
            case Const(value, _): return self.graph.const(int(value))
            case Var(): return self.immediate(expr)
            case Read(): return self.read(expr)
            case Binary(op, a, b) if te.is_float(a.dtype): return self.float_binary(op, a, b)
            case Binary(op, a, b): return self.binary(op, self.expr(a), self.expr(b), expr.dtype)
            case Call("abs", (a,)) if te.is_float(a.dtype):
                return self.floats.absolute(self.expr(a), a.dtype)
            case Call("abs", (a,)):
                return self.typed(self.graph.make("abs", (self.expr(a),)), expr.dtype)
            case Select(condition, a, b):
                return self.graph.make("select", tuple(map(self.expr, (condition, a, b))))
            case Cast(value, dtype) if te.is_float(value.dtype) or te.is_float(dtype):
                return self.float_cast(value, dtype)
            case Cast(value, "bool"):
                return self.binary("ne", self.expr(value), self.graph.const(0), "bool")
            case Cast(value, dtype): return self.typed(self.expr(value), dtype)
            case _:
                self.refuse(f"Expression must be one that a datapath computes, not "
                            f"{type(expr).__name__.lower()}")
        raise AssertionError

    def float_binary(self, op: str, a: Expr, b: Expr) -> DataflowNode:
        """Factors that were narrower have a smaller multiplier."""
        if op != "mul":
            return self.floats.binary(op, self.expr(a), self.expr(b), a.dtype)
        inner = [x.value if isinstance(x, Cast) and x.value.dtype in FORMATS
                 and te.bits(x.value.dtype) < te.bits(x.dtype) else x for x in (a, b)]
        product = self.floats.product(self.expr(inner[0]), inner[0].dtype,
                                      self.expr(inner[1]), inner[1].dtype)
        return self.floats.cast(product, "float32", a.dtype)

    def float_cast(self, value: Expr, dtype: str) -> DataflowNode:
        if te.is_float(value.dtype) and te.is_integer(dtype) and te.bits(dtype) > 32:
            self.refuse(f"Integer from {value.dtype} must have 32 bits or less, not {dtype}")
        return self.floats.cast(self.expr(value), value.dtype, dtype)

    def immediate(self, var: Var) -> DataflowNode:
        for immediate in self.body.immediates:
            if immediate.var == var:
                whole = Interval.of_type(var.dtype)
                return self.graph.leaf("imm", (var.name,),
                                       Interval(max(whole.low, immediate.low),
                                                min(whole.high, immediate.high)))
        raise AssertionError(var)

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
        return axes, [np.broadcast_to(apply_expr(expr, places), shape or (1,)).reshape(whole)
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
        if is_static(index, self.lanes):
            return index, self.graph.const(0)
        form = linear(index) if index.dtype == INDEX else Linear(((index, 1),))
        known = tuple(term for term in form.terms if is_static(term[0], self.lanes))
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
