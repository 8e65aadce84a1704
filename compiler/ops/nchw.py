"""Operators of networks on logical NCHW shapes, as tensor expressions: the table.

The names, inputs and attributes are those of the table in `compiler.graph.ops`; the meaning is
that of `compiler.graph.reference`: integer operators and float quantization to the bit, sums of
float products up to the order of addition.

>>> from compiler import te
>>> from compiler.ops import nchw
>>> x = te.placeholder((1, 3, 8, 8), "float32", "x")
>>> nchw.build("relu", {}, [x], "y").shape
(1, 3, 8, 8)
"""

from collections.abc import Callable, Mapping, Sequence

from compiler.ops import nchw_elementwise as elementwise
from compiler.ops import nchw_matrix as matrix
from compiler.ops import nchw_movement as movement
from compiler.ops import nchw_windows as windows
from compiler.ops.general import GENERAL
from compiler.te import Tensor

__all__ = ["OPERATORS", "build"]

OPERATORS: dict[str, Callable[[Mapping, Sequence[Tensor], str], Tensor]] = {
    "conv2d": windows.conv2d, "convtranspose2d": windows.convtranspose2d,
    "dense": matrix.dense, "matmul": matrix.matmul,
    "relu": elementwise.relu, "clip": elementwise.clip,
    "leakyrelu": elementwise.leakyrelu, "identity": elementwise.identity,
    "maxpool": windows.maxpool, "avgpool": windows.avgpool,
    "globalavgpool": windows.globalavgpool,
    "reshape": elementwise.reshape,
    "upsample": movement.upsample, "slice": movement.slice_,
    "concat": movement.concat,
    "quantizelinear": elementwise.quantizelinear,
    "dequantizelinear": elementwise.dequantizelinear,
    "qconv2d": windows.qconv2d, "qconvtranspose2d": windows.qconvtranspose2d,
    "qdense": matrix.qdense, "qmatmul": matrix.qmatmul,
    "qadd": elementwise.qadd, "qconcat": movement.qconcat,
    "qmaxpool": windows.maxpool, "qavgpool": windows.qavgpool,
    "qglobalavgpool": windows.qglobalavgpool,
    "qrescale": elementwise.qrescale, "qleakyrelu": elementwise.qleakyrelu,
    "quantize": elementwise.quantize, "dequantize": elementwise.dequantize,
    "to_int8": elementwise.to_int8, "to_uint8": elementwise.to_uint8,
} | {name: operator.define for name, operator in GENERAL.items()}


def build(op: str, attrs: Mapping, inputs: Sequence[Tensor], name: str) -> Tensor:
    """The result of the operator, a tensor called `name`; inputs as the operator's rule wants
    them. Tensors computed on the way are called `name` and a suffix.
    """
    if op not in OPERATORS:
        raise ValueError(f"Operator must be one of {', '.join(OPERATORS)}, not {op!r}")
    return OPERATORS[op](attrs, inputs, name)
