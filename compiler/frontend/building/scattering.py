"""Updates of a tensor at places that constants or computed numbers say.

A place below zero counts from the end; what still lies outside goes nowhere. Where several updates
without a reduction have one place, the last of them stays.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.ops.families.reductions import MOST_PAIRS
from compiler.ops.families.scatters import REDUCTIONS


def scattered(x: Value, at: Value, updates: Value, reduction: str = "none") -> Value:
    """x [a,n,b] with the updates [a,m,b] at their places [a,m,b] or [a,m,1] of the middle axis."""
    if reduction not in ("none", *REDUCTIONS):
        raise NodeRefused(f"reduction must be none, {', '.join(REDUCTIONS)}, not {reduction}")
    if 0 in updates.shape:
        return x
    _require_pairs(x, at, reduction)
    if reduction != "none":
        return x.tracer.emit("scatter_reduced", x, at, updates, reduction=reduction)
    last = x.tracer.emit("last_places", at, extent=x.shape[1])
    return (last >= 0).where(_taken(updates, last.maximum(0), x.shape), x)


def _taken(updates: Value, place: Value, shape: tuple[int, ...]) -> Value:
    """The updates at these places of the middle axis; whole rows where there is one batch."""
    if shape[0] == place.shape[2] == 1:
        return updates.tracer.emit("gather", updates, place.reshape(shape[1]), axis=1)
    return updates.tracer.emit("gather_elements", updates, place.expand(*shape), axis=1)


def _require_pairs(x: Value, at: Value, reduction: str) -> None:
    """Refuses computed places that are compared with too many others."""
    each = at.size if reduction == "none" else x.shape[0] * at.shape[1] * x.shape[2]
    if at.array is None and each * x.shape[1] > MOST_PAIRS:
        raise NodeRefused(f"every place is compared with every update, at most {MOST_PAIRS:,} "
                          f"pairs, not {each * x.shape[1]:,}")


def scattered_along(x: Value, axis: int, at: Value, updates: Value, reduction: str = "none"
                    ) -> Value:
    """x with each update at its own place, but for its number along the axis."""
    if at.shape != updates.shape or at.rank != x.rank:
        raise NodeRefused(f"indices and updates must have one shape of {x.rank} dimensions, not "
                          f"{at.shape} and {updates.shape}")
    after = [0 if place == axis else extent - size for place, (extent, size)
             in enumerate(zip(x.shape, at.shape, strict=True))]
    if min(after) < 0:
        raise NodeRefused(f"indices must lie within {x.shape} but for axis {axis}, not {at.shape}")
    at, updates = (_padded(value, after, fill) for value, fill in ((at, x.shape[axis]),
                                                                  (updates, 0)))
    flat, places, written = (value.reshape(
        prod(x.shape[:axis]), value.shape[axis], prod(x.shape[axis + 1:]))
        for value in (x, at, updates))
    return scattered(flat, places, written, reduction).reshape(*x.shape)


def _padded(value: Value, after: Sequence[int], fill: int) -> Value:
    """The value with more elements behind, which a place outside sends nowhere."""
    if not any(after) or 0 in value.shape:
        return value
    return value.tracer.emit("pad", value, value.like(fill), mode="constant",
                             before=(0,) * value.rank, after=tuple(after))


def replaced_rows(x: Value, at: Value, updates: Value, reduction: str = "none") -> Value:
    """x with slices at the places that the last dimension of `at` leads to."""
    depth, rest = at.shape[-1], x.shape[at.shape[-1]:]
    if depth > x.rank or updates.shape != (*at.shape[:-1], *rest):
        raise NodeRefused(f"updates must have the shape {(*at.shape[:-1], *rest)}, not "
                          f"{updates.shape}")
    rows, inner, count = prod(x.shape[:depth]), prod(rest), prod(at.shape[:-1])
    places = _numbers(at.reshape(count, depth), x.shape[:depth], rows)
    return scattered(x.reshape(1, rows, inner), places.reshape(1, count, 1),
                     updates.reshape(1, count, inner), reduction).reshape(*x.shape)


def _numbers(at: Value, extents: Sequence[int], outside: int) -> Value:
    """The number of each row of places [count,depth] in a tensor of these extents."""
    t, wide = at.tracer, at.astype("int64")
    sides = t.constant(np.array(extents, np.int64))
    place = (wide < 0).where(wide + sides, wide)
    strides = [prod(extents[axis + 1:]) for axis in range(len(extents))]
    number = (place * t.constant(np.array(strides, np.int64))).sum(1)
    exists = ((place >= 0) & (place < sides)).astype("int64").sum(1).equal(len(extents))
    return exists.where(number, outside)
