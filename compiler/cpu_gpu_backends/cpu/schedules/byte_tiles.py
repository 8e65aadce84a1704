"""The schedule of sums of products of bytes in the tile registers of AMX.

::

    for n, b_o, h_o, w_o:                          one tile of the result: blocks by pixels
      alloc acc[blocks, rows, pixels, 16]
      byte_windows(acc, x, w)                      all terms, of registers that stay in place
      for b_i, h_i, w_i, c (vectorize):
        y[...] = everything that follows, of acc[b_i, h_i, w_i, c]

and likewise of rows of a matrix. Pixels, or rows, that are left behind the last whole tile are
computed as a whole one, in memory that the copy of the image has for it; rows of an image are not,
but make a tile of their own (`peel`). An estimate of time chooses the tile, and whether
instructions on vectors take less (`cpu.schedules.byte_groups`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from compiler.cpu_gpu_backends.cpu.schedules.block_tiles import BlockTile
from compiler.cpu_gpu_backends.cpu.schedules.byte_groups import (
    GROUP, copy_pixels, is_grouped, sums_bytes)
from compiler.cpu_gpu_backends.cpu.schedules.product_tiles import ResultTiles, packed_weight_of
from compiler.cpu_gpu_backends.cpu.schedules.row_tiles import (axes_of, copy_by_vectors, extents_of,
                                                               sum_apart, the_sum)
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.intrinsics.cpu import ByteRows, ByteWindows, step_of
from compiler.ir import Program, Update, free_variables, linear, loops, reads
from compiler.ops.records.blocks import LANES, blocks_of
from compiler.schedule import Schedule
from compiler.te import Var
from compiler.tune.chooser import OWN, Chooser

MOST_ROWS = 16
LATENCY = 52            # cycles from a product of tiles to the next one that adds to it
AROUND = 60             # cycles around a tile of the result
BY_VECTORS = 80         # products that instructions on vectors add in a cycle


@dataclass(frozen=True, slots=True)
class _Tile:
    """Blocks of the result, rows of an image, and pixels of a row, so many in a register."""

    blocks: int
    high: int
    wide: int
    rows: int

    def cycles(self, steps: int, step: int) -> int:
        """Cycles of one tile with so many steps; each step sums the products of so many bytes."""
        pixels = self.high * self.wide // self.rows
        registers = self.blocks * pixels
        loads = (pixels * self.rows + self.blocks * step // GROUP) // 2
        return (steps * max(registers * self.rows, loads, LATENCY)
                + registers * (MOST_ROWS // 2 + self.rows) + AROUND)


def tile_bytes(program: Program, vectors: Vectors, chooser: Chooser = OWN) -> Schedule | None:
    """Applies the schedule above; None where the program is no such sum, or vectors take less time.
    """
    found = the_sum(program) if vectors.tiles else None
    if found is None or not sums_bytes(found[0]):
        return None
    update, axes = found
    if len(axes) == 5 and len(update.axes) == 4 and is_grouped(update, axes[-1]):
        return _by_windows(program, update, axes, chooser)
    if len(update.axes) == 2 and len(axes) >= 2:
        return _by_rows(program, update, axes, vectors, chooser)
    return None


def _best(extents: tuple[int, int, int], terms: Sequence[int], most: int, chooser: Chooser
          ) -> _Tile | None:
    """The tile of least time for blocks, rows and columns of a result with so many terms each; None
    where vectors take less.
    """
    blocks, high, wide = extents
    step = step_of(terms[-1])
    steps = prod(terms) // step

    def time(tile: _Tile) -> int:
        return (blocks // tile.blocks * -(-high // tile.high) * -(-wide // tile.wide)
                * tile.cycles(steps, step))

    candidates = [_Tile(b, h, count * rows, rows) for b in range(1, most + 1) if blocks % b == 0
                  for h, count in ((1, 1), (1, 2), (2, 1)) if h <= high
                  for rows in range(1, MOST_ROWS + 1) if count * rows <= wide]
    by_vectors = prod(extents) * LANES * prod(terms) // BY_VECTORS
    costs = {"vectors": by_vectors, "tiles": min(map(time, candidates))}
    if chooser.one_of("bytes in", tuple(costs), costs.__getitem__) == "vectors":
        return None
    return chooser.one_of("tile", candidates, time)


def _by_windows(program: Program, update: Update, axes: list[Var], chooser: Chooser
                ) -> Schedule | None:
    extents = extents_of(program)
    x = next(read for read in reads(update) if read.buffer.dtype == "uint8")
    _, block, row, pixel, _ = axes
    y, v, k, _ = update.axes
    shared = not any(block in free_variables(index) for index in x.indices)
    terms = extents[y], extents[v], extents[k] * GROUP
    tile = _best((extents[block], extents[row], extents[pixel]), terms, 2 if shared else 1,
                 chooser)
    if tile is None:
        return None
    (down, apart), (right, beside) = (
        [dict(linear(index).terms).get(var, 0) for var in moving]
        for index, moving in zip(x.indices[-2:], ((row, y), (pixel, v)), strict=True))
    s, out = Schedule(program), program.outputs[0].name
    total = sum_apart(s, update)
    columns = extents[pixel]
    beyond = -columns % tile.wide
    copy = x.buffer.name
    if beyond:
        s[copy].pad(axes_of(s.program, copy)[-1], x.buffer.shape[-1] + beyond * right)
        s[total].pad(axes_of(s.program, total)[-2], columns + beyond)
    order, inside = axes_of(s.program, out), []
    for place, size in ((1, tile.blocks), (2, tile.high), (3, tile.wide)):
        order[place], name = s[out].split(order[place], size)
        inside.append(name)
    s[out].reorder(*order[:-1], *inside, order[-1])
    s[total].compute_at(order[-2])
    copy_pixels(s, copy)
    s[out].vectorize(order[-1])
    if beyond:
        s[out].peel(order[-2])
    if extents[row] % tile.high:
        s[out].peel(order[2], "below")
    first = axes_of(s.program, total)[1]
    for loop, (blocks, high, wide) in _nests(s, first, 3):
        s[total].tensorize(loop, ByteWindows(
            blocks, high, wide, tile.rows, terms[:2], terms[2], (down, right),
            (apart, beside)).intrinsic())
    return s


def _by_rows(program: Program, update: Update, axes: list[Var], vectors: Vectors,
             chooser: Chooser) -> Schedule | None:
    extents = extents_of(program)
    weight = packed_weight_of(update, axes[-1])
    if weight is None:
        return None
    rows, columns = (extents[axis] for axis in axes[-2:])
    depth = extents[update.axes[0]] * GROUP
    tile = _best((blocks_of(columns), 1, rows), (depth,), 2, chooser)
    if tile is None:
        return None
    s = Schedule(program)
    x = next(read for read in reads(update) if read.buffer.dtype == "uint8")
    copy, total = x.buffer.name, sum_apart(s, update)
    beyond = -rows % tile.wide
    if beyond:
        s[copy].pad(axes_of(s.program, copy)[-2], rows + beyond)
        s[total].pad(axes_of(s.program, total)[-2], rows + beyond)
    size = BlockTile(tile.blocks, tile.wide)
    tiles = ResultTiles.of_output(s, total, update, weight, size)
    names = axes_of(s.program, total)
    block_i, _ = s[total].split(names[-1], LANES)
    s[total].reorder(block_i, names[-2])
    letters = [f"i{place}" for place in range(len(names))]
    s[total].transform_layout(
        f"{', '.join(letters)} -> {', '.join(letters[:-2])}{', ' * (len(letters) > 2)}"
        f"{letters[-1]} // {LANES}, {letters[-2]}, {letters[-1]} % {LANES}")
    copy_by_vectors(s, copy, 1, vectors.lanes)
    tiles.finish(s, size)
    for loop, (count, high) in _nests(s, block_i, 2):
        s[total].tensorize(loop, ByteRows(count, high, tile.rows, depth).intrinsic())
    return s


def _nests(s: Schedule, first: str, depth: int) -> Iterable[tuple[str, list[int]]]:
    """The loops of that name, of the last tiles too, and the extents of so many from there on."""
    for loop in [node for node in loops(s.program.body)
                 if node.var.name == first or node.var.name.startswith(f"{first}_")]:
        extents = extents_of(s.program)
        yield loop.var.name, [extents[node.var] for node in list(loops(loop))[:depth]]
