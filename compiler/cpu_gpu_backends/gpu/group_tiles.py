"""Products by groups of four warps of compute capability 9.0, whose operands the TMA copies.

::

    for block (blockIdx.x):
      for turn:                                       tiles that are near share operands
        for group (threadIdx.z), wi (threadIdx.y):    groups of four warps of 32 threads
          alloc fragment.acc[16, 256]
          for k_step [units=0 0 1]:                   128 bytes of each row
            alloc shared.a_shared[128, 64], b_shared[256, 64], swizzled
            a_shared[...] = ...                       the TMA, some steps ahead
            b_shared[...] = ...
            for k_part:                               what one instruction multiplies
              acc[m, n] += a_shared[m] * b_shared[n]
          c[...] = f(acc[...])                        each thread what it holds

The steps of a product are those of `tensor_tiles.py`; operands lie with their depth last, in rows
that begin at multiples of 16 bytes, and are padded with zeros by the TMA.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from compiler.cpu_gpu_backends.gpu.parts import TiledWork
from compiler.cpu_gpu_backends.gpu.stages import (extent_of, fused, loops_around, maps, padded,
                                                  sums_in, write_of)
from compiler.cpu_gpu_backends.gpu.tensor_tiles import (TensorProduct, dimensions_of,
                                                       operands_of, result_of)
from compiler.cpu_gpu_backends.intrinsics.gpu import (COLUMNS_OF_GROUPS, GROUP_KINDS, MMA,
                                                      ROW_BYTES, mma_fill, tile_copy,
                                                      wgmma)
from compiler.ir import Program, Update
from compiler.schedule import Schedule
from compiler.te import Buffer, Var, numpy_dtype

GROUP_ROWS, WARP_ROWS = 64, 16
ALIGNED = 16                # bytes, of rows that the TMA copies
SHARED_BYTES = 224 << 10    # of a block
MOST_COPIES = 4             # of a step's operands
MULTIPROCESSORS_90 = 132       # of an H100
TOGETHER = 8                # blocks of rows that run one after the other, then the next columns


@dataclass(frozen=True, slots=True)
class GroupTiles:
    """Rows and columns of a tile; each group of four warps has 64 of the rows. There are so many
    `blocks` at most, which take tiles in turns: the operands of the next are on their way while one
    is stored.
    """

    rows: int = 128
    columns: int = 128
    blocks: int = MULTIPROCESSORS_90

    @property
    def copies(self) -> int:
        """The number of copies of a step's operands there are, all but one of them on their way."""
        return min(SHARED_BYTES // ((self.rows + self.columns) * ROW_BYTES), MOST_COPIES)

    def for_result(self, rows: int, columns: int) -> "GroupTiles":
        """With as many rows and columns as so many need."""
        enough = next((width for width in COLUMNS_OF_GROUPS if width >= columns), self.columns)
        return replace(self, rows=min(self.rows, rows + -rows % GROUP_ROWS),
                       columns=min(self.columns, enough))


OFFERED_GROUPS = (GroupTiles(128, 256), GroupTiles(128, 192), GroupTiles(128, 128),
                  GroupTiles(64, 256), GroupTiles(128, 64), GroupTiles(64, 128),
                  GroupTiles(64, 64))


def copied_by_tma(program: Program, product: TensorProduct) -> bool:
    """True if `tile_groups` takes the product: of a kind that groups multiply, its operands
    arguments of the program as the TMA copies them, with several steps.
    """
    if product.kind not in GROUP_KINDS or product.taps:
        return False
    extents = {loop.var: loop.extent for loop in loops_around(program, product.sum)}
    depth = product.sum.axes[product.depth]
    if extents[depth] <= _step(product.kind):
        return False
    axes = [index.name for index in product.sum.indices if isinstance(index, Var)]
    sides = axes[product.rows], axes[product.columns]
    for read, side in zip(product.operands, sides, strict=True):
        dimensions = dimensions_of(read, extents)
        if read.buffer not in program.inputs or dimensions is None or (
                dimensions[-2:] != [side, depth.name]) or not _is_mapped(read.buffer):
            return False
    return True


def work_of_groups(program: Program, product: TensorProduct, tiles: GroupTiles) -> TiledWork:
    """The work that there is to do."""
    rows, columns, count = result_of(product)
    tiles, terms = tiles.for_result(rows, columns), _step(product.kind)
    extents = {loop.var: loop.extent for loop in loops_around(program, product.sum)}
    blocks = -(-rows // tiles.rows) * -(-columns // tiles.columns) * count
    depth = extents[product.sum.axes[product.depth]]
    return TiledWork(rows * columns * count, blocks, tiles.rows, tiles.columns,
                     tiles.rows // WARP_ROWS, -(-depth // terms), terms)


def _is_mapped(buffer: Buffer) -> bool:
    """True if a map of the TMA describes it: at most five dimensions, rows apart by 16 bytes."""
    width = numpy_dtype(buffer.dtype).itemsize
    return len(buffer.shape) <= 5 and all(
        prod(buffer.shape[d:]) * width % ALIGNED == 0 for d in range(1, len(buffer.shape)))


def _step(kind: str) -> int:
    """Elements of a row that a step multiplies."""
    return ROW_BYTES // numpy_dtype(MMA[kind].dtype).itemsize


def tile_groups(s: Schedule, product: TensorProduct, tiles: GroupTiles = GroupTiles()) -> None:
    """Applies the schedule above. Raises ScheduleError for tiles that the program does not allow.
    """
    tiles = tiles.for_result(*result_of(product)[:2])
    out, total = s.program.outputs[0].name, product.sum.buffer.name
    total = sums_in(s, out, total, "fragment")
    update = write_of(s.program, total)
    assert isinstance(update, Update)
    axes = [index.name for index in update.indices if isinstance(index, Var)]
    row, column = axes[product.rows], axes[product.columns]
    depth = update.axes[product.depth].name
    wide = {row: tiles.rows, column: tiles.columns, depth: _step(product.kind)}
    extents = {loop.var: loop.extent for loop in loops_around(s.program, update)}
    copies = []
    for read, side in zip(operands_of(update, product), (row, column), strict=True):
        stage = s[read.buffer.name].cache_read("global", name=f"{read.buffer.name}_shared")
        dimensions = dimensions_of(read, extents) or []
        is_padded = any(extent_of(s, loop) % wide[loop] for loop in (side, depth))
        for d, loop in enumerate(dimensions):
            if loop in wide:
                padded(s, f"{stage.name}_{d}", wide[loop])
        copies.append((stage, len(dimensions), wide[side], is_padded))
    for loop, multiple in wide.items():
        padded(s, loop, multiple)
    _cut_result(s, out, product, tiles)
    s[total].compute_at("wi")
    padded(s, row, WARP_ROWS)                # where it is all that the result needs
    padded(s, column, tiles.columns)
    names = [f"d{place}" for place in range(len(axes))]
    s[total].transform_layout(f"{', '.join(names)} -> d{product.rows}, d{product.columns}")
    _bind_result(s, out)
    others = [axis for axis in axes if axis not in (row, column)]
    step, inner = s[total].split(depth, _step(product.kind), "k_step", "k_in")
    part, lane = s[total].split(inner, MMA[product.kind].depth, "k_part", "k_lane")
    s[total].reorder(*others, step, part, row, column, lane, reassociate=True)
    s[total].unroll(part)
    for stage, rank, rows, is_padded in copies:
        stage.set_scope("shared")
        stage.compute_at(step)
        kept = ", ".join(f"d{d}" for d in range(rank))
        stage.transform_layout(f"{kept} -> d{rank - 2}, d{rank - 1}")
        stage.swizzle()
        stage.tensorize(f"{stage.name}_{rank - 2}",
                        tile_copy(MMA[product.kind].dtype, rows, is_padded))
    s[total].warp_specialize(step, 0, 0, 1, copies=tiles.copies)
    s[total].decompose_reduction(step)
    n = s[total].split(f"{column}_init", 8, "n_init", "j_tile_init")[0]
    s[total].reorder(n, f"{row}_init", "j_tile_init")
    s[total].unroll(n)
    s[total].tensorize(f"{row}_init", mma_fill(product.sum.buffer.dtype))
    s[total].tensorize(row, wgmma(product.kind, tiles.columns))


def _cut_result(s: Schedule, out: str, product: TensorProduct, tiles: GroupTiles) -> None:
    """Cuts rows and columns into blocks, groups, warps and what threads hold."""
    stage, names = s[out], maps(s.program, write_of(s.program, out))
    row, column = names[product.rows], names[product.columns]
    padded(s, row, tiles.rows)
    padded(s, column, tiles.columns)
    others = [name for name in names if name not in (row, column)]
    _split(s, out, row, (("row_block", tiles.rows), ("group", GROUP_ROWS), ("wi", WARP_ROWS),
                         ("half", 8)))
    _split(s, out, column, (("column_block", tiles.columns), ("n_out", 8), ("pair", 2)))
    blocks = ["row_block", "column_block"]
    if (count := extent_of(s, "row_block")) > TOGETHER and count % TOGETHER == 0:
        blocks = [*stage.split("row_block", TOGETHER, "row_blocks", "row_block_in_turn")]
        blocks.insert(1, "column_block")
    stage.reorder(*others, *blocks, "group", "wi", "n_out", "half", "half_in", "pair", "pair_in")
    block = fused(s, out, [*others, *blocks], "tile")
    if extent_of(s, block) > tiles.blocks:
        turn, block = stage.split(block, tiles.blocks, "turn", "block")
        stage.reorder(block, turn)
    stage.bind(block, "blockIdx.x")
    stage.fuse("half_in", "pair", "lane")


def _split(s: Schedule, out: str, loop: str, cuts: Sequence[tuple[str, int]]) -> None:
    for name, factor in cuts:
        loop = s[out].split(loop, factor, name, f"{name}_in")[1]


def _bind_result(s: Schedule, out: str) -> None:
    for loop, axis in (("group", "z"), ("wi", "y"), ("lane", "x")):
        s[out].bind(loop, f"threadIdx.{axis}")
    for loop in ("n_out", "half"):
        s[out].unroll(loop)
    s[out].vectorize("pair_in")
