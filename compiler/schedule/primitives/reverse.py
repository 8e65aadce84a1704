"""Moves a consumer to its producer: into one of its loops, or into its statement."""

from dataclasses import replace

from compiler.ir import (Alloc, Box, Domain, For, Program, Seq, Stmt, Store, Tensorized, accesses,
                         block, expr_text, footprint, from_linear, hull, is_implied, linear,
                         loop_domain, map_exprs, path_to, reads, replace_stmt, rewrite_stmts,
                         substitute_stmt, unblock, walk_stmts, writes)
from compiler.te import INDEX, Binary, Buffer, Const, Expr, Read, Var, as_expr, rewrite, substitute

from compiler.schedule.analysis.dependence import find_dependence, program_order, refuse_dependence
from compiler.schedule.analysis.place import (Nest, Stage, find_loop, find_stage, finish, guarded,
                                              naive_nest, refuse)
from .parallel import require_marks
from .threads import require_cooperation

__all__ = ["reverse_compute_at", "reverse_inline"]


def reverse_compute_at(program: Program, stage: str, loop: str) -> Program:
    """Computes, in every iteration of `loop`, the part of `stage` that uses the elements made
    there.

    ::

        for i_o in 0..2:                 for i_o in 0..2:
          for i_i in 0..4:                 for i_i in 0..4:
            a[i_o*4 + i_i] = x       ->      a[i_o*4 + i_i] = x
        for c_i in 0..8:                   for c_i in 0..4:
          c[c_i] = f(a[c_i])                 c[i_o*4 + c_i] = f(a[i_o*4 + c_i])

    The loops of the stage shrink to the box of elements that one iteration of `loop` writes; the
    stage comes last in it. Several outputs of one stage move together.

    1. The axes of the stage are not split or fused yet, and it is not inside an intrinsic.
    2. `loop` is in a statement before the stage, in its block. The stage reads what is computed in
       `loop` in one way: each dimension at a loop of its own, which does not reduce, a constant
       apart.
    3. No iteration reads what is written in a later one, or after it.
    4. All of the stage is computed: the iterations of `loop` make all that it reads.
    5. Marked loops around the new place still carry no dependence.
    """
    part = find_stage(program, stage, "reverse_compute_at")
    nest = naive_nest(program, part, "reverse_compute_at")
    _require_no_intrinsic(program, part.stmt, part.buffer, "reverse_compute_at")
    path = _producer(program, part, loop)
    read = _read_of(program, nest, path)
    produced = [a for a in accesses(path[-1], loop_domain(path[:-1]))
                if a.is_write and a.buffer == read.buffer]
    domain = loop_domain(path)
    box = hull(produced, frozenset(domain.vars), read.buffer.shape)
    target = path[-1]
    assert isinstance(target, For)
    buffers, stmts = unblock(target.body)
    inner = _shrunk(part.stmt, nest, read, box, domain)
    placed = replace(target, body=block(buffers, (*stmts, inner)))
    home = replace_stmt(replace_stmt(part.home, part.stmt, Seq(())), target, placed)
    moved = finish(program, replace_stmt(program.body, part.home, home))
    _require_order(program, moved, nest)
    _require_all(program, moved, nest, "reverse_compute_at")
    require_marks(moved, "reverse_compute_at")
    require_cooperation(moved, "reverse_compute_at")
    return moved


def _producer(program: Program, stage: Stage, loop: str) -> tuple[Stmt, ...]:
    """The path to the loop, which must be in a statement before the stage, in its block."""
    path = find_loop(program, loop, "reverse_compute_at")
    stmts = unblock(stage.home)[1]
    before = stmts[:next(place for place, stmt in enumerate(stmts) if stmt is stage.stmt)]
    if not any(earlier is stmt for stmt in path for earlier in before):
        refuse("reverse_compute_at", f"loop {loop} must be in a statement before "
                                     f"{stage.buffer.name}, in its block", program, path[-1])
    return path


def _read_of(program: Program, nest: Nest, path: tuple[Stmt, ...]) -> Read:
    """The only read of the stage from what the loop writes."""
    name, loop = nest.buffers[0].name, path[-1]
    assert isinstance(loop, For)
    written = {buffer for write in writes(loop) for buffer in write.buffers}
    inputs = list(dict.fromkeys(read for write in nest.writes for read in reads(write)
                                if read.buffer in written))
    if len(inputs) != 1:
        refuse("reverse_compute_at", f"{name} must read what is computed in {loop.var.name} in "
                                     f"one way, not in {len(inputs)}", program, nest.writes[0])
    moving = [_moving(index) for index in inputs[0].indices]
    known = [var for var, _ in moving if var is not None]
    if len(set(known)) != len(moving) or not set(known) <= set(nest.vars):
        places = ", ".join(map(expr_text, inputs[0].indices))
        refuse("reverse_compute_at", f"{name} must read {inputs[0].buffer.name} at different loops "
                                     f"of its own that do not reduce, a constant apart, not at "
                                     f"{places}", program, nest.writes[0])
    return inputs[0]


def _moving(index: Expr) -> tuple[Var | None, int]:
    """Splits ``v + c`` into ``v`` and ``c``."""
    form = linear(index)
    match form.terms:
        case ((Var() as var, 1),): return var, form.constant
        case _: return None, 0


def _shrunk(stmt: Stmt, nest: Nest, read: Read, box: Box, around: Domain) -> Stmt:
    """The stage restricted to the elements that read the box."""
    moved: dict[Var, Expr] = {}
    guards: dict[Var, list[Expr]] = {}
    extents: dict[Var, int] = {}
    whole = {loop.var: loop.extent for loop in nest.loops}
    for index, low, extent in zip(read.indices, box.lower, box.extents, strict=True):
        var, apart = _moving(index)
        assert var is not None
        moved[var] = from_linear(linear(low) + linear(var) + linear(Const(-apart, INDEX)))
        extents[var] = extent
        domain = Domain((*around.loops, (var, extent)), around.conditions)
        wanted = [Binary("ge", moved[var], Const(0, INDEX)),
                  Binary("lt", moved[var], as_expr(whole[var], INDEX))]
        guards[var] = [condition for condition in wanted if not is_implied(condition, domain)]

    def rule(node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.var in extents:
            return replace(node, extent=extents[node.var],
                           body=guarded(guards[node.var], node.body))
        return None

    return rewrite_stmts(substitute_stmt(stmt, moved), rule)


def _writes_in(program: Program, nest: Nest) -> list[Stmt]:
    """The writes of the stage, where they are now."""
    return [write for write in writes(program.body) if write.buffers[0] in nest.buffers]


def _require_order(program: Program, moved: Program, nest: Nest):
    """Refuses a stage that reads what is written after it."""
    own = _writes_in(moved, nest)
    touched = list(accesses(moved.body))
    for read in (a for a in touched if a.kind == "read" and any(a.stmt is s for s in own)):
        home = path_to(moved.body, lambda s, b=read.buffer: isinstance(s, Alloc) and s.buffer == b)
        for write in (a for a in touched if a.is_write and a.buffer == read.buffer):
            order = program_order(moved.body, read.stmt, write.stmt)
            if dependence := find_dependence([read], [write], loop_domain(home).vars, order):
                refuse_dependence("reverse_compute_at", f"{nest.buffers[0].name} must read nothing "
                                                        f"that is written later",
                                  moved, dependence)


def _require_all(program: Program, moved: Program, nest: Nest, primitive: str):
    buffer = nest.buffers[0]            # of several, all are written alike
    before, after = (footprint([a for a in accesses(version.body) if a.is_write
                                and a.buffer == buffer], ()) for version in (program, moved))
    if before is None or after is None or not before.is_subset(after):
        refuse(primitive, f"all of {buffer.name} must be computed, but what it reads is not all "
                          f"made there", moved, _writes_in(moved, nest)[0])


def _require_no_intrinsic(program: Program, around: Stmt, buffer: Buffer, primitive: str):
    for stmt in walk_stmts(around):
        if isinstance(stmt, Tensorized) and any(a.buffer == buffer for a in accesses(stmt.body)):
            refuse(primitive, f"{buffer.name} must not be used by {stmt.intrinsic.name} already",
                   program, stmt)


def reverse_inline(program: Program, stage: str) -> Program:
    """Computes the stage where its input is stored, in place of that store.

    ::

        alloc a: int32[8]
        for i_o in 0..2:                 for i_o in 0..2:
          for i_i in 0..4:         ->      for i_i in 0..4:
            a[i_o*4 + i_i] = x               c[i_o*4 + i_i] = f(x)
        for c_i in 0..8:
          c[c_i] = f(a[c_i])

    The input's loops remain, however they are scheduled. Several outputs of one stage move
    together.

    1. The stage is no reduction, its axes are not split or fused yet, and neither it nor what it
       reads is inside an intrinsic.
    2. It reads one allocated buffer of its own shape, or a permutation of it, at its own axes. That
       is computed by one store, in the block of the stage, and read by nothing else.
    3. Nothing else that the stage reads is written by what it moves to, or after it.
    4. All of the stage is computed: every element of what it reads is stored.
    """
    part = find_stage(program, stage, "reverse_inline")
    nest = naive_nest(program, part, "reverse_inline")
    for write in nest.writes:
        if not isinstance(write, Store):
            refuse("reverse_inline", f"{stage} must not be a reduction", program, write)
    for stmt in walk_stmts(part.stmt):
        if isinstance(stmt, Alloc):
            refuse("reverse_inline", f"{stage} must not have {stmt.buffer.name} computed inside",
                   program, stmt)
    producer, read, store = _producer_store(program, part, nest)
    for buffer in (*nest.buffers, read.buffer):
        _require_no_intrinsic(program, program.body, buffer, "reverse_inline")
    _require_early_operands(program, part, producer, read)
    own = [var for var, _ in map(_moving, read.indices)]
    values: dict[Var, Expr] = {
        var: index for var, index in zip(own, store.indices, strict=True) if var is not None}
    taken = Seq(tuple(map_exprs(substitute_stmt(write, values), lambda expr: rewrite(
        expr, lambda node: store.value if isinstance(node, Read)
        and node.buffer == read.buffer else None)) for write in nest.writes))
    guards = loop_domain(path_to(part.stmt, lambda s: s is nest.writes[0])).conditions
    new = guarded([substitute(condition, values) for condition in guards], taken)
    home = replace_stmt(replace_stmt(part.home, part.stmt, Seq(())), store, new)
    body = replace_stmt(program.body, part.home, home)
    moved = finish(program, rewrite_stmts(body, lambda node: node.body if isinstance(node, Alloc)
                                          and node.buffer == read.buffer else None))
    _require_all(program, moved, nest, "reverse_inline")
    return moved


def _producer_store(program: Program, stage: Stage, nest: Nest) -> tuple[Stmt, Read, Store]:
    """The statement that computes what the stage reads at its axes, the read, and the store."""
    name = stage.buffer.name
    allocated = {s.buffer for s in walk_stmts(program.body) if isinstance(s, Alloc)}
    known = dict.fromkeys(read for write in nest.writes for read in reads(write))
    found_reads = [read for read in known if read.buffer in allocated
                   and sorted((_moving(i) for i in read.indices), key=str) == sorted(
                       ((var, 0) for var in nest.vars), key=str)
                   and all(read.buffer.shape[d] == stage.buffer.shape[nest.vars.index(index)]
                           for d, index in enumerate(read.indices) if isinstance(index, Var))]
    if len(found_reads) != 1:
        refuse("reverse_inline", f"{name} must read one allocated buffer at its own axes, all of "
                                 f"it, not {len(found_reads)}", program, nest.writes[0])
    read = found_reads[0]
    for access in accesses(program.body):
        if access.kind == "read" and access.buffer == read.buffer and (
                all(access.stmt is not write for write in nest.writes)
                or access.indices != read.indices):
            refuse("reverse_inline", f"{read.buffer.name} must be read by {name} alone, at its "
                                     f"own axes", program, access.stmt)
    origin = find_stage(program, read.buffer.name, "reverse_inline")
    stores = [write for write in writes(origin.stmt) if read.buffer in write.buffers]
    if len(stores) != 1 or not isinstance(stores[0], Store):
        refuse("reverse_inline", f"{read.buffer.name} must be computed by one store",
               program, stores[0])
    if not any(stmt is origin.stmt for stmt in unblock(stage.home)[1]):
        refuse("reverse_inline", f"{read.buffer.name} must be computed in the block of {name}",
               program, origin.stmt)
    return origin.stmt, read, stores[0]


def _require_early_operands(program: Program, stage: Stage, producer: Stmt, read: Read):
    stmts = unblock(stage.home)[1]
    first = next(place for place, stmt in enumerate(stmts) if stmt is producer)
    later = {buffer for stmt in stmts[first:] if stmt is not stage.stmt
             for write in writes(stmt) for buffer in write.buffers}
    for other in reads(stage.stmt):
        if other.buffer in later and other.buffer != read.buffer:
            refuse("reverse_inline", f"{other.buffer.name} must be computed before "
                                     f"{read.buffer.name}, since {stage.buffer.name} reads it",
                   program, producer)
