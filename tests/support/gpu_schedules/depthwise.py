"""Depthwise convolution: each channel has a filter of its own, in shared memory with its input."""

from compiler import te
from compiler.schedule import Schedule
from compiler.te import Tensor

from .cooperative import bind_all, fetch, inner

__all__ = ["depthwise", "schedule_depthwise"]


def depthwise(channels: int, size: int, kernel: int, dtype: str) -> Tensor:
    """Images of ``size x size``, padded with zeros so that they keep it; `kernel` is odd."""
    total = "int32" if dtype == "int8" else dtype
    edge = kernel // 2
    image = te.placeholder((channels, size, size), dtype, name="image")
    weight = te.placeholder((channels, kernel, kernel), dtype, name="weight")
    padded = te.compute(
        (channels, size + 2 * edge, size + 2 * edge),
        lambda c, h, w: te.select(te.all_of(h >= edge, h < size + edge, w >= edge, w < size + edge),
                                  image[c, h - edge, w - edge], 0), name="padded")
    dh, dw = te.reduce_axis(kernel, name="dh"), te.reduce_axis(kernel, name="dw")
    return te.compute((channels, size, size), lambda c, h, w: te.sum(
        padded[c, h + dh, w + dw].astype(total) * weight[c, dh, dw].astype(total),
        axis=(dh, dw)), name="y")


def schedule_depthwise(y: Tensor, name: str, tile: int = 32, rows: int = 8) -> Schedule:
    """A block for `tile` by `tile` pixels of a channel, `rows` of them at a time."""
    schedule = Schedule([y], name)
    schedule[y].cache_write("local", name="acc")
    _, height, width = y.shape
    by, bx, h, w = schedule[y].tile("h", "w", min(tile, height), min(tile, width))
    schedule["acc"].compute_at(w)
    schedule["padded"].set_scope("shared")
    schedule["padded"].compute_at(bx)
    fetch(schedule, "weight", bx, "filter", rows, tile)
    thread = inner(schedule, "y", h, rows)
    bind_all(schedule, bz="y_c", by=by, bx=bx, ty=thread, tx=w)
    bind_all(schedule, ty=inner(schedule, "padded", "padded_h", rows),
             tx=inner(schedule, "padded", "padded_w", tile))
    return schedule
