"""Lowers scheduled loop programs to streams of instructions.

Loops around a single `Tensorized` statement fold into the instruction that performs it, as many as
its word has; all other loops are unrolled, since an instruction stream is static. The order of the
stream is the order of the program.

A statement is lowered once, for all iterations of the unrolled loops: these are columns of numbers,
one row for each iteration. Where iterations differ only in addresses, which are affine in the
loops, they are one **class** with one **template**, the words of one of them; what a class is, the
conditions of the statement decide (`classes.py`). Words of all iterations are copies of templates
with other addresses, written by NumPy.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import Instruction, Stream
from accel.machine.origins import Loop, Site
from accel.mapping.lowering.classes import Classes, Columns, classes_of, row_of
from accel.mapping.lowering.memory import Room, Scratchpads, TensorPlacement
from accel.mapping.lowering.nest import AffineAddress, LoweringError, NotAffine, solve
from accel.mapping.lowering.tile import (Fixed, Made, Move, TensorizedTile, TileNest, TilePlaces,
                                         cut, ends_of, guards_of, moves_of, nest_of, whole)
from accel.mapping.lowering.unplaced import NONE, UnplacedKey, UnplacedStream, lowered_once
from accel.mapping.lowering.words import WordBits, put
from compiler.ir import Alloc, For, If, Program, Seq, Stmt, Tensorized, expr_text, loops
from compiler.te import Buffer, Const, Expr, Var, numpy_dtype

PIECE = 1 << 14
"""Instructions that are written at a time."""


def lower(machine: Machine, program: Program, placement: Mapping[str, TensorPlacement],
          layer: str, room: Room | None = None, from_above: bool = False,
          renamed: Callable[[str], str] = str) -> Stream:
    """The instructions of one layer, without tokens.

    `placement` says where the program's inputs and outputs lie in DRAM, `room` which part of the
    buffers it may use, from below or `from_above`. `renamed` gives the names of loops and tensors
    in the stream's origins.
    """
    key = UnplacedKey.of(machine, program, placement, room, from_above)

    def stream() -> UnplacedStream:
        pads = Scratchpads(machine.config, program.body, room, from_above)
        return _Lowering(machine, pads, dict(key.placement), layer).stream(program.body)

    return lowered_once(key, program, stream).placed(placement, layer, renamed)


@dataclass(frozen=True)
class _Part:
    """A statement at all iterations of the loops around it: how many instructions each has."""

    counts: np.ndarray


@dataclass(frozen=True)
class _Sequence(_Part):
    parts: tuple[_Part, ...]


@dataclass(frozen=True)
class _Loop(_Part):
    """`body` is at the iterations of the loop within those around it."""

    extent: int
    is_threads: bool
    body: _Part


@dataclass(frozen=True)
class _Chosen(_Part):
    """`body` is at those of the iterations that are `rows`."""

    rows: np.ndarray
    body: _Part


@dataclass(frozen=True)
class _Allocated(_Part):
    buffer: Buffer
    body: _Part


@dataclass(frozen=True)
class _Tiles(_Part):
    """A tile that instructions perform: `made` are the templates, `first` that of each class."""

    columns: Columns
    classes: Classes
    nest: TileNest
    made: tuple[Made, ...]
    first: np.ndarray


@dataclass
class _Rows:
    """The stream that is being written."""

    words: np.ndarray
    origins: np.ndarray
    copied: np.ndarray
    sites: list[Site] = field(default_factory=list)


@dataclass(frozen=True)
class _Sites:
    """The sites of templates, and the places of a row into which the values of loops go.

    A place says of which templates; the value is that of a column, or the template's own.
    """

    numbers: np.ndarray
    positions: tuple[tuple[int, np.ndarray, np.ndarray | None, np.ndarray], ...]


class _Lowering:
    def __init__(self, machine: Machine, scratchpads: Scratchpads,
                 placement: Mapping[str, TensorPlacement], layer: str):
        self.machine, self.scratchpads, self.layer = machine, scratchpads, layer
        self.places, self.tensors = TilePlaces(machine, placement), tuple(placement)
        self.loops: dict[Var, Loop] = {}    # unrolled loops of several iterations

    def stream(self, body: Stmt) -> UnplacedStream:
        threads = [loop.var for loop in loops(body) if loop.kind == "virtual_thread"]
        assert len(threads) == len(set(threads)), "copies of storage take turns within one loop"
        whole_program = self._part(body, {}, 1)
        total = int(whole_program.counts[0])
        rows = _Rows(np.zeros((total, isa.WORD_BYTES), np.uint8),
                     np.zeros((total, 1 + len(self.loops)), np.int32), np.full(total, NONE))
        self._write(whole_program, np.zeros(1, np.int64), np.zeros(1, np.int64), {}, rows)
        return UnplacedStream(rows.words, rows.origins, tuple(rows.sites), self.tensors,
                              rows.copied)

    # ---- what there is at which iterations ---------------------------------------------------

    def _part(self, stmt: Stmt, columns: Columns, count: int) -> _Part:
        """The statement at `count` iterations, in which unrolled loops stand as `columns` say."""
        match stmt:
            case Seq(stmts):
                parts = tuple(self._part(one, columns, count) for one in stmts)
                return _Sequence(sum((part.counts for part in parts), np.zeros(count, np.int64)),
                                 parts)
            case Alloc(buffer, inner):
                body = self._part(inner, columns, count)
                return _Allocated(body.counts, buffer, body)
            case _ if (nest := nest_of(stmt)) is not None:
                return self._tiles(nest, columns, count)
            case If(condition, inner):
                rows = self._holding(condition, columns, count)
                body = self._part(inner, {var: column[rows] for var, column in columns.items()},
                                  len(rows))
                counts = np.zeros(count, np.int64)
                counts[rows] = body.counts
                return _Chosen(counts, rows, body)
            case For(var, extent, inner, kind):
                self._count(var, extent, kind)
                within = {other: np.repeat(column, extent) for other, column in columns.items()}
                within[var] = np.tile(np.arange(extent, dtype=np.int64), count)
                body = self._part(inner, within, count * extent)
                return _Loop(body.counts.reshape(count, extent).sum(1), extent,
                             kind == "virtual_thread", body)
        raise LoweringError(f"{self.layer}: every statement must be tensorized, but "
                            f"{type(stmt).__name__} to {_target(stmt)} is not")

    def _count(self, var: Var, extent: int, kind: str = "serial") -> None:
        self.places.extents[var] = extent
        if extent > 1:
            self.loops[var] = Loop(var.name, extent, kind)

    def _holding(self, condition: Expr, columns: Columns, count: int) -> np.ndarray:
        """The iterations in which a condition holds."""
        classes = classes_of([condition], columns, count, {})
        try:
            holds = [solve(condition, row_of(columns, row), {}) is not None
                     for row in classes.rows]
        except NotAffine as error:
            raise self._refuse(error) from None
        return np.flatnonzero(np.array(holds, bool)[classes.of])

    def _refuse(self, error: NotAffine) -> LoweringError:
        reason = error.args[0]
        text = expr_text(reason) if isinstance(reason, Expr) else reason
        return LoweringError(f"{self.layer}: address or condition must be affine in the loops, "
                             f"not {text}")

    def _tiles(self, nest: TileNest, columns: Columns, count: int) -> _Part:
        self.places.extents |= {var: extent for var, (_, extent) in nest.loops}
        classes = self._classes(nest, columns, count)
        made, lengths = [], []
        for row in classes.rows:
            mine = self._performed(nest, row_of(columns, row))
            made += mine
            lengths.append(len(mine))
        lengths = np.array(lengths, np.int64)
        return _Tiles(lengths[classes.of], columns, classes, nest, tuple(made),
                      np.cumsum(lengths) - lengths)

    def _classes(self, nest: TileNest, columns: Columns, count: int) -> Classes:
        """Iterations of one class have the same instructions but for their addresses."""
        tile, box = nest.tile, dict(nest.loops)
        conditions = list(guards_of(self.places, nest))
        if tile.intrinsic.unit in ("load", "store") and tile.intrinsic.immediates:
            conditions.append(tile.binding.immediate("valid"))
        keys: list[np.ndarray] = [columns[var] == 0 for var in tile.binding.begin
                                  if var in columns]
        for _, bound in tile.binding.tiles:
            if isinstance(bound, Const):
                continue
            form = self.places.form(whole(bound))
            if not isinstance(form, AffineAddress):         # it follows the loops in its own way
                keys += columns.values()
        if tile.intrinsic.unit in ("load", "store"):
            far, _ = ends_of(tile)
            place = self.places.placement[far.buffer.name]
            if place.bits < 8:                              # cut at whole bytes, or refused
                keys.append(self._moved(Move((), far, 1), columns, count) % (8 // place.bits))
        return classes_of(conditions, columns, count, box, keys)

    def _performed(self, nest: TileNest, fixed: Fixed) -> list[Made]:
        """One instruction if the nest fits, else a loop is unrolled."""
        try:
            return list(TensorizedTile(self.places, nest, fixed).instructions())
        except NotAffine as error:
            if not nest.loops:
                raise self._refuse(error) from None
            at, parts = cut(nest, error)
        var, _ = nest.loops[at]
        self._count(var, self.places.extents[var])
        made = []
        for part in parts:
            single = part[1] - part[0] == 1
            inner = (*nest.loops[:at], *([] if single else [(var, part)]), *nest.loops[at + 1:])
            made += self._performed(TileNest(inner, nest.guards, nest.tile),
                                    fixed | {var: part[0]} if single else fixed)
        return made

    # ---- words -------------------------------------------------------------------------------

    def _write(self, part: _Part, starts: np.ndarray, turns: np.ndarray,
               storage: dict[Buffer, np.ndarray], rows: _Rows) -> None:
        """Write a part's instructions. For each iteration `starts` has the place of the first one,
        `turns` how often the copies of storage were used, `storage` where each buffer is.
        """
        match part:
            case _Sequence(_, parts):
                for one in parts:
                    self._write(one, starts, turns, storage, rows)
                    starts = starts + one.counts
            case _Allocated(_, buffer, body):
                copies = np.array(self.scratchpads.addresses(buffer), np.int64)
                self._write(body, starts, turns,
                            storage | {buffer: copies[turns % len(copies)]}, rows)
            case _Chosen(_, chosen, body):
                self._write(body, starts[chosen], turns[chosen],
                            {buffer: place[chosen] for buffer, place in storage.items()}, rows)
            case _Loop(_, extent, is_threads, body):
                counts = body.counts.reshape(len(starts), extent)
                inner = (starts[:, None] + np.cumsum(counts, 1) - counts).reshape(-1)
                used = body.counts > 0
                turns = np.cumsum(used) - used if is_threads else np.repeat(turns, extent)
                self._write(body, inner, turns,
                            {buffer: np.repeat(place, extent) for buffer, place in storage.items()},
                            rows)
            case _Tiles():
                if part.made:
                    self._write_tiles(part, starts, storage, rows)

    def _write_tiles(self, part: _Tiles, starts: np.ndarray, storage: Mapping[Buffer, np.ndarray],
                     rows: _Rows) -> None:
        tile = part.nest.tile
        layout = self.machine.layouts[tile.intrinsic.name]
        templates = Stream.of(self.machine, [
            Instruction(tile.intrinsic.name, tile.intrinsic.unit, one.fields) for one in part.made])
        lengths = np.diff([*part.first.tolist(), len(part.made)])
        example = np.repeat(part.classes.rows, lengths)     # the iteration of each template
        moves = [(move, self._moved(move, part.columns, len(starts)),
                  WordBits.of(layout, move.path),
                  np.array([_number(one, move) for one in part.made], np.int64),
                  np.array([one.spans.get(move.path, -1) for one in part.made], np.int64))
                 for move in moves_of(self.places, tile)]
        sites, far = self._sites(part, rows), self._far(tile)
        for iteration, within in _in_pieces(part.counts):
            which = part.first[part.classes.of[iteration]] + within
            at = starts[iteration] + within
            words, banks = templates.words[which], np.zeros(len(at), np.int64)
            for move, moved, place, base, spans in moves:
                steps = moved[iteration] - moved[example[which]]
                if move.read.buffer in storage:
                    steps += storage[move.read.buffer][iteration]
                if move.step > 1 and (steps % move.step).any():
                    raise LoweringError(f"{self.layer}: copy of packed elements must begin and end "
                                        f"at whole bytes of {move.step}")
                values = base[which] + steps // move.step
                banks |= self._banks(values, spans[which])
                put(words, place, values)
            if tile.intrinsic.unit in ("gemm", "vector"):      # others use no banks
                put(words, WordBits.of(layout, ("banks",)), banks)
            rows.words[at] = words
            rows.copied[at] = far
            self._write_origins(part, sites, which, iteration, at, rows)

    def _moved(self, move: Move, columns: Columns, count: int) -> np.ndarray:
        """The bytes by which the loops outside move a tile, for each iteration."""
        form = self.places.form(move.read)
        total = np.zeros(count, np.int64)
        if isinstance(form, AffineAddress):
            item = numpy_dtype(move.read.dtype).itemsize
            for var, factor in form.coefficients.items():
                if var in columns:
                    total += columns[var] * (factor * item)
        return total

    def _banks(self, first: np.ndarray, spans: np.ndarray) -> np.ndarray:
        """The mask of banks between entries of acc; a negative span is none."""
        depth = self.machine.config.bank_depth
        inside = [(spans >= 0) & (first < (bank + 1) * depth) & (first + spans >= bank * depth)
                  for bank in (0, 1)]
        return inside[0] * 1 + inside[1] * 2

    def _sites(self, part: _Tiles, rows: _Rows) -> "_Sites":
        tensors = tuple((operand, *self._tensor(read))
                        for operand, read in part.nest.tile.binding.tiles
                        if not isinstance(read, Const))
        known: dict[tuple[tuple[Var, ...], tuple[str, ...]], int] = {}
        numbers, unrolled = [], []
        for one in part.made:
            variables = tuple(var for var in one.fixed if var in self.loops)
            key = variables, one.folded
            if key not in known:
                known[key] = len(rows.sites)
                rows.sites.append(Site("", tuple(self.loops[var] for var in variables),
                                       one.folded, tensors))
            numbers.append(known[key])
            unrolled.append(variables)
        positions = []
        for place in range(max(map(len, unrolled), default=0)):
            for var in dict.fromkeys(row[place] for row in unrolled if place < len(row)):
                mine = np.array([place < len(row) and row[place] is var for row in unrolled])
                own = np.array([one.fixed.get(var, 0) for one in part.made], np.int32)
                positions.append((place, mine, part.columns.get(var), own))
        return _Sites(np.array(numbers, np.int32), tuple(positions))

    def _write_origins(self, part: _Tiles, sites: "_Sites", which: np.ndarray,
                       iteration: np.ndarray, at: np.ndarray, rows: _Rows) -> None:
        origins = np.zeros((len(at), rows.origins.shape[1]), np.int32)
        origins[:, 0] = sites.numbers[which]
        for place, mine, column, own in sites.positions:
            values = own[which] if column is None else column[iteration]
            chosen = mine[which]
            origins[chosen, 1 + place] = values[chosen]
        rows.origins[at] = origins

    def _tensor(self, bound: Expr) -> tuple[str, str]:
        """The memory that an operand lies in, and the tensor that it is a part of."""
        buffer = whole(bound).buffer
        return (self.places.placement[buffer.name].base if buffer.scope == "global"
                else buffer.scope), buffer.name

    def _far(self, tile: Tensorized) -> int:
        """The number of the tensor in DRAM that a tile is copied from or to; `NONE` if it is no
        copy.
        """
        return self.tensors.index(ends_of(tile)[0].buffer.name) if (
            tile.intrinsic.unit in ("load", "store")) else NONE


def _in_pieces(counts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each instruction its iteration, and its number there; so many at a time that what is
    computed of them takes little memory.
    """
    ends = np.cumsum(counts)
    begin = 0
    while begin < len(counts):
        done = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + PIECE, side="right")))
        mine = counts[begin:end]
        iteration = np.repeat(np.arange(begin, end), mine)
        yield iteration, np.arange(len(iteration)) - np.repeat(ends[begin:end] - mine - done, mine)
        begin = end


def _number(one: Made, move: Move) -> int:
    """The address in a template."""
    value = one.fields
    for name in move.path:
        value = value[name]     # type: ignore[index]
    return value                # type: ignore[return-value]


def _target(stmt: Stmt) -> str:
    return getattr(getattr(stmt, "buffer", None), "name", "?")
