"""Loops that were cut in pieces, as one again: vectors are the C compiler's business."""

from dataclasses import replace

from compiler.ir import (For, If, Stmt, conjuncts, expressions, loops, normalize_stmt, replace_axes,
                         rewrite_stmts, substitute_stmt, walk_stmts)
from compiler.te import INDEX, Binary, Const, Expr, Var, all_of, walk


def joined(body: Stmt) -> Stmt:
    """One loop for two of which nothing but the number of the piece in all is used.

    ::

        for w_o in 0..2:                    for w in 0..10:
          for w_i in 0..8:          ->        y[w] = x[w]
            if w_o*8 + w_i < 10:
              y[w_o*8 + w_i] = x[w_o*8 + w_i]
    """
    taken = {loop.var.name for loop in loops(body)}

    def rule(stmt: Stmt) -> Stmt | None:
        match stmt:
            case For(_, int(), For(_, int())): return _joined(stmt, taken)
        return None

    return rewrite_stmts(body, rule)


def _joined(outer: For, taken: set[str]) -> Stmt | None:
    inner = outer.body
    assert isinstance(inner, For)
    whole = Var(_name(outer, inner, taken))
    pieces: dict[Var, Expr] = {outer.var: whole // inner.extent, inner.var: whole % inner.extent}
    body = replace_axes(inner.body, {outer.var: (whole,), inner.var: ()})
    body = normalize_stmt(substitute_stmt(body, pieces), {whole: outer.extent * inner.extent})
    if any(_is_piece(node, whole) for stmt in walk_stmts(body) for expr in expressions(stmt)
           for node in walk(expr)):
        return None
    taken.add(whole.name)
    return _without_guard(For(whole, outer.extent * inner.extent, body))


def _name(outer: For, inner: For, taken: set[str]) -> str:
    """The name of the loop before it was cut, where that shows and is free."""
    stem = outer.var.name.removesuffix("_o")
    if inner.var.name == f"{stem}_i" and stem != outer.var.name and stem not in taken:
        return stem
    return f"{outer.var.name}_all" if f"{outer.var.name}_all" not in taken else (
        f"{outer.var.name}_{inner.var.name}")


def _is_piece(node: Expr, whole: Var) -> bool:
    return isinstance(node, Binary) and node.op in ("floordiv", "mod") and whole in walk(node)


def _without_guard(loop: For) -> For:
    """The loop as long as its guard says."""
    if not isinstance(loop.body, If):
        return loop
    rest, extent = [], loop.extent
    for condition in conjuncts(loop.body.condition):
        match condition:
            case Binary("lt", Var() as var, Const(int(end), dtype)) if (
                    var == loop.var and dtype == INDEX and end > 0):
                extent = min(extent, end)
            case _:
                rest.append(condition)
    body = If(all_of(*rest), loop.body.body) if rest else loop.body.body
    return replace(loop, extent=extent, body=body)
