"""Why layers stay in float: what hinders, and what to do."""

import numpy as np
import pytest

from compiler.quantize import quantize

ONE_DIMENSION = ("it convolves over 1 dimension, and integer operators over 2: write it as a "
                 "convolution of images of height 1")
FLAT = "nothing runs on the accelerator: the quantizer left every layer in float: "


def convolved(one, bias: bool) -> str:
    """Two convolutions of a sequence."""
    x = one.input("x", "n", 4, 9)
    more = [one.random(4)] if bias else []
    y = one.add("Conv", x, one.random(4, 4, 3), *more, name="first", pads=[1, 1])
    return one.add("Conv", y, one.random(4, 4, 3), *more, name="second", pads=[1, 1])


@pytest.mark.parametrize("bias", [True, False])
def test_convolutions_of_sequences(float_model, rng, bias) -> None:
    one = float_model()
    made = quantize(one.model(convolved(one, bias)), rng.standard_normal((2, 4, 9), np.float32))
    reasons = {layer.reason for layer in made.layers if layer.op == "conv"}
    assert reasons == {ONE_DIMENSION} and not any(layer.quantized for layer in made.layers)
    name = "first.conv" if bias else "first"
    assert made.hindrance == f"{FLAT}{name} (conv): {ONE_DIMENSION} (2 layers like this)"


def biased(one, x: str) -> str:
    """A bias with a number for each element."""
    flat = one.add("Flatten", x)
    return one.add("Gemm", flat, one.random(48, 5), one.random(2, 5), name="node")


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
