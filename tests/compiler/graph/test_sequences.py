"""Convolutions and pools over one axis are those of images of one row, from end to end."""

import numpy as np
import pytest

from compiler.frontend import convert
from compiler.graph import Graph, evaluate, optimize, standard_passes
from compiler.graph.passes.sequences import SequencesAsImages
from compiler.graph.rewrite import Builder
from compiler.graph.graph import TensorType


def real(one, outputs: list[str]) -> tuple[Graph, list[str]]:
    graph = optimize(convert(one.model(*outputs)), standard_passes(integerize=False))
    return graph, [node.op for node in graph.nodes]


def everything(one, x: str) -> str:
    """What sequences may pass between a first and a last convolution."""
    rng = one.rng

    def random(*shape: int) -> str:
        return one.constant(rng.normal(size=shape).astype(np.float32))

    a = one.add("Conv", x, random(6, 3, 5), random(6), pads=[2, 1], strides=[2])
    a = one.add("Add", one.add("Relu", a), random(6, 1))
    b = one.add("MaxPool", a, kernel_shape=[3], pads=[1, 1])
    b = one.add("Mul", b, one.add("GlobalAveragePool", a))
    b = one.add("Concat", a, one.add("LeakyRelu", b, alpha=0.2), axis=2)
    sides = (one.constant(np.array(side)) for side in ([1, 3], [6, 25], [1, -1], [1, 2]))
    b = one.add("Slice", b, *sides)
    b = one.add("Pad", b, one.constant(np.array([0, 1, 2, 0, 0, 1])),
                one.constant(np.float32(0.25)))
    b = one.add("Sub", random(1, 6, 1), b)
    b = one.add("AveragePool", b, kernel_shape=[4], strides=[3], pads=[1, 2], count_include_pad=1)
    b = one.add("Conv", b, random(4, 3, 3), group=2, dilations=[2], pads=[2, 2])
    return one.add("ConvTranspose", b, random(4, 5, 4), random(5), strides=[3], pads=[1, 0],
                   output_padding=[1])


@pytest.mark.parametrize("images", [1, 2])
def test_networks_of_sequences(qdq, onnx_values, rng, images) -> None:
    one = qdq()
    y = everything(one, one.input("x", images, 3, 40))
    graph, ops = real(one, [y])
    reshapes = [place for place, op in enumerate(ops) if op == "reshape"]
    assert reshapes == [0, len(ops) - 1], ops
    feeds = {"x": rng.normal(size=(images, 3, 40)).astype(np.float32)}
    np.testing.assert_allclose(evaluate(graph, feeds)[y], onnx_values(one.model(y), feeds)[y],
                               rtol=1e-4, atol=1e-4)


def test_what_else_reads_a_sequence_has_it(qdq, onnx_values, rng) -> None:
    """Outputs in the middle, a matrix product of the same values, and an input that is both."""
    one = qdq()
    x, w = one.input("x", 2, 3, 8), one.constant(rng.normal(size=(3, 3, 3)).astype(np.float32))
    a = one.add("Add", one.add("Conv", x, w, pads=[1, 1]), x)
    b = one.add("MatMul", one.add("Transpose", a, perm=[0, 2, 1]), x)
    c = one.add("Conv", one.add("Relu", a), w)
    graph, _ = real(one, [a, b, c])
    assert [graph.values[value].shape for value in (a, b, c)] == [(2, 3, 8), (2, 8, 8), (2, 3, 6)]
    feeds = {"x": rng.normal(size=(2, 3, 8)).astype(np.float32)}
    wanted, found = onnx_values(one.model(a, b, c), feeds), evaluate(graph, feeds)
    for value in (a, b, c):
        np.testing.assert_allclose(found[value], wanted[value], rtol=1e-4, atol=1e-5)


def test_pads_that_crop_and_windows_beyond_the_input_stay_general(qdq, onnx_values, rng) -> None:
    one = qdq()
    x = one.input("x", 1, 3, 12)
    w = one.constant(rng.normal(size=(2, 3, 3)).astype(np.float32))
    y = one.add("LpPool", one.add("Conv", x, w, pads=[1, 1]), kernel_shape=[3], p=1)
    graph, ops = real(one, [y])
    assert "pool_sum" in ops
    feeds = {"x": rng.normal(size=(1, 3, 12)).astype(np.float32)}
    np.testing.assert_allclose(evaluate(graph, feeds)[y], onnx_values(one.model(y), feeds)[y],
                               rtol=1e-5, atol=1e-5)


def test_quantized_by_others(qdq, onnx_values, rng) -> None:
    """Weights and biases of a QDQ model have one axis; the integers are those of ONNX Runtime."""
    one = qdq()
    x = one.requantized(one.input("x", 2, 3, 21))
    scales = np.full(6, 0.01, np.float32)
    bias = one.bias(rng.integers(-500, 500, 6), 0.05 * scales)
    y = one.add("Relu", one.add("Conv", x, one.weight(6, 3, 5, scale=scales), bias, pads=[2, 2],
                                name="first"))
    y = one.requantized(y, 0.04, 0)
    y = one.add("MaxPool", y, kernel_shape=[3], strides=[2], name="pool")
    y = one.requantized(y, 0.04, 0)
    y = one.requantized(one.add("Conv", y, one.weight(4, 3, 3), group=2, name="second"), 0.06, 100)
    graph = optimize(convert(one.model(y)))
    ops = [node.op for node in graph.nodes]
    assert ops.count("qconv2d") == 2 and "qmaxpool" in ops and "conv" not in ops
    feeds = {"x": rng.normal(size=(2, 3, 21)).astype(np.float32)}
    steps = (evaluate(graph, feeds)[y] - onnx_values(one.model(y), feeds)[y]) / 0.06
    assert np.abs(steps).max() < 1.01 and np.mean(np.abs(steps) < 0.01) > 0.98


def test_other_reshapes_stay() -> None:
    """Rows of matrices that get an axis are no sequences of images."""
    builder = Builder("g")
    x = builder.add_input("x", TensorType((2, 1, 8), "float32"))
    builder.emit("reshape", "wide", [x], "y", shape=(2, 1, 1, 8))
    builder.emit("relu", "relu", ["y"], "z")
    graph = builder.finish(["z"])
    assert SequencesAsImages()(graph) is graph
