"""Why layers stay in float: what hinders, and what to do."""

import numpy as np
import pytest

from compiler.quantize import quantize

THREE_DIMENSIONS = "it convolves over 3 dimensions, and integer operators over 1 or 2"
FLAT = "nothing runs on the accelerator: the quantizer left every layer in float: "


def convolved(one, bias: bool) -> str:
    """Two convolutions of volumes."""
    x = one.input("x", "n", 4, 9, 5, 5)
    more = [one.random(4)] if bias else []
    y = one.add("Conv", x, one.random(4, 4, 3, 1, 1), *more, name="first")
    return one.add("Conv", y, one.random(4, 4, 3, 1, 1), *more, name="second")


@pytest.mark.parametrize("bias", [True, False])
def test_convolutions_of_volumes(float_model, rng, bias) -> None:
    one = float_model()
    samples = rng.standard_normal((2, 4, 9, 5, 5), np.float32)
    made = quantize(one.model(convolved(one, bias)), samples)
    reasons = {layer.reason for layer in made.layers if layer.op == "conv"}
    assert reasons == {THREE_DIMENSIONS} and not any(layer.quantized for layer in made.layers)
    name = "first.conv" if bias else "first"
    assert made.hindrance == f"{FLAT}{name} (conv): {THREE_DIMENSIONS} (2 layers like this)"


def sequences(one) -> str:
    """Convolutions and pools of sequences, with sums and a norm between."""
    x = one.input("x", "n", 4, 24)
    y = one.add("Conv", x, one.random(8, 4, 5, scale=0.3), one.random(8), name="first",
                strides=[2], pads=[2, 2])
    y = one.add("Relu", y)
    z = one.add("MaxPool", y, kernel_shape=[3], pads=[1, 1], name="greatest")
    z = one.add("AveragePool", one.add("Add", y, z, name="sum"), kernel_shape=[2], strides=[2],
                name="mean")
    y = one.add("ConvTranspose", z, one.random(8, 5, 3, scale=0.3), one.random(5), name="last")
    return one.add("GlobalAveragePool", y, name="whole")


def test_sequences_are_quantized(float_model, onnx_runtime, rng) -> None:
    one = float_model()
    model, samples = one.model(sequences(one)), rng.standard_normal((16, 4, 24), np.float32)
    made = quantize(model, samples)
    assert all(layer.quantized for layer in made.layers if layer.op != "reshape"), made.layers
    assert {layer.op for layer in made.layers} >= {"conv2d", "maxpool", "avgpool", "add",
                                                   "convtranspose2d", "globalavgpool"}
    (ours,) = onnx_runtime(made.model, {"x": samples})
    (wanted,) = onnx_runtime(model, {"x": samples})
    assert ours.shape == wanted.shape and made.decibels and made.decibels > 25
    assert 10 * np.log10(np.sum(wanted**2) / np.sum((wanted - ours)**2)) > 25


def biased(one, x: str) -> str:
    """A bias with a number for each element."""
    flat = one.add("Flatten", x)
    return one.add("Gemm", flat, one.random(48, 5), one.random(2, 5), name="node")


def test_a_bias_of_rows_stays_in_float(float_model, rng) -> None:
    """Though there are as many rows as channels; before a norm, and equalized, too."""
    one = float_model()
    x = one.add("Gemm", one.input("x", 4, 6), one.random(4, 6), one.random(4, 1), name="node",
                transB=1)
    x = one.add("Relu", one.norm(x, 4))
    made = quantize(one.model(one.dense(x, 4, 4)), rng.standard_normal((4, 6), np.float32),
                    equalize=True, bias_correction=True)
    assert {layer.name: layer.reason for layer in made.layers}["node"] == (
        "its bias must have one element for each channel, not shape (4, 1)")


@pytest.mark.parametrize(("rule", "reason"), [
    (biased, "its bias must have 1 or 5 elements, not 10"),
    (lambda one, x: one.add("Sigmoid", x, name="node"),
     "no quantized layer computes from its result"),
    (lambda one, x: one.add("ReduceSum", x, name="node"), "reduce_sum has no integer form")])
def test_other_nodes(float_model, rng, rule, reason) -> None:
    one = float_model()
    x = one.conv(one.input("x", 2, 3, 4, 4), 3, 3, name="first")
    made = quantize(one.model(rule(one, x)), rng.standard_normal((2, 3, 4, 4), np.float32))
    assert {layer.name: layer.reason for layer in made.layers}["node"] == reason
    assert made.hindrance == ""


def test_parts_of_a_node_are_quantized_where_they_can_be(float_model, rng) -> None:
    """A Tile is a reshape, which moves bytes, and an expand, which has no integer form."""
    one = float_model()
    x = one.conv(one.input("x", 2, 3, 4, 4), 3, 3, name="first")
    y = one.add("Tile", x, one.constant(np.array([1, 1, 2, 1])), name="node")
    made = quantize(one.model(y), rng.standard_normal((2, 3, 4, 4), np.float32))
    reasons = [(layer.op, layer.reason) for layer in made.layers]
    assert reasons[:3] == [("conv2d", ""), ("reshape", ""),
                           ("expand", "expand has no integer form")]
