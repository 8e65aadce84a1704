"""The result of `lower`: programs as kernels, which say what every thread of a block does.

In the body of a kernel no loop over threads is left. It stands for one thread, whose place is in
the variables `THREADS` and `BLOCKS`; conditions say which threads do a statement, and `Barrier`
where they wait for each other.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NoReturn

from compiler.errors import DEFECT, Error
from compiler.ir import (Alloc, Program, Seq, Stmt, Tensorized, Write, bindings, concrete,
                         extent_value, loops, program_text, specialize, walk_stmts, writes)
from compiler.te import Buffer, Expr, Extent, Read, Symbol, Var, numpy_dtype

from .code import Extent3, Grid, TensorMap

THREADS = (Var("tx"), Var("ty"), Var("tz"))
BLOCKS = (Var("bx"), Var("by"), Var("bz"))
AXES = {f"{name}Idx.{axis}": var for name, variables in (("block", BLOCKS), ("thread", THREADS))
        for axis, var in zip("xyz", variables)}
"""Kind of a loop to the variable that takes the place of its own."""

SHARED = "shared"           # of a block
TMA_ALIGNMENT = 1024        # bytes
LOCAL = "local"             # of a thread
WARP = 32
FRAGMENT = "fragment"       # sums of a warp, spread over its threads
WORDS = ("fragment_a", "fragment_b")    # operands of a warp, in words of 32 bits: of intrinsics
FRAGMENTS = (FRAGMENT, *WORDS)
OWN = (LOCAL, *FRAGMENTS)   # of no concern to other threads, or other warps
TILES = {FRAGMENT: (16, 8), "fragment_a": (16, 32), "fragment_b": (8, 32)}
"""Rows and columns of a fragment's tile; those of operands have so many bytes of a row."""


class SimtError(Error, ValueError):
    """A program that cannot run on blocks of threads: the fact, and the program with the place."""

    exit_status = DEFECT


def refuse(fact: str, program: Program, place: Stmt | None = None) -> NoReturn:
    raise SimtError(f"{program.name}: {fact}\n{program_text(program, place)}")


def symbol(program: str, number: int) -> str:
    """The name of a program's kernel of this number in texts: no name of a language or of its
    library begins so.
    """
    return f"k{number}_" + re.sub(r"[^A-Za-z0-9_]", "_", program)


def names_in(stmt: Stmt) -> set[str]:
    """The names of loops and buffers."""
    return {loop.var.name for loop in loops(stmt)} | {
        b.name for s in walk_stmts(stmt) for b in (
            (s.buffer,) if isinstance(s, Alloc) else s.buffers if isinstance(s, Write) else ())}


def sequence(stmts: Sequence[Stmt]) -> Stmt:
    """A sequence of statements; sequences do not nest."""
    flat = [child for stmt in stmts for child in (stmt.stmts if isinstance(stmt, Seq) else (stmt,))]
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def fresh(name: str, taken: set[str]) -> str:
    """The name, or one like it that is not taken."""
    while name in taken:
        name += "_"
    return name


def tile_of(buffer: Buffer) -> tuple[int, int]:
    """Rows and columns, in elements, of a tile of the fragment."""
    rows, columns = TILES[buffer.scope]
    return rows, columns // numpy_dtype(buffer.dtype).itemsize if buffer.scope in WORDS else columns


def is_of_warps(stmt: Stmt) -> bool:
    """True if the threads of a warp run it together."""
    return isinstance(stmt, Tensorized) and stmt.intrinsic.unit in ("warp", "warp group")


def is_of_groups(stmt: Stmt) -> bool:
    """True if four warps run it together."""
    return isinstance(stmt, Tensorized) and stmt.intrinsic.unit == "warp group"


def is_of_tma(stmt: Stmt) -> bool:
    """True if the TMA copies it."""
    return isinstance(stmt, Tensorized) and stmt.intrinsic.unit == "tma"


def tma_copies(stmt: Stmt) -> list[Tensorized]:
    return [s for s in walk_stmts(stmt) if isinstance(s, Tensorized) and is_of_tma(s)]


def writes_own(stmt: Stmt) -> bool:
    """True if it writes what is a thread's own alone: outside of loops over threads, all do it."""
    return all(buffer.scope in OWN for write in writes(stmt) for buffer in write.buffers)


@dataclass(frozen=True, slots=True)
class Shuffle(Expr):
    """The value that the thread whose lane differs in the bits of `lane_xor` reads of its own
    `value`.

    All threads of the warp must come by.
    """

    value: Read
    lane_xor: int

    @property
    def dtype(self) -> str:
        return self.value.dtype


@dataclass(frozen=True, slots=True)
class Turn:
    """A loop of the host around kernels. `symbol` counts its `extent` turns, from 1 as all symbols.
    """

    symbol: Symbol
    extent: int


@dataclass(frozen=True, slots=True)
class Counter:
    """Tokens from one unit to another: barriers in shared memory, for so many turns at a time. Each
    token takes so many `signals`. Where it `begins_full`, the first `depth` are there from the
    start.
    """

    name: str
    depth: int
    signals: int
    begins_full: bool = False


@dataclass(frozen=True, slots=True)
class SimtKernel:
    """Parameters
    ----------
    name : unique within a text.
    grid, block : blocks of the grid, threads of a block.
    buffers : what it takes of the memory of the device, in the order of its arguments.
    parameters : what it takes of numbers, after them: of `turns`, then of the program.
    written : names of those that it writes.
    shared : what a block shares; lives as long as the block.
    body : see the module's text.
    turns : loops of the host around it, outermost first.
    maps : the arrays that the TMA reads.
    """

    name: str
    grid: Grid
    block: Extent3
    buffers: tuple[Buffer, ...]
    parameters: tuple[Symbol, ...]
    written: frozenset[str]
    shared: tuple[Buffer, ...]
    body: Stmt
    turns: tuple[Turn, ...] = ()
    maps: tuple[TensorMap, ...] = ()

    @property
    def shared_places(self) -> dict[str, int]:
        """The places of a block's buffers in memory that its launch asks for; nothing where the
        text declares them: tiles that the TMA fills begin at multiples of 1,024 bytes.
        """
        places, end = {}, 0
        for buffer in self.shared if self.maps else ():
            assert isinstance(buffer.size_bytes, int)
            places[buffer.name] = end
            end += buffer.size_bytes + -buffer.size_bytes % TMA_ALIGNMENT
        return places

    @property
    def shared_bytes(self) -> int:
        """The bytes that its launch asks for."""
        places, sizes = self.shared_places, {b.name: b.size_bytes for b in self.shared}
        return max((place + int(sizes[name]) for name, place in places.items()), default=0)

    @property
    def threads(self) -> int:
        x, y, z = self.block
        return x * y * z

    def ranges(self) -> Iterator[tuple[Var, Extent]]:
        """The variables of the place of a thread and their extents."""
        yield from zip((*BLOCKS, *THREADS), (*self.grid, *self.block))


@dataclass(frozen=True, slots=True)
class SimtProgram:
    """A program as kernels, to be launched in order, and the buffers between them."""

    program: Program
    kernels: tuple[SimtKernel, ...]
    temporaries: tuple[Buffer, ...]

    def launches(self) -> Iterator[tuple[SimtKernel, tuple[int, ...]]]:
        """The kernels as the host starts them, each with the numbers of its `turns`."""
        yield from _launches(self.kernels, ())

    def at(self, **values: int) -> "SimtProgram":
        """The program for these values of all its parameters."""
        bound = bindings(self.program.name, self.program.parameters, values)
        all_inputs = (*self.program.inputs, *self.temporaries)

        def kernel(simt: SimtKernel) -> SimtKernel:
            grid = tuple(extent_value(extent, bound) for extent in simt.grid)
            body = specialize(replace(self.program, inputs=all_inputs, body=simt.body),
                              **values).body
            return replace(simt, grid=grid, body=body,
                           parameters=tuple(turn.symbol for turn in simt.turns),
                           buffers=tuple(concrete(b, bound) for b in simt.buffers))

        return SimtProgram(specialize(self.program, **values), tuple(map(kernel, self.kernels)),
                           tuple(concrete(b, bound) for b in self.temporaries))


def _launches(kernels: Sequence[SimtKernel], numbers: tuple[int, ...]
              ) -> Iterator[tuple[SimtKernel, tuple[int, ...]]]:
    depth = len(numbers)
    for turn, inside in groupby(kernels, lambda kernel: next(iter(kernel.turns[depth:]), None)):
        together = list(inside)
        if turn is None:
            yield from ((kernel, numbers) for kernel in together)
        else:
            for number in range(1, turn.extent + 1):
                yield from _launches(together, (*numbers, number))
