"""Direct convolution: blocks of output channels and rows, chunks of input channels at a time."""

from compiler import te
from compiler.schedule import Schedule
from compiler.te import Tensor

from .cooperative import bind_all, fetch, unroll_all

__all__ = ["convolution", "schedule_convolution"]


def convolution(channels: int, filters: int, size: int, kernel: int, dtype: str) -> Tensor:
    """Images of ``size x size``, not padded, stride 1."""
    total = "int32" if dtype == "int8" else dtype
    out = size - kernel + 1
    image = te.placeholder((channels, size, size), dtype, name="image")
    weight = te.placeholder((filters, channels, kernel, kernel), dtype, name="weight")
    c = te.reduce_axis(channels, name="c")
    dh, dw = te.reduce_axis(kernel, name="dh"), te.reduce_axis(kernel, name="dw")
    return te.compute((filters, out, out), lambda f, h, w: te.sum(
        image[c, h + dh, w + dw].astype(total) * weight[f, c, dh, dw].astype(total),
        axis=(c, dh, dw)), name="y")


def schedule_convolution(y: Tensor, name: str, filters: int = 8, width: int = 16,
                         channels: int = 4) -> Schedule:
    """A block for one row of `filters` output channels, a thread for one channel and one column."""
    schedule = Schedule([y], name)
    schedule[y].cache_write("local", name="acc")
    stage = schedule[y]
    bz, f = stage.split("f", min(filters, y.shape[0]))
    bx, w = stage.split("w", min(width, y.shape[2]))
    stage.reorder(bz, "h", bx, f, w)
    schedule["acc"].compute_at(w)
    bind_all(schedule, bz=bz, by="y_h", bx=bx, ty=f, tx=w)
    chunk = min(channels, y.reduce_axes[0].extent)
    outer, _ = schedule["acc"].split("c", chunk)
    fetch(schedule, "image", outer, "rows", filters, width)
    fetch(schedule, "weight", outer, "weights", filters, width)
    unroll_all(schedule, "dh", "dw")
    return schedule
