"""Small loops written out: sums that compilers are to keep in registers, each by its place."""

from dataclasses import replace
from math import prod

from compiler.ir import (Alloc, For, Seq, Stmt, Store, Update, reads, rewrite_stmts,
                         substitute_stmt)
from compiler.te import INDEX, Const, Expr, Var

MOST = 16               # statements that are written out


def unrolled(body: Stmt) -> Stmt:
    """Loops that are to be unrolled, of one statement each time, as many statements; where that is
    a loop over lanes, inside of it::

        for w in 0..2 (unroll):                       for c in 0..16:
          for c in 0..16 (vectorize):          ->       acc[0, c] += x[0] * k[c]
            acc[w, c] += x[w] * k[c]                    acc[1, c] += x[1] * k[c]
    """
    return rewrite_stmts(body, lambda s: (_in_lanes(s) or _written_out(s)) if isinstance(s, For)
                         else None)


def _in_lanes(loop: For) -> Stmt | None:
    """The loop over lanes with the statements of all iterations, each of an element of its own."""
    match loop.body:
        case For(lane, _, Update() | Seq() as inside, "vectorize"): pass
        case _: return None
    stmts = inside.stmts if isinstance(inside, Seq) else (inside,)
    if not all(isinstance(stmt, Update) and {loop.var, lane} <= {*stmt.indices}
               and all(read.buffer != stmt.buffer for read in reads(stmt)) for stmt in stmts):
        return None
    written = _written_out(replace(loop, body=inside))
    return None if written is None else replace(loop.body, body=written)


def _written_out(loop: For) -> Stmt | None:
    stmts = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
    if (loop.kind != "unroll" or not isinstance(loop.extent, int)
            or loop.extent * len(stmts) > MOST
            or not all(isinstance(stmt, Store | Update) for stmt in stmts)
            or any(isinstance(stmt, Update) and loop.var in stmt.axes for stmt in stmts)):
        return None
    return Seq(tuple(substitute_stmt(stmt, {loop.var: Const(place, INDEX)})
                     for place in range(loop.extent) for stmt in stmts))


def zeroed(alloc: Alloc) -> Stmt | None:
    """The statements behind the zeros of integers with which all of a buffer is filled first; None
    where nothing does that.
    """
    buffer = alloc.buffer
    stmts = alloc.body.stmts if isinstance(alloc.body, Seq) else (alloc.body,)
    if buffer.size == 1 or not buffer.dtype.startswith(("int", "uint")):
        return None
    seen: set[tuple[Expr, ...]] = set()
    for place, stmt in enumerate(stmts):
        loops: list[For] = []
        while isinstance(stmt, For):
            loops.append(stmt)
            stmt = stmt.body
        if not isinstance(stmt, Store) or stmt.buffer != buffer or not _is_zero(stmt.value):
            return None
        if not loops and all(isinstance(index, Const) for index in stmt.indices):
            seen.add(stmt.indices)
            if len(seen) < buffer.size:
                continue
        elif seen or not _covers(stmt, loops):
            return None
        rest = stmts[place + 1:]
        return rest[0] if len(rest) == 1 else Seq(tuple(rest))
    return None


def _is_zero(value: Expr) -> bool:
    return isinstance(value, Const) and value.value == 0


def _covers(store: Store, loops: list[For]) -> bool:
    """True if the loops run over every element once."""
    extents = {loop.var: loop.extent for loop in loops}
    places = [index for index, extent in zip(store.indices, store.buffer.shape, strict=True)
              if extent > 1]
    return (len(places) == len(loops) and all(isinstance(index, Var) for index in places)
            and len(set(places)) == len(places)
            and prod(extents.values()) == store.buffer.size)
