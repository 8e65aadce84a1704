"""Element-wise operators: every thread computes a few neighbours."""

from compiler.schedule import Schedule, vectorize
from compiler.te import Tensor

from .cooperative import bind_all

__all__ = ["schedule_elementwise"]


def schedule_elementwise(output: Tensor, name: str, threads: int = 128, lanes: int = 1) -> Schedule:
    """All axes as one, in blocks of `threads`; each thread takes `lanes` elements as a vector."""
    schedule = Schedule([output], name)
    stage = schedule[output]
    loop, *rest = (axis.name for axis in output.axes)
    for number, axis in enumerate(rest):
        loop = stage.fuse(loop, axis, f"flat{number}")
    size = 1
    for extent in output.shape:
        size *= extent
    if lanes > 1:
        loop, lane = stage.split(loop, lanes, "group", "lane")
        schedule.apply(vectorize, lane)
        size = -(-size // lanes)
    block, thread = stage.split(loop, min(threads, size), "block", "thread")
    bind_all(schedule, bx=block, tx=thread)
    return schedule
