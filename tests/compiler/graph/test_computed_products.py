"""Products of two computed tensors: integer where both zero points are 0, against ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend import convert
from compiler.graph import evaluate, optimize

SHAPES = {
    "matrices": ((60, 17), (17, 9)),
    "batch": ((3, 2, 20, 17), (3, 2, 17, 9)),
    "broadcast": ((3, 1, 20, 17), (2, 17, 9)),
}


def product(one, shapes, zeros, dtype="int8", op="MatMul", out=0.3, **attrs) -> str:
    a, b = (one.requantized(one.input(name, *shape), scale, zero, dtype)
            for name, shape, scale, zero in zip("ab", shapes, (0.0213, 0.0307), zeros, strict=True))
    return one.requantized(one.add(op, a, b, name="product", **attrs), out, 9, dtype)


@settings(max_examples=20)
@given(st.sampled_from(sorted(SHAPES)), st.sampled_from(("int8", "uint8")),
       st.integers(0, 1 << 16))
def test_products(qdq, layer_differences, shapes: str, dtype: str, seed: int) -> None:
    one = qdq(seed=seed)
    zero = 0 if dtype == "int8" else 128
    model = one.model(product(one, SHAPES[shapes], (zero, zero), dtype))
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


def offset(one):
    return product(one, SHAPES["matrices"], (0, 3))


def biased(one):
    a, b = (one.requantized(one.input(name, 4, 4), 0.05, 0, "int8") for name in "ab")
    return one.requantized(one.add("Gemm", a, b, one.constant(np.ones(4, np.float32)),
                                   name="product"))


def constant_first(one):
    k = one.dequantize(one.constant(np.ones((2, 4), np.int8)), 0.05, 0, "int8")
    b = one.requantized(one.input("b", 4, 4), 0.05, 0, "int8")
    return one.requantized(one.add("MatMul", k, b, name="product"))


@pytest.mark.parametrize(("build", "op", "reason"), [
    (offset, "matmul", "both of its inputs are computed: their zero points must be 0 in int8, not "
     "0 and 3"),
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
