"""Loop programs: what a schedule transforms and a back end prints. Frozen trees, few kinds.

Statements::

    For         a counted loop
    Seq         one after the other
    Alloc       a buffer that lives while its body runs
    Store       buffer[indices] = value
    Update      buffer[indices] = op(buffer[indices], value), or = value where a reduction begins
    Combine     the same for several buffers at once, by a reducer of one's own
    If          a guard
    Barrier     threads wait for each other; only the lowering for GPUs writes it
    Tensorized  a loop nest that one declared intrinsic performs

`Update` carries the reduction variables it depends on: in the iteration in which all of them are
zero the reduction begins, and the old content of the buffer is not read. That is what an
accelerator's `reset` means, so nothing has to be decomposed for it. `Combine` does the same.

The kind of a loop says how a back end may run it. Iterations of the kinds in `UNORDERED_KINDS` may
run in any order and at the same time; the primitives that set them prove it. Loops over one axis
of threads, one inside the other, are run by the same threads: all of them fill a buffer that they
share (see `compiler.schedule.bind`).

Names of variables and buffers are unique within a program.
"""

from dataclasses import dataclass
from typing import Any

from compiler.te import Buffer, Expr, Extent, Reducer, Symbol, Var

BLOCK_KINDS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
THREAD_KINDS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
UNORDERED_KINDS = ("vectorize", "parallel", *BLOCK_KINDS, *THREAD_KINDS)
LOOP_KINDS = ("serial", "unroll", "virtual_thread", *UNORDERED_KINDS)


class Stmt:
    """Base of all statements. What `__slots__` names is known of a statement once somebody has
    asked, and no part of its value.
    """

    __slots__ = ("_flat", "_hoisted", "_names", "_normal")


@dataclass(frozen=True, slots=True)
class For(Stmt):
    """`annotations`, pairs of a key and a value in order of the keys, are for back ends to read."""

    var: Var
    extent: Extent
    body: Stmt
    kind: str = "serial"
    annotations: tuple[tuple[str, int | str | bool], ...] = ()


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

    @property
    def buffers(self) -> tuple[Buffer, ...]: return (self.buffer,)
    @property
    def values(self) -> tuple[Expr, ...]: return (self.value,)


@dataclass(frozen=True, slots=True)
class Update(Stmt):
    """`op` is ``sum``, ``max`` or ``min``; `axes` are the reduction variables around it.

    `begins` is False where something else has put a value into the buffer, that the reduction goes
    on from (see `compiler.schedule.decompose_reduction`).
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    op: str
    value: Expr
    axes: tuple[Var, ...]
    begins: bool = True

    @property
    def buffers(self) -> tuple[Buffer, ...]: return (self.buffer,)
    @property
    def values(self) -> tuple[Expr, ...]: return (self.value,)


@dataclass(frozen=True, slots=True)
class Combine(Stmt):
    """``buffers[indices] = reducer(buffers[indices], values)``, or ``= values`` at the beginning.

    All buffers have one shape and are written together, at the same indices.
    """

    buffers: tuple[Buffer, ...]
    indices: tuple[Expr, ...]
    reducer: Reducer
    values: tuple[Expr, ...]
    axes: tuple[Var, ...]
    begins: bool = True


Write = Store | Update | Combine


@dataclass(frozen=True, slots=True)
class Barrier(Stmt):
    """Nothing after it begins before all threads of the `scope` have done what is before it."""

    scope: str = "block"


@dataclass(frozen=True, slots=True)
class If(Stmt):
    condition: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class Binding:
    """The binding of an intrinsic's operands and immediates are bound at one place.

    Parameters
    ----------
    tiles : pairs (operand name, read of the first element of the tile): ``Read(buffer, indices)``
        whose last indices, as many as the operand has dimensions, are zero, or, of an operand that
        is a window, where the window begins. An operand bound to an immediate constant stands as a
        `Const`. The destination is among them.
    immediates : pairs (name, constant or, for predicates, condition).
    begin : reduction variables outside the tile: the update is an assignment where all are zero,
        or nowhere when `begins` is False.
    """

    tiles: tuple[tuple[str, Expr], ...]
    immediates: tuple[tuple[str, Expr], ...] = ()
    begin: tuple[Var, ...] = ()
    begins: bool = True

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
    buffers are allocated inside. `parameters` are the symbols in its extents: it holds for every
    value of them from 1 (see `compiler.ir.specialize`).
    """

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    body: Stmt
    parameters: tuple[Symbol, ...] = ()
