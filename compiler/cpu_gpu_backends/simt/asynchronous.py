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

from compiler.ir import For, Seq, Stmt, Store, rewrite_stmts, walk_stmts
from compiler.te import Read, numpy_dtype

from .kernels import SHARED
from .vectors import vectors

__all__ = ["AsyncCommit", "AsyncCopy", "AsyncWait", "marked", "possible",
           "with_groups"]

NOTE = "async_copy"
COPIED_BYTES = (4, 8, 16)       # at a time


@dataclass(frozen=True, slots=True)
class AsyncCopy(Store):
    """A copy to shared memory that lands when its group is waited for, `ahead` iterations on."""

    ahead: int = 1


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
        if isinstance(node, Store) and isinstance(node.value, Read) and (
                node.buffer.scope, node.value.buffer.scope) == (SHARED, "global"):
            return AsyncCopy(node.buffer, node.indices, node.value, ahead)
        return None

    def rule(node: Stmt) -> Stmt | None:
        ahead = dict(node.annotations).get(NOTE) if isinstance(node, For) else None
        return rewrite_stmts(node, lambda s: copy(s, int(ahead))) if ahead else None

    return rewrite_stmts(stmt, rule)


def possible(stmt: Stmt) -> Stmt:
    """The statement as it is where every `AsyncCopy` has a size that there is an instruction for;
    else with plain copies in their place.
    """
    whole = {id(vector.store): vector.bytes for vector in vectors(stmt)}
    sizes = [whole.get(id(s), numpy_dtype(s.buffer.dtype).itemsize)
             for s in walk_stmts(stmt) if isinstance(s, AsyncCopy)]
    if all(size in COPIED_BYTES for size in sizes):
        return stmt
    return rewrite_stmts(stmt, lambda s: Store(s.buffer, s.indices, s.value)
                         if isinstance(s, AsyncCopy) else None)


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
