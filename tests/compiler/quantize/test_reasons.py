"""Why layers stay in float: what hinders, and what to do."""

import numpy as np
import pytest

from compiler.quantize import quantize

ONE_DIMENSION = ("it convolves over 1 dimension, and integer operators over 2: write it as a "
                 "convolution of images of height 1")
FLAT = "nothing runs on the accelerator: the quantizer left every layer in float: "


def convolved(one, bias: bool) -> str:
    """Of a sequence."""
    x = one.input("x", "n", 4, 9)
    more = [one.random(4)] if bias else []
    y = one.add("Conv", x, one.random(4, 4, 3), *more, name="first", pads=[1, 1])
    return one.add("Conv", y, one.random(4, 4, 3), *more, name="second", pads=[1, 1])


@pytest.mark.parametrize("bias", [True, False])
def test_convolutions_of_sequences(float_model, rng, bias) -> None:
    one = float_model()
    made = quantize(one.model(convolved(one, bias)), rng.standard_normal((2, 4, 9), np.float32))
    assert {layer.reason for layer in made.layers} == {ONE_DIMENSION}
    assert made.hindrance == f"{FLAT}first (Conv): {ONE_DIMENSION} (2 layers like this)"


def tiled(one, x: str) -> str:
    return one.add("Tile", x, one.constant(np.array([1, 1, 2, 1])), name="node")


def scaled(one, x: str) -> str:
    flat = one.add("Flatten", x)
    return one.add("Gemm", flat, flat, name="node", transB=1, alpha=0.5)


@pytest.mark.parametrize(("rule", "reason"), [
    (tiled, "Tile becomes reshape, expand: expand has no integer form"),
    (scaled, "alpha and beta must be 1, and transA 0, where its weights are computed"),
    (lambda one, x: one.add("Sigmoid", x, name="node"), "Sigmoid has no integer form"),
    (lambda one, x: one.add("Exp", x, name="node"), "Exp has no integer form")])
def test_other_nodes(float_model, rng, rule, reason) -> None:
    one = float_model()
    x = one.conv(one.input("x", 2, 3, 4, 4), 3, 3, name="first")
    made = quantize(one.model(rule(one, x)), rng.standard_normal((2, 3, 4, 4), np.float32))
    reasons = {layer.name: layer.reason for layer in made.layers}
    assert reasons.pop("node") == reason and set(reasons.values()) == {""}
    assert made.hindrance == ""
