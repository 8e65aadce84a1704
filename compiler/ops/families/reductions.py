"""Reductions along axes, of every number type, and running ones.

Attributes: ``axes`` (of at least 0, ascending) and ``keepdims``; those of one axis have ``axis``.
"""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from compiler import te
from compiler.ops.families.extrema import alike, beats, precedes
from compiler.ops.families.requantization import (check_requantized, requantized, rescaled_array,
                                                  wrapped)
from compiler.ops.records.channels_last import ChannelsLast, by_axes
from compiler.ops.records.integer_forms import (Bounds, IntegerNode, QuantizedInputs, StaysFloat,
                                                Stored, scaled)
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Attributes, Inputs, Kind, Meaning, Numbers, Operator
from compiler.ops.records.rules import Types, need, of_stored
from compiler.ops.records.sums import kept, sum_dtype
from compiler.te import Expr, Reduction, Tensor

MOST_PAIRS = 1 << 34
"""What is defined by every two elements of an axis takes the square of its extent: so many pairs
take about half a minute.
"""


MOST_PLACES = 1 << 16
"""Elements of an axis whose places two bytes hold."""


def _reduce(op: str) -> Callable[..., Tensor]:
    def define(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
        x, axes = inputs[0], tuple(attrs["axes"])
        _check_axes(x, axes)
        wide = sum_dtype(x.dtype)
        if wide == x.dtype:
            return _reduced(op, x, axes, attrs["keepdims"], name)
        acc = _reduced(op, x, axes, attrs["keepdims"], f"{name}_acc")
        return te.compute(acc.shape, lambda *indices: acc[indices].astype(x.dtype), name)
    return define


def _check_axes(x: Tensor, axes: Sequence[int]) -> None:
    if not all(0 <= axis < len(x.shape) for axis in axes) or len(set(axes)) < len(axes):
        raise ValueError(f"axes must be different ones of 0 to {len(x.shape) - 1}, not {axes}")


def _check_pairs(x: Tensor, axis: int) -> None:
    _check_axes(x, (axis,))
    pairs = prod(x.shape) * x.shape[axis]
    if pairs > MOST_PAIRS:
        raise ValueError(f"every element is compared with all others of its axis, at most "
                         f"{MOST_PAIRS:,} pairs, not {pairs:,}")


def _reduced(op: str, x: Tensor, axes: Sequence[int], keepdims: int, name: str) -> Tensor:
    over = {axis: te.reduce_axis(x.shape[axis], f"{name}_r{axis}") for axis in axes}
    shape = tuple(1 if axis in over else extent for axis, extent in enumerate(x.shape)
                  if keepdims or axis not in over)

    def element(*indices: Expr) -> Expr:
        rest = iter([index for axis, index in enumerate(indices) if axis not in over]
                    if keepdims else indices)
        return x[tuple(over[axis].var if axis in over else next(rest)
                       for axis in range(len(x.shape)))].astype(sum_dtype(x.dtype))

    if not over:
        return te.compute(shape, element, name)
    return totals(op, shape, element, tuple(over.values()), name)


def totals(op: str, shape: Sequence[int], element: Callable[..., Expr], axes: tuple,
          name: str) -> Tensor:
    """The tensor of sums, products, maxima or minima of `element` over the reduction axes."""
    if op == "prod":
        return te.compute(tuple(shape), lambda *indices: _product(element(*indices), axes),
                          (name,))[0]
    reduce = {"sum": te.sum, "max": te.max, "min": te.min}[op]
    return te.compute(tuple(shape), lambda *indices: reduce(element(*indices), axes), name)


def _mean(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The sum along axes, divided by the number of its elements: both rounded."""
    x, axes = inputs[0], tuple(attrs["axes"])
    if x.dtype != "float32":
        raise ValueError(f"x must be float32, not {x.dtype}")
    total, count = _reduce("sum")(attrs, inputs, f"{name}_sum"), _count(x.shape, axes)
    return te.compute(total.shape, lambda *indices: total[indices] / float(count), name)


def _count(shape: Sequence[int], axes: Sequence[int]) -> int:
    return prod(shape[axis] for axis in axes)


def _qmean_type(node: Node, types: Types) -> TensorType:
    check_requantized(node, types[0].dtype)
    shape, axes = types[0].shape, tuple(node.attrs["axes"])
    need(bool(axes) and axes == tuple(sorted({*axes}.intersection(range(len(shape))))), node,
         f"axes must be different ones of 0 to {len(shape) - 1} in order, not {axes}")
    return TensorType(tuple(1 if axis in axes else extent for axis, extent in enumerate(shape)
                            if node.attrs["keepdims"] or axis not in axes), types[0].dtype)


def _qmean(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """Sum along axes, requantized; the multiplier holds the number of elements."""
    x = inputs[0]
    wide = te.compute(x.shape, lambda *indices: x[indices].astype("int32"), f"{name}_wide")
    total = _reduce("sum")(attrs, [wide], f"{name}_sum")
    return te.compute(total.shape, lambda *indices: requantized(
        attrs, total[indices], x.dtype), name)


def _qmean_meaning(attrs: Attributes, x: np.ndarray) -> np.ndarray:
    axes, keepdims = tuple(attrs["axes"]), bool(attrs["keepdims"])
    return rescaled_array(attrs, wrapped(x.sum(axis=axes, keepdims=keepdims, dtype=np.float64)),
                          x.dtype)


def _mean_meaning(attrs: Attributes, x: np.ndarray) -> np.ndarray:
    total = _reduce_meaning(_sum_meaning(np.sum))(attrs, x).astype(np.float32)
    return total / np.float32(_count(x.shape, attrs["axes"]))


def _mean_hindrance(attrs: Attributes, shapes: Sequence[tuple[int, ...]]) -> str | None:
    """Means inside a pixel or a row, and of some of its channels, are those of norms."""
    axes, rank = tuple(attrs["axes"]), len(shapes[0])
    if (rank == 4 and axes == (2, 3)) or (axes and axes == tuple(range(axes[0], rank - 1))):
        return None
    return (f"it must be the mean of rows and columns, or along axes right before the last, not "
            f"along {axes} of {rank}")


def _mean_integer(view: QuantizedInputs, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    shape, axes = view.shape(node.inputs[0]), tuple(node.attrs["axes"])
    if hindrance := _mean_hindrance(node.attrs, [shape]):
        raise StaysFloat(hindrance)
    x, count = view.activation(node.inputs[0]), _count(shape, axes)
    if axes == (2, 3) and len(shape) == 4 and node.attrs["keepdims"]:
        return scaled("qglobalavgpool", x, count, out, bounds)
    made = scaled("qmean", x, count, out, bounds)
    return IntegerNode(made.op, made.inputs,
                       {"axes": axes, "keepdims": node.attrs["keepdims"], **made.attrs})


def _product(value: Expr, over: tuple) -> Reduction:
    product = te.reducer("product", lambda l, r: (l[0] * r[0],), (te.const(1, value.dtype),))
    return product((value,), over)


def _place(better: str) -> Callable[..., Tensor]:
    """The index of the greatest or least element along an axis: the first or the last of equals,
    of NaNs where there are any.
    """
    def define(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
        x, axis = inputs[0], attrs["axis"]
        _check_axes(x, (axis,))
        last = bool(attrs.get("last", 0))

        def pick(l, r):
            later = r[1] > l[1] if last else r[1] < l[1]
            right = te.any_of(beats(better, r[0], l[0]), te.all_of(alike(r[0], l[0]), later))
            return te.select(right, r[0], l[0]), te.select(right, r[1], l[1])

        none = te.neutral("max" if better == "gt" else "min", x.dtype)
        nowhere = te.const(-1 if last else 2**63 - 1, "int64")
        reducer = te.reducer("place", pick, (none, nowhere))
        over = te.reduce_axis(x.shape[axis], f"{name}_r")
        shape = tuple(extent for place, extent in enumerate(x.shape) if place != axis)

        def element(*indices: Expr) -> Reduction:
            inner = (*indices[:axis], over.var, *indices[axis:])
            return reducer((x[inner], over.var), over)

        place = te.compute(shape, element, (f"{name}_value", f"{name}_place"))[1]
        kept = (*shape[:axis], 1, *shape[axis:]) if attrs["keepdims"] else shape
        return te.compute(kept, lambda *indices: place[
            (*indices[:axis], *indices[axis + 1:]) if attrs["keepdims"] else indices], name)
    return define


def _place_bytes(better: str) -> Callable[..., Tensor]:
    """The two bytes of the place of the first of the greatest, or least, along an axis."""
    def define(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
        x, axis = inputs[0], attrs["axis"]
        _check_axes(x, (axis,))
        if x.shape[axis] > MOST_PLACES:
            raise ValueError(f"two bytes have places of at most {MOST_PLACES:,} elements, not "
                             f"{x.shape[axis]:,}")
        place = _place(better)({"axis": axis, "keepdims": 1}, inputs, f"{name}_places")
        shape = (*x.shape[:axis], 2, *x.shape[axis + 1:])

        def byte(*indices: Expr) -> Expr:
            whole = place[(*indices[:axis], te.const(0, te.INDEX), *indices[axis + 1:])]
            return te.select(indices[axis].equal(0), whole, whole >> 8).astype("int8")

        return te.compute(shape, byte, name)
    return define


def _place_bytes_meaning(function: Callable) -> Callable[..., np.ndarray]:
    def meaning(attrs: Attributes, x: np.ndarray) -> np.ndarray:
        place = function(x, attrs["axis"], keepdims=True)
        return np.concatenate([place, place >> 8], attrs["axis"]).astype(np.int8)
    return meaning


def _joined_bytes(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The number that bytes along an axis are, the lowest first."""
    x, axis = inputs[0], attrs["axis"]
    _check_axes(x, (axis,))
    if x.dtype != "int8" or x.shape[axis] > 7:
        raise ValueError(f"its input must have at most 7 int8 along axis {axis}, not "
                         f"{x.shape[axis]} {x.dtype}")
    kept = (1,) * attrs["keepdims"]

    def number(*indices: Expr) -> Expr:
        outer, inner = indices[:axis], indices[axis + len(kept):]
        total: Expr = te.const(0, "int64")
        for place in range(x.shape[axis]):
            byte = x[(*outer, te.const(place, te.INDEX), *inner)].astype("uint8").astype("int64")
            total = total + (byte << 8 * place)
        return total

    return te.compute((*x.shape[:axis], *kept, *x.shape[axis + 1:]), number, name)


def _joined_bytes_meaning(attrs: Attributes, x: np.ndarray) -> np.ndarray:
    axis, weights = attrs["axis"], 256 ** np.arange(x.shape[attrs["axis"]])
    unsigned = np.moveaxis(x.view(np.uint8), axis, -1).astype(np.int64)
    number = np.asarray(unsigned @ weights, np.int64)
    return np.expand_dims(number, axis) if attrs["keepdims"] else number


def _place_meaning(function: Callable) -> Callable[..., np.ndarray]:
    def meaning(attrs: Attributes, x: np.ndarray) -> np.ndarray:
        axis, keepdims = attrs["axis"], bool(attrs["keepdims"])
        if not attrs.get("last", 0):
            return function(x, axis, keepdims=keepdims)
        return x.shape[axis] - 1 - function(np.flip(x, axis), axis, keepdims=keepdims)
    return meaning


def sorted_places(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The places where the first ``count`` elements in order along an axis are, the greatest first
    if ``largest`` is 1; of equals the first. NaN is the greatest. Each element counts those before
    it.
    """
    x, axis = inputs[0], attrs["axis"]
    _check_pairs(x, axis)
    extent = x.shape[axis]
    if not 1 <= attrs["count"] <= extent:
        raise ValueError(f"count must be 1 to {extent}, not {attrs['count']}")
    other, own = (te.reduce_axis(extent, f"{name}_{role}") for role in ("other", "own"))

    def rank(*indices: Expr):
        here, there = x[indices], x[(*indices[:axis], other.var, *indices[axis + 1:])]
        first = te.all_of(alike(there, here), other.var < indices[axis])
        earlier = te.any_of(precedes(attrs["largest"] == 1, there, here), first)
        return te.sum(te.select(earlier, te.const(1, "int64"), 0), other)

    ranks = te.compute(x.shape, rank, f"{name}_ranks")

    def place(*indices: Expr):
        is_here = ranks[(*indices[:axis], own.var, *indices[axis + 1:])].equal(indices[axis])
        return te.sum(te.select(is_here, own.var, 0), own)

    return te.compute((*x.shape[:axis], attrs["count"], *x.shape[axis + 1:]), place, name)


def places_in_order(attrs: Attributes, x: np.ndarray) -> np.ndarray:
    """What `sorted_places` gives, of an array."""
    axis, last = attrs["axis"], x.shape[attrs["axis"]] - 1
    if attrs["largest"]:
        order = np.flip(last - np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    return order.take(range(attrs["count"]), axis).astype(np.int64)


def _running(op: str) -> Callable[..., Tensor]:
    """Reduces the elements before each, itself too unless ``exclusive``; from the end if
    ``reverse``.
    """
    def define(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
        x, axis = inputs[0], attrs["axis"]
        _check_pairs(x, axis)
        wide, over = sum_dtype(x.dtype), te.reduce_axis(x.shape[axis], f"{name}_r")
        neutral = te.const(0 if op == "sum" else 1, wide)

        def element(*indices: Expr) -> Expr:
            here, there = indices[axis], over.var
            if attrs["reverse"]:
                here, there = there, here
            within = there < here if attrs["exclusive"] else there <= here
            value = x[(*indices[:axis], over.var, *indices[axis + 1:])].astype(wide)
            return te.select(within, value, neutral)

        stage = name if wide == x.dtype else f"{name}_acc"
        acc = totals(op, x.shape, element, (over,), stage)
        if wide == x.dtype:
            return acc
        return te.compute(x.shape, lambda *indices: acc[indices].astype(x.dtype), name)
    return define


def _running_meaning(function: Callable, neutral: int) -> Callable[..., np.ndarray]:
    def meaning(attrs: Attributes, x: np.ndarray) -> np.ndarray:
        axis = attrs["axis"]
        x = np.flip(x, axis) if attrs["reverse"] else x
        if attrs["exclusive"]:
            first = np.full_like(x.take([0], axis), neutral)
            x = np.concatenate([first, x.take(range(x.shape[axis] - 1), axis)], axis)
        totals = function(x, axis=axis, dtype=x.dtype)
        return np.flip(totals, axis) if attrs["reverse"] else totals
    return meaning


def _sum_meaning(function: Callable) -> Callable[..., np.ndarray]:
    """Floats are summed in float64 and rounded once, all others in their own type."""
    def meaning(x: np.ndarray, **options) -> np.ndarray:
        wide = x.dtype if x.dtype.kind in "iub" else np.dtype(np.float64)
        return function(x, **{**options, "dtype": wide})
    return meaning


def _reduce_meaning(function: Callable) -> Callable[..., np.ndarray]:
    def meaning(attrs: Attributes, x: np.ndarray) -> np.ndarray:
        axes, keepdims = tuple(attrs["axes"]), bool(attrs["keepdims"])
        initial = {} if x.size or function not in (np.max, np.min) else {
            "initial": _lowest(x.dtype) if function is np.max else _highest(x.dtype)}
        return function(x, axis=axes, keepdims=keepdims, **initial)
    return meaning


def _lowest(dtype: np.dtype):
    return False if dtype.kind == "b" else (np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf)


def _highest(dtype: np.dtype):
    return True if dtype.kind == "b" else (np.iinfo(dtype).max if dtype.kind in "iu" else np.inf)


def _reduction(op: str, summary: str, meaning: Meaning) -> Operator:
    return Operator(
        name=f"reduce_{op}", summary=summary, inputs="x", attributes="axes, keepdims",
        define=_reduce(op), meaning=kept(meaning), kind=Kind.REDUCTION,
        channels_last=ChannelsLast(by_axes))


OPERATORS = (
    _reduction("sum", "sum along axes", _reduce_meaning(_sum_meaning(np.sum))),
    _reduction("max", "greatest element along axes", _reduce_meaning(np.max)),
    _reduction("min", "least element along axes", _reduce_meaning(np.min)),
    _reduction("prod", "product along axes", _reduce_meaning(np.prod)),
    Operator(
        name="mean", summary="sum along axes, divided by the number of elements",
        inputs="x float32", attributes="axes, keepdims", define=_mean, meaning=kept(_mean_meaning),
        kind=Kind.REDUCTION, integer=_mean_integer, hindrance=_mean_hindrance),
    Operator(
        name="qmean", summary="sum of int8 along axes, requantized", inputs="x",
        attributes="axes, keepdims, bias, mult, shift, zp, lo, hi", define=_qmean,
        meaning=_qmean_meaning, type=of_stored(_qmean_type), numbers=Numbers.INTEGER,
        kind=Kind.REDUCTION),
    Operator(
        name="argmax", summary="number of the greatest element along an axis", inputs="x",
        attributes="axis, keepdims, last (0): 1 takes the last of equals", define=_place("gt"),
        meaning=_place_meaning(np.argmax), places="qargmax"),
    Operator(
        name="argmin", summary="number of the least element along an axis", inputs="x",
        attributes="axis, keepdims, last (0): 1 takes the last of equals", define=_place("lt"),
        meaning=_place_meaning(np.argmin), places="qargmin"),
    *(Operator(
        name=name, summary=f"number of the first of the {which} int8 along an axis, in two bytes: "
        "2 elements of that axis, the low byte first", inputs="x",
        attributes=f"axis, of at most {MOST_PLACES:,} elements", define=_place_bytes(better),
        meaning=_place_bytes_meaning(function), numbers=Numbers.INTEGER)
      for name, which, better, function in (("qargmax", "greatest", "gt", np.argmax),
                                            ("qargmin", "least", "lt", np.argmin))),
    Operator(
        name="joined_bytes", summary="int64 of the bytes along an axis, the lowest first",
        inputs="x", attributes="axis, keepdims", define=_joined_bytes,
        meaning=_joined_bytes_meaning, kind=Kind.INJECTIVE),
    Operator(
        name="sorted_places", summary="numbers of the first elements in order along an axis",
        inputs="x", attributes="axis, count, largest", define=sorted_places,
        meaning=places_in_order),
    Operator(
        name="cumsum", summary="sum of the elements up to each along an axis", inputs="x",
        attributes="axis, exclusive, reverse", define=_running("sum"),
        meaning=kept(_running_meaning(_sum_meaning(np.cumsum), 0))),
    Operator(
        name="cumprod", summary="product of the elements up to each along an axis", inputs="x",
        attributes="axis, exclusive, reverse", define=_running("prod"),
        meaning=kept(_running_meaning(np.cumprod, 1))),
)
