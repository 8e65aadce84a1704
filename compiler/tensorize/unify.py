"""Unification of an intrinsic's value with an expression of a program.

The unknowns are the intrinsic's operands and immediates. The two sides may differ in what does
not change a value: the order of operands of a commutative operator, conversions that lose
nothing, constants computed beforehand, an absolute value that is the greater of a number and its
negation, and additions of 0, products with 1, shifts by 0 that the program was spared and the
intrinsic performs with an immediate. An index that the intrinsic computes from values, as that of
a table, is unified like any other expression.
"""

from collections.abc import Iterator, Mapping

from compiler.ir.affine import from_linear, linear
from compiler.te import (INDEX, Binary, Call, Cast, Const, Expr, Field, Read, Select, Var, children,
                         free_variables, is_integer, rewrite, substitute, walk)

from .intrinsic import ANY, Intrinsic, Operand
from .normal import casts_join, is_signed_integer, negated, normal
from .ranges import fits

Bound = Mapping[str, Expr]
"""Name of an operand or immediate to what it is in the program."""

_COMMUTATIVE = frozenset("add mul min max and or xor eq ne".split())
_NEUTRAL = {"add": 0, "sub": 0, "or": 0, "xor": 0, "shl": 0, "shr": 0, "rshift_rne": 0, "mul": 1}


class Unifier:
    """
    Parameters
    ----------
    intrinsic : whose value is the pattern.
    lanes : each axis of the intrinsic, as an index of the program (a loop's variable or zero).

    After a failure `mismatch` holds the innermost pair that differs, and why.
    """

    def __init__(self, intrinsic: Intrinsic, lanes: Mapping[Var, Expr]):
        self.lanes = dict(lanes)
        self.tile = frozenset(v for v in lanes.values() if isinstance(v, Var))
        self.operands = {operand.name: operand for operand in intrinsic.operands}
        self.immediates = {immediate.var: immediate for immediate in intrinsic.immediates}
        self.any_type = any(o.dtype == ANY for o in intrinsic.operands)
        self.mismatch: tuple[int, Expr, Expr, str] | None = None
        self._depth = 0

    def unify(self, pattern: Expr, expr: Expr, bound: Bound) -> Iterator[Bound]:
        """Every way to extend `bound` so that `pattern` becomes `expr`; both in normal form."""
        self._depth += 1
        depth, matched = self._depth, False
        for result in self._alternatives(pattern, expr, bound):
            matched = True
            self._depth = depth - 1
            yield result
            self._depth = depth
        if not matched:
            self._differ(pattern, expr)
        self._depth = depth - 1

    def _differ(self, pattern: Expr, expr: Expr, reason: str = "") -> None:
        if self.mismatch is None or self._depth > self.mismatch[0]:
            self.mismatch = self._depth, pattern, expr, reason

    def _alternatives(self, pattern: Expr, expr: Expr, bound: Bound) -> Iterator[Bound]:
        if isinstance(pattern, Read):
            yield from self._operand(pattern, expr, bound)
        elif isinstance(pattern, Var) and pattern in self.immediates:
            yield from self._immediate(pattern, expr, bound)
        elif isinstance(pattern, Var):
            if pattern in self.lanes and _same_index(self.lanes[pattern], expr):
                yield bound
        elif isinstance(expr, Const) and self._is_scalar(pattern):
            yield from self._solve(pattern, expr, bound)
        else:
            yield from self._structure(pattern, expr, bound)

    def _structure(self, pattern: Expr, expr: Expr, bound: Bound) -> Iterator[Bound]:
        match pattern, expr:
            case (Binary(op=op), Binary(op=other)) if op == other:
                yield from self._all(children(pattern), children(expr), bound)
                if op in _COMMUTATIVE:
                    yield from self._all(children(pattern), children(expr)[::-1], bound)
            case (Call(name, _), Call(other, _)) | (Field(_, name), Field(_, other)) \
                    if name == other:
                yield from self._all(children(pattern), children(expr), bound)
                if name == "abs" and is_signed_integer(expr.dtype):
                    yield from self._all(children(pattern), (negated(*children(expr)),), bound)
            case Binary(op="max"), Call("abs", (value,)) if is_signed_integer(expr.dtype):
                sides = value, negated(value)
                yield from self._all(children(pattern), sides, bound)
                yield from self._all(children(pattern), sides[::-1], bound)
            case Select(), Select():
                yield from self._all(children(pattern), children(expr), bound)
            case Cast(inner, dtype), _ if dtype == expr.dtype:
                yield from self._conversion(inner, expr, bound)
        if isinstance(pattern, Binary):
            yield from self._neutral(pattern, expr, bound)

    def _all(self, patterns: tuple[Expr, ...], exprs: tuple[Expr, ...],
             bound: Bound) -> Iterator[Bound]:
        if not patterns:
            yield bound
            return
        for first in self.unify(patterns[0], exprs[0], bound):
            yield from self._all(patterns[1:], exprs[1:], first)

    def _conversion(self, inner: Expr, expr: Expr, bound: Bound) -> Iterator[Bound]:
        """``Cast(inner, t)`` against `expr` of type t, seen as a conversion of its source."""
        source = expr.value if isinstance(expr, Cast) else expr
        if source.dtype == inner.dtype:
            yield from self.unify(inner, source, bound)
        elif casts_join(source.dtype, inner.dtype, expr.dtype) or (
                is_integer(source.dtype) and is_integer(inner.dtype) and fits(source, inner.dtype)):
            yield from self.unify(inner, normal(Cast(source, inner.dtype)), bound)

    def _neutral(self, pattern: Binary, expr: Expr, bound: Bound) -> Iterator[Bound]:
        """``x op immediate`` against x alone, which is x op its neutral element."""
        if pattern.op not in _NEUTRAL or not is_integer(pattern.dtype):
            return
        sides = [(pattern.a, pattern.b)]
        if pattern.op in _COMMUTATIVE:
            sides.append((pattern.b, pattern.a))
        before, matched = self.mismatch, False
        for kept, spent in sides:
            if not isinstance(spent, Const) and self._is_scalar(spent):
                neutral = Const(_NEUTRAL[pattern.op], pattern.dtype)
                for solved in self._solve(spent, neutral, bound):
                    for result in self.unify(kept, expr, solved):
                        matched = True
                        yield result
        if not matched:                 # a far-fetched reading explains no difference
            self.mismatch = before

    def _is_scalar(self, pattern: Expr) -> bool:
        """True if immediates, or operands that may be immediates, are all that it reads."""
        return all(self._is_unknown(node) or not isinstance(node, Read | Var)
                   for node in _leaves(pattern))

    def _is_unknown(self, node: Expr) -> bool:
        if isinstance(node, Read):
            operand = self.operands.get(node.buffer.name)
            return operand is not None and "imm" in operand.scopes
        return isinstance(node, Var) and node in self.immediates

    def _solve(self, pattern: Expr, expr: Const, bound: Bound) -> Iterator[Bound]:
        """The value of at most one unknown of a scalar `pattern` that makes it equal `expr`.

        The value that is tried is `expr` itself: right through conversions and masks.
        """
        unknown = {_name(node): node for node in _leaves(pattern) if self._is_unknown(node)}
        free = [name for name in unknown if name not in bound]
        if len(free) > 1:
            yield from self._structure(pattern, expr, bound)
            return
        results: list[Bound] = [bound]
        if free:
            node = unknown[free[0]]
            value = expr if self.any_type else _adopt(expr, node.dtype)
            results = list(self._alternatives(node, value, bound)) if value is not None else []
        for result in results:
            if all(isinstance(result[name], Const) for name in unknown):
                value = normal(rewrite(pattern, lambda n, r=result: r.get(_name(n))))
                if value == expr or (self.any_type and isinstance(value, Const)
                                     and value.value == expr.value):
                    yield result

    def _immediate(self, pattern: Var, expr: Expr, bound: Bound) -> Iterator[Bound]:
        immediate = self.immediates[pattern]
        if immediate.name in bound:
            if bound[immediate.name] == expr:
                yield bound
        elif immediate.dtype == "bool":
            if expr.dtype == "bool" and not any(isinstance(n, Read) for n in walk(expr)):
                yield {**bound, immediate.name: expr}
        elif isinstance(expr, Const) and (self.any_type or expr.dtype == immediate.dtype):
            if immediate.low <= expr.value <= immediate.high:
                yield {**bound, immediate.name: expr}
            else:
                self._depth += 1
                self._differ(pattern, expr, f"{immediate.name} must be from {immediate.low} to "
                                            f"{immediate.high}")
                self._depth -= 1

    def _operand(self, pattern: Read, expr: Expr, bound: Bound) -> Iterator[Bound]:
        operand = self.operands[pattern.buffer.name]
        for scope, stored in operand.storage:
            tile = read = None
            if scope == "imm":
                if expr.dtype == operand.dtype and self._is_invariant(expr) and not (
                        isinstance(expr, Const) and not fits(expr, stored)):
                    tile = expr
            else:
                read = _stored(expr, operand.dtype, stored)
                if read is not None and read.buffer.scope == scope:
                    tile = self._tile(operand, stored, pattern, read)
            if tile is not None and bound.get(operand.name, tile) == tile:
                yield from self._places(pattern, read, {**bound, operand.name: tile})

    def _places(self, pattern: Read, read: Read | None, bound: Bound) -> Iterator[Bound]:
        """Unify the indices of a table, which are computed from values; `read` is None for an
        immediate.
        """
        pairs = [(normal(Cast(wanted, INDEX)), index) for wanted, index in
                 zip(reversed(pattern.indices), reversed(read.indices if read is not None else ()))
                 if self._is_computed(wanted)]
        yield from self._all(tuple(wanted for wanted, _ in pairs),
                             tuple(index for _, index in pairs), bound)

    def _is_computed(self, index: Expr) -> bool:
        return any(isinstance(node, Read) or isinstance(node, Var) and node in self.immediates
                   for node in walk(index))

    def _is_invariant(self, expr: Expr) -> bool:
        return (not any(isinstance(node, Read) for node in walk(expr))
                and not self.tile & free_variables(expr))

    def _tile(self, operand: Operand, stored: str, pattern: Read, read: Read) -> Read | None:
        """The first element of the tile that `read` walks, or None with `mismatch` told why.

        Each of the last dimensions is walked by lanes, in a window from a place that they do not
        move; a place that is computed from values may be any, and `_places` compares it.
        A field of a record serves the last axis only: parameters do not depend on the others.
        """
        rank = len(operand.shape)
        if "." in stored:
            rank = min(rank, 1)
        outer, shape = len(read.indices) - rank, operand.shape[len(operand.shape) - rank:]
        reason, first = "", list[Expr]()
        if outer < 0 or not operand.window and read.buffer.shape[outer:] != shape:
            reason = f"last dimensions of {read.buffer.name} must be {shape}"
        for wanted, index, extent in zip(pattern.indices[len(pattern.indices) - rank:],
                                         read.indices[max(outer, 0):], shape):
            if self._is_computed(wanted):
                first.append(Const(0, INDEX))
                continue
            begin = from_linear(linear(index) - linear(substitute(wanted, self.lanes)))
            first.append(begin if operand.window else Const(0, INDEX))
            moves = self.tile & free_variables(begin) if operand.window else begin != first[-1]
            if moves and (extent > 1 or operand.window):
                reason = reason or f"{operand.name} must be read at the lanes of its tile"
        for index in read.indices[:max(outer, 0)]:
            for var in sorted(self.tile & free_variables(index), key=lambda v: v.name):
                reason = reason or (f"{operand.name} must not depend on {var.name} outside "
                                    f"its tile")
        if reason:
            self._depth += 1
            self._differ(pattern, read, reason)
            self._depth -= 1
            return None
        return Read(read.buffer, (*read.indices[:outer], *first))


def _leaves(pattern: Expr) -> Iterator[Expr]:
    """Sub-expressions down to reads, whose indices do not count."""
    yield pattern
    if not isinstance(pattern, Read):
        for child in children(pattern):
            yield from _leaves(child)


def _name(node: Expr) -> str:
    match node:
        case Read(buffer, _): return buffer.name
        case Var(name, _): return name
        case _: return ""


def _same_index(a: Expr, b: Expr) -> bool:
    difference = linear(a) - linear(b)
    return not difference.terms and not difference.constant


def _adopt(value: Const, dtype: str) -> Const | None:
    """`value` in another type, when that holds it."""
    converted = normal(Cast(value, dtype))
    return converted if isinstance(converted, Const) and converted.value == value.value else None


def _stored(expr: Expr, dtype: str, stored: str) -> Read | None:
    """The read behind `expr`, which has the operand's `dtype` and comes from `stored`."""
    if dtype == ANY or stored == ANY:
        return expr if isinstance(expr, Read) else None
    record, _, field = stored.partition(".")
    if expr.dtype != dtype:
        return None
    match expr:
        case Field(base, name) | Cast(Field(base, name), _) \
                if field and name == field and base.dtype == record:
            return base
        case Read() | Cast(Read()) if not field:
            read = expr.value if isinstance(expr, Cast) else expr
            return read if read.dtype == record else None     # type: ignore[union-attr]
        case _:
            return None
