"""Leaky relu: float and integer, against ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lockstep
from compiler.frontend import convert
from compiler.graph import evaluate, optimize, standard_passes, verify
from compiler.graph.lowering import SplitProducts
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


PRODUCTS = {
    "convolution": lambda one, x: one.add("Conv", x, one.weight(6, 4, 3, 2), name="product"),
    "depthwise": lambda one, x: one.add("Conv", x, one.weight(8, 1, 3, 3), name="product", group=4),
    "transposed": lambda one, x: one.add("ConvTranspose", x, one.weight(4, 5, 2, 3, axis=1),
                                         name="product", strides=[2, 1]),
    "dense": lambda one, x: one.add("MatMul", one.add("Flatten", x),
                                    one.weight(4 * 56, 9, axis=1), name="product"),
}


@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.37, 1.0])
@pytest.mark.parametrize("name", PRODUCTS)
def test_behind_a_product_it_is_a_second_multiplier(qdq, layer_differences, name: str, alpha: float
                                                    ) -> None:
    """No quantization stands between; a clip before it and one after it are bounds."""
    for bounds in ((), (-1.0, 2.5), (-0.2, 1.0, "after")):
        one = qdq(seed=len(bounds))
        x = one.requantized(one.input("x", 2, 4, 8, 7), 0.03, 7)
        y = PRODUCTS[name](one, x)
        clip = [one.constant(np.float32(bound)) for bound in bounds[:2]]
        y = one.add("Clip", y, *clip) if len(bounds) == 2 else y
        y = one.add("LeakyRelu", y, alpha=alpha)
        y = one.add("Clip", y, *clip) if len(bounds) == 3 else y
        model = one.model(one.requantized(y, 0.02, 90))
        *_, product = layer_differences(model, {"x": one.rng.normal(size=(2, 4, 8, 7)).astype(
            np.float32)})
        assert product.name == "product" and product.op.startswith("q")
        assert product.largest <= 1 and product.equal >= 0.99, product


def slopes(one, *shape: int) -> str:
    return one.constant(one.rng.choice([0, 0.01, 0.3, 1], shape).astype(np.float32))


@pytest.mark.parametrize("write", [
    lambda one, x: one.add("PRelu", x, slopes(one, 6, 1, 1)),
    lambda one, x: one.add("PRelu", x, one.constant(np.full((1, 1, 1), 0.2, np.float32))),
    lambda one, x: one.add("Max", x, one.add("Mul", x, slopes(one, 1, 6, 1, 1))),
    lambda one, x: one.add("Sub", one.add("Relu", x), one.add("Mul", one.add("Relu", one.add(
        "Neg", x)), one.constant(np.float32(0.25))))])
def test_a_slope_is_known_by_values(qdq, layer_differences, write) -> None:
    """A slope may differ from channel to channel, and be written in any way."""
    one = qdq(seed=3)
    x = one.requantized(one.input("x", 2, 4, 8, 7), 0.03, 7)
    y = write(one, PRODUCTS["convolution"](one, x))
    *_, product = layer_differences(one.model(one.requantized(y, 0.02, 90)), {
        "x": one.rng.normal(size=(2, 4, 8, 7)).astype(np.float32)})
    assert (product.name, product.op) == ("product", "qconv2d")
    assert product.largest <= 1 and product.equal >= 0.99, product


@pytest.mark.parametrize("write", [
    lambda one, x: one.add("PRelu", x, one.constant(np.full((6, 1, 1), 1.5, np.float32))),
    lambda one, x: one.add("PRelu", x, slopes(one, 7, 6)), lambda one, x: one.add("Abs", x),
    lambda one, x: one.add("Cos", x)])
def test_what_has_no_slope_needs_its_input_quantized(qdq, write) -> None:
    one = qdq(seed=3)
    x = one.requantized(one.input("x", 1, 4, 9, 7), 0.03, 7)
    graph = optimize(convert(one.model(one.requantized(write(one, PRODUCTS["convolution"](
        one, x))))))
    assert any(note.startswith("product (conv2d) stays in float: a QuantizeLinear is missing")
               for note in graph.notes), graph.notes


def test_a_quantized_tensor_beside_a_product_in_float_is_no_slope(qdq) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 1, 6, 4, 4))
    y = one.add("Max", x, one.add("Conv", x, one.weight(6, 6, 1, 1), name="conv"), name="max")
    graph = optimize(convert(one.model(one.requantized(y))))
    assert graph.notes[0] == (
        "conv (conv2d) stays in float: a QuantizeLinear is missing between it and max (maximum)")


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.77])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
def test_behind_arithmetic_it_is_a_maximum(qdq, layer_differences, op: str, alpha: float) -> None:
    one = qdq(seed=2)
    x, y = (one.requantized(one.input(name, 2, 30), scale, zero)
            for name, scale, zero in (("x", 0.03, 5), ("y", 0.0217, 125)))
    y = one.add("LeakyRelu", one.add(op, x, y), alpha=alpha, name="leaky")
    feeds = {name: (2 * one.rng.normal(size=(2, 30))).astype(np.float32) for name in "xy"}
    *_, leaky = layer_differences(one.model(one.requantized(y, 0.045, 40)), feeds)
    assert (leaky.name, leaky.op) == ("leaky", "qmap") and leaky.largest <= 1


def test_a_slope_that_is_no_part_of_x_is_a_table_behind_the_product(qdq) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 1, 2, 4, 4))
    y = one.add("Conv", x, one.weight(3, 2, 1, 1), name="conv")
    y = one.add("LeakyRelu", y, name="leaky", alpha=1.5)
    graph = optimize(convert(one.model(one.requantized(y))))
    assert [node.op for node in graph.nodes] == [
        "quantize", "qconv2d", "qtable", "dequantize"]


@pytest.mark.parametrize("name", PRODUCTS)
def test_processors_compute_both_products(qdq, name: str) -> None:
    one = qdq(seed=5)
    x = one.requantized(one.input("x", 2, 4, 8, 7), 0.03, 7)
    y = one.add("LeakyRelu", PRODUCTS[name](one, x), alpha=0.2)
    graph = optimize(convert(one.model(one.requantized(y, 0.02, 90))))
    apart = verify(SplitProducts()(graph))
    product, = (node.op for node in graph.nodes if node.name == "product")
    assert [node.op for node in apart.nodes].count(product) == 2
    assert all(len(node.inputs) <= 5 for node in apart.nodes)
    feeds = {"x": one.rng.normal(size=(2, 4, 8, 7)).astype(np.float32)}
    wanted = evaluate(graph, feeds)
    for value, array in evaluate(apart, feeds).items():
        np.testing.assert_array_equal(array, wanted[value])
    module = lockstep.compile(graph, "cpu")
    module.set_input("x", feeds["x"])
    module.run()
    for value, array in wanted.items():
        np.testing.assert_array_equal(module.get_output(value), array)
    assert SplitProducts()(apart) is apart
