"""Activations of int16 and weights of int8, with biases of 64 bits: integers throughout, within a
step of LiteRT's kernels."""

import numpy as np
import pytest

pytest.importorskip("tflite")
pytest.importorskip("ai_edge_litert")

from accel.mapping.target import AccelTarget
from compiler.frontend.models import graph_of
from compiler.graph.passes.pipeline import optimize
from compiler.graph.reference import evaluate
from tests.support.machines import LONG, TINY
from tests.support.tflite_files import Given, interpreted, one_operator

RNG = np.random.default_rng(3)
X_SCALE = 0.0007
X = (2, 6, 5, 4)
WINDOW = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}


def q(*shape, scale=X_SCALE):
    return Given(shape, "int16", scale=scale)


def weighted(*shape, axis=0, wide="int64"):
    """Weights with a scale for each channel, and biases in steps of the sums."""
    scales = RNG.uniform(0.002, 0.01, shape[axis]).astype(np.float32)
    weights = Given.of(RNG.integers(-127, 128, shape).astype(np.int8), scale=scales, axis=axis)
    biases = RNG.integers(-90_000, 90_000, shape[axis]).astype(wide)
    return weights, Given.of(biases, scale=scales * np.float32(X_SCALE))


CASES = {
    "conv": ("CONV_2D", [q(*X), *weighted(6, 3, 3, 4)], q(2, 6, 5, 6, scale=0.002),
             "Conv2DOptions", {**WINDOW, "FusedActivationFunction": 1}),
    "depthwise": ("DEPTHWISE_CONV_2D", [q(*X), *weighted(1, 3, 3, 4, axis=3)],
                  q(2, 6, 5, 4, scale=0.001), "DepthwiseConv2DOptions",
                  {**WINDOW, "DepthMultiplier": 1}),
    "dense": ("FULLY_CONNECTED", [q(3, 40), *weighted(6, 40)], q(3, 6, scale=0.003),
              "FullyConnectedOptions", {}),
    "dense, biases of 32 bits": ("FULLY_CONNECTED", [q(3, 40), *weighted(6, 40, wide="int32")],
                                 q(3, 6, scale=0.003), "FullyConnectedOptions", {}),
    "add": ("ADD", [q(*X), q(*X, scale=0.0004)], q(*X, scale=0.0011), "AddOptions", {}),
    "max_pool": ("MAX_POOL_2D", [q(*X)], q(2, 3, 2, 4), "Pool2DOptions",
                 {"Padding": 1, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}),
    "mean": ("MEAN", [q(*X), Given.of(np.array([1, 2], np.int32))], q(2, 4, scale=0.0003),
             "ReducerOptions", {}),
}
STEPS = {"add": 4}
"""Multipliers of 16 bits: as docs/int16.md has it."""


@pytest.mark.parametrize("name", CASES)
def test_operator(name, tmp_path):
    code, inputs, result, kind, options = CASES[name]
    path = tmp_path / "m.tflite"
    path.write_bytes(one_operator(code, inputs, [result], options, kind))
    graph = optimize(graph_of(path))
    assert not {"quantize", "dequantize", "quantizelinear"} & {node.op for node in graph.nodes}
    arrays = [RNG.integers(-32768, 32768, graph.values[value].shape).astype(np.int16)
              for value in graph.inputs]
    given, = evaluate(graph, dict(zip(graph.inputs, arrays, strict=True))).values()
    wanted, = interpreted(path.read_bytes(), arrays)
    assert len(np.unique(wanted)) > 7
    assert np.abs(given.astype(int) - wanted).max() <= STEPS.get(name, 1)
    for node in graph.nodes:
        assert AccelTarget(LONG).refusal(graph, node) is None
        assert "examples/machines/int16.py takes int16" in (
            AccelTarget(TINY).refusal(graph, node) or "")
