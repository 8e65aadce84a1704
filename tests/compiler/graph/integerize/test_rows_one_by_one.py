"""Normalizations of rows that a file computes operator by operator, each quantized: totals of rows
are products, and so are rows of one number each times constants."""

import numpy as np
import pytest

from accel.mapping.target import AccelTarget
from compiler.frontend import convert
from compiler.graph import evaluate, optimize
from compiler.graph.passes.pipeline import standard_passes
from tests.support.integer_graphs import assert_right
from tests.support.machines import LONG, MACHINES, TINY

SHAPES = [(6, 9), (2, 5, 33), (1, 2, 3, 20)]


def steps_off(model, feeds) -> np.ndarray:
    """The steps between a graph of integers and the same in float."""
    graph, real = optimize(model), optimize(model, standard_passes(integerize=False))
    found, wanted = (evaluate(one, feeds)[one.outputs[0]].astype(int) for one in (graph, real))
    assert found.shape == wanted.shape and len(np.unique(wanted)) > 3
    return np.abs(found - wanted)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum"])
@pytest.mark.parametrize(("shape", "kept"), [(SHAPES[0], 1), (SHAPES[1], 0), (SHAPES[2], 1)])
def test_totals_of_rows_are_products(qdq, rng, shape, kept: int, op: str, dtype: str) -> None:
    one, low = qdq(opset=21), np.iinfo(dtype)
    given = one.input("x", *shape, dtype=dtype)
    axes = (one.constant(np.array([-1], np.int64)),)
    y = one.add(op, one.dequantize(given, 0.05, 7, dtype), *axes, keepdims=kept)
    scale = 0.05 * (shape[-1] if op == "ReduceSum" else 1) / shape[-1]**0.5
    q = one.quantize(y, scale, -3, dtype)
    model = convert(one.model(q, dtypes={q: dtype}))
    feeds = {"x": rng.integers(low.min, low.max, shape, endpoint=True).astype(dtype)}
    assert steps_off(model, feeds).max() <= 1
    graph = optimize(model)
    wanted = "qavgpool" if len(shape) == 4 and op == "ReduceMean" else "qdense"
    views = [] if kept else ["reshape"]
    assert [node.op for node in graph.nodes] == [wanted, *views] and not graph.notes
    assert_right(LONG if dtype == "int16" else TINY, graph, feeds)


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("shape", [(*shape[:-1], 1) for shape in SHAPES])
def test_a_number_of_each_row_times_constants_is_a_product(qdq, rng, shape, quantized) -> None:
    one = qdq()
    given = one.input("x", *shape, dtype="int8")
    factors = one.dequantize(one.constant(rng.integers(-128, 128, 20).astype(np.int8)), 0.01, 5,
                             "int8") if quantized else one.constant(
        (rng.normal(size=20) * rng.integers(0, 2, 20)).astype(np.float32))
    y = one.add("Mul", one.dequantize(given, 0.05, 7, "int8"), factors)
    if not quantized:
        y = one.add("Add", y, one.constant(rng.normal(size=20).astype(np.float32)))
    q = one.quantize(y, 0.06, -3, "int8")
    model = convert(one.model(q, dtypes={q: "int8"}))
    feeds = {"x": rng.integers(-128, 128, shape).astype(np.int8)}
    assert steps_off(model, feeds).max() <= 1
    graph = optimize(model)
    assert [node.op for node in graph.nodes] == ["qdense"] and not graph.notes
    assert_right(TINY, graph, feeds)


def normalized(one, x):
    """(x - mean) / root(variance) * gamma + beta, each operator quantized on its own."""
    axes = one.constant(np.array([-1], np.int64))

    def stored(value, scale, zero=3):
        return one.requantized(value, scale, zero, "int8")

    mean = stored(one.add("ReduceMean", x, axes, keepdims=1), 0.004)
    moved = one.add("Sub", x, mean)
    variance = stored(one.add("ReduceMean", stored(one.add("Mul", moved, moved), 0.02, -128), axes,
                              keepdims=1), 0.003, -128)
    root = stored(one.add("Reciprocal", one.add("Sqrt", one.add("Add", variance, one.constant(
        np.float32(1e-3))))), 0.02, -128)
    factor = stored(one.add("Mul", root, one.constant(one.rng.uniform(0.5, 1.5, 24).astype(
        np.float32))), 0.03, -128)
    part = stored(one.add("Mul", mean, factor), 0.01)
    return stored(one.add("Sub", stored(one.add("Mul", x, factor), 0.04), part), 0.05)


def model_of_normalization(qdq):
    one = qdq(opset=18)
    x = one.dequantize(one.input("x", 2, 7, 24, dtype="int8"), 0.02, 7, "int8")
    q = one.quantize(normalized(one, x), 0.05, 3, "int8")
    return convert(one.model(q, dtypes={q: "int8"}))


def test_a_normalization_is_of_integers(qdq, rng) -> None:
    graph = optimize(model := model_of_normalization(qdq))
    assert not graph.notes and not {"quantize", "dequantize"} & {node.op for node in graph.nodes}
    off = steps_off(model, {"x": rng.integers(-128, 128, (2, 7, 24)).astype(np.int8)})
    assert off.max() <= 3 and np.mean(off > 1) < 0.05        # eight operators in a row


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny-1x4x4", "1x32x16"])
def test_all_of_a_normalization_is_on_the_accelerator(qdq, rng, name: str) -> None:
    graph, target = optimize(model_of_normalization(qdq)), AccelTarget(MACHINES[name])
    assert [target.refusal(graph, node) for node in graph.nodes] == [None] * len(graph.nodes)
    assert_right(MACHINES[name], graph,
                 {"x": rng.integers(-128, 128, (2, 7, 24)).astype(np.int8)})
