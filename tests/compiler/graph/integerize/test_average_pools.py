"""Average pools with windows: float and integer, against ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend import convert
from compiler.graph import evaluate, optimize, standard_passes
from tests.support.effort import tries


@st.composite
def windows(draw: st.DrawFn) -> dict:
    kernel = [draw(st.integers(1, 4)) for _ in range(2)]
    return {"kernel_shape": kernel, "strides": [draw(st.integers(1, 3)) for _ in range(2)],
            "pads": [draw(st.integers(0, kernel[side % 2] - 1)) for side in range(4)],
            "count_include_pad": draw(st.integers(0, 1))}


def size(window: dict) -> tuple[int, int]:
    return window["kernel_shape"][0] + 3, window["kernel_shape"][1] + 2


@settings(max_examples=tries(25))
@given(windows())
def test_float(qdq, onnx_values, window: dict) -> None:
    one = qdq()
    y = one.add("AveragePool", one.input("x", 2, 3, *size(window)), **window)
    model = one.model(y)
    feeds = {"x": one.rng.normal(size=(2, 3, *size(window))).astype(np.float32)}
    graph = optimize(convert(model), standard_passes(integerize=False))
    np.testing.assert_allclose(evaluate(graph, feeds)[y], onnx_values(model, feeds)[y],
                               rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("place", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_automatic_pads(qdq, onnx_values, rng, include: int, place: str) -> None:
    one = qdq()
    y = one.add("AveragePool", one.input("x", 1, 2, 7, 6), kernel_shape=[3, 4], strides=[2, 1],
                auto_pad=place, count_include_pad=include)
    feeds = {"x": rng.normal(size=(1, 2, 7, 6)).astype(np.float32)}
    graph = optimize(convert(one.model(y)), standard_passes(integerize=False))
    np.testing.assert_allclose(evaluate(graph, feeds)[y], onnx_values(one.model(y), feeds)[y],
                               rtol=1e-5, atol=1e-6)


# Scales are no small fractions of each other, so that ties are rare: see test_integerize.py.
@settings(max_examples=tries(40))
@given(windows(), st.sampled_from(("int8", "uint8")), st.booleans(), st.integers(0, 1 << 16))
def test_integers(qdq, layer_differences, window: dict, dtype: str, relu: bool, seed: int) -> None:
    one = qdq(seed=seed)
    low = 0 if dtype == "uint8" else -128
    zeros = [int(one.rng.integers(low, low + 256)) for _ in range(2)]
    x = one.requantized(one.input("x", 40, 3, *size(window)), 0.0213, zeros[0], dtype)
    y = one.add("AveragePool", x, **window)
    y = one.add("Relu", y) if relu else y
    model = one.model(one.requantized(y, 0.0107, zeros[1], dtype))
    feeds = {"x": (2 * one.rng.normal(size=(40, 3, *size(window)))).astype(np.float32)}
    first, pool = layer_differences(model, feeds)
    assert (first.op, pool.op) == ("quantize", "qavgpool")
    assert pool.largest <= 1 and pool.equal >= 0.99, pool


@pytest.mark.parametrize(("attrs", "shape"), [
    ({"count_include_pad": 1}, (1, 1)), ({"count_include_pad": 0}, (4, 3)),
    ({"count_include_pad": 0, "pads": [0, 0, 0, 0]}, (1, 1))])
def test_one_multiplier_where_every_window_counts_as_many(qdq, attrs: dict, shape) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 1, 2, 4, 3))
    y = one.add("AveragePool", x, name="pool",
                **{"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], **attrs})
    graph = optimize(convert(one.model(one.requantized(y, 0.04))))
    assert graph.notes == ()
    assert graph.constants["pool:mult"].shape == graph.constants["pool:shift"].shape == shape


def test_a_mean_beyond_the_multipliers_stays_in_float(qdq) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 1, 2, 4, 4))
    y = one.add("AveragePool", x, kernel_shape=[2, 2], name="pool")
    graph = optimize(convert(one.model(one.requantized(y, 1e-8))))
    assert graph.notes == ("pool (avgpool) stays in float: requantization scale must be 0 or "
                           "between 2**-31 and 65535, not 1250000.0262232905",)
