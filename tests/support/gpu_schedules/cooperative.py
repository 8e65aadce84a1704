"""Steps that several schedules share."""

from compiler.ir import buffers_of, loops
from compiler.schedule import Schedule, bind, unroll, vectorize

__all__ = ["bind_all", "fetch", "inner", "place", "unroll_all"]


def bind_all(schedule: Schedule, **axes: str) -> None:
    """``bind_all(s, bx="C_i_o", tx="j")`` binds loops to ``blockIdx.x`` and ``threadIdx.x``."""
    for short, loop in axes.items():
        kind = {"b": "blockIdx", "t": "threadIdx"}[short[0]]
        schedule.apply(bind, loop, f"{kind}.{short[1]}")


def unroll_all(schedule: Schedule, *names: str) -> None:
    for name in names:
        schedule.apply(unroll, name)


def inner(schedule: Schedule, stage: str, loop: str, count: int) -> str:
    """The inner loop of `count` iterations after a split; the loop itself where it is shorter."""
    return schedule[stage].split(loop, count)[1] if _extent(schedule, loop) > count else loop


def _extent(schedule: Schedule, loop: str) -> int:
    return next(node.extent for node in loops(schedule.program.body) if node.var.name == loop)


def fetch(schedule: Schedule, buffer: str, at: str, name: str, rows: int, columns: int,
          lanes: int = 1) -> None:
    """Copy what is needed of `buffer` to shared memory in every iteration of the loop `at`: `rows`
    by `columns` threads share the last two dimensions, `lanes` neighbours at a time.
    """
    schedule[buffer].cache_read("shared", name=name)
    place(schedule, name, at, rows, columns, lanes)


def place(schedule: Schedule, name: str, at: str, rows: int, columns: int, lanes: int = 1) -> None:
    """The same for a copy that there is already."""
    rank = len(buffers_of(schedule.program)[name].shape)
    schedule[name].compute_at(at)
    row, column = f"{name}_{rank - 2}", f"{name}_{rank - 1}"
    if lanes > 1 and _extent(schedule, column) >= lanes:
        column, lane = schedule[name].split(column, lanes)
        schedule.apply(vectorize, lane)
        if _extent(schedule, column) < columns:     # rows of few vectors are shared as one
            row, column = schedule[name].split(schedule[name].fuse(row, column), columns)
    bind_all(schedule, ty=inner(schedule, name, row, rows),
             tx=inner(schedule, name, column, columns))
