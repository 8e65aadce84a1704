"""Places in a program: finds loops and stages by name, and refuses with the place marked. A
**stage** computes one buffer: it is the statement of a block that holds every write of the buffer.
A **block** is the content of a loop, a guard or the program: allocations, then statements.
"""

from dataclasses import dataclass, replace
from typing import NoReturn

from compiler.errors import DEFECT, Error
from compiler.ir import (Access, Alloc, Domain, For, If, Program, Seq, Stmt, Tensorized, Write,
                         accesses, buffers_of, conjuncts, covers, extent_text, free_variables,
                         is_implied, loop_domain, loops, names_below, normalize_stmt, path_of,
                         path_to_alloc, path_to_loop, program_text, reads, replace_stmt,
                         rewrite_stmts, unblock, walk_stmts, widest, writes)
from compiler.te import INDEX, Binary, Buffer, Const, Expr, Read, Var, all_of, as_expr, walk

__all__ = ["Nest", "ScheduleError", "Stage", "find_buffer", "find_loop", "find_stage", "finish",
           "guarded", "hoist_guards", "inside_of", "is_complete", "is_safe", "naive_nest",
           "names_in_use", "refuse", "require_free", "require_number", "require_numbers",
           "require_plain", "require_serial", "swap", "writes_of", "written_together"]


class ScheduleError(Error, ValueError):
    """A step that the program does not allow; the message has the primitive, the fact and the
    program with the place marked.
    """

    exit_status = DEFECT


def refuse(primitive: str, fact: str, program: Program, place: Stmt | None = None) -> NoReturn:
    raise ScheduleError(f"{primitive}: {fact}\n{program_text(program, place)}")


def find_loop(program: Program, name: str, primitive: str) -> tuple[Stmt, ...]:
    """The statements from the body of the program down to the loop over `name`."""
    path = path_to_loop(program.body, name)
    if not path:
        known = ", ".join(loop.var.name for loop in loops(program.body))
        refuse(primitive, f"loop must be one of {known}, not {name!r}", program)
    for stmt in path:
        if isinstance(stmt, Tensorized):
            refuse(primitive, f"loop {name} must not be inside {stmt.intrinsic.name}, which "
                              f"performs it as a whole", program, stmt)
    return path


def find_buffer(program: Program, name: str, primitive: str) -> Buffer:
    known = buffers_of(program)
    if name not in known:
        refuse(primitive, f"buffer must be one of {', '.join(known)}, not {name!r}", program)
    return known[name]


@dataclass(frozen=True, slots=True)
class Stage:
    """`stmt` computes `buffer` in the block `home`; `alloc` allocates it and is None for outputs.
    """

    buffer: Buffer
    alloc: Alloc | None
    home: Stmt
    stmt: Stmt


def find_stage(program: Program, name: str, primitive: str) -> Stage:
    buffer = find_buffer(program, name, primitive)
    if buffer in program.inputs:
        refuse(primitive, f"{name} must be computed by the program, not an input", program)
    path = path_to_alloc(program.body, buffer)
    alloc = path[-1] if path else None
    home = alloc.body if isinstance(alloc, Alloc) else program.body
    writers = [stmt for stmt in unblock(home)[1] if buffer in names_below(stmt)
               and any(buffer in write.buffers for write in writes(stmt))]
    if len(writers) != 1:
        refuse(primitive, f"{name} must be computed by one statement of its block, "
                          f"not by {len(writers)}", program, alloc)
    return Stage(buffer, alloc if isinstance(alloc, Alloc) else None, home, writers[0])


@dataclass(frozen=True, slots=True)
class Nest:
    """The writes of a stage (see `writes_of`), with loop variables as subscripts: loop `d` runs
    over dimension d.
    """

    writes: tuple[Write, ...]
    loops: tuple[For, ...]

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return tuple(buffer for write in self.writes for buffer in write.buffers)

    @property
    def vars(self) -> tuple[Var, ...]:
        return tuple(loop.var for loop in self.loops)


def writes_of(program: Program, stage: Stage, primitive: str) -> tuple[Write, ...]:
    """The writes of a stage: one, or, where it has several outputs, one next to the other at the
    same indices. Refuses a stage that writes more, and outputs that read each other.
    """
    name = stage.buffer.name
    own = [write for write in writes(stage.stmt) if stage.buffer in write.buffers]
    if len(own) != 1:
        refuse(primitive, f"{name} must be written in one place, not in {len(own)}", program,
               stage.stmt)
    inside = {s.buffer for s in walk_stmts(stage.stmt) if isinstance(s, Alloc)}
    found = [write for write in writes(stage.stmt) if not inside.issuperset(write.buffers)]
    parent = (stage.stmt, *path_of(stage.stmt, own[0]))[-2]
    beside = unblock(parent)[1] if isinstance(parent, Seq) else own
    outputs = {buffer for write in found for buffer in write.buffers}
    for write in found:
        if write.indices != own[0].indices or not any(write is stmt for stmt in beside) or (
                write.buffers[0].shape != stage.buffer.shape) or len(found) > 1 and any(
                read.buffer in outputs for read in reads(write)):
            other = next((b for b in write.buffers if b != stage.buffer), write.buffers[0])
            refuse(primitive, f"{name} must be computed alone, not together with {other.name}",
                   program, write)
    return tuple(found)


def naive_nest(program: Program, stage: Stage, primitive: str) -> Nest:
    """The nest of a stage whose axes are not split or fused yet. Refuses any other."""
    found = writes_of(program, stage, primitive)
    own = {loop.var: loop for loop in loops(stage.stmt)}
    indices = found[0].indices
    for dimension, index in enumerate(indices):
        if not isinstance(index, Var) or index not in own or (
                own[index].extent != stage.buffer.shape[dimension]):
            refuse(primitive, f"axes of {stage.buffer.name} must not be split or fused yet, but "
                              f"dimension {dimension} is not one whole loop",
                   program, found[0])
    vars_ = [index for index in indices if isinstance(index, Var)]
    if len(set(vars_)) != len(vars_):
        refuse(primitive, f"axes of {stage.buffer.name} must be different loops",
               program, found[0])
    return Nest(found, tuple(own[var] for var in vars_))


def written_together(program: Program, buffer: Buffer) -> tuple[Buffer, ...]:
    """The buffer and those that have its shape for good, since reductions write them together."""
    found = [buffer]
    for one in found:                               # which grows
        found += dict.fromkeys(other for write in writes(program.body) if one in write.buffers
                               for other in write.buffers if other not in found)
    return tuple(found)


def is_complete(program: Program, buffer: Buffer) -> bool:
    """True if every element holds a value when the buffer is read, in every iteration around."""
    if buffer in program.inputs:
        return True
    path = path_to_alloc(program.body, buffer)
    written = [a for a in accesses(program.body, of=frozenset((buffer,))) if a.is_write]
    return covers(written, loop_domain(path), buffer.shape)


def is_safe(program: Program, stmt: Stmt, around: Domain) -> bool:
    """True if every element that the expression reads lies inside its buffer and holds a value,
    wherever it runs.
    """
    reads = widest(a for a in accesses(stmt, around) if a.kind == "read")
    return (all(_is_inside(read) for read in reads)
            and all(is_complete(program, buffer) for buffer in {read.buffer for read in reads}))


def _is_inside(read: Access) -> bool:
    return all(is_implied(Binary("ge", index, Const(0, INDEX)), read.domain)
               and is_implied(Binary("lt", index, as_expr(extent, INDEX)), read.domain)
               for index, extent in zip(read.indices, read.buffer.shape))


def names_in_use(program: Program) -> set[str]:
    return {one.name for one in (*program.inputs, *program.outputs, *program.parameters,
                                 *names_below(program.body))}


def require_free(program: Program, names: tuple[str, ...], primitive: str):
    used = names_in_use(program)
    for position, name in enumerate(names):
        if name in used or name in names[:position]:
            refuse(primitive, f"name {name!r} must not be in use", program)


def require_serial(program: Program, node: For, primitive: str):
    if node.kind != "serial":
        refuse(primitive, f"{node.var.name} must be a serial loop, not {node.kind}",
               program, node)


def require_number(program: Program, node: For, primitive: str):
    if not isinstance(node.extent, int):
        refuse(primitive, f"extent of {node.var.name} must be a number, "
                          f"not {extent_text(node.extent)}", program, node)


def require_numbers(program: Program, primitive: str):
    """Refuses a program with symbols, for a primitive that calculates with extents."""
    if program.parameters:
        names = ", ".join(symbol.name for symbol in program.parameters)
        refuse(primitive, f"extents must be numbers, but the program has symbols ({names}): "
                          f"specialize it first", program)


def require_plain(program: Program, node: For, primitive: str):
    require_serial(program, node, primitive)
    if node.annotations:
        refuse(primitive, f"{node.var.name} must not carry notes yet, but has "
                          f"{', '.join(key for key, _ in node.annotations)}", program, node)


def guarded(conditions: list[Expr], body: Stmt) -> Stmt:
    """`body` under a guard of all conditions, joined with a guard that it already has."""
    if isinstance(body, If):
        conditions, body = [*conditions, *conjuncts(body.condition)], body.body
    kept = list(dict.fromkeys(conditions))
    return If(all_of(*kept), body) if kept else body


def hoist_guards(stmt: Stmt) -> Stmt:
    """Moves guards out of a loop that they are directly under and do not depend on."""
    def rule(node: Stmt) -> Stmt | None:
        match node:
            case For(var, _, If(condition, body)):
                parts = conjuncts(condition)
                outside = [part for part in parts if _is_fixed(part, var)]
                inside = [part for part in parts if not _is_fixed(part, var)]
                guard = guarded(inside, body)
                if not outside and guard == node.body:
                    return None
                return guarded(outside, replace(node, body=guard))
            case If(condition, If()):
                return guarded(list(conjuncts(condition)), node.body)
            case _:
                return None

    return rewrite_stmts(stmt, rule, "_hoisted")


def _is_fixed(condition: Expr, var: Var) -> bool:
    """True if the condition stays the same in every iteration over the variable."""
    return var not in free_variables(condition) and not any(
        isinstance(node, Read) for node in walk(condition))


def _flat(stmt: Stmt) -> Stmt | None:
    """Flattens sequences; a single statement needs none."""
    if not isinstance(stmt, Seq) or len(stmt.stmts) != 1 and not any(
            isinstance(child, Seq) for child in stmt.stmts):
        return None
    parts: list[Stmt] = []
    for child in stmt.stmts:
        parts.extend(child.stmts if isinstance(child, Seq) else (child,))
    return parts[0] if len(parts) == 1 else Seq(tuple(parts))


def finish(program: Program, body: Stmt) -> Program:
    """The program with a new body in normal form: indices normalized, guards as far out as
    possible.
    """
    return replace(program, body=rewrite_stmts(hoist_guards(normalize_stmt(body)), _flat, "_flat"))


def swap(program: Program, old: Stmt, new: Stmt) -> Program:
    return finish(program, replace_stmt(program.body, old, new))


def inside_of(path: tuple[Stmt, ...]) -> set[int]:
    """The identities of all statements below the last one of `path`, itself included."""
    return {id(stmt) for stmt in walk_stmts(path[-1])}
