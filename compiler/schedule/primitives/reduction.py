"""Divides reductions: into the initialization and the rest, or into partial results."""

from dataclasses import replace

from compiler.ir import (Access, Alloc, Combine, For, If, Program, Seq, Stmt, Store, Tensorized,
                         Update, accesses, block, conjuncts, expr_text, is_implied, loop_domain,
                         path_to, rebuilt, replace_stmt, rewrite_stmts,
                         substitute_stmt, unblock, walk_stmts, writes)
from compiler.te import INDEX, Buffer, Const, Expr, Read, Var, neutral, substitute

from compiler.schedule.analysis.dependence import (earlier, find_dependence, refuse_dependence,
                                                   same_for_element)
from compiler.schedule.analysis.place import (find_buffer, find_loop, find_stage, finish, guarded,
                                              naive_nest, refuse, require_free)

__all__ = ["decompose_reduction", "rfactor"]

Reduction = Update | Combine


def decompose_reduction(program: Program, stage: str, loop: str) -> Program:
    """Stores the neutral value in the buffer before `loop`, so that the reduction never begins.

    ::

                                   for i_init in 0..4:
        for i in 0..4:        ->     c[i_init] = 0
          for k in 0..8:           for i in 0..4:
            c[i] += x begin(k)       for k in 0..8:
                                       c[i] += x over(k)      decompose_reduction(p, "c", "i")

    The initialization has the loops from `loop` inwards that do not reduce, with ``_init`` after
    their names, unrolled or vectorized where they are. The neutral value of a sum of floats is
    -0.0, of `max` the least value.

    1. The stage is one reduction that begins; it is not inside an intrinsic.
    2. `loop` is around it, inside of what allocates the buffer, and no loop that reduces is
       outside of `loop`.
    3. Inside `loop` every element begins once, and nothing else touches the buffer.
    4. The new names are not in use.
    """
    write = _reduction(program, stage, "decompose_reduction")
    path = find_loop(program, loop, "decompose_reduction")
    around = path_to(program.body, lambda s: s is write)
    if not any(stmt is path[-1] for stmt in around):
        refuse("decompose_reduction", f"loop {loop} must be around the reduction of {stage}",
               program, path[-1])
    _require_whole_reduction(program, write, path, loop)
    inside = around[len(path) - 1:]
    _require_one_beginning(program, write, path, around, loop)
    names = {s.var: Var(f"{s.var.name}_init") for s in inside
             if isinstance(s, For) and s.var not in write.axes}
    require_free(program, tuple(var.name for var in names.values()), "decompose_reduction")
    first = _beginning(write, inside, names)
    rest = replace_stmt(path[-1], write, replace(write, begins=False))
    return finish(program, replace_stmt(program.body, path[-1], Seq((first, rest))))


def _reduction(program: Program, stage: str, primitive: str) -> Reduction:
    """The only reduction that writes the buffer."""
    buffer = find_buffer(program, stage, primitive)
    reductions = [write for write in writes(program.body) if buffer in write.buffers]
    if len(reductions) != 1 or not isinstance(reductions[0], Reduction) or not reductions[0].begins:
        refuse(primitive, f"{stage} must be computed by one reduction that begins", program,
               reductions[0] if reductions else None)
    for stmt in path_to(program.body, lambda s: s is reductions[0]):
        if isinstance(stmt, Tensorized):
            refuse(primitive, f"{stage} must not be used by {stmt.intrinsic.name} already",
                   program, stmt)
    return reductions[0]


def _require_whole_reduction(program: Program, write: Reduction, path: tuple[Stmt, ...], loop: str):
    name = write.buffers[0].name
    for stmt in path[:-1]:
        if isinstance(stmt, For) and stmt.var in write.axes:
            refuse("decompose_reduction", f"{stmt.var.name}, which {name} is reduced over, must "
                                          f"not be outside of {loop}", program, stmt)
    for stmt in walk_stmts(path[-1]):
        if isinstance(stmt, Alloc) and stmt.buffer in write.buffers:
            refuse("decompose_reduction", f"{name} must be allocated outside of {loop}",
                   program, stmt)


def _require_one_beginning(program: Program, write: Reduction, path: tuple[Stmt, ...],
                           around: tuple[Stmt, ...], loop: str):
    domain, name = loop_domain(around), write.buffers[0].name
    for access in accesses(path[-1]):
        if access.buffer in write.buffers and access.stmt is not write:
            refuse("decompose_reduction", f"{name} must not be touched inside of {loop} by "
                                          f"anything but its reduction", program, access.stmt)
    for var in write.axes:
        domain = domain.where(var.equal(0))
    beginning = Access(write.buffers[0], write.indices, "update", domain, write)
    shared = loop_domain(path[:-1]).vars
    same = same_for_element(beginning, beginning)
    if all(var in same or var in shared or var in write.axes for var in domain.vars):
        return
    order = [var for var in domain.vars if var not in shared]
    if conflict := find_dependence([beginning], [beginning], shared, earlier(order)):
        refuse_dependence("decompose_reduction", f"{name} must begin once inside of {loop}",
                          program, conflict)


def _beginning(write: Reduction, inside: tuple[Stmt, ...], names: dict[Var, Var]) -> Stmt:
    """The loops `inside` that do not reduce around stores of neutral values, at different places:
    written out or vectors where they are.
    """
    values: dict[Var, Expr] = {**dict.fromkeys(write.axes, Const(0, INDEX)), **names}
    indices = tuple(substitute(index, values) for index in write.indices)
    stores = tuple(Store(buffer, indices, value)
                   for buffer, value in zip(write.buffers, _neutral(write), strict=True))
    body: Stmt = block((), stores)
    for stmt in reversed(inside):
        match stmt:
            case If(condition):
                body = guarded([substitute(c, values) for c in conjuncts(condition)], body)
            case For(var, extent) if var in names:
                kept = stmt.kind if stmt.kind in ("unroll", "vectorize") else "serial"
                body = For(names[var], extent, body, kept)
    return body


def _neutral(write: Reduction) -> tuple[Const, ...]:
    if isinstance(write, Combine):
        return write.reducer.identity
    return (neutral(write.op, write.buffer.dtype),)


def rfactor(program: Program, stage: str, loop: str, reassociate: bool = False,
            scope: str | None = None) -> Program:
    """Reduces every iteration of `loop` to a partial result of its own, then reduces the partial
    results.

    ::

        for i in 0..4:                   alloc c_rf: int32[2, 4]
          for k_o in 0..2:               for c_rf_i in 0..4:
            for k_i in 0..8:        ->     for k_o in 0..2:
              c[i] += x begin(k_o, k_i)      for k_i in 0..8:
                                               c_rf[k_o, c_rf_i] += x begin(k_i)
                                         for i in 0..4:
                                           for c_k_o in 0..2:
                                             c[i] += c_rf[c_k_o, i] begin(c_k_o)

    Afterwards `loop` does not reduce: it may be parallel, vectorized or bound to threads. The
    partial results are a stage ``<stage>_rf`` whose loops take its name, except those that reduce;
    they lie where the stage lies unless `scope` says otherwise. Several outputs have a partial
    result each.

    1. The stage is one reduction that begins, in a block of its own; its axes are not split or
       fused yet and it is not inside an intrinsic.
    2. `loop` is one of several that it is reduced over.
    3. Every partial result has terms: no guard keeps the first one away.
    4. Sums of floats round differently in another order: `reassociate` permits that.
    5. The new names are not in use.
    """
    write = _reduction(program, stage, "rfactor")
    part = find_stage(program, stage, "rfactor")
    nest = naive_nest(program, part, "rfactor")
    node = find_loop(program, loop, "rfactor")[-1]
    assert isinstance(node, For)
    if node.var not in write.axes or len(write.axes) < 2:
        known = ", ".join(var.name for var in write.axes)
        refuse("rfactor", f"loop must be one of several that {stage} is reduced over, {known}, "
                          f"not {loop}", program, write)
    _require_exact(program, write, stage, reassociate)
    _require_terms(program, write, node)
    labels = [f"{buffer.name}_rf" for buffer in write.buffers]
    renamed = {var: Var(_axis(var.name, stage, labels[0])) for var in nest.vars}
    last = Var(f"{stage}_{loop}")
    require_free(program, (*labels, *(v.name for v in renamed.values()), last.name), "rfactor")
    partial = tuple(replace(b, name=label, shape=(node.extent, *b.shape), strides=None,
                            scope=scope or b.scope)
                    for b, label in zip(write.buffers, labels))
    first = _partial(part.stmt, write, node.var, partial, renamed)
    value = tuple(Read(b, (last, *nest.vars)) for b in partial)
    body: Stmt = replace(rebuilt(write, indices=nest.vars, values=value), axes=(last,))
    body = For(last, node.extent, body)
    for axis in reversed(nest.loops):
        body = For(axis.var, axis.extent, body)
    buffers, stmts = unblock(part.home)
    at = next(place for place, stmt in enumerate(stmts) if stmt is part.stmt)
    new = block((*buffers, *partial), (*stmts[:at], first, body, *stmts[at + 1:]))
    return finish(program, replace_stmt(program.body, part.home, new))


def _axis(name: str, stage: str, label: str) -> str:
    return f"{label}_{name.removeprefix(f'{stage}_')}"


def _require_exact(program: Program, write: Reduction, stage: str, reassociate: bool):
    rounds = write.reducer.rounds if isinstance(write, Combine) else (
        write.op == "sum" and write.buffer.dtype.startswith("float"))
    if rounds and not reassociate:
        refuse("rfactor", f"{stage} must not be a sum of floats, which rounds differently in "
                          f"another order, unless reassociate permits that", program, write)


def _require_terms(program: Program, write: Reduction, node: For):
    """Refuses a partial result without a first term."""
    domain = loop_domain(path_to(program.body, lambda s: s is write))
    zeros: dict[Var, Expr] = {var: Const(0, INDEX) for var in write.axes if var != node.var}
    free = replace(domain, conditions=tuple(c for c in domain.conditions
                                            if substitute(c, zeros) == c))
    for condition in domain.conditions:
        if not is_implied(substitute(condition, zeros), free):
            refuse("rfactor", f"every iteration of {node.var.name} must have a first term of "
                              f"{write.buffers[0].name}, but {expr_text(condition)} may keep it "
                              f"away", program, write)


def _partial(stmt: Stmt, write: Reduction, var: Var, partial: tuple[Buffer, ...],
             renamed: dict[Var, Var]) -> Stmt:
    indices = (var, *write.indices)
    own = replace(rebuilt(write, buffers=partial, indices=indices),
                  axes=tuple(axis for axis in write.axes if axis != var))

    def rule(node: Stmt) -> Stmt | None:
        return replace(node, var=renamed[node.var]) if (
            isinstance(node, For) and node.var in renamed) else None

    return rewrite_stmts(substitute_stmt(replace_stmt(stmt, write, own), renamed), rule)
