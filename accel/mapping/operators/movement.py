"""Operators that move blocked activations and change no value."""

from dataclasses import replace

from accel.mapping.operators.blocked import (Activation, BlockedOperator, Blocks, Window, inside,
                                             windowed, written)
from compiler import te
from compiler.te import Tensor


def upsample(name: str, x: Activation, factors: tuple[int, int], blocks: Blocks) -> BlockedOperator:
    """Repeats each pixel in ``factors`` rows and columns: it is loaded once and stored that often.

    Stages: ``x``, ``input``, ``quantized``, ``output``, where the rows and columns of a pixel are
    two more dimensions.
    """
    source, copied = windowed(name, x, Window((1, 1)), 0, blocks, blocks.block_out)
    operator = _copied(name, {"x": source, "input": copied})
    groups, h, w, batch, count, size = operator.output.shape
    quantized = operator["quantized"]
    output = te.compute((groups, h, factors[0], w, factors[1], batch, count, size),
                        lambda n, y, p, x, q, b, c, o: quantized[n, y, x, c, b, o],
                        f"{name}_output")
    return replace(operator, stages=operator.stages | {"output": output},
                   axes={**operator.axes, "output": "nypxqbco"})


def crop(name: str, x: Activation, result: Activation, begin: tuple[int, int, int, int],
         steps: tuple[int, int, int], blocks: Blocks) -> BlockedOperator:
    """Cuts out every `steps`-th image, row and column, and channels, of `x` from `begin` (image,
    channel, row, column). Where images lie in batches of several, it takes all of them.

    Stages: ``x``, ``input``, ``quantized``, ``output``.
    """
    size, count = blocks.block_out, result.channel_blocks(blocks, blocks.block_out)
    stored = x.stored_shape(blocks)
    source = te.placeholder(stored, blocks.element, f"{name}_x")
    groups = -(-result.n // blocks.batch)

    def pixel(n, h, w, c, b, i):
        row, column = h * steps[1] + begin[2], w * steps[2] + begin[3]
        channel = c * size + i + begin[1]
        there = inside([(channel, count * size + begin[1], stored[-1])])
        if x.plain:
            image = n * blocks.batch + b
            there += inside([(image, groups * blocks.batch, result.n)])
            read = source[image * steps[0] + begin[0], row, column, channel]
        else:
            read = source[n * steps[0] + begin[0], row, column, b, channel]
        return te.select(te.all_of(*there), read, 0) if there else read

    moved = te.compute((groups, result.h, result.w, count, blocks.batch, size), pixel,
                       f"{name}_input")
    return _copied(name, {"x": source, "input": moved})


def surrounded(name: str, x: Activation, pads: tuple[int, int, int, int], value: int,
               blocks: Blocks) -> BlockedOperator:
    """Puts rows and columns of a value around images.

    Stages: ``x``, ``input``, ``quantized``, ``output``.
    """
    window = Window((1, 1), pads=pads)
    source, wide = windowed(name, x, window, value, blocks, blocks.block_out)
    return _copied(name, {"x": source, "input": wide})


def _copied(name: str, stages: dict[str, Tensor]) -> BlockedOperator:
    """Writes the stage ``input`` unchanged."""
    copied = stages["input"]

    def lane(n, y, x, c, b, o):
        return copied[n, y, x, c, b, o].astype("int32").astype(copied.dtype)

    return written(name, stages, Window((1, 1)), copied.shape, lane)
