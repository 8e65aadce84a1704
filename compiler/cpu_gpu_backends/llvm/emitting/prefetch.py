"""The annotation ``prefetch`` of a loop: what an iteration loads as vectors is fetched into the
nearest cache so many iterations before. Nothing is computed from it, so it may lie behind the end
of an array.
"""

from collections.abc import Iterator
from itertools import product

from compiler.ir import For, free_variables, linear, offset, reads, walk_stmts
from compiler.te import INDEX, Buffer, Const, Expr, Var, substitute

NOTE = "prefetch"


def fetched(loop: For) -> Iterator[tuple[Buffer, Expr]]:
    """Buffers, and the elements where vectors of an iteration begin that move with the loop, each
    once.
    """
    inside = [s for s in walk_stmts(loop.body) if isinstance(s, For)]
    rows = {s.var for s in inside if s.kind == "vectorize"}
    for buffer, place in dict.fromkeys((read.buffer, offset(read.buffer, read.indices))
                                       for read in reads(loop.body)):
        moved = free_variables(place)
        form = dict(linear(place).terms)
        if loop.var not in moved or not any(form.get(row) == 1 for row in rows):
            continue
        own = [s for s in inside if s.var in moved and s.var not in rows]
        if not all(isinstance(s.extent, int) for s in own):
            continue
        for numbers in product(*(range(s.extent) for s in own if isinstance(s.extent, int))):
            values: dict[Var, Expr] = dict.fromkeys(rows, Const(0, INDEX))
            values |= {s.var: Const(number, INDEX)
                       for s, number in zip(own, numbers, strict=True)}
            yield buffer, substitute(place, values)
