"""The demands of a tile: entries of the buffers, and time of the units.

With two virtual threads every buffer is used in halves, and a layer costs the longer of its
products and its traffic instead of their sum. All is computed of one tile, or of many at once:
`Tiles` whose fields are arrays.
"""

from dataclasses import replace

import numpy as np

from accel.machine.config import WEIGHT_STATIONARY, AccelConfig, element_bytes
from accel.mapping.lowering import Room, room_of
from accel.mapping.schedules.cost import FAR, Cost, Number
from accel.mapping.schedules.tiles import Shape, Tiles
from compiler.te import is_float

HIDDEN = 1000
"""Cycles of its first weights' load that the layer before overlaps."""

ISSUE = 12
"""Cycles of the bus that a load or store costs besides its bytes."""

CHAINED = 16
"""Cycles from one instruction of vector to the next that waits for its results."""

BETWEEN = 14
"""Cycles from one sum of floats into an entry of acc to the next."""

TURN = 4
"""Cycles from one instruction of gemm to the next when tokens pass between them."""


def cost_of(config: AccelConfig, shape: Shape, tiles: Tiles, threads: int) -> Cost:
    """The cost of a layer with these tiles, in floats."""
    return costs_of(config, shape, tiles, threads).single


def cost_together(config: AccelConfig, shapes: tuple[Shape, Shape], tiles: tuple[Tiles, Tiles],
                  threads: int) -> Cost:
    """The cost of two layers that are computed at the same time."""
    one, two = (cost_of(config, shape, its, threads)
                for shape, its in zip(shapes, tiles, strict=True))
    return one.beside(two, bool(shapes[1].accumulators), tiles[1].channels / tiles[0].channels,
                      threads).single


def costs_of(config: AccelConfig, shape: Shape, tiles: Tiles, threads: int) -> Cost:
    """The cost of a layer with a tile or, as arrays, with many."""
    images, cuts = _counts(shape, tiles)
    images, cuts, count = (shape.times * some for some in (images, cuts, images * cuts))
    turns = cuts * np.where(tiles.by_rows, _up(shape.rows, tiles.rows), 1)
    taps = shape.kernel[0] * shape.kernel[1]
    channels = tiles.channels * shape.phases
    outputs = tiles.rows * tiles.columns * channels
    entry = {name: buffer.entry_bytes for name, buffer in config.buffers.items()}
    results = outputs * max(shape.planes, 1)
    steps, work, kernel, records, lanes = tiles.pieces, 0, 0, 0, results
    read, written_to, _ = shape.buffers
    pixels = _window(shape, tiles) * _loaded(shape, tiles) * shape.inputs * entry[read] * steps
    if shape.numbers:                                       # each input is whole rows
        rows = _window(shape, tiles) * shape.channels * shape.inputs * entry["res"]
        pixels = np.where(tiles.stationary == "input", rows, pixels)
    written = pixels
    if shape.weighted:
        steps = steps * (shape.depth // tiles.depth)
        work = taps * shape.depth * shape.passes * (
            np.maximum(outputs, BETWEEN) if is_float(config.accumulator)
            else channels * _of_weights(config, tiles.rows * tiles.columns))
        pixel = (tiles.channels if shape.diagonal else shape.depth) * entry["inp"]
        written = pixels = _window(shape, tiles) * pixel * tiles.pieces
        if shape.row:
            written, pixels = _rows(config, shape, tiles, pixel)
        met_by_steps = shape.residuals if shape.accumulators > 1 else 0
        lanes = lanes + outputs * (shape.accumulators - 1 + met_by_steps)
        kernel = (shape.depth * channels * taps * shape.passes * (shape.weights or entry["wgt"])
                  * shape.weight_bits // 8) + channels * shape.scales * entry["res"]
    else:
        lanes = (lanes + outputs * (taps * shape.accumulators * max(shape.gathered, 1)
                                    + shape.totals)
                 + tiles.rows * tiles.columns * (shape.numbers - shape.totals))
        if shape.row_cycles:
            lanes = tiles.rows * tiles.columns * shape.row_cycles
        if shape.across:                                    # each number waits for those before it
            lanes = lanes + shape.numbers * CHAINED / np.where(
                tiles.stationary == "input", cuts / shape.times, 1)
    lanes = lanes * (1 if shape.row_cycles else config.vector_beats)
    if shape.parameters:
        records = _records(shape, replace(tiles, pieces=1)) * entry["par"]
    beat = max(1, config.bus_bytes // shape.across) if shape.across else 1
    runs = _runs(config, shape, tiles)
    moved = (pixels, results * entry[written_to])
    if not (shape.row or shape.across):
        moved = (_whole_beats(config, *one) for one in zip(moved, runs, strict=True))
    pixels, stored = (_slowed(config, size * beat, run) / config.bus_bytes for size, run in zip(
        moved, runs, strict=True))
    pixels = np.maximum(pixels, written / config.bus_bytes)     # load writes no faster
    kernel, records = kernel / config.bus_bytes, records / config.bus_bytes
    met = shape.residuals * (stored + ISSUE)                # loaded as the result is stored
    filled = shape.rows * shape.columns * shape.channels * shape.times / (
        count * tiles.rows * tiles.columns * tiles.channels)
    keeps_weights, keeps_input = tiles.stationary == "w", tiles.stationary == "input"
    hidden = 0 if shape.only else HIDDEN
    ends = pixels / steps + stored + met + lanes + FAR + np.maximum(0, kernel / steps - hidden)
    if not shape.weighted:                                  # vector is what loads wait for
        work, lanes = lanes, 0
    alone = work + lanes
    if shape.sharers > 1:
        work, lanes = _shared(shape, count, work, lanes)
    cost = Cost(
        count, steps, work / steps + TURN,
        np.where(keeps_input, 0, pixels / steps + ISSUE)
        + np.where(keeps_weights, 0, kernel / steps + ISSUE * shape.weighted),
        stored + met + ISSUE + np.where(keeps_weights, 0, records), lanes,
        np.where(keeps_input, pixels, 0) + np.where(keeps_weights, kernel + records, 0),
        np.where(keeps_input, images, np.where(keeps_weights, turns, 0)), filled, ends)
    if shape.sharers > 1 and not shape.weighted:
        cost = replace(cost, held=(alone + steps * cost.loads + cost.burst + FAR) / threads)
    if threads > 1:
        return cost
    apart = cost.traffic + count * (alone + FAR)
    return Cost(0, 1, 0, 0, 0, 0, 0, 0, 1, apart)


def _of_weights(config: AccelConfig, pixels: Number) -> Number:
    """The cycles of gemm for a block of weights that meets so many pixels: where weights stay, at
    least those that the next block takes to come in."""
    return (np.maximum(pixels, config.block_out) if config.dataflow == WEIGHT_STATIONARY
            else pixels)


def _shared(shape: Shape, count: Number, work: Number, lanes: Number) -> tuple[Number, Number]:
    """The cycles of a tile where units of vector take tiles in turn. One that works on sums holds
    their bank of acc, of which there are two: so two tiles of products take at least as long as
    gemm and vector take for one, one after the other.
    """
    share = _up(count, shape.sharers) / count
    if not shape.weighted:
        return work * share, lanes
    return work, np.maximum(lanes * share, np.where(count > 1, (work + lanes) / 2, lanes))


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
    """True if load reads the elements that neighbouring rows of windows share once."""
    beats = _up(element_bytes(config.operand) * shape.row - 1, config.bus_bytes) + 1
    return 0 < shape.step < shape.row and beats <= config.kept_beats


def _runs(config: AccelConfig, shape: Shape, tiles: Tiles) -> tuple[Number, Number]:
    """The bytes that lie together in memory in the input, and in the output."""
    if shape.across:
        return shape.across, shape.across
    loaded, blocks = (tiles.depth, shape.depth) if shape.weighted else (
        _loaded(shape, tiles), shape.gathered or shape.channels)
    size = config.block_in if shape.weighted else config.block_out
    columns = (tiles.columns - 1) * shape.strides[1] + shape.kernel[1]
    together = np.where(loaded == blocks, columns, 1)
    written = np.where((tiles.channels == shape.channels) & (not shape.planes), tiles.columns, 1)
    item = element_bytes(config.output)         # that of what gemm takes, too
    row = config.timing.burst_bytes if _overlaps(config, shape) else shape.row  # as good as one
    return (item * (row or together * loaded * size),
            item * written * tiles.channels * config.block_out)


def _whole_beats(config: AccelConfig, size: Number, run: Number) -> Number:
    """The bytes of all beats that `size` bytes in runs of `run` are in, where a beat is longer than
    a burst of others: there a short run takes one alone."""
    if config.bus_bytes <= config.timing.burst_bytes:
        return size
    return size * config.bus_bytes // np.minimum(run, config.bus_bytes)


def _slowed(config: AccelConfig, size: Number, run: Number) -> Number:
    """The bytes that the bus could move while it moves `size` bytes in runs of `run`."""
    # Short runs are short bursts, which do not fill the bus of a memory that is `FAR`.
    beats = config.timing.bursts * _up(np.minimum(run, config.timing.burst_bytes), config.bus_bytes)
    return np.ceil(size * np.maximum(1, FAR / beats)).astype(np.int64)


def needs_of(config: AccelConfig, shape: Shape, tiles: Tiles, threads: int,
           room: Room) -> list[tuple[str, Number, Number]]:
    """For each buffer its name, the entries that a tile takes, and those that it may take."""
    read, written, table = shape.buffers
    images, cuts = _counts(shape, tiles)
    kept = {name: (tiles.stationary == operand) & (times * shape.times == 1)
            for operand, times, names in (("w", cuts, ("wgt", "par")), ("input", images, ("inp",)))
            for name in names} | {table: True}
    have = {name: (end - begin) // np.where(kept.get(name, False), 1, threads)
            for name in config.buffers                      # what is loaded once has one copy
            for begin, end in (room_of(config, room, name),)}
    channels = tiles.channels * shape.phases
    outputs = tiles.rows * tiles.columns * channels
    pixels = _window(shape, tiles)
    needs = [(written, outputs * max(shape.planes, 1))]
    if shape.accumulators or shape.numbers:
        needs.append(("acc", outputs * shape.accumulators
                      + tiles.rows * tiles.columns * shape.numbers))
    if shape.parameters:
        needs.append(("par", _records(shape, tiles)))
    if shape.tables:
        needs.append((table, shape.tables))
    if shape.weighted:
        needs += [("inp", pixels * (tiles.channels if shape.diagonal else tiles.depth)),
                  ("wgt", channels * _taps(shape, tiles) * tiles.depth * shape.passes)]
        res = outputs * shape.residuals + channels * shape.scales
        needs += [("res", res)] if shape.residuals or shape.scales else []
    else:
        needs.append((read, (pixels * shape.inputs + shape.repeated) * _loaded(shape, tiles)))
    return [(name, need, have[name]) for name, need in needs]


def fits_in(config: AccelConfig, shape: Shape, tiles: Tiles, threads: int, room: Room) -> Number:
    """True if a tile fits the buffers or, where they say so, its rooms in them."""
    held = True
    for _, need, have in needs_of(config, shape, tiles, threads, room):
        held = held & (need <= have)
    return held


def _window(shape: Shape, tiles: Tiles) -> Number:
    """The number of input pixels of a tile, or of a piece of its window."""
    kernel = _piece(shape.kernel, tiles.pieces)
    height, width = ((size - 1) * step + 1
                     for size, step in zip(kernel, shape.dilations, strict=True))
    return (((tiles.rows - 1) * shape.strides[0] + height)
            * ((tiles.columns - 1) * shape.strides[1] + width))


def piece_of(kernel: tuple[int, int], pieces: int) -> tuple[int, int]:
    """Rows and columns of the largest of so many pieces of a window: whole rows, or one row's
    columns where there are more pieces than rows.
    """
    rows, columns = _piece(kernel, pieces)
    return int(rows), int(columns)


def _piece(kernel: tuple[int, int], pieces: Number) -> tuple[Number, Number]:
    (height, width), whole = kernel, pieces <= kernel[0]
    return (np.where(whole, _up(height, pieces), 1),
            np.where(whole, width, _up(width, np.maximum(pieces // height, 1))))


def _counts(shape: Shape, tiles: Tiles) -> tuple[Number, Number]:
    """The number of tiles of an image, and of the channels."""
    return (_up(shape.rows, tiles.rows) * _up(shape.columns, tiles.columns),
            _up(shape.channels, tiles.channels))


def _loaded(shape: Shape, tiles: Tiles) -> Number:
    """The input blocks that a layer without products holds of a tile at once."""
    if shape.gathered:
        return _up(shape.gathered, tiles.pieces)
    if shape.repeats:
        return np.ones_like(tiles.channels)
    return np.where(_keeps_rows(shape, tiles), shape.channels, tiles.channels)


def _keeps_rows(shape: Shape, tiles: Tiles) -> Number:
    """True if whole rows stay on chip for the parts of their results."""
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
    if shape.planes:
        return shape.planes
    once = shape.parameters - (shape.taps > 0)
    taps = _taps(shape, tiles) if shape.taps else 0
    return tiles.channels * (shape.phases * once + taps)


def _up(number: Number, by: Number) -> Number:
    """The quotient, rounded up."""
    return -(-number // by)
