"""Runs iterations of a loop side by side, as the lanes of vectors.

A loop of kind ``vectorize`` runs as vectors of all its iterations, or of pieces of them where it is
long; a tail is a shorter vector. Whatever does not depend on the loop is computed once. A condition
that differs between lanes becomes a mask: masked lanes read and write nothing, and code that no
lane executes is skipped. Each lane has its own copy of a buffer that is allocated inside the loop;
the lanes' elements at one place lie side by side. A processor without vectors runs the iterations
one after the other.
"""

from dataclasses import dataclass

from compiler.ir import (Alloc, Combine, For, Update, free_variables, offset, reads, walk_stmts,
                         writes)
from compiler.te import Var, is_record, numpy_dtype

_WHOLE = 64             # loops of so many iterations are one vector
_BYTES = 64             # a piece of a longer loop: as many elements as fill a register of AVX-512


@dataclass(frozen=True, slots=True)
class Lanes:
    """`count` iterations of the loop over `var`.

    Parameters
    ----------
    first : value of the variable in the first lane.
    numbers : its values, a vector.
    mask : the lanes that take part, a vector of ``i1``; empty if all do.
    """

    var: Var
    count: int
    first: str
    numbers: str
    mask: str = ""


def has_lanes(loop: For) -> bool:
    """True if the loop can run as vectors. It cannot where lanes write to one place or touch
    records; then it runs as any loop does.
    """
    if any(isinstance(stmt, Update | Combine) and loop.var in stmt.axes
           for stmt in walk_stmts(loop.body)):
        return False
    own = {stmt.buffer for stmt in walk_stmts(loop.body) if isinstance(stmt, Alloc)}
    places = [(b, stmt.indices) for stmt in writes(loop.body) for b in stmt.buffers]
    touched = [b for b, _ in places] + [read.buffer for read in reads(loop.body)]
    return (all(b in own or loop.var in free_variables(offset(b, indices))
                for b, indices in places)
            and not any(is_record(buffer.dtype) for buffer in touched))


def piece(loop: For) -> int:
    """Lanes of a piece of a long loop."""
    return _BYTES // min(numpy_dtype(b.dtype).itemsize
                         for s in writes(loop.body) for b in s.buffers)


def pieces(loop: For) -> tuple[int, int, int]:
    """Lanes of a vector, how many such vectors, and the lanes of the tail."""
    if loop.extent <= _WHOLE:
        return loop.extent, 1, 0
    lanes = piece(loop)
    return lanes, loop.extent // lanes, loop.extent % lanes
