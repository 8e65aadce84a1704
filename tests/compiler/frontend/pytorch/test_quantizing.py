"""Quantizations of PyTorch as graphs, against NumPy: torch is not needed."""

import numpy as np
import pytest

from compiler.frontend.building.values import NodeRefused, Tracer
from compiler.frontend.pytorch.aten import quantization
from compiler.frontend.pytorch.aten.quantizing import dequantized, quantized
from compiler.graph.graph import TensorType
from compiler.graph.passes.pipeline import optimize
from compiler.graph.reference import evaluate
from compiler.graph.rewrite import Builder

LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}


def traced(rule, **arrays):
    """The graph of a function of a tracer and values, and its results for the arrays."""
    tracer = Tracer(Builder("traced", ()))
    values = [tracer.input(name, TensorType.of(array)) for name, array in arrays.items()]
    results = rule(tracer, *values)
    results = results if isinstance(results, tuple) else (results,)
    graph = tracer.builder.finish([tracer.enter(result) for result in results])
    made = evaluate(graph, arrays)
    return graph, [made[name] for name in graph.outputs]


def operators(graph):
    return [node.op for node in graph.nodes]


def steps(x, scale, zero, low, high):
    """By the definition: rounded half to even, moved, bounded."""
    return np.clip(np.rint(x / scale) + zero, low, high)


@pytest.mark.parametrize("seed", range(8))
def test_random_parameters_against_numpy(seed):
    rng = np.random.default_rng(seed)
    dtype = rng.choice(list(LIMITS))
    low, high = LIMITS[dtype]
    if seed % 2:                                        # narrow, or few bits
        low, high = low + 1 + int(rng.integers(high // 2)), high - int(rng.integers(high // 2))
    shape = tuple(rng.integers(2, 6, size=3))
    axis = int(rng.integers(3)) if seed % 3 else None
    extents = () if axis is None else (shape[axis],)
    scale = rng.uniform(0.01, 0.1, extents).astype(np.float32)
    zero = rng.integers(low, high, extents, dtype=np.int64)
    x = rng.normal(0, 3, shape).astype(np.float32)
    blocks = None if axis is None else (*shape[:axis], 1, *shape[axis + 1:])

    def rule(t, x):
        parameters = t.constant(scale), t.constant(zero)
        q = quantized(t, x, *parameters, (low, high), dtype, blocks)
        return q, dequantized(t, q, *parameters, blocks)

    graph, (q, y) = traced(rule, x=x)
    along = [slice(None) if place == axis else None for place in range(3)]
    if axis is not None:
        scale, zero = scale[tuple(along)], zero[tuple(along)]
    wanted = steps(x, scale, zero, low, high)
    assert q.dtype == dtype and np.array_equal(q, wanted)
    np.testing.assert_allclose(y, (wanted - zero) * scale, rtol=1e-6)
    assert {"quantizelinear", "dequantizelinear"} <= {*operators(graph)} and "div" not in str(
        operators(graph))


def test_bounds_of_one_scale_stand_before_the_quantization():
    """So that integer operators have them: a product with bounds, not a clip of integers."""
    graph, _ = traced(lambda t, x: quantized(t, x, 0.1, 2, (-8, 7), "int8"),
                      x=np.zeros((2, 3), np.float32))
    assert operators(graph) == ["clip", "quantizelinear"]


def test_weights_are_integers_in_the_graph():
    """A quantization of a constant is computed, the way back stays."""
    weight = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)

    def rule(t, x):
        value = t.constant(weight)
        scales = t.constant(np.array([0.01, 0.02, 0.03], np.float32))
        q = quantized(t, value, scales, 0, (-127, 127), "int8", (1, 4))
        return x + dequantized(t, q, scales, 0, (1, 4))

    graph, _ = traced(rule, x=np.zeros((3, 4), np.float32))
    assert operators(graph) == ["dequantizelinear", "add"]
    assert graph.constants[graph.nodes[0].inputs[0]].dtype == np.int8


@pytest.mark.parametrize("blocks", [(1, 4), (2, 4), (1, 12), (3, 1), (6, 12)])
def test_blocks_against_numpy(blocks):
    rng = np.random.default_rng(1)
    counts = 6 // blocks[0], 12 // blocks[1]
    scale = rng.uniform(0.1, 0.3, counts).astype(np.float32)
    zero = rng.integers(-3, 3, counts)
    x = rng.normal(size=(6, 12)).astype(np.float32)

    def rule(t, x):
        parameters = t.constant(scale), t.constant(zero)
        q = quantized(t, x, *parameters, (-8, 7), "int8", blocks)
        return q, dequantized(t, q, *parameters, blocks)

    _, (q, y) = traced(rule, x=x)
    wide = [np.kron(array, np.ones(blocks, array.dtype)) for array in (scale, zero)]
    wanted = np.clip(np.rint(x * (1 / wide[0])) + wide[1], -8, 7)
    assert np.array_equal(q, wanted)
    np.testing.assert_allclose(y, (wanted - wide[1]) * wide[0], rtol=1e-6)


@pytest.mark.parametrize("blocks", [None, (1, 2)])
def test_halves_are_rounded_before_or_after_the_zero_point_comes(blocks):
    """To even: of -0.5 and 0.5 with a zero point of 1, that is 1, or 0 and 2."""
    def rule(t, x):
        scale = t.constant(np.ones((2, 2) if blocks else (), np.float32))
        return tuple(quantized(t, x, scale, 1, (-8, 7), "int8", blocks, zero_is_rounded)
                     for zero_is_rounded in (False, True))

    _, (before, after) = traced(rule, x=np.array([[-0.5, 0.5, 1.5, 2.5]] * 2,
                                              np.float32))
    assert before[0].tolist() == [1, 1, 3, 3] and after[1].tolist() == [0, 2, 2, 4]


def test_blocks_that_do_not_divide_the_shape_are_refused():
    with pytest.raises(NodeRefused) as refused:
        traced(lambda t, x: quantized(t, x, t.constant(np.ones((2, 2), np.float32)), 0, (-8, 7),
                                      "int8", (1, 3)), x=np.zeros((2, 4), np.float32))
    assert str(refused.value) == "its blocks [1, 3] must divide the shape [2, 4]"


@pytest.mark.parametrize("scale, zero", [(0.0, 0), (-0.5, 1), (np.inf, 0), (0.1, 500), (0.1, 0.5)])
def test_what_no_quantization_of_the_graph_has_is_arithmetic(scale, zero):
    q = np.arange(-6, 6, dtype=np.int8)
    graph, (y,) = traced(lambda t, q: dequantized(
        t, q, t.constant(np.float32(scale)), t.constant(np.asarray(zero))), q=q)
    assert "dequantizelinear" not in operators(graph)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(y, (q - np.float32(zero)) * np.float32(scale))


def test_dynamic_parameters_are_those_of_the_data():
    x = np.random.default_rng(2).normal(1, 2, (3, 8)).astype(np.float32)
    _, (scale, zero) = traced(lambda t, x: quantization.choose_qparams(
        t, x, -128, 127, 1e-7, "int8"), x=x)
    wanted = np.float32(x.max() - x.min()) / np.float32(255)
    assert scale == wanted and zero == -128 - np.rint(x.min() / wanted)


def test_a_layer_is_one_of_integers():
    rng = np.random.default_rng(3)
    weight = rng.integers(-127, 128, (5, 7)).astype(np.int8)
    scales = rng.uniform(0.01, 0.02, 5).astype(np.float32)

    def rule(t, x):
        q = quantization.quantize_per_tensor(t, x, 0.05, 3, -128, 127, "int8")
        x = quantization.dequantize_per_tensor(t, q, 0.05, 3, -128, 127, "int8")
        w = quantization.dequantize_per_channel(t, t.constant(weight), t.constant(scales), None, 0,
                                                -127, 127, "int8")
        y = t.emit("dense", x, w, t.constant(np.zeros(5, np.float32)), trans_b=1)
        return quantization.fake_quantize(t, y, 0.1, -2, -128, 127)

    graph, _ = traced(rule, x=rng.normal(size=(2, 7)).astype(np.float32))
    assert operators(optimize(graph)) == ["quantize", "qdense", "dequantize"]


@pytest.mark.parametrize("groups, times", [(1, [[1]]), (4, [[1, 2, 4, 3]])])
def test_uint4_with_zero_points_is_int8_to_a_layer(groups, times):
    """Groups, too, whose scales are multiples of one number."""
    rng = np.random.default_rng(4)
    weight = rng.integers(0, 16, (5, 16)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.02, (5, 1)).astype(np.float32) * np.array(times, np.float32)
    zeros = rng.integers(0, 16, (5, groups))

    x = rng.normal(size=(2, 16)).astype(np.float32)

    def rule(t, x):
        w = quantization.dequantize_affine(t, t.constant(weight), [1, 16 // groups],
                                           t.constant(scales), t.constant(zeros), "uint8", 0, 15)
        y = t.emit("dense", quantization.fake_quantize(t, x, 0.05, 3, -128, 127), w, trans_b=1)
        return quantization.fake_quantize(t, y, 0.1, -2, -128, 127)

    graph, (wanted,) = traced(rule, x=x)
    integers = optimize(graph)
    assert operators(integers) == ["quantize", "qdense", "dequantize"]
    (y,) = evaluate(integers, {"x": x}).values()
    assert np.abs(y - wanted).max() < 0.101
