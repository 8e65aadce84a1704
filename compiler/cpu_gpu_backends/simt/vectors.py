"""Vectorized loops: which of them are loads and stores of whole vectors.

A loop becomes vector accesses when its body is one store, every access that moves with the loop
moves by one element, and begins where a vector is aligned. Buffers begin aligned: those of a
device by 256 bytes, arrays in a kernel by 16. Any other loop is unrolled.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.ir import (For, If, Linear, Stmt, Store, free_variables, from_linear, linear,
                         map_exprs, offset, walk_stmts)
from compiler.te import (Binary, Buffer, Expr, Read, Select, Var, children, is_number, numpy_dtype,
                         rewrite, walk)

from .kernels import LOCAL

MAX_BYTES = 16
LANES = (2, 4, 8, 16)       # of a vector whose elements are named


@dataclass(frozen=True, slots=True)
class VectorLoop:
    """`loads` move with the loop, and are vectors; all else in the value is one for all lanes, or
    in arrays of the thread. A copy may have a `condition`, else it stores the `fill`.
    """

    var: Var
    lanes: int
    store: Store
    loads: tuple[Read, ...]

    @property
    def is_copy(self) -> bool:
        match self.store.value:
            case Select(_, Read() as read, fill) if is_number(fill): return self.loads == (read,)
            case Read() as read: return self.loads == (read,)
            case _: return False

    @property
    def condition(self) -> Expr | None:
        return self.store.value.condition if isinstance(self.store.value, Select) else None

    @property
    def fill(self) -> Expr | None:
        return self.store.value.b if isinstance(self.store.value, Select) else None

    @property
    def bytes(self) -> int:
        return self.lanes * numpy_dtype(self.store.buffer.dtype).itemsize


def vector(loop: For) -> VectorLoop | None:
    """The vector form of a loop; None when it stays a loop."""
    body = loop.body
    if loop.kind != "vectorize" or not isinstance(body, Store) or not isinstance(loop.extent, int):
        return None
    if not _moves_by_one(body.buffer, body.indices, loop):
        return None
    loads = tuple(dict.fromkeys(_loads(body.value, loop.var)))
    loads = tuple(read for read in loads if read.buffer.scope != LOCAL
                  or _moves_by_one(read.buffer, read.indices, loop))
    if not all(_moves_by_one(read.buffer, read.indices, loop) for read in loads):
        return None
    lanes = VectorLoop(loop.var, loop.extent, body, loads)
    if lanes.is_copy:
        fits = lanes.bytes in (2, 4, 8, 16) and not _names(body.value, loop.var, loads)
        return lanes if fits else None
    if any(isinstance(node, Select) and list(_loads(node, loop.var)) for node in walk(body.value)):
        return None                 # what is not chosen may lie outside
    widths = {numpy_dtype(b.dtype).itemsize for b in (body.buffer, *(r.buffer for r in loads))}
    if loop.extent not in LANES or max(widths) * loop.extent > MAX_BYTES or _names(
            body.value, loop.var, loads):
        return None
    return lanes


def vectors(stmt: Stmt) -> Iterator[VectorLoop]:
    """All that the statement holds."""
    for node in walk_stmts(stmt):
        if isinstance(node, For) and (lanes := vector(without_guard(node)[1])):
            yield lanes


def without_guard(loop: For) -> tuple[Expr | None, For]:
    """A guard directly inside that is one for all iterations, and the loop without it."""
    if isinstance(loop.body, If) and loop.var not in free_variables(loop.body.condition):
        return loop.body.condition, replace(loop, body=loop.body.body)
    return None, loop


def even(loop: Stmt) -> Stmt | None:
    """A vectorized loop whose conditions are said without its variable where they are one for all
    iterations: ``8*k + i < 24`` for `i` below 8 is ``8*k < 24``.
    """
    if not isinstance(loop, For) or loop.kind != "vectorize" or not isinstance(loop.extent, int):
        return None
    extent = loop.extent

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Binary) or node.op not in ("lt", "le", "gt", "ge"):
            return None
        form = linear(node.a - node.b)
        rest = [factor for atom, factor in form.terms if atom != loop.var]
        constant = form.constant - (node.op in ("le", "gt"))    # now below 0, or not
        if dict(form.terms).get(loop.var) != 1 or any(f % extent for f in (*rest, constant)):
            return None
        left = from_linear(form - Linear(((loop.var, 1),), form.constant))
        return left < -constant if node.op in ("lt", "le") else left >= -constant

    return replace(loop, body=map_exprs(loop.body, lambda expr: rewrite(expr, rule)))


def _loads(value: Expr, var: Var) -> Iterator[Read]:
    for node in walk(value):
        if isinstance(node, Read) and any(var in free_variables(index) for index in node.indices):
            yield node


def _moves_by_one(buffer: Buffer, indices: tuple[Expr, ...], loop: For) -> bool:
    """True if lane `i` is element `i` after an aligned one."""
    form = linear(offset(buffer, indices))
    terms = dict(form.terms)
    step = terms.pop(loop.var, 0)
    if any(loop.var in free_variables(atom) for atom in terms):
        return False
    return step == 1 and all(factor % loop.extent == 0
                             for factor in (*terms.values(), form.constant))


def _names(value: Expr, var: Var, loads: tuple[Read, ...]) -> bool:
    """True if the value uses the loop's variable other than in its loads."""
    if value in loads or isinstance(value, Read) and value.buffer.scope == LOCAL:
        return False
    if value == var:
        return True
    return any(_names(child, var, loads) for child in children(value))
