"""Handing a loop nest to a declared intrinsic."""

from collections.abc import Iterable, Mapping

from compiler.ir import (For, Program, Stmt, Store, Tensorized, Update, expr_text, path_to,
                         path_to_loop, rewrite_stmts, walk_stmts)
from compiler.te import Const, as_expr
from compiler.tensorize import Intrinsic
from compiler.tensorize.match import MatchError, match

from compiler.schedule.analysis.place import find_loop, finish, refuse, require_numbers, swap

__all__ = ["tensorize", "tensorize_first", "tensorized"]


def tensorize(program: Program, place: str, intrinsic: Intrinsic, **immediates) -> Program:
    """Lets `intrinsic` perform the nest that begins at a loop, or the one store of a stage.

    ::

        for b in 0..1:                               gemm(dst=acc[h, 0, 0], inp=..., wgt=...)
          for o in 0..16:                    ->          begin(kh, kw, ci)
            for i in 0..16:
              acc[h, b, o] += x[h, b, i] * w[o, i] begin(kh, kw, ci, i)

    `place` names the outermost loop of the tile; for tiles without dimensions, as in copies, it
    names the stage whose store is replaced. `immediates` are the values that the instruction is
    expected to carry.

    1. The nest is what the intrinsic computes: see `compiler.tensorize.match`.
    2. The immediates that are named are bound to those constants.
    """
    require_numbers(program, "tensorize")
    node = _nest(program, place)
    try:
        result = match(node, intrinsic)
    except MatchError as error:
        refuse("tensorize", str(error), program, node)
    for name, value in immediates.items():
        bound = dict(result.binding.immediates).get(name)
        if not isinstance(bound, Const) or bound != as_expr(value, bound.dtype):
            text = "unbound" if bound is None else expr_text(bound)
            refuse("tensorize", f"immediate {name} of {intrinsic.name} must be {value!r}, "
                                f"not {text}", program, node)
    return swap(program, node, result)


def tensorize_first(program: Program, place: str, intrinsics: Iterable[Intrinsic]
                    ) -> tuple[Program, Intrinsic] | None:
    """The program after `tensorize` with the first of several intrinsics that it would take at a
    place, and this one; None where there is none.
    """
    require_numbers(program, "tensorize")
    node = _nest(program, place)
    result = _first(node, intrinsics)
    return None if result is None else (swap(program, node, result), result.intrinsic)


def tensorized(program: Program, intrinsics: Mapping[str, Iterable[Intrinsic]]) -> Program | None:
    """The program after `tensorize` at each of several loops, with the first intrinsic that it
    would take there, as one step; None where there is none for one of them.
    """
    found: dict[int, Stmt] = {}
    for stmt in walk_stmts(program.body):
        if isinstance(stmt, For) and stmt.var.name in intrinsics:
            result = _first(stmt, intrinsics[stmt.var.name])
            if result is None:
                return None
            found[id(stmt)] = result
    if len(found) < len(intrinsics):
        return None
    return finish(program, rewrite_stmts(program.body, lambda stmt: found.get(id(stmt))))


def _first(nest: Stmt, intrinsics: Iterable[Intrinsic]) -> Tensorized | None:
    for intrinsic in intrinsics:
        try:
            return match(nest, intrinsic)
        except MatchError:
            continue
    return None


def _nest(program: Program, place: str) -> Stmt:
    if path_to_loop(program.body, place):
        return find_loop(program, place, "tensorize")[-1]
    path = path_to(program.body, lambda s: isinstance(s, Store | Update)
                   and s.buffer.name == place)
    if not path:
        refuse("tensorize", f"place must be a loop or a stage, not {place!r}", program)
    for stmt in path:
        if isinstance(stmt, For):
            find_loop(program, stmt.var.name, "tensorize")
    return path[-1]
