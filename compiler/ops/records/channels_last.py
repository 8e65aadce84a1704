"""Images with their channels last: how an operator says the same of the other order of dimensions.

A tensor of four dimensions lies in memory as NCHW, which is the order of its dimensions, or as
NHWC. The same operator on the other order is one of the same name whose attributes name axes by
their new places::

    add(x [1,64,8,8], k [64,1,1])         ->  add(x [1,8,8,64], k [1,1,1,64])
    concat(x, y) {axis=1}                 ->  concat(x, y) {axis=3}
    slice(x) {begin=(0,8,0,0), ...}       ->  slice(x) {begin=(0,0,0,8), ...}
    maxpool(x) {kernel=(3,3), ...}        ->  pool_max(x as [N,1,H,W,C]) {kernel=(3,3,1), ...}

Elements are computed from the same elements by the same arithmetic, sums in the same order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

TO_LAST, FROM_LAST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Permutations of NCHW that give NHWC, and of NHWC that give NCHW."""


@dataclass(frozen=True, slots=True)
class ChannelsLast:
    """``attrs(attrs)`` are the attributes on NHWC; None where the operator does not compute the
    same there. With `pixels` it is that operator on [N,1,H,W,C], channels a third axis of pixels.
    """

    attrs: Callable[[Mapping], Mapping | None] = dict
    pixels: str = ""


def last(numbers: Sequence[int]) -> tuple[int, ...]:
    """Numbers of N, C, H, W in the order N, H, W, C."""
    return tuple(numbers[axis] for axis in TO_LAST)


def by_axis(attrs: Mapping) -> Mapping:
    """The attribute `axis`, 1 by default, numbers an axis of x; a negative one stays as it is."""
    axis = attrs.get("axis", 1)
    return {**attrs, "axis": TO_LAST.index(axis)} if axis >= 0 else attrs


def by_axes(attrs: Mapping) -> Mapping | None:
    """The attribute `axes` are axes of x, which stay dimensions and are visited in one order: in
    another sums, and the least of 0 and -0, may differ.
    """
    axes = tuple(TO_LAST.index(axis) for axis in attrs["axes"])
    return {**attrs, "axes": axes} if axes == tuple(sorted(axes)) and attrs.get("keepdims", 1) \
        else None


def by_place(*names: str) -> Callable[[Mapping], Mapping]:
    """These attributes have a number for each axis, where they are given."""
    return lambda attrs: {**attrs, **{name: last(attrs[name]) for name in names if name in attrs}}


def with_channels(attrs: Mapping) -> Mapping:
    """A window of one channel and no pads there."""
    top, left, bottom, right = attrs["pads"]
    return {"kernel": (*attrs["kernel"], 1), "strides": (*attrs["strides"], 1),
            "pads": (top, left, 0, bottom, right, 0),
            "dilations": (*attrs.get("dilations", (1, 1)), 1)}
