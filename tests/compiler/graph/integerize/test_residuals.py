"""A quantized tensor that meets the sums of a product before they are requantized."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.mapping.target import AccelTarget
from compiler.frontend import convert
from compiler.graph import evaluate, optimize
from compiler.graph.division.partition import ACCEL, partition, subgraph
from compiler.graph.passes.pipeline import standard_passes
from tests.support.effort import tries
from tests.support.integer_graphs import assert_right
from tests.support.machines import TINY

PRODUCTS = {
    "conv": ("qconv2d_add", (2, 6, 7, 6), (6, 6, 3, 3), 0, lambda one, x, w, bias: one.add(
        "Conv", x, w, bias, name="product", pads=[1] * 4)),
    "groups": ("qconv2d_add", (2, 6, 7, 6), (6, 2, 1, 3), 0, lambda one, x, w, bias: one.add(
        "Conv", x, w, bias, name="product", pads=[0, 1, 0, 1], group=3)),
    "dense": ("qdense_add", (3, 6), (6, 6), 0, lambda one, x, w, bias: one.add(
        "Gemm", x, w, bias, name="product", transB=1)),
    "rows": ("qdense_add", (2, 5, 6), (6, 6), 1, lambda one, x, w, bias: one.add(
        "Add", one.add("MatMul", x, w, name="product"), bias)),
}
"""The integer operator, the shapes of input and weight, the axis of its scales, and the product."""


def network(one, name: str, dtype: str, weights: str, out: float = 0.11, relu: bool = True,
            first: bool = False, share: float = 1.0, op: str = "Add"):
    """A product, to which its own input is added, or from which it is taken. Returns the result and
    the input's shape."""
    _, shape, kernel, axis, product = PRODUCTS[name]
    zeros = [int(zero) for zero in one.rng.integers(0, 90, 2)]
    x = one.requantized(one.input("x", *shape), 0.03, zeros[0], dtype)
    values = one.rng.integers(0, 120, kernel).astype(weights)
    scales = one.rng.uniform(0.001, 0.003, 6).astype(np.float32) * share
    zero = (one.rng.integers(0, 120, 6) * (weights == "uint8")).astype(weights)
    w = one.add("DequantizeLinear", *map(one.constant, (values, scales, zero)), axis=axis)
    bias = one.rng.normal(size=6) * (share == 1)
    y = product(one, x, w, one.constant(bias.astype(np.float32)))
    y = one.add(op, *((y, x) if first else (x, y)), name="sum")
    y = one.add("Relu", y, name="act") if relu else y
    return one.requantized(y, out, zeros[1], dtype), shape


def differences(model, y: str, shape, rng):
    """The integer graph, and by how much it differs from the float one."""
    feeds = {"x": rng.normal(size=shape).astype(np.float32)}
    graph = optimize(convert(model))
    wanted = evaluate(optimize(convert(model), standard_passes(integerize=False)), feeds)[y]
    return graph, np.abs(evaluate(graph, feeds)[y] - wanted).max()


@settings(max_examples=tries(30))
@given(st.sampled_from(sorted(PRODUCTS)), st.sampled_from(("int8", "uint8")),
       st.sampled_from(("int8", "uint8")), st.booleans(), st.booleans(),
       st.sampled_from(("Add", "Sub")), st.integers(0, 1 << 16))
def test_residuals(qdq, name: str, dtype: str, weights: str, relu: bool, first: bool, op: str,
                   seed: int) -> None:
    """Sub with the residual first has the product with weights of the other sign."""
    one = qdq(seed=seed)
    y, shape = network(one, name, dtype, weights, relu=relu, first=first, op=op)
    graph, off = differences(one.model(y), y, shape, one.rng)
    assert [node.op for node in graph.nodes if node.op.endswith("_add")] == [PRODUCTS[name][0]]
    assert not graph.notes and off < 1.01 * 0.11


def test_channels_of_tiny_weights(qdq, rng) -> None:
    """Dead channels have scales of next to nothing: their weights become coarser."""
    one = qdq()
    y, shape = network(one, "conv", "int8", "int8", share=1e-6)
    graph, off = differences(one.model(y), y, shape, rng)
    node = graph.node("product")
    assert node.op == "qconv2d_add" and off < 1.01 * 0.11
    assert not graph.constants[node.inputs[2]].any()
    assert set(graph.constants[node.inputs[6]]) == {32767}


def test_steps_of_the_sums_that_are_too_coarse(qdq, rng) -> None:
    one = qdq()
    y, shape = network(one, "conv", "int8", "int8", out=0.001, share=100)
    graph, off = differences(one.model(y), y, shape, rng)
    assert any(note.startswith("product (conv2d) stays in float: its residual")
               and note.endswith("steps of the result off") for note in graph.notes)
    assert off < 1.01 * 0.001


@pytest.mark.parametrize(("name", "share"), [("conv", 1.0), ("conv", 8.0), ("dense", 3.0),
                                             ("rows", 1.0)])
def test_factors_are_finer_than_the_sums(qdq, name: str, share: float) -> None:
    """A residual of 128 steps is hardly off: results differ where the float one is almost halfway
    between two. A factor in steps of the sums would be up to 0.3 steps off."""
    one = qdq(seed=len(name))
    y, shape = network(one, name, "int8", "int8", relu=False, share=share)
    model = one.model(y)
    feeds = {"x": 2 * one.rng.normal(size=shape).astype(np.float32)}
    graph = optimize(convert(model))
    plain = optimize(convert(model), standard_passes(integerize=False))
    quantize = plain.nodes[-2]
    real, *parameters = (evaluate(plain, feeds, (value,))[value] for value in quantize.inputs)
    found = evaluate(graph, feeds)[y]
    least, most = (end - int(parameters[1]) for end in (-128, 127))
    exact = np.clip(real / parameters[0], least, most) * parameters[0]
    (product,) = (node for node in graph.nodes if node.op == PRODUCTS[name][0])
    assert product.attrs["fine"] > 0 and not graph.notes
    assert np.abs(found - exact).max() < (0.5 + 1 / 32) * 0.11
    parts = partition(graph, lambda node: AccelTarget(TINY).refusal(graph, node))
    segment, = (each for each in parts.segments if each.target == ACCEL)
    part = subgraph(graph, segment)
    given = {value: one.rng.integers(-128, 128, graph.values[value].shape).astype(np.int8)
             for value in part.inputs}
    assert_right(TINY, part, given)


def test_two_products_stay_in_float(qdq) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 1, 4, 5, 5))
    products = [one.add("Conv", x, one.weight(4, 4, 1, 1), name=name) for name in ("a", "b")]
    y = one.requantized(one.add("Add", *products, name="sum"))
    assert ("sum (add) stays in float: it adds the sums of two products, which have no common "
            "scale") in optimize(convert(one.model(y))).notes


REPEATED = {
    "pixels": ("Conv", (2, 4, 5, 6), (2, 4, 1, 1), "upsample"),
    "rows of pixels": ("Conv", (2, 4, 5, 6), (2, 4, 5, 1), "upsample"),
    "images": ("Conv", (2, 4, 5, 6), (1, 4, 5, 6), "expand"),
    "channels": ("Conv", (2, 4, 5, 6), (4, 1, 1), "expand"),
    "rows": ("MatMul", (2, 3, 4), (2, 1, 4), "expand"),
}


@pytest.mark.parametrize("name", REPEATED)
def test_a_residual_may_be_repeated(qdq, name: str) -> None:
    op, shape, own, repeats = REPEATED[name]
    one = qdq(seed=7)
    x = one.requantized(one.input("x", *shape), 0.03, 100)
    r = one.requantized(one.input("r", *own), 0.05, 131)
    w = one.weight(4, 4, 1, 1) if op == "Conv" else one.weight(4, 4, axis=1)
    y = one.requantized(one.add("Add", one.add(op, x, w, name="product"), r, name="sum"), 0.06, 120)
    model = one.model(y)
    graph, plain = (optimize(convert(model), standard_passes(integerize=integerize))
                    for integerize in (True, False))
    assert repeats in [node.op for node in graph.nodes] and not graph.notes
    assert [node.op for node in graph.nodes if node.op.endswith("_add")]
    feeds = {"x": one.rng.normal(size=shape).astype(np.float32),
             "r": (2 * one.rng.normal(size=own)).astype(np.float32)}
    found, wanted = (evaluate(each, feeds)[y] for each in (graph, plain))
    assert wanted.std() > 0.5 and np.abs(found - wanted).max() <= 1.01 * 0.06
    if repeats == "upsample":
        parts = partition(graph, lambda node: AccelTarget(TINY).refusal(graph, node))
        segment, = (each for each in parts.segments if each.target == ACCEL)
        part = subgraph(graph, segment)
        given = {value: one.rng.integers(-128, 128, graph.values[value].shape).astype(np.int8)
                 for value in part.inputs}
        assert_right(TINY, part, given)


def test_sums_that_are_repeated_stay_in_float(qdq) -> None:
    one = qdq()
    x = one.requantized(one.input("x", 1, 4, 1, 1))
    r = one.requantized(one.input("r", 1, 4, 5, 5))
    y = one.add("Add", one.add("Conv", x, one.weight(4, 4, 1, 1), name="product"), r, name="sum")
    notes = optimize(convert(one.model(one.requantized(y)))).notes
    assert any(note.startswith("product (conv2d) stays in float: ") and note.endswith(
        ", which its sums meet, has more elements than these") for note in notes)


def test_a_batch_of_constant_matrices_stays_in_float(qdq) -> None:
    one = qdq(seed=1)
    x, r = (one.requantized(one.input(name, *shape), 0.03, 0, "int8")
            for name, shape in (("x", (3, 1, 5)), ("r", (3, 1, 1))))
    w = one.add("DequantizeLinear", one.constant(np.ones((3, 5, 1), np.int8)),
                one.constant(np.float32(0.1)), one.constant(np.int8(0)))
    sums = one.add("Add", one.add("MatMul", x, w), one.constant(np.ones((1, 1, 1), np.float32)))
    y = one.requantized(one.add("Relu", one.add("Add", r, sums)), 0.05, 0, "int8")
    graph = optimize(convert(one.model(y)))
    assert "qdense_add" not in [node.op for node in graph.nodes]


def test_the_least_weight_has_no_other_sign_in_int8(qdq) -> None:
    """A residual less a product with it has weights of 9 bits."""
    one = qdq(seed=1)
    x = one.requantized(one.input("x", 3, 4), 0.03, 0, "int8")
    w = one.add("DequantizeLinear", one.constant(np.full((4, 4), -128, np.int8)),
                one.constant(np.float32(0.002)), one.constant(np.int8(0)))
    y = one.requantized(one.add("Sub", x, one.add("MatMul", x, w)), 0.05, 0, "int8")
    graph, off = differences(one.model(y), y, (3, 4), one.rng)
    (node,) = [node for node in graph.nodes if node.op == "qdense_add"]
    assert graph.constants[node.inputs[2]].dtype == np.int16 and off < 1.01 * 0.05
