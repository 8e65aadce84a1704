"""What a node makes of intervals: by what is known of its operator, else by trying.

Operators that keep order are computed at both ends. Products are multilinear, so the spread is that
of magnitudes. Elementwise functions are computed at several places of each interval. What is left is
computed once for each element that is not certain.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import onnx

from bench.values.reference import computed

__all__ = ["Array", "Interval", "ROUNDING", "spread"]

Array = np.ndarray
ROUNDING = 2.0**-20
"""What float32 may be off, of the magnitudes that were added up: 8 units in the last place."""

PLACES = 9                  # of an interval that are tried
WIDE = 24                   # intervals of integers of which not every number is tried
MOST_TRIES = 200            # of computations for one node


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """The least, the expected and the greatest number for each element."""

    low: Array
    middle: Array
    high: Array

    @classmethod
    def exact(cls, array: Array) -> "Interval":
        return cls(array, array, array)

    @classmethod
    def unknown(cls, middle: Array) -> "Interval":
        """Anything that the type has."""
        ends = {"f": lambda: (-np.inf, np.inf), "b": lambda: (False, True)}.get(
            middle.dtype.kind, lambda: (np.iinfo(middle.dtype).min, np.iinfo(middle.dtype).max))()
        return cls(np.full_like(middle, ends[0]), middle, np.full_like(middle, ends[1]))

    @classmethod
    def hull(cls, middle: Array, arrays: Sequence[Array]) -> "Interval":
        """The smallest that has all of these; NaN makes it unknown."""
        low = np.minimum.reduce([middle, *arrays]) if middle.dtype != bool else np.logical_and.reduce(
            [middle, *arrays])
        high = np.maximum.reduce([middle, *arrays]) if middle.dtype != bool else np.logical_or.reduce(
            [middle, *arrays])
        return cls(low, middle, high)

    @property
    def certain(self) -> bool:
        return self.low is self.high or np.array_equal(self.low, self.high, equal_nan=True)

    @property
    def width(self) -> float:
        """The largest distance of its ends."""
        return float(np.max(self.high.astype(np.float64) - self.low.astype(np.float64), initial=0))

    def widened(self, steps: int) -> "Interval":
        """So many steps more to both sides, within the type."""
        info = np.iinfo(self.middle.dtype)
        low = np.clip(self.low.astype(np.int64) - steps, info.min, info.max)
        high = np.clip(self.high.astype(np.int64) + steps, info.min, info.max)
        return Interval(low.astype(self.low.dtype), self.middle, high.astype(self.high.dtype))

    def rounded(self, magnitude: Array | float) -> "Interval":
        """Wider by what rounding to float32 may be off."""
        if self.middle.dtype.kind != "f":
            return self
        with np.errstate(all="ignore"):
            more = np.asarray(magnitude, np.float64) * ROUNDING + 1e-37
            low, high = self.low - more, self.high + more
        kind = self.middle.dtype
        return Interval(low.astype(kind), self.middle, high.astype(kind))

    def magnitudes(self) -> "Interval":
        """The interval of magnitudes."""
        crosses = (self.low <= 0) & (self.high >= 0)
        ends = np.abs(self.low), np.abs(self.high)
        low = np.where(crosses, np.zeros_like(ends[0]), np.minimum(*ends))
        return Interval(low, np.abs(self.middle), np.maximum(*ends))


Intervals = Sequence[Interval | None]
Spread = Callable[[onnx.NodeProto, Intervals, Array, "Run"], Interval]
Run = Callable[[Sequence[Array | None]], Array]

EXACT = frozenset((
    "Transpose Reshape Flatten Squeeze Unsqueeze Slice Split Concat Tile Expand Gather "
    "GatherElements GatherND Pad DepthToSpace SpaceToDepth Identity Dropout Trilu ReverseSequence "
    "MaxPool TopK ScatterElements ScatterND TensorScatter Relu Max Min Clip Where Abs Neg "
    "Sign Floor Ceil Round ReduceMax ReduceMin GlobalMaxPool Upsample").split())
"""Operators that round nothing."""

RISING = frozenset((
    "Transpose Reshape Flatten Squeeze Unsqueeze Slice Split Concat Tile Expand GatherElements "
    "GatherND Pad DepthToSpace SpaceToDepth Identity Dropout Trilu ReverseSequence MaxPool "
    "ScatterElements ScatterND TensorScatter TopK Relu Max Min Clip Sign Floor Ceil Round "
    "ReduceMax ReduceMin GlobalMaxPool Add Sum Mean ReduceSum ReduceMean ReduceLogSumExp "
    "AveragePool GlobalAveragePool CumSum Exp Log Sqrt Erf Atan Tanh Asin Sinh Asinh Acosh Atanh "
    "Sigmoid Softplus Softsign Elu Selu Celu LeakyRelu HardSigmoid ThresholdedRelu QuantizeLinear "
    "DequantizeLinear Cast CastLike IsNaN IsInf GridSample Col2Im").split())
"""Operators that keep the order of all their inputs."""

CUT = frozenset(("Resize",))
"""Operators that cut floats to integers themselves."""

OF_SHAPES = frozenset(("Shape", "Size", "EyeLike"))
OF_MAGNITUDES = frozenset("Abs ReduceL1 ReduceL2 ReduceSumSquare LpPool GlobalLpPool".split())
SUMS = frozenset("Col2Im Sum Mean ReduceSum ReduceMean AveragePool GlobalAveragePool CumSum".split())
PRODUCTS = frozenset("Conv ConvTranspose Gemm MatMul Einsum ReduceProd CumProd".split())
OF_ONE = frozenset((
    "Softplus Mish Gelu Elu Selu Celu Asinh Acosh Atanh Acos Asin Sinh Tanh Erf Sin Cos Tan Swish "
    "HardSwish LogSoftmax").split())
"""Functions that are computed from numbers as large as 1, whatever they give."""

ELEMENTWISE = frozenset((
    "OneHot Abs Cos Sin Tan Acos Neg Reciprocal HardSwish Mish Swish Gelu Shrink BitwiseNot Not Cosh "
    "BatchNormalization Mul PRelu Pow BitwiseAnd BitwiseOr BitwiseXor BitShift And Or Xor Sub Mod"
    ).split())


def spread(node: onnx.NodeProto, inputs: Intervals, middles: Sequence[Array], opset: int
           ) -> list[Interval]:
    """The interval of each output of the node."""
    certain = all(one is None or one.certain for one in inputs)

    def run(arrays: Sequence[Array | None], output: int = 0) -> Array:
        return computed(node, arrays, opset)[output]

    made = []
    for output, middle in enumerate(middles):
        if node.op_type not in CUT and (certain or node.op_type in OF_SHAPES):
            made.append(Interval.exact(middle))
        elif output and node.op_type == "TopK":
            made.append(_places_in_order(node, inputs, made[0], middle))
        elif output and node.op_type != "Split":
            made.append(Interval.unknown(middle))
        else:
            made.append(_uncertain(node, inputs, middle, lambda a, o=output: run(a, o)))
    if node.op_type in EXACT:
        return made
    return [_rounded(node, one, inputs, run) for one in made]


def _rounded(node: onnx.NodeProto, made: Interval, inputs: Intervals, run: Run) -> Interval:
    """The interval with the node's own rounding."""
    if made.middle.dtype.kind != "f":
        return made
    sizes = [one if one is None else one.middle if one.middle.dtype.kind != "f" else
             np.maximum(np.abs(one.low), np.abs(one.high)) for one in inputs]
    finite = all(one is None or one.dtype.kind != "f" or np.all(np.isfinite(one)) for one in sizes)
    if node.op_type in PRODUCTS | SUMS and finite:
        return made.rounded(np.abs(run(sizes)) * 2)
    if node.op_type == "BatchNormalization" and finite:
        return made.rounded(np.abs(run([*sizes[:3], np.negative(sizes[3]), sizes[4]])) * 2)
    sure = np.where(np.isfinite(made.middle), np.abs(made.middle.astype(np.float64)), 0)
    if node.op_type in OF_ONE:
        return made.rounded(np.maximum(sure * 4, 4))
    rows = node.op_type not in RISING | ELEMENTWISE | {"Softmax", "LogSoftmax", "Div"}
    return made.rounded(np.maximum(sure, sure.max(initial=0)) if rows else sure * 4)


def _uncertain(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    op = node.op_type
    if op in _RULES:
        return _RULES[op](node, inputs, middle, run)
    if op in RISING:
        return _rising(node, inputs, middle, run)
    if op in OF_MAGNITUDES and middle.dtype.kind == "f":
        return _rising(node, [None if one is None else one.magnitudes() if not place else one
                              for place, one in enumerate(inputs)], middle, run)
    if op in PRODUCTS:
        return _product(node, inputs, middle, run)
    if op in ELEMENTWISE:
        return _elementwise(node, inputs, middle, run)
    if middle.dtype.kind == "f" and all(one is None or one.certain or one.middle.dtype.kind == "f"
                                        for one in inputs):
        return _one_by_one(node, inputs, middle, run)
    return Interval.unknown(middle)


def _ends(inputs: Intervals) -> tuple[list[Array | None], list[Array | None]]:
    return ([None if one is None else one.low for one in inputs],
            [None if one is None else one.high for one in inputs])


def _rising(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    low, high = map(run, _ends(inputs))
    if low.dtype == bool:
        return Interval(low & high & middle, middle, low | high | middle)
    wrapped = (low > middle) | (middle > high) if low.dtype.kind in "iu" else np.zeros_like(
        middle, bool)
    whole = Interval.unknown(middle)
    return Interval(np.where(wrapped, whole.low, np.minimum(low, middle)).astype(middle.dtype),
                    middle,
                    np.where(wrapped, whole.high, np.maximum(high, middle)).astype(middle.dtype))


def _product(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    """|x y| has |x| ry + rx |y| + rx ry around it, which is (|x| + rx) (|y| + ry) - |x| |y|."""
    middles = [_wide(one) for one in inputs]
    if not all(np.all(np.isfinite(array)) for one in inputs if one for array in (one.low, one.high)):
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
    """Magnitudes in float64; integers, which are parameters, as they are."""
    if one is None or one.middle.dtype.kind != "f":
        return None if one is None else one.middle
    return np.abs(one.middle.astype(np.float64))


def _places(one: Interval | None) -> Iterator[Array | None]:
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


def _elementwise(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    """Values at several places, and as much more as the largest difference of neighbours there."""
    if any(one is not None and one.middle.dtype.kind in "iu" and one.width >= WIDE
           for one in inputs):
        return Interval.unknown(middle)
    arrays = [run(places) for places in product(*(list(_places(one)) for one in inputs))]
    hull = Interval.hull(middle, arrays)
    if middle.dtype.kind == "f":
        with np.errstate(all="ignore"):
            spare = (hull.high - hull.low) / PLACES
        return Interval(hull.low - spare, middle, hull.high + spare)
    return hull


def _one_by_one(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    """The sum of what each uncertain element changes alone, half as much again for curvature."""
    total = np.zeros(middle.shape, np.float64)
    middles = [None if one is None else one.middle for one in inputs]
    tries = 0
    for place, one in enumerate(inputs):
        if one is None or one.certain:
            continue
        if not (np.all(np.isfinite(one.low)) and np.all(np.isfinite(one.high))):
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


def _normalized(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    """Of ``z = (x - mean) / deviation`` the derivative is (own - 1 / n - z z' / n) / deviation,
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


def _places_in_order(node: onnx.NodeProto, inputs: Intervals, values: Interval, middle: Array
                     ) -> Interval:
    """Of elements whose intervals meet any may stand in a place of the order."""
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
    """Weights are negative where it is cubic; integers are interpolated as floats and then cut."""
    mode = next((one.s for one in node.attribute if one.name == "mode"), b"nearest")
    x = inputs[0]
    assert x is not None
    if mode == b"cubic":
        return _one_by_one(node, inputs, middle, run)
    if mode == b"nearest" or middle.dtype.kind == "f":
        return _rising(node, inputs, middle, run)
    ends = [run([end.astype(np.float64), *(one and one.middle for one in inputs[1:])])
            for end in (x.low, x.high)]
    spare = ROUNDING * np.maximum(np.abs(ends[0]), np.abs(ends[1]))
    info = np.iinfo(middle.dtype)
    low, high = (np.clip(np.trunc(end), info.min, info.max).astype(middle.dtype)
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
        least = low / (low + high.sum(axis=axis, keepdims=True) - high)
        most = high / (high + low.sum(axis=axis, keepdims=True) - low)
        if node.op_type == "LogSoftmax":
            least, most = np.log(least), np.log(most)
    made = Interval(least.astype(middle.dtype), middle, most.astype(middle.dtype))
    return made.rounded(np.minimum(np.abs(x.middle - top), 100).max(initial=1.0))


def _gather(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    data, places = inputs
    assert data is not None and places is not None
    if places.certain:
        return _rising(node, inputs, middle, run)
    if places.width >= WIDE:
        return Interval.unknown(middle)
    axis = {one.name: one.i for one in node.attribute}.get("axis", 0)
    extent = data.middle.shape[axis]
    arrays = [run([end, np.clip(place, -extent, extent - 1)])
              for end in (data.low, data.high) for place in _places(places) if place is not None]
    return Interval.hull(middle, arrays)


def _cast(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    x = inputs[0]
    assert x is not None
    if middle.dtype == bool:
        surely = (x.low > 0) | (x.high < 0)
        return Interval(surely, middle, surely | (x.low != x.high) | middle)
    return _rising(node, inputs, middle, run)


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
        each = np.asarray(inputs[4].middle, np.float64)
        each = each.reshape(-1, 1, 1) if each.ndim and each.size > 1 and op == "Conv" else each
        radius = np.ceil(radius * float(inputs[1].middle) * each / float(inputs[6].middle)) + 1
    info = np.iinfo(middle.dtype)
    return Interval(np.clip(middle - radius, info.min, info.max).astype(middle.dtype), middle,
                    np.clip(middle + radius, info.min, info.max).astype(middle.dtype))


_RULES: dict[str, Spread] = {
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), _comparison),
    **dict.fromkeys(("ArgMax", "ArgMin"), _places_of_greatest),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"), _integers),
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization", "InstanceNormalization",
                     "GroupNormalization", "MeanVarianceNormalization", "LpNormalization"),
                    _normalized),
    "Resize": _resize, "Where": _where, "Div": _quotient, "Gather": _gather,
}
