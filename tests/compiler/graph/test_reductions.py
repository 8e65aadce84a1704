"""Means and maxima along axes between quantizations, against ONNX Runtime."""

import numpy as np
import pytest

from accel.mapping.target import AccelTarget
from compiler.frontend import convert
from compiler.graph import evaluate, optimize
from tests.support.machines import MACHINES

AXES = [((2, 3, 4, 5), (2, 3)), ((2, 9, 6), (1,)), ((9, 6), (0,)), ((2, 3, 4, 5), (1, 2)),
        ((2, 3, 4, 5), (2,))]


def reduced(qdq, op: str, shape, axes, keepdims: int, dtype: str = "uint8"):
    one = qdq(opset=17)
    x = one.requantized(one.input("x", *shape), 0.05, 100 if dtype == "uint8" else -3, dtype)
    y = one.add(op, x, axes=list(axes), keepdims=keepdims, name="reduced")
    scale = 0.05 if op == "ReduceMax" else 0.02
    return one, one.requantized(y, scale, 100 if dtype == "uint8" else -3, dtype), scale


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("shape", "axes"), AXES)
@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax"])
def test_integers(qdq, onnx_values, rng, op: str, shape, axes, keepdims: int, dtype: str) -> None:
    one, y, scale = reduced(qdq, op, shape, axes, keepdims, dtype)
    model, feeds = one.model(y), {"x": (2 * rng.normal(size=shape)).astype(np.float32)}
    graph = optimize(convert(model))
    assert graph.notes == () and not any(
        graph.values[node.outputs[0]].dtype == "float32" for node in graph.nodes[:-1])
    found, wanted = evaluate(graph, feeds)[y], onnx_values(model, feeds)[y]
    assert found.shape == wanted.shape and len(np.unique(found)) > 3
    steps = np.abs(found - wanted) / scale
    assert steps.max() < (0.01 if op == "ReduceMax" else 1.01)


@pytest.mark.parametrize("op, wanted", [("ReduceMean", "qavgpool"), ("ReduceMax", "maxpool")])
def test_columns_of_images_are_pools(qdq, onnx_values, rng, op: str, wanted: str) -> None:
    one, y, scale = reduced(qdq, op, (2, 3, 4, 15), (3,), 1)
    model, feeds = one.model(y), {"x": (2 * rng.normal(size=(2, 3, 4, 15))).astype(np.float32)}
    graph = optimize(convert(model))
    assert graph.notes == () and graph.node("reduced").op.endswith(wanted)
    steps = np.abs(evaluate(graph, feeds)[y] - onnx_values(model, feeds)[y]) / scale
    assert steps.max() < 1.01
    assert not any(AccelTarget(machine).refusal(graph, graph.node("reduced"))
                   for machine in MACHINES.values())


def test_rows_and_columns_are_a_global_average(qdq) -> None:
    one, y, _ = reduced(qdq, "ReduceMean", (2, 3, 4, 5), (2, 3), 1)
    assert optimize(convert(one.model(y))).node("reduced").op == "qglobalavgpool"


@pytest.mark.parametrize(("shape", "axes"), [((2, 3, 4), (0,)), ((2, 3, 4, 5), (1,))])
def test_other_axes_stay_as_they_are(qdq, onnx_values, rng, shape, axes) -> None:
    one, y, _ = reduced(qdq, "ReduceMean", shape, axes, 1)
    model, feeds = one.model(y), {"x": rng.normal(size=shape).astype(np.float32)}
    graph = optimize(convert(model))
    assert "reduce_sum" in {node.op for node in graph.nodes}
    np.testing.assert_allclose(evaluate(graph, feeds)[y], onnx_values(model, feeds)[y], atol=1e-6)


def test_a_mean_that_a_norm_subtracts_stays_in_float(qdq) -> None:
    one = qdq(opset=17)
    x = one.requantized(one.input("x", 1, 3, 4, 4))
    y = one.requantized(one.add("Sub", x, one.add("ReduceMean", x, axes=[2, 3], keepdims=1)))
    ops = {node.op for node in optimize(convert(one.model(y))).nodes}
    assert "reduce_sum" in ops and not ops & {"mean", "qmean", "qglobalavgpool"}
