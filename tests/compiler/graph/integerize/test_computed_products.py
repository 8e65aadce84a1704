"""Products of matrices become integer, whatever the zero points: against ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend import convert
from compiler.graph import evaluate, optimize
from tests.support.effort import tries

SHAPES = {
    "matrices": ((60, 17), (17, 9)),
    "batch": ((3, 2, 20, 17), (3, 2, 17, 9)),
    "broadcast": ((3, 1, 20, 17), (2, 17, 9)),
}


def product(one, shapes, zeros, dtype="int8", op="MatMul", out=0.3, **attrs) -> str:
    a, b = (one.requantized(one.input(name, *shape), scale, zero, dtype)
            for name, shape, scale, zero in zip("ab", shapes, (0.0213, 0.0307), zeros, strict=True))
    return one.requantized(one.add(op, a, b, name="product", **attrs), out, 9, dtype)


@settings(max_examples=tries(20))
@given(st.sampled_from(sorted(SHAPES)), st.sampled_from(("int8", "uint8")),
       st.tuples(*[st.sampled_from((0, 3, -20))] * 2), st.integers(0, 1 << 16))
def test_products(qdq, layer_differences, shapes: str, dtype: str, zeros, seed: int) -> None:
    one = qdq(seed=seed)
    middle = 0 if dtype == "int8" else 128
    model = one.model(product(one, SHAPES[shapes], [middle + zero for zero in zeros], dtype))
    feeds = {name: (2 * one.rng.normal(size=shape)).astype(np.float32)
             for name, shape in zip("ab", SHAPES[shapes], strict=True)}
    *_, made = layer_differences(model, feeds)
    assert made.op == "qmatmul"
    assert made.largest <= 1 and made.equal >= 0.99, made


@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(qdq, layer_differences, rng, transposed: int) -> None:
    one = qdq()
    shapes = ((60, 17), (9, 17) if transposed else (17, 9))
    model = one.model(product(one, shapes, (0, 0), op="Gemm", transB=transposed))
    feeds = {name: (2 * rng.normal(size=shape)).astype(np.float32)
             for name, shape in zip("ab", shapes, strict=True)}
    *_, made = layer_differences(model, feeds)
    assert made.op == "qmatmul"
    assert made.largest <= 1 and made.equal >= 0.99, made


def test_a_range_from_zero(qdq, layer_differences, rng) -> None:
    """As what Softmax gives: a zero point at the end of the range."""
    one = qdq()
    model = one.model(product(one, SHAPES["batch"], (0, 131), "uint8"))
    feeds = {name: np.abs(rng.normal(size=shape)).astype(np.float32)
             for name, shape in zip("ab", SHAPES["batch"], strict=True)}
    *_, made = layer_differences(model, feeds)
    assert (made.op, made.largest <= 1, made.equal >= 0.99) == ("qmatmul", True, True), made


def dense(one, rank: int, bias=None, **attrs):
    x = one.requantized(one.input("x", *(2, 3, 5)[3 - rank:], 17), 0.02, 130)
    y = one.add("MatMul", x, one.weight(17, 9, axis=1), name="dense")
    if bias is not None:
        y = one.add("Add", *((bias, y) if attrs.get("first") else (y, bias)), name="biased")
    return one.requantized(y, 0.2, 120)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("form", ["none", "float", "quantized", "first"])
def test_constant_weights_with_leading_dimensions(qdq, layer_differences, rng, rank: int,
                                                  form: str) -> None:
    """One integer operator, of the bias behind the product too."""
    one = qdq()
    values = rng.normal(size=9).astype(np.float32)
    bias = {"none": lambda: None, "float": lambda: one.constant(values),
            "first": lambda: one.constant(values[None]),
            "quantized": lambda: one.bias(rng.integers(-900, 900, 9), 1e-4)}[form]()
    model = one.model(dense(one, rank, bias, first=form == "first"))
    feeds = {"x": rng.normal(size=(*(2, 3, 5)[3 - rank:], 17)).astype(np.float32)}
    *_, made = layer_differences(model, feeds)
    assert made.op == "qdense"
    assert made.largest <= 1 and made.equal >= 0.99, made


def biased(one):
    a, b = (one.requantized(one.input(name, 4, 4), 0.05, 0, "int8") for name in "ab")
    return one.requantized(one.add("Gemm", a, b, one.constant(np.ones(4, np.float32)),
                                   name="product"))


def constant_added(one):
    a, b = (one.requantized(one.input(name, 4, 4), 0.05, 0, "int8") for name in "ab")
    y = one.add("MatMul", a, b, name="product")
    return one.requantized(one.add("Add", y, one.constant(np.ones(4, np.float32)), name="sum"))


def bias_by_row(one):
    y = one.add("MatMul", one.requantized(one.input("a", 4, 4), 0.05, 0, "int8"),
                one.weight(4, 4, axis=1), name="product")
    return one.requantized(one.add("Add", y, one.constant(np.ones((4, 1), np.float32)),
                                   name="sum"))


def constant_first(one):
    k = one.dequantize(one.constant(np.ones((2, 4), np.int8)), 0.05, 0, "int8")
    b = one.requantized(one.input("b", 4, 4), 0.05, 0, "int8")
    return one.requantized(one.add("MatMul", k, b, name="product"))


@pytest.mark.parametrize(("build", "op", "reason"), [
    (biased, "dense", "both of its inputs are computed: it must have no bias"),
    (constant_first, "matmul", "its input 'dequantizelinear0.out' is a constant")])
def test_stays_in_float_with_a_note(qdq, onnx_values, rng, build, op: str, reason: str) -> None:
    one = qdq()
    y = build(one)
    graph = optimize(convert(one.model(y)))
    assert graph.notes == (f"product ({op}) stays in float: {reason}",)
    feeds = {name: rng.normal(size=graph.values[name].shape).astype(np.float32)
             for name in graph.inputs}
    np.testing.assert_allclose(evaluate(graph, feeds)[y], onnx_values(one.model(y), feeds)[y],
                               rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("build", "reason"), [
    (constant_added, "it adds a constant to a product of two computed tensors"),
    (bias_by_row, "its bias 'k7' must have one element for each channel, not shape (4, 1)")])
def test_additions_that_are_no_bias(qdq, build, reason: str) -> None:
    one = qdq()
    graph = optimize(convert(one.model(build(one))))
    assert f"sum (add) stays in float: {reason}" in graph.notes
