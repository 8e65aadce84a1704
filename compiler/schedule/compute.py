"""Moves a stage to its consumer: into one of its loops, or into its expression."""

from dataclasses import replace

from compiler.ir import (Access, Alloc, Box, Domain, For, If, Program, Seq, Stmt, Store, Tensorized,
                         Write, accesses, block, conjuncts, free_variables, from_linear, hull,
                         is_implied, linear, loop_domain, map_exprs, path_to, rebuilt, replace_stmt,
                         rewrite_stmts, unblock, walk_stmts, widest)
from compiler.te import INDEX, Binary, Buffer, Const, Expr, Read, Var, as_expr, rewrite, substitute

from .dependence import find_dependence, refuse_dependence
from .place import (Nest, Stage, find_loop, find_stage, finish, guarded, inside_of, is_complete,
                    naive_nest, refuse)
from .threads import require_cooperation, thread_vars

__all__ = ["compute_at", "compute_inline", "is_safe", "require_unchanged_reads"]


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
    what does not exist, unless isl proves that none is needed.

    A ``shared`` buffer holds what all threads around it need: its box does not depend on loops of
    threads. Guards that do depend on them move inwards, past the buffer, so that every thread helps
    to fill it.

    1. The stage is not an output and its axes are not split or fused yet.
    2. All its readers are inside `loop`, and `loop` is after it in its block. 3. The loop is not
      inside an intrinsic; no axis that shrinks is one of an intrinsic.
    4. Nothing that the stage reads is written after it: it would read what is not there any more.
    5. The buffer has no gaps yet: `storage_align` comes after.

    Place consumers before producers: a box is computed once, for the loops as they are then.
    """
    part = find_stage(program, stage, "compute_at")
    if part.alloc is None:
        refuse("compute_at", f"{stage} must not be an output of the program", program, part.stmt)
    if part.buffer.strides is not None or part.buffer.swizzled:
        fact = "must have no gaps yet" if part.buffer.strides else "must not be swizzled yet"
        refuse("compute_at", f"{stage} {fact}", program, part.alloc)
    nest = naive_nest(program, part, "compute_at")
    path = _target(program, part, loop)
    require_unchanged_reads(program, part, "compute_at")
    threads = thread_vars(path) if part.buffer.scope == "shared" else frozenset()
    if sunk := _sunk(program, path, threads):
        return compute_at(sunk, stage, loop)
    target = path[-1]
    domain = loop_domain(_with_guards(path, threads))
    readers = widest(a for a in accesses(program.body)
                     if a.kind == "read" and a.buffer == part.buffer)
    box = hull(readers, frozenset(domain.vars) - threads, part.buffer.shape)
    _require_whole_tiles(program, part, nest, box)
    new = replace(part.buffer, shape=box.extents)
    producer = _rebased(_shrunk(program, part, nest, box, domain), part.buffer, new, box)
    consumer = _rebased(target, part.buffer, new, box)
    assert isinstance(consumer, For)
    placed = replace(consumer, body=_placed(consumer.body, new, producer, threads))
    home = replace_stmt(part.home, target, placed)
    moved = finish(program, replace_stmt(program.body, part.alloc,
                                         replace_stmt(home, part.stmt, Seq(()))))
    require_cooperation(moved, "compute_at")
    return moved


def _target(program: Program, stage: Stage, loop: str) -> tuple[Stmt, ...]:
    """Path to the loop, its guards at the end, with all readers of the stage below it."""
    name = stage.buffer.name
    path = find_loop(program, loop, "compute_at")
    if not any(stmt is stage.home for stmt in path) or any(stmt is stage.stmt for stmt in path):
        refuse("compute_at", f"loop {loop} must be around the readers of {name}",
               program, path[-1])
    inside = inside_of(path)
    for access in accesses(program.body):
        if access.kind == "read" and access.buffer == stage.buffer and (
                id(access.stmt) not in inside):
            refuse("compute_at", f"all readers of {name} must be inside {loop}",
                   program, access.stmt)
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


def _require_whole_tiles(program: Program, stage: Stage, nest: Nest, box: Box):
    for tensorized in (s for s in walk_stmts(stage.stmt) if isinstance(s, Tensorized)):
        inside = inside_of((tensorized,))
        for loop, extent in zip(nest.loops, box.extents):
            if id(loop) in inside and extent != loop.extent:
                refuse("compute_at", f"axis {loop.var.name} of {tensorized.intrinsic.name} must "
                                     f"keep its extent {loop.extent}, not {extent}",
                       program, tensorized)


def _shrunk(program: Program, stage: Stage, nest: Nest, box: Box, around: Domain) -> Stmt:
    """The stage restricted to the box, still with subscripts of the whole buffer."""
    moved = {var: from_linear(linear(low) + linear(var))
             for var, low in zip(nest.vars, box.lower)}
    extents = dict(zip(nest.vars, box.extents))
    bare = map_exprs(stage.stmt, lambda expr: substitute(expr, moved))
    bare = _with_loops(bare, extents, {})
    if isinstance(nest.write, Store) and is_safe(program, bare, around):
        return bare
    guards = {}
    for var, whole in zip(nest.vars, stage.buffer.shape):
        domain = Domain((*around.loops, (var, extents[var])), around.conditions)
        wanted = [Binary("ge", moved[var], Const(0, INDEX)),
                  Binary("lt", moved[var], as_expr(whole, INDEX))]
        guards[var] = [condition for condition in wanted if not is_implied(condition, domain)]
    return _with_loops(bare, extents, guards)


def _with_loops(stmt: Stmt, extents: dict[Var, int], guards: dict[Var, list[Expr]]) -> Stmt:
    def rule(node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.var in extents:
            return replace(node, extent=extents[node.var],
                           body=guarded(guards.get(node.var, []), node.body))
        return None

    return rewrite_stmts(stmt, rule)


def is_safe(program: Program, stmt: Stmt, around: Domain) -> bool:
    """Whether every element that the expression reads lies inside its buffer and holds a value,
    wherever it runs.
    """
    reads = widest(a for a in accesses(stmt, around) if a.kind == "read")
    return (all(_is_inside(read) for read in reads)
            and all(is_complete(program, buffer) for buffer in {read.buffer for read in reads}))


def _is_inside(read: Access) -> bool:
    return all(is_implied(Binary("ge", index, Const(0, INDEX)), read.domain)
               and is_implied(Binary("lt", index, as_expr(extent, INDEX)), read.domain)
               for index, extent in zip(read.indices, read.buffer.shape))


def _rebased(stmt: Stmt, old: Buffer, new: Buffer, box: Box) -> Stmt:
    """Rewrites subscripts of `old` as subscripts of `new`, which begins at the corner of the box.
    """
    def offset(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(index if low == Const(0, INDEX) else index - low
                     for index, low in zip(indices, box.lower))

    def read(node: Expr) -> Expr | None:
        return Read(new, offset(node.indices)) if (
            isinstance(node, Read) and node.buffer == old) else None

    def write(node: Stmt) -> Stmt | None:
        if isinstance(node, Write) and node.buffers == (old,):
            return rebuilt(node, buffers=(new,), indices=offset(node.indices))
        return None

    return rewrite_stmts(map_exprs(stmt, lambda expr: rewrite(expr, read)), write)


def _placed(body: Stmt, buffer: Buffer, producer: Stmt, threads: frozenset[Var]) -> Stmt:
    """The block with the buffer allocated and the producer before the first reader."""
    if isinstance(body, If) and not free_variables(body.condition) & threads:
        return If(body.condition, _placed(body.body, buffer, producer, threads))
    buffers, stmts = unblock(body)
    first = next(i for i, stmt in enumerate(stmts)
                 if any(a.kind == "read" and a.buffer == buffer for a in accesses(stmt)))
    return block((buffer, *buffers), (*stmts[:first], producer, *stmts[first:]))


def compute_inline(program: Program, stage: str) -> Program:
    """Computes the stage where it is read, anew each time.

    ::

        alloc a: int8[10]
        for a_i in 0..10:   ->   for i in 0..10:
          a[a_i] = f(a_i)          s(f(i))
        for i in 0..10:
          s(a[i])

    1. The stage is not an output, not a reduction, and its axes are not split or fused yet; no
       other stage is computed inside of it.
    2. Neither the stage nor a reader is inside an intrinsic.
    3. Nothing that the stage reads is written after it: it would read what is not there any more.
    """
    part = find_stage(program, stage, "compute_inline")
    if part.alloc is None:
        refuse("compute_inline", f"{stage} must not be an output of the program",
               program, part.stmt)
    nest = naive_nest(program, part, "compute_inline")
    if not isinstance(nest.write, Store):
        refuse("compute_inline", f"{stage} must not be a reduction", program, nest.write)
    for stmt in walk_stmts(part.stmt):
        if isinstance(stmt, Alloc):
            refuse("compute_inline", f"{stage} must not have {stmt.buffer.name} computed inside",
                   program, stmt)
    _require_no_intrinsic(program, part)
    require_unchanged_reads(program, part, "compute_inline")
    value = nest.write.value

    def read(node: Expr) -> Expr | None:
        if isinstance(node, Read) and node.buffer == part.buffer:
            return substitute(value, dict(zip(nest.vars, node.indices)))
        return None

    home = replace_stmt(part.home, part.stmt, Seq(()))
    inlined = map_exprs(home, lambda expr: rewrite(expr, read))
    return finish(program, replace_stmt(program.body, part.alloc, inlined))


def require_unchanged_reads(program: Program, stage: Stage, primitive: str):
    """Refuses to move a stage behind a statement that overwrites what it reads."""
    path = path_to(program.body, lambda s: s is stage.stmt)
    around = loop_domain(path[:-1])
    stmts = unblock(stage.home)[1]
    later = next(place for place, stmt in enumerate(stmts) if stmt is stage.stmt) + 1
    reads = [a for a in accesses(stage.stmt, around) if a.kind == "read"]
    writes = [a for stmt in stmts[later:] for a in accesses(stmt, around) if a.is_write]
    if dependence := find_dependence(reads, writes, around.vars, "true"):
        refuse_dependence(primitive, f"{stage.buffer.name} must read nothing that is written after "
                                     f"it", program, dependence)


def _require_no_intrinsic(program: Program, stage: Stage):
    for stmt in walk_stmts(stage.home):
        if isinstance(stmt, Tensorized) and any(
                a.buffer == stage.buffer for a in accesses(stmt.body)):
            refuse("compute_inline", f"{stage.buffer.name} must not be used by "
                                     f"{stmt.intrinsic.name} already", program, stmt)
