"""What an expression computes more than once, and sums of integers that cannot wrap."""

from collections.abc import Iterator, Sequence

from compiler.ir import Alloc, For, Stmt, Store, Update, is_index, path_to, walk_stmts
from compiler.te import (Binary, Call, Cast, Const, Expr, Read, Select, children, is_integer,
                         is_record)

from .expressions import CExpressions

__all__ = ["guards_reads", "repeated", "sums_that_fit"]

FEWEST = 3              # operators of an expression that gets a name


def repeated(values: Sequence[Expr]) -> list[Expr]:
    """Expressions that occur several times in the text of a statement, each after those in it. What
    they read is read in any case, so that they may be computed before the statement.
    """
    count: dict[Expr, int] = {}
    order: list[Expr] = []

    def visit(node: Expr) -> None:
        count[node] = count.get(node, 0) + 1
        if count[node] == 1:
            for child in children(node):
                visit(child)
            order.append(node)

    for value in values:
        visit(value)
    if all(number == 1 for number in count.values()):
        return []
    always = {read for value in values for read in _always_read(value)}
    return [node for node in order if count[node] > 1 and _is_long(node)
            and all(read in always for read in _reads(node))]


def guards_reads(values: Sequence[Expr]) -> bool:
    """Whether something is read only where a condition holds."""
    always = {read for value in values for read in _always_read(value)}
    return any(read not in always for value in values for read in _reads(value))


def _is_long(node: Expr) -> bool:
    if is_index(node) or is_record(node.dtype) or not isinstance(node, Binary | Select | Cast
                                                                 | Call):
        return False
    left: list[Expr] = [node]
    operators = 0
    while left and operators < FEWEST:
        one = left.pop()
        operators += isinstance(one, Binary | Select | Call)
        left.extend(children(one))
    return operators >= FEWEST


def _reads(node: Expr) -> Iterator[Read]:
    if isinstance(node, Read):
        yield node
    for child in children(node):
        yield from _reads(child)


def _always_read(node: Expr) -> Iterator[Read]:
    """What is read whichever sides of choices are taken."""
    if isinstance(node, Read):
        yield node
    for child in (node.condition,) if isinstance(node, Select) else children(node):
        yield from _always_read(child)


def sums_that_fit(body: Stmt) -> set[str]:
    """Names of local buffers of integers to which constants are stored, and values added, so few
    and small that no sum is outside of int.
    """
    return {stmt.buffer.name for stmt in walk_stmts(body) if isinstance(stmt, Alloc)
            and stmt.buffer.dtype == "int32" and _fits(stmt)}


def _fits(alloc: Alloc) -> bool:
    most = 0
    for stmt in walk_stmts(alloc.body):
        match stmt:
            case Store(buffer, _, Const(value)) if buffer == alloc.buffer:
                most = max(most, abs(int(value)))
            case Update(buffer, _, "sum") if buffer == alloc.buffer and not stmt.begins:
                terms = _most(alloc, stmt)
                if terms is None:
                    return False
                most += terms
            case _ if alloc.buffer in getattr(stmt, "buffers", ()):
                return False
    return most < 1 << 31


def _most(alloc: Alloc, update: Update) -> int | None:
    """The largest size of what the update adds to one element while the buffer lives; None where
    the types alone do not say.
    """
    loops = [s for s in path_to(alloc.body, lambda s: s is update) if isinstance(s, For)]
    exprs = CExpressions({}, {loop.var: loop.extent for loop in loops})
    found = exprs.range(update.value) if is_integer(update.value.dtype) else None
    if found is None:
        return None
    turns = 1
    for loop in loops:
        if loop.var not in update.indices:      # else each iteration has an element of its own
            turns *= int(loop.extent)
    return turns * max(abs(found[0]), abs(found[1]))
