"""Rounding the extent of a loop up, so that splitting it afterwards leaves no guards."""

from dataclasses import replace

from compiler.ir import (Alloc, Domain, For, If, Program, Stmt, Store, Tensorized, Update, Write,
                         is_implied, loop_domain, map_buffers, negated, path_to, rebuilt,
                         replace_stmt, walk_stmts, writes)
from compiler.te import (Binary, Buffer, Call, Cast, Const, Expr, Read, Select, Var, all_of,
                         is_float, is_number, is_record, neutral, select, substitute)

from compiler.schedule.analysis.place import (find_loop, finish, guarded, is_safe, refuse,
                                              require_numbers, require_plain)

__all__ = ["pad"]


def pad(program: Program, loop: str, extent: int) -> Program:
    """Lets a loop run further than it needs to, without effect on the elements in use.

    ::

        alloc t: int32[10]                 alloc t: int32[12]
        for t_i in 0..10:           ->     for t_i in 0..12:
          t[t_i] = x[t_i]                    t[t_i] = select(t_i < 10, x[t_i], 0)

        for k in 0..10:             ->     for k in 0..12:
          c[i] += x[k] begin(k)              c[i] += select(k < 10, x[k], 0) begin(k)

    The dimension of an allocated buffer that the loop runs over grows with it; the elements beyond
    are zero, or computed by the statement from existing elements where it selects no zeros. An
    output stays as it is, and the loop does nothing beyond: ``if y_i < 10: y[y_i] = ...``. A
    reduction combines neutral values beyond. Where it sums products of operands that are padded
    with zeros, these are neutral already, and nothing is selected (a sum of floats that is -0.0
    becomes 0.0).

    1. The loop is serial and carries no notes; `extent` is not less than its own.
    2. It holds one statement, in loops and guards, that reduces over it, stores to an output, or is
       the only one to write an allocated buffer of numbers of which it runs over one whole
       dimension. No intrinsic does it.
    """
    require_numbers(program, "pad")
    path = find_loop(program, loop, "pad")
    node = path[-1]
    assert isinstance(node, For)
    require_plain(program, node, "pad")
    if not isinstance(extent, int) or extent < node.extent:
        refuse("pad", f"extent of {loop} must not be less than {node.extent}, but is {extent!r}",
               program, node)
    write = _only_write(program, node)
    inside = node.var < node.extent
    wide = replace(node, extent=extent)
    if not isinstance(write, Store) and node.var in write.axes:
        value = _reduced(program, write, path, wide)
        return finish(program, replace_stmt(program.body, node, replace_stmt(wide, write, value)))
    if isinstance(write, Store) and write.buffer in program.outputs:
        body = guarded([inside], node.body)
        return finish(program, replace_stmt(program.body, node, replace(wide, body=body)))
    buffer, dimension = _grown(program, write, node)
    shape = tuple(extent if d == dimension else size for d, size in enumerate(buffer.shape))
    if _selects_zero(write) or not is_safe(program, wide, loop_domain(path[:-1])):
        wide = replace_stmt(wide, write, rebuilt(write, values=(_inside(inside, write.values[0]),)))
    body = replace_stmt(program.body, node, wide)
    return finish(program, map_buffers(body, {buffer: replace(buffer, shape=shape)}))


def _selects_zero(write: Write) -> bool:
    """True if it stores 0 in some places: then it may as well beyond."""
    match write.values[0]:
        case Select(_, _, Const(0)): return isinstance(write, Store)
        case _: return False


def _inside(condition: Expr, value: Expr) -> Expr:
    """The value, or 0 where the condition does not hold: still one choice between something and a
    number where it is one.
    """
    match value:
        case Select(other, inner, Const(0)): return select(all_of(other, condition), inner, 0)
        case Select(other, inner, number) if is_number(number):
            return select(all_of(other, condition), inner, _inside(condition, number))
        case _: return select(condition, value, 0)


def _only_write(program: Program, node: For) -> Write:
    """The only statement of a nest of loops and guards."""
    stmt: Stmt = node
    while isinstance(stmt, For | If):
        stmt = stmt.body
    if isinstance(stmt, Tensorized):
        refuse("pad", f"{node.var.name} must not be around {stmt.intrinsic.name}", program, stmt)
    if not isinstance(stmt, Write):
        refuse("pad", f"{node.var.name} must hold one statement, in loops and guards",
               program, stmt)
    return stmt


def _grown(program: Program, write: Write, node: For) -> tuple[Buffer, int]:
    """The buffer, and the dimension that the loop runs over."""
    buffer = write.buffers[0]
    allocated = any(isinstance(s, Alloc) and s.buffer == buffer for s in walk_stmts(program.body))
    others = [w for w in writes(program.body) if buffer in w.buffers and w is not write]
    at = [d for d, index in enumerate(write.indices) if index == node.var]
    if (not allocated or others or len(write.buffers) > 1 or buffer.strides is not None
            or buffer.swizzled or is_record(buffer.dtype)
            or len(at) != 1 or buffer.shape[at[0]] != node.extent):
        refuse("pad", f"{node.var.name} must run over one whole dimension of an allocated buffer "
                      f"of numbers that is written in one place, without gaps, or be reduced over",
               program, write)
    return buffer, at[0]


def _reduced(program: Program, write: Write, path: tuple[Stmt, ...], wide: For) -> Write:
    """The reduction with neutral values beyond the old extent."""
    old = path[-1]
    assert isinstance(old, For) and not isinstance(write, Store)
    whole = loop_domain((*path[:-1], *path_to(wide, lambda s: s is write)))
    beyond = whole.where(old.var >= old.extent)
    if (isinstance(write, Update) and write.op == "sum" and is_safe(program, wide, loop_domain(
            path[:-1])) and _is_zero(program, write.value, beyond)):
        return write
    identity = (neutral(write.op, write.buffer.dtype),) if isinstance(write, Update) else (
        write.reducer.identity)
    inside = old.var < old.extent
    return rebuilt(write, values=tuple(Select(inside, value, other) for value, other in zip(
        write.values, identity, strict=True)))


def _is_zero(program: Program, value: Expr, domain: Domain) -> bool:
    """True if a value is surely zero; a product of floats only if both of its factors are."""
    match value:
        case Const(0):
            return True
        case Cast(inner, _) | Call("tf32", (inner,)):
            return _is_zero(program, inner, domain)
        case Binary("mul", a, b):
            zeros = [_is_zero(program, side, domain) for side in (a, b)]
            return all(zeros) if is_float(value.dtype) else any(zeros)
        case Select(condition, a, b):
            return all(_is_zero(program, side, domain.where(where)) for side, where in (
                (a, condition), (b, negated(condition))) if not is_implied(
                    negated(where), domain))
        case Read(buffer, indices):
            return _reads_zero(program, buffer, indices, domain)
        case _:
            return False


def _reads_zero(program: Program, buffer: Buffer, indices: tuple[Expr, ...],
                domain: Domain) -> bool:
    """True if the elements were padded with zeros."""
    stores = [write for write in writes(program.body) if buffer in write.buffers]
    if len(stores) != 1 or not isinstance(stores[0], Store):
        return False
    own: dict[Var, Expr] = {var: index for var, index in zip(stores[0].indices, indices)
                            if isinstance(var, Var)}
    match stores[0].value:
        case Select(condition, _, Const(0)) if len(own) == len(indices):
            return is_implied(negated(substitute(condition, own)), domain)
        case Read(inner, places) if len(own) == len(indices):
            return _reads_zero(program, inner, tuple(substitute(at, own) for at in places), domain)
        case _:
            return False
