"""The least and the greatest integer that buffers hold, as far as what is stored tells."""

from collections.abc import Mapping

from compiler.ir import Alloc, For, Stmt, Store, Update, Write, path_to, walk_stmts
from compiler.te import Buffer, Const, Expr, bits, is_integer

from .expressions import CExpressions

Contents = dict[Buffer, tuple[int, int]]


def contents(body: Stmt, given: Mapping[Buffer, tuple[int, int]]) -> Contents:
    """The ends of what each buffer of integers holds: those `given`, and of buffers that are filled
    with values of fewer bits, or, where they are allocated, with zeros to which products are added,
    so few and small that no sum wraps.
    """
    known = dict(given)
    written: dict[Buffer, list[Write]] = {}
    allocs = {stmt.buffer: stmt for stmt in walk_stmts(body) if isinstance(stmt, Alloc)}
    for stmt in walk_stmts(body):
        if isinstance(stmt, Write):
            for buffer in stmt.buffers:
                written.setdefault(buffer, []).append(stmt)
    for buffer, stmts in written.items():
        if is_integer(buffer.dtype) and bits(buffer.dtype) < 64:
            ends = _ends(buffer, stmts, allocs.get(buffer), known)
            if ends is not None:
                known[buffer] = ends
    return known


def _ends(buffer: Buffer, stmts: list[Write], alloc: Alloc | None,
          known: Contents) -> tuple[int, int] | None:
    """The hull of what is stored, and as much on both sides as is added to one element; None beyond
    the type. Statements whose elements are numbered add to different ones.
    """
    low = high = 0
    added: dict[tuple[Expr | None, ...], int] = {}
    for place, stmt in enumerate(stmts):
        match stmt:
            case Store():
                ends = CExpressions({}, {}, (), known).range(stmt.value)
                if ends is None:
                    return None
                low, high = ends if place == 0 else (min(low, ends[0]), max(high, ends[1]))
            case Update(_, _, "sum") if alloc is not None and not stmt.begins and place > 0:
                where = tuple(index if isinstance(index, Const) else None for index in stmt.indices)
                added[where] = added.get(where, 0) + _most(alloc, stmt, known)
            case _:
                return None
    kinds = {tuple(index is None for index in where) for where in added}
    more = max(added.values(), default=0) if len(kinds) < 2 else sum(added.values())
    low, high = low - more, high + more
    size = 1 << bits(buffer.dtype) - 1
    least, most = (-size, size - 1) if buffer.dtype.startswith("int") else (0, 2 * size - 1)
    return (low, high) if least <= low <= high <= most else None


def _most(alloc: Alloc, update: Update, known: Contents) -> int:
    """The largest size of what the update adds to one element while the buffer lives."""
    loops = [s for s in path_to(alloc.body, lambda s: s is update) if isinstance(s, For)]
    exprs = CExpressions({}, {loop.var: loop.extent for loop in loops}, (), known)
    found = exprs.range(update.value)
    assert found is not None
    turns = 1
    for loop in loops:
        if loop.var not in update.indices:      # else each iteration has an element of its own
            turns *= int(loop.extent)
    return turns * max(abs(found[0]), abs(found[1]))
