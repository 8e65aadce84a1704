"""Buffers of a thread's own, which are one in the program, and one for each thread on a GPU.

::

    alloc local.t: float32[64]
    for i in 0..64 (threadIdx.x):       thread i fills one element of its own t
      t[i] = x[i]
    for j in 0..64 (threadIdx.x):
      y[j] = t[63 - j]                  thread j reads another one, which it has not filled

The two mean the same where a thread reads what it has written itself. What every thread writes,
each to its own, any of them may read. Whether another's element is read is decided by isl.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.ir import (BLOCK_KINDS, Access, Alloc, Combine, For, Program, Stmt, Update, Write,
                         accesses, loop_domain, path_to, walk_stmts, witness)
from compiler.te import Var

from .kernels import AXES, FRAGMENTS, OWN, refuse, writes_own

FIRST = Var("first thread")


def require_own(program: Program, stmt: Stmt) -> None:
    """Refuse what a thread reads of a buffer of its own though another one has written it."""
    kinds = {s.var: s.kind for s in walk_stmts(stmt)
             if isinstance(s, For) and s.kind in AXES and s.extent != 1}
    for alloc in walk_stmts(stmt):
        if isinstance(alloc, Alloc) and alloc.buffer.scope in OWN:
            domain = loop_domain(path_to(stmt, lambda s, alloc=alloc: s is alloc))
            check = _Own(program, alloc, kinds, domain.vars)
            check.run([a for a in accesses(alloc.body, domain) if a.buffer == alloc.buffer])


@dataclass(frozen=True, slots=True)
class _Own:
    """A buffer, allocated inside of the loops `around`; `kinds` are the axes of loops."""

    program: Program
    alloc: Alloc
    kinds: Mapping[Var, str]
    around: tuple[Var, ...]

    def run(self, accesses: list[Access]) -> None:
        axes = [axis for axis in AXES if axis in self.kinds.values() and not (
            axis == "threadIdx.x" and self.alloc.buffer.scope in FRAGMENTS)]     # a warp's
        for write in (a for a in accesses if a.is_write):
            for read in (a for a in accesses if a.kind != "store"):
                for axis in axes:
                    self._check(write, read, axis)

    def _check(self, write: Access, read: Access, axis: str) -> None:
        writer, reader = self._place(write, axis), self._place(read, axis)
        if writer is None or writer == reader and writer in (FIRST, *self.around):
            return
        apart = "true" if reader is None else f"{_text('a', writer)} != {_text('b', reader)}"
        if clash := witness(write, read, self.around, apart):
            buffer = self.alloc.buffer
            unit = "warp" if buffer.scope in FRAGMENTS else "thread"
            at = ", ".join("?" if place is None else str(place) for place in clash.element)
            first, second = _who(writer, clash.first, axis), _who(reader, clash.second, axis)
            refuse(f"each {unit} must read of {buffer.scope} buffer {buffer.name} what it has "
                   f"written itself, but {buffer.name}[{at}] is written by {first} and read by "
                   f"{second}: {self._remedy(writer, reader, axis)}", self.program, read.stmt)

    def _place(self, access: Access, axis: str) -> Var | None:
        """The loop over the axis that is around; FIRST or, where all threads do it, None."""
        stmt = access.stmt
        reduced = stmt.axes if isinstance(stmt, Update | Combine) else ()
        for var in reversed(access.domain.vars):
            if self.kinds.get(var) == axis:
                return None if var in reduced else var      # all threads have the result
        return FIRST if isinstance(stmt, Write) and not writes_own(stmt) else None

    def _remedy(self, writer: Var, reader: Var | None, axis: str) -> str:
        """The way to make all threads, or all blocks, see one buffer; fragments are no memory."""
        if writer == reader or self.alloc.buffer.scope in FRAGMENTS:
            return f"allocate it inside of {writer.name}"
        return f"use scope {'global' if axis in BLOCK_KINDS else 'shared'}"


def _text(instance: str, place: Var) -> str:
    """isl's name of a thread's number."""
    return "0" if place == FIRST else f"{{{instance}[{place.name}]}}"


def _who(place: Var | None, at: tuple[tuple[Var, int], ...], axis: str) -> str:
    unit = "block" if axis in BLOCK_KINDS else "thread"
    if place is None:
        return f"every {unit}"
    return f"the first {unit}" if place == FIRST else f"{place.name}={dict(at)[place]} ({axis})"
