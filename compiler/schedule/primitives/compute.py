"""Moves a stage to its consumer: into one of its loops, or into its expression."""

from dataclasses import replace

from compiler.ir import (Alloc, Box, Domain, For, If, Program, Seq, Stmt, Store, Tensorized, Write,
                         accesses, block, conjuncts, extent_text, free_variables, hull, is_implied,
                         loop_domain, loops, map_reads, path_of, rebuilt, replace_stmt,
                         rewrite_stmts, unblock, walk_stmts, widest)
from compiler.te import INDEX, Binary, Buffer, Const, Expr, Read, Var, as_expr, substitute

from compiler.schedule.analysis.dependence import find_dependence, refuse_dependence
from compiler.schedule.analysis.elements import Digit, digits_of
from compiler.schedule.analysis.parts import element_of, require_nothing_inside, shrunk, unfused
from compiler.schedule.analysis.place import (Stage, find_loop, find_stage, finish, guarded,
                                              inside_of, refuse, swap, writes_of)
from .threads import require_cooperation, thread_vars

__all__ = ["compute_at", "compute_inline", "require_unchanged_reads"]


def compute_at(program: Program, stage: str, loop: str) -> Program:
    """Computes, in every iteration of `loop`, only the part of `stage` that it needs.

    ::

        alloc a: int8[10]        for i_o in 0..2:
        for a_i in 0..10:          alloc a: int8[6]
          a[a_i] = f(a_i)   ->     for a_i in 0..6:
        for i_o in 0..2:             a[a_i] = f(i_o*4 + a_i)
          for i_i in 0..4:         for i_i in 0..4:
            s(a[i_o*4 + i_i + 2])    s(a[i_i + 2])

    The buffer shrinks to the box of elements that one iteration reads, with constant extents and a
    lower corner that is linear in the variables of the loops around; a dimension for which no such
    box is smaller keeps its extent. Where boxes reach over the edge of the tensor, guards exclude
    what does not exist, unless isl proves that none is needed. Several outputs of one stage move
    together, to the box of what is read of any of them.

    Where an axis is split, its outermost loop runs less often and the others stay as they are: the
    box is computed in the same pieces, and a guard ends the last one. Where loops of different axes
    are fused, or pieces cut into parts of different size, every axis gets one plain loop,
    ``<stage>_<dimension>``, outside of those that reduce.

    A ``shared`` buffer holds what all threads around it need: its box does not depend on loops of
    threads. Guards that do depend on them move inwards, past the buffer, so that every thread helps
    to fill it.

    1. The stage is not an output, nor computed together with one. Its loops run over every element
       once. Where axes are split or fused, no other stage is computed inside; where they get new
       loops, the old ones are serial and carry no notes, and no intrinsic is inside.
    2. It has readers, all inside `loop`, and `loop` is after it in its block. 3. The loop is not
      inside an intrinsic; no axis that shrinks is one of an intrinsic, and if it is split only
      whole pieces are computed.
    4. Nothing that the stage reads is written after it: it would read what is not there any more.
    5. The buffer has no gaps and is not swizzled yet: `storage_align` and `swizzle` come after.
    6. Names of new loops are not in use.

    Place consumers before producers: a box is computed once, for the loops as they are then.
    """
    part = find_stage(program, stage, "compute_at")
    if part.alloc is None:
        refuse("compute_at", f"{stage} must not be an output of the program", program, part.stmt)
    found = writes_of(program, part, "compute_at")
    buffers = _moving(program, part, found)
    own = {node.var: node for node in loops(part.stmt)}
    axes = tuple(digits_of(index, own) for index in found[0].indices)
    if not all(digits is not None for digits in axes):
        plain = swap(program, part.stmt, unfused(program, part, found, "compute_at"))
        return compute_at(plain, stage, loop)
    axes = tuple(digits or () for digits in axes)
    _require_axes(program, part, found[0], axes)
    path = _target(program, part, buffers, loop)
    require_unchanged_reads(program, part, "compute_at")
    threads = (thread_vars(path) if any(buffer.scope == "shared" for buffer in buffers)
               else frozenset())
    if sunk := _sunk(program, path, threads):
        return compute_at(sunk, stage, loop)
    target = path[-1]
    domain = loop_domain(_with_guards(path, threads))
    readers = widest(a for a in accesses(program.body, of=frozenset(buffers)) if a.kind == "read")
    box = hull(readers, frozenset(domain.vars) - threads, part.buffer.shape)
    new = {buffer: replace(buffer, shape=box.extents) for buffer in buffers}
    producer = _rebased(shrunk(program, part, found, axes, box, domain), new, box)
    consumer = _rebased(target, new, box)
    assert isinstance(consumer, For)
    placed = replace(consumer, body=_placed(consumer.body, tuple(new.values()), producer, threads))
    body = rewrite_stmts(program.body, lambda node: node.body if isinstance(node, Alloc)
                         and node.buffer in new else None, naming=frozenset(new))
    moved = finish(program, replace_stmt(replace_stmt(body, target, placed), part.stmt, Seq(())))
    require_cooperation(moved, "compute_at")
    return moved


def _moving(program: Program, stage: Stage, found: tuple[Write, ...]) -> tuple[Buffer, ...]:
    """The buffers of the stage, all of which move: the first is that of the stage."""
    name = stage.buffer.name
    others = [b for write in found for b in write.buffers if b != stage.buffer]
    for buffer in (stage.buffer, *others):
        other = find_stage(program, buffer.name, "compute_at")
        if other.alloc is None:
            refuse("compute_at", f"{name} must not be computed together with {buffer.name}, an "
                                 f"output of the program", program, stage.stmt)
        if other.stmt is not stage.stmt:
            refuse("compute_at", f"{buffer.name} must be allocated in the block of {name}, which "
                                 f"is computed together with it", program, other.alloc)
        if buffer.strides is not None:
            refuse("compute_at", f"{buffer.name} must have no gaps yet", program, other.alloc)
        if buffer.swizzled:
            refuse("compute_at", f"{buffer.name} must not be swizzled yet", program, other.alloc)
    return (stage.buffer, *others)


def _require_axes(program: Program, stage: Stage, write: Write,
                  axes: tuple[tuple[Digit, ...], ...]):
    """Refuses loops that do not run over each element once, and what split axes must not have
    inside.
    """
    name = stage.buffer.name
    used = [digit.loop.var for digits in axes for digit in digits]
    if len(set(used)) != len(used):
        refuse("compute_at", f"axes of {name} must be different loops", program, write)
    for dimension, (digits, extent) in enumerate(zip(axes, stage.buffer.shape, strict=True)):
        run = digits[0].loop.extent * digits[0].weight if digits else 1
        if run != extent and not is_implied(Binary("ge", as_expr(run, INDEX),
                                                   as_expr(extent, INDEX)), Domain()):
            refuse("compute_at", f"loops of {name} must run over all of dimension {dimension}, "
                                 f"{extent_text(extent)} elements", program, write)
    if any(len(digits) > 1 for digits in axes):
        require_nothing_inside(program, stage, "compute_at")


def _target(program: Program, stage: Stage, buffers: tuple[Buffer, ...],
            loop: str) -> tuple[Stmt, ...]:
    """Path to the loop, its guards at the end, with all readers of the stage below it."""
    name = stage.buffer.name
    path = find_loop(program, loop, "compute_at")
    if not any(stmt is stage.home for stmt in path) or any(stmt is stage.stmt for stmt in path):
        refuse("compute_at", f"loop {loop} must be around the readers of {name}",
               program, path[-1])
    inside = inside_of(path)
    readers = [a for a in accesses(program.body, of=frozenset(buffers)) if a.kind == "read"]
    for access in readers:
        if id(access.stmt) not in inside:
            refuse("compute_at", f"all readers of {access.buffer.name} must be inside {loop}",
                   program, access.stmt)
    if not readers:
        refuse("compute_at", f"{name} must be read inside {loop}", program, path[-1])
    return path


def _with_guards(path: tuple[Stmt, ...], threads: frozenset[Var]) -> tuple[Stmt, ...]:
    """The path, extended by the guards directly under its last loop that do not depend on
    `threads`.
    """
    node = path[-1]
    while isinstance(node, For | If) and isinstance(node.body, If) and not (
            free_variables(node.body.condition) & threads):
        node = node.body
        path = (*path, node)
    return path


def _sunk(program: Program, path: tuple[Stmt, ...], threads: frozenset[Var]) -> Program | None:
    """The program with guards that depend on `threads` moved from around the last loop of the path
    into it; None without such guards.
    """
    def is_guard(stmt: Stmt) -> bool:
        return isinstance(stmt, If) and bool(free_variables(stmt.condition) & threads)

    def push(node: Stmt, conditions: list[Expr]) -> Stmt:
        match node:
            case If() if is_guard(node):
                return push(node.body, [*conditions, *conjuncts(node.condition)])
            case Seq(stmts):
                return Seq(tuple(push(child, conditions) if id(child) in on_path
                                 else guarded(conditions, child) for child in stmts))
            case For() if node is path[-1]:
                return replace(node, body=guarded(conditions, node.body))
            case For() | If() | Alloc():
                return replace(node, body=push(node.body, conditions))
            case _:
                raise AssertionError(node)

    if not any(is_guard(stmt) for stmt in path):
        return None
    on_path = {id(stmt) for stmt in path}
    return replace(program, body=push(program.body, []))


def _rebased(stmt: Stmt, new: dict[Buffer, Buffer], box: Box) -> Stmt:
    """Rewrites subscripts of buffers as subscripts of the `new` ones, which begin at the corner of
    the box.
    """
    def offset(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(index if low == Const(0, INDEX) else index - low
                     for index, low in zip(indices, box.lower))

    def write(node: Stmt) -> Stmt | None:
        if isinstance(node, Write) and node.buffers[0] in new:
            return rebuilt(node, buffers=tuple(new[buffer] for buffer in node.buffers),
                           indices=offset(node.indices))
        return None

    old = frozenset(new)
    read = map_reads(stmt, lambda node: Read(new[node.buffer], offset(node.indices)), old)
    return rewrite_stmts(read, write, naming=old)


def _placed(body: Stmt, new: tuple[Buffer, ...], producer: Stmt, threads: frozenset[Var]) -> Stmt:
    """The block with the buffers allocated and the producer before the first reader."""
    if isinstance(body, If) and not free_variables(body.condition) & threads:
        return If(body.condition, _placed(body.body, new, producer, threads))
    buffers, stmts = unblock(body)
    first = next(i for i, stmt in enumerate(stmts)
                 if any(a.kind == "read" for a in accesses(stmt, of=frozenset(new))))
    return block((*new, *buffers), (*stmts[:first], producer, *stmts[first:]))


def compute_inline(program: Program, stage: str) -> Program:
    """Computes the stage where it is read, anew each time.

    ::

        alloc a: int8[10]
        for a_i in 0..10:   ->   for i in 0..10:
          a[a_i] = f(a_i)          s(f(i))
        for i in 0..10:
          s(a[i])

    Its loops may be split and fused: the element says in which iteration it is computed. Of several
    outputs of a stage only this one is inlined.

    1. The stage is not an output and not a reduction, and no other stage is computed inside of it.
       The indices of its store tell the iteration, as they do in all loops that `split`, `fuse` and
       `reorder` make.
    2. Neither the stage nor a reader is inside an intrinsic.
    3. Nothing that the stage reads is written after it: it would read what is not there any more.
    """
    part = find_stage(program, stage, "compute_inline")
    if part.alloc is None:
        refuse("compute_inline", f"{stage} must not be an output of the program",
               program, part.stmt)
    found = writes_of(program, part, "compute_inline")
    store = next(write for write in found if part.buffer in write.buffers)
    if not isinstance(store, Store):
        refuse("compute_inline", f"{stage} must not be a reduction", program, store)
    for stmt in walk_stmts(part.stmt):
        if isinstance(stmt, Alloc):
            refuse("compute_inline", f"{stage} must not have {stmt.buffer.name} computed inside",
                   program, stmt)
    _require_no_intrinsic(program, part)
    require_unchanged_reads(program, part, "compute_inline")
    axes = tuple(Var(f"[{d}]") for d in range(len(part.buffer.shape)))  # no names of the program
    value = substitute(store.value, element_of(program, part, store, axes, "compute_inline"))

    rest = Seq(()) if len(found) == 1 else replace_stmt(part.stmt, store, Seq(()))
    home = replace_stmt(part.home, part.stmt, rest)
    inlined = map_reads(home, lambda read: substitute(value, dict(zip(axes, read.indices))),
                        frozenset((part.buffer,)))
    return finish(program, replace_stmt(program.body, part.alloc, inlined))


def require_unchanged_reads(program: Program, stage: Stage, primitive: str):
    """Refuses to move a stage behind a statement that overwrites what it reads."""
    path = path_of(program.body, stage.stmt)
    around = loop_domain(path[:-1])
    stmts = unblock(stage.home)[1]
    later = next(place for place, stmt in enumerate(stmts) if stmt is stage.stmt) + 1
    reads = [a for a in accesses(stage.stmt, around) if a.kind == "read"]
    read = frozenset(access.buffer for access in reads)
    writes = [a for stmt in stmts[later:] for a in accesses(stmt, around, read) if a.is_write]
    if dependence := find_dependence(reads, writes, around.vars, "true"):
        refuse_dependence(primitive, f"{stage.buffer.name} must read nothing that is written after "
                                     f"it", program, dependence)


def _require_no_intrinsic(program: Program, stage: Stage):
    for stmt in walk_stmts(stage.home):
        if isinstance(stmt, Tensorized) and any(
                a.buffer == stage.buffer for a in accesses(stmt.body)):
            refuse("compute_inline", f"{stage.buffer.name} must not be used by "
                                     f"{stmt.intrinsic.name} already", program, stmt)
