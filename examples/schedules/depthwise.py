"""Depthwise convolution on a GPU, tiled in two ways."""

from functools import partial

import numpy as np

from compiler import te
from compiler.schedule import Schedule

from .example import Example

KERNEL, EDGE = 3, 1


def algorithm(channels: int, size: int):
    """Each channel of `image`, padded with zeros, is convolved with a filter of its own."""
    image = te.placeholder((channels, size, size), "float32", name="image")
    weight = te.placeholder((channels, KERNEL, KERNEL), "float32", name="weight")

    def pixel(c, h, w):
        inside = te.all_of(h >= EDGE, h < size + EDGE, w >= EDGE, w < size + EDGE)
        return te.select(inside, image[c, h - EDGE, w - EDGE], 0)

    padded = te.compute((channels, size + 2 * EDGE, size + 2 * EDGE), pixel, name="padded")
    dh, dw = te.reduce_axis(KERNEL, name="dh"), te.reduce_axis(KERNEL, name="dw")
    return [te.compute((channels, size, size), lambda c, h, w: te.sum(
        padded[c, h + dh, w + dw] * weight[c, dh, dw], axis=(dh, dw)), name="y")]


def in_channels(s: Schedule):
    """A block for every channel, a thread for every column of it. The filter and the padded image
    lie in shared memory, which the threads fill together; a thread sums up in a register."""
    total = s["y"].cache_write("local", name="total")
    s["y"].reorder("w", "h")
    total.compute_at("y_h")
    s["y"].bind("c", "blockIdx.x")
    s["y"].bind("w", "threadIdx.x")
    _share(s, "y_c")
    s["padded"].bind("w", "threadIdx.x")


def in_squares(s: Schedule):
    """A block for every 32 x 32 pixels of a channel, four rows of them at a time: threads in two
    dimensions. Of the padded image a block holds 34 x 34 pixels."""
    total = s["y"].cache_write("local", name="total")
    by, bx, row, column = s["y"].tile("h", "w", 32, 32)
    row, thread = s["y"].split(row, 4)
    s["y"].reorder(thread, column, row)
    total.compute_at(row)
    for loop, axis in (("c", "blockIdx.z"), (by, "blockIdx.y"), (bx, "blockIdx.x"),
                       (thread, "threadIdx.y"), (column, "threadIdx.x")):
        s["y"].bind(loop, axis)
    _share(s, bx)
    for loop, axis, threads in (("h", "threadIdx.y", 4), ("w", "threadIdx.x", 32)):
        _, part = s["padded"].split(loop, threads)
        s["padded"].bind(part, axis)


def _share(s: Schedule, block: str):
    """The operands of a block in its shared memory."""
    s["weight"].cache_read("shared", name="filter").compute_at(block)
    s["filter"].bind("2", "threadIdx.x")
    s["padded"].set_scope("shared")
    s["padded"].compute_at(block)


def reference(x):
    image, weight = x["image"], x["weight"]
    size = image.shape[1]
    padded = np.pad(image, ((0, 0), (EDGE, EDGE), (EDGE, EDGE)))
    parts = [padded[:, h:h + size, w:w + size] * weight[:, h, w, None, None]
             for h in range(KERNEL) for w in range(KERNEL)]
    return {"y": np.sum(parts, axis=0)}


EXAMPLES = (
    Example("depthwise_channels", partial(algorithm, 4, 16), in_channels, reference),
    Example("depthwise_squares", partial(algorithm, 2, 64), in_squares, reference),
)
