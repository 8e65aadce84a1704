"""Asynchronous copies: which ones there are, and where a thread waits for its own.

`pipeline` notes ``async_copy=n`` at copies that run `n` iterations ahead. Those that the hardware
can make become `AsyncCopy`; the copies of one iteration are one group, and each iteration begins
with a wait for the group that it needs::

    copies for iterations 0 .. n-1, a group each
    for k in ...:
      wait until at most n-1 groups are under way       now those of iteration k have landed
      copies for iteration k + n; commit                an empty group when there are none left
      work on iteration k

A barrier between the wait and the work is placed as everywhere.
"""

from dataclasses import dataclass, replace

from compiler.ir import (For, If, Seq, Stmt, Store, rewrite_stmts, simplify_stmt, substitute_stmt,
                         walk_stmts)
from compiler.te import INDEX, Buffer, Const, Read, Select, is_number, numpy_dtype

from .kernels import SHARED
from .vectors import vectors

NOTE = "async_copy"
COPIED_BYTES = (4, 8, 16)       # at a time
WRITTEN_OUT = 4                 # copies: all have addresses in registers


@dataclass(frozen=True, slots=True)
class AsyncCopy(Store):
    """A copy to shared memory that lands when its group is waited for, `ahead` iterations on. Its
    value is what is read, or selects between that and a number, which may be stored at once.
    """

    ahead: int = 1

    @property
    def source(self) -> Read:
        value = self.value.a if isinstance(self.value, Select) else self.value
        assert isinstance(value, Read)
        return value


@dataclass(frozen=True, slots=True)
class AsyncCommit(Stmt):
    """Makes a group of the copies that the thread has issued since the last commit."""


@dataclass(frozen=True, slots=True)
class AsyncWait(Stmt):
    """Waits until all groups of the thread have landed, except the latest `pending`."""

    pending: int


def marked(stmt: Stmt) -> Stmt:
    """Turns noted copies from global to shared memory into `AsyncCopy`."""
    def copy(node: Stmt, ahead: int) -> Stmt | None:
        if not isinstance(node, Store) or node.buffer.scope != SHARED:
            return None
        match node.value:
            case Read(Buffer(scope="global")): pass
            case Select(_, Read(Buffer(scope="global")), fill) if is_number(fill): pass
            case _: return None
        return AsyncCopy(node.buffer, node.indices, node.value, ahead)

    def rule(node: Stmt) -> Stmt | None:
        ahead = dict(node.annotations).get(NOTE) if isinstance(node, For) else None
        return rewrite_stmts(node, lambda s: copy(s, int(ahead))) if ahead else None

    return rewrite_stmts(stmt, rule)


def possible(stmt: Stmt) -> Stmt:
    """The statement with plain copies in place of each `AsyncCopy` of a size that there is no
    instruction for.
    """
    whole = {id(vector.store): vector.bytes for vector in vectors(stmt)}
    plain = {id(s) for s in walk_stmts(stmt) if isinstance(s, AsyncCopy) and whole.get(
        id(s), numpy_dtype(s.buffer.dtype).itemsize) not in COPIED_BYTES}

    def rule(node: Stmt) -> Stmt | None:
        if isinstance(node, AsyncCopy) and id(node) in plain:
            return Store(node.buffer, node.indices, node.value)
        return None

    return rewrite_stmts(stmt, rule)


def written_out(stmt: Stmt) -> Stmt:
    """The statement with the iterations of loops around few copies one after the other: these have
    one address then, and different offsets.
    """
    return rewrite_stmts(stmt, _written_out)


def _written_out(stmt: Stmt) -> Stmt | None:
    if not isinstance(stmt, For) or stmt.kind == "vectorize" or not isinstance(
            stmt.extent, int) or not _is_copies(stmt.body):
        return None
    copies = [child for child in walk_stmts(stmt.body) if isinstance(child, AsyncCopy)]
    if stmt.extent * len(copies) > WRITTEN_OUT:
        return None
    turns = (simplify_stmt(substitute_stmt(stmt.body, {stmt.var: Const(turn, INDEX)}))
             for turn in range(stmt.extent))
    return Seq(tuple(child for turn in turns
                     for child in (turn.stmts if isinstance(turn, Seq) else (turn,))))


def _is_copies(stmt: Stmt) -> bool:
    match stmt:
        case AsyncCopy(): return True
        case For(kind="vectorize") | If(): return _is_copies(stmt.body)
        case Seq(stmts): return all(map(_is_copies, stmts))
        case _: return False


def with_groups(stmt: Stmt) -> Stmt:
    """Adds commits and waits around the copies of every pipelined loop."""
    return rewrite_stmts(stmt, _groups)


def _groups(stmt: Stmt) -> Stmt | None:
    """A block with what runs ahead of a loop and the loop itself."""
    if not isinstance(stmt, Seq):
        return None
    for place, loop in enumerate(stmt.stmts):
        if not isinstance(loop, For) or not isinstance(loop.body, Seq) or (
                isinstance(loop.body.stmts[0], AsyncWait)):
            continue
        ahead = max((_ahead(child) for child in loop.body.stmts), default=0)
        before = [child for child in stmt.stmts[:place] if _ahead(child)]
        if ahead and before and not all(map(_ahead, loop.body.stmts)):
            first = _prologue(stmt.stmts[:place], before, ahead)
            new = Seq((*first, _steady(loop, ahead), *stmt.stmts[place + 1:]))
            return _groups(new) or new
    return None


def _ahead(stmt: Stmt) -> int:
    return max((s.ahead for s in walk_stmts(stmt) if isinstance(s, AsyncCopy)), default=0)


def _prologue(stmts: tuple[Stmt, ...], copies: list[Stmt], ahead: int) -> tuple[Stmt, ...]:
    last = max(place for place, child in enumerate(stmts) if child is copies[-1])
    if ahead == 1:
        return (*stmts[:last + 1], AsyncCommit(), *stmts[last + 1:])
    loop = stmts[last]
    assert isinstance(loop, For)
    parts = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
    return (*stmts[:last], replace(loop, body=Seq((*parts, AsyncCommit()))), *stmts[last + 1:])


def _steady(loop: For, ahead: int) -> For:
    assert isinstance(loop.body, Seq)
    stmts = loop.body.stmts
    last = max(place for place, child in enumerate(stmts) if _ahead(child))
    return replace(loop, body=Seq((AsyncWait(ahead - 1), *stmts[:last + 1], AsyncCommit(),
                                   *stmts[last + 1:])))
