"""Images as matrices: a program that reads pixels one after the other reads rows of a matrix."""

from dataclasses import replace
from math import prod

from compiler.ir import Access, Program, accesses, is_implied, map_exprs, normalize
from compiler.te import INDEX, Const, Expr, Read, Var, rewrite


def with_flat_inputs(program: Program) -> Program:
    """Before: any program. After: its inputs of more than two dimensions, all but the last of
    which some statement walks along with one loop, are matrices of the same memory::

        t[p, c] = x[p // 196, p // 14 % 14, p % 14, c]      ->      t[p, c] = x[p, c]
    """
    several = {buffer for buffer in program.inputs if len(buffer.shape) > 2}
    reads = [access for access in accesses(program.body) if access.buffer in several]
    flat = {access.buffer: replace(access.buffer, shape=(
                prod(access.buffer.shape[:-1]), access.buffer.shape[-1]))
            for access in reads if _loop(access) is not None}
    if not flat:
        return program
    places: dict[Read, Expr] = {}
    for access in reads:
        loop = _loop(access)
        places[Read(access.buffer, access.indices)] = _row(access) if loop is None else loop

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Read) and node.buffer in flat:
            return Read(flat[node.buffer], (places[node], node.indices[-1]))
        return None

    return replace(program, body=map_exprs(program.body, lambda e: rewrite(e, rule)),
                   inputs=tuple(flat.get(buffer, buffer) for buffer in program.inputs))


def _loop(access: Access) -> Var | None:
    """The loop that walks along all dimensions but the last, from the first row to the last."""
    row, rows = _row(access), prod(access.buffer.shape[:-1])
    if isinstance(row, Var) and access.domain.extents.get(row) == rows:
        return row
    return next((var for var, extent in access.domain.extents.items()
                 if extent == rows > 1 and is_implied(row.equal(var), access.domain)), None)


def _row(access: Access) -> Expr:
    """The number of the row that is read."""
    row: Expr = Const(0, INDEX)
    for index, extent in zip(access.indices[:-1], access.buffer.shape[:-1], strict=True):
        row = row * extent + index
    return normalize(row, access.domain.extents)
