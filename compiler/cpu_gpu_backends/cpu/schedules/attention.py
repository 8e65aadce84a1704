"""The schedule of attention: rows of scores are made, weighed and used while they are near.

::

    for b, h, i_o:                                 some rows of one head
      alloc t0[rows, columns], t6[rows, columns]   which stay in the second cache
      for j_o, i_i ...: t0[i_i, j] = tiles of x[i, k] * y[h, k, j]
      for i_i:                                     softmax of a row: scale, mask, whatever maps
        ...
        t6[i_i, j] = t4[j] / t5
      for c_o, i_i ...: z[i, c] = tiles of t6[i_i, j] * v[h, j, c]

Elements are computed by the operations of the three kernels that it takes the place of, in the same
order. The scores of all heads would go out to memory and come back.
"""

from collections.abc import Sequence

from compiler.cpu_gpu_backends.cpu.schedules.product_tiles import (
    ResultTiles, packed_weight_of, tile_of_rows)
from compiler.cpu_gpu_backends.cpu.schedules.row_stages import along_rows
from compiler.cpu_gpu_backends.cpu.schedules.row_tiles import axes_of, extents_of
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.graph.fusion import Group
from compiler.graph.graph import Graph
from compiler.ir import Program, Store, Update, Write, reads, walk_stmts
from compiler.ops.records.blocks import LANES
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find
from compiler.schedule import Schedule
from compiler.te import Buffer, Var, numpy_dtype
from compiler.tune.chooser import OWN, Chooser

ROOM = 1 << 18          # bytes of rows of scores, before and after softmax, that stay near


def is_one_kernel(graph: Graph, group: Group) -> bool:
    """True if the products of a group are of floats and of more than one block of columns, the last
    one is its result, and all else is computed by rows.
    """
    if any(find(node.op).kind is Kind.INJECTIVE for node in group.nodes):
        return False
    products = [node for node in group.nodes if find(node.op).kind is Kind.COMPLEX]
    results = [graph.values[node.outputs[0]] for node in products]
    return products[-1] is group.nodes[-1] and all(
        node.op == "packed_matmul" and result.dtype == "float32" and result.shape[-1] > LANES
        for node, result in zip(products, results, strict=True))


def tile_attention(program: Program, vectors: Vectors, chooser: Chooser = OWN
                   ) -> Schedule | None:
    """Applies the schedule above; None where the program is no such function."""
    writes = [s for s in walk_stmts(program.body) if isinstance(s, Write)]
    if not _is_attention(program, writes):
        return None
    first, last = writes[0], writes[-1]
    assert isinstance(first, Update) and isinstance(last, Update)
    stages, out = [write.buffers[0].name for write in writes[:-1]], last.buffer.name
    extents = extents_of(program)
    s = Schedule(program)
    s[out].cache_write("global", f"{out}_sum")
    *outer, rows, column = axes_of(s.program, out)
    count, terms = extents[Var(rows)], extents[last.axes[0]]
    size = tile_of_rows(count, extents[Var(column)], vectors, chooser=chooser)
    near = _rows_near(count, terms * numpy_dtype(first.buffer.dtype).itemsize, size.pixels,
                      chooser)
    block, row = s[out].split(rows, near)
    tiles = ResultTiles.cut(s, out, f"{out}_sum", size, [*outer, block], row, column)
    tiles.in_registers(s, f"{out}_sum", [axis.name for axis in last.axes], size)
    s[stages[-1]].compute_at(block)
    each = axes_of(s.program, stages[-1])[-2]
    for stage in reversed(stages[1:-1]):
        s[stage].compute_at(each)
    s[stages[0]].compute_at(block)
    _scores(s, stages[0], first, near, vectors, chooser)
    for store in [one for one in walk_stmts(s.program.body)
                  if isinstance(one, Store) and one.buffer.name in stages[1:]]:
        along_rows(s, store, vectors)
    if count % near:
        s[out].peel(block, "end")
    return s


def _is_attention(program: Program, writes: Sequence[Write]) -> bool:
    """True if a packed product follows on functions of the rows of another one."""
    if len(writes) < 3 or len(program.outputs) != 1 or not all(
            isinstance(one, Store | Update) for one in writes):
        return False
    first, *between, last = writes
    if not (_is_product(first) and _is_product(last) and last.buffers == program.outputs
            and isinstance(between[-1], Store)):
        return False
    scores, made = first.buffers[0], {write.buffers[0] for write in writes[:-1]}
    if any(_is_product(one) or not _is_row_of(one.buffers[0], scores) for one in between):
        return False
    used = [[read.buffer for read in reads(one) if read.buffer in made] for one in writes]
    return used[0] == [] and used[-1] == [between[-1].buffers[0]] and scores not in used[-1]


def _is_product(write: Write) -> bool:
    return (isinstance(write, Update) and write.op == "sum" and len(write.axes) == 1
            and write.buffer.dtype == "float32" and len(write.indices) > 1
            and isinstance(write.indices[-1], Var)
            and packed_weight_of(write, write.indices[-1]) is not None)


def _is_row_of(stage: Buffer, scores: Buffer) -> bool:
    return stage.shape[:-1] == scores.shape[:-1] and stage.shape[-1] in (1, scores.shape[-1])


def _rows_near(count: int, row_bytes: int, step: int, chooser: Chooser) -> int:
    """The number of rows that are computed together: whole tiles of them for which there is room,
    and so many that the fewest are left over, which take longer.
    """
    room = chooser.one_of("bytes of scores", (ROOM, ROOM // 4, ROOM // 2, 2 * ROOM, 4 * ROOM))
    most = max(step, room // (2 * row_bytes) // step * step)
    if most >= count:
        return count
    return min(range(most, most // 2, -step), key=lambda rows: count % rows)


def _scores(s: Schedule, stage: str, update: Update, rows: int, vectors: Vectors,
            chooser: Chooser) -> None:
    columns = extents_of(s.program)[Var(axes_of(s.program, stage)[-1])]
    size, total = tile_of_rows(rows, columns, vectors, chooser=chooser), f"{stage}_sum"
    s[stage].cache_write("global", total)
    *outer, row, column = axes_of(s.program, stage)
    tiles = ResultTiles.cut(s, stage, total, size, outer, row, column)
    tiles.in_registers(s, total, [axis.name for axis in update.axes], size)
