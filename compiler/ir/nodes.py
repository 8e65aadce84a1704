"""Loop programs: what a schedule transforms and a back end prints. Frozen trees, few kinds.

Statements::

    For         a counted loop
    Seq         one after the other
    Alloc       a buffer that lives while its body runs
    Store       buffer[indices] = value
    Update      buffer[indices] = op(buffer[indices], value), or = value where a reduction begins
    If          a guard
    Tensorized  a loop nest that one declared intrinsic performs

`Update` carries the reduction variables it depends on: in the iteration in which all of them are
zero the reduction begins, and the old content of the buffer is not read. That is what an
accelerator's `reset` means, so nothing has to be decomposed for it.

Names of variables and buffers are unique within a program.
"""

from dataclasses import dataclass
from typing import Any

from compiler.te import Buffer, Expr, Var

__all__ = ["LOOP_KINDS", "Alloc", "Binding", "For", "If", "Program", "Seq", "Stmt", "Store",
           "Tensorized", "Update"]

LOOP_KINDS = ("serial", "unroll", "virtual_thread")


class Stmt:
    """Base of all statements."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class For(Stmt):
    var: Var
    extent: int
    body: Stmt
    kind: str = "serial"


@dataclass(frozen=True, slots=True)
class Seq(Stmt):
    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Alloc(Stmt):
    buffer: Buffer
    body: Stmt


@dataclass(frozen=True, slots=True)
class Store(Stmt):
    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Update(Stmt):
    """`op` is ``sum``, ``max`` or ``min``; `axes` are the reduction variables around it."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    op: str
    value: Expr
    axes: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class If(Stmt):
    condition: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class Binding:
    """How an intrinsic's operands and immediates are bound at one place.

    Parameters
    ----------
    tiles : pairs (operand name, read of the first element of the tile): ``Read(buffer, indices)``
        whose last indices, as many as the operand has dimensions, are zero. An operand bound to
        an immediate constant stands as a `Const`. The destination is among them.
    immediates : pairs (name, constant or, for predicates, condition).
    begin : reduction variables outside the tile: the update is an assignment where all are zero.
    """

    tiles: tuple[tuple[str, Expr], ...]
    immediates: tuple[tuple[str, Expr], ...] = ()
    begin: tuple[Var, ...] = ()

    def tile(self, name: str) -> Expr:
        return dict(self.tiles)[name]

    def immediate(self, name: str) -> Expr:
        return dict(self.immediates)[name]


@dataclass(frozen=True, slots=True)
class Tensorized(Stmt):
    """`body` is the nest as it was: its meaning. `intrinsic` performs it, as `binding` says."""

    intrinsic: Any                  # compiler.tensorize.Intrinsic; ir stands below tensorize
    binding: Binding
    body: Stmt


@dataclass(frozen=True, slots=True)
class Program:
    """A loop program over global buffers.

    `inputs` are read only and come from outside, `outputs` are written completely. All other
    buffers are allocated inside.
    """

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    body: Stmt
