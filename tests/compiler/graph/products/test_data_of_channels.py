"""Data of convolutions with a scale and a zero point for each channel: both layers are integers."""

import numpy as np
import pytest

from compiler.frontend import convert
from compiler.graph import Graph, evaluate, optimize, standard_passes
from tests.compiler.graph.passes.test_functions_of_products import assert_on_accelerators
from tests.support.slow_cases import each_once

STEP = 0.12
PADS = [(0, 0, 0, 0), (1, 0, 2, 1), (2, 2, 2, 2)]


def model_of(one, dtype: str, pads=(1, 1, 1, 1), group: int = 4, bias: bool = True, zero=None,
             other: bool = False):
    """A convolution whose result has steps of channels, and another of groups that reads it."""
    low = -128 if dtype == "int8" else 0
    zeros = one.rng.integers(low + 20, low + 200, 4) if zero is None else np.full(4, zero)
    steps = (one.constant(np.geomspace(0.02, 0.1, 4)[[2, 0, 3, 1]].astype(np.float32)),
             one.constant(zeros.astype(dtype)))
    x = one.requantized(one.input("x", 1, 3, 6, 7), 0.05, 120)
    x = one.add("Conv", x, one.weight(4, 3, 1, 1, scale=0.01))
    x = one.add("DequantizeLinear", one.add("QuantizeLinear", x, *steps, axis=1), *steps, axis=1)
    more = [one.constant(one.rng.normal(size=8).astype(np.float32))] if bias else []
    y = one.add("Conv", x, one.weight(8, 4 // group, 3, 3, scale=0.004), *more, group=group,
                pads=pads)
    return one.model(one.requantized(y, STEP, 128), *([one.add("Abs", x)] if other else []))


def made_of(model) -> tuple[Graph, Graph]:
    graph, plain = (optimize(convert(model), standard_passes(integerize=integerize))
                    for integerize in (True, False))
    return graph, plain


@each_once("pads, data", PADS, [("int8", True), ("uint8", False)], ids=str)
def test_both_layers_are_integers(qdq, pads, data) -> None:
    dtype, bias = data
    one = qdq(seed=sum(pads), opset=21)
    model = model_of(one, dtype, pads, bias=bias)
    graph, plain = made_of(model)
    assert graph.notes == ()
    assert {node.op for node in graph.nodes} - {"to_uint8", "to_int8"} == {
        "quantize", "qconv2d", "dequantize", *(("qconcat",) if any(pads) else ())}
    feeds = {"x": one.rng.normal(size=(1, 3, 6, 7)).astype(np.float32) * 3}
    found, wanted = (evaluate(each, feeds)[model.graph.output[0].name] for each in (graph, plain))
    assert wanted.std() > 3 * STEP and np.abs(found - wanted).max() <= 1.01 * STEP
    assert np.mean(np.abs(found - wanted) > STEP / 2) < 0.03
    assert_on_accelerators(one, graph)


def test_zero_points_of_zero_are_in_the_pads(qdq) -> None:
    graph, _ = made_of(model_of(qdq(opset=21), "int8", zero=0))
    assert "qconcat" not in [node.op for node in graph.nodes]


@pytest.mark.parametrize("case", [{"other": True}, {"group": 2}])
def test_others_that_read_and_groups_of_several_keep_their_steps(qdq, case: dict) -> None:
    graph, _ = made_of(model_of(qdq(opset=21), "int8", **case))
    assert [node.op for node in graph.nodes].count("quantizelinear") == 1
