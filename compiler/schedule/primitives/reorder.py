"""Changing the order of nested loops."""

from dataclasses import replace
from itertools import combinations_with_replacement
from typing import NoReturn

from compiler.ir import (UNORDERED_KINDS, Access, Alloc, For, If, Program, Stmt, accesses,
                         conjuncts, loop_domain, walk_stmts)
from compiler.te import Expr, Var

from compiler.schedule.analysis.dependence import (ROUNDS, Dependence, commutes, earlier,
                                                   find_dependence, refuse_dependence,
                                                   same_for_element)
from compiler.schedule.analysis.place import find_loop, guarded, refuse, swap
from .parallel import require_marks

__all__ = ["reorder"]


def reorder(program: Program, *names: str, reassociate: bool = False) -> Program:
    """Nests loops in the given order, outermost first.

    ::

        for i in 0..4:           for k in 0..8:
          for j in 0..4:    ->     for j in 0..4:
            for k in 0..8:           for i in 0..4:
              s(i, j, k)               s(i, j, k)          reorder(program, "k", "i")

    The named loops exchange their places; other loops between them keep theirs.

    1. All loops are named once and lie in one nest, with nothing but loops and guards between
       them. Guards move with the loops that they depend on.
    2. No two iterations that touch an element of a buffer allocated outside of the nest, one of
       them writing, change their order. Updates of integers, and those by ``max`` and ``min``,
       may: a reduction begins where all its variables are zero, which is first in every order.
       Sums of floats round differently in another order: `reassociate` permits that.
    3. Loops that are marked as parallel, vectorized, blocks or threads still carry no dependence,
       and stand where they may.
    """
    if len(set(names)) != len(names) or len(names) < 2:
        refuse("reorder", f"loops must be two or more different ones, not {', '.join(names)}",
               program)
    chain, conditions, leaf = _nest(program, names)
    order = iter(names)
    by_name = {loop.var.name: loop for loop in chain}
    new = [by_name[next(order)] if loop.var.name in names else loop for loop in chain]
    _require_order_kept(program, chain, new, leaf, reassociate)
    body = guarded(conditions, leaf)
    for loop in reversed(new):
        body = replace(loop, body=body)
    reordered = swap(program, chain[0], body)
    if any(loop.kind in UNORDERED_KINDS for loop in chain):
        require_marks(reordered, "reorder")
    return reordered


def _nest(program: Program, names: tuple[str, ...]) -> tuple[list[For], list[Expr], Stmt]:
    """The loops from the outermost to the innermost of `names`, the guards among them, and the
    content.
    """
    paths = [find_loop(program, name, "reorder") for name in names]
    outermost = min(paths, key=len)[-1]
    missing = set(names)
    chain: list[For] = []
    conditions: list[Expr] = []
    node: Stmt = outermost
    while missing:
        match node:
            case For(var):
                chain.append(node)
                missing.discard(var.name)
            case If(condition):
                conditions.extend(conjuncts(condition))
            case _:
                refuse("reorder", f"loops {', '.join(names)} must lie in one nest, but only "
                                  f"{', '.join(loop.var.name for loop in chain)} do",
                       program, chain[-1])
        node = node.body
    return chain, conditions, node


def _require_order_kept(program: Program, old: list[For], new: list[For], leaf: Stmt,
                        reassociate: bool):
    path = find_loop(program, old[-1].var.name, "reorder")
    outer = loop_domain(path[:path.index(old[0])]).vars
    local = {s.buffer for s in walk_stmts(leaf) if isinstance(s, Alloc)}
    touched = [a for a in accesses(leaf, loop_domain(path)) if a.buffer not in local]
    moved = _reversed([loop.var for loop in old], [loop.var for loop in new])
    if moved is None:
        return
    for a, b in combinations_with_replacement(touched, 2):
        if a.buffer != b.buffer or commutes(a, b, reassociate) or _keeps(a, b, old, new):
            continue
        for first, second in ((a, b), (b, a)):
            if dependence := find_dependence([first], [second], outer, moved):
                _refuse(program, old, dependence)


def _keeps(a: Access, b: Access, old: list[For], new: list[For]) -> bool:
    """True if instances that touch one element stay in order, as far as this is plainly seen: they
    differ in loops alone whose order stays.
    """
    same = same_for_element(a, b)
    return [one for one in old if one.var not in same] == [
        one for one in new if one.var not in same]


def _refuse(program: Program, loops: list[For], dependence: Dependence) -> NoReturn:
    why = ROUNDS if commutes(dependence.a, dependence.b, reassociate=True) else (
        "depends on the order of iterations")
    refuse_dependence("reorder", f"order of {', '.join(loop.var.name for loop in loops)} must be "
                                 f"kept: {dependence.a.buffer.name} {why}", program, dependence)


def _reversed(old: list[Var], new: list[Var]) -> str | None:
    """The condition that instance a runs before b in the old order and after it in the new one."""
    if old == new:
        return None
    return f"({earlier(old)}) and ({earlier(new, 'b', 'a')})"
