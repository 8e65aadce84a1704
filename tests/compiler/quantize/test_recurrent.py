"""LSTMs as the operators that they stand for; constants that several layers share."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from compiler.quantize import quantize
from compiler.quantize.network import prepare
from tests.support.onnx_runtime import run_onnx

STEPS, BATCH, DEPTH, WIDTH = 3, 2, 5, 4
GIVEN = np.random.default_rng(3).standard_normal((4 * STEPS, BATCH, DEPTH), np.float32)


def model(direction: str = "forward", bias: bool = True, length: bool = False,
          steps: int | str = STEPS, **attributes) -> onnx.ModelProto:
    """An LSTM with all of its outputs."""
    rng = np.random.default_rng(1)
    ways = 2 if direction == "bidirectional" else 1
    shapes = {"w": (ways, 4 * WIDTH, DEPTH), "r": (ways, 4 * WIDTH, WIDTH),
              "b": (ways, 8 * WIDTH)}
    constants = [numpy_helper.from_array(0.5 * rng.standard_normal(shape, np.float32), name)
                 for name, shape in shapes.items()]
    constants.append(numpy_helper.from_array(np.full(BATCH, STEPS, np.int32), "length"))
    inputs = ["x", "w", "r", "b" if bias else "", "length" if length else ""]
    outputs = {"y": (steps, ways, BATCH, WIDTH), "h": (ways, BATCH, WIDTH),
               "c": (ways, BATCH, WIDTH)}
    node = helper.make_node("LSTM", inputs, list(outputs), "lstm", hidden_size=WIDTH,
                            direction=direction, **attributes)
    made = helper.make_model(helper.make_graph(
        [node], "one", [helper.make_tensor_value_info("x", 1, (steps, BATCH, DEPTH))],
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in outputs.items()],
        constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made, full_check=True)
    return made


def run(made: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    return list(run_onnx(made, {"x": x}).values())


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("bias", [True, False])
def test_the_operators_mean_the_same(direction: str, bias: bool) -> None:
    float_model = model(direction, bias)
    made = prepare(float_model).float_model()
    assert "LSTM" not in {node.op_type for node in made.graph.node}
    for found, wanted in zip(run(made, GIVEN[:STEPS]), run(float_model, GIVEN[:STEPS]),
                             strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [
    {"length": True}, {"steps": "T"}, {"steps": 1001}, {"clip": 3.0}, {"input_forget": 1},
    {"activations": ["Tanh", "Tanh", "Tanh"]}])
def test_others_stay(options: dict) -> None:
    network = prepare(model(**options), shapes={"T": STEPS})
    assert [layer.node.op_type for layer in network.layers] == ["LSTM"]


def test_its_products_are_quantized() -> None:
    """One for the input; one for each step but the first, whose state is zero, all by the same
    weights.
    """
    found = quantize(model(), GIVEN)
    products = [layer for layer in found.layers if layer.op == "MatMul"]
    assert len(products) == STEPS and all(layer.quantized for layer in products)
    weights = [one for one in found.model.graph.initializer
               if one.data_type == onnx.TensorProto.INT8 and len(one.dims) == 2]
    assert sorted(tuple(one.dims) for one in weights) == [(WIDTH, 4 * WIDTH), (DEPTH, 4 * WIDTH)]
    names = [node.name for node in found.model.graph.node]
    assert len(set(names)) == len(names)
    wanted = run(model(), GIVEN[:STEPS])[0]
    np.testing.assert_allclose(run(found.model, GIVEN[:STEPS])[0], wanted, atol=0.03)


def test_one_that_is_kept_in_float_stays_whole() -> None:
    found = quantize(model(), GIVEN, keep_float=["lstm"])
    assert [(layer.op, layer.quantized) for layer in found.layers] == [("LSTM", False)]
