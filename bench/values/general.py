"""What nodes make of intervals in general: order that is kept, products, elements, and trying."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product as combinations

import numpy as np
import onnx

from bench.values.intervals import Array, Interval

PLACES = 9                  # of an interval that are tried
WIDE = 24                   # intervals of integers of which not every number is tried
MOST_TRIES = 200            # of computations for one node
Intervals = Sequence[Interval | None]
Run = Callable[[Sequence[Array | None]], Array]


def _ends(inputs: Intervals) -> tuple[list[Array | None], list[Array | None]]:
    return ([None if one is None else one.low for one in inputs],
            [None if one is None else one.high for one in inputs])


def rising(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    low, high = map(run, _ends(inputs))
    if low.dtype == bool:
        return Interval(low & high & middle, middle, low | high | middle)
    wrapped = (low > middle) | (middle > high) if low.dtype.kind in "iu" else np.zeros_like(
        middle, bool)
    whole = Interval.unknown(middle)
    return Interval(np.where(wrapped, whole.low, np.minimum(low, middle)).astype(middle.dtype),
                    middle,
                    np.where(wrapped, whole.high, np.maximum(high, middle)).astype(middle.dtype))


def product(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    """|x y| has |x| ry + rx |y| + rx ry around it, which is (|x| + rx) (|y| + ry) - |x| |y|."""
    middles = [_wide(one) for one in inputs]
    if not all(one is None or one.certain or one.finite and one.middle.dtype.kind == "f"
               for one in inputs):
        return Interval.unknown(middle)
    radii = [None if one is None else np.maximum(
        one.high.astype(np.float64) - one.middle, one.middle.astype(np.float64) - one.low)
        for one in inputs]
    wide = [one if one is None or one.dtype.kind != "f" else one + radius
            for one, radius in zip(middles, radii, strict=True)]
    radius = run(wide) - run(middles)
    return Interval((middle - radius).astype(middle.dtype), middle,
                    (middle + radius).astype(middle.dtype))


def _wide(one: Interval | None) -> Array | None:
    """Magnitudes in float64; integers, which are certain, as they are."""
    if one is None or one.middle.dtype.kind != "f":
        return None if one is None else one.middle
    return np.abs(one.middle.astype(np.float64))


def numbers_of(one: Interval | None) -> Iterator[Array | None]:
    """Numbers of an interval: all integers, or evenly spread floats and zero."""
    if one is None or one.certain:
        yield None if one is None else one.middle
        return
    if one.middle.dtype == bool:
        yield from (one.low, one.high)
        return
    if one.middle.dtype.kind in "iu":
        low, high = one.low.astype(np.int64), one.high.astype(np.int64)
        for place in range(int(one.width) + 1):
            yield np.minimum(low + place, high).astype(one.middle.dtype)
        return
    low, high = one.low.astype(np.float64), one.high.astype(np.float64)
    for place in range(PLACES):
        with np.errstate(all="ignore"):
            array = low + (high - low) * (place / (PLACES - 1))
        yield array.astype(one.middle.dtype)
    yield np.clip(np.zeros_like(one.middle), one.low, one.high)


def elementwise(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    """Values at several places, and as much more as the largest difference of neighbours there."""
    if any(one is not None and one.middle.dtype.kind in "iu" and one.width >= WIDE
           for one in inputs):
        return Interval.unknown(middle)
    arrays = [run(numbers) for numbers in combinations(*(list(numbers_of(one)) for one in inputs))]
    hull = Interval.hull(middle, arrays)
    if middle.dtype.kind == "f":
        with np.errstate(all="ignore"):
            spare = (hull.high - hull.low) / PLACES
        return Interval(hull.low - spare, middle, hull.high + spare)
    return hull


def one_by_one(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    """The sum of what each uncertain element changes alone, half as much again for curvature."""
    total = np.zeros(middle.shape, np.float64)
    middles = [None if one is None else one.middle for one in inputs]
    tries = 0
    for place, one in enumerate(inputs):
        if one is None or one.certain:
            continue
        if not one.finite:
            return Interval.unknown(middle)
        for index in np.ndindex(one.middle.shape):
            tries += 2
            if tries > 2 * MOST_TRIES:
                return Interval.unknown(middle)
            changes = []
            for end in (one.low, one.high):
                moved = one.middle.copy()
                moved[index] = end[index]
                with np.errstate(all="ignore"):
                    changes.append(np.abs(run([*middles[:place], moved, *middles[place + 1:]])
                                          - middle.astype(np.float64)))
            total += np.maximum(*changes)
    total = np.where(np.isfinite(total), total * 1.5, np.inf)
    return Interval((middle - total).astype(middle.dtype), middle,
                    (middle + total).astype(middle.dtype))
