"""Leaky relu: float and integer, against ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend import convert
from compiler.graph import evaluate, optimize, standard_passes
from tests.support.effort import tries


@pytest.mark.parametrize("attrs", [{}, {"alpha": 0.3}, {"alpha": -2.0}])
def test_float(qdq, onnx_values, rng, attrs: dict) -> None:
    one = qdq()
    y = one.add("LeakyRelu", one.input("x", 4, 30), **attrs)
    feeds = {"x": rng.normal(size=(4, 30)).astype(np.float32)}
    graph = optimize(convert(one.model(y)), standard_passes(integerize=False))
    np.testing.assert_array_equal(evaluate(graph, feeds)[y], onnx_values(one.model(y), feeds)[y])


@settings(max_examples=tries(30))
@given(st.sampled_from(("int8", "uint8")), st.sampled_from((0.0, 0.01, 0.0937, 0.7123, 1.0)),
       st.booleans(), st.integers(0, 1 << 16))
def test_integers(qdq, layer_differences, dtype: str, alpha: float, clip: bool, seed: int) -> None:
    one = qdq(seed=seed)
    low = 0 if dtype == "uint8" else -128
    zeros = [int(one.rng.integers(low, low + 256)) for _ in range(2)]
    x = one.requantized(one.input("x", 40, 50), 0.0213, zeros[0], dtype)
    y = one.add("LeakyRelu", x, alpha=alpha)
    bounds = [one.constant(np.float32(bound)) for bound in (-0.1, 1)]
    y = one.add("Clip", y, *bounds) if clip else y
    model = one.model(one.requantized(y, 0.0307, zeros[1], dtype))
    feeds = {"x": (2 * one.rng.normal(size=(40, 50))).astype(np.float32)}
    _, leaky = layer_differences(model, feeds)
    assert leaky.op == ("qleakyrelu" if alpha < 1 else "qrescale")
    assert leaky.largest <= 1 and leaky.equal >= 0.99, leaky


@pytest.mark.parametrize("alpha", [1.5, -0.25])
def test_another_slope_is_a_table(qdq, onnx_values, rng, alpha: float) -> None:
    """The integer operator takes slopes from 0 to 1."""
    one = qdq()
    x = one.requantized(one.input("x", 4, 30))
    y = one.requantized(one.add("LeakyRelu", x, alpha=alpha, name="leaky"))
    graph = optimize(convert(one.model(y)))
    assert [node.op for node in graph.nodes] == ["quantize", "qtable", "dequantize"]
    feeds = {"x": rng.normal(size=(4, 30)).astype(np.float32)}
    np.testing.assert_allclose(evaluate(graph, feeds)[y], onnx_values(one.model(y), feeds)[y],
                               atol=1e-6)


def test_between_a_convolution_and_its_quantization_it_stays_in_float(qdq) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 1, 2, 4, 4))
    y = one.add("LeakyRelu", one.add("Conv", x, one.weight(3, 2, 1, 1), name="conv"), name="leaky")
    graph = optimize(convert(one.model(one.requantized(y))))
    assert graph.notes == (
        "conv (conv2d) stays in float: it does not stand between a DequantizeLinear and a "
        "QuantizeLinear",
        "leaky (leakyrelu) stays in float: its input 'conv.out' is not quantized")
