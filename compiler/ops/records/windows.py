"""Sliding windows of images [N,C,H,W] and of tensors with any number of axes: their extents, what
they see as expressions, and what they see in NumPy.

A window of an image is given by ``strides`` and ``pads`` (top, left, bottom, right), that of a
convolution perhaps by ``dilations`` too. Pads of other tensors are those before each axis and then
those after.
"""

from collections.abc import Callable, Sequence

import numpy as np

from compiler import te
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Attributes
from compiler.ops.records.rules import need
from compiler.te import Axis, Expr, Tensor

MOST_STEPS = (1 << 31) - 1
"""Kernels, strides, dilations and pads: places in memory are computed with them."""


def window_shape(size: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
                 pads: Sequence[int], dilations: Sequence[int] = (1, 1)) -> tuple[int, int]:
    """Output height and width of a sliding window; rounds down, as ONNX's ceil_mode 0."""
    padded = (size[0] + pads[0] + pads[2], size[1] + pads[1] + pads[3])
    rows, columns = ((p - (k - 1) * d - 1) // s + 1 for p, k, s, d
                     in zip(padded, kernel, strides, dilations, strict=True))
    return rows, columns


def image_windows(node: Node, x: TensorType, kernel: Sequence[int],
                  dilations: Sequence[int] = (1, 1)) -> tuple[int, int]:
    """Windows in a column and in a row of an image, of which there must be some."""
    strides, pads = check_steps(node, kernel)
    rows, columns = window_shape(x.shape[2:], kernel, strides, pads, dilations)
    apart = "" if tuple(dilations) == (1, 1) else f" and dilations {dilations!r}"
    need(rows > 0 and columns > 0, node,
         f"kernel must fit the padded input, not {kernel!r} in {x} with pads {pads!r}{apart}")
    return rows, columns


def check_steps(node: Node, kernel: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """Strides and pads of a window."""
    strides, pads = node.attrs["strides"], node.attrs["pads"]
    check_numbers(node, "strides", strides, 2, 1)
    check_numbers(node, "pads", pads, 4, 0)
    check_numbers(node, "kernel", kernel, 2, 1)
    return strides, pads


def check_numbers(node: Node, role: str, numbers: Sequence[int], count: int, least: int) -> None:
    """Checks the numbers that describe a window."""
    need(len(numbers) == count and min(numbers) >= least, node,
         f"{role} must be {count} integers of at least {least}, not {numbers!r}")
    need(max(numbers) <= MOST_STEPS, node,
         f"{role} must be integers of at most {MOST_STEPS:,}, not {numbers!r}")


def check_dilations(node: Node) -> Sequence[int]:
    """Refuses dilations that are not positive."""
    dilations = node.attrs.get("dilations", (1, 1))
    check_numbers(node, "dilations", dilations, 2, 1)
    return dilations


# Expressions of images


def windowed(attrs: Attributes, x: Tensor, kernel: Sequence[int], value, name: str,
             seen: Callable[[Expr], Expr] | None = None) -> tuple[tuple[int, ...], Tensor]:
    """Shape of a result with x's channels, and x as the windows see it: as it is where they stay
    inside, else padded, as large as they reach. A dimension behind rows and columns
    stays. ``seen(element)`` is what they see of an element, in any case of a copy.
    """
    images, channels, *size = x.shape[:4]
    within = x.shape[4:]
    top, left, *_ = attrs["pads"]
    counts, (height, width) = _seen(attrs, size, kernel)
    shape = (images, channels, *counts, *within)
    if seen is None and not (top or left) and height <= size[0] and width <= size[1]:
        return shape, x

    def pixel(n, c, h, w, *lane):
        inside = inside_of(h, top, height, size[0]) + inside_of(w, left, width, size[1])
        element: Expr = x[n, c, h - top, w - left, *lane]
        element = element if seen is None else seen(element)
        return te.select(te.all_of(*inside), element, value) if inside else element

    whole = (images, channels, height, width, *within)
    return shape, te.compute(whole, (lambda n, c, h, w, lane: pixel(n, c, h, w, lane)) if within
                             else lambda n, c, h, w: pixel(n, c, h, w), f"{name}_padded")


def pixel_rows(attrs: Attributes, shape: Sequence[int], kernel: Sequence[int], value, name: str,
               seen: Callable[[Expr, Expr, Expr, Expr], Expr], beyond: int = 0
               ) -> tuple[tuple[int, ...], Tensor]:
    """Shape [N,C,H,W] of a result with the channels of an image of that `shape`, and the image as
    windows see it, padded and as large as they reach, and so many columns `beyond`, in rows
    [N,H,W*C]: all channels of a pixel side by side. ``seen(n, c, h, w)`` is an element of the
    image.
    """
    images, channels, *size = shape
    top, left, *_ = attrs["pads"]
    counts, (height, width) = _seen(attrs, size, reach_of(attrs, kernel))
    width += beyond

    def element(n, h, place):
        w, c = place // channels, place % channels
        inside = inside_of(h, top, height, size[0]) + inside_of(w, left, width, size[1])
        found = seen(n, c, h - top, w - left)
        return te.select(te.all_of(*inside), found, value) if inside else found

    return (images, channels, *counts), te.compute((images, height, width * channels), element,
                                                   f"{name}_padded")


def _seen(attrs: Attributes, size: Sequence[int],
          reach: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Windows in a column and in a row, and the rows and columns that they see."""
    strides = attrs["strides"]
    rows, columns = window_shape(size, reach, strides, attrs["pads"])
    return (rows, columns), ((rows - 1) * strides[0] + reach[0],
                             (columns - 1) * strides[1] + reach[1])


def inside_of(index: Expr, before: int, reach: int, size: int) -> list[Expr]:
    """Conditions for ``index - before`` to lie in 0 .. size - 1, where index runs to reach - 1."""
    low: list[Expr] = [index >= before] if before else []
    return [*low, index < before + size] if reach > before + size else low


def reach_of(attrs: Attributes, kernel: Sequence[int]) -> tuple[int, int]:
    """Rows and columns from the first tap of a kernel to the last."""
    height, width = ((size - 1) * step + 1 for size, step
                     in zip(kernel, attrs.get("dilations", (1, 1)), strict=True))
    return height, width


def image_axes(kernel: Sequence[int], name: str) -> tuple[Axis, Axis]:
    """Rows and columns of a kernel, to reduce over."""
    return te.reduce_axis(kernel[0], f"{name}_kh"), te.reduce_axis(kernel[1], f"{name}_kw")


# Images in NumPy


def image_views(x: np.ndarray, kernel, strides, pads, value, dilations=(1, 1)) -> np.ndarray:
    """A view [N, C, Ho, Wo, kh, kw] of x padded with the value."""
    top, left, bottom, right = pads
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)
    reach = tuple((size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True))
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    return views[:, :, ::strides[0], ::strides[1], ::dilations[0], ::dilations[1]]


# Tensors with any number of axes


def windows_shape(size: Sequence[int], kernel: Sequence[int], attrs: Attributes) -> tuple[int, ...]:
    """Windows along each axis."""
    rank = len(size)
    pads = attrs["pads"]
    return tuple((n + pads[axis] + pads[rank + axis] - (kernel[axis] - 1) * attrs["dilations"][axis]
                  - 1) // attrs["strides"][axis] + 1 for axis, n in enumerate(size))


def check_windows(x: Tensor, kernel: Sequence[int], attrs: Attributes) -> tuple[int, ...]:
    """Windows along each axis; refuses with ValueError what describes none."""
    rank = len(x.shape) - 2
    for role, numbers, count, least in (
            ("kernel", kernel, rank, 1), ("strides", attrs["strides"], rank, 1),
            ("dilations", attrs["dilations"], rank, 1), ("pads", attrs["pads"], 2 * rank, 0)):
        if rank < 1 or len(numbers) != count or min(numbers) < least:
            raise ValueError(f"{role} must be {count} integers of at least {least} for an input "
                             f"with {rank + 2} dimensions, not {tuple(numbers)}")
        if max(numbers) > MOST_STEPS:
            raise ValueError(f"{role} must be integers of at most {MOST_STEPS:,}, not "
                             f"{tuple(numbers)}")
    extents = windows_shape(x.shape[2:], kernel, attrs)
    if min(extents) < 1:
        raise ValueError(f"kernel must fit the padded input, not {tuple(kernel)} in "
                         f"{x.dtype}[{','.join(map(str, x.shape))}] with pads "
                         f"{tuple(attrs['pads'])} and dilations {tuple(attrs['dilations'])}")
    return extents


def pixel_of(x: Tensor, outer: Sequence[Expr], places: Sequence[Expr], taps: Sequence[Expr],
             attrs: Attributes, kernel: Sequence[int], extents: Sequence[int],
             outside: Expr) -> Expr:
    """The element of x in a window, or `outside` where that lies in the pads."""
    inside, where = [], []
    for axis, (place, tap, size) in enumerate(zip(places, taps, x.shape[2:], strict=True)):
        stride, step, low = (attrs[key][axis] for key in ("strides", "dilations", "pads"))
        index = place * stride + tap * step - low
        reach = (extents[axis] - 1) * stride + (kernel[axis] - 1) * step - low
        inside += [index >= 0] if low else []
        inside += [index < size] if reach >= size else []
        where.append(index)
    element = x[(*outer, *where)]
    return te.select(te.all_of(*inside), element, outside) if inside else element


def kernel_axes(kernel: Sequence[int], name: str) -> tuple[te.Axis, ...]:
    """The axes of a kernel, to reduce over."""
    return tuple(te.reduce_axis(extent, f"{name}_k{axis}") for axis, extent in enumerate(kernel))


def views_of(attrs: Attributes, x: np.ndarray, kernel: Sequence[int], outside) -> np.ndarray:
    """The windows, [N,C,windows...,kernel...]."""
    rank = len(kernel)
    pads = [(0, 0), (0, 0), *zip(attrs["pads"][:rank], attrs["pads"][rank:], strict=True)]
    padded = np.pad(x, pads, constant_values=outside)
    reach = [(k - 1) * step + 1 for k, step in zip(kernel, attrs["dilations"], strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, 2 + rank)))
    steps = (*attrs["strides"], *attrs["dilations"])
    return views[(slice(None), slice(None), *(slice(None, None, step) for step in steps))]
