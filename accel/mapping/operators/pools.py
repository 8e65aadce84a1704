"""Pools of blocked activations: what is folded over windows, channel by channel."""

from collections.abc import Callable

from accel.mapping.operators.blocked import (Activation, BlockedOperator, Blocks, Quantization,
                                             Window, finished, windowed, written)
from compiler import te
from compiler.ops.integers.fixed_point import limits_of
from compiler.te import Expr, Tensor


def max_pool(name: str, x: Activation, window: Window, blocks: Blocks) -> BlockedOperator:
    """The maximum of each window.

    Stages: ``x``, ``input`` (padded with the least number), ``acc``, ``quantized``, ``output``.
    """
    source, padded = windowed(name, x, window, limits_of(blocks.element)[0], blocks,
                              blocks.block_out)
    acc = _folded(name, padded, window, window.outputs(x), te.max, blocks)
    stages = {"x": source, "input": padded, "acc": acc}
    return written(name, stages, window.seen, acc.shape,
                   lambda n, y, x, c, b, o: acc[n, y, x, c, b, o].astype(blocks.element))


def average_pool(name: str, x: Activation, window: Window, pad_value: int, q: Quantization,
                 blocks: Blocks, pixelwise: bool) -> BlockedOperator:
    """Window sums, requantized with the parameters of a channel or, if `pixelwise`, of an output
    pixel: ``params`` [Ho][Wo][block_out].

    Stages: ``x``, ``params``, ``input`` (padded), ``acc``, ``quantized``, ``output``.
    """
    source, padded = windowed(name, x, window, pad_value, blocks, blocks.block_out)
    acc = _folded(name, padded, window, window.outputs(x), te.sum, blocks)
    stages = {"x": source, "input": padded, "acc": acc}
    return finished(name, stages, window.seen, acc, q, blocks, pixelwise)


def _folded(name: str, padded: Tensor, window: Window, size: tuple[int, int],
            fold: Callable[..., Expr], blocks: Blocks) -> Tensor:
    """`fold` over the pixels of each window of `padded`, channel by channel, in acc."""
    sh, sw = window.seen.strides
    kh, kw = (te.reduce_axis(size, f"{name}_k{axis}")
              for size, axis in zip(window.kernel, "hw", strict=True))

    dh, dw = window.dilations

    def element(n, y, x, c, b, o):
        pixel = padded[n, y * sh + kh.var * dh, x * sw + kw.var * dw, c, b, o]
        return fold(pixel.astype(blocks.accumulator), (kh, kw))

    groups, _, _, count, batch, lanes = padded.shape
    return te.compute((groups, *size, count, batch, lanes), element, f"{name}_acc")


def global_average_pool(name: str, x: Activation, q: Quantization,
                        blocks: Blocks) -> BlockedOperator:
    """The sum of each channel, requantized.

    Stages: ``x``, ``params``, ``input``, ``acc``, ``quantized``, ``output``.
    """
    source, copied = windowed(name, x, Window((1, 1)), 0, blocks, blocks.block_out)
    rh, rw = te.reduce_axis(x.h, f"{name}_rh"), te.reduce_axis(x.w, f"{name}_rw")

    def total(n, y, x, c, b, o):
        return te.sum(copied[n, rh.var, rw.var, c, b, o].astype(blocks.accumulator), (rh, rw))

    acc = te.compute((copied.shape[0], 1, 1, copied.shape[3], blocks.batch, blocks.block_out),
                     total, f"{name}_acc")
    stages = {"x": source, "input": copied, "acc": acc}
    return finished(name, stages, Window((x.h, x.w)), acc, q, blocks)
