"""Sums of products of bytes, four of which an instruction adds at once, or of words, by twos: of
groups of inputs that lie side by side (`compiler.ops.packed.quantized_blocks`).

::

    for q, b_i, w_i (unroll):                      acc[b_i, w_i, :] += dot(x[.., 4 q : 4 q + 4],
      for c, t:                            ->                              w[.., q, :, :])
        acc[b_i, w_i, c] += x[.., 4 q + t] * w[.., q, c, t]

The image is read as a copy whose channels lie side by side
(`compiler.ops.records.windows.pixel_rows`).
"""

from functools import cache

from compiler.cpu_gpu_backends.intrinsics.cpu import (dot, dot_by_steps, dot_of_pairs,
                                                      dot_of_words)
from compiler.cpu_gpu_backends.llvm.instruction_sets import INSTRUCTION_SETS, InstructionSet
from compiler.ir import Store, Update, linear, loops, reads, walk_stmts
from compiler.ops.records.blocks import LANES
from compiler.schedule import Schedule, tensorize
from compiler.te import INDEX, Binary, Cast, Const, Read, Var, walk
from compiler.tensorize import Intrinsic

GROUP = 4
TOGETHER = {("uint8", "int8"): GROUP, ("int16", "int16"): 2}
"""Factors, and how many of their products an instruction adds."""
NEAR = 1 << 14          # bytes of pixels that stay in the nearest cache


@cache
def dot_of(vectors: InstructionSet, by_dot: bool) -> Intrinsic:
    """The intrinsic that adds products of bytes, with an instruction for just this or without;
    vectors that do it alike share one.
    """
    made = (dot(1, LANES, GROUP, "uint8", vectors.lanes) if by_dot
            else dot_of_words(1, LANES, GROUP, vectors) if vectors.words
            else dot_by_steps(1, LANES, GROUP))
    return DOTS.setdefault(made.name, made)


@cache
def pairs_of(vectors: InstructionSet) -> Intrinsic:
    """The intrinsic that adds products of words."""
    made = dot_of_pairs(1, LANES, 2, vectors)
    return DOTS.setdefault(made.name, made)


DOTS: dict[str, Intrinsic] = {}
"""All of them, by name."""
for _vectors in INSTRUCTION_SETS:
    for _by_dot in {bool(_vectors.dots), False}:
        dot_of(_vectors, _by_dot)
    pairs_of(_vectors)


def together_in(update: Update) -> int:
    """The number of products that an instruction adds where these are of unsigned by signed bytes,
    or of words, in int32, over several axes, the last of which runs within groups; else 0.
    """
    match update.value:
        case Binary("mul", Cast(Read() as x), Cast(Read() as w)):
            together = TOGETHER.get((x.buffer.dtype, w.buffer.dtype), 0)
            return together if (
                update.op == "sum" and update.buffer.dtype == update.value.dtype == "int32"
                and together > 0 and len(update.axes) > 1
                and w.buffer.shape[-1:] == (together,) and w.indices[-1] == update.axes[-1]
                and x.buffer.shape[-1] % together == 0
                and dict(linear(x.indices[-1]).terms).get(update.axes[-1]) == 1) else 0
    return 0


def sums_bytes(update: Update) -> bool:
    """True if those are products of bytes."""
    return together_in(update) == GROUP


def is_grouped(update: Update, lane: Var) -> bool:
    """True if the terms side by side are one step of a sum of groups for each lane."""
    return together_in(update) > 0 and any(
        read.indices[-2:] == (lane, update.axes[-1]) and read.buffer.shape[-2] == LANES
        for read in reads(update))


def order_groups(s: Schedule, total: str, update: Update, own: list[str]) -> None:
    """The reduction outside of the tile `own`, lanes last, and its beginning before it. Some groups
    of bytes of a window's row are unrolled; of words LLVM would add terms to each other first, for
    which there are no registers. Windows are not: pixels that they share would not fit either.
    """
    *steps, within = (var.name for var in update.axes)
    together: list[str] = []
    if len(steps) > 1 and sums_bytes(update):
        *pieces, inner = _cut(s, total, steps.pop())
        steps, together = [*steps, *pieces], [inner]
    s[total].reorder(*steps, *together, *own, within)
    for loop in (*together, *own[:-1]):
        s[total].unroll(loop)
    s[total].decompose_reduction(steps[0])


def copy_pixels(s: Schedule, copy: str) -> None:
    """Makes rows of pixels: of so many pixels that they stay in the nearest cache, a block of
    channels after the other.
    """
    store = next(stmt for stmt in walk_stmts(s.program.body)
                 if isinstance(stmt, Store) and stmt.buffer.name == copy)
    *outer, place = (index.name for index in store.indices if isinstance(index, Var))
    channels = next((int(node.b.value) for node in walk(store.value) if isinstance(node, Binary)
                     and (node.op, node.a) == ("floordiv", Var(place, INDEX))
                     and isinstance(node.b, Const)), _extent(s, place))    # else a row is a pixel
    pixel, channel = s[copy].split(place, channels)
    if channels > LANES:
        block, channel = s[copy].split(channel, LANES)
        near, count = [], _extent(s, pixel)
        if count * channels > NEAR:
            *near, pixel = s[copy].split(pixel, _divisor(count, max(1, NEAR // channels)))
        s[copy].reorder(*outer, *near, block, pixel, channel)
    s[copy].vectorize(channel)


def _cut(s: Schedule, total: str, groups: str) -> tuple[str, ...]:
    """The loops over groups, of which the last is unrolled: short rows, or pieces of a longer one.
    """
    extent = _extent(s, groups)
    return (groups,) if extent <= 2 * GROUP else s[total].split(groups, _divisor(extent, GROUP))


def _extent(s: Schedule, name: str) -> int:
    extent = next(loop.extent for loop in loops(s.program.body) if loop.var.name == name)
    assert isinstance(extent, int)
    return extent


def _divisor(number: int, most: int) -> int:
    return max(n for n in range(1, most + 1) if number % n == 0)


def add_groups(s: Schedule, lane: str, dot: Intrinsic) -> None:
    """Hands the groups inside a loop over lanes to the instruction, those of a last, smaller tile
    too.
    """
    for loop in (lane, f"{lane}_last"):
        if any(node.var.name == loop for node in loops(s.program.body)):
            s.apply(tensorize, loop, dot)
