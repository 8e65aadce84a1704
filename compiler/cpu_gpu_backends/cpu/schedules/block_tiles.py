"""The schedule of sums and maxima whose results lie in blocks of channels: convolutions and pools.

::

    for n, b_o, h, w_o:                            one tile of the result: blocks by pixels
      alloc acc[blocks, pixels, 16]                which stays in vector registers
      for cb, kh, kw, ci:
        for b_i, w_i (unroll), c (vectorize):
          acc[b_i, w_i, c] += p[cb, h + kh, w + kw, ci] * weight[b, cb, kh, kw, ci, c]
      for b_i, w_i (unroll), c (vectorize):
        y[...] = everything that follows, of acc[b_i, w_i, c]

A vector of weights serves all pixels of a tile, a broadcast pixel all its blocks. What is left of a
row of pixels behind the last whole tile is a smaller tile of its own (`peel`). Of bytes, an
instruction adds the products of four inputs at once, of words of two (`cpu.schedules.byte_groups`).
"""

from dataclasses import dataclass
from math import prod

from compiler.cpu_gpu_backends.cpu.schedules.byte_groups import (
    GROUP, add_groups, copy_pixels, is_grouped, order_groups, together_in)
from compiler.cpu_gpu_backends.cpu.schedules.row_tiles import (axes_of, copy_by_vectors, extents_of,
                                                               keep_in_registers, sum_apart,
                                                               the_sum)
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.ir import Program, Update, free_variables, linear, reads
from compiler.ops.records.blocks import LANES
from compiler.schedule import Schedule
from compiler.te import Buffer, Read, Var
from compiler.tune.chooser import OWN, Chooser

MOST_UNROLLED = 256     # statements of a tile whose window is unrolled


@dataclass(frozen=True, slots=True)
class BlockTile:
    """So many blocks of 16 sums of so many pixels, or rows, stay in registers."""

    blocks: int
    pixels: int


def tile_blocks(program: Program, vectors: Vectors, chooser: Chooser = OWN) -> Schedule | None:
    """Applies the schedule above; None where the program is no such sum.

    The terms of each element are added in their original order.
    """
    found, extents = the_sum(program), extents_of(program)
    if found is None:
        return None
    update, axes = found
    if len(axes) < 3 or extents.get(axes[-1]) != LANES or not update.axes:
        return None
    operands = list(reads(update))
    *outer, pixel, lane = axes
    together = together_in(update) if is_grouped(update, lane) else 0
    if not together and not all(_in_lanes(read, lane) for read in operands):
        return None
    block = next((axis for axis in outer if extents[axis] > 1 and _shares(operands, pixel, axis)),
                 None)
    tile = best_tile(extents[pixel], 1 if block is None else extents[block], vectors,
                     together, chooser)
    return _tiled(program, update, axes, block, tile, vectors, chooser)


def _in_lanes(read: Read, lane: Var) -> bool:
    """True if the lanes lie side by side, or all see one element."""
    *outer, last = read.indices or (None,)
    if any(lane in free_variables(index) for index in outer):
        return False
    return last is None or dict(linear(last).terms).get(lane, 1) == 1


def _shares(operands: list[Read], pixel: Var, axis: Var) -> bool:
    """True if what is read for a pixel serves all of the axis."""
    named = [{var for index in read.indices for var in free_variables(index)} for read in operands]
    return (any(pixel in names and axis not in names for names in named)
            and all(axis in names or pixel in names for names in named)
            and not any(pixel in names and axis in names for names in named))


def best_tile(pixels: int, blocks: int, vectors: Vectors, together: int = 0,
              chooser: Chooser = OWN) -> BlockTile:
    """The tile of least time by estimate, with the smaller one behind it: products wait for their
    loads, weights from an outer cache, and a sum for the one before it. Where an instruction sums
    groups of bytes, it takes weights from memory, and pixels from a register. `together` are the
    products of such a group.
    """
    costs = vectors.costs

    def cycles(blocks: int, pixels: int) -> float:
        loads = (blocks + pixels if together == GROUP and vectors.sums_bytes
                 else costs.weight * blocks + costs.pixel * pixels)
        return max(blocks * pixels, loads, 8) + 1

    def time(tile: BlockTile) -> float:
        whole, rest = divmod(pixels, tile.pixels)
        if together and rest:
            whole, rest = whole + 1, 0
        behind = cycles(tile.blocks, rest) if rest else 0
        return (whole * cycles(tile.blocks, tile.pixels) + behind) / (tile.blocks * pixels)

    def fits(tile: BlockTile) -> bool:
        width = LANES / vectors.lanes
        sums = tile.blocks * tile.pixels * width
        weights = tile.blocks * width if tile.pixels > 1 else 0     # read where they are, else
        if together:
            return sums + (together < GROUP) * weights <= vectors.most_sums(together)
        if costs.registers:                                         # a pixel is in one more
            return sums + weights < costs.registers
        return sums <= vectors.registers - 2 and sums + weights < vectors.registers + 2

    most = 2 * vectors.registers
    candidates = [BlockTile(b, p) for b in range(1, min(blocks, most) + 1) if blocks % b == 0
                  for p in range(1, min(pixels, most) + 1) if b == p == 1 or fits(BlockTile(b, p))]
    return chooser.one_of("tile", candidates, lambda tile: round(time(tile), 3))


def _tiled(program: Program, update: Update, axes: list[Var], block: Var | None, tile: BlockTile,
           vectors: Vectors, chooser: Chooser) -> Schedule:
    s, out = Schedule(program), program.outputs[0].name
    places = {axis: place for place, axis in enumerate(axes)}
    pixels = program.outputs[0].shape[-2]
    total = sum_apart(s, update)
    own = axes_of(s.program, out)
    order, inside = list(own[:-1]), []
    if block is not None and tile.blocks > 1:
        order[places[block]], name = s[out].split(own[places[block]], tile.blocks)
        inside.append(name)
    order[-1], name = s[out].split(own[-2], tile.pixels)
    inside.append(name)
    pixel_tiles = order[-1]
    if block is not None:
        order.insert(chooser.one_of("blocks of channels", _places(order, places[block])),
                     order.pop(places[block]))
    s[out].reorder(*order, *inside, own[-1])
    s[total].compute_at(order[-1])
    reduced, lane = [var.name for var in update.axes], None
    if is_grouped(update, axes[-1]):
        summed = axes_of(s.program, total)
        lane = summed[-1]
        order_groups(s, total, update, summed)
    else:
        _accumulate(s, total, reduced, tile, None if block is None else places[block], chooser)
    for copy in dict.fromkeys(read.buffer for read in reads(update)):
        if copy in program.inputs:
            continue
        if (whole := _whole(program, update, copy, axes, vectors.threads)) is not None:
            s[copy.name].compute_at(own[places[whole]])
        if lane:
            copy_pixels(s, copy.name)
        else:
            copy_by_vectors(s, copy.name, 1, vectors.lanes)
    for loop in inside:
        s[out].unroll(loop)
    s[out].vectorize(own[-1])
    if pixels % tile.pixels:
        s[out].peel(pixel_tiles)
    if lane:
        add_groups(s, lane, vectors.dot(update))
    return s


def _places(order: list[str], own: int) -> list[int]:
    """The places where the loop over blocks of channels may stand among the outer ones: first where
    it is."""
    return [own, *(place for place in range(len(order)) if place != own)]


def _whole(program: Program, update: Update, copy: Buffer, axes: list[Var],
           threads: int) -> Var | None:
    """The axis of blocks that each see one block of a copy, which is then made when it is needed
    and still near when it is read; None where there is none, or threads would not have as many
    blocks each.
    """
    extents = extents_of(program)
    seen = [read.indices for read in reads(update) if read.buffer == copy]
    return next((axis for axis in reversed(axes[:-3])
                 if extents[axis] > 1 and extents[axis] % threads == 0
                 and all(axis in indices for indices in seen)), None)


def _accumulate(s: Schedule, total: str, reduced: list[str], tile: BlockTile,
                block: int | None, chooser: Chooser) -> None:
    """The reduction outside of the tile, its beginning before it; short windows are unrolled. A
    pixel serves all blocks before the next one is read.
    """
    own = axes_of(s.program, total)
    if block is not None:
        own.insert(-1, own.pop(block))
    keep_in_registers(s, total, reduced, own)
    extents = extents_of(s.program)
    terms = prod(extents[Var(name)] for name in reduced)
    size = terms * tile.blocks * tile.pixels
    if size <= 4 * MOST_UNROLLED and chooser.one_of(
            "unrolled window", (True, False) if size <= MOST_UNROLLED else (False, True)):
        for name in reduced:
            s[total].unroll(name)
