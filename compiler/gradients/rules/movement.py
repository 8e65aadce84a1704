"""Gradients of operators that move elements: each goes back to where it came from."""

import numpy as np

from compiler.frontend.building.values import Value
from compiler.gradients.rules.adjoint import (Adjoint, Gradient, Rule, apply, from_front, padded,
                                              to_front, zeros)
from compiler.gradients.rules.gathers import scattered_rows
from compiler.ops.registry import find


def _reshape(at: Adjoint) -> list[Gradient]:
    return [lambda: at.gradient.reshape(*at.x.shape)]


def _expand(at: Adjoint) -> list[Gradient]:
    return [lambda: at.gradient]


def _upsample(at: Adjoint) -> list[Gradient]:
    n, c, h, w = at.x.shape
    rows, columns = at.attrs["factors"]
    return [lambda: at.gradient.reshape(n, c, h, rows, w, columns).sum(3, 5)]


def _slice(at: Adjoint) -> list[Gradient]:
    begin, step = at.attrs["begin"], at.attrs["step"]
    after = [extent - low - (count - 1) * pace - 1 for extent, low, count, pace
             in zip(at.x.shape, begin, at.result.shape, step, strict=True)]
    return [lambda: padded(at.gradient, begin, after, [pace - 1 for pace in step])]


def _transpose(at: Adjoint) -> list[Gradient]:
    perm = tuple(at.attrs["perm"])
    return [lambda: at.gradient.transpose(*map(perm.index, range(len(perm))))]


def _reverse(at: Adjoint) -> list[Gradient]:
    return [lambda: apply("reverse", at.gradient, axes=at.attrs["axes"])]


def _pad(at: Adjoint) -> list[Gradient]:
    if at.attrs["mode"] != "constant":
        return [lambda: _mirrored(at)]

    def of_value() -> Value:
        axes = range(at.result.rank)
        return at.gradient.sum(*axes) - _inside(at).sum(*axes)

    return [lambda: _inside(at), of_value][:len(at.inputs)]


def _inside(at: Adjoint) -> Value:
    """The part of the gradient that lies where x does; 0 for elements that are cropped."""
    before, after = at.attrs["before"], at.attrs["after"]
    paces = [gap + 1 for gap in at.attrs.get("between", (0,) * at.x.rank)]
    whole = padded(at.gradient, [max(-low, 0) for low in before], [max(-end, 0) for end in after])
    begin = [max(low, 0) for low in before]
    end = [low + (extent - 1) * pace + 1
           for low, extent, pace in zip(begin, at.x.shape, paces, strict=True)]
    return apply("slice", whole, begin=begin, end=end, step=paces)


def _mirrored(at: Adjoint) -> Value:
    """Sums, axis by axis, of what came from the same place."""
    value = at.gradient
    for axis, (low, high, extent) in enumerate(zip(at.attrs["before"], at.attrs["after"],
                                                   at.x.shape, strict=True)):
        if low or high:
            places = value.tracer.constant(find("pad").meaning(
                {"mode": at.attrs["mode"], "before": (low,), "after": (high,)}, np.arange(extent)))
            value = from_front(scattered_rows(to_front(value, axis), places, extent), axis)
    return value


def _concat(at: Adjoint) -> list[Gradient]:
    axis = at.attrs["axis"]
    ends = np.cumsum([value.shape[axis] for value in at.inputs])
    return [lambda value=value, end=int(end): at.gradient.cut(
        axis, end - value.shape[axis], end) for value, end in zip(at.inputs, ends, strict=True)]


def _put_place(at: Adjoint) -> list[Gradient | None]:
    """A row that has no place, before the first or behind the last, is nowhere."""
    _, row, place = at.inputs
    axis, extent = at.attrs["axis"], at.x.shape[at.attrs["axis"]]

    def of_row() -> Value:
        exists = ((place >= 0) & (place < extent)).reshape(*(1,) * row.rank)
        return exists.where(apply("gather", at.gradient, place, axis=axis), 0)

    return [lambda: apply("put_place", at.gradient, zeros(row, *row.shape), place, axis=axis),
            of_row, None]


GRADIENTS: dict[str, Rule] = {
    "reshape": _reshape, "expand": _expand, "upsample": _upsample, "slice": _slice,
    "transpose": _transpose, "relayout": _transpose, "reverse": _reverse, "pad": _pad,
    "concat": _concat, "put_place": _put_place}
