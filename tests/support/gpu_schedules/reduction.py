"""Reductions of rows: the threads of a block reduce together."""

from compiler import te
from compiler.schedule import Schedule, bind
from compiler.te import Tensor

from .cooperative import bind_all

__all__ = ["argmax", "reduce_rows", "schedule_argmax", "schedule_reduce_rows"]


def reduce_rows(op: str, rows: int, columns: int, dtype: str) -> Tensor:
    """``y[i]`` is the ``sum``, ``max`` or ``min`` of row `i`."""
    x = te.placeholder((rows, columns), dtype, name="x")
    k = te.reduce_axis(columns, name="k")
    return te.compute((rows,), lambda i: getattr(te, op)(x[i, k], axis=k), name="y")


def schedule_reduce_rows(y: Tensor, name: str, threads: int = 64, rows: int = 1) -> Schedule:
    """`threads` for a row, each taking every `threads`-th element; `rows` rows a block."""
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


def argmax(rows: int, columns: int, dtype: str) -> tuple[Tensor, Tensor]:
    """The place and value of the greatest element of each row; of several, the first."""
    x = te.placeholder((rows, columns), dtype, name="x")
    k = te.reduce_axis(columns, name="k")

    def better(left, right):
        first = te.any_of(right[1] > left[1],
                          te.all_of(right[1].equal(left[1]), right[0] < left[0]))
        return te.select(first, right[0], left[0]), te.select(first, right[1], left[1])

    reducer = te.reducer("argmax", better, identity=(
        te.const(2**63 - 1, "int64"), te.neutral("max", dtype)))
    return te.compute((rows,), lambda i: reducer((k.var, x[i, k]), axis=k), name=("place", "top"))


def schedule_argmax(outputs: tuple[Tensor, Tensor], name: str, threads: int = 32) -> Schedule:
    """A block for each row, whose threads pass pairs of place and value."""
    schedule = Schedule(list(outputs), name)
    stage = schedule[outputs[0]]
    outer, thread = stage.split("k", threads)
    stage.reorder(thread, outer, reassociate=True)
    bind_all(schedule, bx="place_i")
    schedule.apply(bind, thread, "threadIdx.x", reassociate=True)
    return schedule
