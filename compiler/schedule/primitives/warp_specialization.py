"""Division of labour: some threads copy what others compute on, each at its own pace."""

from dataclasses import replace

from compiler.ir import (BLOCK_KINDS, Alloc, For, Program, Stmt, accesses, block, unblock,
                         walk_stmts)
from compiler.te import Buffer, Expr

from compiler.schedule.analysis.copies import allocated_around, copies_of, in_turns
from compiler.schedule.analysis.place import (find_loop, finish, refuse, require_numbers,
                                              require_serial)

__all__ = ["UNITS", "warp_specialize"]

UNITS = "units"
"""Note at a specialized loop: the unit of each of its statements, ``"0 0 1"``."""


def warp_specialize(program: Program, loop: str, *units: int, copies: int) -> Program:
    """Gives the statements of a loop to units that work at the same time.

    ::

        for k in 0..8:                      alloc t: int32[3, 4]
          alloc t: int32[4]                 for k in 0..8 [units=0 1]:
          for i in 0..4:              ->      for i in 0..4:
            t[i] = x[k, i]                      t[k % 3, i] = x[k, i]
          for j in 0..4:                      for j in 0..4:
            c[j] += t[j] begin(k)               c[j] += t[k % 3, j] begin(k)

    `units` holds a number for every statement of the loop's block, in order. Buffers that are
    allocated in the block have `copies`, used in turns; serial loops around, inside of blocks,
    count as well, so that turns go on from one of their iterations to the next. The loop reads as
    before: the back end places the tokens by which units wait for each other, and proves that they
    are enough. On a GPU, unit 0 is the TMA, and 1 all threads.

    1. The loop is serial, of two iterations or more. There is a number for each statement, 0 and 1
       among them. `copies` are two or more.
    2. What statements of different units touch, one of them writing, is allocated in the block.
    """
    require_numbers(program, "warp_specialize")
    path = find_loop(program, loop, "warp_specialize")
    node = path[-1]
    assert isinstance(node, For)
    require_serial(program, node, "warp_specialize")
    if node.extent < 2:
        refuse("warp_specialize", f"{loop} must have two iterations or more, not {node.extent}",
               program, node)
    buffers, stmts = unblock(node.body)
    if len(units) != len(stmts) or {*units} != {0, 1}:
        refuse("warp_specialize", f"units must be {len(stmts)} numbers, one for each statement of "
                                  f"{loop}, 0 and 1 among them, not "
                                  f"{', '.join(map(repr, units)) or 'none'}", program, node)
    if not isinstance(copies, int) or copies < 2:
        refuse("warp_specialize", f"copies must be 2 or more, not {copies!r}", program, node)
    _require_apart(program, node, buffers, list(zip(units, stmts)))
    turn: Expr = node.var
    rounds = node.extent
    for outer in reversed(_rounds(path)):
        turn, rounds = outer.var * rounds + turn, rounds * outer.extent
    new = {buffer: copies_of(buffer, copies) for buffer in buffers}
    body = in_turns(block((), stmts), {buffer: (copy, turn) for buffer, copy in new.items()})
    notes = (*node.annotations, (UNITS, " ".join(map(str, units))))
    return finish(program, allocated_around(program, node, replace(
        node, body=body, annotations=notes), tuple(new.values())))


def _rounds(path: tuple[Stmt, ...]) -> list[For]:
    """The serial loops around the last one, inside of those over blocks."""
    around = [stmt for stmt in path[:-1] if isinstance(stmt, For)]
    last = max((place for place, loop in enumerate(around) if loop.kind in BLOCK_KINDS),
               default=-1)
    return [loop for loop in around[last + 1:] if loop.kind == "serial"]


def _require_apart(program: Program, node: For, buffers: tuple[Buffer, ...],
                   parts: list[tuple[int, Stmt]]) -> None:
    touched: dict[Buffer, dict[int, bool]] = {}
    for unit, stmt in parts:
        own = {s.buffer for s in walk_stmts(stmt) if isinstance(s, Alloc)}
        for access in accesses(stmt):
            if access.buffer not in own and access.buffer not in buffers:
                units = touched.setdefault(access.buffer, {})
                units[unit] = units.get(unit, False) or access.is_write
    for buffer, units in touched.items():
        if len(units) > 1 and any(units.values()):
            refuse("warp_specialize", f"{buffer.name}, which units 0 and 1 touch, must be "
                                      f"allocated in {node.var.name}", program, node)
