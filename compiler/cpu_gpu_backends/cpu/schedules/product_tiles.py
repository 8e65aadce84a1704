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
(`cpu.schedules.byte_groups`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.cpu_gpu_backends.cpu.schedules.block_tiles import BlockTile, best_tile
from compiler.cpu_gpu_backends.cpu.schedules.byte_groups import (add_groups, order_groups,
                                                                  together_in)
from compiler.cpu_gpu_backends.cpu.schedules.row_tiles import (axes_of, copy_by_vectors, extents_of,
                                                               keep_in_registers, sum_apart,
                                                               the_sum)
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.ir import Program, Update, reads
from compiler.ops.records.blocks import LANES, blocks_of
from compiler.schedule import Schedule
from compiler.te import Read, Var
from compiler.tune.chooser import OWN, Chooser


@dataclass(frozen=True, slots=True)
class ResultTiles:
    """The loops over the tiles of a result `out`, which has so many rows and columns, and over the
    rows, blocks and lanes of a tile.
    """

    out: str
    extents: tuple[int, int]
    columns: str
    rows: str
    row: str
    block: str
    lane: str

    @staticmethod
    def of_output(s: Schedule, total: str, update: Update, weight: Read, size: BlockTile,
                  chooser: Chooser = OWN) -> "ResultTiles":
        """The tiles of the program's output, each column of tiles at once unless every matrix has
        weights of its own.
        """
        out = s.program.outputs[0].name
        *outer, row, column = axes_of(s.program, out)
        inside = chooser.one_of("columns of tiles", ("outside", "inside")) == "inside"
        return ResultTiles.cut(s, out, total, size, outer, row, column,
                               one_by_one=has_matrices(update, weight), columns_inside=inside)

    @staticmethod
    def cut(s: Schedule, out: str, total: str, size: BlockTile, outer: Sequence[str], row: str,
            column: str, one_by_one: bool = True, columns_inside: bool = False) -> "ResultTiles":
        """Computes the stage `total` for each tile of rows and of whole blocks of columns of the
        stage `out`, whose matrices are done one by one, or the same column of tiles of each; or,
        with `columns_inside`, all columns of a row of tiles before the next row.
        """
        extents = extents_of(s.program)
        rows, columns = (extents[Var(loop)] for loop in (row, column))
        if columns % LANES:
            s[total].pad(axes_of(s.program, total)[-1], LANES * blocks_of(columns))
        column_o, column_i = s[out].split(column, size.blocks * LANES)
        block, lane = s[out].split(column_i, LANES)
        rows_o, rows_i = s[out].split(row, size.pixels)
        around = ((*outer, rows_o, column_o) if columns_inside else
                  (*outer, column_o, rows_o) if one_by_one else (column_o, *outer, rows_o))
        s[out].reorder(*around, rows_i, block, lane)
        s[total].compute_at(around[-1])
        return ResultTiles(out, (rows, columns), column_o, rows_o, rows_i, block, lane)

    def finish(self, s: Schedule, size: BlockTile) -> None:
        """Stores vectors. What is left behind the last whole tiles stands by itself."""
        rows, columns = self.extents
        s[self.out].vectorize(self.lane)
        if rows % size.pixels:
            s[self.out].peel(self.rows)
        if columns % (size.blocks * LANES) and columns > size.blocks * LANES:
            s[self.out].peel(self.columns, "beside")

    def in_registers(self, s: Schedule, total: str, reduced: Sequence[str],
                     size: BlockTile) -> None:
        """Sums up a tile in vector registers, term by term, and finishes."""
        *outer, row, column = axes_of(s.program, total)
        _, inner = s[total].split(column, LANES)
        keep_in_registers(s, total, reduced, [*outer, row, f"{column}_o", inner])
        for loop in (self.row, self.block):
            s[self.out].unroll(loop)
        self.finish(s, size)


def tile_products(program: Program, vectors: Vectors, chooser: Chooser = OWN) -> Schedule | None:
    """Applies the schedule above; None where the program is no such product.

    The terms of each element are added in their original order.
    """
    found, extents = the_sum(program), extents_of(program)
    if found is None:
        return None
    update, axes = found
    if len(axes) < 2 or len(update.axes) != 1 + (together_in(update) > 0):
        return None
    weight = packed_weight_of(update, axes[-1])
    if weight is None:
        return None
    rows, columns = (extents[axis] for axis in axes[-2:])
    tile = tile_of_rows(rows, columns, vectors, together_in(update), chooser)
    return _tiled(program, update, weight, tile, vectors, chooser)


def tile_of_rows(rows: int, columns: int, vectors: Vectors, together: int = 0,
                 chooser: Chooser = OWN) -> BlockTile:
    """The best tile of so many rows and columns; no wider than these."""
    tile = best_tile(rows, blocks_of(columns), vectors, together, chooser)
    return (tile if tile.blocks * LANES <= columns
            else best_tile(rows, 1, vectors, together, chooser))


def has_matrices(update: Update, weight: Read) -> bool:
    """True if every matrix has weights of its own, else there is one for all."""
    return len(weight.indices) > 2 + len(update.axes)


def packed_weight_of(update: Update, column: Var) -> Read | None:
    """The operand with columns in blocks."""
    return next((read for read in reads(update) if _is_packed(read, column, update.axes)), None)


def _is_packed(read: Read, column: Var, over: Sequence[Var]) -> bool:
    """True if it is a weight with columns in blocks, steps in groups perhaps."""
    place = (column // LANES, over[0], column % LANES, *over[1:])
    return read.buffer.shape[1 - len(place):][1:2] == (LANES,) and (
        read.indices[-len(place):] == place)


def _tiled(program: Program, update: Update, weight: Read, size: BlockTile, vectors: Vectors,
           chooser: Chooser) -> Schedule:
    s = Schedule(program)
    total = sum_apart(s, update)
    tiles = ResultTiles.of_output(s, total, update, weight, size, chooser)
    reduced = [var.name for var in update.axes]
    if len(reduced) == 1:
        tiles.in_registers(s, total, reduced, size)
        return s
    *outer, row, column = axes_of(s.program, total)
    _, inner = s[total].split(column, LANES)
    order_groups(s, total, update, [*outer, row, f"{column}_o", inner])
    for copy in {read.buffer.name for read in reads(update)} - {
            buffer.name for buffer in program.inputs}:
        copy_by_vectors(s, copy, 1, vectors.lanes)
    for loop in (tiles.row, tiles.block):
        s[tiles.out].unroll(loop)
    tiles.finish(s, size)
    add_groups(s, inner, vectors.dot(update))
    return s
