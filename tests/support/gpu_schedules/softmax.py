"""Softmax of rows: four stages in one kernel, what is between them in shared memory."""

from compiler import te
from compiler.schedule import Schedule, bind
from compiler.te import Tensor

from .cooperative import bind_all, inner

__all__ = ["schedule_softmax", "softmax"]


def softmax(rows: int, columns: int) -> Tensor:
    x = te.placeholder((rows, columns), "float32", name="x")
    k, l = (te.reduce_axis(columns, name=name) for name in ("k", "l"))
    top = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="top")
    e = te.compute((rows, columns), lambda i, j: te.exp(x[i, j] - top[i]), name="e")
    total = te.compute((rows,), lambda i: te.sum(e[i, l], axis=l), name="total")
    return te.compute((rows, columns), lambda i, j: e[i, j] / total[i], name="y")


def schedule_softmax(y: Tensor, name: str, threads: int = 64) -> Schedule:
    """A block for each row."""
    schedule = Schedule([y], name)
    for stage in ("total", "e", "top"):
        schedule[stage].set_scope("shared")
        schedule[stage].compute_at("y_i")
    bind_all(schedule, bx="y_i")
    for stage, axis in (("top", "k"), ("total", "l")):
        thread = inner(schedule, stage, axis, threads)
        if thread != axis:
            schedule[stage].reorder(thread, f"{axis}_o", reassociate=True)
        schedule.apply(bind, thread, "threadIdx.x", reassociate=True)
    for stage in ("e", "y"):
        bind_all(schedule, tx=inner(schedule, stage, f"{stage}_j", threads))
    return schedule
