"""Which operators of a body fit a datapath, which takes a value every cycle."""

from collections.abc import Collection, Iterator

from compiler.te import (COMPARISONS, Binary, Call, Cast, Const, Expr, Select, Var, children,
                         is_float, walk)

DIVISIONS = ("div", "floordiv", "mod")
OF_FLOATS = frozenset(("add", "sub", "mul", "min", "max")) | COMPARISONS


def is_static(expr: Expr, lanes: Collection[Var]) -> bool:
    """True if the place of a lane or term alone decides its value."""
    return all(node in lanes or not is_float(node.dtype) and isinstance(
        node, Const | Binary | Select | Cast) for node in walk(expr))


def unfit(expr: Expr, lanes: Collection[Var]) -> Iterator[tuple[str, str]]:
    """The operators of an expression that no datapath computes: each as what it is, and its rule.
    What the place of a lane decides is known before, whatever computes it.
    """
    if is_static(expr, lanes):
        return
    match expr:
        case Binary(op) if op in DIVISIONS:
            yield f"Operator {op}", "a shift, or a product and a shift: no pipeline divides"
        case Binary(op, a) if is_float(a.dtype) and op not in OF_FLOATS:
            yield f"Operator {op} on floats", f"one of {', '.join(sorted(OF_FLOATS))}"
        case Call(function) if function != "abs":
            yield f"Function {function}", "a table, or a polynomial: no pipeline computes it"
    for part in children(expr):
        yield from unfit(part, lanes)
