"""The part of a stage that another place needs: its loops over a box of elements."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from compiler.ir import (Alloc, Box, Domain, For, If, Program, Stmt, Store, Tensorized, Write,
                         block, conjuncts, from_linear, is_implied, linear, loop_domain, loops,
                         normalize, path_of, rebuilt, rewrite_stmts, substitute_stmt,
                         walk_stmts)
from compiler.te import INDEX, Binary, Const, Expr, Extent, Var, as_expr, substitute

from .elements import Digit, digit_values, iteration_of
from .place import Stage, guarded, inside_of, is_safe, refuse, require_free

__all__ = ["element_of", "require_nothing_inside", "shrunk", "unfused"]

Axes = tuple[tuple[Digit, ...], ...]
"""For each dimension of a stage the loops whose sum its index is."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One dimension of the part: elements from `low`, `extent` of the `whole` ones. `last` is the
    innermost of its loops.
    """

    digits: tuple[Digit, ...]
    low: Expr
    extent: Extent
    whole: Extent
    last: Var

    @property
    def index(self) -> Expr:
        """The place in the part."""
        return from_linear(_sum(self.digits))

    @property
    def place(self) -> Expr:
        """The place in the whole tensor."""
        return from_linear(linear(self.low) + _sum(self.digits))

    @property
    def loops(self) -> tuple[tuple[Var, Extent], ...]:
        """Its loops, of which the outermost runs as often as the part needs."""
        first, *others = self.digits
        extent = first.loop.extent
        if isinstance(self.extent, int):
            extent = -(-self.extent // first.weight)
        return ((first.loop.var, extent), *((d.loop.var, d.loop.extent) for d in others))

    def values(self, around: Domain) -> dict[Var, Expr]:
        """The values of the whole stage's loops where those of the part compute a place."""
        known = Domain((*around.loops, *self.loops)).extents
        values = digit_values(self.place, [digit.weight for digit in self.digits])
        return {digit.loop.var: normalize(value, known) if len(values) > 1 else self.place
                for digit, value in zip(self.digits, values, strict=True)}

    @property
    def ends(self) -> list[Expr]:
        """The condition that ends the last piece, if the loops run further than the part."""
        end = Binary("lt", self.index, as_expr(self.extent, INDEX))
        return [] if len(self.digits) == 1 or is_implied(end, Domain(self.loops)) else [end]

    def edges(self, around: Domain) -> list[Expr]:
        """The conditions that exclude what is not in the tensor, where there is such a thing."""
        domain = Domain((*around.loops, *self.loops), (*around.conditions, *self.ends))
        wanted = [Binary("ge", self.place, Const(0, INDEX)),
                  Binary("lt", self.place, as_expr(self.whole, INDEX))]
        return [condition for condition in wanted if not is_implied(condition, domain)]


def _sum(digits: tuple[Digit, ...]):
    total = linear(Const(0, INDEX))
    for digit in digits:
        total += linear(digit.loop.var).scaled(digit.weight)
    return total


def shrunk(program: Program, stage: Stage, found: Sequence[Write], axes: Axes, box: Box,
           around: Domain) -> Stmt:
    """The stage restricted to the box, still with subscripts of the whole buffer."""
    order = [loop.var for loop in loops(stage.stmt)]
    sides = [_Side(digits, low, extent, whole, max((d.loop.var for d in digits), key=order.index))
             for digits, low, extent, whole in zip(axes, box.lower, box.extents,
                                                   stage.buffer.shape) if digits]
    moved = {var: value for side in sides for var, value in side.values(around).items()}
    extents = {var: extent for side in sides for var, extent in side.loops}
    stmt = stage.stmt
    if any(len(digits) > 1 for digits in axes):
        stmt = _without_ends(program, stage, found[0])
    stmt = substitute_stmt(stmt, moved)
    guards = {side.last: side.ends for side in sides}
    stmt = _with_loops(stmt, extents, guards)
    if not (all(isinstance(write, Store) for write in found) and is_safe(program, stmt, around)):
        edges = {side.last: side.edges(around) for side in sides}
        guards = {var: [*guards[var], *edges[var]] for var in guards}
        stmt = _with_loops(stmt, {}, edges)
    _require_whole_tiles(program, stage, sides, moved, guards)
    return stmt


def _with_loops(stmt: Stmt, extents: dict[Var, Extent], guards: dict[Var, list[Expr]]) -> Stmt:
    def rule(node: Stmt) -> Stmt | None:
        if isinstance(node, For) and (node.var in extents or node.var in guards):
            return replace(node, extent=extents.get(node.var, node.extent),
                           body=guarded(guards.get(node.var, []), node.body))
        return None

    return rewrite_stmts(stmt, rule)


def _without_ends(program: Program, stage: Stage, write: Write) -> Stmt:
    """The stage without the guards that only say that an element is one of the tensor."""
    axes = tuple(Var(f"[{d}]") for d in range(len(stage.buffer.shape)))
    values, domain = _elements(program, stage, write, axes, "compute_at")

    def rule(node: Stmt) -> Stmt | None:
        if not isinstance(node, If):
            return None
        return guarded([c for c in conjuncts(node.condition) if not is_implied(
            normalize(substitute(c, values), domain.extents), domain)], node.body)

    return rewrite_stmts(stage.stmt, rule)


def _require_whole_tiles(program: Program, stage: Stage, sides: Sequence[_Side],
                         moved: dict[Var, Expr], guards: dict[Var, list[Expr]]):
    for tensorized in (s for s in walk_stmts(stage.stmt) if isinstance(s, Tensorized)):
        inside, name = inside_of((tensorized,)), tensorized.intrinsic.name
        for side in sides:
            own = [digit.loop for digit in side.digits if id(digit.loop) in inside]
            for loop in own:
                if dict(side.loops)[loop.var] != loop.extent:
                    refuse("compute_at", f"axis {loop.var.name} of {name} must keep its extent "
                                         f"{loop.extent}, not {dict(side.loops)[loop.var]}",
                           program, tensorized)
            if len(side.digits) > 1 and own and (guards[side.last] or any(
                    moved[loop.var] != loop.var for loop in own)):
                refuse("compute_at", f"axis {own[0].var.name} of {name} must run over whole pieces "
                                     f"of {stage.buffer.name}", program, tensorized)


def require_nothing_inside(program: Program, stage: Stage, primitive: str):
    """Refuses a stage, whose axes are split or fused, with others inside: what they compute follows
    the loops as they are.
    """
    name = stage.buffer.name
    for stmt in walk_stmts(stage.stmt):
        if isinstance(stmt, Alloc):
            refuse(primitive, f"{name} must be placed before {stmt.buffer.name}, since axes of "
                              f"{name} are split or fused", program, stmt)


def unfused(program: Program, stage: Stage, found: Sequence[Write], primitive: str) -> Stmt:
    """The stage with one loop for each axis, outside of those that reduce, called
    ``<stage>_<dimension>``. Every element gets its terms in their order.
    """
    name = stage.buffer.name
    require_nothing_inside(program, stage, primitive)
    path = path_of(stage.stmt, found[0])
    for stmt in path:
        if isinstance(stmt, Tensorized):
            refuse(primitive, f"{name} must not be used by {stmt.intrinsic.name} already: its axes "
                              f"get new loops", program, stmt)
        if isinstance(stmt, For) and stmt.var not in _reduced(found[0]) and (
                stmt.kind != "serial" or stmt.annotations):
            refuse(primitive, f"{stmt.var.name} must be serial and carry no notes: axes of {name} "
                              f"get new loops", program, stmt)
    axes = tuple(Var(f"{name}_{d}") for d in range(len(stage.buffer.shape)))
    require_free(program, tuple(axis.name for axis in axes), primitive)
    values, domain = _elements(program, stage, found[0], axes, primitive)
    guards = [normalize(substitute(condition, values), domain.extents)
              for condition in loop_domain(path).conditions]
    body = block((), tuple(rebuilt(write, indices=axes, values=tuple(
        substitute(value, values) for value in write.values)) for write in found))
    body = guarded([guard for guard in guards if not is_implied(guard, domain)], body)
    for loop in reversed([s for s in path if isinstance(s, For) and s.var in _reduced(found[0])]):
        body = replace(loop, body=body)
    for axis, extent in reversed(list(zip(axes, stage.buffer.shape))):
        body = For(axis, extent, body)
    return body


def element_of(program: Program, stage: Stage, write: Write, axes: tuple[Var, ...],
               primitive: str) -> dict[Var, Expr]:
    """The values of the stage's loops, those that reduce left out, where the write computes the
    element at `axes`.
    """
    domain = loop_domain(path_of(stage.stmt, write))
    values = iteration_of(write.indices, axes, domain)
    known = {axis: e for axis, e in zip(axes, stage.buffer.shape) if isinstance(e, int)}
    own = [var for var in domain.vars if var not in _reduced(write)]
    for var in own:
        if var not in values:
            refuse(primitive, f"indices of {stage.buffer.name} must tell in which iteration of "
                              f"{var.name} an element is computed", program, write)
    return {var: normalize(values[var], known) for var in own}


def _elements(program: Program, stage: Stage, write: Write, axes: tuple[Var, ...],
              primitive: str) -> tuple[dict[Var, Expr], Domain]:
    """`element_of`, and the iterations over all elements and what reduces to them."""
    around = loop_domain(path_of(program.body, stage.stmt)[:-1])
    reduced = [(s.var, s.extent) for s in loops(stage.stmt) if s.var in _reduced(write)]
    domain = Domain((*around.loops, *zip(axes, stage.buffer.shape), *reduced), around.conditions)
    return element_of(program, stage, write, axes, primitive), domain


def _reduced(write: Write) -> tuple[Var, ...]:
    return () if isinstance(write, Store) else write.axes
