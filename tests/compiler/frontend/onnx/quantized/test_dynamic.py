"""Products of activations that are quantized as they come, in NumPy and in ONNX Runtime."""

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_runtime import run_onnx
from tests.support.spellings import MICROSOFT, model_of, values_of

RNG = np.random.default_rng(12)


def steps_of(x: np.ndarray) -> tuple[np.ndarray, np.float32, int]:
    """uint8 from the least to the greatest element and 0: as DynamicQuantizeLinear says."""
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    scale = np.float32((high - low) / np.float32(255)) or np.float32(1)
    zero = int(np.clip(np.rint(-low / scale), 0, 255))
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.int64), scale, zero


def weight(dtype: str, shape: tuple[int, ...], channels: bool) -> dict[str, np.ndarray]:
    """Weights below 64 steps, which ONNX Runtime's sums of pairs hold."""
    middle = 128 if dtype == "uint8" else 0
    each = shape[-1:] if channels else ()
    return {"w": (RNG.integers(-31, 32, shape) + middle).astype(dtype),
            "ws": RNG.uniform(0.005, 0.02, each).astype(np.float32),
            "wz": (RNG.integers(-3, 4, each) + middle).astype(dtype)}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_dynamic_quantize_matmul(dtype: str, channels: bool, bias: bool) -> None:
    x = RNG.normal(size=(2, 3, 8)).astype(np.float32)
    constants = weight(dtype, (8, 5), channels) | {"b": RNG.normal(size=5).astype(np.float32)}
    node = helper.make_node("DynamicQuantizeMatMul", ["x", "w", "ws", "wz", *["b"] * bias], ["y"],
                            domain=MICROSOFT)
    model = model_of(node, {"x": x}, constants)
    q, scale, zero = steps_of(x)
    sums = (q - zero) @ (constants["w"].astype(np.int64) - constants["wz"].astype(np.int64))
    wanted = sums * (scale * constants["ws"]) + constants["b"] * bias
    for integers in (False, True):
        np.testing.assert_allclose(values_of(model, {"x": x}, integers)["y"], wanted, rtol=1e-6,
                                   atol=1e-6)
    np.testing.assert_allclose(run_onnx(model, {"x": x})["y"], wanted, rtol=1e-6, atol=1e-6)


def test_zeros_and_constants() -> None:
    """A tensor of zeros has no range, and gives 0."""
    node = helper.make_node("DynamicQuantizeMatMul", ["x", "w", "ws"], ["y"], domain=MICROSOFT)
    model = model_of(node, {"x": np.zeros((2, 8), np.float32)}, weight("int8", (8, 5), False))
    for x, sign in ((np.zeros((2, 8), np.float32), 0), (np.full((2, 8), -3, np.float32), 1)):
        np.testing.assert_allclose(values_of(model, {"x": x})["y"],
                                   run_onnx(model, {"x": x})["y"], rtol=1e-6, err_msg=str(sign))


@pytest.mark.parametrize("types", [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
def test_matmul_integer_to_float(types: tuple[str, str]) -> None:
    info = np.iinfo(types[0])
    x = RNG.integers(info.min, info.max + 1, (3, 8)).astype(types[0])
    constants = weight(types[1], (8, 5), True) | {"xs": np.float32(0.02),
                                                  "xz": np.array(info.max // 3, types[0])}
    node = helper.make_node("MatMulIntegerToFloat", ["x", "w", "xs", "ws", "xz", "wz"], ["y"],
                            domain=MICROSOFT)
    model = model_of(node, {"x": x}, constants)
    sums = (x.astype(np.int64) - int(constants["xz"])) @ (
        constants["w"].astype(np.int64) - constants["wz"].astype(np.int64))
    wanted = sums * (constants["xs"] * constants["ws"])
    for found in (values_of(model, {"x": x}, True), run_onnx(model, {"x": x})):
        np.testing.assert_allclose(found["y"], wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("more, options", [
    ("", {}), ("", {"clip": 0.3}), ("", {"input_forget": 1}), ("p", {}), ("l", {})], ids=str)
def test_dynamic_quantize_lstm(direction: str, more: str, options: dict) -> None:
    """All inputs have one scale; so has each step's state. Where sequences have lengths of their
    own, ONNX Runtime's states have other scales than the operator is documented with.
    """
    ways, hidden = 2 if direction == "bidirectional" else 1, 6
    x = RNG.normal(size=(4, 3, 5)).astype(np.float32)
    constants = {"b": RNG.normal(size=(ways, 8 * hidden)).astype(np.float32) / 4,
                 "h": RNG.normal(size=(ways, 3, hidden)).astype(np.float32),
                 "c": RNG.normal(size=(ways, 3, hidden)).astype(np.float32),
                 "p": RNG.normal(size=(ways, 3 * hidden)).astype(np.float32),
                 "l": np.array([4, 2, 3], np.int32)}
    for name, width in (("w", 5), ("r", hidden)):
        constants |= {name: RNG.integers(-31, 32, (ways, width, 4 * hidden)).astype(np.int8),
                      f"{name}s": RNG.uniform(0.005, 0.02, (ways, 4 * hidden)).astype(np.float32),
                      f"{name}z": np.zeros((ways, 4 * hidden), np.int8)}
    names = ["x", "w", "r", "b", "l", "h", "c", "p", "ws", "wz", "rs", "rz"]
    given = ["" if name in "lp" and name != more else name for name in names]
    node = helper.make_node("DynamicQuantizeLSTM", given, ["y", "yh", "yc"], domain=MICROSOFT,
                            direction=direction, hidden_size=hidden, **options)
    model = model_of(node, {"x": x}, constants, outputs=("y", "yh", "yc"))
    found, wanted = values_of(model, {"x": x}), run_onnx(model, {"x": x})
    for name, array in wanted.items():
        near = 2e-3 if more == "l" else 1e-5
        np.testing.assert_allclose(found[name], array, rtol=near, atol=near)
