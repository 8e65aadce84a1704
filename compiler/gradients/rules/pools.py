"""Gradients of pools. The first of equal elements of a window has the gradient of its maximum."""

from itertools import product
from math import prod

import numpy as np

from compiler.frontend.building.values import Value
from compiler.gradients.rules.adjoint import Adjoint, Gradient, Rule, apply, padded
from compiler.gradients.rules.convolutions import spread, unseen


def _window(at: Adjoint) -> dict:
    """Kernel, strides, pads and dilations; pads are those before each axis, then those after."""
    kernel = at.attrs["kernel"]
    return {"kernel": kernel, "strides": at.attrs["strides"], "pads": at.attrs["pads"],
            "dilations": at.attrs.get("dilations", (1,) * len(kernel))}


def _maximum(at: Adjoint) -> list[Gradient]:
    """Element by element, the windows in which it is the k-th are asked whether it was theirs."""
    def of_x() -> Value:
        window, size = _window(at), at.x.shape[2:]
        place = apply("pool_place", at.x, **window)
        place = apply("mod", place, place.like(prod(size)))
        own = at.x.tracer.constant(np.arange(prod(size)).reshape(size))
        terms = [_tap(place, tap, size, window, -1).equal(own).where(
            _tap(at.gradient, tap, size, window, 0), 0)
            for tap in product(*map(range, window["kernel"]))]
        return sum(terms[1:], terms[0])
    return [of_x]


def _tap(windows: Value, tap: tuple[int, ...], size: tuple[int, ...], window: dict,
         fill: int) -> Value:
    """A value of each window at the element of a tensor of this size that is its tap."""
    rank = len(size)
    steps = [k * step for k, step in zip(tap, window["dilations"], strict=True)]
    before = [step - low for step, low in zip(steps, window["pads"][:rank], strict=True)]
    after = [n - low - (count - 1) * stride - 1 for n, low, count, stride
             in zip(size, before, windows.shape[2:], window["strides"], strict=True)]
    return padded(windows, (0, 0, *before), (0, 0, *after),
                  (0, 0, *(stride - 1 for stride in window["strides"])), fill)


def _spread(windows: Value, at: Adjoint) -> Value:
    """Gives each element of a window what the window has."""
    window, (n, c, *size) = _window(at), at.x.shape
    kernel = window["kernel"]
    if len(size) == 2 and windows.dtype == "float32":
        more = unseen(size, windows.shape[2:], kernel, window)
        ones = windows.like(1).expand(c, 1, *kernel)
        attrs = {key: window[key] for key in ("strides", "pads", "dilations")}
        return apply("convtranspose2d", windows, ones, **attrs, group=c, output_padding=more)
    apart = windows.reshape(n * c, 1, *windows.shape[2:])
    ones = windows.like(1).expand(1, 1, *kernel)
    return spread(apart, ones, size, window).reshape(*at.x.shape)


def _sum(at: Adjoint) -> list[Gradient]:
    return [lambda: _spread(at.gradient, at)]


def _average(at: Adjoint) -> list[Gradient]:
    """Each window gives its share, by the number of elements that it counts."""
    window, size = _window(at), at.x.shape[2:]

    def of_x() -> Value:
        ones = at.x.like(1).expand(1, 1, *size)
        if at.attrs["include_pad"]:
            top, left, bottom, right = window["pads"]
            ones = padded(ones, (0, 0, top, left), (0, 0, bottom, right), fill=1)
            window_of_ones = {**window, "pads": (0, 0, 0, 0)}
        else:
            window_of_ones = window
        return _spread(at.gradient / apply("pool_sum", ones, **window_of_ones), at)
    return [of_x]


def _global_average(at: Adjoint) -> list[Gradient]:
    return [lambda: (at.gradient / prod(at.x.shape[2:])).expand(*at.x.shape)]


GRADIENTS: dict[str, Rule] = {
    "maxpool": _maximum, "pool_max": _maximum, "avgpool": _average, "pool_sum": _sum,
    "globalavgpool": _global_average}
