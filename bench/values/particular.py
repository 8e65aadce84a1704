"""What particular operators make of intervals."""

from collections.abc import Callable

import numpy as np
import onnx

from bench.values.general import (WIDE, Intervals, Run, elementwise, numbers_of, one_by_one,
                                  rising)
from bench.values.intervals import ROUNDING, Array, Interval
from bench.values.reference import computed

Spread = Callable[[onnx.NodeProto, Intervals, Array, Run], Interval]


def _comparison(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    a, b = inputs
    assert a is not None and b is not None
    arrays = [middle, run([a.low, b.high]), run([a.high, b.low])]
    if node.op_type == "Equal":
        meets = (a.low <= b.high) & (b.low <= a.high)
        alone = (a.low == a.high) & (b.low == b.high)
        return Interval(middle & (alone | ~meets), middle, middle | (meets & ~alone))
    return Interval.hull(middle, arrays)


def _where(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    condition, a, b = inputs
    assert condition is not None and a is not None and b is not None
    lows = [run([end, a.low, b.low]) for end in (condition.low, condition.high)]
    highs = [run([end, a.high, b.high]) for end in (condition.low, condition.high)]
    return Interval(np.minimum(*lows), middle, np.maximum(*highs))


def _quotient(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    a, b = inputs
    assert a is not None and b is not None
    if np.any((b.low <= 0) & (b.high >= 0)):
        return Interval.unknown(middle)
    return Interval.hull(middle, [run([x, y]) for x in (a.low, a.high) for y in (b.low, b.high)])


def _tangent(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    """Tan rises between its poles, which are half turns apart, and may be anything around one."""
    x, = inputs
    assert x is not None
    ends = x.low.astype(np.float64), x.high.astype(np.float64)
    with np.errstate(all="ignore"):
        more = np.maximum(*np.abs(ends)) * ROUNDING
        below, above = np.floor((ends[0] - more) / np.pi + 0.5), np.floor(
            (ends[1] + more) / np.pi + 0.5)
    crosses = ~(below == above)                     # infinite ends, too
    made = rising(node, inputs, middle, run)
    whole = Interval.unknown(middle)
    return Interval(np.where(crosses, whole.low, made.low).astype(middle.dtype), middle,
                    np.where(crosses, whole.high, made.high).astype(middle.dtype))


def _power(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    """Powers of integers that the type does not hold may be anything."""
    made = elementwise(node, inputs, middle, run)
    if middle.dtype.kind not in "iu":
        return made
    a, b = ([np.abs(end.astype(np.float64)) for end in (one.low, one.high)]
            for one in inputs if one is not None)
    with np.errstate(all="ignore"):
        beyond = np.maximum(*a) ** np.maximum(*b) > np.iinfo(middle.dtype).max
    whole = Interval.unknown(middle)
    return Interval(np.where(beyond, whole.low, made.low), middle,
                    np.where(beyond, whole.high, made.high))


def _places_of_greatest(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run
                        ) -> Interval:
    x = inputs[0]
    assert x is not None
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    axis, kept = given.get("axis", 0), given.get("keepdims", 1)
    if node.op_type == "ArgMax":
        possible = x.high >= x.low.max(axis=axis, keepdims=True)
    else:
        possible = x.low <= x.high.min(axis=axis, keepdims=True)
    extent = x.middle.shape[axis]
    low = np.argmax(possible, axis=axis, keepdims=bool(kept))
    high = extent - 1 - np.argmax(np.flip(possible, axis), axis=axis, keepdims=bool(kept))
    return Interval(np.minimum(low, middle), middle, np.maximum(high, middle))


def places_in_order(node: onnx.NodeProto, inputs: Intervals, values: Interval, middle: Array
                     ) -> Interval:
    """Any of the elements whose intervals meet may stand in a place of the order."""
    x = inputs[0]
    assert x is not None
    axis = {one.name: one.i for one in node.attribute}.get("axis", -1)
    elements, order = ([np.moveaxis(end, axis, -1) for end in (one.low, one.high)]
                       for one in (x, values))
    possible = (elements[1][..., None, :] >= order[0][..., :, None]) & (
        elements[0][..., None, :] <= order[1][..., :, None])
    low = np.argmax(possible, -1)
    high = possible.shape[-1] - 1 - np.argmax(possible[..., ::-1], -1)
    return Interval(np.minimum(np.moveaxis(low, -1, axis), middle), middle,
                    np.maximum(np.moveaxis(high, -1, axis), middle))


def _resize(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    """Weights are negative where it is cubic; integers are interpolated as floats, then rounded."""
    mode = next((one.s for one in node.attribute if one.name == "mode"), b"nearest")
    x = inputs[0]
    assert x is not None
    if mode == b"cubic":
        return one_by_one(node, inputs, middle, run)
    if mode == b"nearest" or middle.dtype.kind == "f":
        return rising(node, inputs, middle, run)
    ends = [run([end.astype(np.float64), *(one and one.middle for one in inputs[1:])])
            for end in (x.low, x.high)]
    spare = ROUNDING * np.maximum(np.abs(ends[0]), np.abs(ends[1]))
    info = np.iinfo(middle.dtype)
    low, high = (np.clip(np.rint(end), info.min, info.max).astype(middle.dtype)
                 for end in (ends[0] - spare, ends[1] + spare))
    return Interval(np.minimum(low, middle), middle, np.maximum(high, middle))


def _softmax(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    """An element grows with its own number and falls with those of others."""
    x = inputs[0]
    assert x is not None
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    axis = given.get("axis", -1)
    low, high, top = (array.astype(np.float64) for array in (
        x.low, x.high, x.high.max(axis=axis, keepdims=True)))
    with np.errstate(all="ignore"):
        low, high = np.exp(low - top), np.exp(high - top)
        least, most = low / (low + _others(high, axis)), high / (high + _others(low, axis))
        if node.op_type == "LogSoftmax":
            least, most = np.log(least), np.log(most)
    made = Interval(least.astype(middle.dtype), middle, most.astype(middle.dtype))
    return made.rounded(np.minimum(np.abs(x.middle - top), 100).max(initial=1.0))


def _others(array: Array, axis: int) -> Array:
    """The sum of all others along the axis, for each element."""
    extent = array.shape[axis]
    return np.moveaxis(np.moveaxis(array, axis, -1) @ (1 - np.eye(extent)), -1, axis)


def _gather(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    data, places = inputs
    assert data is not None and places is not None
    if places.certain:
        return rising(node, inputs, middle, run)
    if places.width >= WIDE:
        return Interval.unknown(middle)
    axis = {one.name: one.i for one in node.attribute}.get("axis", 0)
    extent = data.middle.shape[axis]
    arrays = [run([end, np.clip(place, -extent, extent - 1)])
              for end in (data.low, data.high) for place in numbers_of(places)
              if place is not None]
    return Interval.hull(middle, arrays)


def _cast(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    x = inputs[0]
    assert x is not None
    if middle.dtype == bool:
        surely = (x.low > 0) | (x.high < 0)
        return Interval(surely, middle, surely | (x.low != x.high) | middle)
    return rising(node, inputs, middle, run)


def _is_about_half(numbers: Array, sizes: Array) -> Array:
    """Where float32 decides which integer is nearest, if numbers so large are added up."""
    off = np.abs(numbers - np.floor(numbers) - 0.5)
    return off <= ROUNDING * np.maximum(sizes, 1)


def _integers(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    """A product of integers, whose first input alone may be uncertain."""
    quantized = node.op_type.startswith("QLinear")
    weight, point = (inputs[3], inputs[5]) if quantized else (
        inputs[1], inputs[3] if len(inputs) > 3 else None)
    x, others = inputs[0], [one for one in inputs[1:] if one is not None]
    if not all(one.certain for one in others):
        return Interval.unknown(middle)
    assert x is not None and weight is not None
    zero = np.asarray(0 if point is None else point.middle, np.float64)
    if zero.ndim and weight.middle.ndim == 4:
        zero = zero.reshape(-1, 1, 1, 1)
    steps = np.abs(weight.middle - zero)
    far = np.maximum(x.high.astype(np.float64) - x.middle, x.middle.astype(np.float64) - x.low)
    op = "Conv" if "Conv" in node.op_type else "MatMul"
    alone = onnx.NodeProto(op_type=op, input=["x", "w"], output=["y"])
    alone.attribute.extend(node.attribute)
    radius, = computed(alone, [far, steps])
    if quantized:
        scale, start, _, factors, _, out = (
            np.squeeze(np.float64(0) if one is None else one.middle.astype(np.float64))
            for one in inputs[1:7])
        each = factors.reshape(-1, 1, 1) if op == "Conv" else factors
        real = scale * each / out
        sums, = computed(alone, [x.middle - start, weight.middle - zero])
        sizes, = computed(alone, [np.abs(x.middle - start), steps])
        if len(inputs) > 8 and inputs[8] is not None:
            bias = inputs[8].middle.astype(np.float64).reshape(-1, 1, 1)
            sums, sizes = sums + bias, sizes + np.abs(bias)
        radius = np.where(radius > 0, np.ceil(radius * real) + 1,
                          _is_about_half(sums * real, sizes * real))
    info = np.iinfo(middle.dtype)
    return Interval(np.clip(middle - radius, info.min, info.max).astype(middle.dtype), middle,
                    np.clip(middle + radius, info.min, info.max).astype(middle.dtype))


def _normalized(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    """The derivative of ``z = (x - mean) / deviation`` is (own - 1 / n - z z' / n) / deviation,
    without mean where none is subtracted; half as much again for curvature.
    """
    x = inputs[0]
    assert x is not None
    if not all(one is None or one.certain for one in inputs[1:]):
        return Interval.unknown(middle)
    rows, axes, factor, epsilon = _as_rows(node, inputs, x.middle)
    far, _, _, _ = _as_rows(node, inputs, np.maximum(x.high - x.middle, x.middle - x.low))
    mean = 0.0 if node.op_type.startswith(("RMS", "Lp")) else rows.mean(axes, keepdims=True)
    shift = 0.0 if node.op_type.startswith(("RMS", "Lp")) else far.mean(axes, keepdims=True)
    if node.op_type == "LpNormalization":
        power = {one.name: one.i for one in node.attribute}.get("p", 2)
        size = np.abs(rows).sum(axes, keepdims=True) if power == 1 else np.sqrt(
            (rows**2).sum(axes, keepdims=True))
        if not size.all():                      # a row of zeros has no norm
            return Interval.unknown(middle)
        part = (rows / size) if power == 2 else np.ones_like(rows)
        more = np.abs(rows / size) * (np.abs(part) * far).sum(axes, keepdims=True)
        total = (far + more) / size
    else:
        size = np.sqrt(((rows - mean)**2).mean(axes, keepdims=True) + epsilon)
        z = np.abs(rows - mean) / size
        total = (far + shift + z * (z * far).mean(axes, keepdims=True)) / size
    total = 1.5 * total.reshape(x.middle.shape) * factor
    return Interval((middle - total).astype(middle.dtype), middle,
                    (middle + total).astype(middle.dtype))


def _as_rows(node: onnx.NodeProto, inputs: Intervals, x: Array
             ) -> tuple[Array, tuple[int, ...], Array, float]:
    """The array so that these axes are normalized, factors of its elements, and epsilon."""
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    weight = np.abs(inputs[1].middle) if len(inputs) > 1 and inputs[1] else np.ones(1)
    wide, epsilon = x.astype(np.float64), given.get("epsilon", 1e-5)
    channels = weight.reshape(-1, *(1,) * (x.ndim - 2)) if x.ndim > 1 else weight
    match node.op_type:
        case "LayerNormalization" | "RMSNormalization":
            begin = given.get("axis", -1) % x.ndim
            return wide, tuple(range(begin, x.ndim)), weight, epsilon
        case "InstanceNormalization":
            return wide, tuple(range(2, x.ndim)), channels, epsilon
        case "GroupNormalization":
            grouped = wide.reshape(x.shape[0], given["num_groups"], -1)
            return grouped, (2,), channels, epsilon
        case "LpNormalization":
            return wide, (given.get("axis", -1),), np.ones(1), 0.0
        case _:
            return wide, tuple(given.get("axes", (0, 2, 3))), np.ones(1), 1e-9


def cancelled(node: onnx.NodeProto, inputs: Intervals) -> Array:
    """Magnitudes, in deviations, from which a normalization subtracts: those of its elements, or
    of ``E[x^2] - E[x]^2``, for each element of the result.
    """
    x = inputs[0]
    assert x is not None
    rows, axes, factor, epsilon = _as_rows(node, inputs, x.middle)
    variance = rows.var(axes, keepdims=True) + epsilon
    z = np.abs(rows - rows.mean(axes, keepdims=True)) / np.sqrt(variance)
    far = np.abs(rows).max(axes, keepdims=True) / np.sqrt(variance)
    if node.op_type == "MeanVarianceNormalization":
        known = (variance > 1e-8) & (far**2 < 1 / ROUNDING)     # else it may be any number
        return np.where(known, 4 + z * 4 * far**2, np.inf)
    if node.op_type == "GroupNormalization":
        far = far + far**2
    return 4 * ((1 + z) * (1 + far)).reshape(x.middle.shape) * factor


RULES: dict[str, Spread] = {
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), _comparison),
    **dict.fromkeys(("ArgMax", "ArgMin"), _places_of_greatest),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"), _integers),
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization", "InstanceNormalization",
                     "GroupNormalization", "MeanVarianceNormalization", "LpNormalization"),
                    _normalized),
    "Resize": _resize, "Pow": _power, "Where": _where, "Div": _quotient, "Gather": _gather,
    "Tan": _tangent,
}
