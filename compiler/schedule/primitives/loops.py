"""Splitting, fusing and marking loops."""

from dataclasses import replace

from compiler.ir import (Combine, For, If, Program, Update, conjuncts, extent_text, linear,
                         normalize, replace_axes, substitute_stmt, walk_stmts)
from compiler.te import INDEX, Const, Expr, Extent, Read, Var, walk

from compiler.schedule.analysis.place import (find_loop, guarded, refuse, require_free,
                                              require_number, require_plain, require_serial, swap)
from .reorder import reorder

__all__ = ["fuse", "split", "tile", "unroll"]


def split(program: Program, loop: str, factor: Extent | None = None, outer: str | None = None,
          inner: str | None = None, nparts: int | None = None) -> Program:
    """Splits a loop into two; the inner one runs `factor` iterations, or as few as make `nparts` of
    the outer one.

    ::

        for i in 0..10:          for i_o in 0..3:
          s(i)              ->     for i_i in 0..4:
                                     if i_o*4 + i_i < 10:
                                       s(i_o*4 + i_i)

    1. Either `factor` or `nparts` is given. `factor` is a number from 1 to the extent of the loop,
       any number from 1 if that is a symbol. The guard is left out where it divides the extent.
       `nparts` is a number from 1 to the extent, a number itself, of which it leaves no part empty.
    2. The loop is serial and carries no notes.
    3. The new names, ``<loop>_o`` and ``<loop>_i`` unless given, are not in use.
    """
    node = _loop(program, loop, "split")
    if (factor is None) == (nparts is None):
        refuse("split", f"{loop} must be given either factor or nparts", program, node)
    if nparts is not None:
        factor = _factor(program, node, nparts)
    most = node.extent if isinstance(node.extent, int) else None
    if not isinstance(factor, int) or factor < 1 or most is not None and factor > most:
        end = f"from 1 to {node.extent}" if isinstance(node.extent, int) else "a number from 1"
        refuse("split", f"factor of {loop} must be {end}, "
                        f"not {extent_text(factor) if isinstance(factor, Expr) else repr(factor)}",
               program, node)
    require_plain(program, node, "split")
    names = (outer or f"{loop}_o", inner or f"{loop}_i")
    require_free(program, names, "split")
    first, second = Var(names[0]), Var(names[1])
    index = first * factor + second
    body = substitute_stmt(replace_axes(node.body, {node.var: (first, second)}),
                           {node.var: index})
    count, whole = _parts(node.extent, factor)
    if not whole:
        body = guarded([index < node.extent], body)
    return swap(program, node, For(first, count, For(second, factor, body)))


def _factor(program: Program, loop: For, nparts: int) -> int:
    """The iterations of each of so many parts, the last of which may be smaller."""
    name, extent = loop.var.name, loop.extent
    if not isinstance(extent, int):
        refuse("split", f"nparts of {name} needs an extent that is a number, not "
                        f"{extent_text(extent)}: give factor", program, loop)
    if not isinstance(nparts, int) or not 1 <= nparts <= extent:
        refuse("split", f"nparts of {name} must be from 1 to {extent}, not {nparts!r}", program,
               loop)
    factor = -(-extent // nparts)
    if (parts := -(-extent // factor)) < nparts:
        refuse("split", f"nparts of {name} must leave no part empty, but {factor} of its {extent} "
                        f"iterations each make {parts}, not {nparts}", program, loop)
    return factor


def fuse(program: Program, outer: str, inner: str, fused: str | None = None) -> Program:
    """Fuses two directly nested loops into one.

    ::

        for i in 0..4:           for i_j in 0..12:
          for j in 0..3:    ->     s(i_j // 3, i_j % 3)
            s(i, j)

    1. `inner` stands directly in `outer`, with nothing but guards between them, which read nothing
       and move inside.
    2. Both are serial and carry no notes.
    3. Both are reduction loops of the same updates, or neither is.
    4. The new name, ``<outer>_<inner>`` unless given, is not in use.
    5. The extent of `inner` is a number: symbols are not multiplied and not divided by.
    """
    node = _loop(program, outer, "fuse")
    child, conditions = node.body, []
    while isinstance(child, If) and not any(isinstance(e, Read) for e in walk(child.condition)):
        conditions += conjuncts(child.condition)
        child = child.body
    if not isinstance(child, For) or child.var.name != inner:
        refuse("fuse", f"{inner} must stand directly in {outer}", program, node)
    for loop in (node, child):
        require_plain(program, loop, "fuse")
    for stmt in walk_stmts(child):
        if isinstance(stmt, Update | Combine) and (
                (node.var in stmt.axes) != (child.var in stmt.axes)):
            refuse("fuse", f"{outer} and {inner} must both be reduction loops of "
                           f"{stmt.buffers[0].name}, or neither", program, stmt)
    if not isinstance(child.extent, int):
        refuse("fuse", f"extent of {inner} must be a number, not {extent_text(child.extent)}: "
                       f"symbols are not multiplied and not divided by", program, child)
    name = fused or f"{outer}_{inner}"
    require_free(program, (name,), "fuse")
    var = Var(name)
    size = Const(child.extent, INDEX)
    body = replace_axes(guarded(conditions, child.body), {node.var: (var,), child.var: (var,)})
    body = substitute_stmt(body, {node.var: var // size, child.var: var % size})
    extent = node.extent * child.extent
    return swap(program, node, For(var, normalize(extent) if isinstance(extent, Expr) else extent,
                                   body))


def _parts(extent: Extent, factor: int) -> tuple[Extent, bool]:
    """The extent divided by `factor`, rounded up, and whether `factor` divides it."""
    if isinstance(extent, int):
        return -(-extent // factor), extent % factor == 0
    form = linear(extent)
    if all(part % factor == 0 for part in (form.constant, *(f for _, f in form.terms))):
        return normalize(extent // factor), True
    return normalize((extent + (factor - 1)) // factor), False


def tile(program: Program, x: str, y: str, x_factor: int, y_factor: int) -> Program:
    """Splits both loops and reorders them into blocks.

    ::

        for x in 0..8:           for x_o in 0..2:
          for y in 0..8:    ->     for y_o in 0..2:
            s(x, y)                  for x_i in 0..4:
                                       for y_i in 0..4:
                                         s(x_o*4 + x_i, y_o*4 + y_i)
    """
    program = split(split(program, x, x_factor), y, y_factor)
    return reorder(program, f"{x}_o", f"{y}_o", f"{x}_i", f"{y}_i")


def unroll(program: Program, loop: str) -> Program:
    """Marks a loop to be unrolled by the back end: ``for i in 0..4 (unroll):``."""
    node = _loop(program, loop, "unroll")
    require_serial(program, node, "unroll")
    require_number(program, node, "unroll")
    return swap(program, node, replace(node, kind="unroll"))


def _loop(program: Program, name: str, primitive: str) -> For:
    node = find_loop(program, name, primitive)[-1]
    assert isinstance(node, For)
    return node
