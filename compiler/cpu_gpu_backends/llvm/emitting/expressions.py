"""Expressions: values and the addresses of elements."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from compiler.ir import free_variables, is_index, linear, offset
from compiler.te import (COMPARISONS, INDEX, Binary, Buffer, Call, Cast, Const, Expr, Field, Read,
                         Select, Var, bits, children, is_float, is_integer, is_record, numpy_dtype,
                         rint, walk)
from compiler.tensorize import ranges

from .float_ranges import ANY, float_range, limits
from .floats import (HELD_WHOLE, cast, float_binary, float_call, float_compare, float_extreme,
                     rounded, rounded_product)
from .integers import integer_abs, integer_binary, integer_compare
from .lanes import Lanes
from .writer import LlvmType, LlvmValue, Writer, constant, memory_type

_SHORT = LlvmType("int32")
_NO_WRAP = {"add": "add nsw", "sub": "sub nsw", "mul": "mul nsw"}


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of an element: one place for all lanes, or a row of `lanes` (`row`), or one
    each."""

    pointer: str
    lanes: int = 0
    row: bool = False


class Expressions:
    """Writes expressions.

    Parameters
    ----------
    buffers : name of a buffer to the pointer to its first element.
    variables : loop variables in scope, to their values.
    contract : whether products may be fused with sums.
    short : whether places are counted in 32 bits, as processors with such pointers do.

    `lanes` are the iterations that run side by side here, if any do; `own` are the buffers of
    which each of them has one, by name.
    """

    def __init__(self, w: Writer, buffers: Mapping[str, str], variables: dict[Var, LlvmValue],
                 contract: bool = False, short: bool = False):
        self.w, self.buffers, self.variables, self.contract = w, buffers, variables, contract
        self.short = short
        self.lanes: Lanes | None = None
        self.own: set[str] = set()
        self._subscripts: dict[tuple[int, int], _Subscript] = {}

    def value(self, expr: Expr) -> LlvmValue:
        match expr:
            case Const(value, dtype):
                return LlvmValue(constant(value, dtype), LlvmType(dtype))
            case Var(name):
                if expr not in self.variables:
                    raise ValueError(f"Variable {name} must be the index of a loop around its use")
                return self.variables[expr]
            case Read(buffer, indices):
                return self.load(buffer, indices)
            case Field(base, name):
                return self._field(base, name)
            case Binary(op, a, b) if op in COMPARISONS and self._is_short(a, b):
                compared = (LlvmValue(self._without_wrap(side), _SHORT) for side in (a, b))
                return self.binary(op, *compared)
            case Binary(op, a, b):
                return self.binary(op, self.value(a), self.value(b))
            case Call(function, args):
                return self._call(function, *map(self.value, args))
            case Cast(Call("rint", (Binary("mul", Cast(a), Cast(b)),)), "int32") if (
                    self._is_fused(a, b)):
                lanes, (whole, share) = self.together(self.value(a), self.value(b))
                return LlvmValue(rounded_product(self.w, lanes, whole, share),
                                 LlvmType("int32", lanes))
            case Cast(Call("rint", (value,)), "int32") if self._holds_rounded(value):
                inner = self.value(value)
                return LlvmValue(rounded(self.w, inner.kind, inner.text), inner.kind.of("int32"))
            case Cast(value, dtype):
                inner = self.value(value)
                text = cast(self.w, inner.kind, dtype, inner.text, float_range(value))
                return LlvmValue(text, inner.kind.of(dtype))
            case Select():
                return self._select(expr)
            case _:
                raise TypeError(f"Expression must be of a known kind, not {expr!r}")

    def scalar(self, expr: Expr) -> str:
        """The value of an expression that is the same in all lanes."""
        value = self.value(expr)
        assert not value.kind.lanes
        return value.text

    def spread(self, value: LlvmValue, lanes: int) -> str:
        """The value in as many lanes."""
        if value.kind.lanes or not lanes:
            return value.text
        if not value.text.startswith("%"):
            return f"splat ({value.kind} {value.text})"
        kind = replace(value.kind, lanes=lanes)
        first = self.w.op(f"insertelement {kind} poison, {value.kind} {value.text}, i64 0")
        return self.w.op(f"shufflevector {kind} {first}, {kind} poison, "
                         f"<{lanes} x i32> zeroinitializer")

    def together(self, *values: LlvmValue) -> tuple[int, list[str]]:
        """Spreads scalars among the values to as many lanes as the others have."""
        lanes = max(value.kind.lanes for value in values)
        return lanes, [self.spread(value, lanes) for value in values]

    def binary(self, op: str, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        lanes, (left, right) = self.together(a, b)
        kind = LlvmType(a.kind.dtype, lanes)
        if op in COMPARISONS:
            compare = float_compare if is_float(kind.dtype) else integer_compare
            return LlvmValue(compare(self.w, op, kind, left, right), kind.of("bool"))
        if is_float(kind.dtype):
            return LlvmValue(float_binary(self.w, op, kind, left, right, self.contract), kind)
        return LlvmValue(integer_binary(self.w, op, kind, left, right), kind)

    def extreme(self, op: str, old: LlvmValue, value: LlvmValue) -> LlvmValue:
        """The larger or smaller of two floats, of two zeros any."""
        lanes, (before, found) = self.together(old, value)
        kind = LlvmType(old.kind.dtype, lanes)
        return LlvmValue(float_extreme(self.w, op, kind, before, found), kind)

    def _call(self, function: str, *args: LlvmValue) -> LlvmValue:
        a = args[0]
        if is_float(a.kind.dtype):
            lanes, texts = self.together(*args)
            kind = LlvmType(a.kind.dtype, lanes)
            return LlvmValue(float_call(self.w, function, kind, *texts), kind)
        return LlvmValue(integer_abs(self.w, a.kind, a.text), a.kind)  # the only one of integers

    def _is_fused(self, a: Expr, b: Expr) -> bool:
        """True if it is a vector of integers that float32 holds, times a float32, which one fused
        multiply-add gives as integers.
        """
        if (a.dtype, b.dtype) != ("int32", "float32") or not self.w.module.fuses or not (
                self._lanes_of(a)):
            return False
        (low, high), share = ranges.limits(a), float_range(b)
        most, factor = max(-low, high), max(-share.low, share.high)
        return not share.nan and most <= HELD_WHOLE and most * factor <= HELD_WHOLE / 4

    def _holds_rounded(self, value: Expr) -> bool:
        """True if it is a vector of float64 that rounds to integers of 32 bits."""
        found = float_range(rint(value)) if value.dtype == "float64" else ANY
        return bool(self._lanes_of(value)) and not found.nan and found.within(limits("int32"))

    # Choices: a side that reads memory runs only where it is chosen, unless the condition reads the
    # same in any case.

    def _select(self, expr: Select) -> LlvmValue:
        condition, sides = self.value(expr.condition), (expr.a, expr.b)
        if condition.text in ("true", "false"):         # of numbers of loops that are written out
            return self.value(sides[condition.text == "false"])
        known = set(_reads_always(expr.condition))
        if all(n in known for side in sides for n in walk(side) if isinstance(n, Read)):
            return self._chosen(condition, self.value(expr.a), self.value(expr.b))
        if not condition.kind.lanes:
            return self._branched(condition.text, expr)
        kind = condition.kind
        opposite = self.w.op(f"xor {kind} {condition.text}, {kind.const(True)}")
        yes, no = (self._where(mask, side) for mask, side in
                   zip((condition.text, opposite), sides))
        return self._chosen(condition, yes, no)

    def _chosen(self, condition: LlvmValue, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        lanes = max(v.kind.lanes for v in (condition, a, b))
        kind = LlvmType(a.kind.dtype, lanes)
        a_text, b_text = self.spread(a, lanes), self.spread(b, lanes)
        return LlvmValue(self.w.op(f"select {condition.kind} {condition.text}, {kind} {a_text}, "
                                   f"{kind} {b_text}"), kind)

    def _branched(self, condition: str, expr: Select) -> LlvmValue:
        w = self.w
        yes, no, done = w.name("yes"), w.name("no"), w.name("chosen")
        lanes = self._lanes_of(expr)
        w.branch(condition, yes, no)
        arms = []
        for label, side in ((yes, expr.a), (no, expr.b)):
            w.label(label)
            value = self.spread(self.value(side), lanes)
            arms.append(f"[ {value}, %{w.block} ]")
            w.jump(done)
        w.label(done)
        kind = LlvmType(expr.dtype, lanes)
        return LlvmValue(w.op(f"phi {kind} {', '.join(arms)}"), kind)

    def _lanes_of(self, expr: Expr) -> int:
        """The lanes of an expression, if any part of it may differ between them."""
        return self.lanes.count if self.lanes and self._differs(expr) else 0

    def _differs(self, expr: Expr) -> bool:
        return self._any_differs(free_variables(expr))

    def _any_differs(self, variables: frozenset[Var]) -> bool:
        return any(var in self.variables and self.variables[var].kind.lanes for var in variables)

    def _where(self, mask: str, side: Expr) -> LlvmValue:
        """The value in the lanes of `mask`; nothing else is read."""
        lanes = self.lanes
        assert lanes
        kind = LlvmType(side.dtype, lanes.count)
        with self.masked(mask) as some:
            before = self.w.block
            yes, done = self.w.name("some"), self.w.name("chosen")
            self.w.branch(some, yes, done)
            self.w.label(yes)
            value = self.spread(self.value(side), lanes.count)
            after = self.w.block
            self.w.jump(done)
            self.w.label(done)
        return LlvmValue(self.w.op(f"phi {kind} [ zeroinitializer, %{before} ], "
                                   f"[ {value}, %{after} ]"), kind)

    @contextmanager
    def masked(self, mask: str):
        """Narrows the mask for the statements inside; yields whether any lane takes part."""
        outside = self.lanes
        assert outside
        kind = LlvmType("bool", outside.count)
        if outside.mask:
            mask = self.w.op(f"and {kind} {outside.mask}, {mask}")
        self.lanes = replace(outside, mask=mask)
        yield self.w.call(f"llvm.vector.reduce.or.{kind.suffix}", "i1", (kind, mask))
        self.lanes = outside

    # Memory

    def load(self, buffer: Buffer, indices: tuple[Expr, ...]) -> LlvmValue:
        place = self._place(buffer, indices)
        kind = LlvmType(buffer.dtype, place.lanes)
        stored = LlvmType("uint8", place.lanes) if buffer.dtype == "bool" else kind
        mask = self.lanes.mask if self.lanes and place.lanes else ""
        if not place.lanes or place.row and not mask:
            text = self.w.op(f"load {stored}, ptr {place.pointer}, align {_align(buffer.dtype)}")
        else:
            text = self._load_lanes(stored, place, mask, buffer.dtype)
        if buffer.dtype == "bool":
            text = self.w.op(f"trunc {stored} {text} to {kind}")
        return LlvmValue(text, kind)

    def _load_lanes(self, kind: LlvmType, place: _Place, mask: str, dtype: str) -> str:
        flag, align = kind.of("bool"), ("i32", str(_align(dtype)))
        mask = mask or flag.const(True)
        if place.row:
            return self.w.call(f"llvm.masked.load.{kind.suffix}.p0", kind, ("ptr", place.pointer),
                               align, (flag, mask), (kind, "zeroinitializer"))
        pointers = f"<{kind.lanes} x ptr>"
        return self.w.call(f"llvm.masked.gather.{kind.suffix}.v{kind.lanes}p0", kind,
                           (pointers, place.pointer), align, (flag, mask),
                           (kind, "zeroinitializer"))

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], value: LlvmValue) -> None:
        place = self._place(buffer, indices)
        kind, text = LlvmType(buffer.dtype, place.lanes), self.spread(value, place.lanes)
        if buffer.dtype == "bool":
            stored = LlvmType("uint8", place.lanes)
            text, kind = self.w.op(f"zext {kind} {text} to {stored}"), stored
        mask = self.lanes.mask if self.lanes and place.lanes else ""
        align, flag = _align(buffer.dtype), kind.of("bool")
        if not place.lanes or place.row and not mask:
            self.w.do(f"store {kind} {text}, ptr {place.pointer}, align {align}")
        elif place.row and is_integer(kind.dtype) and bits(kind.dtype) < 64:
            self._store_lanes(kind, text, place.pointer, mask, align)
        elif place.row:
            self.w.call_void(f"llvm.masked.store.{kind.suffix}.p0", (kind, text),
                             ("ptr", place.pointer), ("i32", str(align)), (flag, mask))
        else:
            self.w.call_void(f"llvm.masked.scatter.{kind.suffix}.v{kind.lanes}p0", (kind, text),
                             (f"<{kind.lanes} x ptr>", place.pointer), ("i32", str(align)),
                             (flag, mask or flag.const(True)))

    def _store_lanes(self, kind: LlvmType, text: str, pointer: str, mask: str, align: int) -> None:
        """Stores a row at once where the mask takes all of it, else lane by lane. LLVM 22 (x86 with
        AVX-512) miscompiles its masked store of a value that was truncated from wider lanes: where
        the mask takes just one lane, it writes the wide one.
        """
        w, flag = self.w, kind.of("bool")
        whole, some, done = (w.name(name) for name in ("whole", "some", "done"))
        w.branch(w.call(f"llvm.vector.reduce.and.{flag.suffix}", "i1", (flag, mask)), whole, some)
        w.label(whole)
        w.do(f"store {kind} {text}, ptr {pointer}, align {align}")
        w.jump(done)
        w.label(some)
        element = LlvmType(kind.dtype)
        for lane in range(kind.lanes):
            here, after = w.name("lane"), w.name("after")
            w.branch(w.op(f"extractelement {flag} {mask}, i64 {lane}"), here, after)
            w.label(here)
            lane_value = w.op(f"extractelement {kind} {text}, i64 {lane}")
            place = w.op(f"getelementptr {element}, ptr {pointer}, i64 {lane}")
            w.do(f"store {element} {lane_value}, ptr {place}, align {align}")
            w.jump(after)
            w.label(after)
        w.jump(done)
        w.label(done)

    def _subscript(self, buffer: Buffer, indices: tuple[Expr, ...]) -> "_Subscript":
        """A subscript that is equal for every copy of a statement that is written out."""
        key = id(buffer), id(indices)
        if key not in self._subscripts:
            self._subscripts[key] = _Subscript(buffer, indices)
        return self._subscripts[key]

    def _place(self, buffer: Buffer, indices: tuple[Expr, ...]) -> _Place:
        subscript, lanes = self._subscript(buffer, indices), self.lanes
        where = subscript.where
        if lanes is not None and buffer.name in self.own:
            return self._own_place(buffer, where, lanes)
        if lanes is None or not self._any_differs(subscript.variables):
            return _Place(self._element(buffer, where))
        step = subscript.step(lanes.var)
        if step is None:
            numbers = self.value(where)
            return _Place(self._pointers(buffer, numbers.text, lanes.count), lanes.count)
        first = self._first(buffer, where)
        if step == 1:
            return _Place(first, lanes.count, True)
        steps = ", ".join(f"i64 {step * lane}" for lane in range(lanes.count))
        return _Place(self.w.op(f"getelementptr {memory_type(buffer.dtype)}, ptr {first}, "
                                f"<{lanes.count} x i64> <{steps}>"), lanes.count)

    def _own_place(self, buffer: Buffer, where: Expr, lanes: Lanes) -> _Place:
        """The place of an element in a buffer that each lane has: the lanes' elements are a row."""
        row = self.binary("mul", self.value(where), LlvmValue(str(lanes.count), LlvmType(INDEX)))
        if not row.kind.lanes:
            return _Place(self.pointer(buffer, row.text), lanes.count, True)
        numbers = "<" + ", ".join(f"i64 {lane}" for lane in range(lanes.count)) + ">"
        places = self.w.op(f"add {row.kind} {row.text}, {numbers}")
        return _Place(self._pointers(buffer, places, lanes.count), lanes.count)

    def _first(self, buffer: Buffer, where: Expr) -> str:
        """Pointer to the element of the first lane; under a mask it may lie outside the buffer, so
        it must not be marked as in bounds.
        """
        lanes = self.lanes
        assert lanes
        vector = self.variables[lanes.var]
        self.variables[lanes.var] = LlvmValue(lanes.first, LlvmType(INDEX))
        pointer = (self.pointer(buffer, self.scalar(where), "") if lanes.mask
                   else self._element(buffer, where))
        self.variables[lanes.var] = vector
        return pointer

    def _element(self, buffer: Buffer, where: Expr) -> str:
        """Pointer to the element at a subscript, the same in all lanes."""
        place, kind = self._index(where)
        return self.pointer(buffer, place, kind=kind)

    def pointer(self, buffer: Buffer, place: str, inbounds: str = " inbounds",
                kind: str = "i64") -> str:
        return self.w.op(f"getelementptr{inbounds} {memory_type(buffer.dtype)}, "
                         f"ptr {self._base(buffer)}, {kind} {place}")

    def _pointers(self, buffer: Buffer, places: str, lanes: int) -> str:
        return self.w.op(f"getelementptr {memory_type(buffer.dtype)}, ptr {self._base(buffer)}, "
                         f"<{lanes} x i64> {places}")

    def _base(self, buffer: Buffer) -> str:
        if buffer.name not in self.buffers:
            raise ValueError(f"Buffer {buffer.name} must be an input, an output or allocated "
                             f"around its use")
        return self.buffers[buffer.name]

    def _index(self, expr: Expr) -> tuple[str, str]:
        """A subscript and its type. It stays within its buffer, so its arithmetic cannot wrap."""
        if self._is_short(expr):
            return self._without_wrap(expr), "i32"
        return (self._without_wrap(expr) if is_index(expr) else self.scalar(expr)), "i64"

    def _is_short(self, *exprs: Expr) -> bool:
        """True if these are numbers of places, the same in all lanes, that 32 bits hold: with
        pointers of 32 bits no array has more, and what is compared lies near those of an array.
        """
        return self.short and not self.lanes and all(map(is_index, exprs))

    def _without_wrap(self, expr: Expr) -> str:
        kind = "i32" if self.short and not self.lanes else "i64"
        if isinstance(expr, Binary) and expr.op in _NO_WRAP:
            a, b = self._without_wrap(expr.a), self._without_wrap(expr.b)
            folded = _folded(expr.op, a, b)
            return self.w.op(f"{_NO_WRAP[expr.op]} {kind} {a}, {b}") if folded is None else folded
        value = self.scalar(expr)
        return self.w.op(f"trunc i64 {value} to i32") if (
            kind == "i32" and value.startswith("%")) else value

    def address(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """Pointer to one element, the same in all lanes."""
        return self._element(buffer, offset(buffer, indices))

    def _field(self, base: Read, name: str) -> LlvmValue:
        members: Any = numpy_dtype(base.dtype).fields
        member, place = members[name][:2]
        pointer = self.address(base.buffer, base.indices)
        pointer = self.w.op(f"getelementptr inbounds i8, ptr {pointer}, i64 {place}")
        value = self.w.op(f"load {memory_type(member.name)}, ptr {pointer}, align 1")
        if member.name == "bool":
            value = self.w.op(f"trunc i8 {value} to i1")
        return LlvmValue(value, LlvmType(member.name))


def _reads_always(expr: Expr) -> Iterator[Read]:
    """The reads that happen whichever sides of choices inside are taken."""
    if isinstance(expr, Read):
        yield expr
    for child in (expr.condition,) if isinstance(expr, Select) else children(expr):
        yield from _reads_always(child)


def _folded(op: str, a: str, b: str) -> str | None:
    """The result where both are numbers, as those of loops that are written out, or one changes
    nothing; None elsewhere.
    """
    x, y = (None if text.startswith("%") else int(text) for text in (a, b))
    if x is not None and y is not None:
        return str({"add": x + y, "sub": x - y, "mul": x * y}[op])
    if y == (1 if op == "mul" else 0):
        return a
    return b if op != "sub" and x == (1 if op == "mul" else 0) else None


class _Subscript:
    """The place of an element of a buffer, and what that depends on. It keeps the buffer and its
    indices, so that no others come to lie where they are.
    """

    __slots__ = ("_of", "_steps", "variables", "where")

    def __init__(self, buffer: Buffer, indices: tuple[Expr, ...]):
        self._of = buffer, indices
        self.where = offset(buffer, indices)
        self.variables = free_variables(self.where)
        self._steps: dict[Var, int | None] = {}

    def step(self, var: Var) -> int | None:
        if var not in self._steps:
            self._steps[var] = _step(self.where, var)
        return self._steps[var]


def _step(where: Expr, var: Var) -> int | None:
    """The constant step of an index per step of `var`; None where it is not constant."""
    form = linear(where)
    step = 0
    for atom, factor in form.terms:
        if atom == var:
            step = factor
        elif var in free_variables(atom):
            return None
    return step


def _align(dtype: str) -> int:
    """NumPy aligns numbers naturally, and records not at all."""
    return 1 if is_record(dtype) else numpy_dtype(dtype).itemsize
