"""Gathers at constant places as slices."""

import numpy as np
import pytest

from compiler.frontend import convert
from compiler.graph import evaluate, optimize, standard_passes

PLACES = [(0, 1), (-1, 1), ([4, 5, 6], 1), ([[0, 2], [4, 6]], 2), ([6], 2), ([-4, -2], 1), (2, 0)]


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize(("places", "axis"), PLACES)
def test_slices(qdq, onnx_values, rng, places, axis: int, integers: bool) -> None:
    one = qdq()
    x = one.input("x", 3, 9, 8)
    y = one.add("Gather", one.requantized(x) if integers else x,
                one.constant(np.array(places, np.int64)), axis=axis)
    y = one.requantized(y) if integers else y
    model, feeds = one.model(y), {"x": rng.normal(size=(3, 9, 8)).astype(np.float32)}
    graph = optimize(convert(model), standard_passes(integers))
    made = {node.op for node in graph.nodes}
    assert "slice" in made and "gather" not in made and graph.notes == ()
    np.testing.assert_array_equal(evaluate(graph, feeds)[y], onnx_values(model, feeds)[y])


@pytest.mark.parametrize("places", [[1, 0], [0, 1, 3], [2, 2]])
def test_other_places_stay_gathers(qdq, onnx_values, rng, places) -> None:
    one = qdq()
    y = one.add("Gather", one.input("x", 3, 9, 8), one.constant(np.array(places, np.int64)), axis=1)
    model, feeds = one.model(y), {"x": rng.normal(size=(3, 9, 8)).astype(np.float32)}
    graph = optimize(convert(model))
    assert [node.op for node in graph.nodes] == ["gather"]
    np.testing.assert_array_equal(evaluate(graph, feeds)[y], onnx_values(model, feeds)[y])
