"""Pads of zeros between quantizations, against ONNX Runtime: a window's own, or int8 pads."""

import numpy as np
import pytest

from compiler.frontend import convert
from compiler.graph import evaluate, optimize

PADS = [0, 0, 1, 2, 0, 0, 3, 0]


def padded(one, dtype: str, value: float | None = None, scale: float = 0.05) -> str:
    x = one.requantized(one.input("x", 2, 3, 6, 7), scale, 9, dtype)
    more = [] if value is None else [one.constant(np.float32(value))]
    return one.add("Pad", x, one.constant(np.array(PADS)), *more, name="pad")


def check(onnx_values, rng, one, y) -> list[str]:
    """The operators, after one comparison with ONNX Runtime within a step of 0.05."""
    model, feeds = one.model(y), {"x": rng.normal(size=(2, 3, 6, 7)).astype(np.float32)}
    graph = optimize(convert(model))
    found, wanted = evaluate(graph, feeds)[y], onnx_values(model, feeds)[y]
    assert len(np.unique(found)) > 20
    steps = np.abs(found - wanted) / 0.05
    assert steps.max() < 1.01 and (steps > 0.5).mean() < 0.01
    return [node.op for node in graph.nodes if graph.values[node.outputs[0]].dtype == "int8"]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("between", [False, True])
def test_in_a_convolution(qdq, onnx_values, rng, dtype: str, between: bool) -> None:
    """With and without a quantization of the padded image."""
    one = qdq()
    y = padded(one, dtype)
    y = one.requantized(y, 0.05, 9, dtype) if between else y
    y = one.requantized(one.add("Conv", y, one.weight(4, 3, 3, 3, scale=0.004), pads=[1, 0, 0, 1]),
                        0.05, 9, dtype)
    assert check(onnx_values, rng, one, y) == ["quantize", "qconv2d"]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("value", [None, 0.05 * 17, -0.05 * 8])
def test_alone(qdq, onnx_values, rng, dtype: str, value) -> None:
    one = qdq()
    y = one.requantized(padded(one, dtype, value), 0.05, 9, dtype)
    assert check(onnx_values, rng, one, y) == ["quantize", "pad"]


def test_another_value_than_the_window_pads_with_stays_a_pad(qdq, onnx_values, rng) -> None:
    one = qdq()
    y = one.add("Conv", padded(one, "int8", 0.5), one.weight(4, 3, 3, 3, scale=0.004))
    assert check(onnx_values, rng, one, one.requantized(y, 0.05, 9, "int8")) == [
        "quantize", "pad", "qconv2d"]


def test_a_pool_by_maximum_has_the_lowest_value(qdq, onnx_values, rng) -> None:
    for zero, ops in ((-128, ["quantize", "qmaxpool"]), (9, ["quantize", "pad", "qmaxpool"])):
        one = qdq()
        x = one.requantized(one.input("x", 2, 3, 6, 7), 0.05, zero, "int8")
        y = one.add("Pad", x, one.constant(np.array([0, 0, 1, 1, 0, 0, 1, 0])), name="pad")
        y = one.add("MaxPool", y, kernel_shape=[2, 2])
        assert check(onnx_values, rng, one, one.requantized(y, 0.05, zero, "int8")) == ops


@pytest.mark.parametrize("value", [1e9, 0.0251, np.inf])
def test_a_value_without_an_integer_stays_in_float(qdq, rng, value: float) -> None:
    one = qdq()
    y = one.requantized(padded(one, "uint8", value), 0.05, 9)
    graph = optimize(convert(one.model(y)))
    assert graph.values[graph.node("pad").outputs[0]].dtype == "float32"


def test_a_repeated_edge_is_no_pad_of_a_window(qdq, onnx_values, rng) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 2, 3, 6, 7), 0.05, 9, "int8")
    y = one.add("Pad", x, one.constant(np.array(PADS)), mode="edge", name="pad")
    y = one.add("Conv", one.requantized(y, 0.05, 9, "int8"), one.weight(4, 3, 3, 3, scale=0.004))
    assert check(onnx_values, rng, one, one.requantized(y, 0.05, 9, "int8")) == [
        "quantize", "pad", "qconv2d"]
