"""The order in which sums of floats are added: in lanes, and in blocks of at most `MOST` terms.

Of n terms added one after the other, the last is rounded once and the first n times: a sum of
2**26 ones in float32 stops at 2**24. Here a sum of n terms is a tree whose nodes add at most
`MOST` values in a row. On the way from a term to the result lie at most ``most_roundings(n)``
additions, so the error is at most that times ``eps * sum(|terms|)``. The order depends on the
extents alone: not on the processor, and not on threads.

Maxima and minima of rows are taken in lanes as well, where no order changes more than the sign of a
zero. Integers wrap, so that their order does not matter: they stay as they are.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from math import ceil, log2

from compiler.ir import (Alloc, For, If, Program, Seq, Stmt, Store, Update, conjuncts,
                         free_variables, linear, path_to, reads, replace_stmt, walk_stmts)
from compiler.schedule import split
from compiler.te import (INDEX, Buffer, Const, Expr, Read, Var, all_of, is_float, neutral,
                         substitute)

MOST = 256              # values that are added one after the other
LANES = 64              # eight registers of AVX2, so that additions do not wait for each other
SHORTEST = 32           # rows that gain by lanes


def most_roundings(terms: int) -> int:
    """The most additions between a term and the result."""
    return terms if terms <= MOST else 32 * ceil(log2(terms)) + 64


def ordered_sums(program: Program) -> Program:
    """The program with its sums of floats in lanes, where their terms lie side by side, and in
    blocks.
    """
    for update in _of_floats(program, "sum", "max", "min"):
        loop = _loops_around(program, update)[-1:]
        if loop and _lies_in_row(update, loop[0]):
            program = _in_lanes(program, update, loop[0])
    for update in _of_floats(program, "sum"):
        program = _in_blocks(program, _sum_into(program, update.buffer, update.indices))
    return program


def _of_floats(program: Program, *ops: str) -> list[Update]:
    return [s for s in walk_stmts(program.body) if isinstance(s, Update) and s.op in ops
            and s.axes and is_float(s.buffer.dtype)]


def _loops_around(program: Program, update: Update) -> list[For]:
    return [s for s in path_to(program.body, lambda s: s is update) if isinstance(s, For)]


def _lies_in_row(update: Update, loop: For) -> bool:
    """True if the loop is a long sum over what lies side by side."""
    strided = [read for read in reads(update)
               if any(loop.var in free_variables(index) for index in read.indices)]
    return (loop.body is update and loop.var in update.axes and loop.kind == "serial"
            and isinstance(loop.extent, int) and loop.extent >= SHORTEST and bool(strided)
            and all(dict(linear(read.indices[-1]).terms).get(loop.var) == 1
                    and not any(loop.var in free_variables(i) for i in read.indices[:-1])
                    for read in strided))


def _in_lanes(program: Program, update: Update, loop: For) -> Program:
    """Adds every 64th term to a sum of its own, and then these sums by halves; maxima and minima
    likewise.

    ::

        for k in 0..130:                   alloc c_lanes[64]
          c[i] += x[i, k] begin(k)   ->    for k_lane_first in 0..64 (vectorize):
                                             c_lanes[k_lane_first] = -0.0
                                           for k_o in 0..2:
                                             for k_i in 0..64 (vectorize):
                                               c_lanes[k_i] += x[i, k_o*64 + k_i] over(k_o)
                                           for k_rest in 0..2 (vectorize):
                                             c_lanes[k_rest] += x[i, 128 + k_rest]
                                           for k_32 in 0..32 (vectorize):
                                             c_lanes[k_32] += c_lanes[k_32 + 32]
                                           ...
                                           c[i] = c_lanes[0]
    """
    assert isinstance(loop.extent, int)
    name, count = loop.var.name, _lanes(loop.extent, update.buffer.dtype)
    lanes = Buffer(f"{name}_lanes", (count,), update.buffer.dtype)
    outer, inner, rest = Var(f"{name}_o"), Var(f"{name}_i"), Var(f"{name}_rest")
    whole = loop.extent // count

    def put(lane: Var, value: Expr) -> Stmt:
        return Update(lanes, (lane,), update.op, value, (), begins=False)

    row = For(inner, count, Update(lanes, (inner,), update.op, substitute(
        update.value, {loop.var: outer * count + inner}), (outer,), begins=False), "vectorize")
    stmts = [_filled(lanes, (For(Var(f"{name}_lane"), count, update, "vectorize"),), update.op),
             For(outer, whole, row)]
    if tail := loop.extent % count:
        value = substitute(update.value, {loop.var: rest + whole * count})
        stmts.append(For(rest, tail, put(rest, value), "vectorize"))
    while (count := count // 2):
        lane = Var(f"{name}_{count}")
        stmts.append(For(lane, count, put(lane, Read(lanes, (lane + count,))), "vectorize"))
    axes = tuple(axis for axis in update.axes if axis != loop.var)
    result = Read(lanes, (Const(0, INDEX),))
    total = (replace(update, value=result, axes=axes) if axes or not update.begins
             else Store(update.buffer, update.indices, result))
    summed = Alloc(lanes, Seq((*stmts, total)))
    return replace(program, body=replace_stmt(program.body, loop, summed))


def _lanes(extent: int, dtype: str) -> int:
    """The number of lanes: each has at least four terms."""
    most = LANES if dtype == "float32" else LANES // 2
    return min(most, 1 << (extent // 4).bit_length() - 1)


def _in_blocks(program: Program, update: Update) -> Program:
    """Makes partial sums of at most `MOST` terms, and adds these up in the same way.

    ::

        for k in 0..1000:                  for k_o in 0..4:
          for j in 0..16:                    alloc c_part[16]
            c[j] += x[k, j] begin(k)  ->     for j_first in 0..16:
                                               c_part[j_first] = -0.0
                                             for k_i in 0..250:
                                               for j in 0..16:
                                                 c_part[j] += x[k_o*250 + k_i, j] over(k_i)
                                             for j_sum in 0..16:
                                               c[j_sum] += c_part[j_sum] begin(k_o)
    """
    loops = [loop for loop in _loops_around(program, update) if loop.var in update.axes]
    if not all(isinstance(loop.extent, int) and loop.kind == "serial" for loop in loops):
        return program
    inside, cut = 1, len(loops) - 1
    while cut >= 0 and inside * loops[cut].extent <= MOST:
        inside, cut = inside * loops[cut].extent, cut - 1
    if cut < 0:
        return program
    factor, name = _factor(loops[cut].extent, MOST // inside), loops[cut].var.name
    first = loops[cut + 1].var.name if factor == 1 else f"{name}_i"
    if factor > 1:
        program = split(program, name, factor)
        update = _sum_into(program, update.buffer, update.indices)
    return _in_blocks(*_with_part(program, update, first))


def _sum_into(program: Program, buffer: Buffer, indices: Sequence[Expr]) -> Update:
    return next(update for update in _of_floats(program, "sum")
                if (update.buffer, update.indices) == (buffer, indices))


def _factor(extent: int, most: int) -> int:
    """The terms of a block: the most that divide the extent, unless these are few."""
    whole = next(size for size in range(most, 0, -1) if extent % size == 0)
    return whole if 2 * whole >= most else ceil(extent / ceil(extent / most))


def _with_part(program: Program, update: Update, first: str) -> tuple[Program, Update]:
    """Puts what the loop called `first` sums into a buffer of its own, and adds that to the sum,
    by the statement that comes back.
    """
    path = path_to(program.body, lambda s: s is update)
    begin = next(at for at, s in enumerate(path) if isinstance(s, For) and s.var.name == first)
    inner = [s for s in path[begin:] if isinstance(s, For)]
    axes = tuple(loop.var for loop in inner if loop.var in update.axes)
    kept = [loop for loop in inner if loop.var not in axes]
    guards = [guard for s in path[begin:] if isinstance(s, If) for guard in conjuncts(s.condition)
              if not free_variables(guard) & {*axes}]
    part = _own(program, Buffer(f"{first}_part", tuple(loop.extent for loop in kept),
                                update.buffer.dtype))
    place = tuple(loop.var for loop in kept)
    partial = replace(update, buffer=part, indices=place, axes=axes, begins=False)
    moved: dict[Var, Expr] = {var: Var(f"{var.name}_sum") for var in place}
    total = replace(update, indices=tuple(substitute(i, moved) for i in update.indices),
                    value=Read(part, tuple(moved.values())),
                    axes=tuple(axis for axis in update.axes if axis not in axes))
    guarded = [substitute(guard, moved) for guard in guards]
    replacement = Alloc(part, Seq((
        _filled(part, kept), replace_stmt(path[begin], update, partial),
        _nest(kept, "sum", If(all_of(*guarded), total) if guarded else total))))
    program = replace(program, body=replace_stmt(program.body, path[begin], replacement))
    return program, _sum_into(program, total.buffer, total.indices)


def _own(program: Program, buffer: Buffer) -> Buffer:
    """The buffer under a name that no other one has: a loop and what is peeled off it may have
    partial sums at the same time.
    """
    taken = {s.buffer.name for s in walk_stmts(program.body) if isinstance(s, Alloc)}
    names = (f"{buffer.name}{number or ''}" for number in count())
    return replace(buffer, name=next(name for name in names if name not in taken))


def _filled(buffer: Buffer, loops: Sequence[For], op: str = "sum") -> Stmt:
    """Fills all of a buffer that the loops run over with neutral values."""
    place = tuple(Var(f"{loop.var.name}_first") for loop in loops)
    return _nest(loops, "first", Store(buffer, place, neutral(op, buffer.dtype)))


def _nest(loops: Sequence[For], suffix: str, body: Stmt) -> Stmt:
    """The body in loops like those, with other names."""
    for loop in reversed(loops):
        body = For(Var(f"{loop.var.name}_{suffix}"), loop.extent, body, loop.kind)
    return body
