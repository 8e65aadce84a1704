"""Reductions, pools, and functions of rows."""

from typing import Any

import numpy as np

from bench.values.draw import Drawer, Unfit, Value
from bench.values.rules.registry import ROWS, RULES, rule
from bench.values.rules.steps import dequantized, quantized


@rule("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
      "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
def reduction(d: Drawer, x: Value, op: str) -> Value:
    axes = [axis for axis in range(x.rank) if d.chance(0.4)]
    if x.dtype != "float32" and float(np.sum(x.array.astype(np.float64)**2)) >= 2.0**31:
        raise Unfit("sums of integers would wrap, in ways that differ")
    given = [] if d.chance(0.1) else [d.constant(axes, "int64")]
    return d.emit(op, x, *given, keepdims=d.below(2))


@rule("ArgMax", "ArgMin", ranks=ROWS)
def place(d: Drawer, x: Value, op: str) -> Value:
    return d.emit(op, x, axis=d.below(x.rank, -x.rank), keepdims=d.below(2),
                  select_last_index=int(d.chance(0.2)))


@rule("CumSum", "CumProd", ranks=ROWS)
def running(d: Drawer, x: Value, op: str) -> Value:
    return d.emit(op, x, d.constant(d.below(x.rank), "int64"), exclusive=d.below(2),
                  reverse=d.below(2))


@rule("Softmax", "LogSoftmax", "Hardmax", ranks=ROWS)
def softmax(d: Drawer, x: Value, op: str) -> Value:
    return d.emit(op, x, axis=-1 if d.chance(0.6) else d.below(x.rank))


@rule("Add:masked", types=("float32",), ranks=ROWS)
def masked_softmax(d: Drawer, x: Value, op: str) -> Value:
    """Scores plus a mask, a constant, of a finite number or none; rows may be masked whole."""
    if x.shape[-1] < 2:
        raise Unfit("rows alone")
    low = np.float32(d.choice((-1e4, -3.4e38, -np.inf, -1e9)))
    shape = [extent if d.chance(0.5) else 1 for extent in x.shape[:-1]] + [x.shape[-1]]
    hidden = d.rng.random(shape) < 0.4
    if d.chance(0.4):
        hidden.reshape(-1, x.shape[-1])[0] = True       # a row is masked whole
    if not np.isfinite(low):
        hidden[..., 0] = False
    mask = d.constant(np.where(hidden, low, np.float32(0)).astype(np.float32))
    return d.emit("Softmax", _summed(d, x, mask), axis=-1)


@rule("Softmax:channels", types=("float32",), ranks=(4,))
def channel_softmax(d: Drawer, x: Value, op: str) -> Value:
    """Softmax of the channels of each pixel, as exporters of other layouts write it, perhaps before
    a convolution.
    """
    last = d.emit("Transpose", x, perm=[0, 2, 3, 1])
    made = d.emit("Transpose", d.emit(op, last, axis=-1), perm=[0, 3, 1, 2])
    if d.chance(0.4):
        return made
    return RULES["Conv:pixels"].drawn(d, dequantized(d, quantized(d, made)))


def _summed(d: Drawer, x: Value, mask: str) -> Value:
    """x plus a mask, whose numbers are larger than others may be."""
    from bench.values import draw

    largest, draw.LARGEST = draw.LARGEST, np.inf
    try:
        return d.emit("Add", x, mask)
    finally:
        draw.LARGEST = largest


@rule("LayerNormalization", "RMSNormalization", types=("float32",), ranks=ROWS)
def normalization(d: Drawer, x: Value, op: str) -> Value:
    if x.shape[-1] < 2:
        raise Unfit("rows alone")
    weight = d.constant(d.rng.uniform(0.5, 1.5, x.shape[-1]).astype(np.float32))
    bias = [d.constant(d.normal(x.shape[-1]))] if op[0] == "L" and d.chance(0.6) else []
    return d.emit(op, x, weight, *bias, axis=-1, epsilon=d.choice((1e-5, 1e-3)))


@rule("ReduceMean:norm", types=("float32",), ranks=ROWS)
def written_normalization(d: Drawer, x: Value, op: str) -> Value:
    """A layer normalization as exporters write it, with a weight that may have more axes."""
    if x.shape[-1] < 2:
        raise Unfit("rows alone")
    axes = d.constant([-1], "int64")
    centred = d.emit("Sub", x, d.emit(op, x, axes, keepdims=1))
    squares = d.emit("Pow", centred, d.constant(2, "float32"))
    spread = d.emit("Sqrt", d.emit("Add", d.emit("ReduceMean", squares, axes, keepdims=1),
                                   d.constant(1e-3, "float32")))
    shape = [1] * d.below(x.rank + 2) + [x.shape[-1]]
    weight = d.constant(d.rng.uniform(0.5, 1.5, shape).astype(np.float32))
    scaled = d.emit("Mul", d.emit("Div", centred, spread), weight)
    return d.emit("Add", scaled, d.constant(d.normal(x.shape[-1]))) if d.chance(0.6) else scaled


@rule("InstanceNormalization", "GroupNormalization", "BatchNormalization", types=("float32",),
      ranks=(4, 3, 2))
def channel_normalization(d: Drawer, x: Value, op: str) -> Value:
    if x.rank < 3 and op[0] != "B":
        raise Unfit("channels alone")
    channels = x.shape[1]
    weights = [d.constant(d.rng.uniform(0.5, 1.5, channels).astype(np.float32)),
               d.constant(d.normal(channels))]
    if op == "BatchNormalization":
        weights += [d.constant(d.normal(channels)),
                    d.constant(d.rng.uniform(0.5, 2, channels).astype(np.float32))]
    given = {"num_groups": d.choice([one for one in range(1, channels + 1) if channels % one == 0])
             } if op[0] == "G" else {}
    if op[0] != "B" and x.array[0, 0].size < 2:
        raise Unfit("more than a pixel alone")
    return d.emit(op, x, *weights, **given)


@rule("LpNormalization", "MeanVarianceNormalization", "LRN", types=("float32",), ranks=(4,))
def other_normalization(d: Drawer, x: Value, op: str) -> Value:
    match op:
        case "LpNormalization": given = {"axis": d.below(4), "p": d.choice((1, 2))}
        case "LRN": given = {"size": d.choice((1, 3)), "alpha": 0.01}
        case _: given = {"axes": d.choice(([0, 2, 3], [2, 3], [1]))}
    return d.emit(op, x, **given)


@rule("AveragePool", "LpPool", types=("float32",), ranks=(4, 4, 3, 5))
def pool(d: Drawer, x: Value, op: str) -> Value:
    kernel = [d.below(min(extent, 3) + 1, 1) for extent in x.shape[2:]]
    pads = [d.below(size) if d.chance(0.3) else 0 for size in kernel]
    given: dict[str, Any] = {"count_include_pad": d.below(2)} if op[0] == "A" else {
        "p": d.choice((1, 2))}
    return d.emit(op, x, kernel_shape=kernel, strides=[d.below(3, 1) for _ in kernel],
                  pads=[*pads, *pads], **given)


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", types=("float32",),
      ranks=(4, 3, 5))
def global_pool(d: Drawer, x: Value, op: str) -> Value:
    return d.emit(op, x)


@rule("Resize:linear", types=("float32", "int8", "uint8"), ranks=(4,))
def resampling(d: Drawer, x: Value, op: str) -> Value:
    factors = [1, 1, d.choice((1, 2, 1.5, 0.5)), d.choice((1, 2, 1.5, 0.5))]
    return d.emit(op, x, None, d.constant(factors, "float32"),
                  mode=d.choice(("linear", "cubic") if x.dtype == "float32" else ("linear",)),
                  coordinate_transformation_mode=d.choice(("half_pixel", "align_corners",
                                                           "asymmetric")))
