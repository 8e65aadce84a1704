"""Products in tiles: operands in shared memory, a tile of sums in the registers of each thread.

::

    for rows (blockIdx.y), columns (blockIdx.x):
      for ty (threadIdx.y), tx (threadIdx.x):
        alloc local acc[4, 4]
        for k_o:                                    a chunk of the terms
          alloc shared w[32, 8, ...], x[8, ...]     which all threads of the block copy
          for k_i, kh, kw: acc[r, p] += w[r, k] * x[k, p]
        y[r, p] = max(acc[r, p] + bias[r], 0)

A product sums terms of two operands. One axis of the result, the rows, moves along one of them; its
last axis, the columns, along the other. Where the axis before the columns does so too, as in an
image, the pixels of a thread lie below each other, else beside each other. What is padded on its
way is padded in shared memory, with zeros where a chunk hangs over the terms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from compiler.cpu_gpu_backends.gpu.parts import (BY_THREADS, QUARTERS, WHOLE, Parts, TiledWork,
                                                 divide)
from compiler.cpu_gpu_backends.gpu.stages import (extent_of, fused, loops_around, maps, padded,
                                                  readers, stages, sums_in, write_of, writes_in)
from compiler.ir import Program, Store, Update, Write, free_variables, interval, linear, reads
from compiler.schedule import Schedule, ScheduleError, pad
from compiler.te import Buffer, Const, Read, Var

SHARED = 48 << 10           # bytes that the blocks of every GPU have
LEAST = 8                   # rows, and columns, that are worth a tile
UNROLLED = 256              # products that are written out


@dataclass(frozen=True, slots=True)
class GpuTiles:
    """Threads of a block along rows and columns; rows and pixels of each thread; terms of the axis
    that is cut that are in shared memory at once.
    """

    rows: int = 8
    columns: int = 16
    thread_rows: int = 4
    thread_pixels: int = 4
    terms: int = 8


@dataclass(frozen=True, slots=True)
class TiledProduct:
    """The sum of a program, and its axes by their place among those of the result: `rows`, and
    `pixels`, one or two. `chunk` is the place of the reduction axis that is cut.
    """

    sum: Update
    extents: tuple[int, ...]
    rows: int
    pixels: tuple[int, ...]
    chunk: int
    operands: tuple[Read, Read]


def product_of(program: Program) -> TiledProduct | None:
    """The product that the program computes, with maps behind it; None where it is another."""
    sums = [write for write in writes_in(program) if not isinstance(write, Store)]
    if len(sums) != 1 or len(program.outputs) != 1 or not isinstance(sums[0], Update):
        return None
    total, out = sums[0], write_of(program, program.outputs[0].name)
    operands = list(dict.fromkeys(reads(total)))
    extents = {loop.var: loop.extent for loop in loops_around(program, total)}
    if (total.op != "sum" or len(operands) != 2 or operands[0].buffer == operands[1].buffer
            or not all(isinstance(extent, int) for extent in extents.values())
            or not all(isinstance(index, Var) for index in total.indices)
            or not _is_simple(program, total, out, operands)):
        return None
    axes = [index for index in total.indices if isinstance(index, Var)]
    moving = [frozenset[Var]().union(*map(free_variables, read.indices)) for read in operands]
    if not axes or axes[-1] in moving[0] & moving[1]:
        return None
    pixels, rows = (moving if axes[-1] in moving[0] else moving[::-1])
    candidates = [place for place, axis in enumerate(axes) if axis in rows - pixels]
    if axes[-1] not in pixels or not candidates:
        return None
    row = max(candidates, key=lambda place: extents[axes[place]])
    above = len(axes) > 2 and axes[-2] in pixels - rows and extents[axes[-2]] > 1
    columns = (len(axes) - 2, len(axes) - 1) if above else (len(axes) - 1,)
    chunks = [place for place, axis in enumerate(total.axes) if extents[axis] > 1]
    if not chunks or extents[axes[row]] < LEAST or prod(extents[axes[c]] for c in columns) < LEAST:
        return None
    return TiledProduct(total, tuple(extents[axis] for axis in axes), row, columns, chunks[0],
                        (operands[0], operands[1]))


def _is_simple(program: Program, total: Update, out: Write, operands: list[Read]) -> bool:
    """True if the program has no stages but the sum and what pads its operands, and the result is
    computed from the sum element by element.
    """
    own = {stage.buffer for stage in stages(program)}
    if own - {total.buffers[0]} - {read.buffer for read in operands}:
        return False
    if any(isinstance(write_of(program, read.buffer.name), Update) or len(readers(
            program, next(s for s in stages(program) if s.buffer == read.buffer))) > 1
            for read in operands if read.buffer in own):
        return False
    if out is total:
        return True
    found = {read for read in reads(out) if read.buffer == total.buffers[0]}
    return len(found) == 1 and len(maps(program, out)) == len(total.indices) and all(
        index == own_index or index == Const(0, index.dtype) and extent == 1
        for index, own_index, extent in zip(found.pop().indices, out.indices,
                                            total.buffers[0].shape, strict=True))


def tiled_work(program: Program, product: TiledProduct, tiles: GpuTiles = GpuTiles()) -> TiledWork:
    """The work that there is to do."""
    cuts = _cuts(product, tiles)
    blocks = prod(-(-extent // cuts[place].block) if place in cuts else extent
                  for place, extent in enumerate(product.extents))
    terms = [loop.extent for loop in loops_around(program, product.sum)
             if loop.var in product.sum.axes]
    chunk = terms.pop(product.chunk)
    each = tiles.terms if chunk > tiles.terms else 1
    return TiledWork(prod(product.extents), blocks, cuts[product.rows].block,
                prod(cuts[place].block for place in product.pixels), QUARTERS, -(-chunk // each),
                each * prod(terms), rates=BY_THREADS)


def tile_product(s: Schedule, product: TiledProduct, tiles: GpuTiles = GpuTiles(),
                 parts: Parts = WHOLE) -> None:
    """Applies the schedule above. With `parts` the tiles are of partial sums, which the stage of
    the sum adds: it is left to be scheduled. Raises ScheduleError for tiles that the program does
    not allow.
    """
    out, total = s.program.outputs[0].name, product.sum.buffers[0].name
    update, cuts = write_of(s.program, total), _cuts(product, tiles)
    assert isinstance(update, Update)
    wide = _wide(s, update, product, cuts, tiles, parts)
    operands = [widened(s, read.buffer, total, wide) for read in product.operands]
    chunk = update.axes[product.chunk].name
    if chunk in wide:
        s.apply(pad, chunk, wide[chunk])
    if parts != WHOLE:
        out = total = divide(s, total, (), chunk, parts)
        product, cuts = _of_parts(product, parts, cuts)
    total = sums_in(s, out, total, "local")
    update = write_of(s.program, total)
    assert isinstance(update, Update)
    elements = [index.name for index in update.indices if isinstance(index, Var)]
    for place, cut in cuts.items():
        padded(s, elements[place], cut.block)
    tx, inside = _cut_result(s, out, product, cuts)
    s[total].compute_at(tx)
    for place, cut in cuts.items():
        padded(s, elements[place], cut.thread)      # where it is all that the result needs
    _bind_result(s, out, product, tx)
    tile_terms(s, total, product.chunk, operands, tiles)
    for loop in inside:
        s[total].unroll(loop)


def tile_terms(s: Schedule, total: str, place: int, operands: Sequence[str], tiles: GpuTiles,
               name: str = "k") -> None:
    """Sums a tile of the registers of each thread over chunks of the reduction axis at a place,
    whose parts of operands all threads of the block copy. Loops over chunks begin with the name.
    """
    update = write_of(s.program, total)
    assert isinstance(update, Update)
    elements = [index.name for index in update.indices if isinstance(index, Var)]
    chunk, axes = _cut_terms(s, total, update, place, tiles.terms, name)
    s[total].reorder(chunk, *axes, *elements)
    for name in operands:
        s[name].set_scope("shared")
        s[name].compute_at(chunk)
        _copy_together(s, name, tiles)
    count = prod(extent_of(s, loop) for loop in elements)
    for loop in elements:
        s[total].unroll(loop)
    for axis in reversed(axes):
        count *= extent_of(s, axis)
        if count > UNROLLED:
            break
        s[total].unroll(axis)


def shared_bytes(s: Schedule) -> int:
    return sum(stage.buffer.size_bytes for stage in stages(s.program)
               if stage.buffer.scope == "shared")


def _wide(s: Schedule, update: Update, product: TiledProduct, cuts: Mapping[int, "_Cut"],
          tiles: GpuTiles, parts: Parts) -> dict[str, int]:
    """The extents of the loops that are cut, as whole blocks and chunks need them."""
    wide = {index.name: _multiple(product.extents[place], cuts[place].block)
            for place, index in enumerate(update.indices) if place in cuts
            and isinstance(index, Var)}
    chunk = update.axes[product.chunk].name
    multiple = parts.depth * (tiles.terms if extent_of(s, chunk) > tiles.terms else 1)
    if extent_of(s, chunk) % multiple:
        wide[chunk] = _multiple(extent_of(s, chunk), multiple)
    return wide


def _of_parts(product: TiledProduct, parts: Parts, cuts: Mapping[int, "_Cut"]
              ) -> tuple[TiledProduct, dict[int, "_Cut"]]:
    """The product whose results are partial sums, and its cuts: parts are the first axis of these.
    """
    return (replace(product, extents=(parts.depth, *product.extents), rows=product.rows + 1,
                    pixels=tuple(place + 1 for place in product.pixels)),
            {place + 1: cut for place, cut in cuts.items()})


class _Cut(NamedTuple):
    """The share of an axis that a block has, and each of its threads."""

    block: int
    thread: int


def _cuts(product: TiledProduct, tiles: GpuTiles) -> dict[int, _Cut]:
    """The cut of rows and of pixels, by their place."""
    def cut(extent: int, threads: int, each: int) -> _Cut:
        each = min(each, extent)
        return _Cut(min(threads * each, _multiple(extent, each)), each)

    extents, *above, column = product.extents, *product.pixels
    cuts = {product.rows: cut(extents[product.rows], tiles.rows, tiles.thread_rows)}
    if above:
        each = part_of(extents[above[0]], tiles.thread_pixels)
        return cuts | {above[0]: _Cut(each, each),
                       column: _Cut(part_of(extents[column], tiles.columns), 1)}
    return cuts | {column: cut(extents[column], tiles.columns, tiles.thread_pixels)}


def _multiple(extent: int, of: int) -> int:
    return extent + -extent % of


def widened(s: Schedule, operand: Buffer, total: str, wide: Mapping[str, int]) -> str:
    """The stage of an operand, as wide as the sum with loops of these extents reads it, so that no
    thread asks whether an element is there.
    """
    name = operand.name
    if operand in s.program.inputs:
        name = s[name].cache_read("global", name=f"{name}_shared").name
    update = write_of(s.program, total)
    read = next(read for read in reads(update) if read.buffer.name == name)
    extents = {loop.var: wide.get(loop.var.name, loop.extent)
               for loop in loops_around(s.program, update)}
    store = write_of(s.program, name)
    for index, loop in zip(read.indices, store.indices, strict=True):
        span = interval(linear(index, extents), extents)
        if span is not None and isinstance(loop, Var) and span[1] >= extent_of(s, loop.name):
            s.apply(pad, loop.name, span[1] + 1)
    return name


def _cut_result(s: Schedule, out: str, product: TiledProduct, cuts: Mapping[int, _Cut]
                ) -> tuple[str, list[str]]:
    """Cuts rows and columns; returns the loop of threads along columns and the loops inside."""
    stage, names = s[out], maps(s.program, write_of(s.program, out))
    for place, cut in cuts.items():
        padded(s, names[place], cut.block)
    row, column = names[product.rows], names[product.pixels[-1]]
    outer, inner = stage.split(row, cuts[product.rows].block, "row_block", "row")
    _, each = stage.split(inner, cuts[product.rows].thread, "ty_", "row_in")
    blocks = [outer]
    cut = cuts[product.pixels[-1]]
    if len(product.pixels) == 2:
        above = product.pixels[0]
        over, pixel = stage.split(names[above], cuts[above].block, "line_block", "pixel")
        across, tx = stage.split(column, cut.block, "column_block", "tx_")
        blocks += [over, across]
    else:
        across, inner = stage.split(column, cut.block, "column_block", "column")
        tx, pixel = stage.split(inner, cut.thread, "tx_", "pixel")
        blocks.append(across)
    others = [name for place, name in enumerate(names)
              if place != product.rows and place not in product.pixels]
    stage.reorder(*others, *blocks, "ty_", tx, each, pixel)
    return tx, [each, pixel]


def _bind_result(s: Schedule, out: str, product: TiledProduct, tx: str) -> None:
    names = maps(s.program, write_of(s.program, out))
    first = names.index("row_block")
    rows = fused(s, out, names[:first + 1], "rows_block")
    columns = fused(s, out, names[first + 1:names.index("ty_")], "pixels_block")
    for loop, axis in ((rows, "blockIdx.y"), (columns, "blockIdx.x"), ("ty_", "threadIdx.y"),
                       (tx, "threadIdx.x")):
        s[out].bind(loop, axis)


def _cut_terms(s: Schedule, total: str, update: Update, chunk: int, terms: int, name: str
               ) -> tuple[str, list[str]]:
    """The loop over chunks, and the reduction loops inside."""
    axes = [axis.name for axis in update.axes]
    if extent_of(s, axes[chunk]) <= terms:          # a chunk is one of its terms
        return axes[chunk], [*axes[:chunk], *axes[chunk + 1:]]
    outer, axes[chunk] = s[total].split(axes[chunk], terms, f"{name}_block", f"{name}_in")
    return outer, axes


def _copy_together(s: Schedule, stage: str, tiles: GpuTiles) -> None:
    """All threads of a block fill the stage, each an element in turns: all of its loops as one, or
    where guards lie between them its two longest.
    """
    write = write_of(s.program, stage)
    names = [loop.var.name for loop in loops_around(s.program, write) if loop.var in write.indices]
    program, count = s.program, len(s.steps)
    try:
        loop = fused(s, stage, names, f"{stage}_copy")
        rows, loop = s[stage].split(loop, min(tiles.columns, extent_of(s, loop)))
    except ScheduleError:
        s.program = program
        del s.steps[count:]
        rows, loop = sorted(sorted(names, key=lambda name: -extent_of(s, name))[:2],
                            key=names.index)
        if extent_of(s, loop) > tiles.columns:
            loop = s[stage].split(loop, tiles.columns)[1]
    if extent_of(s, rows) > tiles.rows:
        rows = s[stage].split(rows, tiles.rows)[1]
    s[stage].bind(rows, "threadIdx.y")
    s[stage].bind(loop, "threadIdx.x")


def part_of(extent: int, most: int) -> int:
    """The number of them in a tile: `most`, or fewer so that tiles are of one size."""
    return -(-extent // -(-extent // most))
