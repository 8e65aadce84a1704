"""Operators: what each needs and the type of what it makes. One rule an operator.

Float operators (`conv2d` ... `identity`) carry ONNX's meaning on logical NCHW shapes; integer
operators (`qconv2d` ...) carry the meaning of docs/machine.md, section Numbers, on int8 tensors
in stored form (a uint8 tensor is stored as x - 128). The operators of `compiler.ops.general`
(`add`, `exp`, `reduce_sum`, `transpose`, ...) take any shape and element type; their tables stand
there.

| operator | inputs | attributes |
|---|---|---|
| conv2d | x, w [Co,Ci/group,kh,kw], bias [Co]? | strides, pads (top, left, bottom, right) |
| convtranspose2d | x, w [Ci,Co/group,kh,kw], bias [Co]? | strides, pads |
| dense | x [M,K], w [N,K] or [K,N], bias? | trans_b: 1 when w is [N,K] |
| matmul | a, b | |
| relu, identity | x | |
| leakyrelu | x | alpha: the slope below zero |
| clip | x | lo, hi: numbers, infinite ones too; hi where lo is above it |
| maxpool | x | kernel, strides, pads |
| avgpool | x | kernel, strides, pads, include_pad: 1 when pads count as elements |
| globalavgpool | x | |
| concat | any number of tensors | axis |
| reshape | x | shape |
| upsample | x | factors: rows and columns of each pixel |
| slice | x | begin, end, step of each axis |
| quantizelinear | x, scale, zero_point | axis |
| dequantizelinear | q, scale, zero_point | axis |
| qconv2d | x, w [Co,Ci/group,kh,kw], bias, mult, shift [Co] | as conv2d, pad_value, zp, lo, hi |
| qconvtranspose2d | as qconv2d | as convtranspose2d, pad_value, zp, lo, hi |
| qdense | x [...,K], w [N,K], bias, mult, shift [N] | zp, lo, hi |
| qconcat | any number of tensors | bias, mult, shift: one for each input; zp, lo, hi; axis: 1 |
| qmatmul | a, b [...,K,N] or [...,N,K] | trans_b: 1 when b is [...,N,K]; a_zp, b_zp; as qrescale |
| qadd | a, b | ma, mb, c, shift, zp, lo, hi |
| qmaxpool | x | kernel, strides, pads |
| qavgpool | x, mult, shift [Ho,Wo] or [1,1] | as maxpool, pad_value, bias, zp, lo, hi |
| qglobalavgpool, qrescale | x | bias, mult, shift, zp, lo, hi |
| qleakyrelu | x | as qrescale, mult_below, shift_below: a slope not above the other |
| quantize | x float32 | scale, zp (stored form) |
| dequantize | x int8 | scale, zp (stored form) |
| to_int8, to_uint8 | x | |

Convolutions may have `dilations` (rows, columns; 1 unless told) and a `group` (1 unless told), the
transposed ones an `output_padding` (below, right; 0 unless told). `qmatmul` multiplies a - a_zp by
b - b_zp (0 unless told); leading dimensions broadcast. `qconvtranspose2d` is a
convolution of its input with strides - 1 pixels of `pad_value` between neighbours and `pad_value`
around, by the kernel turned by 180 degrees.
"""

from functools import lru_cache

from compiler import te
from compiler.graph.float_rules import FLOAT_OPS
from compiler.graph.graph import Attrs, Node, TensorType
from compiler.graph.integer_rules import INTEGER_OPS
from compiler.ops.rules import Rule, TypeRefused, Types
from compiler.ops.general import GENERAL

__all__ = ["FLOAT_OPS", "GENERAL_OPS", "INTEGER_OPS", "OPS", "infer"]


def infer(node: Node, types: Types) -> TensorType:
    """The type of the node's only output, or TypeRefused with one sentence that names the node."""
    if node.op not in OPS:
        raise TypeRefused(f"{node.name}: operator must be one of {', '.join(OPS)}, not {node.op!r}")
    if len(node.outputs) != 1:
        raise TypeRefused(f"{node.name}: {node.op} must have 1 output, not {len(node.outputs)}")
    try:
        return OPS[node.op](node, types)
    except KeyError as missing:
        raise TypeRefused(f"{node.name}: {node.op} needs the attribute {missing}") from None


def _general(op: str) -> Rule:
    """The rule of an operator that says itself what it makes."""
    def rule(node: Node, types: Types) -> TensorType:
        try:
            return _general_type(op, Attrs(node.attrs), tuple(types))
        except (ValueError, TypeError) as error:
            raise TypeRefused(f"{node.name}: {error}") from None
    return rule


@lru_cache(4096)
def _general_type(op: str, attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    inputs = [te.placeholder(type_.shape, type_.dtype, f"x{position}")
              for position, type_ in enumerate(types)]
    made = GENERAL[op].define(attrs, inputs, "y")
    return TensorType(made.shape, made.dtype)


GENERAL_OPS: dict[str, Rule] = {op: _general(op) for op in GENERAL}
OPS: dict[str, Rule] = FLOAT_OPS | INTEGER_OPS | GENERAL_OPS
