"""Float weights whose channels are integers times a number become quantized ones."""

import numpy as np
import pytest

from compiler.frontend import convert
from compiler.graph import evaluate, optimize, standard_passes
from compiler.graph.passes.weights_on_grids import on_grid

SHAPES = (((6, 4, 3, 3), 0), ((4, 3, 2, 2), 1), ((40, 7), 1), ((7, 40), 0), ((5, 1, 1, 1), 0))


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("most", [127, 8, 1])
def test_integers_of_scaled_weights_are_found(shape, axis: int, most: int, rng) -> None:
    """Whatever products of float32 they went through: each rounds once."""
    channels = [extent if place == axis else 1 for place, extent in enumerate(shape)]
    integers = rng.integers(-most, most, shape)
    weight = integers.astype(np.float32)
    for _ in range(3):
        weight = weight * rng.uniform(0.1, 3, channels).astype(np.float32)
    found = on_grid(weight, axis)
    assert found is not None and found.scale.shape == tuple(channels)
    np.testing.assert_allclose(found.numbers(), weight, rtol=3e-7, atol=0)
    assert np.abs(found.integers).max() <= most and not found.zero.any()


@pytest.mark.parametrize("zero", [0, 5, 130, 255])
def test_wider_integers_have_a_zero_point(zero: int, rng) -> None:
    integers = rng.integers(0, 256, (4, 30))
    integers[:, :2] = 0, 255
    integers[3, 0] = 1
    weight = ((integers - zero) * rng.uniform(0.01, 0.1, (4, 1))).astype(np.float32)
    found = on_grid(weight, 0)
    assert found is not None and found.zero.any()
    np.testing.assert_allclose(found.numbers(), weight, rtol=3e-7, atol=0)


def test_blocks_whose_scales_are_multiples_have_one_scale(rng) -> None:
    integers = rng.integers(-8, 8, (5, 4, 16))
    scales = rng.uniform(0.01, 0.1, (5, 1, 1)) * rng.choice([1, 2, 3, 8, 15], (5, 4, 1))
    weight = (integers * scales.astype(np.float32)).astype(np.float32).reshape(5, 64)
    found = on_grid(weight, 0)
    assert found is not None
    np.testing.assert_allclose(found.numbers(), weight, rtol=1e-6, atol=0)


@pytest.mark.parametrize("change", ["random", "one off", "too far", "not a number", "other axis"])
def test_what_is_on_no_grid_stays(change: str, rng) -> None:
    weight = rng.integers(-127, 128, (6, 40)).astype(np.float32)
    weight[3, 7] = 127
    weight *= rng.uniform(0.01, 0.1, (6, 1)).astype(np.float32)
    assert on_grid(weight, 0) is not None
    match change:
        case "random":
            weight = rng.normal(size=(6, 40)).astype(np.float32)
        case "one off":
            weight[3, 30] *= np.float32(1.00001)
        case "too far":
            weight[3, 7] = -150 / 127 * weight[3, 7]
            weight[3, 8] = -weight[3, 7]
        case "not a number":
            weight[3, 7] = np.nan
    assert on_grid(weight, int(change == "other axis")) is None


def test_a_channel_of_zeros_has_the_least_scale() -> None:
    """So that its bias is as fine as that of others."""
    found = on_grid(np.array([[0, 0, 0], [0.5, -1, 0.25]], np.float32), 0)
    assert found is not None
    assert (found.integers.tolist(), found.scale.tolist()) == ([[0, 0, 0], [2, -4, 1]],
                                                               [[0.25], [0.25]])


FLOATS = {
    "cast and scaled": lambda one: one.add("Mul", one.add("Cast", one.constant(
        one.rng.integers(-127, 128, (7, 12)).astype(np.int8)), to=1), one.constant(
            one.rng.uniform(0.01, 0.02, (7, 1)).astype(np.float32))),
    "equal blocks": lambda one: one.add("DequantizeLinear", one.constant(
        one.rng.integers(-8, 8, (7, 12)).astype(np.int8)), one.constant(np.repeat(
            one.rng.uniform(0.05, 0.2, (7, 1)).astype(np.float32), 3, axis=1)), one.constant(
                np.zeros((7, 3), np.int8)), axis=1, block_size=4),
    "blocks by a reshape": lambda one: one.add("Reshape", one.add("Mul", one.dequantize(
        one.constant(one.rng.integers(-8, 8, (7, 3, 4)).astype(np.int8)), 0.25, 0, "int8"),
        one.constant(one.rng.choice([1, 2, 4], (7, 3, 1)).astype(np.float32))), one.constant(
            np.array([7, 12]))),
}


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_them_are_integer_layers(qdq, name: str, turned: bool) -> None:
    one = qdq(seed=len(name), opset=21)
    x = one.requantized(one.input("x", 5, 12), 0.03, 5)
    weight = FLOATS[name](one)
    if turned:
        y = one.add("MatMul", x, one.add("Transpose", weight, perm=[1, 0]), name="product")
    else:
        y = one.add("Gemm", x, weight, name="product", transB=1)
    model = one.model(one.requantized(y, 0.05, 120))
    graph, plain = (optimize(convert(model), standard_passes(integerize=integerize))
                    for integerize in (True, False))
    assert graph.notes == () and [node.op for node in graph.nodes].count("qdense") == 1
    feeds = {"x": one.rng.normal(size=(5, 12)).astype(np.float32)}
    found, wanted = (evaluate(made, feeds)[model.graph.output[0].name] for made in (graph, plain))
    assert np.abs(found - wanted).max() <= 1.01 * 0.05


def test_a_weight_of_float_data_stays_to_the_bit(qdq) -> None:
    one = qdq()
    weight = one.constant(one.rng.integers(-8, 8, (12, 7)).astype(np.float32))
    model = one.model(one.add("MatMul", one.input("x", 5, 12), weight))
    graph = optimize(convert(model))
    assert [node.op for node in graph.nodes] == ["matmul"] and weight in graph.constants
