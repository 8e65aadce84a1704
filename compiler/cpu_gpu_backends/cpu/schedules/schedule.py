"""The schedule of host kernels: tiles where there are, else an order that LLVM can make vectors of.
"""

import re
from collections.abc import Callable, Sequence

from compiler.cpu_gpu_backends.cpu.schedules.attention import tile_attention
from compiler.cpu_gpu_backends.cpu.schedules.block_tiles import tile_blocks
from compiler.cpu_gpu_backends.cpu.schedules.byte_groups import DOTS
from compiler.cpu_gpu_backends.cpu.schedules.byte_tiles import tile_bytes
from compiler.cpu_gpu_backends.cpu.schedules.direct_sums import tile_direct
from compiler.cpu_gpu_backends.cpu.schedules.product_tiles import tile_products
from compiler.cpu_gpu_backends.cpu.schedules.row_stages import along_rows, stages_by_rows
from compiler.cpu_gpu_backends.cpu.schedules.streams import read_ahead
from compiler.cpu_gpu_backends.cpu.schedules.sums import ordered_sums
from compiler.cpu_gpu_backends.cpu.schedules.threads import share_out
from compiler.cpu_gpu_backends.cpu.schedules.row_tiles import SHORTEST_ROW, tile_sums
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.cpu.schedules.winograd import tile_winograd
from compiler.cpu_gpu_backends.intrinsics.cpu import TRANSPOSES, byte_tiles_named
from compiler.ir import For, Program, Store, Update, Write, path_to, reads, walk_stmts
from compiler.schedule import (Schedule, ScheduleError, peel, reorder, split, tensorize)
from compiler.te import Binary, Buffer, Const, Expr, Read, Var, is_integer, walk
from compiler.tune.chooser import OWN, Chooser
from compiler.tune.generic import generic_schedule

INTRINSICS = (*DOTS.values(), *TRANSPOSES.values())
GENERIC = "generic"
LONGEST_PIECE = 16
SQUARES = (32, 16, 64, 128)     # rows and columns of what is transposed at a time, ours first
# LLVM unrolls loops of these lengths and then finds no vectors in sums of products of bytes:
# measured on AVX-512, such rows are ten times slower whole than in pieces.
CUT = range(20, 56)


def schedule(program: Program, vectors: Vectors, plan: str | None = None) -> Program:
    """Schedules by the steps of the plan, or by our own. In any case terms of sums of floats are
    added in the order that `cpu.schedules.sums` gives. Raises ValueError for a plan that is not
    legal.
    """
    if plan is None:
        return read_ahead(ordered_sums(own_schedule(program, vectors).program), vectors)
    if "reassociate" in plan:
        raise ValueError("steps must leave the order in which terms are added: no reassociate")
    named = filter(None, map(byte_tiles_named, re.findall(r"byte_\w+", plan)))
    replayed = Schedule.replay(program, plan, (*INTRINSICS, *named)).program
    return read_ahead(ordered_sums(replayed), vectors)


def own_schedule(program: Program, vectors: Vectors, chooser: Chooser = OWN) -> Schedule:
    """The schedule by one of our templates, the first that knows the program unless the chooser
    takes another one; it decides the rest, too.
    """
    if tiles := tile_winograd(program, vectors) or tile_direct(program, vectors):
        return share_out(tiles, vectors.threads)
    is_map = all(not isinstance(s, Write) or isinstance(s, Store)
                 for s in walk_stmts(program.body))
    names = ("maps",) if is_map else tuple(name for name in TEMPLATES if name != "maps")
    for name in chooser.ranked("template", (*names, GENERIC)):
        if name == GENERIC:
            return generic_schedule(program, vectors.core, chooser)
        if made := TEMPLATES[name](program, vectors, chooser):
            return share_out(made, vectors.threads)
    raise AssertionError(f"{program.name} has no schedule")


def map_by_vectors(program: Program, vectors: Vectors, chooser: Chooser = OWN) -> Schedule:
    """Computes maps a vector at a time where rows are long enough, transpositions by squares;
    one element at a time where there are no vectors.
    """
    s = Schedule(program)
    for stage in [stmt.buffer for stmt in walk_stmts(program.body) if isinstance(stmt, Store)]:
        store = _without_quotients(s, stage)
        if vectors.scalar:
            continue
        nest = _loops_around(s.program, store)
        if row := _row_across(store, nest):
            for way in chooser.ranked("transposed in", ("registers", "squares", "rows")):
                if way == "rows" or way == "squares" and _by_squares(s, nest, row, chooser) or (
                        way == "registers" and _in_registers(s, store, nest, row, vectors)):
                    break
        else:
            along_rows(s, store, vectors)
    return s


def _without_quotients(s: Schedule, stage: Buffer) -> Store:
    """Splits the loops whose variables are divided in indices of reads, until none is divided.

    ::

        for p in 0..784:                     for p_o in 0..28:
          y[p] = x[p % 28, p // 28]   ->       for p_i in 0..28:
                                                 y[p_o*28 + p_i] = x[p_i, p_o]
    """
    while True:
        store = next(stmt for stmt in walk_stmts(s.program.body)
                     if isinstance(stmt, Store) and stmt.buffer == stage)
        nest = {loop.var: loop for loop in _loops_around(s.program, store)}
        divided = next(((nest[node.a], int(node.b.value)) for read in reads(store)
                        for index in read.indices for node in walk(index)
                        if isinstance(node, Binary) and node.op in ("floordiv", "mod")
                        and isinstance(node.b, Const) and isinstance(node.a, Var)
                        and node.a in nest and _parts(nest[node.a], int(node.b.value))), None)
        if divided is None:
            return store
        s.apply(split, divided[0].var.name, divided[1])


def _parts(loop: For, size: int) -> bool:
    """True if the loop is several pieces of that size, and serial."""
    return (isinstance(loop.extent, int) and 1 < size < loop.extent and loop.extent % size == 0
            and loop.kind == "serial")


def _row_across(store: Store, nest: Sequence[For]) -> For | None:
    """The loop along whose rows lies what the last loop reads across them; None where there is no
    such loop, or several.
    """
    if not nest or not all(isinstance(loop.extent, int) for loop in nest):
        return None
    last = nest[-1].var
    across = [read for read in reads(store)
              if any(_names(index, last) for index in read.indices[:-1])
              and not _names(read.indices[-1], last)]
    candidates = {loop for read in across for loop in nest[:-1] if read.indices[-1] == loop.var}
    return candidates.pop() if len(candidates) == 1 else None


def _in_registers(s: Schedule, store: Store, nest: Sequence[For], row: For,
                  vectors: Vectors) -> bool:
    """Transposes squares in registers, where a copy has rows and columns for that; what is left
    beside the squares is copied as it comes. Whether it could.

    ::

        for x in 0..20:               for x_o in 0..2:
          for c in 0..16:      ->       for c_o in 0..2:
            y[x, c] = p[c, x]             y[8 x_o.., 8 c_o..] = transpose(p[8 c_o.., 8 x_o..])
                                      for c_o, x_i_last in 0..4, c_i: ...
    """
    lanes = vectors.squares(store.buffer.dtype, min(row.extent, nest[-1].extent))
    if not isinstance(store.value, Read) or not lanes:
        return False
    names, last = [loop.var.name for loop in nest], nest[-1].var.name
    before, count = s.program, len(s.steps)
    between = names[names.index(row.var.name) + 1:-1]
    try:
        for loop in (row, nest[-1]):
            s.apply(split, loop.var.name, lanes)
        s.apply(reorder, f"{row.var.name}_o", *between, f"{last}_o", f"{row.var.name}_i",
                f"{last}_i")
        if nest[-1].extent % lanes:
            s.apply(peel, f"{last}_o")
        if row.extent % lanes:
            s.apply(peel, f"{row.var.name}_o", "below")
        s.apply(tensorize, f"{row.var.name}_i", TRANSPOSES[store.buffer.dtype, lanes])
    except ScheduleError:
        s.program = before
        del s.steps[count:]
        return False
    return True


def _by_squares(s: Schedule, nest: Sequence[For], row: For, chooser: Chooser) -> bool:
    """Cuts two loops into squares, so that cache lines stay in the cache until they are used up.
    True: that is always possible.

    ::

        for x in 0..64:               for x_o in 0..2:
          for c in 0..64:      ->       for c_o in 0..2:
            y[x, c] = p[c, x]             for x_i in 0..32:
                                            for c_i in 0..32:
                                              y[x, c] = p[c, x]
    """
    names = [loop.var.name for loop in nest]
    between = names[names.index(row.var.name) + 1:-1]
    outer, inner = [], []
    size = chooser.one_of("square", SQUARES)
    for loop in (row, nest[-1]):
        name = loop.var.name
        if loop.extent > size:
            s.apply(split, name, size)
            outer.append(f"{name}_o")
            name = f"{name}_i"
        inner.append(name)
    s.apply(reorder, *outer[:1], *between, *outer[1:], *inner)
    return True


def walk_rows(program: Program, vectors: Vectors | None = None, chooser: Chooser = OWN) -> Schedule:
    """Put the last axis of every reduction inside its reduction loops, where all that it reads
    lies in rows of that axis, if the rows are not too short to gain by it.

    ::

        for x in 0..56:               for k in 0..64:
          for k in 0..64:      ->       for x in 0..56:
            acc[x] += p[k, x]             acc[x] += p[k, x]

    Iterations of the inner loop then do not wait for each other. The terms of each element are
    added in their original order, so that results are the same to the bit.
    """
    s = Schedule(program)
    for update in [stmt for stmt in walk_stmts(program.body) if isinstance(stmt, Update)]:
        nest = _loops_around(s.program, update)
        row = next((loop for loop in nest if loop.var in update.indices[-1:]), None)
        if row and row.extent >= SHORTEST_ROW and row != nest[-1] and _in_rows(update, row.var):
            inner = [loop.var.name for loop in nest if loop.var in update.axes]
            s.apply(reorder, *inner, _cut(s, update, row))
    return s


def _loops_around(program: Program, write: Write) -> list[For]:
    return [s for s in path_to(program.body, lambda s: s == write) if isinstance(s, For)]


def _cut(s: Schedule, update: Update, row: For) -> str:
    """The loop to move: of the row, cut into equal pieces where that pays."""
    name = row.var.name
    pieces = [size for size in range(SHORTEST_ROW, LONGEST_PIECE + 1) if row.extent % size == 0]
    if row.extent not in CUT or not pieces or not is_integer(update.buffer.dtype):
        return name
    s.apply(split, name, pieces[-1])
    return f"{name}_i"


def _in_rows(update: Update, row: Var) -> bool:
    """True if the row's index moves along the last dimension of what is read, or not at all."""
    return not any(_names(index, row) for read in reads(update) for index in read.indices[:-1])


def _names(expr: Expr, var: Var) -> bool:
    return any(node == var for node in walk(expr))


TEMPLATES: dict[str, Callable[[Program, Vectors, Chooser], Schedule | None]] = {
    "maps": map_by_vectors, "attention": tile_attention, "rows in stages": stages_by_rows,
    "tiles of bytes": tile_bytes, "blocks": tile_blocks, "products": tile_products,
    "sums": tile_sums, "rows": walk_rows}
"""Schedules by name: of maps, and of programs with reductions, those that need most first. Each
gives None for a program that it does not know; the last one takes any. What is beside them is
`compiler.tune.generic`, for any program, which none but a search chooses.
"""
