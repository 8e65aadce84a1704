"""Tiles, and which there are of a layer.

A tile is `rows` x `columns` output pixels and `channels` output blocks; a convolution may cut its
input blocks into steps of `depth`. One operand of a convolution may be *stationary*: tiles that use
the same weights (or input pixels) follow each other, and these are loaded once. A tile loads all
else that it needs. A window that fits no buffer is loaded in several pieces, and so is what a
function of rows has more of than fits. Blocks of channels come one after the other, each for all
pixels, or *by rows*: all of them for a row of tiles before the next, so that the next layer can
begin.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from math import ceil, isqrt, prod
from typing import Any

from accel.mapping.operators.blocked import AROUND, BlockedOperator


@dataclass(frozen=True, slots=True, order=True)
class Tiles:
    """Extents of one tile, in pixels and in blocks of channels. `stationary` is ``"w"``,
    ``"input"`` or neither. The window of a tile, or all blocks that it gathers, are loaded in
    `pieces`, one after the other. With `by_rows` the loop over rows encloses that over channels;
    with the input stationary it always does.
    """

    rows: int
    columns: int
    channels: int
    depth: int
    stationary: str = ""
    pieces: int = 1
    by_rows: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """The requirements of a layer on its tiles.

    `kernel`, `strides`, `dilations` describe its window. A layer without products has `weighted`
    false, and its input blocks are its output blocks; they also are in a layer with products that
    is `diagonal`. Each position is `phases` output pixels. All is computed `times` times, for
    groups of images and of channels, or leading dimensions. A function of rows whose totals have
    `inputs` of their own loads rows in parts, for each of them. One instruction of a stream unit
    takes `row_cycles` for a row, and has its operands in `buffers`.
    """

    rows: int
    columns: int
    channels: int
    depth: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    weighted: bool
    inputs: int             # tensors that are loaded like the input
    accumulators: int       # accumulators in acc for each output
    parameters: int         # parameter records for each channel
    row: int = 0            # elements that lie together in memory of an input pixel; 0: all of them
    pixelwise: bool = False     # parameters of each output pixel instead of each channel
    dilations: tuple[int, int] = (1, 1)
    diagonal: bool = False
    phases: int = 1
    times: int = 1
    repeated: int = 0       # inputs of one pixel, which all pixels read
    tables: int = 0         # loaded once
    gathered: int = field(default=0, repr=False)        # input blocks that each output block reads
    weight_bits: int = field(default=8, repr=False)     # of an element of the weights in memory
    passes: int = field(default=1, repr=False)          # entries of weights for a block product
    weights: int = field(default=0, repr=False)         # elements of an entry; 0: all of them
    taps: int = field(default=0, repr=False)            # records of taps for each channel
    numbers: int = field(default=0, repr=False)         # accumulators for each pixel of whole rows
    totals: int = field(default=0, repr=False)          # those of them that read the whole row
    step: int = field(default=0, repr=False)            # from a window's `row` to the next window's
    residuals: int = field(default=0, repr=False)       # tensors that meet the sums of products
    planes: int = field(default=0, repr=False)          # elements of a sum that is not requantized
    across: int = field(default=0, repr=False)          # of rows across lanes, what lies together
    sharers: int = field(default=1, repr=False)         # units of vector that take tiles in turn
    row_cycles: int = field(default=0, repr=False)      # of a row by a stream unit, which is whole
    buffers: tuple[str, str, str] = field(default=("res", "out", "tab"), repr=False)
    repeats: bool = field(default=False, repr=False)    # a row of the input is one entry
    scales: int = field(default=0, repr=False)          # entries of factors of groups for a channel
    only: bool = field(default=False, repr=False)       # of its program: nothing hides its ends
    pixels: tuple[int, int] = field(default=(1, 1), repr=False)     # of windows that share entries


def shape_of(operator: BlockedOperator) -> Shape:
    """The shape of a layer."""
    stages, window, size = operator.stages, operator.window, operator.extents("output")
    weighted = "w" in stages
    tile = operator.extents("quantized")
    phases = tile.get("p", 1) * tile.get("q", 1)
    depth = operator.reduced["depth"].extent if "depth" in operator.reduced else 0
    depth = depth * operator.extents("acc").get("u", 1) if weighted else 1
    repeated = len(operator.repeated)
    return Shape(size["y"], size["x"], size["c"], max(depth, 1), window.kernel, window.strides,
                 weighted, len(operator.inputs) - repeated,
                 operator.sums,
                 len(operator.parameters), operator.row,
                 not weighted and "params" in stages and len(stages["params"].shape) == 3,
                 window.dilations,
                 depth == 0, phases, prod(size.get(axis, 1) for axis in AROUND), repeated,
                 sum(stages[role].shape[0] if operator.stream else 1 for role in operator.tables),
                 0 if weighted or "depth" not in operator.reduced
                 else operator.reduced["depth"].extent, operator.weight_bits,
                 operator.reduced["passes"].extent if "passes" in operator.reduced else 1,
                 operator.weights,
                 prod(window.kernel) if "params_taps" in stages else 0, len(operator.numbers),
                 sum(bool(operator[role].reduce_axes) for role in operator.numbers),
                 operator.step, len(operator.residuals), tile.get("s", 0), operator.across,
                 operator.sharers, scales=operator.scales,
                 pixels=(tile.get("p", 1), tile.get("q", 1)) if operator.row else (1, 1),
                 **_streamed(operator))


def _streamed(operator: BlockedOperator) -> dict[str, Any]:
    """The fields of a shape that say how a stream unit computes it."""
    stream, usual = operator.stream, ("res", "out", "tab")
    if stream is None:
        return {}
    return {"row_cycles": stream.cycles, "repeats": stream.repeats, "buffers": tuple(
        stream.buffers.get(role, name)
        for role, name in zip(("input", "quantized", "table"), usual, strict=True))}


def most_threads(shape: Shape, threads: int) -> int:
    """The virtual threads that a layer may have where `threads` hide the latency of memory: so many
    for each unit of vector that takes its tiles. Sums of products have two banks, for any number of
    units.
    """
    return threads if shape.weighted or threads == 1 else threads * shape.sharers


def smallest(shape: Shape) -> Tiles:
    """The tile that takes the least of every buffer."""
    if shape.row:
        return Tiles(1, 1, 1, shape.depth)
    if shape.row_cycles:
        return Tiles(1, 1, shape.channels, 1)
    if shape.numbers:
        return Tiles(1, 1, 1, 1, "input")
    if shape.scales:
        return Tiles(1, 1, 1, shape.depth)
    return Tiles(1, 1, 1, 1, pieces=max(shape.gathered, prod(shape.kernel)))


def whole_tiles(shape: Shape) -> Iterable[Tiles]:
    """Tiles whose windows are loaded at once, with either operand stationary or none."""
    return (Tiles(*fields) for fields in fields_of_whole(shape))


def fields_of_whole(shape: Shape) -> Iterator[tuple[int, int, int, int, str]]:
    """The fields of `whole_tiles`, of which there may be many, without those that are the same."""
    whole = shape.numbers or shape.row_cycles
    cuts = [shape.channels] if whole else pieces_of(shape.channels)
    for rows, columns, channels, depth in product(
            pieces_of(shape.rows), pieces_of(shape.columns), cuts, depths_of(shape)):
        yield rows, columns, channels, depth, ""
        if shape.weighted and depth == shape.depth:
            if (rows, columns) != (shape.rows, shape.columns):
                yield rows, columns, channels, depth, "w"
            if channels != shape.channels and not shape.diagonal:
                yield rows, columns, channels, depth, "input"


def tiles_in_pieces(shape: Shape) -> Iterable[Tiles]:
    """Tiles for what no buffer holds at once: windows in pieces, of whole rows of pixels or a part
    of one, of pools a pixel at a time; of functions of rows, results in parts behind their numbers,
    of rows in parts a pixel at a time.
    """
    if shape.numbers:
        pixels = ([1], [1])
        if shape.inputs == 1 or shape.across > 0:
            pixels = pieces_of(shape.rows), pieces_of(shape.columns)
        for rows, columns, channels in product(*pixels, pieces_of(shape.channels)):
            if channels < shape.channels:
                yield Tiles(rows, columns, channels, 1, "input")
    elif not shape.row:
        pixels, depths = [(1, 1)], [1]
        if shape.weighted:
            pixels = [(rows, shape.columns) for rows in pieces_of(shape.rows)]
            pixels += [(1, columns) for columns in pieces_of(shape.columns)[:-1]]
            depths = depths_of(shape)
        for (rows, columns), channels, depth, count in product(
                pixels, pieces_of(shape.channels), depths, piece_counts(shape)):
            yield Tiles(rows, columns, channels, depth, pieces=count)


def tiles_by_rows(shape: Shape, tiles: Iterable[Tiles]) -> Iterator[Tiles]:
    """Those of some tiles of which rows may come before channels, with this order."""
    for one in tiles:
        width = shape.columns if one.stationary == "w" else shape.columns + 1
        if (one.rows < shape.rows and one.channels < shape.channels and one.columns < width
                and one.stationary != "input" and one.pieces == 1):
            yield replace(one, by_rows=True)


def may_have(shape: Shape, tiles: Tiles) -> bool:
    """True if a layer can be cut into these tiles, in this order."""
    cut = replace(tiles, by_rows=False)
    return (cut in whole_tiles(shape) or cut in tiles_in_pieces(shape)) and (
        cut == tiles or tiles in tiles_by_rows(shape, [cut]))


def next_larger(shape: Shape, tiles: Tiles) -> dict[str, Tiles]:
    """For each extent the next larger tile that the layer could have, the rest as it is; what is
    stationary may change with it.
    """
    known = {*whole_tiles(shape), *tiles_in_pieces(shape)}
    known |= {*tiles_by_rows(shape, known)}
    larger: dict[str, Tiles] = {}
    for name in ("rows", "columns", "channels", "depth"):
        sizes = sorted({getattr(one, name) for one in known})
        for size, stationary in product(sizes, (tiles.stationary, "")):
            other = replace(tiles, **{name: size, "stationary": stationary})
            if size > getattr(tiles, name) and other in known:
                larger.setdefault(name, other)
    return larger


def depths_of(shape: Shape) -> list[int]:
    """Steps of input blocks; rows of windows are not cut, nor what has factors of groups."""
    least = shape.depth if shape.row or shape.scales else 1
    return [depth for depth in range(least, shape.depth + 1) if shape.depth % depth == 0]


def pieces_of(extent: int) -> list[int]:
    """Sizes that cut `extent` into equal pieces, the last one perhaps smaller: ``ceil(extent / n)``
    for all n. Up to the root these are all numbers; those above have an n that is not much greater.
    """
    root = isqrt(extent)
    return sorted({*range(1, root + 1), *(ceil(extent / count) for count in range(1, root + 2))})


def piece_counts(shape: Shape) -> list[int]:
    """The numbers of pieces, more than one, that a window or what is gathered may have."""
    height, width = shape.kernel
    counts = {ceil(height / rows) for rows in pieces_of(height)}
    counts |= {height * ceil(width / columns) for columns in pieces_of(width)}
    counts |= {ceil(shape.gathered / blocks) for blocks in pieces_of(max(shape.gathered, 1))}
    return sorted(counts - {0, 1})
