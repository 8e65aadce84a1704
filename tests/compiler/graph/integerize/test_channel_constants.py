"""Products and sums with constants of channels between quantizations, against ONNX Runtime."""

import numpy as np
import pytest

from accel.mapping.target import AccelTarget
from compiler.frontend import convert
from compiler.graph import optimize
from compiler.graph.division.partition import ACCEL, partition, subgraph
from tests.support.effort import Effort
from tests.support.integer_graphs import assert_right
from tests.support.machines import MACHINES


def vector(one, shape, low: float = 0.1, high: float = 2.0) -> str:
    return one.constant((one.rng.uniform(low, high, shape) * one.rng.choice([-1, 1], shape)
                         ).astype(np.float32))


FUNCTIONS = {
    "add": lambda one, x, shape: one.add("Add", x, vector(one, shape), name="f"),
    "sub": lambda one, x, shape: one.add("Sub", vector(one, shape), x, name="f"),
    "mul": lambda one, x, shape: one.add("Mul", x, vector(one, shape), name="f"),
    "div": lambda one, x, shape: one.add("Div", x, vector(one, shape), name="f"),
    "norm": lambda one, x, shape: one.add("Add", one.add("Mul", x, vector(one, shape)),
                                          vector(one, shape), name="f"),
    "relu": lambda one, x, shape: one.add("Relu", one.add("Mul", x, vector(one, shape), name="f")),
    "number": lambda one, x, shape: one.add("Mul", one.add("Sub", x, one.constant(
        np.float32(0.3))), vector(one, shape), name="f"),
    "quantized": lambda one, x, shape: one.add("Mul", x, one.dequantize(one.constant(
        one.rng.integers(0, 256, shape).astype(np.uint8)), 0.01, 7), name="f"),
    "some zeros": lambda one, x, shape: one.add("Add", one.add("Mul", x, one.constant(
        one.rng.choice([0, 1, -0.5], shape).astype(np.float32))), vector(one, shape), name="f"),
}
SHAPES = [((2, 5, 6, 7), (5, 1, 1), 1), ((2, 5, 6, 7), (1, 5, 1, 1), 1), ((2, 7, 20), (20,), 2),
          ((3, 20), (1, 20), 1)]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name, shape, constant, axis", [
    (name, *case) for name in FUNCTIONS for case in SHAPES])
def test_they_are_a_factor_and_an_offset(qdq, layer_differences, name: str, shape, constant,
                                         axis: int) -> None:
    one = qdq(seed=len(name))
    x = one.requantized(one.requantized(one.input("x", *shape), 0.03, 5), 0.031, 9)
    model = one.model(one.requantized(FUNCTIONS[name](one, x, constant), 0.045, 100))
    feeds = {"x": (2 * one.rng.normal(size=shape)).astype(np.float32)}
    *_, layer = layer_differences(model, feeds)
    assert (layer.name, layer.op) == ("f", "qaffine") and layer.largest <= 1, layer
    graph = optimize(convert(model))
    assert graph.notes == () and graph.nodes[-2].attrs["axis"] == axis
    for machine in [*MACHINES.values()][::4 if Effort.quick else 1]:
        parts = partition(graph, lambda node, own=machine: AccelTarget(own).refusal(graph, node))
        segment, = (one for one in parts.segments if one.target == ACCEL)
        part = subgraph(graph, segment)
        given = {value: one.rng.integers(-128, 128, graph.values[value].shape).astype(np.int8)
                 for value in part.inputs}
        assert_right(machine, part, given)


@pytest.mark.parametrize(("build", "reason"), [
    (lambda one, x: one.add("PRelu", x, vector(one, (5, 1, 1)), name="f"),
     "f (where) stays in float: it computes with 5 constants"),
    (lambda one, x: one.add("Mul", x, vector(one, (6, 7)), name="f"),
     "f (mul) stays in float: it computes with 42 constants"),
    (lambda one, x: one.add("Mul", one.add("Mul", x, vector(one, (5, 1, 1))), vector(one, (7,)),
                            name="f"), "f (mul) stays in float: it computes with 7 constants"),
    (lambda one, x: one.add("Sub", one.add("Mul", x, one.constant(np.full((5, 1, 1), 1e-3,
                                                                          np.float32))),
                            vector(one, (5, 1, 1), 1000, 1001), name="f"),
     "f (sub) stays in float: its accumulator could reach"),
    (lambda one, x: one.add("Exp", one.add("Mul", x, vector(one, (5, 1, 1), 100, 200)), name="f"),
     "f (exp) stays in float: it computes with 5 constants"),
])
def test_what_is_no_line_of_a_channel_stays_in_float(qdq, build, reason: str) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 1, 5, 6, 7))
    graph = optimize(convert(one.model(one.requantized(build(one, x)))))
    assert any(note.startswith(reason) for note in graph.notes), graph.notes


def test_a_number_is_a_table(qdq) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 1, 5, 6, 7))
    y = one.add("Mul", x, one.constant(np.full((1, 1, 1, 1), 0.3, np.float32)))
    graph = optimize(convert(one.model(one.requantized(y))))
    assert [node.op for node in graph.nodes] == ["quantize", "qtable", "dequantize"]
