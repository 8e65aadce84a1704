"""Initializes reductions ahead of their loops.

No iteration tests whether its reduction begins. Where a loop over a reduction variable holds
nothing but the update, the elements that it is about to update are first set to the neutral value
of the operation (if the reduction begins here), and then every iteration accumulates: the inner
loop has no condition, and LLVM keeps its result in a register. The neutral value of a sum of
floats is -0.0, so the result is the same to the bit.
"""

from dataclasses import replace

from compiler import te
from compiler.ir import For, If, Stmt, Store, Tensorized, Update, reads
from compiler.te import INDEX, Const, Expr, Var, neutral


def update_begun_by(loop: For) -> Update | None:
    """The update that is the loop's only content, if its elements can be set ahead."""
    stmt: Stmt = loop
    while isinstance(stmt, For | If | Tensorized):
        stmt = stmt.body
    if not isinstance(stmt, Update) or not stmt.begins or loop.var not in stmt.axes or any(
            read.buffer == stmt.buffer for read in reads(loop)):
        return None
    return stmt


def outer_axes(loop: For, update: Update) -> tuple[Var, ...]:
    """Reduction variables of loops around `loop`."""
    inner = _variables(loop)
    return tuple(var for var in update.axes if var not in inner)


def first_iteration(loop: For, update: Update) -> Stmt:
    """The nest with its reduction variables at zero, storing the neutral value."""
    inner = _variables(loop)
    zeros: dict[Var, Expr] = {var: Const(0, INDEX) for var in update.axes if var in inner}
    value = neutral(update.op, update.buffer.dtype)

    def go(node: Stmt) -> Stmt:
        match node:
            case For() if node.var in zeros: return go(node.body)
            case For(): return replace(node, body=go(node.body))
            case If(condition, body): return If(te.substitute(condition, zeros), go(body))
            case Tensorized(): return go(node.body)
            case Update(buffer, indices):
                return Store(buffer, tuple(te.substitute(i, zeros) for i in indices), value)
            case _: raise AssertionError(node)

    return go(loop)


def _variables(stmt: Stmt) -> set[Var]:
    variables = set()
    while isinstance(stmt, For | If | Tensorized):
        if isinstance(stmt, For):
            variables.add(stmt.var)
        stmt = stmt.body
    return variables
