"""Loops whose elements are chosen by a condition that is the same for all: one loop each way.

::

    for c in 0..64:                                          if inside(h):
      y[h, c] = select(inside(h), x[h - 1, c], 0)     ->       for c in 0..64:
                                                                 y[h, c] = x[h - 1, c]
                                                             if not inside(h):
                                                               for c in 0..64:
                                                                 y[h, c] = 0

Compilers make vectors of each. The two conditions stand side by side, so that the text has `else`.
Where there are many choices, as in a concatenation of many parts, they stay where they are.
"""

from dataclasses import replace

from compiler.ir import (For, If, Seq, Stmt, Store, Update, conjuncts, free_variables, is_index,
                         negated, rewrite_stmts)
from compiler.te import Binary, Const, Expr, Read, Select, all_of, rewrite, walk

MOST = 2                # choices of a statement


def with_choices_outside(body: Stmt) -> Stmt:
    return rewrite_stmts(body, lambda s: _chosen(s) if isinstance(s, For) else None)


def either(first: Stmt, second: Stmt) -> bool:
    """True if the second statement is what runs where the first does not."""
    return (isinstance(first, If) and isinstance(second, If) and not _reads(first.condition)
            and second.condition == negated(first.condition))


def _chosen(loop: For) -> Stmt | None:
    """Two loops for one of a single statement."""
    if not isinstance(loop.body, Store | Update):
        return None
    choices = [node for node in walk(loop.body.value) if isinstance(node, Select)]
    for choice in choices if len(choices) <= MOST else ():
        fixed = [one for one in conjuncts(choice.condition)
                 if loop.var not in free_variables(one) and _is_of_places(one)]
        if fixed:
            break
    else:
        return None
    rest = [one for one in conjuncts(choice.condition) if one not in fixed]
    taken = Select(all_of(*rest), choice.a, choice.b) if rest else choice.a
    condition = all_of(*fixed)
    return Seq((If(condition, _with(loop, choice, taken)),
                If(negated(condition), _with(loop, choice, choice.b))))


def _with(loop: For, choice: Select, value: Expr) -> Stmt:
    assert isinstance(loop.body, Store | Update)
    body = replace(loop.body, value=rewrite(loop.body.value, lambda node: value if (
        node == choice) else None))
    inside = replace(loop, body=body)
    return _chosen(inside) or inside


def _is_of_places(condition: Expr) -> bool:
    """True if it compares numbers of loops: what `negated` turns around."""
    return (isinstance(condition, Binary) and negated(condition) != Const(True, "bool")
            and is_index(condition.a) and not _reads(condition))


def _reads(expr: Expr) -> bool:
    return any(isinstance(node, Read) for node in walk(expr))
