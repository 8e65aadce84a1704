"""Weights with zero points: integer products of their differences, against the float graph."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend import convert
from compiler.graph import evaluate, optimize
from compiler.graph.passes.pipeline import standard_passes
from tests.support.effort import tries

STEP = 0.15

PRODUCTS = {
    "conv": ("qconv2d", (5, 6, 3, 2), 0, lambda one, x, w: one.add(
        "Conv", x, w, name="product", strides=[2, 1], pads=[1, 0, 2, 1])),
    "groups": ("qconv2d", (6, 2, 3, 3), 0, lambda one, x, w: one.add(
        "Conv", x, w, name="product", group=3, dilations=[1, 2])),
    "depthwise": ("qconv2d", (6, 1, 3, 3), 0, lambda one, x, w: one.add(
        "Conv", x, w, name="product", group=6, pads=[1, 1, 1, 1])),
    "pixels": ("qaffine", (6, 1, 1, 1), 0, lambda one, x, w: one.add(
        "Conv", x, w, name="product", group=6)),
    "transposed": ("qconvtranspose2d", (6, 2, 2, 3), 1, lambda one, x, w: one.add(
        "ConvTranspose", x, w, name="product", group=3, strides=[2, 2])),
    "dense": ("qdense", (5, 180), 0, lambda one, x, w: one.add(
        "Gemm", one.add("Flatten", x), w, one.constant(np.ones(5, np.float32)), name="product",
        transB=1)),
    "matrix": ("qdense", (5, 4), 1, lambda one, x, w: one.add("MatMul", x, w, name="product")),
}
"""The integer operator, the weight's shape, the axis of its scales, and what multiplies."""


def weight(one, rng, dtype: str, shape: tuple[int, ...], axis: int, each: bool) -> str:
    """One whose zero points, of `each` channel or of all, take all values."""
    info, count = np.iinfo(dtype), shape[axis]
    values = rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)
    zeros = rng.integers(info.min, info.max, count if each else (), endpoint=True).astype(dtype)
    scales = rng.uniform(0.001, 0.004, zeros.shape).astype(np.float32)
    return one.add("DequantizeLinear", *map(one.constant, (values, scales, zeros)), axis=axis)


@settings(max_examples=tries(40))
@given(st.sampled_from(sorted(PRODUCTS)), st.sampled_from(("int8", "uint8")),
       st.sampled_from(("int8", "uint8")), st.booleans(), st.integers(0, 1 << 16))
def test_products(qdq, name: str, inputs: str, weights: str, each: bool, seed: int) -> None:
    one, rng = qdq(), np.random.default_rng(seed)
    made, shape, axis, product = PRODUCTS[name]
    x = one.requantized(one.input("x", 2, 6, 6, 5), 0.03, int(rng.integers(0, 90)), inputs)
    y = one.requantized(product(one, x, weight(one, rng, weights, shape, axis, each)), STEP, 20,
                        inputs)
    model, feeds = one.model(y), {"x": rng.normal(size=(2, 6, 6, 5)).astype(np.float32)}
    graph = optimize(convert(model))
    assert graph.node("product").op == made and not graph.notes
    wanted = evaluate(optimize(convert(model), standard_passes(integerize=False)), feeds)[y]
    assert np.abs(evaluate(graph, feeds)[y] - wanted).max() < 1.01 * STEP


def product_of(one, values: np.ndarray, zeros: np.ndarray):
    x = one.requantized(one.input("x", 1, 2, 4, 4))
    scales = one.constant(np.full(len(zeros), 0.01, np.float32))
    w = one.add("DequantizeLinear", one.constant(values), scales, one.constant(zeros), axis=0)
    return optimize(convert(one.model(one.requantized(one.add("Conv", x, w, name="product")))))


@pytest.mark.parametrize(("values", "zeros", "dtype"), [
    ([[-100, 20], [9, 120]], [-3, -7], "int8"), ([[-100, 20], [9, 121]], [-3, -7], "int16")])
def test_differences_are_int8_where_they_fit(qdq, values, zeros, dtype) -> None:
    graph = product_of(qdq(), np.array(values, np.int8).reshape(2, 2, 1, 1),
                       np.array(zeros, np.int8))
    made = graph.constants[graph.node("product").inputs[1]]
    assert made.dtype == dtype
    np.testing.assert_array_equal(made.reshape(2, 2), np.array(values) - np.array(zeros)[:, None])


def test_sums_are_bounded_by_differences(qdq) -> None:
    """Weights of 9 bits reach the accumulator's end with half as many terms as bytes do."""
    depth = 2**31 // (128 * 255)
    for less, integer in ((2, True), (-2, False)):
        one = qdq()
        x = one.requantized(one.input("x", 1, depth - less), 1.0, 0, "int8")
        values = np.full((1, depth - less), 127, np.int8)
        w = one.dequantize(one.constant(values), 1.0, -128, "int8")
        graph = optimize(convert(one.model(one.requantized(
            one.add("Gemm", x, w, name="product", transB=1), 1e6, 0, "int8"))))
        assert (graph.node("product").op == "qdense") == integer
        assert integer or any("its accumulator could reach" in note for note in graph.notes)


def test_differences_of_17_bits_stay_in_float(qdq) -> None:
    graph = product_of(qdq(), np.full((2, 2, 1, 1), 32767, np.int16), np.array([0, -5], np.int16))
    assert ("product (conv2d) stays in float: its weight 'dequantizelinear2.out' less its zero "
            "point must fit int16, not reach 32772") in graph.notes


@pytest.mark.parametrize(("out", "dtype"), [(0.5, "int8"), (0.25, "int16")])
def test_what_is_hardly_beyond_bytes_is_cut(qdq, rng, out: float, dtype: str) -> None:
    """By 1, of inputs up to 252 from their zero point: half a step of the result or less."""
    one = qdq()
    x = one.requantized(one.input("x", 1, 2, 9, 9))
    values = np.array([[[[127]], [[-9]]], [[[100]], [[3]]]], np.int8)
    w = one.dequantize(one.constant(values), 0.019, -1, "int8")
    model = one.model(y := one.requantized(one.add("Conv", x, w, name="product"), out))
    graph = optimize(convert(model))
    assert graph.constants[graph.node("product").inputs[1]].dtype == dtype
    feeds = {"x": rng.uniform(-1, 13, (1, 2, 9, 9)).astype(np.float32)}
    wanted = evaluate(optimize(convert(model), standard_passes(integerize=False)), feeds)[y]
    assert np.abs(evaluate(graph, feeds)[y] - wanted).max() < 1.01 * out
