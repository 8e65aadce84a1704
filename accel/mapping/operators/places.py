"""Places of greatest and least channels: values and numbers of channels combined, reduced over
blocks and lanes at once, and the bytes of the number taken out.
"""

from dataclasses import replace

import numpy as np

from accel.mapping.operators.blocked import (Activation, BlockedOperator, Blocks, Window, windowed,
                                             written)
from compiler import te
from compiler.ops.integers.arithmetic import PARAM

PLACE_BITS, BYTES = 16, 2
"""Bits of a channel's number below the channel's value, and the bytes that are taken out."""

NEVER = 1 << 30
"""The number of a channel that does not exist: more than any value and number together."""


def place(name: str, x: Activation, greatest: bool, blocks: Blocks) -> BlockedOperator:
    """The number of the first of the greatest, or least, channels of each pixel; its bytes are the
    first channels of the result, the lowest first.

    Stages: ``x``; ``params`` [ci][block_out], whose bias is the number of each channel (see
    `place_numbers`); ``input``; ``acc``, the least of ``number - (x << 16)``, or
    ``number + (x << 16)``, in every lane; ``params_1`` [co][block_out], whose bias says how far
    down each lane shifts it (see `byte_shifts`); ``quantized``, ``output``.
    """
    source, copied = windowed(name, x, Window((1, 1)), 0, blocks, blocks.block_out)
    groups, height, width, depth, batch, lanes = copied.shape
    rc, ri = te.reduce_axis(depth, f"{name}_rc"), te.reduce_axis(lanes, f"{name}_ri")
    numbers = te.placeholder((depth, lanes), PARAM, f"{name}_params")
    count = blocks.padded(BYTES) // blocks.block_out
    shifts = te.placeholder((count, lanes), PARAM, f"{name}_params_1")

    def key(n, y, x, c, b, o):
        value = copied[n, y, x, rc.var, b, ri.var].astype("int32") << PLACE_BITS
        number = numbers[rc.var, ri.var].bias
        return te.min(number - value if greatest else number + value, (rc, ri))

    acc = te.compute((groups, height, width, count, batch, lanes), key, f"{name}_acc")
    stages = {"x": source, "params": numbers, "input": copied, "acc": acc, "params_1": shifts}
    whole = written(name, stages, Window((1, 1)), acc.shape, lambda n, y, x, c, b, o: (
        acc[n, y, x, c, b, o] >> (shifts[c, o].bias & 31)).astype("int8"))
    return replace(whole, reduced={"depth": rc, "lanes": ri})


def place_numbers(x: Activation, blocks: Blocks) -> np.ndarray:
    """The number of each channel, padding included."""
    numbers = np.full(blocks.padded(x.c), NEVER, np.int32)
    numbers[:x.c] = np.arange(x.c)
    return numbers


def byte_shifts(blocks: Blocks) -> np.ndarray:
    """The bits below the byte that is each channel of the result; what follows is padding."""
    return 8 * (np.arange(blocks.padded(BYTES), dtype=np.int32) % BYTES)
