"""Matching: is this loop nest what that intrinsic computes?

The nest must be perfect loops around one store or update. Its loops are the lanes: those that
index the last dimensions of the destination are the intrinsic's axes, the others its lane
reduction. `Update` names all reduction variables; those of loops around the nest say when the
reduction begins. An update that goes on is an assignment, too, of what is there and a value
together. Loops of one iteration may stand anywhere, or be missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from compiler.errors import DEFECT, Error
from compiler.ir import Binding, For, Stmt, Store, Tensorized, Update
from compiler.ir.affine import Linear, from_linear, linear
from compiler.ir.printer import expr_text
from compiler.ir.simplify import normalize
from compiler.te import (INDEX, Binary, Cast, Const, Expr, Read, Reduce, Var, free_variables,
                         substitute)

from .intrinsic import ANY, Intrinsic
from .normal import normal
from .unify import Unifier

_ZERO = Const(0, INDEX)

_FOLDS = {"sum": "add", "max": "max", "min": "min"}
"""What an update makes of what is there and a value."""


class MatchError(Error, ValueError):
    """The nest is not what the intrinsic computes; the message says which fact differs."""

    exit_status = DEFECT


def match(nest: Stmt, intrinsic: Intrinsic) -> Tensorized:
    """`nest` performed by `intrinsic`, or a `MatchError`.

    Requires: the last dimensions of every bound buffer are the operand's shape, indexed by the
    lanes alone, so that a tile is one entry of the buffer; each buffer lives in one of the
    operand's scopes, stored as declared there; the value unifies (see `unify`); constants for
    immediates are in range.
    """
    return _Match(nest, intrinsic).run()


@dataclass(slots=True)
class _Match:
    nest: Stmt
    intrinsic: Intrinsic

    def run(self) -> Tensorized:
        loops, stmt = self._perfect()
        if isinstance(stmt, Update) and not stmt.begins and self._assigns():
            there = Read(stmt.buffer, stmt.indices)
            stmt = Store(stmt.buffer, stmt.indices, Binary(_FOLDS[stmt.op], there, stmt.value))
        single: dict[Var, Expr] = {loop.var: _ZERO for loop in loops if loop.extent == 1}
        extents = {loop.var: loop.extent for loop in loops if loop.extent > 1}
        indices = tuple(substitute(index, single) for index in stmt.indices)
        space, destination = self._destination(stmt, indices, extents)
        reduction = {var: extent for var, extent in extents.items() if var not in space.values()}
        axes = stmt.axes if isinstance(stmt, Update) else ()
        self._statement(stmt, reduction, axes)
        value = normal(substitute(stmt.value, single))
        bound = self._unified(value, stmt.buffer.dtype, space, reduction)
        names = [operand.name for operand in self.intrinsic.operands if operand.name in bound]
        binding = Binding(
            ((self.intrinsic.dst.name, destination), *((name, bound[name]) for name in names)),
            tuple((immediate.name, bound[immediate.name]) for immediate in self.intrinsic.immediates
                  if immediate.name in bound),
            tuple(var for var in axes if var not in extents and var not in single),
            not isinstance(stmt, Update) or stmt.begins)
        return Tensorized(self.intrinsic, binding, self.nest)

    def _assigns(self) -> bool:
        return self.intrinsic.update == "assign" and not isinstance(self.intrinsic.value, Reduce)

    def _refuse(self, fact: str) -> MatchError:
        return MatchError(f"{self.intrinsic.name} does not match: {fact}")

    def _perfect(self) -> tuple[list[For], Store | Update]:
        loops, stmt = [], self.nest
        while isinstance(stmt, For):
            loops.append(stmt)
            stmt = stmt.body
        if not isinstance(stmt, Store | Update):
            raise self._refuse(f"the nest must be loops around one Store or Update, "
                               f"not around {type(stmt).__name__}")
        return loops, stmt

    def _destination(self, stmt: Store | Update, indices: tuple[Expr, ...],
                     extents: dict[Var, int]) -> tuple[dict[Var, Var], Read]:
        """Axis of the intrinsic to loop, and the first element of the destination."""
        dst, buffer = self.intrinsic.dst, stmt.buffer
        overwritten = isinstance(stmt, Store)       # else what is stored is read again
        if not any(scope == buffer.scope and stored in (ANY, buffer.dtype)
                   and (overwritten or stored == dst.dtype) for scope, stored in dst.storage):
            wanted = " or ".join(f"{stored} in {scope}" for scope, stored in dst.storage)
            raise self._refuse(f"{buffer.name} must be {wanted}, "
                               f"not {buffer.dtype} in {buffer.scope}")
        outer = len(indices) - len(dst.shape)
        if outer < 0 or not dst.window and buffer.shape[outer:] != dst.shape:
            raise self._refuse(f"last dimensions of {buffer.name} must be {dst.shape}, "
                               f"not {buffer.shape[max(outer, 0):]}")
        space: dict[Var, Var] = {}
        first: list[Expr] = []
        for axis, index in zip(self.intrinsic.axes, indices[outer:]):
            begin: Expr = _ZERO
            if axis.extent > 1:
                space[axis.var], begin = self._lane(buffer.name, axis.extent, index, extents)
            elif dst.window:
                begin = index
            first.append(begin)
        for index in indices[:outer]:
            for var in sorted(free_variables(index) & set(extents), key=lambda v: v.name):
                raise self._refuse(f"{buffer.name} must not depend on {var.name} outside its tile")
        return space, Read(buffer, (*indices[:outer], *first))

    def _lane(self, name: str, extent: int, index: Expr,
              extents: dict[Var, int]) -> tuple[Var, Expr]:
        """The loop that walks a dimension, and where it begins: 0 unless the tile is a window."""
        form = linear(index)
        for atom, factor in form.terms:
            if isinstance(atom, Var) and factor == 1 and extents.get(atom) == extent:
                begin = from_linear(form - Linear(((atom, 1),)))
                if begin == _ZERO or self.intrinsic.dst.window and not (
                        free_variables(begin) & set(extents)):
                    return atom, begin
        raise self._refuse(f"each lane of {name} must be indexed by a loop of extent {extent} "
                           f"of the nest, not {expr_text(index)}")

    def _statement(self, stmt: Store | Update, reduction: dict[Var, int],
                   axes: tuple[Var, ...]) -> None:
        """Update against update, reduction loops against lane reduction."""
        update, value = self.intrinsic.update, self.intrinsic.value
        lanes = isinstance(value, Reduce)
        if lanes and update not in ("assign", value.op):
            raise self._refuse(f"an update by {update} after a reduction by {value.op} "
                               f"is no loop nest")
        wanted = value.op if lanes else update
        kind = stmt.op if isinstance(stmt, Update) else "assign"
        if kind != wanted:
            raise self._refuse(f"the update must be {wanted}, not {kind}")
        for var in reduction:
            if var not in axes:
                raise self._refuse(f"loop {var.name} must be a lane or a reduction")
        if update == "assign" and isinstance(stmt, Update) and not stmt.begins:
            raise self._refuse("the reduction must begin within the tile, not go on")
        if update == "assign" and (rest := [v for v in axes if v not in reduction
                                            and v not in _variables(self.nest)]):
            raise self._refuse(f"the reduction must be complete within the tile, "
                               f"not go on over {', '.join(v.name for v in rest)}")

    def _assignments(self, reduction: dict[Var, int]) -> Iterator[dict[Var, Var]]:
        """Every way to pair the loops of the lane reduction with the intrinsic's axes."""
        axes = [(var, extent) for var, extent in self.intrinsic.reduce_axes if extent > 1]
        for order in permutations(reduction):
            if [reduction[var] for var in order] == [extent for _, extent in axes]:
                yield {axis: var for (axis, _), var in zip(axes, order)}

    def _unified(self, value: Expr, stored: str, space: dict[Var, Var],
                 reduction: dict[Var, int]) -> dict[str, Expr]:
        pattern = self.intrinsic.value
        if isinstance(pattern, Reduce):
            pattern = pattern.value
        elif self.intrinsic.dst.dtype != ANY:
            pattern = Cast(pattern, stored)
        pattern = normalize(pattern, {axis.var: axis.extent for axis in self.intrinsic.axes}
                            | dict(self.intrinsic.reduce_axes))     # as the program's indices are
        mismatch = None
        for assignment in self._assignments(reduction):
            lanes = {axis.var: _ZERO for axis in self.intrinsic.axes}
            lanes |= {var: _ZERO for var, _ in self.intrinsic.reduce_axes} | space | assignment
            unifier = Unifier(self.intrinsic, lanes)
            for bound in unifier.unify(normal(pattern), value, {}):
                return dict(bound)
            mismatch = mismatch or unifier.mismatch
        if mismatch is None:
            wanted = [extent for _, extent in self.intrinsic.reduce_axes]
            raise self._refuse(f"the lane reduction must be loops of extents {wanted}, "
                               f"not {list(reduction.values())}")
        _, ours, theirs, reason = mismatch
        raise self._refuse(f"{reason + ': ' if reason else ''}{expr_text(ours)} of the "
                           f"intrinsic is not {expr_text(theirs)} of the program")


def _variables(nest: Stmt) -> set[Var]:
    variables = set()
    while isinstance(nest, For):
        variables.add(nest.var)
        nest = nest.body
    return variables
