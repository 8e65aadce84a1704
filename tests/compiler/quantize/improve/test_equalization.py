"""Cross-layer equalization: the same function, like ranges, and nothing where it must not be."""

import numpy as np
import pytest

from compiler.frontend import convert
from compiler.graph import evaluate
from compiler.quantize.improve.equalization import equalize, pairs
from compiler.quantize.networks.preparation import prepare
from compiler.quantize.networks.weights import canonical


def spread(one, channels: int, axis: int, rank: int = 4) -> None:
    """Makes the channels of the last weight unlike."""
    name = [name for name in one.constants if one.constants[name].ndim == rank][-1]
    shape = [-1 if i == axis else 1 for i in range(rank)]
    one.constants[name] = one.constants[name] * np.float32(8) ** np.linspace(
        -1, 1, channels, dtype=np.float32).reshape(shape)


def equalized(onnx_runtime, model, feeds):
    """The network after equalization, whose function is that of the model."""
    network = prepare(convert(model))
    count = equalize(network)
    graph = network.float_graph()
    made = evaluate(graph, feeds)
    for value, wanted in zip(graph.outputs, onnx_runtime(model, feeds), strict=True):
        np.testing.assert_allclose(made[value], wanted, rtol=1e-3, atol=1e-4)
    return network, count


def ranges(network, place: int, inward: bool) -> np.ndarray:
    node = network.layers[place].node
    view = canonical(node, network.tensors[node.inputs[1]])
    return np.abs(view).max(axis=(1, 3) if inward else (2, 3)).reshape(-1)


@pytest.mark.parametrize("between", ["", "Relu", "LeakyRelu", "MaxPool", "AveragePool"])
@pytest.mark.parametrize("group", [1, 3])
def test_two_convolutions(float_model, onnx_runtime, rng, between, group) -> None:
    one = float_model()
    x = one.conv(one.input("x", 2, 3, 6, 6), 3, 6)
    spread(one, 6, 0)
    if between:
        kernel = {"kernel_shape": [2, 2]} if "Pool" in between else {}
        x = one.add(between, x, **kernel)
    model = one.model(one.conv(x, 6, 9, group=group))
    network, count = equalized(onnx_runtime, model,
                               {"x": rng.standard_normal((2, 3, 6, 6), np.float32)})
    assert count == 1
    last = len(network.layers) - 1
    np.testing.assert_allclose(ranges(network, 0, False), ranges(network, last, True), rtol=2e-3)


def test_depthwise_between(float_model, onnx_runtime, rng) -> None:
    """Three in a row: all become alike in their common channels."""
    one = float_model()
    x = one.add("Relu", one.conv(one.input("x", 2, 3, 6, 6), 3, 6))
    spread(one, 6, 0)
    x = one.add("Relu", one.conv(x, 6, 6, group=6))
    network, count = equalized(onnx_runtime, one.model(one.conv(x, 6, 4)),
                               {"x": rng.standard_normal((2, 3, 6, 6), np.float32)})
    assert count == 2
    np.testing.assert_allclose(ranges(network, 1, False), ranges(network, 2, True), rtol=2e-3)


def test_transposed_convolutions(float_model, onnx_runtime, rng) -> None:
    one = float_model()
    x = one.input("x", 1, 3, 4, 4)
    for inputs, outputs, group in ((3, 4, 1), (4, 2, 2)):
        x = one.add("ConvTranspose", x, one.random(inputs, outputs, 2, 2), strides=[2, 2],
                    group=group)
        spread(one, outputs, 1)
    assert equalized(onnx_runtime, one.model(x),
                     {"x": rng.standard_normal((1, 3, 4, 4), np.float32)})[1] == 1


@pytest.mark.parametrize("op", ["Flatten", "Reshape"])
def test_dense_behind_an_image(float_model, onnx_runtime, rng, op) -> None:
    """Each channel is the features of its pixels."""
    one = float_model()
    x = one.add("Relu", one.conv(one.input("x", 2, 3, 4, 4), 3, 5))
    spread(one, 5, 0)
    more = [one.constant(np.array([2, -1]))] if op == "Reshape" else []
    y = one.dense(one.add(op, x, *more), 80, 7)
    network, count = equalized(onnx_runtime, one.model(y),
                               {"x": rng.standard_normal((2, 3, 4, 4), np.float32)})
    assert count == 1
    second = ranges(network, 2, True).reshape(5, 16).max(axis=1)
    np.testing.assert_allclose(ranges(network, 0, False), second, rtol=2e-3)


def test_channels_without_weights_stay(float_model, onnx_runtime, rng) -> None:
    one = float_model()
    x = one.conv(one.input("x", 1, 3, 4, 4), 3, 4)
    one.constants["k0"][1] = 0
    y = one.conv(x, 4, 2)
    one.constants["k2"][:, 2] = 0
    equalized(onnx_runtime, one.model(y), {"x": rng.standard_normal((1, 3, 4, 4), np.float32)})


@pytest.mark.parametrize("case", ["clip", "read twice", "output", "sum"])
def test_what_is_no_pair(float_model, case) -> None:
    one = float_model()
    x = one.conv(one.input("x", 1, 3, 4, 4), 3, 4)
    outputs = [x] if case == "output" else []
    if case == "clip":
        x = one.add("Clip", x, one.constant(np.float32(0)), one.constant(np.float32(6)))
    if case == "sum":
        x = one.add("Add", x, x)
    y = one.conv(x, 4, 2)
    if case == "read twice":
        y = one.add("Concat", y, one.add("Relu", x), axis=1)
    assert list(pairs(prepare(convert(one.model(y, *outputs))))) == []
