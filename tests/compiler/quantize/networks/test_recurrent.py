"""LSTMs as the operators that they stand for; constants that several layers share."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from compiler.frontend import convert
from compiler.graph import evaluate
from compiler.quantize import quantize
from compiler.quantize.networks.recurrent import Recurrent
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
    assert Recurrent.of(float_model).arranged == {"lstm"}
    graph = convert(float_model, arranged=["lstm"])
    ways = 2 if direction == "bidirectional" else 1
    assert sum(node.op == "matmul" for node in graph.nodes) == ways * STEPS
    made = evaluate(graph, {"x": GIVEN[:STEPS]})
    for value, wanted in zip(graph.outputs, run(float_model, GIVEN[:STEPS]), strict=True):
        np.testing.assert_allclose(made[value], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [
    {"length": True}, {"clip": 3.0}, {"input_forget": 1},
    {"activations": ["Tanh", "Tanh", "Tanh"]}])
def test_others_stay_in_float(options: dict) -> None:
    found = quantize(model(**options), GIVEN)
    assert not any(layer.quantized for layer in found.layers)
    assert found.hindrance.endswith(": LSTM has no integer form (3 layers like this)")


def test_those_of_many_steps_stay_in_float(monkeypatch) -> None:
    monkeypatch.setattr("compiler.quantize.networks.recurrent.MOST_STEPS", STEPS - 1)
    found = quantize(model(), GIVEN)
    assert found.hindrance.endswith(f": it has more than {STEPS - 1} steps (3 layers like this)")


def test_steps_that_a_model_leaves_open_are_those_of_the_samples() -> None:
    """All of them in one run: the first dimension is none of samples."""
    found = quantize(model(steps="T"), GIVEN[:4])
    products = [layer for layer in found.layers if layer.op == "matmul"]
    assert len(products) == 4 and all(layer.quantized for layer in products)


def test_its_products_are_quantized() -> None:
    """One for the input; one for each step but the first, whose state is zero, all by the same
    weights.
    """
    found = quantize(model(), GIVEN)
    products = [layer for layer in found.layers if layer.op == "matmul"]
    assert len(products) == STEPS and all(layer.quantized for layer in products)
    assert {(layer.quantized, layer.reason) for layer in found.layers if layer.op == "function"
            } == {(False, "the state of a recurrent layer loses too much in 8 bits")}
    weights = [one for one in found.model.graph.initializer
               if one.data_type == onnx.TensorProto.INT8 and len(one.dims) == 2]
    assert sorted(tuple(one.dims) for one in weights) == [(WIDTH, 4 * WIDTH), (DEPTH, 4 * WIDTH)]
    names = [node.name for node in found.model.graph.node]
    assert len(set(names)) == len(names)
    wanted = run(model(), GIVEN[:STEPS])[0]
    np.testing.assert_allclose(run(found.model, GIVEN[:STEPS])[0], wanted, atol=0.03)


def test_one_that_is_kept_in_float_stays_whole() -> None:
    found = quantize(model(), GIVEN, keep_float=["lstm"])
    assert {(layer.quantized, layer.reason) for layer in found.layers} == {
        (False, "kept in float on request")}
