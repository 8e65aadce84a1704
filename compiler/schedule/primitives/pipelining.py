"""Software pipelining: loads what a later iteration needs while this one computes. It is the same
for every machine. On a GPU the copies may be asynchronous; on a CPU the order of instructions
prefetches; on the accelerator units work side by side as far as tokens allow, and every copy of a
buffer has storage of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from compiler.ir import (Access, Alloc, Combine, For, If, Program, Seq, Stmt, Store, Tensorized,
                         Update, accesses, block, conjuncts, loop_domain, map_buffers,
                         path_to, replace_stmt, rewrite_stmts, substitute_stmt,
                         unblock, walk_stmts)
from compiler.te import INDEX, Buffer, Const, Expr, Read, Select, Var, is_number

from compiler.schedule.analysis.copies import allocated_around, copies_of, in_turns
from compiler.schedule.analysis.dependence import find_dependence, refuse_dependence
from compiler.schedule.analysis.place import (find_buffer, find_loop, finish, guarded, refuse,
                                              require_free, require_numbers, require_serial,
                                              written_together)

__all__ = ["double_buffer", "pipeline"]


def double_buffer(program: Program, buffer: str) -> Program:
    """Gives a buffer that is allocated inside a loop two copies, used in turns.

    ::

                                      alloc t: int32[2, 8]
        for k in 0..4:                for k in 0..4:
          alloc t: int32[8]     ->      for i in 0..8:
          for i in 0..8:                  t[k % 2, i] = x[k, i]
            t[i] = x[k, i]              for j in 0..8:
          for j in 0..8:                  c[j] += t[k % 2, j] begin(k)
            c[j] += t[j] begin(k)

    Then the next iteration may write one copy while this one still reads the other. `pipeline`
    arranges that, with as many copies as it takes.

    1. The buffer is allocated by the program, inside of a serial loop of two iterations or more.
       Others that one reduction writes together with it are allocated there too, and get two copies
       as well.
    """
    require_numbers(program, "double_buffer")
    single = find_buffer(program, buffer, "double_buffer")
    together = written_together(program, single)
    loop, alloc = _allocating(program, single)
    if loop is None:
        refuse("double_buffer", f"{buffer} must be allocated inside of a loop", program,
               alloc)
    for other in together:
        if _allocating(program, other)[0] is not loop:
            refuse("double_buffer", f"{other.name}, which is written together with {buffer}, must "
                                    f"be allocated inside of {loop.var.name}", program, loop)
    require_serial(program, loop, "double_buffer")
    if loop.extent < 2:
        refuse("double_buffer", f"{loop.var.name} must have two iterations or more", program, loop)
    taken = rewrite_stmts(loop, lambda s: s.body if isinstance(s, Alloc) and s.buffer in together
                          else None)
    copies: dict[Buffer, tuple[Buffer, Expr]] = {
        one: (copies_of(one, 2), loop.var) for one in together}
    return finish(program, allocated_around(program, loop, in_turns(taken, copies),
                                             tuple(copy for copy, _ in copies.values())))


def _allocating(program: Program, buffer: Buffer) -> tuple[For | None, Stmt | None]:
    """The innermost loop in which the buffer is allocated, and the allocation."""
    path = path_to(program.body, lambda s: isinstance(s, Alloc) and s.buffer == buffer)
    loop = next((stmt for stmt in reversed(path) if isinstance(stmt, For)), None)
    return loop, path[-1] if path else None


@dataclass(frozen=True, slots=True)
class _Part:
    """A statement of the loop, its stage, and the number of iterations that it runs ahead."""

    stmt: Stmt
    stage: int
    ahead: int


def pipeline(program: Program, loop: str, *stages: int, asynchronous: bool = False) -> Program:
    """Runs the statements of a loop for different iterations at the same time.

    ::

        for k in 0..8:                  alloc t: int32[2, 4]
          alloc t: int32[4]             for i_pre in 0..4:            what runs ahead, once
          for i in 0..4:                  t[0, i_pre] = x[0, i_pre]
            t[i] = x[k, i]        ->    for k in 0..8:
          for j in 0..4:                  if k < 7:                   the next iteration's
            c[j] += t[j] begin(k)           for i in 0..4:
                                              t[(k + 1) % 2, i] = x[k + 1, i]
                                          for j in 0..4:              this iteration's
                                            c[j] += t[k % 2, j] begin(k)

    `stages` holds a number for every statement of the loop's block, in order: 0 for the first to
    run, the highest for those in step with the loop. A statement of stage `s` of `n` runs ``n - s``
    iterations ahead; ``pipeline(p, "k", 0, 0, 3)`` has three loads in flight. A buffer that is
    allocated in the block becomes as many copies as iterations use it at a time, or one of those
    that a reduction writes together with it.

    `asynchronous` notes ``async_copy`` at the outermost loop of what only copies to a ``shared``
    buffer: how many iterations ahead it runs. The back end waits for it where it is used.

    1. The loop is serial. There is a number for each statement; the least is 0, the highest at
       least 1 and less than the number of iterations.
    2. No two instances of statements that touch one element, one of them writing, change their
       order. A buffer that is allocated in the block conflicts within the same iteration only.
    3. A reduction over the loop is in the last stage.
    4. Buffers that one reduction writes together are all allocated in the block, or none.
    5. The new names, with ``_pre``, are not in use.
    """
    require_numbers(program, "pipeline")
    path = find_loop(program, loop, "pipeline")
    node = path[-1]
    assert isinstance(node, For)
    require_serial(program, node, "pipeline")
    buffers, stmts = _statements(node)
    parts = _parts(program, node, stmts, stages)
    _require_order(program, path, parts, buffers)
    for part in parts:
        _require_no_early_reduction(program, node, part)
    if asynchronous:
        parts = [replace(part, stmt=_noted(part)) if part.ahead else part for part in parts]
    copies = {buffer: copies_of(buffer, max(_lifetime(one, parts) for one in _all_of(
        program, node, buffer, buffers))) for buffer in buffers}
    first = _prologue(program, node, parts, copies)
    groups = [list(group) for _, group in groupby(parts, key=lambda part: part.ahead)]
    steady = replace(node, body=block((), tuple(_steady(node, group, copies) for group in groups)))
    whole = Seq((*first, steady))
    return finish(program, allocated_around(program, node, whole, tuple(copies.values())))


def _statements(node: For) -> tuple[tuple[Buffer, ...], tuple[Stmt, ...]]:
    """The statements of a loop's block; a guard around all becomes a guard of each."""
    body, conditions = node.body, []
    while isinstance(body, If):
        conditions += conjuncts(body.condition)
        body = body.body
    buffers, stmts = unblock(body)
    return buffers, tuple(guarded(conditions, stmt) for stmt in stmts)


def _parts(program: Program, node: For, stmts: tuple[Stmt, ...],
           stages: Sequence[int]) -> list[_Part]:
    if len(stages) != len(stmts) or not all(isinstance(stage, int) for stage in stages):
        refuse("pipeline", f"stages must be {len(stmts)} numbers, one for each statement of "
                           f"{node.var.name}, not {', '.join(map(repr, stages)) or 'none'}",
               program, node)
    if min(stages) != 0 or not 1 <= max(stages) < node.extent:
        refuse("pipeline", f"stages must be from 0 to at most {node.extent - 1}, one less than the "
                           f"iterations of {node.var.name}, and not all the same, "
                           f"not {', '.join(map(str, stages))}", program, node)
    return [_Part(stmt, stage, max(stages) - stage)
            for stmt, stage in zip(stmts, stages, strict=True)]


def _require_order(program: Program, path: tuple[Stmt, ...], parts: list[_Part],
                   buffers: tuple[Buffer, ...]):
    loop = path[-1]
    assert isinstance(loop, For)
    around, shared, k = loop_domain(path), loop_domain(path[:-1]).vars, loop.var.name
    touched = [_outside(part.stmt, around) for part in parts]
    for p, first in enumerate(parts):
        for q, second in enumerate(parts):
            if second.ahead <= first.ahead:
                continue                        # keeps its order, whatever it touches
            same = f"{{a[{k}]}} = {{b[{k}]}}" if p < q else "false"
            before = f"({{a[{k}]}} < {{b[{k}]}} or {same})"
            late = (f"{{a[{k}]}} - {first.ahead} {'>=' if p > q else '>'} "
                    f"{{b[{k}]}} - {second.ahead}")
            for mine, order in ((False, before), (True, same)):
                conflict = find_dependence([a for a in touched[p] if (a.buffer in buffers) == mine],
                                           touched[q], shared, f"{order} and {late}")
                if conflict:
                    refuse_dependence("pipeline", f"stages {first.stage} and {second.stage} must "
                                                  f"keep the order of {conflict.a.buffer.name}",
                                      program, conflict)


def _outside(stmt: Stmt, around) -> list[Access]:
    own = {s.buffer for s in walk_stmts(stmt) if isinstance(s, Alloc)}
    return [a for a in accesses(stmt, around) if a.buffer not in own]


def _require_no_early_reduction(program: Program, node: For, part: _Part):
    for stmt in walk_stmts(part.stmt):
        axes = stmt.axes if isinstance(stmt, Update | Combine) and stmt.begins else ()
        if part.ahead and node.var in axes:
            refuse("pipeline", f"reduction over {node.var.name} must be in the last stage, "
                               f"not in {part.stage}", program, stmt)


def _all_of(program: Program, node: For, buffer: Buffer,
            buffers: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
    """The buffers that are written together with the buffer."""
    together = written_together(program, buffer)
    for other in together:
        if other not in buffers:
            refuse("pipeline", f"{other.name}, which is written together with {buffer.name}, must "
                               f"be allocated in {node.var.name}", program, node)
    return together


def _lifetime(buffer: Buffer, parts: list[_Part]) -> int:
    """The number of iterations that use the buffer at the same time."""
    using = [part.ahead for part in parts
             if any(a.buffer == buffer for a in accesses(part.stmt))]
    return max(using, default=0) - min(using, default=0) + 1


def _noted(part: _Part) -> Stmt:
    """The statement with `async_copy` on the loop around a copy to a shared buffer."""
    stmt: Stmt = part.stmt
    while isinstance(stmt, For | If | Tensorized):
        stmt = stmt.body
    if not isinstance(stmt, Store) or stmt.buffer.scope != "shared" or not _is_copy(stmt.value):
        return part.stmt
    outermost = next((s for s in walk_stmts(part.stmt) if isinstance(s, For)), None)
    if outermost is None:
        return part.stmt
    notes = tuple(sorted((dict(outermost.annotations) | {"async_copy": part.ahead}).items()))
    return replace_stmt(part.stmt, outermost, replace(outermost, annotations=notes))


def _is_copy(value: Expr) -> bool:
    match value:
        case Read(): return True
        case Select(_, a, b): return _is_copy(a) and is_number(b)
        case _: return False


def _steady(node: For, parts: list[_Part], copies: dict[Buffer, Buffer]) -> Stmt:
    """The loop in its steady state: parts that run equally far ahead share a guard for the last
    iterations.
    """
    ahead = parts[0].ahead
    turn = node.var + ahead if ahead else node.var
    stmt = block((), tuple(_at(part.stmt, node.var, turn, copies) for part in parts))
    return guarded([node.var < node.extent - ahead], stmt) if ahead else stmt


def _at(stmt: Stmt, var: Var, turn: Expr, copies: dict[Buffer, Buffer]) -> Stmt:
    """The statement for iteration `turn`."""
    shifted = substitute_stmt(stmt, {var: turn})
    return in_turns(shifted, {buffer: (new, turn) for buffer, new in copies.items()})


def _prologue(program: Program, node: For, parts: list[_Part],
              copies: dict[Buffer, Buffer]) -> tuple[Stmt, ...]:
    """The prologue: step `t` runs iteration ``t - stage`` of each part."""
    early = [part for part in parts if part.ahead]
    steps = max(part.ahead for part in early)
    step = Var(f"{node.var.name}_pre")
    names = [step.name] if steps > 1 else []
    names += [f"{name}_pre" for part in early for name in _names(part.stmt)]
    require_free(program, tuple(names), "pipeline")
    stmts = []
    for part in early:
        turn = step - part.stage if steps > 1 else Const(0, INDEX)
        stmt = _renamed(_at(part.stmt, node.var, turn, copies))
        stmts.append(guarded([step >= part.stage], stmt) if steps > 1 and part.stage else stmt)
    return (For(step, steps, block((), tuple(stmts))),) if steps > 1 else tuple(stmts)


def _names(stmt: Stmt) -> list[str]:
    return [s.var.name if isinstance(s, For) else s.buffer.name
            for s in walk_stmts(stmt) if isinstance(s, For | Alloc)]


def _renamed(stmt: Stmt) -> Stmt:
    """The statement with loops and buffers of its own."""
    variables = {s.var: Var(f"{s.var.name}_pre") for s in walk_stmts(stmt) if isinstance(s, For)}
    buffers = {s.buffer: replace(s.buffer, name=f"{s.buffer.name}_pre")
               for s in walk_stmts(stmt) if isinstance(s, Alloc)}

    def rule(stmt: Stmt) -> Stmt | None:
        match stmt:
            case For(): return replace(stmt, var=variables[stmt.var])
            case Update() | Combine():
                return replace(stmt, axes=tuple(variables.get(v, v) for v in stmt.axes))
            case Tensorized(_, binding):
                begin = tuple(variables.get(v, v) for v in binding.begin)
                return replace(stmt, binding=replace(binding, begin=begin))
            case _: return None

    return rewrite_stmts(substitute_stmt(map_buffers(stmt, buffers), variables), rule)
