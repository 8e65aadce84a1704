"""Clip and Relu: alone, in a chain, and as part of the operator before them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend import convert
from compiler.graph import evaluate, optimize, standard_passes
from tests.support.effort import tries

BOTH = ["int8", "uint8"]


def clip(one, x: str, lo: float | None, hi: float | None) -> str:
    bounds = ["" if bound is None else one.constant(np.float32(bound)) for bound in (lo, hi)]
    return one.add("Clip", x, *bounds)


@pytest.mark.parametrize(("lo", "hi"), [(0, 6), (None, 1), (-0.5, None), (None, None), (1, -1)])
def test_float(qdq, onnx_values, rng, lo, hi) -> None:
    one = qdq()
    y = clip(one, one.input("x", 4, 30), lo, hi)
    model, feeds = one.model(y), {"x": (3 * rng.normal(size=(4, 30))).astype(np.float32)}
    graph = optimize(convert(model), standard_passes(integerize=False))
    np.testing.assert_array_equal(evaluate(graph, feeds)[y], onnx_values(model, feeds)[y])


def test_bounds_were_attributes_before_opset_11(qdq, onnx_values, rng) -> None:
    one = qdq(opset=10)
    y = one.add("Clip", one.input("x", 4, 30), min=-0.25, max=0.5)
    model, feeds = one.model(y), {"x": rng.normal(size=(4, 30)).astype(np.float32)}
    graph = optimize(convert(model), standard_passes(integerize=False))
    np.testing.assert_array_equal(evaluate(graph, feeds)[y], onnx_values(model, feeds)[y])


@settings(max_examples=tries(40))
@given(st.sampled_from(BOTH), st.integers(0, 1 << 16), st.booleans(), st.booleans())
def test_alone(qdq, layer_differences, dtype: str, seed: int, rescaled: bool, relu: bool) -> None:
    """Bounds anywhere, outside of what the scale can express too."""
    one = qdq(seed=seed)
    low = 0 if dtype == "uint8" else -128
    zero, other = (int(one.rng.integers(low, low + 256)) for _ in range(2))
    x = one.requantized(one.input("x", 40, 50), 0.0213, zero, dtype)
    y = clip(one, x, *(float(bound) for bound in one.rng.uniform(-4, 6, 2)))
    y = one.add("Relu", y) if relu else y
    scale, zero = (0.0307, other) if rescaled else (0.0213, zero)
    model = one.model(one.requantized(y, scale, zero, dtype))
    layers = layer_differences(model, {"x": (3 * one.rng.normal(size=(40, 50))).astype(np.float32)})
    for layer in layers:
        assert layer.largest <= (1 if rescaled else 0) and layer.equal >= 0.99, layer
    assert [layer.op for layer in layers][0] == "quantize"
    assert [layer.op for layer in layers][1:] in ([], ["qrescale"])


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("op", ["Conv", "Add", "GlobalAveragePool", "AveragePool"])
def test_fused(qdq, layer_differences, rng, dtype: str, op: str) -> None:
    """A relu6 costs nothing."""
    one = qdq()
    x = one.requantized(one.input("x", 20, 3, 6, 7), 0.0213, 100, dtype)
    inputs = {"Conv": [x, one.weight(4, 3, 3, 3)], "Add": [x, x]}.get(op, [x])
    attrs = {"kernel_shape": [3, 2]} if op == "AveragePool" else {}
    y = clip(one, one.add(op, *inputs, **attrs), 0, 0.6)
    model = one.model(one.requantized(y, 0.0107, 20, dtype))
    graph = optimize(convert(model))
    assert len(graph.nodes) == 3
    zp = 20 if dtype == "int8" else 20 - 128
    bounds = (graph.nodes[1].attrs["lo"], graph.nodes[1].attrs["hi"])
    assert bounds == (zp, zp + round(0.6 / 0.0107))
    feeds = {"x": (2 * rng.normal(size=(20, 3, 6, 7))).astype(np.float32)}
    for layer in layer_differences(model, feeds):
        assert layer.largest <= 1 and layer.equal >= 0.99, layer


def test_bounds_that_change_nothing_leave_no_operator(qdq) -> None:
    """uint8 with zero point 0 has no number below zero."""
    one = qdq()
    y = one.add("Relu", one.requantized(one.input("x", 2, 3), 0.05, 0), name="act")
    graph = optimize(convert(one.model(one.requantized(clip(one, y, -3.4e38, 300), 0.05, 0))))
    assert [node.op for node in graph.nodes] == ["quantize", "dequantize"]


def test_a_clip_between_floats_is_noted(qdq) -> None:
    one = qdq()
    bounds = (one.constant(np.float32(bound)) for bound in (-0.25, 0.5))
    y = one.add("Clip", one.input("x", 2, 3), *bounds, name="act")
    graph = optimize(convert(one.model(one.requantized(y))))
    assert graph.notes == ("act (clip) stays in float: a QuantizeLinear and a DequantizeLinear are "
                           "missing behind its input 'x'",)
