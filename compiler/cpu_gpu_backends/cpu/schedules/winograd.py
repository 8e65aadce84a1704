"""The schedule of Winograd's transformations: a tile at a time, all of it written out.

::

    for n, c, h, w:                                 one tile
      alloc rows[6, 6, 16]                          which stays in the nearest cache
      for j:
        for a (unroll), lane (vectorize): rows[a, j, lane] = 4 * x[...] - 5 * x[...] + x[...]
      for a:
        for b (unroll), lane (vectorize): v[n, a, b, c, h, w, lane] = 4 * rows[a, 0, lane] ...
"""

from compiler.cpu_gpu_backends.cpu.schedules.row_tiles import axes_of, copy_by_vectors
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.ir import Alloc, Program, walk_stmts
from compiler.ops.packed.winograd import ROWS
from compiler.schedule import Schedule


def tile_winograd(program: Program, vectors: Vectors) -> Schedule | None:
    """Applies the schedule above; None where the program is no such transformation."""
    stages = [s.buffer for s in walk_stmts(program.body) if isinstance(s, Alloc)]
    half = next((stage for stage in stages if stage.name.endswith(ROWS)), None)
    if half is None:
        return None
    s, out = Schedule(program), program.outputs[0].name
    axes = axes_of(program, out)
    if len(axes) == 7 and half.dtype == "float32":
        n, a, b, c, h, w, lane = axes
    elif len(axes) == 7:
        a, b, n, h, w, c, lane = axes
    else:
        n, c, h, w, lane = axes
        size, (rows, columns) = half.shape[5], program.outputs[0].shape[2:4]
        h, a = s[out].split(h, min(size, rows))
        w, b = s[out].split(w, min(size, columns))
    tiles = (n, c, h, w) if a != axes[0] else (n, h, w, c)
    s[out].reorder(*tiles, a, b, lane)
    s[half.name].compute_at(tiles[-1])
    *_, row, column, inner = axes_of(s.program, half.name)
    if len(axes) == 7:
        s[half.name].reorder(column, row, inner)
        row, column = column, row
    for stage, chosen, last in ((half.name, column, inner), (out, b, lane)):
        s[stage].unroll(chosen)
        s[stage].vectorize(last)
    for copy in stages:
        if copy != half:
            copy_by_vectors(s, copy.name, 1, vectors.lanes)
    return s
