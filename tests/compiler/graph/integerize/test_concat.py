"""Concatenation: float and integer, against ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend import convert
from compiler.graph import evaluate, optimize, standard_passes
from tests.support.effort import tries


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_float(qdq, onnx_values, rng, axis: int) -> None:
    one = qdq()
    shapes = {"a": [2, 3, 4], "b": [2, 3, 4]}
    shapes["b"][axis] = 5
    y = one.add("Concat", *(one.input(name, *shape) for name, shape in shapes.items()), axis=axis)
    model = one.model(y)
    feeds = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    graph = optimize(convert(model), standard_passes(integerize=False))
    np.testing.assert_array_equal(evaluate(graph, feeds)[y], onnx_values(model, feeds)[y])


@settings(max_examples=tries(30))
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.sampled_from(("int8", "uint8")),
       st.booleans(), st.booleans(), st.integers(0, 1 << 16))
def test_integers(qdq, layer_differences, channels, dtype: str, image: bool, relu: bool,
                  seed: int) -> None:
    """Every input with a scale and a zero point of its own."""
    one = qdq(seed=seed)
    low, more = 0 if dtype == "uint8" else -128, (3, 4) if image else ()
    names = [f"x{which}" for which in range(len(channels))]
    parts = [one.requantized(one.input(name, 40, c, *more), one.rng.uniform(0.01, 0.05),
                             int(one.rng.integers(low, low + 256)), dtype)
             for name, c in zip(names, channels, strict=True)]
    y = one.add("Concat", *parts, axis=1)
    y = one.add("Relu", y) if relu else y
    model = one.model(one.requantized(y, 0.0307, int(one.rng.integers(low, low + 256)), dtype))
    feeds = {name: (2 * one.rng.normal(size=(40, c, *more))).astype(np.float32)
             for name, c in zip(names, channels, strict=True)}
    *_, joined = layer_differences(model, feeds)
    assert joined.op == ("qconcat" if len(channels) > 1 else "qrescale")
    assert joined.largest <= 1 and joined.equal >= 0.99, joined


def test_equal_scales_change_nothing(qdq, onnx_values, rng) -> None:
    one = qdq()
    parts = [one.requantized(one.input(name, 2, c, 3, 3), 0.05, 7) for name, c in
             (("a", 3), ("b", 2))]
    y = one.requantized(one.add("Concat", *parts, axis=1), 0.05, 7)
    feeds = {name: (4 * rng.normal(size=(2, c, 3, 3))).astype(np.float32)
             for name, c in (("a", 3), ("b", 2))}
    model = one.model(y)
    np.testing.assert_array_equal(evaluate(optimize(convert(model)), feeds)[y],
                                  onnx_values(model, feeds)[y])


@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 4, 5), 0), ((2, 3, 4, 5), 2), ((4, 5, 6), 1),
                                              ((4, 5, 6), 2), ((7, 3), 0)])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_along_any_axis(qdq, onnx_values, rng, shape, axis: int, dtype: str) -> None:
    """A computed input, and a constant with a scale of its own."""
    one = qdq()
    k = one.dequantize(one.constant(rng.integers(0, 100, shape).astype(dtype)), 0.02, 9, dtype)
    x = one.requantized(one.input("x", *shape), 0.05, 7, dtype)
    y = one.requantized(one.add("Concat", k, x, axis=axis, name="cat"), 0.05, 7, dtype)
    model, feeds = one.model(y), {"x": (4 * rng.normal(size=shape)).astype(np.float32)}
    graph = optimize(convert(model))
    assert graph.notes == () and graph.node("cat").op == "qconcat"
    found, wanted = evaluate(graph, feeds)[y], onnx_values(model, feeds)[y]
    steps = np.abs(found - wanted) / 0.05
    assert len(np.unique(found)) > 20 and steps.max() < 1.01 and (steps > 0.5).mean() < 0.01


def test_a_constant_in_float_stays_in_float_with_a_note(qdq, onnx_values, rng) -> None:
    one = qdq()
    y = one.requantized(one.add("Concat", one.requantized(one.input("a", 1, 3)),
                                one.constant(np.ones((1, 2), np.float32)), axis=1, name="cat"))
    model = one.model(y)
    graph = optimize(convert(model))
    assert graph.notes == ("cat (concat) stays in float: its constant 'k4' is not quantized",)
    feeds = {name: rng.normal(size=graph.values[name].shape).astype(np.float32)
             for name in graph.inputs}
    np.testing.assert_allclose(evaluate(graph, feeds)[y], onnx_values(model, feeds)[y], atol=1e-6)


@pytest.mark.parametrize("scales", [(0.05, 0.05), (0.05, 0.03)])
def test_nothing_is_quantized_between_it_and_a_product(qdq, rng, scales) -> None:
    """Parts of one scale have it together, as if a quantization with it stood there."""
    nets = []
    for explicit in (False, True):
        one = qdq(seed=3)
        parts = [one.requantized(one.input(name, 1, c, 5, 5), scale, 7, "int8")
                 for name, c, scale in zip("ab", (3, 2), scales, strict=True)]
        y = one.add("Concat", *parts, axis=1)
        y = one.requantized(y, scales[0], 7, "int8") if explicit else y
        y = one.add("Relu", one.add("Conv", y, one.weight(4, 5, 3, 3), pads=[1, 1, 1, 1]))
        nets.append(optimize(convert(one.model(one.requantized(y, 0.06, -128, "int8")))))
    feeds = {name: (3 * rng.normal(size=(1, c, 5, 5))).astype(np.float32)
             for name, c in (("a", 3), ("b", 2))}
    ops = [node.op for node in nets[0].nodes]
    if scales[0] != scales[1]:
        assert "qconv2d" not in ops
        return
    assert ops.count("qconcat") == ops.count("qconv2d") == 1 and "concat" not in ops
    (found,), (wanted,) = (evaluate(net, feeds).values() for net in nets)
    np.testing.assert_array_equal(found, wanted)
