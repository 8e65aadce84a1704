"""Quantization above what moves or selects elements."""

import numpy as np
import pytest

from compiler.frontend import convert
from compiler.graph import evaluate, optimize, standard_passes
from compiler.graph.passes import RaiseQuantize

MOVES = {
    "reshape": lambda one, y: one.add("Reshape", y, one.constant(np.array([2, -1]))),
    "heads": lambda one, y: one.add("Transpose", one.add("Reshape", y, one.constant(
        np.array([2, 2, 2, -1]))), perm=[0, 2, 1, 3]),
    "slice": lambda one, y: one.add("Slice", y, *(one.constant(np.array([number]))
                                                  for number in (1, 4, 2))),
    "maxpool": lambda one, y: one.add("MaxPool", y, kernel_shape=[2, 2], pads=[1, 0, 0, 1]),
}


def model_of(one, moved, core: str = "Conv"):
    x = one.requantized(one.input("x", 2, 4, 6, 6), 0.03, 5)
    weight = (one.weight(6, 4, 3, 3),) if core == "Conv" else ()
    attrs = {"kernel_shape": [2, 2]} if core == "AveragePool" else {}
    y = one.add(core, x, *weight, **attrs)
    return one.model(one.requantized(MOVES[moved](one, one.add("Relu", y)), 0.02, 0))


@pytest.mark.parametrize("core", ["Conv", "Sigmoid", "AveragePool"])
@pytest.mark.parametrize("moved", MOVES)
def test_what_is_before_becomes_an_integer_operator(qdq, moved: str, core: str) -> None:
    one = qdq(seed=len(moved))
    model = model_of(one, moved, core)
    graph, plain = (optimize(convert(model), standard_passes(integerize=integerize))
                    for integerize in (True, False))
    assert graph.notes == ()
    feeds = {"x": one.rng.normal(size=(2, 4, 6, 6)).astype(np.float32)}
    found, wanted = (evaluate(made, feeds)[model.graph.output[0].name] for made in (graph, plain))
    assert np.abs(found - wanted).max() <= 1.01 * 0.02


@pytest.mark.parametrize("moved", MOVES)
def test_it_is_exact(qdq, moved: str) -> None:
    one = qdq(seed=3)
    model = model_of(one, moved)
    graph = convert(model)
    made = RaiseQuantize()(graph)
    assert made is not graph and RaiseQuantize()(made) is made
    feeds = {"x": one.rng.normal(size=(2, 4, 6, 6)).astype(np.float32)}
    name = model.graph.output[0].name
    np.testing.assert_array_equal(evaluate(made, feeds)[name], evaluate(graph, feeds)[name])


@pytest.mark.parametrize("case", ["an input", "quantized", "channels", "read twice", "an output",
                                  "floats"])
def test_it_stays_where_nothing_is_won_or_others_read(qdq, case: str) -> None:
    one = qdq(seed=4)
    x = one.input("x", 2, 4, 6, 6)
    y = x if case == "an input" else one.requantized(x)
    y = y if case in ("an input", "quantized") else one.add("Relu", y)
    y = one.add("Concat", y, y, axis=1) if case == "floats" else y
    z = one.add("Transpose", y, perm=[0, 2, 3, 1])
    outputs = [z] if case == "an output" else []
    if case == "read twice":
        outputs.append(one.add("Abs", z))
    if case == "channels":
        outputs.append(one.add("QuantizeLinear", z, one.constant(np.full(4, 0.1, np.float32)),
                               one.constant(np.zeros(4, np.int8)), axis=3))
        model = one.model(*outputs, dtypes={outputs[-1]: "int8"})
    else:
        model = one.model(one.requantized(z), *outputs)
    graph = convert(model)
    assert RaiseQuantize()(graph) is graph
