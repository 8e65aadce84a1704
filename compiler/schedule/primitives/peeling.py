"""Cuts iterations off a loop, so that guards which only they need leave the others."""

from dataclasses import replace

from compiler.ir import (Alloc, Combine, For, Program, Seq, Stmt, Tensorized, Update, loop_domain,
                         loops, map_buffers, replace_axes, rewrite_stmts, simplify_stmt,
                         substitute_stmt, walk_stmts)
from compiler.te import INDEX, Const, Var

from compiler.schedule.analysis.place import find_loop, refuse, require_free, require_number, swap

__all__ = ["peel"]


def peel(program: Program, loop: str, suffix: str = "last") -> Program:
    """Lets the last iteration of a loop stand by itself, behind the others, and simplifies both.

    ::

        for i_o in 0..3:                    for i_o in 0..2:
          for i_i in 0..4:            ->      for i_i in 0..4:
            if i_o*4 + i_i < 10:                s(i_o*4 + i_i)
              s(i_o*4 + i_i)                for i_i_last in 0..2:
                                              s(i_i_last + 8)

    1. The loop is serial or unrolled, and runs a number of iterations, at least two.
    2. No reduction over it begins in it: it would begin again. See `decompose_reduction`.
    3. Nothing inside is tensorized.
    4. Loops and buffers inside are called ``<name>_<suffix>`` in the last iteration; these names
       are not in use.
    """
    path = find_loop(program, loop, "peel")
    node = path[-1]
    assert isinstance(node, For)
    require_number(program, node, "peel")
    if node.kind not in ("serial", "unroll"):
        refuse("peel", f"{loop} must be a serial or an unrolled loop, not {node.kind}", program,
               node)
    assert isinstance(node.extent, int)
    if node.extent < 2:
        refuse("peel", f"{loop} must have at least two iterations, not {node.extent}", program,
               node)
    for stmt in walk_stmts(node.body):
        if isinstance(stmt, Update | Combine) and stmt.begins and node.var in stmt.axes:
            refuse("peel", f"{stmt.buffers[0].name} must not begin in {loop}: decompose its "
                           f"reduction before", program, stmt)
        if isinstance(stmt, Tensorized):
            refuse("peel", f"{loop} must not be around {stmt.intrinsic.name}", program, stmt)
    last = _renamed(program, substitute_stmt(replace_axes(node.body, {node.var: ()}), {
        node.var: Const(node.extent - 1, INDEX)}), suffix)
    extents = loop_domain(path[:-1]).extents
    parts = (replace(node, extent=node.extent - 1), last)
    return swap(program, node, Seq(tuple(simplify_stmt(part, extents) for part in parts)))


def _renamed(program: Program, stmt: Stmt, suffix: str) -> Stmt:
    """The statement with other names for all loops and buffers that are its own."""
    variables = {one.var: Var(f"{one.var.name}_{suffix}") for one in loops(stmt)}
    buffers = {one.buffer: replace(one.buffer, name=f"{one.buffer.name}_{suffix}")
               for one in walk_stmts(stmt) if isinstance(one, Alloc)}
    require_free(program, tuple(one.name for one in (*variables.values(), *buffers.values())),
                 "peel")
    stmt = replace_axes(stmt, {old: (new,) for old, new in variables.items()})
    stmt = substitute_stmt(stmt, variables)
    stmt = rewrite_stmts(stmt, lambda one: replace(one, var=variables[one.var])
                         if isinstance(one, For) else None)
    return map_buffers(stmt, buffers)
