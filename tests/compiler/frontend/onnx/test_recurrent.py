"""Recurrent layers against ONNX Runtime, with every option that it has."""

from collections import Counter
from itertools import product

import numpy as np
import onnx
import pytest

from compiler.frontend import convert
from compiler.graph import evaluate
from tests.support.onnx_runtime import run_onnx

STEPS, BATCH, WIDTH, HIDDEN = 5, 3, 4, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
OPTIONS = {
    "RNN": [{}, {"clip": 0.3}, {"activations": ["Relu"]}],
    "GRU": [{}, {"clip": 0.3}, {"linear_before_reset": 1},
            {"linear_before_reset": 1, "clip": 0.2},
            {"activations": ["HardSigmoid", "Softsign"]}],
    "LSTM": [{}, {"clip": 0.3}, {"input_forget": 1}, {"peepholes": True},
             {"peepholes": True, "clip": 0.2}, {"activations": ["Sigmoid", "Tanh", "Relu"]}]}
CASES = [(kind, direction, given, options) for kind in GATES for direction, given, options in
         product(("forward", "reverse", "bidirectional"), ("", "B", "B initial", "B lengths"),
                 OPTIONS[kind])]


def _model(kind: str, direction: str, given: str, options: dict) -> tuple[onnx.ModelProto, dict]:
    rng = np.random.default_rng(5)
    ways, rows = 2 if direction == "bidirectional" else 1, GATES[kind] * HIDDEN

    def values(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.5, shape).astype(np.float32)

    arrays = {"W": values(ways, rows, WIDTH), "R": values(ways, rows, HIDDEN)}
    names = ["x", "W", "R", "", "", ""]
    states = ["initial_h", "initial_c"] if kind == "LSTM" else ["initial_h"]
    if "B" in given:
        arrays["B"], names[3] = values(ways, 2 * rows), "B"
    if "lengths" in given:
        arrays["lengths"], names[4] = np.array([5, 1, 3], np.int32), "lengths"
    if "initial" in given:
        arrays |= {state: values(ways, BATCH, HIDDEN) for state in states}
        names[5:] = states
    attributes = dict(options)
    if attributes.pop("peepholes", False):
        arrays["P"] = values(ways, 3 * HIDDEN)
        names = [*names, *[""] * (7 - len(names)), "P"]
    if "activations" in attributes:
        attributes["activations"] = attributes["activations"] * ways
    outputs = ["y", "h", "c"] if kind == "LSTM" else ["y", "h"]
    node = onnx.helper.make_node(kind, names, outputs, hidden_size=HIDDEN, direction=direction,
                                 **attributes)
    inputs = {"x": values(STEPS, BATCH, WIDTH)}
    graph = onnx.helper.make_graph(
        [node], "recurrent",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (STEPS, BATCH, WIDTH))],
        [onnx.helper.make_empty_tensor_value_info(name) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)],
                                  ir_version=8), inputs


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_states_are_onnx_runtimes(case: tuple[str, str, str, dict]) -> None:
    model, inputs = _model(*case)
    graph = convert(model)
    made = evaluate(graph, inputs)
    for name, wanted in zip(graph.outputs, run_onnx(model, inputs).values(), strict=True):
        np.testing.assert_allclose(made[name], wanted, rtol=1e-5, atol=1e-6)


def test_a_step_has_one_product() -> None:
    """The input's products are one for all steps, and gates of one function are computed as one;
    the first state is a constant, and so is its product.
    """
    graph = convert(_model("LSTM", "forward", "B initial", {})[0])
    count = Counter(node.op for node in graph.nodes)
    assert count["matmul"] == 1 + (STEPS - 1) and count["exp"] == STEPS
    assert count["tanh"] == 2 * STEPS
