"""Operators that make one element of many."""

import onnx

from compiler.frontend.tflite.converter import axis_of
from compiler.frontend.tflite.registry import operator

REDUCTIONS = {"MEAN": "ReduceMean", "SUM": "ReduceSum", "REDUCE_MAX": "ReduceMax",
              "REDUCE_MIN": "ReduceMin", "REDUCE_PROD": "ReduceProd"}
OF_BOOLEANS = {"REDUCE_ANY": "ReduceMax", "REDUCE_ALL": "ReduceMin"}


def _placed(c, op):
    """The axes, and whether they are those of NCHW: where the axes that are left have the same
    order in both.
    """
    x, kept = op.input(0), bool(op.option("KeepDims"))
    rank = c.rank(x)
    axes = sorted({axis_of(axis, rank, False) for axis in c.integers(op.input(1), "axes")})
    first = c.is_first(x)
    if first and not kept:
        left = [axis for axis in (0, 3, 1, 2) if axis not in axes]
        first = left == sorted(left)
    return sorted(axis_of(axis, rank, first) for axis in axes), first, kept


@operator(*REDUCTIONS)
def reduction(c, op):
    axes, first, kept = _placed(c, op)
    x = c.real(op.input(0), first)
    made = c.write.node(REDUCTIONS[op.code], [x, c.write.integers(*axes)],
                        keepdims=int(kept)) if axes else c.write.node("Identity", [x])
    c.define(op.outputs[0], made, first and kept)


@operator(*OF_BOOLEANS)
def of_booleans(c, op):
    axes, first, kept = _placed(c, op)
    x = c.write.node("Cast", [c.value(op.input(0), first)], to=onnx.TensorProto.UINT8)
    made = c.write.node(OF_BOOLEANS[op.code], [x, c.write.integers(*axes)], keepdims=int(kept))
    c.define(op.outputs[0], c.write.node("Cast", [made], to=onnx.TensorProto.BOOL),
             first and kept)


@operator("ARG_MAX", "ARG_MIN")
def arg(c, op):
    name = "ArgMax" if op.code == "ARG_MAX" else "ArgMin"
    axis = axis_of(c.integers(op.input(1), "axis")[0], c.rank(op.input(0)), False)
    made = c.write.node(name, [c.real(op.input(0))], axis=axis, keepdims=0)
    c.define(op.outputs[0], c.converted(made, op.outputs[0]))


@operator("TOPK_V2")
def top_k(c, op):
    count = c.write.integers(*c.integers(op.input(1), "count"))
    values, places = c.write.several("TopK", [c.real(op.input(0)), count], 2, axis=-1)
    c.define(op.outputs[0], values)
    c.define(op.outputs[1], c.converted(places, op.outputs[1]))


@operator("CUMSUM")
def cumsum(c, op):
    axis = c.write.constant(c.array(op.input(1)))
    c.define(op.outputs[0], c.write.node(
        "CumSum", [c.real(op.input(0)), axis], exclusive=int(op.option("Exclusive")),
        reverse=int(op.option("Reverse"))))
