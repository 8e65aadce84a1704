"""Elementwise functions of one quantized value become tables."""

import numpy as np
import pytest

from compiler.frontend import convert
from compiler.graph import Graph, evaluate, optimize
from compiler.graph.passes.pipeline import standard_passes


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def sample() -> np.ndarray:
    """Every step of the input's scale, 0.05, and some beyond."""
    return ((np.arange(280) - 140) * np.float32(0.05)).astype(np.float32).reshape(1, 2, 10, 14)


def silu(one, x):
    return one.add("Mul", x, one.add("Sigmoid", x))


def silu_of_pairs(one, x):
    """Quantized in the middle, too."""
    return one.add("Mul", x, one.requantized(one.add("Sigmoid", x), 1 / 255, 0, "uint8"))


def own(op, **attrs):
    return lambda one, x: one.add(op, x, **attrs)


def elu_then_relu(one, x):
    return one.add("Relu", one.add("Elu", one.add("Abs", x), alpha=0.5))


FUNCTIONS = [silu, silu_of_pairs, elu_then_relu, own("Sigmoid"), own("Tanh"), own("HardSwish"),
             own("HardSigmoid"), own("Abs"), own("Erf"), own("LeakyRelu", alpha=-0.7)]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_one_table_exactly(qdq, dtype, function) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 1, 2, 10, 14), 0.05, 7, dtype)
    y = one.requantized(function(one, x), 0.03, 20, dtype)
    model = convert(one.model(y), "net")
    graph, real = optimize(model), optimize(model, standard_passes(integerize=False))
    assert ops(graph) == ["quantize", "qtable", "dequantize"] and graph.notes == ()
    found, wanted = (evaluate(made, {"x": sample()})[made.outputs[0]] for made in (graph, real))
    assert len(np.unique(found)) > 12
    np.testing.assert_array_equal(found, wanted)


def test_a_value_that_others_read_stays(qdq) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 1, 2, 10, 14), 0.05, 7, "uint8")
    gate = one.requantized(one.add("Sigmoid", x), 1 / 255, 0, "uint8")
    y = one.requantized(one.add("Mul", x, gate), 0.03, 20, "uint8")
    graph = optimize(convert(one.model(y, gate), "net"))
    assert ops(graph).count("qtable") == 2 and "mul" not in ops(graph)


@pytest.mark.filterwarnings("error")
def test_infinite_values_are_bounded_without_a_warning(qdq) -> None:
    """log(0) is the least number; exp of the greatest would leave float32."""
    one = qdq()
    x = one.requantized(one.input("x", 1, 2, 10, 14), 9.0, 0, "uint8")
    y = one.requantized(one.add("Log", x), 0.03, 20, "uint8")
    z = one.requantized(one.add("Exp", x), 0.03, 20, "uint8")
    graph = optimize(convert(one.model(y, z), "net"))
    tables = [graph.constants[node.inputs[1]] for node in graph.nodes if node.op == "qtable"]
    assert len(tables) == 2 and min(tables[0]) == -128 and max(tables[1]) == 127


@pytest.mark.parametrize(("build", "note"), [
    (lambda one, x: one.add("Mul", x, one.constant(np.full((10, 14), 1.5, np.float32)),
                            name="f"), "f (mul) stays in float: it computes with 140 constants"),
    (lambda one, x: one.add("Mul", x, one.constant(np.full((1,) * 5, 1.5, np.float32)), name="f"),
     "f (mul) stays in float: a constant gives it more dimensions than its input has"),
    (lambda one, x: one.add("Sqrt", x, name="f"),
     "f (sqrt) stays in float: f is no number for some values of its input")])
def test_what_is_no_table_says_why(qdq, build, note) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 1, 2, 10, 14), 0.05, 7, "uint8")
    graph = optimize(convert(one.model(one.requantized(build(one, x), 0.03, 20, "uint8")), "net"))
    assert "qtable" not in ops(graph) and graph.notes == (note,)
