"""Reductions, places of extrema, order, running sums."""

from collections.abc import Sequence
from math import inf

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value, axes_of
from compiler.frontend.onnx.operators import reductions as onnx
from compiler.frontend.pytorch.aten.registry import aten, in_kind
from compiler.te import is_float


def _axes(x: Value, dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """Resolves the axes to reduce: all of them where none is given."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim or ())
    if x.rank == 0:
        return ()
    return tuple(sorted(axes_of(dims, x.rank))) or tuple(range(x.rank))


def _in_integers(x: Value, dtype: str | None) -> Value:
    """Widens integers to 64 bits, for sums and products."""
    return x.astype(dtype) if dtype else x if is_float(x.dtype) else x.astype("int64")


@aten("sum")
def sum_(t, x, dim=None, keepdim=False, *, dtype=None):
    return _in_integers(x, dtype).sum(*_axes(x, dim), keepdims=int(keepdim))


@aten("mean")
def mean(t, x, dim=None, keepdim=False, *, dtype=None):
    """Means along axes; the mean of whole planes is a global average pool."""
    x, axes = x.astype(dtype) if dtype else x, _axes(x, dim)
    if x.rank == 4 and axes == (2, 3) and x.dtype == "float32":
        mean = t.emit("globalavgpool", x)
        return mean if keepdim else mean.reshape(*x.shape[:2])
    return x.mean(*axes, keepdims=int(keepdim))


@aten("prod.default", "prod.dim_int")
def prod(t, x, dim=None, keepdim=False, *, dtype=None):
    return t.emit("reduce_prod", _in_integers(x, dtype), axes=_axes(x, dim), keepdims=int(keepdim))


@aten("amax")
def amax(t, x, dim=(), keepdim=False):
    return t.emit("reduce_max", x, axes=_axes(x, dim), keepdims=int(keepdim))


@aten("amin")
def amin(t, x, dim=(), keepdim=False):
    return t.emit("reduce_min", x, axes=_axes(x, dim), keepdims=int(keepdim))


for _name, _op, _place in (("max", "reduce_max", "argmax"), ("min", "reduce_min", "argmin")):
    aten(f"{_name}.default")(
        lambda t, x, op=_op: t.emit(op, x, axes=_axes(x, None), keepdims=0))
    aten(f"{_name}.dim")(
        lambda t, x, dim, keepdim=False, op=_op, place=_place: (
            t.emit(op, x, axes=_axes(x, dim), keepdims=int(keepdim)),
            _place_of(t, x, dim, keepdim, place)))
    aten(f"{_name}.other")(
        lambda t, x, other, op=f"{_name}imum": t.emit(op, x, other.astype(x.dtype)))
    aten(_place)(lambda t, x, dim=None, keepdim=False, place=_place: _place_of(
        t, x, dim, keepdim, place))


def _place_of(t, x: Value, dim: int | None, keepdim: bool, op: str) -> Value:
    """The place of the first extremum; without an axis, its index in the flattened tensor."""
    if dim is None:
        reduced = t.emit(op, x.reshape(x.size), axis=0, keepdims=0, last=0)
        return reduced.reshape(*(1,) * x.rank) if keepdim else reduced
    if x.rank == 0:
        return t.emit(op, x.reshape(1), axis=0, keepdims=0, last=0)
    axis, = axes_of((dim,), x.rank)
    return t.emit(op, x, axis=axis, keepdims=int(keepdim), last=0)


@aten("any")
def any_(t, x, dim=None, keepdim=False):
    return amax(t, x.astype("bool").astype("int32"), dim, keepdim).astype("bool")


@aten("all")
def all_(t, x, dim=None, keepdim=False):
    return amin(t, x.astype("bool").astype("int32"), dim, keepdim).astype("bool")


def _spread(x: Value, dim, correction: float | None, keepdim: bool) -> tuple[Value, Value]:
    """Variance and mean; the default correction is 1."""
    axes = _axes(x, dim)
    mean = x.mean(*axes, keepdims=1)
    apart = x - mean
    count = int(np.prod([x.shape[axis] for axis in axes]))
    rest = max(count - (1 if correction is None else correction), 0)
    if not rest:
        raise NodeRefused("it must have more elements than its correction")
    total = (apart * apart).sum(*axes, keepdims=int(keepdim))
    return total / rest, mean if keepdim else mean.reshape(*total.shape)


def _correction(dim, unbiased) -> tuple:
    """Reads the arguments of overloads that may have `unbiased` first, in place of the axes."""
    return (None, int(dim)) if isinstance(dim, bool) else (dim, int(unbiased))


for _name, _rule in {
    "var": lambda variance, mean: variance, "std": lambda variance, mean: variance.sqrt(),
    "var_mean": lambda variance, mean: (variance, mean),
    "std_mean": lambda variance, mean: (variance.sqrt(), mean),
}.items():
    aten(f"{_name}.correction")(
        lambda t, x, dim=None, *, correction=None, keepdim=False, rule=_rule:
        rule(*_spread(x, dim, correction, keepdim)))

    def _plain(t, x, dim=True, unbiased=True, keepdim=False, rule=_rule):
        dims, correction = _correction(dim, unbiased)
        return rule(*_spread(x, dims, correction, keepdim))
    aten(_name)(_plain)


@aten("logsumexp")
def logsumexp(t, x, dim, keepdim=False):
    return onnx.log_sum_exp(in_kind(x), _axes(x, dim), int(keepdim))


@aten("linalg_vector_norm", "norm.ScalarOpt_dim")
def vector_norm(t, x, order=2, dim=None, keepdim=False, *, dtype=None):
    x, axes, order = x.astype(dtype) if dtype else x, _axes(x, dim), 2 if order is None else order
    if order in (inf, -inf):
        return (amax if order > 0 else amin)(t, x.abs(), axes, keepdim)
    if order == 0:
        raise NodeRefused("ord must not be 0")
    if order == 2:
        return (x * x).sum(*axes, keepdims=int(keepdim)).sqrt()
    powers = x.abs() if order == 1 else x.abs() ** float(order)
    total = powers.sum(*axes, keepdims=int(keepdim))
    return total if order == 1 else total ** (1 / order)


def _running(op: str):
    def running(t, x, dim, *, dtype=None):
        if x.rank == 0:
            return _in_integers(x, dtype)
        axis, = axes_of((dim,), x.rank)
        return t.emit(op, _in_integers(x, dtype), axis=axis, exclusive=0, reverse=0)
    return running


aten("cumsum")(_running("cumsum"))
aten("cumprod")(_running("cumprod"))


@aten("topk")
def topk(t, x, k, dim=-1, largest=True, sorted=True):
    """The result is always sorted; of equal elements the first wins."""
    axis, = axes_of((dim,), x.rank)
    order = t.emit("sorted_places", x, axis=axis, count=k, largest=int(largest))
    return t.emit("gather_elements", x, order, axis=axis), order


@aten("sort.default")
def sort(t, x, dim=-1, descending=False):
    return topk(t, x, x.shape[dim], dim, descending)


@aten("sort.stable")
def stable_sort(t, x, *, stable=False, dim=-1, descending=False):
    return sort(t, x, dim, descending)


@aten("argsort")
def argsort(t, x, dim=-1, descending=False, **options):
    return sort(t, x, dim, descending)[1]
