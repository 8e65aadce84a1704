"""Gradients of reductions, and of running ones.

Elements that are equal to the greatest, or the least, share its gradient evenly. Products have
their gradient where elements are 0, too: it is a product of the others, not a quotient.
"""

from math import prod

import numpy as np

from compiler.frontend.building.values import Value
from compiler.gradients.rules.adjoint import Adjoint, Gradient, Rule, apply


def _kept(value: Value, at: Adjoint) -> Value:
    """A value of the result's shape, with the reduced axes of extent 1."""
    return value.reshape(*(1 if axis in at.attrs["axes"] else extent
                           for axis, extent in enumerate(at.x.shape)))


def _sum(at: Adjoint) -> list[Gradient]:
    return [lambda: _kept(at.gradient, at).expand(*at.x.shape)]


def _mean(at: Adjoint) -> list[Gradient]:
    count = prod(at.x.shape[axis] for axis in at.attrs["axes"])
    return [lambda: _kept(at.gradient / count, at).expand(*at.x.shape)]


def _extremum(at: Adjoint) -> list[Gradient]:
    def shared() -> Value:
        best = at.x.equal(_kept(at.result, at)).astype(at.x.dtype)
        return best * (_kept(at.gradient, at) / best.sum(*at.attrs["axes"], keepdims=1))
    return [shared]


def _prod(at: Adjoint) -> list[Gradient]:
    """The products of the elements before each, and of those behind it, are one of all others."""
    axes, rank, shape = tuple(at.attrs["axes"]), at.x.rank, at.x.shape
    perm = (*(axis for axis in range(rank) if axis not in axes), *axes)

    def others() -> Value:
        turned = at.x.transpose(*perm)
        rows = turned.reshape(*(shape[axis] for axis in perm[:rank - len(axes)]),
                              prod(shape[axis] for axis in axes))
        before, behind = (apply("cumprod", rows, axis=rows.rank - 1, exclusive=1, reverse=reverse)
                          for reverse in (0, 1))
        back = (before * behind).reshape(*turned.shape).transpose(*map(perm.index, range(rank)))
        return back * _kept(at.gradient, at)
    return [others]


def _cumsum(at: Adjoint) -> list[Gradient]:
    turned = {**at.attrs, "reverse": 1 - at.attrs["reverse"]}
    return [lambda: apply("cumsum", at.gradient, **turned)]


def _cumprod(at: Adjoint) -> list[Gradient]:
    """Sums, for each element, the products in which it is, with 1 in its place: an axis squared.

    ``[..., k, i, ...]`` is what the k-th element does to the i-th result.
    """
    axis, n = at.attrs["axis"], at.x.shape[at.attrs["axis"]]
    tail = (1,) * (at.x.rank - 1 - axis)

    def constant(holds: np.ndarray) -> Value:
        return at.x.tracer.constant(holds.reshape(n, n, *tail))

    def others() -> Value:
        own = constant(np.eye(n, dtype=bool))
        rows = own.where(1, at.x.unsqueeze(axis))
        products = apply("cumprod", rows, **{**at.attrs, "axis": axis + 1})
        reached = constant(_reached(n, at.attrs["exclusive"], at.attrs["reverse"]))
        return reached.where(products * at.gradient.unsqueeze(axis), 0).sum(axis + 1)
    return [others]


def _reached(n: int, exclusive: int, reverse: int) -> np.ndarray:
    """True where element k, the row, is a factor of result i, the column."""
    upper = np.triu(np.ones((n, n), bool), k=1 if exclusive else 0)
    return upper.T if reverse else upper


GRADIENTS: dict[str, Rule] = {
    "reduce_sum": _sum, "mean": _mean, "reduce_max": _extremum, "reduce_min": _extremum,
    "reduce_prod": _prod, "cumsum": _cumsum, "cumprod": _cumprod}
