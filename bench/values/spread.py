"""What a node makes of intervals: by what is known of its operator, else by trying.

Operators that keep order are computed at both ends. Products are multilinear, so the spread is that
of magnitudes. Elementwise functions are computed at several places of each interval. What is left
is computed once for each element that is not certain.
"""

from collections.abc import Sequence

from typing import Any

import numpy as np
import onnx

from bench.values.general import Intervals, Run, elementwise, one_by_one, product, rising
from bench.values.intervals import Array, Interval
from bench.values.particular import RULES, cancelled, places_in_order
from bench.values.reference import computed

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

CUT = frozenset(("Resize", "Pow", "QLinearConv", "QLinearMatMul"))
"""Operators that cut floats to integers themselves, or have integers that no type holds: what they
make of certain inputs may be uncertain."""

OF_SHAPES = frozenset(("Shape", "Size", "EyeLike"))
OF_MAGNITUDES = frozenset("Abs ReduceL1 ReduceL2 ReduceSumSquare LpPool GlobalLpPool".split())
SUMS = frozenset(
    "Col2Im Sum Mean ReduceSum ReduceMean AveragePool GlobalAveragePool CumSum".split())
NORMALIZATIONS = frozenset((
    "MeanVarianceNormalization", "GroupNormalization", "InstanceNormalization",
    "LayerNormalization"))
WEIGHTED = frozenset(("Resize", "GridSample"))
"""Operators whose weights are rounded, too, so that 1 - w may lose all of w."""

PRODUCTS = frozenset("Conv ConvTranspose Gemm MatMul Einsum ReduceProd CumProd".split())
RECURRENT = frozenset("RNN GRU LSTM".split())
"""Operators whose gates are functions of sums, of which much may cancel."""

OF_ONE = frozenset((
    "Softplus Mish Gelu Elu Selu Celu Asinh Acosh Atanh Acos Asin Sinh Tanh Erf Sin Cos Tan Swish "
    "HardSwish LogSoftmax ReduceLogSumExp").split())
"""Functions that are computed from numbers as large as 1, whatever they give."""

ELEMENTWISE = frozenset((
    "OneHot Abs Cos Sin Acos Neg Reciprocal HardSwish Mish Swish Gelu Shrink BitwiseNot Not "
    "Cosh BatchNormalization Mul PRelu Pow BitwiseAnd BitwiseOr BitwiseXor BitShift And Or Xor "
    "Sub Mod").split())


def spread(node: onnx.NodeProto, inputs: Intervals, middles: Sequence[Array], opset: int
           ) -> list[Interval]:
    """The interval of each output of the node."""
    certain = all(one is None or one.certain for one in inputs)

    def run(arrays: Sequence[Array | None], output: int = 0) -> Array:
        return computed(node, arrays, opset)[output]

    exact = node.op_type in EXACT and not _adds(node)
    made = []
    for output, middle in enumerate(middles):
        if node.op_type == "DynamicQuantizeLinear" and certain and middle.dtype.kind != "f":
            made.append(Interval.exact(middle).widened(2))      # of the number and the zero point
        elif node.op_type not in CUT and (certain or node.op_type in OF_SHAPES):
            made.append(Interval.exact(middle))
        elif output and node.op_type == "TopK":
            made.append(places_in_order(node, inputs, made[0], middle))
        elif output and node.op_type != "Split":
            made.append(Interval.unknown(middle))
        else:
            made.append(_uncertain(node, inputs, middle, lambda a, o=output: run(a, o)))
    if not exact:
        made = [_rounded(node, one, inputs, run) for one in made]
    return [one.settled() for one in made]


def _adds(node: onnx.NodeProto) -> bool:
    """Whether updates are added up."""
    return any(one.name == "reduction" and one.s == b"add" for one in node.attribute)


def _rounded(node: onnx.NodeProto, made: Interval, inputs: Intervals, run: Run) -> Interval:
    """The interval with the node's own rounding."""
    if made.middle.dtype.kind != "f":
        return made
    sizes: list[Any] = [one if one is None else one.middle if one.middle.dtype.kind != "f" else
             np.maximum(np.abs(one.low), np.abs(one.high)) for one in inputs]
    finite = all(one is None or one.dtype.kind != "f" or np.all(np.isfinite(one)) for one in sizes)
    if (node.op_type in PRODUCTS | SUMS or _adds(node)) and finite:
        return made.rounded(np.abs(run(sizes)) * 2)
    if node.op_type == "ReduceLogSum" and finite:
        return made.rounded(4 * np.exp(run(sizes) - made.middle))   # what the sum may be off of it
    if node.op_type == "BatchNormalization" and finite:
        return made.rounded(np.abs(run([*sizes[:3], -sizes[3], sizes[4]])) * 2)
    sure = np.where(np.isfinite(made.middle), np.abs(made.middle.astype(np.float64)), 0)
    if node.op_type in WEIGHTED and sizes[0] is not None and finite:
        return made.rounded(4 * sizes[0].max())
    if node.op_type in NORMALIZATIONS:
        with np.errstate(invalid="ignore"):
            lost = cancelled(node, inputs)      # nan where a row has one, as the result is
        return made.rounded(np.where(np.isnan(lost), 0, lost) + sure.max(initial=0))
    if node.op_type in RECURRENT and finite:
        data, *weights = (one for one in sizes[:4] if one is not None)
        sums = data.max(initial=0) * weights[0].sum(-1).max() + sum(
            one.sum(-1).max() for one in weights[1:])
        return made.rounded(4 * (1 + sums) * max(1, sure.max(initial=0)))
    if node.op_type in OF_ONE:
        return made.rounded(np.maximum(sure * 4, 4))
    rows = node.op_type not in RISING | ELEMENTWISE | {"Softmax", "LogSoftmax", "Div"}
    return made.rounded(np.maximum(sure, sure.max(initial=0)) if rows else sure * 4)


def _uncertain(node: onnx.NodeProto, inputs: Intervals, middle: Array, run: Run) -> Interval:
    op = node.op_type
    if op in RULES:
        return RULES[op](node, inputs, middle, run)
    if op in RISING:
        return rising(node, inputs, middle, run)
    if op in OF_MAGNITUDES and middle.dtype.kind == "f":
        return rising(node, [None if one is None else one.magnitudes() if not place else one
                              for place, one in enumerate(inputs)], middle, run)
    if op in PRODUCTS:
        return product(node, inputs, middle, run)
    if op in ELEMENTWISE:
        return elementwise(node, inputs, middle, run)
    if middle.dtype.kind == "f" and all(one is None or one.certain or one.middle.dtype.kind == "f"
                                        for one in inputs):
        return one_by_one(node, inputs, middle, run)
    return Interval.unknown(middle)
