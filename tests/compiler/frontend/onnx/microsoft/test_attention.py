"""Attention and QAttention against ONNX Runtime, with every form of the mask."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from compiler.frontend import ImportRefused, convert
from tests.support.onnx_runtime import run_onnx
from tests.support.spellings import MICROSOFT, model_of, values_of

RNG = np.random.default_rng(3)
BATCH, LENGTH, HEADS, SIZE, WIDTH = 2, 5, 2, 4, 6
MASKS = {
    "none": None, "ends": np.array([3, 5], np.int32),
    "ends and beginnings": np.array([4, 5, 1, 0], np.int32),
    "tokens": np.array([[1, 1, 0, 1, 1], [1, 1, 1, 1, 0]], np.int32),
    "pairs": np.tile(np.tril(np.ones((LENGTH, LENGTH), np.int32)), (BATCH, 1, 1))}


def case(**attributes: Any) -> tuple[onnx.NodeProto, dict, dict]:
    hidden = HEADS * SIZE
    x = RNG.integers(0, 256, (BATCH, LENGTH, WIDTH)).astype(np.uint8)
    constants = {"w": RNG.integers(-31, 32, (WIDTH, 3 * hidden)).astype(np.int8),
                 "b": RNG.normal(size=3 * hidden).astype(np.float32), "xs": np.float32(0.02),
                 "ws": RNG.uniform(0.01, 0.03, 3 * hidden).astype(np.float32),
                 "xz": np.uint8(120), "wz": np.zeros(3 * hidden, np.int8)}
    given: dict[str, Any] = {"num_heads": HEADS} | attributes
    node = helper.make_node("QAttention", ["x", "w", "b", "xs", "ws", "", "xz", "wz"], ["y"],
                            domain=MICROSOFT, **given)
    return node, {"x": x}, constants


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask: str, unidirectional: int) -> None:
    node, inputs, constants = case(unidirectional=unidirectional)
    if MASKS[mask] is not None:
        node.input[5], inputs["m"] = "m", MASKS[mask]
    model = model_of(node, inputs, constants)
    np.testing.assert_allclose(values_of(model, inputs)["y"], run_onnx(model, inputs)["y"],
                               rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_past(unidirectional: int) -> None:
    """Keys and values of tokens before come first, and go on."""
    node, inputs, constants = case(unidirectional=unidirectional)
    node.input.append("p")
    node.output.append("present")
    inputs["p"] = RNG.normal(size=(2, BATCH, HEADS, 3, SIZE)).astype(np.float32)
    model = model_of(node, inputs, constants, outputs=("y", "present"))
    found, wanted = values_of(model, inputs), run_onnx(model, inputs)
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-5)


def test_attention_in_float() -> None:
    """With values of another size, and with what comes to the scores."""
    shapes = {"w": (WIDTH, 2 * HEADS * SIZE + 6), "b": (2 * HEADS * SIZE + 6,),
              "a": (1, HEADS, LENGTH, LENGTH)}
    constants = {name: RNG.normal(size=shape).astype(np.float32)
                 for name, shape in shapes.items()}
    node = helper.make_node("Attention", ["x", "w", "b", "", "", "a"], ["y"], domain=MICROSOFT,
                            num_heads=HEADS, qkv_hidden_sizes=[HEADS * SIZE, HEADS * SIZE, 6],
                            scale=0.3)
    inputs = {"x": RNG.normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32)}
    model = model_of(node, inputs, constants)
    np.testing.assert_allclose(values_of(model, inputs)["y"], run_onnx(model, inputs)["y"],
                               rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("attributes, mask, reason", [
    ({"num_heads": 3}, None, r"its weight \[I,3\*H\], H of 3 heads, not"),
    ({"do_rotary": 1}, None, "do_rotary and past_present_share_buffer must be 0"),
    ({}, np.zeros(3, np.int32), "its mask must be")])
def test_refusals(attributes: dict, mask: np.ndarray | None, reason: str) -> None:
    node, inputs, constants = case(**attributes)
    if mask is not None:
        node.input[5], inputs["m"] = "m", mask
    with pytest.raises(ImportRefused, match=reason):
        convert(model_of(node, inputs, constants))
