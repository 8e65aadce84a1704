"""Operators that make tensors of shapes and numbers, and change types."""

import numpy as np

from compiler.frontend.tflite.registry import operator


@operator("CAST")
def cast(c, op):
    first = c.is_first(op.input(0))
    c.define_stored(op.outputs[0], c.converted(c.value(op.input(0), first), op.outputs[0]), first)


@operator("SHAPE")
def shape(c, op):
    made = c.write.node("Shape", [c.value(op.input(0))])
    c.define_stored(op.outputs[0], c.converted(made, op.outputs[0]))


@operator("RANK")
def rank(c, op):
    c.constants[op.outputs[0]] = np.array(c.rank(op.input(0)), np.int32)


@operator("FILL")
def fill(c, op):
    c.through(op.input(1), op.outputs[0],
              lambda x: c.write.node("Expand", [x, c.shape(op.input(0))]))


@operator("RANGE")
def range_(c, op):
    c.define(op.outputs[0], c.write.node("Range", [c.real(place) for place in op.inputs]))


@operator("ZEROS_LIKE")
def zeros_like(c, op):
    x = c.real(op.input(0))
    zero = c.write.constant(np.zeros((), c.tensor(op.input(0)).dtype))
    c.define(op.outputs[0], c.write.node("Expand", [zero, c.write.node("Shape", [x])]))


@operator("ONE_HOT")
def one_hot(c, op):
    places, depth, on, off = op.inputs
    values = c.write.node("Concat", [c.write.node("Unsqueeze", [c.value(place),
                                                               c.write.integers(0)])
                                     for place in (off, on)], axis=0)
    c.define(op.outputs[0], c.write.node("OneHot", [c.value(places), c.value(depth), values],
                                         axis=op.option("Axis", -1)))
