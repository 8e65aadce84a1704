"""Operators that ONNX Runtime makes of several, against its own kernels."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

from compiler.frontend import ImportRefused, convert
from tests.support.onnx_runtime import run_onnx
from tests.support.spellings import MICROSOFT, model_of, values_of

RNG = np.random.default_rng(6)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def judge(op: str, inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray],
          names: list[str] | None = None, outputs: tuple[str, ...] = ("y",),
          **attributes: Any) -> None:
    node = helper.make_node(op, names or [*inputs, *constants], outputs, domain=MICROSOFT,
                            **attributes)
    model = model_of(node, inputs, constants, outputs=[name for name in outputs if name])
    found, wanted = values_of(model, inputs), run_onnx(model, inputs)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("op, bias, attributes", [
    ("Gelu", 0, {}), ("BiasGelu", 1, {}), ("FastGelu", 0, {}), ("FastGelu", 1, {}),
    ("QuickGelu", 0, {}), ("QuickGelu", 0, {"alpha": 0.9})])
def test_gelu(op: str, bias: int, attributes: dict) -> None:
    judge(op, {"x": floats(2, 3, 8) * 3}, {"b": floats(8)} if bias else {}, **attributes)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_normalization_of_a_sum(op: str, bias: bool) -> None:
    constants = {"g": floats(8)}
    names = ["x", "s", "g"]
    if op == "SkipLayerNormalization":
        constants["b"] = floats(8)
        names.append("b")
    if bias:
        constants["c"] = floats(8)
        names.append("c")
    judge(op, {"x": floats(2, 3, 8), "s": floats(2, 3, 8)}, constants, names, ("y", "", "", "t"),
          epsilon=1e-3)


@pytest.mark.parametrize("turned", range(16))
def test_fused_matmul(turned: int) -> None:
    """Each way to turn both operands, which are stacks of matrices [3,4] x [4,5]."""
    last = turned & 1, turned >> 1 & 1
    batch = turned >> 2 & 1, turned >> 3 & 1
    shapes = []
    for (rows, columns), swap, outer in zip(((3, 4), (4, 5)), last, batch, strict=True):
        rows, columns = (columns, rows) if swap else (rows, columns)
        shapes.append((rows, 2, columns) if outer else (2, rows, columns))
    judge("FusedMatMul", {"a": floats(*shapes[0]), "b": floats(*shapes[1])}, {}, alpha=0.5,
          transA=last[0], transB=last[1], transBatchA=batch[0], transBatchB=batch[1])


@pytest.mark.parametrize("activation, numbers", [
    ("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.7]),
    ("HardSigmoid", [0.3, 0.4])])
def test_activations(activation: str, numbers: list[float]) -> None:
    given: dict[str, Any] = {"activation_params": numbers} if numbers else {}
    judge("FusedConv", {"x": floats(1, 3, 5, 5)}, {"w": floats(4, 3, 3, 3), "b": floats(4)},
          pads=[1] * 4, activation=activation, **given)
    if activation not in ("Clip", "HardSigmoid"):
        given = {"activation_alpha": numbers[0]} if numbers else {}
        judge("FusedGemm", {"x": floats(3, 6)}, {"w": floats(5, 6), "b": floats(5)}, transB=1,
              activation=activation, **given)


@pytest.mark.parametrize("mask, segments", [(False, True), (True, True), (True, False)])
def test_embeddings(mask: bool, segments: bool) -> None:
    inputs = {"i": RNG.integers(0, 9, (2, 4)).astype(np.int32)}
    constants = {"w": floats(9, 8), "p": floats(6, 8), "g": floats(8), "b": floats(8)}
    names = ["i", "", "w", "p", "", "g", "b"]
    if segments:
        inputs["s"], constants["e"] = RNG.integers(0, 2, (2, 4)).astype(np.int32), floats(2, 8)
        names[1], names[4] = "s", "e"
    if mask:
        inputs["m"] = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], np.int32)
        names.append("m")
    judge("EmbedLayerNormalization", inputs, constants, names, ("y", "k"))


def test_quantized_embeddings() -> None:
    inputs = {"i": RNG.integers(0, 9, (2, 4)).astype(np.int32),
              "s": RNG.integers(0, 2, (2, 4)).astype(np.int32)}
    tables = {"w": (9, 8), "p": (6, 8), "e": (2, 8), "g": (8,), "b": (8,)}
    constants = {name: RNG.integers(0, 256, shape).astype(np.uint8)
                 for name, shape in tables.items()}
    for name in tables:
        constants |= {f"{name}s": np.array(RNG.uniform(0.01, 0.02), np.float32),
                      f"{name}z": np.array(RNG.integers(100, 150), np.uint8)}
    judge("QEmbedLayerNormalization", inputs, constants,
          ["i", "s", *tables, "", *(f"{name}s" for name in tables),
           *(f"{name}z" for name in tables)], ("y", "k"))


@pytest.mark.parametrize("op, attributes, outputs, reason", [
    ("FusedGemm", {"activation": "Elu"}, ["y"], "activation must be one of Relu, Tanh, Sigmoid"),
    ("SkipSimplifiedLayerNormalization", {}, ["y", "m"], "its mean must not be a result")])
def test_refusals(op: str, attributes: dict, outputs: list[str], reason: str) -> None:
    node = helper.make_node(op, ["x", "x", "g"], outputs, domain=MICROSOFT, **attributes)
    with pytest.raises(ImportRefused, match=reason):
        convert(model_of(node, {"x": floats(4, 4)}, {"g": floats(4)}, outputs=outputs))
