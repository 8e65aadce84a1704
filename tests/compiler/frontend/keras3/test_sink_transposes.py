"""Transposes behind elementwise operators: fewer of them, and the same elements."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend import convert
from compiler.frontend.keras3.sink_transposes import SinkTransposes
from compiler.graph.reference import evaluate

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
SHAPE = [2, 3, 4, 5]


def int64s(elements):
    return np.array(elements, np.int64)


def graph_of(*nodes, constants=(), outputs=("y",)):
    made = helper.make_graph(
        [helper.make_node(op, inputs, [output], **attrs) for op, inputs, output, attrs in nodes],
        "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants])
    return convert(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)]))


def turned(value, output, perm):
    return ("Transpose", [value], output, {"perm": perm})


def sunk(*nodes, **options):
    """The operators that are left; every element is the same."""
    graph = graph_of(*nodes, **options)
    after = SinkTransposes()(graph)
    x = {"x": np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)}
    for one, other in zip(evaluate(graph, x).values(), evaluate(after, x).values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    return [node.op for node in after.nodes]


WEIGHTS = np.arange(3, dtype=np.float32)


def test_pairs_around_elementwise_operators_vanish():
    assert sunk(turned("x", "a", LAST), ("Add", ["a", "w"], "b", {}), ("Relu", ["b"], "c", {}),
                turned("c", "d", FIRST), ("Exp", ["d"], "y", {}),
                constants=[("w", WEIGHTS)]) == ["add", "relu", "exp"]


def test_sums_of_two_turned_values():
    assert sunk(turned("x", "a", LAST), ("Relu", ["a"], "b", {}), ("Add", ["a", "b"], "c", {}),
                turned("c", "y", FIRST)).count("transpose") <= 1


def test_concatenations_pads_and_slices_go_on_in_other_axes():
    assert sunk(turned("x", "a", LAST), ("Relu", ["a"], "b", {}),
                ("Concat", ["a", "b"], "c", {"axis": 3}), ("Pad", ["c", "pads"], "d", {}),
                ("Slice", ["d", "begin", "end", "axes"], "e", {}), turned("e", "f", FIRST),
                ("Exp", ["f"], "y", {}),
                constants=[("pads", int64s([0, 1, 2, 0, 0, 0, 1, 0])), ("begin", int64s([1])),
                           ("end", int64s([4])), ("axes", int64s([2]))]
                ).count("transpose") == 0


@pytest.mark.parametrize("kept", [0, 1])
def test_reductions(kept):
    ops = sunk(turned("x", "a", LAST), ("ReduceSum", ["a", "axes"], "b", {"keepdims": kept}),
               ("Relu", ["b"], "y", {}), constants=[("axes", int64s([1, 2]))])
    assert ops.count("transpose") == kept


def test_a_gate_that_lies_along_one_axis_is_reshaped():
    ops = sunk(turned("x", "a", LAST), ("ReduceMax", ["a", "axes"], "m", {"keepdims": 1}),
               ("Reshape", ["m", "flat"], "f", {}), ("Reshape", ["f", "wide"], "g", {}),
               ("Mul", ["a", "g"], "b", {}), turned("b", "c", FIRST), ("Exp", ["c"], "y", {}),
               constants=[("axes", int64s([0, 1, 2])), ("flat", int64s([3])),
                          ("wide", int64s([1, 1, 1, 3]))])
    assert ops.count("transpose") <= 1


def test_a_pad_stays_before_its_convolution():
    weights = np.ones((2, 5, 2, 2), np.float32)
    ops = sunk(turned("x", "a", (0, 3, 2, 1)), ("Pad", ["a", "pads"], "b", {}),
               ("Conv", ["b", "w"], "y", {}),
               constants=[("w", weights), ("pads", int64s([0, 0, 0, 0, 0, 0, 1, 1]))])
    assert ops == ["transpose", "pad", "conv2d"]


def test_other_axes_stop_a_transpose_and_outputs_keep_their_names():
    graph = graph_of(turned("x", "a", (0, 3, 2, 1)), turned("x", "b", LAST),
                     ("Reshape", ["b", "shape"], "c", {}), ("Add", ["a", "c"], "y", {}),
                     turned("y", "z", (0, 3, 2, 1)), outputs=("z", "a"),
                     constants=[("shape", int64s([2, 5, 4, 3]))])
    after = SinkTransposes()(graph)
    assert after.outputs == ("z", "a")
    assert [node.op for node in after.nodes].count("transpose") == 3


def test_without_transposes_the_graph_is_the_same():
    graph = graph_of(("Relu", ["x"], "y", {}))
    assert SinkTransposes()(graph) is graph
