"""Factors and terms of channels around products with quantized weights: in scales and biases."""

import numpy as np
import onnx
import pytest

from accel.mapping.target import AccelTarget
from compiler.frontend import convert
from compiler.graph import Graph, evaluate, optimize, standard_passes
from compiler.graph.division.partition import ACCEL, partition, subgraph
from compiler.graph.passes import FoldConstants, FoldScales
from tests.support.integer_graphs import assert_right
from tests.support.machines import SHORT, TINY

STEP = 0.06


def vector(one, *shape: int, low: float = 0.3, high: float = 2.0, signs=(-1, 1)) -> str:
    return one.constant((one.rng.uniform(low, high, shape) * one.rng.choice(signs, shape)
                         ).astype(np.float32))


def factors_of(*numbers: float) -> np.ndarray:
    """One for each channel of an image."""
    return np.array(numbers, np.float32).reshape(-1, 1, 1)


def norm(one, x: str, signs=(-1, 1), name: str | None = None) -> str:
    """A batch norm of 6 channels."""
    return one.add("BatchNormalization", x, vector(one, 6, signs=signs), vector(one, 6),
                   vector(one, 6), vector(one, 6, signs=(1,)), name=name)


def product(one, x: str, form: str = "conv", bias: bool = True) -> str:
    """A product called `product` with 6 channels, of x [2,4,5,5] or, of matrices, [2,5,4]."""
    made = [one.bias(one.rng.integers(-2000, 2000, 6), np.full(6, 0.0005))] if bias else []
    match form:
        case "conv":
            return one.add("Conv", x, one.weight(6, 4, 3, 3), *made, name="product")
        case "group":
            return one.add("Conv", x, one.weight(6, 2, 3, 3), *made, name="product", group=2)
        case "transposed":
            return one.add("ConvTranspose", x, one.weight(4, 6, 2, 2, axis=1), *made,
                           name="product", strides=[2, 2])
        case "dense":
            return one.add("Gemm", one.add("Reshape", x, one.constant(np.array([-1, 4]))),
                           one.weight(6, 4), *made, name="product", transB=1)
        case "sum":
            y = one.add("MatMul", x, one.weight(4, 6, axis=1))
            return one.add("Add", *made, y, name="product")
    return one.add("MatMul", x, one.weight(4, 6, axis=1), name="product")


FORMS = ("conv", "group", "transposed", "dense", "sum", "matmul")
MATRICES = ("dense", "sum", "matmul")


def model_of(one, form: str, follows, bias: bool = True, before=None) -> onnx.ModelProto:
    shape = (2, 5, 4) if form in MATRICES else (2, 4, 5, 5)
    x = one.requantized(one.input("x", *shape), 0.03, 5)
    y = follows(one, product(one, before(one, x) if before else x, form, bias))
    return one.model(one.requantized(y, STEP, 120))


def assert_integers(one, model: onnx.ModelProto, onnx_values) -> Graph:
    """One product of integers and nothing in float is left, within a step of both judges."""
    graph = optimize(convert(model))
    assert graph.notes == ()
    ops = [node.op for node in graph.nodes
           if node.op not in ("reshape", "transpose", "to_uint8", "to_int8")]
    assert ops[0] == "quantize" and ops[-1] == "dequantize" and len(ops) == 3, ops
    plain = optimize(convert(model), standard_passes(integerize=False))
    feeds = {"x": one.rng.normal(size=graph.values["x"].shape).astype(np.float32)}
    name = model.graph.output[0].name
    found = evaluate(graph, feeds)[name]
    assert found.std() > STEP                           # the result says something
    for wanted in (evaluate(plain, feeds)[name], onnx_values(model, feeds)[name]):
        assert np.abs(found - wanted).max() <= 1.01 * STEP
    return graph


def channels(form: str) -> tuple[int, ...]:
    return (6,) if form in MATRICES else (6, 1, 1)


@pytest.mark.parametrize(("form", "bias"), [(form, bias) for form in FORMS for bias in (
    True, False) if bias or form != "sum"])
def test_factors_and_terms_go_into_scales_and_bias(qdq, onnx_values, form: str, bias: bool) -> None:
    one = qdq(seed=len(form) + bias)
    own = channels(form)

    def follows(one, y: str) -> str:
        y = one.add("Div", y, vector(one, *own))
        y = one.add("Sub", one.add("Mul", vector(one, 1, *own), y), vector(one, *own))
        return one.add("Relu", one.add("Mul", y, one.constant(np.float32(0.7))))

    graph = assert_integers(one, model_of(one, form, follows, bias), onnx_values)
    assert graph.nodes[-2].name.startswith(("product", "add", "matmul", "sub")), graph.nodes[-2]


def test_a_number_behind_what_moves_elements(qdq, onnx_values) -> None:
    """As attention scales its heads."""
    one = qdq(seed=9)

    def follows(one, y: str) -> str:
        y = one.add("Reshape", y, one.constant(np.array([2, 5, 2, 3])))
        return one.add("Mul", one.add("Transpose", y, perm=[0, 2, 1, 3]), one.constant(
            np.array([[-0.7]], np.float32)))

    graph = assert_integers(one, model_of(one, "sum", follows), onnx_values)
    assert [node.op for node in graph.nodes][1:-1] == ["qdense", "reshape", "transpose"]


BEHIND = {
    "norm": lambda one, y: norm(one, y),
    "qat": lambda one, y: one.add("Relu", norm(one, one.add("Div", y, vector(one, 1, 6, 1, 1)))),
    "norm, relu": lambda one, y: one.add("Relu", norm(one, y)),
    "norm, clip": lambda one, y: one.add("Clip", norm(one, y), one.constant(np.float32(0)),
                                         one.constant(np.float32(6))),
    "norm, leaky": lambda one, y: one.add("LeakyRelu", norm(one, y), alpha=0.1),
    "relu, factor": lambda one, y: one.add("Mul", one.add("Relu", norm(one, y)), vector(
        one, 6, 1, 1, signs=(1,))),
    "leaky, factor": lambda one, y: one.add("Div", one.add("LeakyRelu", y, alpha=0.2), vector(
        one, 6, 1, 1, signs=(1,))),
    "zeros": lambda one, y: one.add("Add", one.add("Mul", y, one.constant(
        factors_of(1, 0, -1, 0.5, 0, 2))), vector(one, 6, 1, 1)),
    "quantized": lambda one, y: one.add("Mul", y, one.dequantize(one.constant(
        one.rng.integers(1, 256, (6, 1, 1)).astype(np.uint8)), 0.01, 0)),
}


@pytest.mark.parametrize("name", BEHIND)
def test_norms_and_functions_behind_a_convolution(qdq, onnx_values, name: str) -> None:
    one = qdq(seed=len(name))
    graph = assert_integers(one, model_of(one, "conv", BEHIND[name]), onnx_values)
    assert graph.nodes[-2].op == "qconv2d"


@pytest.mark.parametrize("factor", [0.25, -1.5])
@pytest.mark.parametrize("op", ["Mul", "Div"])
def test_a_number_before_a_product(qdq, onnx_values, factor: float, op: str) -> None:
    one = qdq(seed=2)
    assert_integers(one, model_of(one, "conv", lambda one, y: y, before=lambda one, x: one.add(
        op, x, one.constant(np.float32(factor)))), onnx_values)


def test_the_accelerator_computes_them(qdq) -> None:
    one = qdq(seed=4)
    graph = optimize(convert(model_of(one, "conv", BEHIND["qat"])))
    for machine in (TINY, SHORT):
        parts = partition(graph, lambda node, own=machine: AccelTarget(own).refusal(graph, node))
        segment, = (one for one in parts.segments if one.target == ACCEL)
        part = subgraph(graph, segment)
        given = {value: one.rng.integers(-128, 128, graph.values[value].shape).astype(np.int8)
                 for value in part.inputs}
        assert_right(machine, part, given)


LEFT = {
    "read twice": lambda one, y: one.add("Add", y, one.add("Mul", y, vector(one, 6, 1, 1))),
    "for each pixel": lambda one, y: one.add("Mul", y, vector(one, 6, 3, 3)),
    "relu, sign": lambda one, y: one.add("Mul", one.add("Relu", y), vector(one, 6, 1, 1)),
    "relu, term": lambda one, y: one.add("Add", one.add("Relu", y), vector(one, 6, 1, 1)),
    "some channels": lambda one, y: one.add("Mul", one.add("Slice", y, *(
        one.constant(np.array([number])) for number in (0, 6, 1, 2))), vector(one, 3, 1, 1)),
    "constant less": lambda one, y: one.add("Sub", vector(one, 6, 1, 1), y),
    "divided by it": lambda one, y: one.add("Div", vector(one, 6, 1, 1), y),
    "by zero": lambda one, y: one.add("Div", y, one.constant(factors_of(1, 2, 0, 1, 1, 1))),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_scales_cannot_say_stays(qdq, name: str) -> None:
    one = qdq(seed=5)
    graph = FoldConstants(dequantize=False)(convert(model_of(one, "conv", LEFT[name])))
    assert FoldScales(quantized=True)(graph) is graph
    assert any(note.startswith("product (conv2d) stays in float: a QuantizeLinear is missing "
                               "between it and ") for note in optimize(graph).notes)


def test_factors_that_differ_from_group_to_group_have_no_scales_in_a_transposed_convolution(
        qdq) -> None:
    """ONNX has a scale for each output of a group, the same ones in every group."""
    one = qdq(seed=6)
    x = one.requantized(one.input("x", 1, 4, 3, 3))
    y = one.add("ConvTranspose", x, one.weight(4, 3, 2, 2, axis=1), group=2)
    y = one.add("Mul", y, vector(one, 6, 1, 1))
    graph = FoldConstants(dequantize=False)(convert(one.model(one.requantized(y))))
    assert FoldScales(quantized=True)(graph) is graph


def test_a_factor_of_each_input_stays_before_its_product(qdq) -> None:
    one = qdq(seed=7)
    model = model_of(one, "matmul", lambda one, y: y,
                     before=lambda one, x: one.add("Mul", x, vector(one, 4), name="smooth"))
    graph = optimize(convert(model))
    assert [node.op for node in graph.nodes].count("matmul") == 1
    assert graph.notes[0] == (
        "product (matmul) stays in float: its input 'smooth.out' is not quantized: smooth (mul) "
        "stands behind the DequantizeLinear")


def test_a_product_that_is_an_output_keeps_its_numbers(qdq) -> None:
    one = qdq(seed=8)
    y = product(one, one.requantized(one.input("x", 2, 4, 5, 5)))
    model = one.model(one.requantized(norm(one, y)), y)
    graph = FoldConstants(dequantize=False)(convert(model))
    assert FoldScales(quantized=True)(graph) is graph
