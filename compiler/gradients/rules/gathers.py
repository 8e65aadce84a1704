"""Gradients of elements from places that are computed, and to such places.

An element that was taken from a place adds its gradient there; places that lie outside stand for
the nearest element, as in the operators themselves.
"""

from math import prod

from compiler.frontend.building.scattering import scattered, scattered_along
from compiler.frontend.building.values import Value
from compiler.gradients.rules.adjoint import (Adjoint, Gradient, NoGradient, Rule, apply,
                                              from_front, to_front, zeros)


def scattered_rows(rows: Value, places: Value, extent: int) -> Value:
    """Rows [m,...] added up at their places [m] among so many."""
    inner = prod(rows.shape[1:])
    total = scattered(zeros(rows, 1, extent, inner), places.reshape(1, rows.shape[0], 1),
                      rows.reshape(1, rows.shape[0], inner), "add")
    return total.reshape(extent, *rows.shape[1:])


def _within(places: Value, extent: int) -> Value:
    """Places from 0 to extent - 1, as gathers understand them."""
    wide = places.astype("int64")
    return (wide < 0).where(wide + extent, wide).maximum(0).minimum(extent - 1)


def _gather(at: Adjoint) -> list[Gradient | None]:
    x, places = at.inputs
    axis, rank = at.attrs["axis"], places.rank

    def of_x() -> Value:
        turned = at.gradient.transpose(*range(axis, axis + rank), *range(axis),
                                       *range(axis + rank, at.gradient.rank))
        rows = turned.reshape(places.size, *x.shape[:axis], *x.shape[axis + 1:])
        flat = _within(places, x.shape[axis]).reshape(places.size)
        return from_front(scattered_rows(rows, flat, x.shape[axis]), axis)
    return [of_x, None]


def _gather_elements(at: Adjoint) -> list[Gradient | None]:
    x, places = at.inputs
    axis = at.attrs["axis"]
    return [lambda: scattered_along(zeros(x, *x.shape), axis, _within(places, x.shape[axis]),
                                    at.gradient, "add"), None]


def _gather_nd(at: Adjoint) -> list[Gradient | None]:
    x, places = at.inputs
    batch, depth = at.attrs["batch_dims"], places.shape[-1]
    extents, inner = x.shape[batch:batch + depth], prod(x.shape[batch + depth:])
    count, many = prod(x.shape[:batch]), prod(places.shape[batch:-1])

    def of_x() -> Value:
        number = _numbers(places, extents).reshape(count, many, 1)
        return scattered(zeros(x, count, prod(extents), inner), number,
                         at.gradient.reshape(count, many, inner), "add").reshape(*x.shape)
    return [of_x, None]


def _numbers(places: Value, extents: tuple[int, ...]) -> Value:
    """The number of the element to which the last dimension of the places leads."""
    last = places.rank - 1
    parts = [_within(places.cut(last, k, k + 1), extent) * prod(extents[k + 1:])
             for k, extent in enumerate(extents)]
    return sum(parts[1:], parts[0])


def _resample(at: Adjoint) -> list[Gradient | None]:
    x, places, weights = at.inputs
    axis = at.attrs["axis"]
    rows = to_front(x, axis)
    inner = rows.shape[1:]

    def of_x() -> Value:
        taps = to_front(at.gradient, axis).unsqueeze(1) * _beside(weights.astype(x.dtype), inner)
        flat = _within(places, x.shape[axis]).reshape(places.size)
        return from_front(scattered_rows(taps.reshape(places.size, *inner), flat, x.shape[axis]),
                          axis)

    def of_weights() -> Value:
        taken = apply("gather", rows, places, axis=0)
        product = taken * to_front(at.gradient, axis).unsqueeze(1)
        return product.sum(*range(2, product.rank))

    return [of_x, None, of_weights]


def _beside(weights: Value, inner: tuple[int, ...]) -> Value:
    return weights.reshape(*weights.shape, *(1 for _ in inner))


def _scatter_reduced(at: Adjoint) -> list[Gradient | None]:
    x, places, updates = at.inputs
    reduction, extent = at.attrs["reduction"], x.shape[1]
    if reduction == "mul":
        raise NoGradient("its reduction is mul: only add, max and min have a gradient")
    wide = places.expand(*updates.shape)
    counted = (wide < 0).where(wide + extent, wide)
    exists = (counted >= 0) & (counted < extent)

    def taken(value: Value) -> Value:
        return exists.where(apply("gather_elements", value, wide, axis=1), 0)

    if reduction == "add":
        return [lambda: at.gradient, None, lambda: taken(at.gradient)]
    own = x.equal(at.result).astype(x.dtype)
    best = (exists & updates.equal(taken(at.result))).astype(x.dtype)
    share = at.gradient / scattered(own, places, best, "add")
    return [lambda: own * share, None, lambda: best * taken(share)]


GRADIENTS: dict[str, Rule] = {
    "gather": _gather, "gather_elements": _gather_elements, "gather_nd": _gather_nd,
    "resample": _resample, "scatter_reduced": _scatter_reduced}
