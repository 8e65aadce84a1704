"""Float models as layers: what is folded leaves the float function as it is."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.frontend import convert
from compiler.graph import evaluate, optimize
from compiler.graph.graph import TensorType
from compiler.graph.rewrite import Builder
from compiler.quantize import QuantizeRefused, quantize
from compiler.quantize.networks.preparation import prepare
from tests.support.slow_cases import each_once


def images(rng, *shape) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def same(onnx_runtime, model, feeds) -> list[str]:
    """The prepared network computes what the model does; its operators."""
    network = prepare(convert(model))
    graph = network.float_graph()
    made = evaluate(graph, feeds)
    for value, wanted in zip(graph.outputs, onnx_runtime(model, feeds), strict=True):
        np.testing.assert_allclose(made[value], wanted, rtol=1e-4, atol=1e-5)
    return [node.op for layer in network.layers for node in layer.nodes()]


@pytest.mark.parametrize("group", [1, 2, 4])
def test_norm_behind_a_convolution(float_model, onnx_runtime, rng, group) -> None:
    one = float_model()
    x = one.conv(one.input("x", 2, 4, 5, 5), 4, 8, group=group)
    y = one.add("Relu", one.norm(x, 8))
    assert same(onnx_runtime, one.model(y), {"x": images(rng, 2, 4, 5, 5)}) == ["conv2d", "relu"]


@pytest.mark.parametrize("group", [1, 2])
def test_norm_behind_a_transposed_convolution(float_model, onnx_runtime, rng, group) -> None:
    one = float_model()
    x = one.add("ConvTranspose", one.input("x", 2, 4, 5, 5), one.random(4, 3, 2, 2),
                strides=[2, 2], group=group)
    model = one.model(one.norm(x, 3 * group))
    assert same(onnx_runtime, model, {"x": images(rng, 2, 4, 5, 5)}) == ["convtranspose2d"]


@pytest.mark.parametrize("transposed", [0, 1])
def test_affine_nodes_behind_a_product(float_model, onnx_runtime, rng, transposed) -> None:
    one = float_model()
    x = one.input("x", 3, 5)
    x = one.add("Gemm", x, one.random(*((7, 5) if transposed else (5, 7))), one.random(1, 7),
                alpha=0.5, beta=2.0, transB=transposed)
    for op, number in (("Mul", one.random(7)), ("Sub", one.random(1, 7)), ("Add", one.random(1)),
                       ("Div", one.constant(np.float32(3)))):
        x = one.add(op, x, number)
    assert same(onnx_runtime, one.model(x), {"x": images(rng, 3, 5)}) == ["dense"]


def test_a_sum_with_a_constant_makes_a_product_a_gemm(float_model, onnx_runtime, rng) -> None:
    one = float_model()
    x = one.add("MatMul", one.input("x", 3, 5), one.random(5, 7))
    model = one.model(one.add("Add", one.random(7), x))
    assert same(onnx_runtime, model, {"x": images(rng, 3, 5)}) == ["dense"]


@pytest.mark.parametrize("norm", [False, True])
def test_products_of_any_rank(float_model, onnx_runtime, rng, norm) -> None:
    """A bias stays an Add; what is per row is no bias."""
    one = float_model()
    x = one.add("MatMul", one.input("x", 2, 5, 5), one.random(5, 5))
    x = one.norm(x, 5) if norm else one.add("Add", one.random(5), x)
    network = prepare(convert(one.model(x)))
    assert len(network.layers) == (3 if norm else 1)
    found = same(onnx_runtime, one.model(x), {"x": images(rng, 2, 5, 5)})
    assert found == ["matmul", *(["mul"] if norm else []), "add"]


def test_a_norm_that_cannot_be_folded_is_a_depthwise_convolution(float_model, onnx_runtime, rng
                                                                 ) -> None:
    one = float_model()
    x = one.input("x", 2, 4, 5, 5)
    both = one.add("Concat", x, one.conv(x, 4, 3), axis=1)
    scaled = one.add("Add", one.add("Mul", one.norm(both, 7), one.random(7, 1, 1)),
                     one.random(7, 1, 1))
    model = one.model(one.conv(one.add("Relu", scaled), 7, 2), both)
    assert same(onnx_runtime, model, {"x": images(rng, 2, 4, 5, 5)}) == [
        "conv2d", "concat", "conv2d", "relu", "conv2d"]


def test_a_result_that_is_read_twice_is_not_folded(float_model, onnx_runtime, rng) -> None:
    one = float_model()
    x = one.conv(one.input("x", 1, 2, 4, 4), 2, 3)
    model = one.model(one.add("Add", one.norm(x, 3), one.add("Relu", x)))
    assert same(onnx_runtime, model, {"x": images(rng, 1, 2, 4, 4)}) == [
        "conv2d", "conv2d", "relu", "add"]


def test_weights_that_two_layers_share(float_model, onnx_runtime, rng) -> None:
    one = float_model()
    x, w = one.input("x", 1, 3, 4, 4), one.random(3, 3, 1, 1)
    y = one.norm(one.add("Conv", one.norm(one.add("Conv", x, w), 3), w), 3)
    assert same(onnx_runtime, one.model(y), {"x": images(rng, 1, 3, 4, 4)}) == ["conv2d", "conv2d"]


def test_constants_and_identities_vanish(float_model, onnx_runtime, rng) -> None:
    one = float_model()
    x = one.add("Identity", one.input("x", 1, 2, 4, 4))
    value = helper.make_tensor("v", TensorProto.FLOAT, [2], [0.5, 2.0])
    bias = one.add("Identity", one.add("Constant", value=value))
    x = one.add("Conv", x, one.random(2, 2, 1, 1), bias)
    x = one.add("Sum", one.add("Dropout", x), one.add("Relu", x))
    assert same(onnx_runtime, one.model(x), {"x": images(rng, 1, 2, 4, 4)}) == [
        "conv2d", "relu", "add"]


def test_older_opsets(float_model, onnx_runtime, rng) -> None:
    one = float_model(opset=9)
    x = one.add("Relu", one.norm(one.conv(one.input("x", 1, 2, 4, 4), 2, 3), 3))
    model = one.model(one.add("Dropout", x, ratio=0.5))
    assert same(onnx_runtime, model, {"x": images(rng, 1, 2, 4, 4)}) == ["conv2d", "relu"]
    model.ir_version = 3                # of a time when constants had to be inputs
    same(onnx_runtime, model, {"x": images(rng, 1, 2, 4, 4)})


def test_layers_know_all_their_names(float_model) -> None:
    one = float_model()
    x = one.norm(one.conv(one.input("x", 1, 2, 4, 4), 2, 3, name="a"), 3, name="b")
    graph = convert(one.model(one.add("Clip", x, one.constant(np.float32(0)), name="c")))
    layer, = prepare(graph).layers
    assert (layer.name, layer.names, layer.inner, layer.value) == (
        "a", ("a", "b.mul", "b", "c"), "a.out", "c.out")


def test_a_layer_has_the_name_of_the_node_that_it_was(float_model) -> None:
    """A batch norm that stands alone is two nodes of the graph."""
    one = float_model()
    layer, = prepare(convert(one.model(one.norm(one.input("x", 1, 3, 4, 4), 3, name="b")))).layers
    assert (layer.name, layer.names, layer.node.op) == ("b", ("b.mul", "b"), "conv2d")


def test_the_model_stays_as_it_is(float_model, tmp_path) -> None:
    one = float_model()
    model = one.model(one.norm(one.conv(one.input("x", 1, 2, 4, 4), 2, 3), 3))
    before = model.SerializeToString(deterministic=True)
    quantize(model, np.ones((2, 2, 4, 4), np.float32)).save(tmp_path / "int8.onnx")
    assert model.SerializeToString(deterministic=True) == before


def test_quantized_already_wrong(float_model) -> None:
    one = float_model()
    x = one.add("QuantizeLinear", one.input("x", 1, 2), one.constant(np.float32(1)), name="q")
    with pytest.raises(QuantizeRefused, match="^model: is quantized already: q is a QuantizeLinear;"
                                              " give the float model$"):
        quantize(one.model(x), np.zeros((1, 2), np.float32))


def test_dequantized_weights_are_weights_in_float(float_model) -> None:
    """Networks whose weights alone other tools have quantized are float to the quantizer."""
    one = float_model()
    weight = one.add("DequantizeLinear", one.constant(np.ones((3, 2, 1, 1), np.int8)),
                     one.constant(np.float32(0.5)), one.constant(np.int8(0)))
    model = one.model(one.add("Conv", one.input("x", 1, 2, 4, 4), weight, name="conv"))
    made = quantize(model, np.ones((2, 2, 4, 4), np.float32))
    assert [(layer.name, layer.quantized) for layer in made.layers] == [("conv", True)]


def test_a_graph_that_is_quantized_already_wrong() -> None:
    builder = Builder("net")
    x = builder.add_input("x", TensorType((1, 2), "float32"))
    graph = builder.finish([builder.emit("quantize", "q", [x], "y", scale=1.0, zp=0)])
    with pytest.raises(QuantizeRefused, match="^model: is quantized already: q is a quantize; give "
                                              "the float model$"):
        quantize(graph, np.zeros((1, 2), np.float32))


CONTRADICTIONS = {
    "bias of a layer that a norm follows": (
        lambda one, x: one.norm(one.add("Conv", x, one.random(4, 3, 1, 1), one.random(5),
                                        name="a"), 4),
        "a (Conv): input 'k1' must have shape (4,), not (5,)"),
    "norm of other channels": (
        lambda one, x: one.add("BatchNormalization", one.add("Relu", x),
                               *(one.constant(np.ones(8, np.float32)) for _ in range(4)), name="a"),
        "a (BatchNormalization): mul inputs must broadcast, not float32[2,3,4,4] and "
        "float32[1,8,1,1]"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_weights_that_do_not_fit_wrong(float_model, rng, case) -> None:
    make, message = CONTRADICTIONS[case]
    one = float_model()
    made = one.model(make(one, one.input("x", "n", 3, 4, 4)))
    with pytest.raises(QuantizeRefused) as refused:
        quantize(made, images(rng, 2, 3, 4, 4))
    assert str(refused.value) == (f"model: cannot import {message}; replace these in the model "
                                  "(docs/onnx.md says what is supported)")


def test_data_that_do_not_fit_their_shape_wrong(float_model, rng) -> None:
    one = float_model()
    made = one.model(one.conv(one.input("x", 1, 3, 4, 4), 3, 8))
    made.graph.initializer[1].dims[:] = [8, 2]
    with pytest.raises(QuantizeRefused) as refused:
        quantize(made, images(rng, 1, 3, 4, 4))
    assert str(refused.value) == (
        "model: cannot import initializer 'k1': its data do not fit its type and shape (ValueError:"
        " cannot reshape array of size 8 into shape (8,2)); replace these in the model "
        "(docs/onnx.md says what is supported)")


@each_once("told, place", [((1, 1, 4, 4), TensorProto.INT32), ((1, 3, 16), TensorProto.FLOAT),
                           ((1, 5, 4, 4), TensorProto.FLOAT), ((1, 1, 4, 4), TensorProto.FLOAT),
                           ((1, 3, 16), TensorProto.INT32), ((1, 5, 4, 4), TensorProto.INT32)],
           ["value_info", "output"], ids=str)
def test_what_a_model_tells_wrongly_of_a_value_is_of_no_account(float_model, rng, told, place
                                                                ) -> None:
    shape, code = told
    one, given = float_model(), images(rng, 2, 3, 4, 4)
    middle = one.add("MaxPool", one.conv(one.input("x", 1, 3, 4, 4), 3, 3), kernel_shape=[1, 1])
    product = one.add("Mul", middle, one.random(1))
    made = one.model(*([product, middle] if place == "output" else [product]))
    wanted = quantize(made, given).model
    if place == "output":
        made.graph.output.pop()
    getattr(made.graph, place).append(helper.make_tensor_value_info(middle, code, shape))
    assert quantize(made, given).model == wanted


@pytest.mark.parametrize("field", ["shape", "type"])
def test_an_output_of_which_a_model_tells_nothing(float_model, rng, field) -> None:
    """ONNX's shape inference stops at repeats that are no vector."""
    one = float_model()
    twice = one.constant(np.array([[1], [1], [2], [1]], np.int64))
    made = one.model(one.add("Tile", one.conv(one.input("x", 1, 3, 4, 4), 3, 3), twice))
    output = made.graph.output[0]
    (output if field == "type" else output.type.tensor_type).ClearField(field)
    model = quantize(made, images(rng, 2, 3, 4, 4)).model
    onnx.checker.check_model(model)
    assert len(model.graph.output[0].type.tensor_type.shape.dim) == 4


def test_a_sum_within_a_function_is_no_convolution(float_model, rng) -> None:
    """1 / (1 + exp(-x)): rounded to 8 bits the denominator could be 0. All is one function."""
    one = float_model()
    x = one.conv(one.input("x", 1, 3, 8, 8), 3, 4)
    power = one.add("Exp", one.add("Neg", x))
    gate = one.add("Reciprocal", one.add("Add", power, one.constant(np.float32(1)), name="sum"))
    y = one.add("Mul", x, gate, name="gated")
    samples = 5 * rng.standard_normal((4, 3, 8, 8), np.float32)
    made = quantize(one.model(y), samples)
    assert [(layer.op, layer.quantized, layer.reason) for layer in made.layers[1:]] == [
        ("function", False, "no quantized layer computes from its result")]
    made = quantize(one.model(one.conv(y, 4, 2)), samples)
    assert [(layer.name, layer.quantized) for layer in made.layers[1:2]] == [("gated", True)]
    assert made.decibels is not None and made.decibels > 30
    graph = optimize(made.graph)
    assert [node.op for node in graph.nodes[1:-1]] == ["qconv2d", "qtable", "qconv2d"]
