"""Matrix transpose through shared memory: rows are read and rows are written, never columns."""

from compiler import te
from compiler.schedule import Schedule, storage_align
from compiler.te import Tensor

from .cooperative import bind_all, fetch, inner

__all__ = ["schedule_transpose", "transpose"]


def transpose(rows: int, columns: int, dtype: str) -> Tensor:
    x = te.placeholder((rows, columns), dtype, name="x")
    return te.compute((columns, rows), lambda i, j: x[j, i], name="y")


def schedule_transpose(y: Tensor, name: str, tile: int = 32, rows: int = 8) -> Schedule:
    """Square tiles, one a block, with a gap after each row so that columns lie in other banks."""
    schedule = Schedule([y], name)
    by, bx, i, j = schedule[y].tile("i", "j", *(min(tile, extent) for extent in y.shape))
    thread = inner(schedule, "y", i, rows)
    fetch(schedule, "x", bx, "tile", rows, tile)
    schedule.apply(storage_align, "tile", 0, tile, 1)
    bind_all(schedule, by=by, bx=bx, ty=thread, tx=j)
    return schedule
