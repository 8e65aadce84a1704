"""Finds iterations that depend on each other, and shows them in refusals.

Two instances of statements depend on each other when they touch one element of a buffer and one of
them writes it. isl finds such pairs. An index that isl cannot express, such as a gather, may be
anything: then the two *may* touch one element, which counts the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import NoReturn

from compiler.ir import (Access, Alloc, Combine, For, Program, Stmt, Update, Witness, accesses,
                         loop_domain, path_of, stmt_children, stmt_text, walk_stmts, witness)
from compiler.ir.affine import linear
from compiler.te import Var, is_float

from .place import refuse

__all__ = ["ROUNDS", "Dependence", "carried", "commutes", "earlier", "find_dependence",
           "outside_accesses", "program_order", "refuse_dependence", "same_for_element"]

ROUNDS = "is a sum of floats, which rounds differently in another order"
_VERBS = {"read": "reads", "store": "stores", "update": "updates"}


@dataclass(frozen=True, slots=True)
class Dependence:
    """Two accesses, and a pair of their instances that touch one element; `a` runs first."""

    a: Access
    b: Access
    witness: Witness

    def text(self) -> str:
        """Two lines, one for each instance: its access, the element, the place and the statement.
        """
        return (f"{_instance(self.a, self.witness.first, self.witness.element)}\n"
                f"{_instance(self.b, self.witness.second, self.witness.element)}")


def _instance(access: Access, at: tuple[tuple[Var, int], ...], element: tuple[int | None, ...]):
    where = ", ".join(f"{var.name}={value}" for var, value in at)
    place = ", ".join("?" if index is None else str(index) for index in element)
    verb = _VERBS[access.kind]
    if None in element:
        verb = f"may {verb.removesuffix('s')}"
    line = stmt_text(access.stmt).splitlines()[0].removesuffix(":")
    return f"  {verb} {access.buffer.name}[{place}]{f' at {where}' if where else ''}: {line}"


def refuse_dependence(primitive: str, fact: str, program: Program,
                      dependence: Dependence) -> NoReturn:
    refuse(primitive, f"{fact}\n{dependence.text()}", program, dependence.a.stmt)


def find_dependence(first: Iterable[Access], second: Iterable[Access], shared: tuple[Var, ...],
                    order: str) -> Dependence | None:
    """A dependence of an access of `second` on one of `first`, under an order condition."""
    second = list(second)
    for a in first:
        for b in second:
            if a.buffer == b.buffer and (a.is_write or b.is_write):
                if instances := witness(a, b, shared, order):
                    return Dependence(a, b, instances)
    return None


def outside_accesses(stmt: Stmt, path: tuple[Stmt, ...]) -> list[Access]:
    """Accesses of `stmt`, the end of `path`, to buffers that are allocated outside of it."""
    own = {s.buffer for s in walk_stmts(stmt) if isinstance(s, Alloc)}
    around = path[:-1] if path[-1] is stmt else path
    return [a for a in accesses(stmt, loop_domain(around)) if a.buffer not in own]


def carried(path: tuple[Stmt, ...], exchange: bool = False,
            reassociate: bool = False) -> Dependence | None:
    """A dependence between two iterations of the loop at the end of `path`, if there is one. A
    buffer that is allocated inside the loop belongs to one iteration. `exchange` leaves out pairs
    of updates that may change their order (see `commutes`).
    """
    loop = path[-1]
    assert isinstance(loop, For)
    shared = loop_domain(path[:-1]).vars
    for a, b in combinations_with_replacement(outside_accesses(loop, path), 2):
        if a.buffer != b.buffer or exchange and commutes(a, b, reassociate) or (
                loop.var in same_for_element(a, b)):
            continue
        for first, second in ((a, b), (b, a)):
            if dependence := find_dependence([first], [second], shared, earlier([loop.var])):
                return dependence
    return None


def same_for_element(a: Access, b: Access) -> frozenset[Var]:
    """Loops that stand still between any two instances of accesses that touch one element, as far
    as this is seen without isl: where both have one index, ``c*i + d*j`` say, of which c is larger
    than d times all steps of j, the element tells i and j.
    """
    extents = a.domain.extents
    found = {var for var, extent in extents.items() if extent == 1}
    for left, right in zip(a.indices, b.indices, strict=True):
        terms = sorted(linear(left).terms, key=lambda term: abs(term[1]))
        span, told = 0, linear(left) == linear(right)
        for atom, factor in terms:
            told = told and isinstance(atom, Var) and atom in extents and abs(factor) > span
            span += abs(factor) * (extents.get(atom, 1) - 1) if isinstance(atom, Var) else 0
        if told:
            found |= {atom for atom, _ in terms if isinstance(atom, Var)}
    return frozenset(found)


def commutes(a: Access, b: Access, reassociate: bool) -> bool:
    """True if two updates by one statement may change their order: always, where nothing rounds."""
    if a.stmt is not b.stmt or not a.kind == b.kind == "update":
        return False
    match a.stmt:
        case Update(_, _, op):
            return reassociate or op != "sum" or not is_float(a.buffer.dtype)
        case Combine(_, _, reducer):
            return reassociate or not reducer.rounds
        case _:
            return False


def earlier(order: Iterable[Var], a: str = "a", b: str = "b") -> str:
    """The condition that instance `a` runs before `b` where loops nest in this order."""
    parts, equal = [], []
    for var in order:
        parts.append(" and ".join([*equal, f"{{{a}[{var.name}]}} < {{{b}[{var.name}]}}"]))
        equal.append(f"{{{a}[{var.name}]}} = {{{b}[{var.name}]}}")
    return " or ".join(f"({part})" for part in parts)


def program_order(root: Stmt, a: Stmt, b: Stmt) -> str:
    """The condition that an instance of `a` runs before one of `b`, two statements below `root`."""
    first, second = (path_of(root, stmt) for stmt in (a, b))
    common = [ancestor for ancestor, other in zip(first, second) if ancestor is other]
    loops = [stmt.var for stmt in common if isinstance(stmt, For)]
    if a is b or not _is_before(common[-1], first[len(common)], second[len(common)]):
        return earlier(loops) or "false"
    equal = " and ".join(f"{{a[{var.name}]}} = {{b[{var.name}]}}" for var in loops)
    return f"{earlier(loops)} or ({equal})" if loops else "true"


def _is_before(parent: Stmt, a: Stmt, b: Stmt) -> bool:
    """True if one child comes before another."""
    children = stmt_children(parent)
    places = [next(place for place, child in enumerate(children) if child is stmt)
              for stmt in (a, b)]
    return places[0] < places[1]
