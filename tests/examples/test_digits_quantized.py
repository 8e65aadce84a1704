"""Digits from float to the accelerator by our quantizer: as right as in float."""

from collections import Counter

import numpy as np
import onnx
import pytest

from accel.mapping.target import AccelTarget
from compiler.frontend.onnx.importing import convert
from compiler.graph.passes.pipeline import optimize
from examples.digits.data import held_out
from examples.digits.quantized import FLOAT, POINTS, accuracy, calibration, quantized
from runtime import SimulatedDevice, compile, compile_graph, simulator
from tests.support.machines import TINY
from tests.support.onnx_runtime import compare_layers


@pytest.fixture(scope="module")
def made():
    pytest.importorskip("sklearn.datasets")
    return quantized(calibration(64))


def test_accuracy_on_the_accelerator(made) -> None:
    """All layers run there; the aim is 0.5 points."""
    graph = optimize(convert(made.model, "digits"))
    module = compile_graph(graph, AccelTarget(TINY), SimulatedDevice(TINY, simulator("cycle")))
    host = {node.op for step in module.steps for node in step.segment.nodes
            if step.segment.target == "host"}
    assert graph.notes == () and host <= {"quantize", "dequantize"}
    images, labels = held_out()
    real = accuracy(compile(FLOAT, "cpu"), images, labels)
    assert abs(accuracy(module, images, labels) - real) <= POINTS / 100


def test_model(made) -> None:
    onnx.checker.check_model(made.model, full_check=True)
    kinds = Counter(node.op_type for node in made.model.graph.node)
    assert {kind: count for kind, count in kinds.items() if not kind.endswith("Linear")} == {
        "Conv": 5, "Add": 1, "MaxPool": 1, "GlobalAveragePool": 1, "Reshape": 1, "Gemm": 1}
    assert made.decibels > 35


def test_layers_equal_onnx_runtime(made) -> None:
    images, _ = held_out()
    found = [compare_layers(made.model, {"image": image[None]}) for image in images[:20]]
    for layers in zip(*found, strict=True):
        assert max(layer.largest for layer in layers) <= 1
        assert np.mean([layer.equal for layer in layers]) >= 0.995, layers[0].name
