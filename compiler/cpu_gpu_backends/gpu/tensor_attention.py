"""Attention as one kernel whose products tensor cores compute.

::

    for others (blockIdx.z), rows (blockIdx.y):
      alloc shared scores[rows, columns], top[rows], total[rows]
      for j_block:                                    tiles of all columns
        for wj (threadIdx.z), wi (threadIdx.y):       warps
          alloc fragment.t[16, 64]
          for step: t[i, j] += x[i, k] * keys[k, j]   operands as in `tensor_tiles.py`
          scores[i, j] = f(t[...])                    each thread what it holds
      for i: top[i] = max of scores[i, j]             a warp has some of the rows
      for i: total[i] = sum of exp(scores[i, j] - top[i])
      for wj (threadIdx.z), wi (threadIdx.y):
        alloc fragment.acc[16, 64]
        for step:                                     64 bytes of each row of the weights
          alloc shared w[rows, 32], values[32, width], swizzled
          w[i, j] = half(exp(scores[i, j] - top[i]) / total[i])
          acc[i, c] += w[i, j] * values[j, c]

Weights are rounded as those that would be stored. Rows of scores have 8 elements more than they
need, so that eight of them do not begin in one bank.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.cpu_gpu_backends.gpu.attention import (MOST_BLOCKS, Attention,
                                                     axes_of, place_stages, sum_of,
                                                     widen_rows)
from compiler.cpu_gpu_backends.gpu.parts import MULTIPROCESSORS
from compiler.cpu_gpu_backends.gpu.stages import loops_around, padded, write_of
from compiler.cpu_gpu_backends.gpu.tensor_tiles import (STEP_BYTES, TensorOperand, TensorProduct,
                                                        TensorTiles, cut_sum, dimensions_of,
                                                        factors_of, step_of, tile_steps,
                                                        tile_tensors)
from compiler.cpu_gpu_backends.gpu.shared_tiles import SHARED
from compiler.ir import Update, reads
from compiler.schedule import Schedule
from compiler.te import Read

WARPS = 4                   # of a block, at most
TILE = 16                   # rows of a warp, and columns that are loaded at once
WIDE = 4, 2, 1              # such tiles of columns of scores of a warp
WIDEST = 8                  # such tiles of columns of the result of a warp
STAGES = 2, 1               # tiles of operands that are in shared memory at once
GAP = 32, 8                 # rows of scores begin the second after multiples of the first
ROWS = 64, 32, 16           # of a block
COPIED = 64                 # rows that take as long as the copies of operands
UNHIDDEN = 1.3              # times as long where copies wait
BUSY = 12                   # warps that keep a multiprocessor busy
ROOM = 164 << 10            # bytes of shared memory of a multiprocessor of an A100


@dataclass(frozen=True, slots=True)
class TensorAttention:
    """The stages of attention, the `kind` of `MMA` of its products, and their operands, rows
    first.
    """

    stages: Attention
    kind: str
    first: tuple[Read, Read]
    last: tuple[Read, Read]

    def offered(self) -> Sequence[tuple[TensorTiles, TensorTiles]]:
        """Tiles of both products that fit, from the best down: of as many warps along the rows, and
        as many along the columns.
        """
        found = [tiles for rows in ROWS for stages in STAGES for warps in (4, 2, 1) for wide in WIDE
                 if (tiles := self._tiles(rows, warps, wide, stages)) and (
                     self._shared_bytes(*tiles) <= SHARED)
                 and self.stages.blocks(rows) <= MOST_BLOCKS]
        return sorted(found, key=lambda tiles: self._cost(*tiles))

    def _cost(self, first: TensorTiles, last: TensorTiles) -> float:
        """The work of a multiprocessor in sequence, more where it has few warps."""
        blocks = -(-self.stages.blocks(first.rows) // MULTIPROCESSORS)
        together = min(blocks, ROOM // self._shared_bytes(first, last))
        warps = together * first.rows // TILE * first.columns // first.warp_columns
        return (blocks * (first.rows + COPIED) * (UNHIDDEN if first.stages == 1 else 1)
                / min(1, warps / BUSY))

    def _tiles(self, rows: int, warps: int, wide: int, stages: int
               ) -> tuple[TensorTiles, TensorTiles] | None:
        """None where there are more warps than there is work for."""
        count, columns, width = (-(-extent // TILE) for extent in self.stages.shape)
        each = -(-_in_banks(width) // warps)
        if (rows // TILE * warps > WARPS or rows > TILE * count or -(-width // each) < warps
                or each > WIDEST or wide > 1 and warps * wide >= 2 * columns
                or warps > 1 and wide >= columns):
            return None
        return (TensorTiles(rows, warps * TILE * wide, TILE, TILE * wide, stages),
                TensorTiles(rows, warps * TILE * each, TILE, TILE * each, stages))

    def _shared_bytes(self, first: TensorTiles, last: TensorTiles) -> int:
        columns = self.stages.shape[1]
        columns += -columns % first.columns
        columns += (GAP[1] - columns) % GAP[0]
        reduced = len(self.stages.rows)
        return (4 * first.rows * (columns + reduced) + STEP_BYTES * first.stages * (
            first.rows + first.columns + last.rows + last.columns))


def _in_banks(tiles: int) -> int:
    """As many or a few more, of which rows can be swizzled."""
    return tiles if tiles < 3 else tiles + -tiles % 4


def tensor_attention_of(stages: Attention) -> TensorAttention | None:
    """The attention that tensor cores can compute; None where its products are others."""
    first, last = factors_of(stages.first), factors_of(stages.last)
    if first is None or last is None or first[0] != last[0]:
        return None
    row = stages.first.indices[-2]
    keys = sorted(first[1:], key=lambda read: row not in read.indices)
    values = sorted(last[1:], key=lambda read: read.buffer.name != stages.weights)
    return TensorAttention(stages, first[0], (keys[0], keys[1]), (values[0], values[1]))


def tile_tensor_attention(s: Schedule, attention: TensorAttention, first: TensorTiles,
                          last: TensorTiles) -> None:
    """Applies the schedule above. Raises ScheduleError where the program does not allow it."""
    stages, rows = attention.stages, first.rows
    widen_rows(s, stages, rows)
    rank = len(stages.last.indices)
    tile_tensors(s, TensorProduct(attention.kind, stages.last, attention.last, rank - 2, rank - 1,
                                  0), last)
    place_stages(s, stages, rows, (rows // TILE, last.columns // last.warp_columns))
    _tile_scores(s, attention, first)
    s[stages.scores].storage_align(rank - 2, *GAP)


def _tile_scores(s: Schedule, attention: TensorAttention, tiles: TensorTiles) -> None:
    """Cuts the scores of a block into tiles, one after the other along the columns."""
    scores, kind = attention.stages.scores, attention.kind
    total = sum_of(s.program, scores)
    s[total].set_scope("fragment")
    update = write_of(s.program, total)
    assert isinstance(update, Update)
    *others, row, column = axes_of(update)
    depth = update.axes[0].name
    wide = {row: tiles.rows, column: tiles.columns, depth: step_of(kind)}
    extents = {loop.var: loop.extent for loop in loops_around(s.program, update)}
    factors = {read.buffer: read for read in reads(update)}
    operands = [TensorOperand(read.buffer, dimensions_of(factors[read.buffer], extents, wide) or [],
                              side, depth)
                for read, side in zip(attention.first, (row, column), strict=True)]
    for operand in operands:
        operand.cache(s, wide)
    for loop, multiple in wide.items():
        padded(s, loop, multiple)
    warp = _cut_scores(s, scores, tiles)
    s[total].compute_at(warp)
    padded(s, row, tiles.warp_rows)
    padded(s, column, tiles.warp_columns)
    rank = len(update.indices)
    s[total].transform_layout(f"{', '.join(f'd{d}' for d in range(rank))} -> d{rank - 2}, "
                              f"d{rank - 1}")
    for loop, axis in (("score_wj", "threadIdx.z"), (warp, "threadIdx.y"),
                       ("score_lane", "threadIdx.x")):
        s[scores].bind(loop, axis)
    for loop in ("score_m", "score_n", "score_half"):
        s[scores].unroll(loop)
    s[scores].vectorize("score_pair_in")
    s[total].reorder(*others, row, column, depth)
    step, part = cut_sum(s, total, row, column, depth, [], kind, "sum_")
    tile_steps(s, total, kind, operands, tiles, step, part, "sum_")


def _cut_scores(s: Schedule, scores: str, tiles: TensorTiles) -> str:
    """Cuts rows and columns into warps, tiles and what threads hold of these; returns the loop of
    warps along the rows.
    """
    stage = s[scores]
    *others, row, column = axes_of(write_of(s.program, scores))
    padded(s, column, tiles.columns)
    for loop, cuts in ((row, (("wi", tiles.warp_rows), ("m", TILE), ("half", 8))),
                       (column, (("block", tiles.columns), ("wj", tiles.warp_columns), ("n", 8),
                                 ("pair", 2)))):
        for name, factor in cuts:
            loop = stage.split(loop, factor, f"score_{name}", f"score_{name}_in")[1]
    stage.reorder(*others, *(f"score_{name}" for name in (
        "block", "wj", "wi", "m", "n", "half", "half_in", "pair", "pair_in")))
    stage.fuse("score_half_in", "score_pair", "score_lane")
    return "score_wi"
