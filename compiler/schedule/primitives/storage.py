"""Copies buffers to other scopes, and sets scopes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compiler.ir import (Alloc, For, Program, Stmt, Store, Tensorized, Write, accesses, block,
                         free_variables, loop_domain, map_buffers, map_reads, path_of,
                         path_to_alloc, replace_stmt, rewrite_stmts, substitute_stmt, unblock,
                         walk_stmts, writes)
from compiler.te import Buffer, Expr, Read, Var, substitute

from compiler.schedule.analysis.place import (Stage, find_buffer, find_stage, finish, guarded,
                                              is_complete, naive_nest, refuse, require_free)
from .threads import require_cooperation

__all__ = ["cache_read", "cache_write", "set_scope"]


def set_scope(program: Program, buffer: str, scope: str) -> Program:
    """Moves an allocated buffer to another scope: ``alloc acc.c: int32[4]`` for ``alloc c:
    int32[4]``.

    1. The buffer is allocated by the program: inputs and outputs stay where they are.
    2. What is ``shared`` inside a loop of threads does not depend on it (see `bind`).
    """
    storage = find_buffer(program, buffer, "set_scope")
    if storage in (*program.inputs, *program.outputs):
        refuse("set_scope", f"{buffer} must be allocated by the program, not an input or output",
               program)
    changed = finish(program, map_buffers(program.body, {storage: replace(storage, scope=scope)}))
    require_cooperation(changed, "set_scope")
    return changed


def cache_read(program: Program, buffer: str, scope: str, readers: Sequence[str] | None = None,
               name: str | None = None) -> Program:
    """Reads a copy of `buffer` that lives in `scope`.

    ::

                                 alloc wgt.w_wgt: int8[4]
        for i in 0..4:      ->   for w_wgt_0 in 0..4:
          s(w[i])                  w_wgt[w_wgt_0] = w[w_wgt_0]
                                 for i in 0..4:
                                   s(w_wgt[i])

    The copy is a stage of its own, ready for `compute_at`. Its name is ``<buffer>_<scope>``
    unless given; its loops are the name and the number of the dimension.

    The copy omits elements that the buffer does not hold, such as those over the edge of a tile.

    1. The stages `readers` (all, unless given) read the buffer, and none of them is inside an
       intrinsic yet.
    2. The name is not in use.
    3. What is ``shared`` inside a loop of threads does not depend on it (see `bind`).
    """
    source = find_buffer(program, buffer, "cache_read")
    label = name or f"{buffer}_{scope}"
    axes = tuple(Var(f"{label}_{d}") for d in range(len(source.shape)))
    require_free(program, (label, *(axis.name for axis in axes)), "cache_read")
    reading = _readers(program, source, readers)
    cache = Buffer(label, source.shape, source.dtype, scope)
    home = _home(program, source)
    buffers, stmts = unblock(home)
    first = _first_reader(program, source, stmts, reading)
    changed = tuple(_redirected(stmt, source, cache, reading) for stmt in stmts[first:])
    copy = _copy({cache: Read(source, axes)}, axes, _holes(program, source, axes, "cache_read"))
    new = block((*buffers, cache), (*stmts[:first], copy, *changed))
    cached = finish(program, replace_stmt(program.body, home, new))
    require_cooperation(cached, "cache_read")
    return cached


def _home(program: Program, buffer: Buffer) -> Stmt:
    path = path_to_alloc(program.body, buffer)
    return path[-1].body if path and isinstance(path[-1], Alloc) else program.body


def _readers(program: Program, buffer: Buffer, names: Sequence[str] | None) -> set[str]:
    """The buffers whose stages read `buffer` and shall read the copy, by name."""
    reading = {}
    for access in accesses(program.body, of=frozenset((buffer,))):
        if access.kind == "read" and isinstance(access.stmt, Write):
            for written in access.stmt.buffers:
                reading.setdefault(written.name, access.stmt)
    wanted = set(reading if names is None else names)
    if not wanted:
        refuse("cache_read", f"{buffer.name} must be read by a stage", program)
    for name in sorted(wanted - set(reading)):
        refuse("cache_read", f"readers of {buffer.name} must be among {', '.join(reading)}, "
                             f"not {name!r}", program)
    for stmt in walk_stmts(program.body):
        if isinstance(stmt, Tensorized) and any(
                _writes_any(write, wanted) for write in writes(stmt.body)) and any(
                a.buffer == buffer for a in accesses(stmt.body)):
            refuse("cache_read", f"{buffer.name} must not be used by {stmt.intrinsic.name} "
                                 f"already", program, stmt)
    return wanted


def _writes_any(write: Write, names: set[str]) -> bool:
    return any(buffer.name in names for buffer in write.buffers)


def _first_reader(program: Program, buffer: Buffer, stmts: tuple[Stmt, ...],
                  reading: set[str]) -> int:
    own = frozenset((buffer,))
    for stmt in stmts:
        if any(buffer in write.buffers for write in writes(stmt)):
            inside = [w for w in writes(stmt) if _writes_any(w, reading)]
            if inside and any(a.stmt is inside[0] for a in accesses(stmt, of=own)):
                refuse("cache_read", f"{buffer.name} must be complete before "
                                     f"{inside[0].buffers[0].name} reads it", program, inside[0])
    return next(p for p, stmt in enumerate(stmts)
                if any(a.kind == "read" for a in accesses(stmt, of=own))
                and any(_writes_any(write, reading) for write in writes(stmt)))


def _redirected(stmt: Stmt, old: Buffer, new: Buffer, reading: set[str]) -> Stmt:
    own = frozenset((old,))

    def rule(node: Stmt) -> Stmt | None:
        if isinstance(node, Write) and _writes_any(node, reading):
            return map_reads(node, lambda read: Read(new, read.indices), own)
        return None

    return rewrite_stmts(stmt, rule, naming=own)


def _holes(program: Program, buffer: Buffer, axes: tuple[Var, ...],
           primitive: str) -> list[Expr]:
    """Conditions under which the element at `axes` is written: none when all elements are."""
    if is_complete(program, buffer):
        return []
    stage = find_stage(program, buffer.name, primitive)
    nest = naive_nest(program, stage, primitive)
    around = path_of(program.body, stage.stmt)
    inner = path_of(stage.stmt, nest.writes[0])
    known = {*loop_domain(around[:-1]).vars, *nest.vars}
    return [substitute(condition, dict(zip(nest.vars, axes)))
            for condition in loop_domain(inner).conditions if free_variables(condition) <= known]


def _copy(values: Mapping[Buffer, Expr], axes: tuple[Var, ...], conditions: list[Expr]) -> Stmt:
    """Stores the values at the axes of buffers of one shape."""
    stmt = guarded(conditions, block((), tuple(Store(b, axes, v) for b, v in values.items())))
    for axis, extent in reversed(list(zip(axes, next(iter(values)).shape))):
        stmt = For(axis, extent, stmt)
    return stmt


def cache_write(program: Program, buffer: str, scope: str, name: str | None = None) -> Program:
    """Computes into a copy that lives in `scope`, then copies it to `buffer`.

    ::

        for c_i in 0..4:    ->   alloc out.c_out: int8[4]
          c[c_i] = f(c_i)        for c_out_i in 0..4:
                                   c_out[c_out_i] = f(c_out_i)
                                 for c_i in 0..4:
                                   c[c_i] = c_out[c_i]

    The copy keeps the loops' names, so schedule `buffer` as before and place the copy's source,
    ``<buffer>_<scope>`` unless named, with `compute_at`. Reduction variables stay with it. Several
    outputs of one stage get a copy each, and one nest copies all of them.

    1. The buffer is computed by the program, its axes are not split or fused yet, and the stage
       is not inside an intrinsic.
    2. The name and those of the new loops are not in use.
    3. What is ``shared`` inside a loop of threads does not depend on it (see `bind`).
    """
    part = find_stage(program, buffer, "cache_write")
    nest = naive_nest(program, part, "cache_write")
    for stmt in walk_stmts(part.stmt):
        if isinstance(stmt, Tensorized):
            refuse("cache_write", f"{buffer} must not be used by {stmt.intrinsic.name} already",
                   program, stmt)
    copies = {one: replace(one, name=f"{one.name}_{scope}", scope=scope) for one in nest.buffers}
    label = name or f"{buffer}_{scope}"
    copies[part.buffer] = replace(part.buffer, name=label, scope=scope)
    prefix = nest.buffers[0].name
    renamed = {var: Var(_axis_name(var.name, prefix, label)) for var in nest.vars}
    require_free(program, (*(copy.name for copy in copies.values()),
                           *(var.name for var in renamed.values())), "cache_write")
    source = map_buffers(_renamed(part.stmt, renamed), copies)
    copy = _copy({one: Read(copies[one], nest.vars) for one in nest.buffers}, nest.vars,
                 _holes(program, part.buffer, nest.vars, "cache_write"))
    cached = finish(program, replace_stmt(program.body, part.home, _with_copy(
        part, tuple(copies.values()), source, copy)))
    require_cooperation(cached, "cache_write")
    return cached


def _axis_name(name: str, buffer: str, label: str) -> str:
    rest = name.removeprefix(f"{buffer}_")
    return f"{label}_{rest}"


def _renamed(stmt: Stmt, names: dict[Var, Var]) -> Stmt:
    def rule(node: Stmt) -> Stmt | None:
        return replace(node, var=names[node.var]) if (
            isinstance(node, For) and node.var in names) else None

    return rewrite_stmts(substitute_stmt(stmt, names), rule)


def _with_copy(stage: Stage, copies: tuple[Buffer, ...], source: Stmt, copy: Stmt) -> Stmt:
    buffers, stmts = unblock(stage.home)
    at = next(position for position, stmt in enumerate(stmts) if stmt is stage.stmt)
    return block((*buffers, *copies), (*stmts[:at], source, copy, *stmts[at + 1:]))
