"""The cheapest tiles that fit, by a closed formula over all of them."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import lru_cache
from heapq import nsmallest
from typing import Any

import numpy as np

from accel.machine.config import AccelConfig
from accel.mapping.lowering import LoweringError, Room
from accel.mapping.schedules.demands import costs_of, fits_in, needs_of
from accel.mapping.schedules.between import kept_traffic
from accel.mapping.schedules.tiles import (Shape, Tiles, fields_of_whole, may_have, smallest,
                                           tiles_by_rows, tiles_in_pieces)

TRIED = 256
"""Tiles of a layer that are tried together with the next layer's, the cheapest first."""

OF_A_KIND = 4
"""Tiles of every kind that `ranked` has."""

SLACK, PACKED_SLACK, ONLY_SLACK = 512, 128, 2048
"""A tile takes about as long as another if its cycles are more by less than such a part. The second
is that of packed weights, the third that of a program's only layer, whose beginning and end nothing
hides: there the formula tells more tiles apart."""

Rank = tuple[int, ...]
"""Cycles, then the tie-breakers: larger tiles are better."""


def choose(config: AccelConfig, shape: Shape, threads: int, cut: bool = True) -> Tiles:
    """The cheapest tile that fits; where none does, the cheapest of those that are loaded in
    pieces. Refuses a layer of which not even the smallest fits, or that must be in pieces and may
    not be `cut`.
    """
    if candidates := _fitting(config, shape, threads, {}):
        return _least_traffic(config, shape, candidates, threads)
    if cut and (candidates := _fitting(config, shape, threads, {}, tiles_in_pieces(shape))):
        return min(candidates)[1]
    short = ", ".join(f"{name} needs {need} of {have} entries"
                      for name, need, have in needs_of(config, shape, smallest(shape), threads, {})
                      if need > have)
    times = f" {threads} times" if threads > 1 else ""
    raise LoweringError(f"Tile of one pixel must fit the buffers of {config.name}{times}: "
                        f"{short or 'it must be loaded in pieces'}")


def _least_traffic(config: AccelConfig, shape: Shape, candidates: list[tuple[Rank, Tiles]],
                   threads: int) -> Tiles:
    """Chooses the tile with the least traffic among those that take about as long as the cheapest:
    a memory may be slower than the bus. Weights are packed to save traffic, so it counts for more
    there.
    """
    near = _near(shape, candidates)
    traffic = _traffic(config, shape, threads, [tiles for _, tiles in near])
    return min((moved, rank, tiles) for moved, (rank, tiles) in zip(traffic, near, strict=True))[2]


def _traffic(config: AccelConfig, shape: Shape, threads: int, tiles: Sequence[Tiles]
             ) -> list[float]:
    """The cycles of the bus with each of some tiles."""
    moved = costs_of(config, shape, _many(tiles), threads).traffic
    return np.broadcast_to(moved, len(tiles)).tolist()


def near(config: AccelConfig, shape: Shape, threads: int) -> list[Tiles]:
    """The tiles that fit and take about as long as the cheapest, windows in pieces left out."""
    candidates = _fitting(config, shape, threads, {})
    return [tiles for _, tiles in _near(shape, candidates)] if candidates else []


def _near(shape: Shape, candidates: list[tuple[Rank, Tiles]]) -> list[tuple[Rank, Tiles]]:
    least, _ = min(candidates)
    slack = PACKED_SLACK if shape.weight_bits != 8 else ONLY_SLACK if shape.only else SLACK
    most = least[0] + least[0] // slack
    return [(rank, tiles) for rank, tiles in candidates if rank[0] <= most]


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
             or _fitting(config, shape, threads, {}, tiles_in_pieces(shape)))
    return [tiles for _, tiles in sorted(found)]


def choose_together(config: AccelConfig, first: Shape, second: Shape, threads: int,
                    rooms: tuple[Room, Room]) -> tuple[Tiles, Tiles] | None:
    """The cheapest tiles that fit the rooms of two layers computed at the same time, the second
    from the results of the first, those with the least traffic of about equal ones; None where
    there are none. Tiles of the second are parts of those of the first, in the same order. What
    lies between both counts as far as a shared scratchpad cannot keep it.
    """
    pairs = _pairs(config, first, second, threads, rooms)
    if not pairs:
        return None
    least, *_ = min(pairs)
    near = [pair for pair in pairs if pair[0][0] <= least[0] + least[0] // SLACK]
    ones = _traffic(config, first, threads, [one for _, one, _ in near])
    twos = _traffic(config, second, threads, [two for _, _, two in near])
    return min((moved + its - kept_traffic(config, first, second, pair[1]), *pair)
               for moved, its, pair in zip(ones, twos, near, strict=True))[2:]


def ranked_together(config: AccelConfig, first: Shape, second: Shape, threads: int,
                    rooms: tuple[Room, Room], most: int) -> list[tuple[Tiles, Tiles]]:
    """The cheapest tiles of two layers computed at the same time, as `choose_together` has them,
    the cheapest first.
    """
    found = nsmallest(most, _pairs(config, first, second, threads, rooms))
    return [(one, other) for _, one, other in found]


def _pairs(config: AccelConfig, first: Shape, second: Shape, threads: int,
           rooms: tuple[Room, Room]) -> list[tuple[Rank, Tiles, Tiles]]:
    """Tiles of two layers computed at the same time, the cheapest for the second with each of the
    first, with their ranks.
    """
    fitting = _fitting(config, first, threads, rooms[0])
    ones = [tiles for _, tiles in nsmallest(TRIED, fitting)]
    twos = [tiles for _, tiles in _fitting(config, second, threads, rooms[1])]
    if config.shared_bytes:
        by_rows = _priced(config, first, threads, *_listed(tiles_by_rows(first, (
            tiles for _, tiles in fitting))))
        ones += [tiles for _, tiles in nsmallest(TRIED, by_rows)]
        twos += [*tiles_by_rows(second, twos)]
    if not (ones and twos):
        return []
    one, two = _many(ones), _many(twos)
    limits = [_within(first, second, tiles) for tiles in ones]
    rows, columns, channels = (np.array(limit)[:, None] for limit in zip(*limits, strict=True))
    apart = ((one.rows < first.rows) | (one.columns < first.columns))[:, None]
    at, other = np.nonzero((two.rows == rows) & (two.columns <= columns) & np.where(
        apart, two.channels == channels, two.channels <= channels)
        & (two.by_rows == one.by_rows[:, None]))
    if not len(at):
        return []
    cost = costs_of(config, first, one, threads).of(at).beside(
        costs_of(config, second, two, threads).of(other), bool(second.accumulators),
        two.channels[other] / one.channels[at], threads)
    best: dict[int, tuple[Rank, Tiles, Tiles]] = {}
    for cycles, mine, its in zip(cost.cycles.tolist(), at.tolist(), other.tolist(), strict=True):
        tiles = ones[mine], twos[its]
        rank = cycles, *(-part for one in tiles for part in (one.rows, one.columns))
        best[mine] = min(best.get(mine, (rank, *tiles)), (rank, *tiles))
    return list(best.values())


def fits(config: AccelConfig, shape: Shape) -> bool:
    """True if any tile of a layer fits, be it in pieces."""
    return fits_in(config, shape, smallest(shape), 1, {})


def follows(shapes: tuple[Shape, Shape], first: Tiles, second: Tiles) -> bool:
    """True if tiles of a second layer are parts of those of the first, in the same order."""
    rows, columns, channels = _within(*shapes, first)
    return (second.rows == rows and second.columns <= columns and second.channels <= channels
            and second.by_rows == first.by_rows)


def _within(first: Shape, second: Shape, tiles: Tiles) -> tuple[int, int, int]:
    """The rows, and the most columns and channels, of a tile of the second layer."""
    rows, columns = (max(1, size * pixels // stride) for size, pixels, stride in zip(
        (tiles.rows, tiles.columns), first.pixels, second.strides, strict=True))
    return (min(rows, second.rows), columns,
            second.channels if tiles.stationary == "input" else tiles.channels)


def misfit(config: AccelConfig, shape: Shape, tiles: Tiles, threads: int, room: Room) -> str | None:
    """Why the layer cannot have these tiles, or the machine not so many times; None if both can."""
    for name in ("rows", "columns", "channels", "depth"):
        size, most = getattr(tiles, name), getattr(shape, name)
        if not 1 <= size <= most:
            return f"{name} must be from 1 to {most}, not {size}"
    if not may_have(shape, tiles):
        return ("the layer must be cut into equal pieces that its operands can follow, in an order "
                "that they can have")
    for buffer, need, have in needs_of(config, shape, tiles, threads, room):
        if need > have:
            return f"a tile must fit {buffer}, which has {have} entries for it, not {need}"
    return None


def _fitting(config: AccelConfig, shape: Shape, threads: int, room: Room,
             candidates: Iterable[Tiles] | None = None) -> list[tuple[Rank, Tiles]]:
    """The tiles that fit, of `candidates` if given, with their ranks."""
    many = _whole(shape) if candidates is None else _many([*candidates])
    if not len(many.rows):
        return []
    holds = np.broadcast_to(fits_in(config, shape, many, threads, room), len(many.rows))
    columns = [getattr(many, part.name)[holds] for part in fields(Tiles)]
    fitting = [Tiles(*one) for one in zip(*(column.tolist() for column in columns), strict=True)]
    return _priced(config, shape, threads, fitting, Tiles(*columns))


@lru_cache(16)
def _whole(shape: Shape) -> Any:
    """All tiles of a layer whose windows are loaded at once, as one: chosen from again and again.
    """
    columns: list[Any] = [np.array(column) for column in zip(*fields_of_whole(shape), strict=True)]
    count = len(columns[0])
    columns += [np.ones(count, np.int64), np.zeros(count, bool)]
    return Tiles(*columns)


def _listed(tiles: Iterable[Tiles]) -> tuple[list[Tiles], Any]:
    known = list(tiles)
    return known, _many(known)


def _priced(config: AccelConfig, shape: Shape, threads: int, known: Sequence[Tiles], many: Any
            ) -> list[tuple[Rank, Tiles]]:
    """Tiles, that are `many` as one, with their ranks."""
    if not known:
        return []
    cycles = costs_of(config, shape, many, threads).cycles
    return [((count, -tiles.rows, -tiles.columns), tiles)
            for count, tiles in zip(cycles.tolist(), known, strict=True)]


def _many(tiles: Sequence[Tiles]) -> Any:
    """Many tiles as one, whose fields are arrays: what is computed of one is computed of all."""
    columns: list[Any] = [np.array([getattr(one, part.name) for one in tiles])
                          for part in fields(Tiles)]
    return Tiles(*columns)

