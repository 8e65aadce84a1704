"""Matrix transpose: tiles go through shared memory, so that both sides are walked along rows."""

from compiler import te
from compiler.schedule import Schedule

from .example import Example

ROWS, COLUMNS, TILE = 48, 32, 16


def algorithm():
    """Row `i` of `t` is column `i` of `x`."""
    x = te.placeholder((ROWS, COLUMNS), "float32", name="x")
    return [te.compute((COLUMNS, ROWS), lambda i, j: x[j, i], name="t")]


def schedule(s: Schedule):
    """A block moves one tile. Its threads read rows of `x` and write rows of `t`; rows of the tile
    lie 17 elements apart, so that the elements of a column lie in different banks."""
    by, bx, ty, tx = s["t"].tile("i", "j", TILE, TILE)
    for loop, axis in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"),
                       (tx, "threadIdx.x")):
        s["t"].bind(loop, axis)
    tile = s["x"].cache_read("shared", name="tile")
    tile.compute_at(tx)
    tile.bind("0", "threadIdx.y")
    tile.bind("1", "threadIdx.x")
    tile.storage_align(0, TILE, 1)


EXAMPLES = (Example("transpose", algorithm, schedule, lambda x: {"t": x["x"].T}),)
