"""Sums of products of bytes, four of which an instruction adds at once: of groups of inputs that
lie side by side (`compiler.ops.quantized_blocks`).

::

    for q, b_i, w_i (unroll):                      acc[b_i, w_i, :] += dot(x[.., 4 q : 4 q + 4],
      for c, t:                            ->                              w[.., q, :, :])
        acc[b_i, w_i, c] += x[.., 4 q + t] * w[.., q, c, t]
"""

from compiler.cpu_gpu_backends.intrinsics.cpu import dot, dot_of_words
from compiler.ir import Update, linear, loops, reads
from compiler.ops.blocks import LANES
from compiler.schedule import Schedule, tensorize
from compiler.te import Binary, Cast, Read, Var
from compiler.tensorize import Intrinsic

__all__ = ["DOTS", "add_groups", "is_grouped", "order_groups",
           "sums_bytes"]

GROUP = 4
DOTS: dict[tuple[int, bool], Intrinsic] = {
    **{(lanes, True): dot(1, LANES, GROUP, "uint8", lanes) for lanes in (16, 8)},
    **{(lanes, False): dot_of_words(1, LANES, GROUP, lanes) for lanes in (16, 8, 4)}}
"""By float32 lanes of a vector, and whether there is an instruction for just this."""


def sums_bytes(update: Update) -> bool:
    """Whether it adds products of unsigned by signed bytes in int32, over several axes, the last of
    which runs within groups.
    """
    match update.value:
        case Binary("mul", Cast(Read() as x), Cast(Read() as w)):
            return (update.op == "sum" and update.buffer.dtype == update.value.dtype == "int32"
                    and (x.buffer.dtype, w.buffer.dtype) == ("uint8", "int8")
                    and len(update.axes) > 1 and w.buffer.shape[-1:] == (GROUP,)
                    and w.indices[-1] == update.axes[-1] and x.buffer.shape[-1] % GROUP == 0
                    and dict(linear(x.indices[-1]).terms).get(update.axes[-1]) == 1)
    return False


def is_grouped(update: Update, lane: Var) -> bool:
    """Whether four terms side by side are one step of a sum of bytes for each lane."""
    return sums_bytes(update) and any(
        read.indices[-2:] == (lane, update.axes[-1]) and read.buffer.shape[-2:] == (LANES, GROUP)
        for read in reads(update))


def order_groups(s: Schedule, total: str, update: Update, own: list[str]) -> None:
    """The reduction outside of the tile `own`, lanes last, and its beginning before it. Groups of
    the same pixel are unrolled. Windows are not: pixels that they share would not fit registers.
    """
    *steps, within = (var.name for var in update.axes)
    s[total].reorder(*steps, *own, within)
    together = [var.name for var in update.axes[:-1] if len(steps) > 1 and any(
        dict(linear(read.indices[-1]).terms).get(var) == GROUP for read in reads(update))]
    for loop in (*together, *own[:-1]):
        s[total].unroll(loop)
    s[total].decompose_reduction(steps[0])


def add_groups(s: Schedule, lane: str, dot: Intrinsic) -> None:
    """Hands the groups inside a loop over lanes to the instruction, those of a last, smaller tile
    too.
    """
    for loop in (lane, f"{lane}_last"):
        if any(node.var.name == loop for node in loops(s.program.body)):
            s.apply(tensorize, loop, dot)
