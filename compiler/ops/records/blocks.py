"""Blocks of channels, as vectors of a processor want them, and how an operator computes on them.

An image in blocks is [N,C/16,H,W,16] (`compiler.ops.packed.channel_blocks`). Elementwise operators
compute on it as they stand; other ones whose records have a form do so where the form's attributes
are not None.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

LANES = 16
"""Channels of a block: float32 lanes of a vector of 512 bits, whatever the processor: the order of
sums follows from it."""


def blocks_of(channels: int) -> int:
    """The number of blocks that hold so many channels, or columns."""
    return -(-channels // LANES)


@dataclass(frozen=True, slots=True)
class BlockForm:
    """The operator `op` with ``attrs(attrs)`` is the same on blocks; with `whole` only where every
    input has whole blocks. With `vectors` its parameters are vectors of channels, and [C/16,16]
    there.
    """

    op: str
    attrs: Callable[[Mapping], Mapping | None]
    whole: bool = False
    vectors: bool = False
