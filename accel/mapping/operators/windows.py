"""Convolutions of few channels in which windows of neighbouring pixels share entries.

A window of an image with few channels is loaded row by row, a cycle at least for each row, into one
entry or a few, which gemm reads in as many cycles. Where these have room for the windows of P x Q
neighbouring pixels as well, load writes the rows of all of them at once: each pixel is a phase,
with weights of its own, which are zero for what the others see.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from accel.machine.config import element_bytes
from accel.mapping.operators.blocked import (Activation, BlockedOperator, Blocks, Quantization,
                                             Window, packed_blocks, packed_windows)
from accel.mapping.operators.convolutions import ConvolutionForm, over_input

MOST = 4
"""Pixels that share entries, along either axis."""

SLOWER = 3
"""How many times as long as gemm load must take for a window at least, so that sharing is tried."""

Pixels = tuple[int, int]
"""Rows and columns of pixels."""


def sharings(x: Activation, channels: int, window: Window, bus_bytes: int, blocks: Blocks
             ) -> Iterator[Pixels]:
    """The pixels that may share entries: the bus moves a whole entry in a cycle, load takes longer
    than gemm for one window, and the windows of all pixels need no more entries than one does."""
    entries, (rows, _) = packed_blocks(x, window, blocks), window.kernel
    products = entries * blocks.padded(channels) // blocks.block_out
    if (not entries or bus_bytes < blocks.block_in * element_bytes(blocks.element)
            or rows < SLOWER * products):
        return
    sizes = window.outputs(x)
    counts = range(1, MOST + 1)
    for pixels in product(counts, counts):
        divides = all(size % count == 0 for size, count in zip(sizes, pixels, strict=True))
        if pixels != (1, 1) and divides and entries == packed_blocks(
                x, whole_window(window, pixels), blocks):
            yield pixels


def whole_window(window: Window, pixels: Pixels) -> Window:
    """The window that so many neighbouring pixels see together."""
    height, width = (size + (count - 1) * step for size, count, step in zip(
        window.kernel, pixels, window.strides, strict=True))
    down, across = (count * step for count, step in zip(pixels, window.strides, strict=True))
    return replace(window, kernel=(height, width), strides=(down, across))


def spread_weights(weights: np.ndarray, window: Window, pixels: Pixels) -> list[np.ndarray]:
    """The weights [Co][Ci][kh][kw] of each pixel in the window of all, row after row."""
    (height, width), (down, across) = window.kernel, window.strides
    found = []
    for row, column in np.ndindex(*pixels):
        spread = np.zeros((*weights.shape[:2], *whole_window(window, pixels).kernel), weights.dtype)
        top, left = row * down, column * across
        spread[:, :, top:top + height, left:left + width] = weights
        found.append(spread)
    return found


def shared_windows(name: str, x: Activation, channels: int, window: Window, pad_value: int,
                   q: Quantization, blocks: Blocks, pixels: Pixels) -> BlockedOperator:
    """A `packed_convolution` in which so many pixels share entries, as phases.

    Stages are those of `accel.mapping.operators.convolutions.convolution`; ``input`` is that of a
    `packed_convolution`, ``w`` [p][q][co][1][1][block of the window][block_out][block_in].
    """
    whole = whole_window(window, pixels)
    source, packed = packed_windows(name, x, whole, pad_value, blocks)
    operator = over_input(name, source, packed, whole.outputs(x), channels, Window((1, 1)), q,
                          blocks, ConvolutionForm(phases=pixels))
    return replace(operator, row=whole.kernel[1] * x.c, step=whole.strides[1] * x.c)
