"""Tile sizes, and what stays on chip: the cheapest that fit, by a closed formula over all of them.

A tile is `rows` x `columns` output pixels and `channels` output blocks; a convolution may cut its
input blocks into steps of `depth`. One operand of a convolution may be *stationary*: tiles that use
the same weights (or input pixels) follow each other, and these are loaded once. A tile loads all
else that it needs. A window that fits no buffer is loaded in several pieces, and so is what a
function of rows has more of than fits. With two virtual threads every buffer is used in halves, and
a layer costs the longer of its products and its traffic instead of their sum.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from heapq import nsmallest
from itertools import product
from math import ceil, isqrt, prod
from typing import Any

import numpy as np

from accel.machine.config import AccelConfig, element_bytes
from accel.mapping.lowering import LoweringError, Room, room_of
from accel.mapping.operators.blocked import AROUND, BlockedOperator
from accel.mapping.schedules.cost import FAR, Cost, Number

__all__ = ["Shape", "Tiles", "all_that_fit", "choose", "choose_together", "cost_of",
           "cost_together", "fits", "follows", "misfit", "piece_of", "ranked", "ranked_together",
           "shape_of"]

TRIED = 256
"""Tiles of a layer that are tried together with the next layer's, the cheapest first."""

IN_FLIGHT, BURST = 64, 64
"""The most open requests, and the most bytes of one. Short runs are short requests, which do not
fill the bus of a memory that is `FAR`."""

HIDDEN = 1000
"""Cycles of its first weights' load that the layer before overlaps."""

OF_A_KIND = 4
"""Tiles of every kind that `ranked` has."""

SLACK, PACKED_SLACK = 512, 128
"""A tile takes about as long as another if its cycles are more by less than such a part; the second
is that of packed weights."""

ISSUE = 12
"""Cycles of the bus that a load or store costs besides its bytes."""

TURN = 4
"""Cycles from one instruction of gemm to the next when tokens pass between them."""


@dataclass(frozen=True, slots=True, order=True)
class Tiles:
    """Extents of one tile, in pixels and in blocks of channels. `stationary` is ``"w"``,
    ``"input"`` or neither. The window of a tile, or all blocks that it gathers, are loaded in
    `pieces`, one after the other.
    """

    rows: int
    columns: int
    channels: int
    depth: int
    stationary: str = ""
    pieces: int = 1


@dataclass(frozen=True, slots=True)
class Shape:
    """What a layer requires of a tile. `kernel`, `strides`, `dilations` describe its window. A
    layer without products has `weighted` false, and its input blocks are its output blocks; they
    also are in a layer with products that is `diagonal`. Each position is `phases` output pixels.
    All is computed `times` times, for groups of images and of channels, or leading dimensions. A
    function of rows whose totals have `inputs` of their own loads rows in parts, for each of them.
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


def shape_of(operator: BlockedOperator) -> Shape:
    """The shape of a layer."""
    stages, window, size = operator.stages, operator.window, operator.extents("output")
    weighted = "w" in stages
    tile = operator.extents("quantized")
    phases = tile.get("p", 1) * tile.get("q", 1)
    depth = operator.reduced["depth"].extent if "depth" in operator.reduced else 0
    depth = depth if weighted else 1
    repeated = len(operator.repeated)
    return Shape(size["y"], size["x"], size["c"], max(depth, 1), window.kernel, window.strides,
                 weighted, len(operator.inputs) - repeated,
                 len(operator.accumulators) - len(operator.numbers),
                 len(operator.parameters), operator.row,
                 not weighted and "params" in stages and len(stages["params"].shape) == 3,
                 window.dilations,
                 depth == 0, phases, prod(size.get(axis, 1) for axis in AROUND), repeated,
                 len(operator.tables),
                 0 if weighted or "depth" not in operator.reduced
                 else operator.reduced["depth"].extent, operator.weight_bits,
                 operator.reduced["passes"].extent if "passes" in operator.reduced else 1,
                 operator.weights,
                 prod(window.kernel) if "params_taps" in stages else 0, len(operator.numbers),
                 sum(bool(operator[role].reduce_axes) for role in operator.numbers),
                 operator.step)


def choose(config: AccelConfig, shape: Shape, threads: int, cut: bool = True) -> Tiles:
    """The cheapest tile that fits; where none does, the cheapest of those that are loaded in
    pieces. Refuses a layer of which not even the smallest fits, or that must be in pieces and may
    not be `cut`.
    """
    if candidates := _fitting(config, shape, threads, {}):
        return _least_traffic(config, shape, candidates, threads)
    if cut and (candidates := _fitting(config, shape, threads, {}, _in_pieces(shape))):
        return min(candidates)[1]
    short = ", ".join(f"{name} needs {need} of {have} entries"
                      for name, need, have in _needs(config, shape, _smallest(shape), threads, {})
                      if need > have)
    times = f" {threads} times" if threads > 1 else ""
    raise LoweringError(f"Tile of one pixel must fit the buffers of {config.name}{times}: "
                        f"{short or 'it must be loaded in pieces'}")


def ranked(config: AccelConfig, shape: Shape, threads: int, most: int) -> list[Tiles]:
    """The cheapest tiles that fit, the cheapest first: so many of all, and the four best of every
    kind, of which a kind keeps one operand and takes all of the depth at once or not.
    """
    kinds: dict[tuple[str, bool], int] = {}
    result = []
    for number, tiles in enumerate(all_that_fit(config, shape, threads)):
        kind = tiles.stationary, tiles.depth == shape.depth
        kinds[kind] = kinds.get(kind, 0) + 1
        if number < most or kinds[kind] <= min(most, OF_A_KIND):
            result.append(tiles)
    return result


def all_that_fit(config: AccelConfig, shape: Shape, threads: int) -> list[Tiles]:
    """Every tile that fits, the cheapest by the formula first; those in pieces where no other does.
    """
    found = (_fitting(config, shape, threads, {})
             or _fitting(config, shape, threads, {}, _in_pieces(shape)))
    return [tiles for _, tiles in sorted(found)]


def ranked_together(config: AccelConfig, first: Shape, second: Shape, threads: int,
                    rooms: tuple[Room, Room], most: int) -> list[tuple[Tiles, Tiles]]:
    """The cheapest tiles of two layers computed at the same time, as `choose_together` has them,
    the cheapest first.
    """
    found = nsmallest(most, _pairs(config, first, second, threads, rooms))
    return [(one, other) for _, one, other in found]


def fits(config: AccelConfig, shape: Shape) -> bool:
    """Whether any tile of a layer fits, be it in pieces."""
    return _fits(config, shape, _smallest(shape), 1, {})


def _smallest(shape: Shape) -> Tiles:
    """The tile that takes the least of every buffer."""
    if shape.row:
        return Tiles(1, 1, 1, shape.depth)
    if shape.numbers:
        return Tiles(1, 1, 1, 1, "input")
    return Tiles(1, 1, 1, 1, pieces=max(shape.gathered, prod(shape.kernel)))


def _least_traffic(config: AccelConfig, shape: Shape, candidates: list[tuple["Rank", Tiles]],
                   threads: int) -> Tiles:
    """Chooses the tile with the least traffic among those that take about as long as the cheapest:
    a memory may be slower than the bus. Weights are packed to save traffic, so it counts for more
    there.
    """
    least, _ = min(candidates)
    most = least[0] + least[0] // (SLACK if shape.weight_bits == 8 else PACKED_SLACK)
    near = [(cost_of(config, shape, tiles, threads).traffic, rank, tiles)
            for rank, tiles in candidates if rank[0] <= most]
    return min(near)[2]


def choose_together(config: AccelConfig, first: Shape, second: Shape, threads: int,
                    rooms: tuple[Room, Room]) -> tuple[Tiles, Tiles] | None:
    """The cheapest tiles that fit the rooms of two layers computed at the same time, the second
    from the results of the first, those with the least traffic of about equal ones; None where
    there are none. Tiles of the second are parts of those of the first, in the same order.
    """
    pairs = _pairs(config, first, second, threads, rooms)
    if not pairs:
        return None
    least, *_ = min(pairs)
    near = [(cost_of(config, first, one, threads).traffic
             + cost_of(config, second, two, threads).traffic, rank, one, two)
            for rank, one, two in pairs if rank[0] <= least[0] + least[0] // SLACK]
    return min(near)[2:]


def cost_together(config: AccelConfig, shapes: tuple[Shape, Shape], tiles: tuple[Tiles, Tiles],
                  threads: int) -> Cost:
    """The cost of two layers that are computed at the same time."""
    one, two = (cost_of(config, shape, its, threads)
                for shape, its in zip(shapes, tiles, strict=True))
    return one.beside(two, bool(shapes[1].accumulators), tiles[1].channels / tiles[0].channels,
                      threads).single


def _pairs(config: AccelConfig, first: Shape, second: Shape, threads: int,
           rooms: tuple[Room, Room]) -> list[tuple["Rank", Tiles, Tiles]]:
    """Tiles of two layers computed at the same time, the cheapest for the second with each of the
    first, with their ranks.
    """
    ones = [tiles for _, tiles in nsmallest(TRIED, _fitting(config, first, threads, rooms[0]))]
    twos = [tiles for _, tiles in _fitting(config, second, threads, rooms[1])]
    if not (ones and twos):
        return []
    one, two = _many(ones), _many(twos)
    limits = [_within(second, tiles) for tiles in ones]
    rows, columns, channels = (np.array(limit)[:, None] for limit in zip(*limits, strict=True))
    apart = ((one.rows < first.rows) | (one.columns < first.columns))[:, None]
    at, other = np.nonzero((two.rows == rows) & (two.columns <= columns) & np.where(
        apart, two.channels == channels, two.channels <= channels))
    if not len(at):
        return []
    cost = _cost(config, first, one, threads).of(at).beside(
        _cost(config, second, two, threads).of(other), bool(second.accumulators),
        two.channels[other] / one.channels[at], threads)
    best: dict[int, tuple[Rank, Tiles, Tiles]] = {}
    for cycles, mine, its in zip(cost.cycles.tolist(), at.tolist(), other.tolist(), strict=True):
        tiles = ones[mine], twos[its]
        rank = cycles, *(-part for one in tiles for part in (one.rows, one.columns))
        best[mine] = min(best.get(mine, (rank, *tiles)), (rank, *tiles))
    return list(best.values())


def follows(shapes: tuple[Shape, Shape], first: Tiles, second: Tiles) -> bool:
    """Whether tiles of a second layer are parts of those of the first, in the same order."""
    rows, columns, channels = _within(shapes[1], first)
    return second.rows == rows and second.columns <= columns and second.channels <= channels


def _within(second: Shape, tiles: Tiles) -> tuple[int, int, int]:
    """The rows, and the most columns and channels, of a tile of the second layer."""
    rows, columns = (max(1, size // stride) for size, stride
                     in zip((tiles.rows, tiles.columns), second.strides, strict=True))
    return (min(rows, second.rows), columns,
            second.channels if tiles.stationary == "input" else tiles.channels)


def misfit(config: AccelConfig, shape: Shape, tiles: Tiles, threads: int, room: Room) -> str | None:
    """Why the layer cannot have these tiles, or the machine not so many times; None if both can."""
    for name in ("rows", "columns", "channels", "depth"):
        size, most = getattr(tiles, name), getattr(shape, name)
        if not 1 <= size <= most:
            return f"{name} must be from 1 to {most}, not {size}"
    if tiles not in _candidates(shape) and tiles not in _in_pieces(shape):
        return "the layer must be cut into equal pieces that its operands can follow"
    for buffer, need, have in _needs(config, shape, tiles, threads, room):
        if need > have:
            return f"a tile must fit {buffer}, which has {have} entries for it, not {need}"
    return None


Rank = tuple[int, ...]
"""Cycles, then the tie-breakers: larger tiles are better."""


def _fitting(config: AccelConfig, shape: Shape, threads: int, room: Room,
             candidates: Iterable[Tiles] | None = None) -> list[tuple[Rank, Tiles]]:
    """The tiles that fit, of `candidates` if given, with their ranks."""
    known = list(_candidates(shape) if candidates is None else candidates)
    fitting = _chosen(known, _fits(config, shape, _many(known), threads, room)) if known else []
    if not fitting:
        return []
    cycles = _cost(config, shape, _many(fitting), threads).cycles
    return [((count, -tiles.rows, -tiles.columns), tiles)
            for count, tiles in zip(cycles.tolist(), fitting, strict=True)]


def _many(tiles: Sequence[Tiles]) -> Any:
    """Many tiles as one, whose fields are arrays: what is computed of one is computed of all."""
    columns: list[Any] = [np.array([getattr(one, part.name) for one in tiles])
                          for part in fields(Tiles)]
    return Tiles(*columns)


def _chosen(tiles: Sequence[Tiles], holds: Number) -> list[Tiles]:
    return [one for one, held in zip(tiles, np.broadcast_to(holds, len(tiles)).tolist(),
                                     strict=True) if held]


def _where(condition: Number, one: Number, other: Number) -> Number:
    return np.where(condition, one, other)


def _up(number: Number, by: Number) -> Number:
    """The quotient, rounded up."""
    return -(-number // by)


def _in_pieces(shape: Shape) -> Iterable[Tiles]:
    """Tiles for what no buffer holds at once: windows in pieces, of whole rows of pixels or a part
    of one, of pools a pixel at a time; of functions of rows, results in parts behind their numbers,
    of rows in parts a pixel at a time.
    """
    if shape.numbers:
        pixels = ([1], [1]) if shape.inputs > 1 else (_pieces(shape.rows), _pieces(shape.columns))
        for rows, columns, channels in product(*pixels, _pieces(shape.channels)):
            if channels < shape.channels:
                yield Tiles(rows, columns, channels, 1, "input")
    elif not shape.row:
        pixels, depths = [(1, 1)], [1]
        if shape.weighted:
            pixels = [(rows, shape.columns) for rows in _pieces(shape.rows)]
            pixels += [(1, columns) for columns in _pieces(shape.columns)[:-1]]
            depths = _depths(shape)
        for (rows, columns), channels, depth, count in product(
                pixels, _pieces(shape.channels), depths, _piece_counts(shape)):
            yield Tiles(rows, columns, channels, depth, pieces=count)


def _piece_counts(shape: Shape) -> list[int]:
    """The numbers of pieces, more than one, that a window or what is gathered may have."""
    height, width = shape.kernel
    counts = {ceil(height / rows) for rows in _pieces(height)}
    counts |= {height * ceil(width / columns) for columns in _pieces(width)}
    counts |= {ceil(shape.gathered / blocks) for blocks in _pieces(max(shape.gathered, 1))}
    return sorted(counts - {0, 1})


def piece_of(kernel: tuple[int, int], pieces: int) -> tuple[int, int]:
    """Rows and columns of the largest of so many pieces of a window: whole rows, or one row's
    columns where there are more pieces than rows.
    """
    rows, columns = _piece(kernel, pieces)
    return int(rows), int(columns)


def _piece(kernel: tuple[int, int], pieces: Number) -> tuple[Number, Number]:
    (height, width), whole = kernel, pieces <= kernel[0]
    return (_where(whole, _up(height, pieces), 1),
            _where(whole, width, _up(width, np.maximum(pieces // height, 1))))


def _candidates(shape: Shape) -> Iterable[Tiles]:
    cuts = [shape.channels] if shape.numbers else _pieces(shape.channels)
    for rows, columns, channels, depth in product(
            _pieces(shape.rows), _pieces(shape.columns), cuts, _depths(shape)):
        yield Tiles(rows, columns, channels, depth)
        if shape.weighted and depth == shape.depth:
            if (rows, columns) != (shape.rows, shape.columns):
                yield Tiles(rows, columns, channels, depth, "w")
            if channels != shape.channels and not shape.diagonal:
                yield Tiles(rows, columns, channels, depth, "input")


def _depths(shape: Shape) -> list[int]:
    """Steps of input blocks; rows of windows are not cut."""
    least = shape.depth if shape.row else 1
    return [depth for depth in range(least, shape.depth + 1) if shape.depth % depth == 0]


def _pieces(extent: int) -> list[int]:
    """Sizes that cut `extent` into equal pieces, the last one perhaps smaller: ``ceil(extent / n)``
    for all n. Up to the root these are all numbers; those above have an n that is not much greater.
    """
    root = isqrt(extent)
    return sorted({*range(1, root + 1), *(ceil(extent / count) for count in range(1, root + 2))})


def _window(shape: Shape, tiles: Tiles) -> Number:
    """The number of input pixels of a tile, or of a piece of its window."""
    kernel = _piece(shape.kernel, tiles.pieces)
    height, width = ((size - 1) * step + 1
                     for size, step in zip(kernel, shape.dilations, strict=True))
    return (((tiles.rows - 1) * shape.strides[0] + height)
            * ((tiles.columns - 1) * shape.strides[1] + width))


def _counts(shape: Shape, tiles: Tiles) -> tuple[Number, Number]:
    """The number of tiles of an image, and of the channels."""
    return (_up(shape.rows, tiles.rows) * _up(shape.columns, tiles.columns),
            _up(shape.channels, tiles.channels))


def _needs(config: AccelConfig, shape: Shape, tiles: Tiles, threads: int,
           room: Room) -> list[tuple[str, Number, Number]]:
    """For each buffer its name, the entries that a tile takes, and those that it may take."""
    images, cuts = _counts(shape, tiles)
    kept = {name: (tiles.stationary == operand) & (times * shape.times == 1)
            for operand, times, names in (("w", cuts, ("wgt", "par")), ("input", images, ("inp",)))
            for name in names} | {"tab": True}
    have = {name: (end - begin) // _where(kept.get(name, False), 1, threads)
            for name in config.buffers                      # what is loaded once has one copy
            for begin, end in (room_of(config, room, name),)}
    channels = tiles.channels * shape.phases
    outputs = tiles.rows * tiles.columns * channels
    pixels = _window(shape, tiles)
    needs = [("out", outputs)]
    if shape.accumulators or shape.numbers:
        needs.append(("acc", outputs * shape.accumulators
                      + tiles.rows * tiles.columns * shape.numbers))
    if shape.parameters:
        needs.append(("par", _records(shape, tiles)))
    if shape.tables:
        needs.append(("tab", shape.tables))
    if shape.weighted:
        needs += [("inp", pixels * (tiles.channels if shape.diagonal else tiles.depth)),
                  ("wgt", channels * _taps(shape, tiles) * tiles.depth
                   * shape.passes)]
    else:
        needs.append(("res", (pixels * shape.inputs + shape.repeated) * _loaded(shape, tiles)))
    return [(name, need, have[name]) for name, need in needs]


def _loaded(shape: Shape, tiles: Tiles) -> Number:
    """The input blocks that a layer without products holds of a tile at once."""
    if shape.gathered:
        return _up(shape.gathered, tiles.pieces)
    return _where(_keeps_rows(shape, tiles), shape.channels, tiles.channels)


def _keeps_rows(shape: Shape, tiles: Tiles) -> Number:
    """Whether whole rows stay on chip for the parts of their results."""
    return (tiles.stationary == "input") & (bool(shape.numbers) and shape.inputs == 1)


def _taps(shape: Shape, tiles: Tiles) -> Number:
    """The pixels of the window of a tile, or of a piece of it."""
    rows, columns = _piece(shape.kernel, tiles.pieces)
    return rows * columns


def _records(shape: Shape, tiles: Tiles) -> Number:
    """The number of parameter entries that a tile holds at once."""
    if shape.gathered:                  # the first are those of the blocks that are gathered
        return _loaded(shape, tiles) + tiles.channels * (shape.parameters - 1)
    if shape.pixelwise:
        return tiles.rows * tiles.columns
    once = shape.parameters - (shape.taps > 0)
    taps = _taps(shape, tiles) if shape.taps else 0
    return tiles.channels * (shape.phases * once + taps)


def _fits(config: AccelConfig, shape: Shape, tiles: Tiles, threads: int, room: Room) -> Number:
    held = True
    for _, need, have in _needs(config, shape, tiles, threads, room):
        held = held & (need <= have)
    return held


def cost_of(config: AccelConfig, shape: Shape, tiles: Tiles, threads: int) -> Cost:
    return _cost(config, shape, tiles, threads).single


def _cost(config: AccelConfig, shape: Shape, tiles: Tiles, threads: int) -> Cost:
    images, cuts = _counts(shape, tiles)
    images, cuts, count = (shape.times * some for some in (images, cuts, images * cuts))
    taps = shape.kernel[0] * shape.kernel[1]
    channels = tiles.channels * shape.phases
    outputs = tiles.rows * tiles.columns * channels
    entry = {name: buffer.entry_bytes for name, buffer in config.buffers.items()}
    steps, work, kernel, records, lanes = tiles.pieces, 0, 0, 0, outputs
    pixels = _window(shape, tiles) * _loaded(shape, tiles) * shape.inputs * entry["res"] * steps
    if shape.numbers:                                       # each input is whole rows
        rows = _window(shape, tiles) * shape.channels * shape.inputs * entry["res"]
        pixels = _where(tiles.stationary == "input", rows, pixels)
    written = pixels
    if shape.weighted:
        steps = steps * (shape.depth // tiles.depth)
        work = outputs * taps * shape.depth * shape.passes
        pixel = (tiles.channels if shape.diagonal else shape.depth) * entry["inp"]
        written = pixels = _window(shape, tiles) * pixel * tiles.pieces
        if shape.row:
            written, pixels = _rows(config, shape, tiles, pixel)
        lanes += outputs * (shape.accumulators - 1)
        kernel = (shape.depth * channels * taps * shape.passes * (shape.weights or entry["wgt"])
                  * shape.weight_bits // 8)
    else:
        lanes = (lanes + outputs * (taps * shape.accumulators * max(shape.gathered, 1)
                                    + shape.totals)
                 + tiles.rows * tiles.columns * (shape.numbers - shape.totals))
    lanes = lanes * config.vector_beats
    if shape.parameters:
        records = _records(shape, replace(tiles, pieces=1)) * entry["par"]
    pixels, stored = (_slowed(config, size, run) / config.bus_bytes for size, run in zip(
        (pixels, outputs * entry["out"]), _runs(config, shape, tiles), strict=True))
    pixels = np.maximum(pixels, written / config.bus_bytes)     # load writes no faster
    kernel, records = kernel / config.bus_bytes, records / config.bus_bytes
    filled = shape.rows * shape.columns * shape.channels * shape.times / (
        count * tiles.rows * tiles.columns * tiles.channels)
    keeps_weights, keeps_input = tiles.stationary == "w", tiles.stationary == "input"
    ends = pixels / steps + stored + lanes + FAR + np.maximum(0, kernel / steps - HIDDEN)
    if not shape.weighted:                                  # vector is what loads wait for
        work, lanes = lanes, 0
    cost = Cost(
        count, steps, work / steps + TURN,
        _where(keeps_input, 0, pixels / steps + ISSUE)
        + _where(keeps_weights, 0, kernel / steps + ISSUE * shape.weighted),
        stored + ISSUE + _where(keeps_weights, 0, records), lanes,
        _where(keeps_input, pixels, 0) + _where(keeps_weights, kernel + records, 0),
        _where(keeps_input, images, _where(keeps_weights, cuts, 0)), filled, ends)
    if threads > 1:
        return cost
    apart = cost.traffic + count * (work + lanes + FAR)
    return Cost(0, 1, 0, 0, 0, 0, 0, 0, 1, apart)


def _rows(config: AccelConfig, shape: Shape, tiles: Tiles, pixel: int) -> tuple[Number, Number]:
    """The bytes that load could write, and those that the bus could move, in the time of the rows
    of a tile's windows, of `pixel` bytes each. A row begins and ends within a chunk and within a
    beat; neighbours in a line share their beats.
    """
    item, ends = element_bytes(config.operand), config.bus_bytes - 1
    row, step = item * shape.row, item * shape.step
    lines = tiles.rows * (pixel // row)
    written = lines * tiles.columns * (row + ends)
    if not _overlaps(config, shape):
        return written, written
    return written, lines * (row + ends + (tiles.columns - 1) * step)


def _overlaps(config: AccelConfig, shape: Shape) -> bool:
    """Whether load reads what neighbouring rows of windows share once."""
    beats = _up(element_bytes(config.operand) * shape.row - 1, config.bus_bytes) + 1
    return 0 < shape.step < shape.row and beats <= config.kept_beats


def _runs(config: AccelConfig, shape: Shape, tiles: Tiles) -> tuple[Number, Number]:
    """The bytes that lie together in memory in the input, and in the output."""
    loaded, blocks = (tiles.depth, shape.depth) if shape.weighted else (
        _loaded(shape, tiles), shape.gathered or shape.channels)
    size = config.block_in if shape.weighted else config.block_out
    columns = (tiles.columns - 1) * shape.strides[1] + shape.kernel[1]
    together = _where(loaded == blocks, columns, 1)
    written = _where(tiles.channels == shape.channels, tiles.columns, 1)
    item = element_bytes(config.output)         # that of what gemm takes, too
    row = BURST if _overlaps(config, shape) else shape.row      # they are as good as one
    return (item * (row or together * loaded * size),
            item * written * tiles.channels * config.block_out)


def _slowed(config: AccelConfig, size: Number, run: Number) -> Number:
    """The bytes that the bus could move while it moves `size` bytes in runs of `run`."""
    beats = IN_FLIGHT * _up(np.minimum(run, BURST), config.bus_bytes)
    return np.ceil(size * np.maximum(1, FAR / beats)).astype(np.int64)
