"""Gradients of whole small networks, against central differences; and what the CPU makes of them.
"""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lockstep
from compiler.frontend import convert
from compiler.gradients import cross_entropy, grad, mean_squared_error
from compiler.graph import Builder, Graph, TensorType, evaluate
from tests.support.central_differences import directional, in_float64, slope

Shapes = dict[str, tuple[int, ...]]


def imported(nodes: list, shapes: Shapes, result: str) -> Graph:
    """The network of these nodes of ONNX, whose parameters are inputs as well."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, extents)
             for name, extents in shapes.items()]
    end = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
    return convert(helper.make_model(helper.make_graph(nodes, "net", infos, [end]), ir_version=10,
                                     opset_imports=[helper.make_opsetid("", 20)]), "net")


def node(op: str, inputs: str, output: str, **attrs) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], output, **attrs)


def cnn() -> Graph:
    """Strides, dilations, groups, batch norm as in inference, several activations, both pools."""
    shapes = {"x": (2, 3, 9, 8), "w1": (6, 3, 3, 3), "b1": (6,), "scale": (6,), "bias": (6,),
              "mean": (6,), "variance": (6,), "w2": (6, 2, 3, 2), "slope": (6, 1, 1),
              "w3": (6, 4, 2, 2), "w4": (5, 4), "b4": (5,)}
    return cross_entropy(imported([
        node("Conv", "x w1 b1", "c1", strides=[2, 1], pads=[1, 0, 2, 1]),
        node("BatchNormalization", "c1 scale bias mean variance", "n"),
        node("HardSwish", "n", "h"),
        node("MaxPool", "h", "m", kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 1, 0]),
        node("Conv", "m w2", "c2", group=3, dilations=[1, 2], pads=[1, 1, 1, 1]),
        node("PRelu", "c2 slope", "p"),
        node("AveragePool", "p", "a", kernel_shape=[2, 2], pads=[0, 0, 1, 1]),
        node("ConvTranspose", "a w3", "t", strides=[2, 2]),
        node("Elu", "t", "e"), node("GlobalAveragePool", "e", "g"),
        node("Flatten", "g", "f"), node("Gemm", "f w4 b4", "logits", transB=1)],
        shapes, "logits"), "logits")


def transformer() -> Graph:
    """Attention of two heads, and a layer of gelu: each behind a norm, beside a residual."""
    shapes = {"x": (2, 3, 4), "q": (4, 4), "k": (4, 4), "v": (4, 4), "o": (4, 4), "g1": (4,),
              "b1": (4,), "g2": (4,), "up": (4, 8), "down": (8, 4), "bias": (8,)}
    heads = [node("MatMul", f"n {name}", f"{name}1") for name in "qkv"] + [
        onnx.helper.make_node("Constant", [], ["heads"], value=helper.make_tensor(
            "heads", TensorProto.INT64, [4], [2, 3, 2, 2])),
        onnx.helper.make_node("Constant", [], ["rows"], value=helper.make_tensor(
            "rows", TensorProto.INT64, [3], [2, 3, 4]))] + [
        node("Reshape", f"{name}1 heads", f"{name}2") for name in "qkv"] + [
        node("Transpose", f"{name}2", f"{name}3", perm=perm)
        for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3]))]
    return mean_squared_error(imported([
        node("LayerNormalization", "x g1 b1", "n"), *heads, node("MatMul", "q3 k3", "scores"),
        node("Softmax", "scores", "p"), node("MatMul", "p v3", "a"),
        node("Transpose", "a", "a1", perm=[0, 2, 1, 3]), node("Reshape", "a1 rows", "a2"),
        node("MatMul", "a2 o", "a3"), node("Add", "x a3", "r"),
        node("LayerNormalization", "r g2", "n2"),
        node("MatMul", "n2 up", "u"), node("Add", "u bias", "u1"), node("Gelu", "u1", "h"),
        node("MatMul", "h down", "d"), node("Add", "r d", "y")], shapes, "y"), "y")


def lstm() -> Graph:
    shapes = {"x": (4, 2, 3), "w": (1, 20, 3), "r": (1, 20, 5), "b": (1, 40)}
    return mean_squared_error(imported([
        helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], "lstm", hidden_size=5)],
        shapes, "y"), "y")


def draws(graph: Graph, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random inputs; one label is no class, variances are above 0."""
    made = {}
    for name in graph.inputs:
        type_ = graph.values[name]
        values = (np.array([3, -1])[:type_.shape[0]] if type_.dtype == "int64" else
                  rng.standard_normal(type_.shape) * 0.7)
        made[name] = (np.abs(values) + 0.5 if name == "variance" else values).astype(type_.dtype)
    return made


@pytest.mark.parametrize("network", [cnn, transformer, lstm])
def test_gradients_of_a_network(network: Callable[[], Graph], rng: np.random.Generator) -> None:
    """By each parameter alone."""
    graph = network()
    inputs = draws(graph, rng)
    names = [name for name in graph.inputs if graph.values[name].dtype == "float32"]
    made = grad(graph, "loss", names)
    found = dict(zip(names, list(in_float64(made, inputs).values())[1:], strict=True))
    for name in names:
        direction = {name: rng.standard_normal(inputs[name].shape)}
        assert directional(found, direction) == pytest.approx(
            slope(graph, "loss", inputs, direction), rel=1e-6, abs=1e-8), name


@pytest.mark.one_in(2)
@pytest.mark.parametrize("network", [cnn, transformer])
def test_the_cpu_computes_them(network: Callable[[], Graph], rng: np.random.Generator) -> None:
    graph = network()
    inputs = draws(graph, rng)
    made = grad(graph, "loss", [name for name in graph.inputs if name != "labels"])
    run = lockstep.compile(made, target="cpu", cache=False)(inputs)
    for name, wanted in evaluate(made, inputs).items():
        np.testing.assert_allclose(run[name], wanted, rtol=2e-4, atol=2e-5, err_msg=name)


def test_a_gradient_has_a_gradient(rng: np.random.Generator) -> None:
    """The slope of a gradient of the LSTM, by its weights."""
    graph = lstm()
    first = grad(graph, "loss", "x")
    inputs = draws(graph, rng)
    squares = mean_squared_error(first, "x_gradient", target="none", loss="size")
    inputs["none"] = np.zeros((4, 2, 3), np.float32)
    second = grad(squares, "size", ["w", "r"])
    found = dict(zip("wr", list(in_float64(second, inputs).values())[1:], strict=True))
    direction = {name: rng.standard_normal(inputs[name].shape) for name in "wr"}
    assert directional(found, direction) == pytest.approx(
        slope(squares, "size", inputs, direction), rel=1e-5)


def test_factors_of_half_precision(rng: np.random.Generator) -> None:
    """Gradients have the types of what they are by; the sums between are of float32."""
    x, w = rng.standard_normal((2, 2, 6, 6)), rng.standard_normal((3, 2, 3, 3))
    found = []
    for dtype in ("float16", "float32"):
        net = Builder("halves")
        inputs = {name: array.astype(np.float16).astype(dtype)
                  for name, array in (("x", x), ("w", w))}
        for name, array in inputs.items():
            net.add_input(name, TensorType.of(array))
        net.emit("conv2d", "conv", ["x", "w"], "y", strides=(1, 2), pads=(0, 1, 1, 0))
        net.emit("mul", "square", ["y", "y"], "z")
        net.emit("reduce_sum", "sum", ["z"], "loss", axes=(0, 1, 2, 3), keepdims=0)
        made = evaluate(grad(net.finish(["loss"]), "loss", ["x", "w"]), inputs)
        found.append([made["x_gradient"], made["w_gradient"]])
    for half, whole in zip(*found, strict=True):
        assert half.dtype == np.float16
        np.testing.assert_array_equal(half, whole.astype(np.float16))
