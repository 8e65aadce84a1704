"""Writes to places that are computed."""

from math import prod
from typing import Any

import numpy as np

from compiler.frontend.building.scattering import replaced_rows, scattered, scattered_along
from compiler.frontend.building.values import NodeRefused, Value, axes_of
from compiler.frontend.pytorch.aten.registry import aten, refuse

REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max",
              "amin": "min"}
"""ATen's names of reductions."""

refuse("masked_scatter", why="its result depends on computed elements in number; use where")


@aten("scatter.src", "scatter.value")
def scatter(t, x, dim, index, src):
    return _along(x, dim, index, src, "none")


@aten("scatter.reduce", "scatter.value_reduce")
def scatter_joined(t, x, dim, index, src, *, reduce):
    return _along(x, dim, index, src, _reduction(reduce))


@aten("scatter_add")
def scatter_add(t, x, dim, index, src):
    return _along(x, dim, index, src, "add")


@aten("scatter_reduce.two")
def scatter_reduce(t, x, dim, index, src, reduce, *, include_self=True):
    if not include_self:
        raise NodeRefused("include_self must be True, not False")
    return _along(x, dim, index, src, _reduction(reduce))


def _reduction(name: str) -> str:
    if name not in REDUCTIONS:
        raise NodeRefused(f"reduce must be {', '.join(REDUCTIONS)}, not {name}")
    return REDUCTIONS[name]


def _along(x: Value, dim: int, index: Value, src: Any, reduction: str) -> Value:
    """Each index takes the element of `src` at its own place."""
    if not x.rank:
        return _along(x.reshape(1), 0, index.reshape(1), src, reduction).reshape()
    axis, = axes_of((dim,), x.rank)
    if not isinstance(src, Value):
        src = x.like(src).expand(*index.shape)
    for place, extent in enumerate(index.shape):
        src = src.cut(place, 0, extent)
    return scattered_along(x, axis, index, src, reduction)


@aten("index_copy")
def index_copy(t, x, dim, index, source):
    return _rows(x, dim, index, source, "none")


@aten("index_add")
def index_add(t, x, dim, index, source, *, alpha=1):
    return _rows(x, dim, index, source if alpha == 1 else source * alpha, "add")


def _rows(x: Value, dim: int, index: Value, source: Value, reduction: str) -> Value:
    """Slices along one axis, each at the place that its index says."""
    axis, = axes_of((dim,), x.rank)
    outer, inner = prod(x.shape[:axis]), prod(x.shape[axis + 1:])
    at = index.reshape(1, index.size, 1).expand(outer, index.size, 1)
    flat = (value.reshape(outer, count, inner) for value, count
            in ((x, x.shape[axis]), (source, index.size)))
    whole, updates = flat
    return scattered(whole, at, updates, reduction).reshape(*x.shape)


@aten("index_put", "_unsafe_index_put")
def index_put(t, x, indices, values, accumulate=False):
    """Writes to the places that tensors along some axes name, as `index` reads them."""
    chosen = {axis: index for axis, index in enumerate(indices) if index is not None}
    if any(index.dtype == "bool" for index in chosen.values()):
        return _masked(x, list(indices), values, accumulate)
    axes = list(chosen)
    rest = [axis for axis in range(x.rank) if axis not in axes]
    shape = np.broadcast_shapes(*(index.shape for index in chosen.values()))
    at = t.emit("concat", *(index.astype("int64").expand(*shape).unsqueeze(len(shape))
                            for index in chosen.values()), axis=len(shape))
    front = [axis for axis in rest if axis < axes[0]] if (
        axes == list(range(axes[0], axes[0] + len(axes)))) else []
    behind = [axis for axis in rest if axis not in front]
    sides = [[x.shape[axis] for axis in each] for each in (front, behind)]
    wide = values.expand(*sides[0], *shape, *sides[1])
    first = len(front)
    places = range(first, first + len(shape))
    updates = wide.transpose(*places, *range(first), *range(first + len(shape), wide.rank))
    order = [*axes, *rest]
    written = replaced_rows(x.transpose(*order), at, updates, "add" if accumulate else "none")
    return written.transpose(*(order.index(axis) for axis in range(x.rank)))


def _masked(x: Value, indices: list[Any], values: Value, accumulate: bool) -> Value:
    """One number to where a mask of the first axes holds."""
    if len(indices) > 1 or values.size != 1:
        raise NodeRefused("its result depends on computed elements in number; use where")
    mask = indices[0].reshape(*indices[0].shape, *(1,) * (x.rank - indices[0].rank))
    value = values.reshape()
    return mask.expand(*x.shape).where(x + value if accumulate else value.expand(*x.shape), x)
