"""Simpler expressions and statements of the same meaning.

Two strengths, because a value must stay what an intrinsic was declared with: `normalize` touches
index arithmetic alone (subscripts, guards, conditions), `simplify` folds constants and identities
everywhere.
"""

from dataclasses import replace
from operator import is_

import numpy as np

from compiler import te
from compiler.te import (Binary, Call, Cast, Const, Expr, Select, Var, is_float, is_integer,
                         numpy_dtype)

from .affine import Extents, from_linear, interval, is_index, linear
from .arithmetic import apply_binary, apply_call, apply_cast
from .nodes import (Alloc, Barrier, Binding, Combine, For, If, Seq, Stmt, Store, Tensorized,
                    Update)
from .visit import (expressions, is_marked, map_binding, map_exprs, mark, stmt_children,
                    with_own_exprs, with_stmt_children)


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    """Operands of a chain of ``and``."""
    if isinstance(condition, Binary) and condition.op == "and" and condition.dtype == "bool":
        return (*conjuncts(condition.a), *conjuncts(condition.b))
    return (condition,)


def normalize(expr: Expr, extents: Extents | None = None) -> Expr:
    """Brings every maximal index sub-expression into affine normal form; nothing else changes, and
    what is normal already is the same object.
    """
    known, extents = getattr(expr, "_normal", None), extents or {}
    if known is True or known is not None and known == _extents_of(expr, extents):
        return expr
    if is_index(expr):
        form = linear(expr, extents)
        new = from_linear(form)
        made, always = expr if new == expr else new, all(
            isinstance(atom, Var) for atom, _ in form.terms)
    else:
        before = te.children(expr)
        after = tuple([normalize(child, extents) for child in before])
        made = expr if all(map(is_, before, after)) else te.with_children(expr, after)
        always = all(map(is_always_normal, after))
    if always or made is expr:
        object.__setattr__(made, "_normal", always or _extents_of(expr, extents))
    return made


def is_always_normal(expr: Expr) -> bool:
    """True if an expression is known to be normal, whatever the extents of loops are."""
    return getattr(expr, "_normal", None) is True


def _extents_of(expr: Expr, extents: Extents) -> list[int | None]:
    """The extents of the variables of an expression, in an order of its own."""
    return [extents.get(var) for var in te.free_variables(expr)]


def normalize_stmt(stmt: Stmt, extents: Extents | None = None) -> Stmt:
    """`normalize` every expression, knowing the extents of the loops around it."""
    if is_marked(stmt, NORMAL):
        return stmt
    extents = extents or {}
    before = stmt_children(stmt)
    inside = _inside(stmt, extents) if isinstance(stmt, For) else extents
    after = tuple([normalize_stmt(child, inside) for child in before])
    made = with_stmt_children(stmt, after)
    if not isinstance(stmt, For | Alloc | Seq):
        made = with_own_exprs(made, lambda expr: normalize(expr, extents))
    if all(is_marked(child, NORMAL) for child in after) and all(
            map(is_always_normal, expressions(made))):
        mark(made, NORMAL)
    return made


NORMAL = "_normal"


def _inside(loop: For, extents: Extents) -> Extents:
    """Known extents inside of a loop: a symbol is not known."""
    return {**extents, loop.var: loop.extent} if isinstance(loop.extent, int) else extents


def simplify(expr: Expr, extents: Extents | None = None) -> Expr:
    """Folds constants, applies identities and brings index arithmetic into normal form.

    ``x + 0``, ``x * 1`` and ``0 * x`` of integers, ``min``, ``max``, ``select``, comparisons and
    divisions that the extents of the loops decide. Floats are only folded where both operands are
    constants: ``x + 0`` would turn -0.0 into 0.0.
    """
    extents = extents or {}
    return te.rewrite(normalize(expr, extents), lambda node: _rule(node, extents))


def _rule(node: Expr, extents: Extents) -> Expr | None:
    if is_index(node):
        return from_linear(linear(node, extents))
    match node:
        case Binary(op, Const() as a, Const() as b):
            return _folded(node.dtype, apply_binary(op, _array(a), _array(b)))
        case Binary(op, a, b) if op in te.COMPARISONS and is_index(a) and is_index(b):
            return compared(op, a, b, extents)
        case Binary():
            return _identity(node)
        case Call(function, (Const() as a,)):
            return _folded(node.dtype, apply_call(function, _array(a)))
        case Cast(Const() as a, dtype) if not te.is_record(dtype):
            return _folded(dtype, apply_cast(_array(a), dtype))
        case Cast(value, dtype) if value.dtype == dtype:
            return value
        case Select(Const(value), a, b):
            return a if value else b
        case Select(_, a, b) if a == b:
            return a
    return None


def _array(const: Const) -> np.ndarray:
    return np.full(1, const.value, numpy_dtype(const.dtype))


def _folded(dtype: str, result: np.ndarray) -> Const:
    return Const(result[0].item(), dtype)


def _identity(node: Binary) -> Expr | None:
    """Rules with one constant operand (or two equal ones), for integers and conditions."""
    op, a, b = node.op, node.a, node.b
    if is_float(a.dtype):
        return None
    if op in ("add", "mul", "and", "or", "xor") and isinstance(a, Const):
        a, b = b, a
    if op in ("min", "max", "and", "or") and a == b:
        return a
    if not isinstance(b, Const):
        return None
    match op, b.value:
        case ("add" | "sub" | "or" | "xor" | "shl" | "shr" | "rshift_rne", 0) | (
                "mul" | "floordiv", 1):
            return a
        case ("and", True) | ("or", False):
            return a
        case ("mul" | "and", 0):
            return b
        case "or", True:
            return b
        case "mod", 1 if is_integer(a.dtype):
            return Const(0, a.dtype)
    return None


_OUTCOMES = {       # when the difference a - b lies in [low, high]: surely true, surely false
    "lt": (lambda low, high: high < 0, lambda low, high: low >= 0),
    "le": (lambda low, high: high <= 0, lambda low, high: low > 0),
    "gt": (lambda low, high: low > 0, lambda low, high: high <= 0),
    "ge": (lambda low, high: low >= 0, lambda low, high: high < 0),
    "eq": (lambda low, high: low == high == 0, lambda low, high: low > 0 or high < 0),
    "ne": (lambda low, high: low > 0 or high < 0, lambda low, high: low == high == 0),
}


def compared(op: str, a: Expr, b: Expr, extents: Extents) -> Const | None:
    """The outcome of a comparison of indices wherever loops have these extents, as far as the least
    and greatest difference tell.
    """
    span = interval(linear(a, extents) - linear(b, extents), extents)
    if span is None:
        return None
    true, false = _OUTCOMES[op]
    return Const(True, "bool") if true(*span) else Const(False, "bool") if false(*span) else None


def simplify_stmt(stmt: Stmt, extents: Extents | None = None) -> Stmt:
    """`simplify` every expression; drop what never runs; let guards shorten their loops.

    ``for i in 0..8: if i < 5: s`` becomes ``for i in 0..5: s``. Substituting constants for outer
    loop variables and then calling this specializes a program to one iteration. An empty result
    is ``Seq(())``.
    """
    extents = extents or {}
    match stmt:
        case For():
            return _simplify_for(stmt, extents)
        case Seq(stmts):
            done = [simplify_stmt(child, extents) for child in stmts]
            return _seq([child for child in done if child != Seq(())])
        case Alloc(buffer, body):
            new = simplify_stmt(body, extents)
            return new if new == Seq(()) else Alloc(buffer, new)
        case If(condition, body):
            return _simplify_if(simplify(condition, extents), body, extents)
        case Barrier():
            return stmt
        case Store() | Update() | Combine():
            return map_exprs(stmt, lambda expr: simplify(expr, extents))
        case Tensorized() as tensorized:
            return replace(tensorized, binding=_decided(tensorized.binding, extents),
                           body=normalize_stmt(tensorized.body, extents))
        case _:
            raise TypeError(f"Statement must be of a known kind, not {stmt!r}")


def _decided(binding: Binding, extents: Extents) -> Binding:
    """Tiles in normal form, predicates simplified."""
    return map_binding(binding, lambda e: simplify(e, extents) if e.dtype == "bool"
                       else normalize(e, extents))


def _seq(stmts: list[Stmt]) -> Stmt:
    return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))


def _simplify_if(condition: Expr, body: Stmt, extents: Extents) -> Stmt:
    if isinstance(condition, Const):
        return simplify_stmt(body, extents) if condition.value else Seq(())
    new = simplify_stmt(body, extents)
    return new if new == Seq(()) else If(condition, new)


def _simplify_for(loop: For, extents: Extents) -> Stmt:
    body = simplify_stmt(loop.body, _inside(loop, extents))
    if not isinstance(loop.extent, int):
        return Seq(()) if body == Seq(()) else replace(loop, body=body)
    limits = [_upper_bound(condition, loop.var) for condition in conjuncts(body.condition)] if (
        isinstance(body, If)) else []
    extent = min([loop.extent, *(limit for limit in limits if limit is not None)])
    if body == Seq(()) or extent <= 0:
        return Seq(())
    shorter = replace(loop, extent=extent, body=body)
    return shorter if extent == loop.extent else simplify_stmt(shorter, extents)


def _upper_bound(condition: Expr, var: Var) -> int | None:
    """`n` when the condition says ``var < n`` and no more."""
    match condition:
        case Binary("lt" | "le" as op, a, b) if is_index(a) and is_index(b):
            form = linear(a) - linear(b)
            if len(form.terms) == 1 and form.terms[0][0] == var and form.terms[0][1] > 0:
                factor, slack = form.terms[0][1], form.constant + (op == "lt")
                return -slack // factor + 1
    return None
