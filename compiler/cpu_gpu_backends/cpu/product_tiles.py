"""The schedule of products with packed matrices.

::

    for n_o, m_o:                                  one tile of the result: rows by blocks of columns
      alloc acc[rows, blocks, 16]                  which stays in vector registers
      for k:
        for m_i, b (unroll), c (vectorize):
          acc[m_i, b, c] += x[m_o*rows + m_i, k] * w[n_o*blocks + b, k, c]
      for m_i, b (unroll), c (vectorize):
        y[...] = everything that follows, of acc[m_i, b, c]

Rows that are left behind the last whole tile are a smaller tile of their own (`peel`), and so are
columns, of which whole blocks are computed. Where there is a matrix for each n, m and so on, all of
one is done first. Of bytes, an instruction adds the products of four steps at once
(`cpu.byte_groups`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.cpu_gpu_backends.cpu.block_tiles import BlockTile, best_tile
from compiler.cpu_gpu_backends.cpu.byte_groups import add_groups, order_groups, sums_bytes
from compiler.cpu_gpu_backends.cpu.tiles import (Vectors, axes_of, copy_by_vectors, extents_of,
                                                 keep_in_registers, sum_apart, the_sum)
from compiler.ir import Program, Update, reads
from compiler.ops.blocks import LANES, blocks_of
from compiler.schedule import Schedule
from compiler.te import Read, Var

__all__ = ["ResultTiles", "packed_weight_of", "tile_products"]


@dataclass(frozen=True, slots=True)
class ResultTiles:
    """The loops over the tiles of a result, and over the rows, blocks and lanes of a tile."""

    columns: str
    rows: str
    row: str
    block: str
    lane: str

    @staticmethod
    def cut(s: Schedule, total: str, update: Update, weight: Read,
            size: BlockTile) -> "ResultTiles":
        """Computes the stage `total` for each tile of rows and of whole blocks of columns, each
        column of tiles at once unless every matrix has weights of its own.
        """
        out = s.program.outputs[0].name
        *outer, row, column = axes_of(s.program, out)
        columns = extents_of(s.program)[Var(column)]
        if columns % LANES:
            s[total].pad(axes_of(s.program, total)[-1], LANES * blocks_of(columns))
        column_o, column_i = s[out].split(column, size.blocks * LANES)
        block, lane = s[out].split(column_i, LANES)
        rows_o, rows_i = s[out].split(row, size.pixels)
        matrices = len(weight.indices) > 2 + len(update.axes)       # else one for all
        s[out].reorder(*((*outer, column_o) if matrices else (column_o, *outer)), rows_o, rows_i,
                       block, lane)
        s[total].compute_at(rows_o)
        return ResultTiles(column_o, rows_o, rows_i, block, lane)

    def finish(self, s: Schedule, size: BlockTile) -> None:
        """Stores vectors. What is left behind the last whole tiles stands by itself."""
        out = s.program.outputs[0]
        rows, columns = (int(extent) for extent in out.shape[-2:])
        s[out.name].vectorize(self.lane)
        if rows % size.pixels:
            s[out.name].peel(self.rows)
        if columns % (size.blocks * LANES) and columns > size.blocks * LANES:
            s[out.name].peel(self.columns, "beside")


def tile_products(program: Program, vectors: Vectors) -> Schedule | None:
    """Applies the schedule above; None where the program is no such product.

    The terms of each element are added in their original order.
    """
    found, extents = the_sum(program), extents_of(program)
    if found is None:
        return None
    update, axes = found
    if len(axes) < 2 or len(update.axes) != 1 + sums_bytes(update):
        return None
    weight = packed_weight_of(update, axes[-1])
    if weight is None:
        return None
    rows, columns = (extents[axis] for axis in axes[-2:])
    tile = best_tile(rows, blocks_of(columns), vectors, len(update.axes) == 2)
    if tile.blocks * LANES > columns:
        tile = best_tile(rows, 1, vectors, len(update.axes) == 2)
    return _tiled(program, update, weight, tile, vectors)


def packed_weight_of(update: Update, column: Var) -> Read | None:
    """The operand with columns in blocks."""
    return next((read for read in reads(update) if _is_packed(read, column, update.axes)), None)


def _is_packed(read: Read, column: Var, over: Sequence[Var]) -> bool:
    """Whether it is a weight with columns in blocks, steps in groups perhaps."""
    place = (column // LANES, over[0], column % LANES, *over[1:])
    return read.buffer.shape[1 - len(place):][1:2] == (LANES,) and (
        read.indices[-len(place):] == place)


def _tiled(program: Program, update: Update, weight: Read, size: BlockTile,
           vectors: Vectors) -> Schedule:
    s, out = Schedule(program), program.outputs[0].name
    total = sum_apart(s, update)
    tiles = ResultTiles.cut(s, total, update, weight, size)
    *outer, row, column = axes_of(s.program, total)
    _, inner = s[total].split(column, LANES)
    tile, reduced = [*outer, row, f"{column}_o"], [var.name for var in update.axes]
    if len(reduced) == 2:
        order_groups(s, total, update, [*tile, inner])
        for copy in {read.buffer.name for read in reads(update)} - {
                buffer.name for buffer in program.inputs}:
            copy_by_vectors(s, copy, 1, vectors.lanes)
    else:
        keep_in_registers(s, total, reduced, [*tile, inner])
    for loop in (tiles.row, tiles.block):
        s[out].unroll(loop)
    tiles.finish(s, size)
    if len(reduced) == 2:
        add_groups(s, inner, vectors.dot)
    return s
