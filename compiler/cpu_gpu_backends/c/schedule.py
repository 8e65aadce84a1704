"""The schedule of kernels in C: loops of which compilers make vectors, on any processor.

Sums of products of bytes are products of rows::

    for p_o:                                       some pixels of the result
      alloc x_pixels[4, K]                         what their windows see, as int16
      for c_o:                                     and some channels
        alloc acc[4, 2]                            of which each is a variable
        for k:
          acc[0, 0] += x_pixels[0, k] * w[2*c_o, k]
          ...                                      8 products of 4 + 2 numbers
        y[...] = everything that follows, of acc

Four numbers of int16 and two more are read for eight products, which fits the registers of a small
processor; vectors run along k, where processors add products of neighbours in one instruction, or
do without. Where channels are computed by themselves, 64 of them lie side by side, which are one
vector of AVX-512 as bytes: compilers choose as long ones for all that has fewer elements. All else
has the schedules of native code (`cpu.schedules.schedule`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from compiler.cpu_gpu_backends.cpu.schedules.schedule import schedule
from compiler.cpu_gpu_backends.cpu.schedules.row_tiles import axes_of, sum_apart
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.llvm.instruction_sets import InstructionSet
from compiler.ir import (Alloc, Program, Stmt, Store, Update, Write, free_variables, map_exprs,
                         reads, rewrite_stmts, walk_stmts)
from compiler.schedule import Schedule, ScheduleError
from compiler.te import Binary, Buffer, Cast, Expr, Read, Var, rewrite

from .whole_vectors import in_whole_vectors

VECTORS = Vectors(InstructionSet("vectors that compilers of C make", lanes=8, registers=10))
PIXELS = (4, 5, 3, 2)           # of a tile, the best first
LANES = (64, 32, 16, 24, 8, 12, 4)  # channels side by side, the best first


def scheduled(program: Program) -> Program:
    """The program with loops for C; integers are the same, floats summed as
    `cpu.schedules.schedule` says."""
    for template in (_products_of_rows, _by_channels):
        try:
            made = template(program)
        except ScheduleError:
            continue
        if made is not None:
            return made
    return schedule(program, VECTORS)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum of products of bytes, and the factors that do not see its last axis, and that do."""

    update: Update
    rows: Read
    columns: Read


def _sum_of(program: Program) -> _Sum | None:
    """The one sum of a program, if it is of products of int8, and its result goes by."""
    writes = [s for s in walk_stmts(program.body) if isinstance(s, Write)]
    updates = [s for s in writes if isinstance(s, Update)]
    if len(updates) != 1 or len(program.outputs) != 1:
        return None
    update, out = updates[0], program.outputs[0]
    if not (update.op == "sum" and update.buffer.dtype == "int32" and update.axes and update.indices
            and all(isinstance(index, Var) for index in update.indices)):
        return None
    readers = [s for s in writes if any(read.buffer == update.buffer for read in reads(s))
               and s is not update]
    if update.buffer != out and (len(readers) != 1 or readers[0].buffers != (out,)
                                 or not isinstance(readers[0], Store)
                                 or not _is_mapped(readers[0], update.buffer)):
        return None
    factors = _factors(update.value)
    if factors is None:
        return None
    lane = update.indices[-1]
    rows, columns = sorted(factors, key=lambda read: _sees(read, lane))
    return _Sum(update, rows, columns)


def _factors(value: Expr) -> list[Read] | None:
    """Two reads of int8 that are multiplied as int32, perhaps where a condition holds."""
    match value:
        case Binary("mul", Cast(a, "int32"), Cast(b, "int32")): pass
        case _: return None
    found = [[*_read_in(side)] for side in (a, b)]
    if any(len(side) != 1 or side[0].buffer.dtype != "int8" for side in found):
        return None
    return [side[0] for side in found]


def _read_in(expr: Expr) -> Sequence[Read]:
    found: list[Read] = []
    rewrite(expr, lambda node: found.append(node) if isinstance(node, Read) else None)
    return found


def _sees(read: Read, var: Expr) -> bool:
    return any(var in free_variables(index) for index in read.indices)


def _is_mapped(store: Store, total: Buffer) -> bool:
    """True if each element of the result is computed from one sum: that of its last place, and of
    its number among the rows.
    """
    out = store.buffer
    return (total.shape[-1:] == out.shape[-1:] and prod(total.shape) == prod(out.shape)
            and all(isinstance(index, Var) for index in store.indices)
            and all(read.indices[-1] == store.indices[-1] for read in reads(store)
                    if read.buffer == total))


def _products_of_rows(program: Program) -> Program | None:
    """Applies the schedule above; None where the program is no such sum."""
    found = _sum_of(program)
    if found is None or not _are_rows(program, found):
        return None
    s = Schedule(program)
    total, out = sum_apart(s, found.update), program.outputs[0].name
    seen = found.rows.buffer.name
    if found.rows.buffer in program.inputs:
        s[seen].cache_read("global", name=f"{seen}_rows")
        seen = f"{seen}_rows"
    *outer, row, channel = axes_of(s.program, out)
    *images, count, channels = map(int, program.outputs[0].shape)
    while outer and len(found.update.indices) == 2:
        row = s[out].fuse(outer.pop(), row, f"{out}_row{len(outer) or ''}")
        count *= images.pop()
    pixels, lanes = _pixels(count), _lanes(channels)
    row, pixel = s[out].split(row, pixels)
    channel, inner = s[out].split(channel, lanes)
    s[out].reorder(*outer, row, channel, pixel, inner)
    s[total].compute_at(channel)
    _in_tiles(s, total, [axis.name for axis in found.update.axes], pixels, lanes)
    s[seen].compute_at(row)
    if count % pixels:
        s[out].peel(row)
    made = _as_rows(s.program, seen, found.columns.buffer)
    return in_whole_vectors(made, seen, found.columns.buffer.name, _together(pixels, lanes))


def _are_rows(program: Program, found: _Sum) -> bool:
    """True if the terms of a sum lie side by side in both factors, and the second has a row for
    each element of the last axis.
    """
    update, terms = found.update, len(found.update.axes)
    return (len(program.outputs[0].shape) > 1 and len(found.rows.indices) > terms
            and not _sees(found.rows, update.indices[-1])
            and found.columns.indices[:-terms] == update.indices[-1:]
            and all(read.indices[-terms:] == update.axes for read in (found.rows, found.columns)))


def _in_tiles(s: Schedule, total: str, reduced: Sequence[str], pixels: int, lanes: int) -> None:
    """Computes sums of so many pixels and channels, a few channels at a time, each in a variable.
    """
    tile = s[total].cache_write("local", f"{total}_tile")
    *before, channel = axes_of(s.program, total)
    part, _ = s[total].split(channel, _together(pixels, lanes))
    s[total].reorder(part, *before)
    tile.compute_at(part)
    own = axes_of(s.program, tile.name)
    tile.reorder(*reduced, *own)
    for loop in own:
        tile.unroll(loop)
    tile.decompose_reduction(reduced[0])


def _together(pixels: int, lanes: int) -> int:
    """The channels of which sums are computed at a time."""
    return next(size for size in ((2, 3, 1) if pixels > 2 else (4, 3, 2, 5, 1))
                if lanes % size == 0)


def _pixels(count: int) -> int:
    """The pixels of a tile: so many that no smaller tile is left behind, if that is possible."""
    return next((size for size in PIXELS if count % size == 0), min(count, PIXELS[0]))


def _lanes(channels: int) -> int:
    return next((size for size in LANES if channels % size == 0), channels)


def _by_channels(program: Program) -> Program | None:
    """Sums of which each channel has its own, the channels side by side; None where there are no
    such.
    """
    found = _sum_of(program)
    if found is None:
        return None
    update, lane = found.update, found.update.indices[-1]
    if not all(read.indices[-1:] == (lane,) for read in (found.rows, found.columns)):
        return None
    s = Schedule(program)
    total, out = sum_apart(s, update), program.outputs[0].name
    channel, _ = s[out].split(axes_of(s.program, out)[-1], _lanes(program.outputs[0].shape[-1]))
    s[total].compute_at(channel)
    reduced = [var.name for var in update.axes]
    s[total].reorder(*reduced, axes_of(s.program, total)[-1])
    s[total].decompose_reduction(reduced[0])
    return s.program


def _as_rows(program: Program, name: str, weight: Buffer) -> Program:
    """The buffers of that name, and those that were peeled off it, as rows of int16, and the weight
    as rows: elements of all dimensions but the first lie in one.
    """
    old = {s.buffer for s in walk_stmts(program.body) if isinstance(s, Alloc)
           and s.buffer.name.split("_last")[0] == name}
    new = {buffer: replace(buffer, shape=_row_shape(buffer), dtype="int16") for buffer in old}
    rows = new | {weight: replace(weight, shape=_row_shape(weight))}
    wide = {*new.values()}

    def read(expr: Expr) -> Expr | None:
        match expr:
            case Read(buffer, indices) if buffer in new:
                return Cast(Read(new[buffer], _row_place(buffer, indices)), "int8")
            case Read(buffer, indices) if buffer == weight and buffer != rows[buffer]:
                return Read(rows[buffer], _row_place(buffer, indices))
            case Cast(Cast(Read(buffer) as element, "int8"), dtype) if buffer in wide:
                return Cast(element, dtype)
        return None

    def stmt(node: Stmt) -> Stmt | None:
        match node:
            case Alloc(buffer, body) if buffer in new:
                return Alloc(new[buffer], body)
            case Store(buffer, indices, value) if buffer in new:
                return Store(new[buffer], _row_place(buffer, indices), Cast(value, "int16"))
        return None

    body = map_exprs(program.body, lambda expr: rewrite(expr, read))
    return replace(program, body=rewrite_stmts(body, stmt),
                   inputs=tuple(rows.get(buffer, buffer) for buffer in program.inputs))


def _row_shape(buffer: Buffer) -> tuple[int, ...]:
    return int(buffer.shape[0]), prod(buffer.shape[1:])


def _row_place(buffer: Buffer, indices: Sequence[Expr]) -> tuple[Expr, Expr]:
    inside = indices[1]
    for index, extent in zip(indices[2:], buffer.shape[2:], strict=True):
        inside = inside * extent + index
    return indices[0], inside
