"""Weights that a tile reads one vector after the other are on their way before they are needed.

A processor looks ahead as far as its queue of loads reaches. A step of a tile loads a vector of
weights and many pixels, so that few vectors of weights are in that queue: where they come from
memory, the tile waits for each.
"""

from dataclasses import replace

from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.llvm.emitting.prefetch import NOTE
from compiler.ir import (For, Program, Stmt, Update, linear, offset, reads, rewrite_stmts,
                         walk_stmts)
from compiler.te import Read, numpy_dtype


def read_ahead(program: Program, vectors: Vectors) -> Program:
    """Notes at the loops over such vectors how many iterations ahead they are to be fetched; not at
    loops of which each lane has its own.
    """
    ahead = vectors.costs.ahead
    if not ahead:
        return program
    in_lanes = {one.var for lanes in walk_stmts(program.body)
                if isinstance(lanes, For) and lanes.kind == "vectorize"
                for one in walk_stmts(lanes.body) if isinstance(one, For)}
    return replace(program, body=rewrite_stmts(program.body, lambda s: None if (
        isinstance(s, For) and s.var in in_lanes) else _noted(s, ahead)))


def _noted(stmt: Stmt, ahead: int) -> Stmt | None:
    if not isinstance(stmt, For) or stmt.kind != "serial" or stmt.extent == 1:
        return None
    row = inner = stmt.body
    while isinstance(inner, For) and inner.kind in ("unroll", "vectorize"):
        row, inner = inner, inner.body
    if not isinstance(inner, Update) or not isinstance(row, For) or row.kind != "vectorize":
        return None
    sizes = [numpy_dtype(read.buffer.dtype).itemsize * row.extent
             for read in reads(inner) if _follows(read, stmt, row)]
    return replace(stmt, annotations=((NOTE, ahead // max(sizes)),)) if sizes else None


def _follows(read: Read, loop: For, row: For) -> bool:
    """True if an iteration of the loop reads the vector behind the one before it."""
    form = dict(linear(offset(read.buffer, read.indices)).terms)
    return form.get(row.var) == 1 and form.get(loop.var) == row.extent
