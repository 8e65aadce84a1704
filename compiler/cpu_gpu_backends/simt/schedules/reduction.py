"""Reductions of rows: the threads of a block reduce together."""

from compiler import te
from compiler.schedule import Schedule, bind
from compiler.te import Tensor

from .cooperative import bind_all

__all__ = ["reduce_rows", "schedule_reduce_rows"]


def reduce_rows(op: str, rows: int, columns: int, dtype: str) -> Tensor:
    """``y[i]`` is the ``sum``, ``max`` or ``min`` of row `i`."""
    x = te.placeholder((rows, columns), dtype, name="x")
    k = te.reduce_axis(columns, name="k")
    return te.compute((rows,), lambda i: getattr(te, op)(x[i, k], axis=k), name="y")


def schedule_reduce_rows(y: Tensor, name: str, threads: int = 64, rows: int = 1) -> Schedule:
    """`threads` for a row, each taking every so manieth element; `rows` rows a block."""
    schedule = Schedule([y], name)
    (axis,) = y.reduce_axes
    outer, thread = schedule[y].split(axis.name, min(threads, axis.extent))
    schedule[y].reorder(thread, outer, reassociate=True)
    if rows > 1:
        block, row = schedule[y].split("i", rows)
        bind_all(schedule, bx=block, ty=row)
    else:
        bind_all(schedule, bx="y_i")
    schedule.apply(bind, thread, "threadIdx.x", reassociate=True)
    return schedule
