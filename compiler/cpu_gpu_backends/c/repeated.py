"""Repeated parts of an expression, and parts that it reads under a condition."""

from collections.abc import Iterator, Sequence

from compiler.ir import is_index
from compiler.te import Binary, Call, Cast, Expr, Read, Select, children, is_record

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
    """True if something is read only where a condition holds."""
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
    """The reads that happen whichever sides of choices are taken."""
    if isinstance(node, Read):
        yield node
    for child in (node.condition,) if isinstance(node, Select) else children(node):
        yield from _always_read(child)
