"""Attention as one kernel: a block has some rows of scores of one head in shared memory.

::

    for others, rows (blockIdx.y):
      alloc shared scores[rows, columns], top[rows], total[rows]
      for j_block:                                    tiles of all columns
        scores[i, j] = f(sum of x[i, k] * keys[k, j])
      for i: top[i] = max of scores[i, j]             a warp has some of the rows
      for i: total[i] = sum of exp(scores[i, j] - top[i])
      for j_o:                                        a chunk of the columns
        alloc shared w[rows, chunk], values[chunk, width]
        w[i, j] = exp(scores[i, j] - top[i]) / total[i]
        y[i, c] += w[i, j] * values[j, c]

Products are those of `tiles.py`: operands in shared memory, a tile of sums in the registers of each
thread. What maps between them is computed where it is read, the powers of softmax twice. Elements
are computed by the operations of the kernels that it takes the place of; only sums along rows are
in another order. The scores of all heads would go out to memory and come back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from compiler.cpu_gpu_backends.gpu.parts import MULTIPROCESSORS
from compiler.cpu_gpu_backends.gpu.stages import (extent_of, fused, inline_copies,
                                                  loops_around, padded, readers, stages, write_of,
                                                  writes_in)
from compiler.cpu_gpu_backends.gpu.shared_tiles import (GpuTiles, TiledProduct, part_of,
                                                        tile_product, tile_terms, widened)
from compiler.ir import Program, Store, Update, Write, free_variables, reads
from compiler.schedule import Schedule, pad
from compiler.te import Binary, Buffer, Var, walk

WARP = 32
WARPS = 4                   # of a block: each has the same rows of all stages
ROWS = 32, 16, 8            # of a block, the most for which there is room
PIXELS = 4                  # columns of scores of a thread, at most
SUMS = 24                   # in the registers of a thread
TERMS = 8                   # of a product that are in shared memory at once
WIDEST = 256                # columns of the result: each thread has one in 32
LONGEST = 1000              # parts of expressions when what maps is inlined
GAP = 32, 4                 # rows of keys begin the second after multiples of the first
MOST_BLOCKS = 65535         # along y of a grid
COPIED = 8                  # rows that take as long as the copies of operands


@dataclass(frozen=True, slots=True)
class Attention:
    """The stages of a program: the sum of the scores, what is computed from it element by element
    and stored, reductions of its rows, the weights that the last sum reads, and that sum.
    """

    first: Update
    scores: str
    rows: tuple[str, ...]
    weights: str
    last: Update

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows and columns of the scores, and columns of the result."""
        rows, columns = self.first.buffer.shape[-2:]
        return rows, columns, self.width

    @property
    def width(self) -> int:
        """Columns of the result."""
        return self.last.buffer.shape[-1]

    def blocks(self, rows: int) -> int:
        """The number of blocks of so many rows."""
        *heads, count, _ = self.first.buffer.shape
        return prod(heads) * -(-count // rows)


def attention_of(s: Schedule) -> Attention | None:
    """The stages of two products with functions of rows between, after what maps is inlined; None
    where the program is another.
    """
    if len(_sums(s.program)) < 3 or len(s.program.outputs) != 1:
        return None
    inline_copies(s)
    first, *_, last = _sums(s.program)
    own = [stage.buffer for stage in stages(s.program)]
    weights = [read.buffer for read in reads(last) if read.buffer in own]
    if (len(weights) != 1 or not _is_product(first) or not _is_product(last, weights[0])
            or any(read.buffer in own for read in reads(first))
            or not _store_in_order(s, last)):
        return None
    scores = _scores(s, first, weights[0])
    for stage in reversed(own):
        if isinstance(write_of(s.program, stage.name), Store) and stage.name not in (
                scores, weights[0].name):
            s[stage.name].compute_inline()
            if _size(s.program) > LONGEST:
                return None
    between = [write for write in writes_in(s.program)
               if write.buffers[0].name not in (sum_of(s.program, scores), scores,
                                                weights[0].name, last.buffer.name,
                                                s.program.outputs[0].name)]
    if not between or not all(_is_of_rows(write, first.buffer) for write in between):
        return None
    return Attention(first, scores, tuple(write.buffers[0].name for write in between),
                     weights[0].name, last)


def _store_in_order(s: Schedule, last: Update) -> bool:
    """Lets the result be stored in the order of its sums, wherever its elements lie; whether it is
    computed from them element by element.
    """
    out = s.program.outputs[0]
    write = write_of(s.program, out.name)
    if write.buffers == last.buffers:
        return True
    places = {read.indices for read in reads(write) if read.buffer == last.buffer}
    extents = {loop.var: loop.extent for loop in loops_around(s.program, write)}
    if not isinstance(write, Store) or len(places) != 1 or set(write.indices) != set(extents):
        return False
    place, = places
    order = [index for index in place if isinstance(index, Var)]
    rest = [var for var in extents if var not in order]
    if any(extents[var] != 1 for var in rest) or len(set(order)) + len(rest) != len(place):
        return False
    for at, index in enumerate(place):
        if not isinstance(index, Var):
            order.insert(at, rest.pop(0))
    if tuple(extents[var] for var in order) != last.buffer.shape:
        return False
    if order != list(extents):
        s[out.name].reorder(*(var.name for var in order))
    return True


def _sums(program: Program) -> list[Update]:
    return [write for write in writes_in(program) if isinstance(write, Update)]


def _scores(s: Schedule, first: Update, weights: Buffer) -> str:
    """The stage that has the scores, computed from their sums element by element."""
    sums = next(stage for stage in stages(s.program) if stage.buffer == first.buffer)
    reading = readers(s.program, sums)
    if len(reading) == 1 and isinstance(reading[0], Store) and reading[0].buffer != weights and (
            _is_map(s.program, first, reading[0].buffer)):
        return reading[0].buffer.name
    s[first.buffer.name].cache_write("local", name=f"{first.buffer.name}_sum")
    return first.buffer.name


def sum_of(program: Program, scores: str) -> str:
    """The sum that the scores are computed from."""
    own = {stage.buffer for stage in stages(program)}
    return next(read.buffer.name for read in reads(write_of(program, scores))
                if read.buffer in own)


def _is_product(update: Update, left: Buffer | None = None) -> bool:
    """True if it is a product of rows of one operand, `left` if that is given, and columns of
    another one.
    """
    match update:
        case Update(op="sum", axes=(axis,), value=Binary("mul")) if (
                update.buffer.dtype == "float32" and len(update.indices) > 1):
            operands = list(dict.fromkeys(reads(update)))
        case _:
            return False
    if len(operands) != 2 or operands[0].buffer == operands[1].buffer or not all(
            isinstance(index, Var) for index in update.indices):
        return False
    *_, row, column = update.indices
    rows, columns = operands
    if column in rows.indices:
        rows, columns = columns, rows
    return (row in rows.indices and column not in rows.indices and column in columns.indices
            and row not in columns.indices and axis in rows.indices and axis in columns.indices
            and (left is None or rows.buffer == left and rows.indices[-2:] == (row, axis)))


def _is_map(program: Program, total: Update, out: Buffer) -> bool:
    """True if a stage is computed from the sum element by element, or is the sum."""
    write = write_of(program, out.name)
    if write.buffers == total.buffers:
        return True
    places = [read.indices for read in reads(write) if read.buffer == total.buffer]
    return (isinstance(write, Store) and out.shape == total.buffer.shape and len(places) > 0
            and all(isinstance(index, Var) for index in write.indices)
            and all(index == own or extent == 1 for indices in places for index, own, extent in zip(
                indices, write.indices, out.shape, strict=True)))


def _is_of_rows(write: Write, scores: Buffer) -> bool:
    """True if it reduces rows of scores."""
    return (isinstance(write, Update) and len(write.axes) == 1
            and write.buffer.shape == (*scores.shape[:-1], 1))


def _size(program: Program) -> int:
    return sum(1 for write in writes_in(program) for value in write.values for _ in walk(value))


def rows_of(attention: Attention) -> Sequence[int]:
    """The rows that blocks may have, from the best down: few blocks leave a GPU idle, and all of
    them read all keys and values.
    """
    def cost(rows: int) -> int:
        return -(-attention.blocks(rows) // MULTIPROCESSORS) * (rows + COPIED)
    pixels = -(-attention.width // WARP)
    return sorted((rows for rows in ROWS if rows // WARPS * pixels <= SUMS
                   and attention.blocks(rows) <= MOST_BLOCKS), key=cost)


def widen_rows(s: Schedule, attention: Attention, rows: int) -> None:
    """Pads the rows of scores and of what reduces them, so that blocks have whole ones."""
    for stage in (attention.scores, *attention.rows):
        padded(s, axes_of(write_of(s.program, stage))[-2], rows)


def place_stages(s: Schedule, attention: Attention, rows: int, warps: Sequence[int]) -> None:
    """Computes scores and what reduces their rows in the blocks of the result, whose so many warps
    along y and z have as many rows each.
    """
    out = write_of(s.program, s.program.outputs[0].name)
    block = next(loop.var.name for loop in loops_around(s.program, out)
                 if loop.kind == "blockIdx.x")
    for stage in reversed((attention.scores, *attention.rows)):
        s[stage].set_scope("shared")
        s[stage].compute_at(block)
    for stage in attention.rows:
        _reduce(s, stage, rows // prod(warps), warps)


def _reduce(s: Schedule, stage: str, rows: int, warps: Sequence[int]) -> None:
    """A warp reduces so many rows, one after the other."""
    write = write_of(s.program, stage)
    assert isinstance(write, Update)
    lane = write.axes[0].name
    warp, row = s[stage].split(fused(s, stage, axes_of(write)), rows)
    if extent_of(s, lane) > WARP:
        outer, lane = s[stage].split(lane, WARP)
        s[stage].reorder(lane, outer, reassociate=True)
    if len(warps) > 1:
        across, warp = s[stage].split(warp, warps[0])
        s[stage].bind(across, "threadIdx.z")
    s[stage].bind(warp, "threadIdx.y")
    s[stage].bind(lane, "threadIdx.x", reassociate=True)
    s[stage].unroll(row)


def tile_attention(s: Schedule, attention: Attention, rows: int) -> None:
    """Applies the schedule above. Raises ScheduleError where the program does not allow it."""
    scores = attention.scores
    total = sum_of(s.program, scores)
    _, columns, width = attention.shape
    pixels = part_of(-(-columns // WARP), min(PIXELS, SUMS * WARPS // rows))
    tiles = GpuTiles(WARPS, WARP, rows // WARPS, pixels, TERMS)
    operands = _widen(s, total, attention.first, rows, pixels * WARP)
    widen_rows(s, attention, rows)
    s[total].set_scope("local")
    tile_product(s, _last_product(s, attention, rows), GpuTiles(
        WARPS, WARP, rows // WARPS, -(-width // WARP), TERMS))
    place_stages(s, attention, rows, (WARPS,))
    _tile_scores(s, scores, total, operands, tiles)


def _widen(s: Schedule, total: str, first: Update, rows: int, columns: int) -> list[str]:
    """Pads the scores' sums to whole tiles; returns the stages of their operands."""
    update = write_of(s.program, total)
    assert isinstance(update, Update)
    *_, row, column = axes_of(update)
    depth = update.axes[0].name
    wide = {name: extent_of(s, name) + -extent_of(s, name) % multiple
            for name, multiple in ((row, rows), (column, columns), (depth, TERMS))}
    operands = [widened(s, read.buffer, total, wide) for read in dict.fromkeys(reads(first))]
    for loop, extent in wide.items():
        s.apply(pad, loop, extent)
    return operands


def _last_product(s: Schedule, attention: Attention, rows: int) -> TiledProduct:
    last = attention.last
    *others, count, width = last.buffer.shape
    rank = len(last.indices)
    weights, values = sorted(dict.fromkeys(reads(last)),
                             key=lambda read: read.buffer.name != attention.weights)
    return TiledProduct(last, (*others, count + -count % rows, width), rank - 2, (rank - 1,), 0,
                        (weights, values))


def _tile_scores(s: Schedule, scores: str, total: str, operands: list[str], tiles: GpuTiles
                 ) -> None:
    """Cuts the scores of a block into tiles, one after the other along the columns."""
    stage = s[scores]
    *others, row, column = axes_of(write_of(s.program, scores))
    padded(s, column, tiles.columns * tiles.thread_pixels)
    warp, row = stage.split(row, tiles.thread_rows)
    block, column = stage.split(column, tiles.columns * tiles.thread_pixels)
    lane, pixel = stage.split(column, tiles.thread_pixels)
    stage.reorder(*others, block, warp, lane, row, pixel)
    s[total].compute_at(lane)
    *_, down, across = axes_of(write_of(s.program, total))
    padded(s, down, tiles.thread_rows)
    padded(s, across, tiles.thread_pixels)
    stage.bind(warp, "threadIdx.y")
    stage.bind(lane, "threadIdx.x")
    tile_terms(s, total, 0, operands, tiles, "depth")
    for loop in (row, pixel):
        stage.unroll(loop)
    _turn_keys(s, total, across)


def _turn_keys(s: Schedule, total: str, across: str) -> None:
    """Lets keys that lie with their depth last have neighbours beside each other, in rows that
    begin in different banks.
    """
    for read in dict.fromkeys(reads(write_of(s.program, total))):
        places = [place for place, index in enumerate(read.indices)
                  if any(var.name == across for var in free_variables(index))]
        rank = len(read.indices)
        if places and places[0] < rank - 1:
            order = [*(d for d in range(rank) if d != places[0]), places[0]]
            name = read.buffer.name
            s[name].transform_layout(f"{', '.join(f'd{d}' for d in range(rank))} -> "
                                     f"{', '.join(f'd{d}' for d in order)}")
            s[name].storage_align(rank - 2, *GAP)


def axes_of(write: Write) -> list[str]:
    """The loops over the elements of a stage."""
    return [index.name for index in write.indices if isinstance(index, Var)]
