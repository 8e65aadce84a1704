"""The schedule of products with packed matrices.

::

    for n_o, m_o:                                  one tile of the result: rows by blocks of columns
      alloc acc[rows, blocks, 16]                  which stays in vector registers
      for k:
        for m_i, b (unroll), c (vectorize):
          acc[m_i, b, c] += x[m_o*rows + m_i, k] * w[n_o*blocks + b, k, c]
      for m_i, b (unroll), c (vectorize):
        y[...] = everything that follows, of acc[m_i, b, c]

Rows that are left behind the last whole tile are a smaller tile of their own (`peel`).
"""

from compiler.cpu_gpu_backends.cpu.block_tiles import BlockTile, best_tile
from compiler.cpu_gpu_backends.cpu.tiles import Vectors, axes_of, extents_of, sum_apart, the_sum
from compiler.ir import Program, Update, reads
from compiler.ops.blocks import LANES
from compiler.schedule import Schedule
from compiler.te import Read, Var

__all__ = ["tile_products"]


def tile_products(program: Program, vectors: Vectors) -> Schedule | None:
    """Applies the schedule above; None where the program is no such product.

    The terms of each element are added in their original order.
    """
    found, extents = the_sum(program), extents_of(program)
    if found is None:
        return None
    update, axes = found
    if len(axes) < 2 or len(update.axes) != 1 or not any(
            _is_packed(read, axes[-1], update.axes[0]) for read in reads(update)):
        return None
    tile = best_tile(extents[axes[-2]], extents[axes[-1]] // LANES, vectors)
    return _tiled(program, update, tile, extents[axes[-2]])


def _is_packed(read: Read, column: Var, depth: Var) -> bool:
    return (len(read.indices) == 3 and read.buffer.shape[-1] == LANES
            and read.indices == (column // LANES, depth, column % LANES))


def _tiled(program: Program, update: Update, tile: BlockTile, rows: int) -> Schedule:
    s, out = Schedule(program), program.outputs[0].name
    total = sum_apart(s, update)
    *outer, row, column = axes_of(s.program, out)
    blocks, columns = s[out].split(column, tile.blocks * LANES)
    block, lane = s[out].split(columns, LANES)
    rows_o, rows_i = s[out].split(row, tile.pixels)
    s[out].reorder(blocks, *outer, rows_o, rows_i, block, lane)
    s[total].compute_at(rows_o)
    *outer, row, column = axes_of(s.program, total)
    _, inner = s[total].split(column, LANES)
    s[total].reorder(update.axes[0].name, *outer, row, f"{column}_o", inner)
    for loop in (*outer, row, f"{column}_o"):
        s[total].unroll(loop)
    s[total].vectorize(inner)
    s[total].decompose_reduction(update.axes[0].name)
    for loop in (rows_i, block):
        s[out].unroll(loop)
    s[out].vectorize(lane)
    if rows % tile.pixels:
        s[out].peel(rows_o)
    return s
