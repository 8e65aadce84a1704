"""Every tiling of a layer at once, as one `Tiles` whose fields are arrays: `Many`."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from accel.machine.config import AccelConfig
from accel.mapping.schedules.demands import fits_in
from accel.mapping.schedules.tiles import Shape, Tiles, depths_of, piece_counts, pieces_of

FIELDS = [field.name for field in fields(Tiles)]

Many = Any
"""Tiles whose fields are arrays."""


def fitting(config: AccelConfig, shape: Shape, threads: int) -> Many:
    """The tilings of which so many threads' tiles fit the buffers."""
    every = every_tiling(shape)
    return chosen(every, np.broadcast_to(fits_in(config, shape, every, threads, {}),
                                         every.rows.shape))


def every_tiling(shape: Shape) -> Many:
    """All tilings that the template offers, whether they fit or not, in pieces or not: those that
    `misfit` takes.
    """
    cuts = [shape.channels] if shape.numbers else pieces_of(shape.channels)
    whole = _grid(pieces_of(shape.rows), pieces_of(shape.columns), cuts, depths_of(shape))
    parts = [whole]
    if shape.weighted:
        deep = chosen(whole, whole.depth == shape.depth)
        part = (deep.rows != shape.rows) | (deep.columns != shape.columns)
        parts.append(_with(chosen(deep, part), "w"))
        if not shape.diagonal:
            parts.append(_with(chosen(deep, deep.channels != shape.channels), "input"))
    return _joined([*parts, *_in_pieces(shape)])


def chosen(tiles: Many, holds: np.ndarray) -> Many:
    """The chosen ones of many tilings."""
    return _made(*(getattr(tiles, name)[holds] for name in FIELDS))


def listed(tiles: Many) -> list[Tiles]:
    """Many tilings, each by itself."""
    columns = (getattr(tiles, name).tolist() for name in FIELDS)
    return [Tiles(*one) for one in zip(*columns, strict=True)]


def _in_pieces(shape: Shape) -> list[Many]:
    """Tilings whose windows, or rows, are loaded in pieces."""
    if shape.numbers:
        one = shape.inputs > 1 and not shape.across
        rows, columns = ([1], [1]) if one else (pieces_of(shape.rows), pieces_of(shape.columns))
        cut = _grid(rows, columns, pieces_of(shape.channels)[:-1], [1])
        return [_with(cut, "input")]
    if shape.row:
        return []
    cuts, counts = pieces_of(shape.channels), piece_counts(shape)
    if not shape.weighted:
        return [_grid([1], [1], cuts, [1], counts)]
    depths = depths_of(shape)
    return [_grid(pieces_of(shape.rows), [shape.columns], cuts, depths, counts),
            _grid([1], pieces_of(shape.columns)[:-1], cuts, depths, counts)]


def _grid(rows: Sequence[int], columns: Sequence[int], channels: Sequence[int],
          depths: Sequence[int], pieces: Sequence[int] = (1,)) -> Many:
    axes = np.meshgrid(*(np.array(some, np.int64) for some in (rows, columns, channels, depths,
                                                               pieces)), indexing="ij")
    rows_, columns_, channels_, depths_, pieces_ = (axis.ravel() for axis in axes)
    return _made(rows_, columns_, channels_, depths_, np.full(rows_.shape, "", "U5"), pieces_,
                 np.zeros(rows_.shape, bool))


def _with(tiles: Many, stationary: str) -> Many:
    return replace(tiles, stationary=np.full(tiles.rows.shape, stationary, "U5"))


def _joined(parts: Sequence[Many]) -> Many:
    return _made(*(np.concatenate([getattr(part, name) for part in parts]) for name in FIELDS))


def _made(*columns: Any) -> Many:
    return Tiles(*columns)
