"""Nearest-neighbour resizing and slices: what ONNX Runtime makes of them, in float and integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend import ImportRefused, convert
from compiler.graph import evaluate, optimize, standard_passes
from tests.support.effort import tries

PLACES = ["asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"]
ROUNDINGS = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]


def resized(one, x: str, factors: tuple[int, int], sizes: tuple[int, ...] = (), **attrs) -> str:
    scales = one.constant(np.array([1, 1, *factors], np.float32)) if not sizes else ""
    more = [one.constant(np.array(sizes, np.int64))] if sizes else []
    return one.add("Resize", x, "", scales, *more, mode="nearest", **attrs)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_what_is_taken_is_what_onnx_runtime_does(qdq, onnx_values, rng, place, rounding) -> None:
    """And what is not taken is no repetition."""
    feeds = {"x": rng.normal(size=(1, 2, 4, 5)).astype(np.float32)}
    taken = 0
    for factors in [(1, 1), (2, 2), (3, 2), (1, 5), (4, 1)]:
        one = qdq(opset=19)
        y = resized(one, one.input("x", 1, 2, 4, 5), factors, nearest_mode=rounding,
                    coordinate_transformation_mode=place)
        wanted = onnx_values(one.model(y), feeds)[y]
        repeated = feeds["x"].repeat(factors[0], 2).repeat(factors[1], 3)
        try:
            graph = optimize(convert(one.model(y)), standard_passes(integerize=False))
        except ImportRefused:
            assert not np.array_equal(repeated, wanted), (place, rounding, factors)
            continue
        np.testing.assert_array_equal(evaluate(graph, feeds)[y], wanted)
        taken += 1
    assert taken >= 1


def test_sizes_and_opset_10(qdq, onnx_values, rng) -> None:
    feeds = {"x": rng.normal(size=(1, 2, 4, 5)).astype(np.float32)}
    for opset in (10, 13):
        one = qdq(opset=opset)
        x = one.input("x", 1, 2, 4, 5)
        if opset == 10:
            scales = one.constant(np.array([1, 1, 2, 3], np.float32))
            y = one.add("Resize", x, scales, mode="nearest")
        else:
            y = resized(one, x, (0, 0), (1, 2, 8, 15))
        graph = optimize(convert(one.model(y)), standard_passes(integerize=False))
        wanted = onnx_values(one.model(y), feeds)[y]
        np.testing.assert_array_equal(evaluate(graph, feeds)[y], wanted)


def sliced(one, x: str, starts, ends, *more) -> str:
    return one.add("Slice", x, *(one.constant(np.array(side, np.int64))
                                 for side in (starts, ends, *more)))


def test_a_slice_with_steps_and_no_axes(qdq, onnx_values, rng) -> None:
    one = qdq()
    starts, ends, steps = (one.constant(np.array(side, np.int64))
                           for side in ([0, 1], [2, 6], [1, 2]))
    y = one.add("Slice", one.input("x", 2, 6, 5), starts, ends, "", steps)
    feeds = {"x": rng.normal(size=(2, 6, 5)).astype(np.float32)}
    graph = optimize(convert(one.model(y)), standard_passes(integerize=False))
    np.testing.assert_array_equal(evaluate(graph, feeds)[y], onnx_values(one.model(y), feeds)[y])


@pytest.mark.parametrize("sides", [
    ([1, 0, 2], [2, 9, 4]), ([-3], [-1], [-1]), ([0, 1], [2**63 - 1, -1], [3, 1], [2, 3]),
    ([1], [2], [2])], ids=str)
def test_slices(qdq, onnx_values, rng, sides) -> None:
    one = qdq()
    y = sliced(one, one.input("x", 2, 6, 5, 7), *sides)
    feeds = {"x": rng.normal(size=(2, 6, 5, 7)).astype(np.float32)}
    graph = optimize(convert(one.model(y)), standard_passes(integerize=False))
    np.testing.assert_array_equal(evaluate(graph, feeds)[y], onnx_values(one.model(y), feeds)[y])


@settings(max_examples=tries(20))
@given(st.sampled_from(("int8", "uint8")), st.booleans(), st.booleans(), st.integers(0, 1 << 16))
def test_integers(qdq, layer_differences, dtype: str, slices: bool, rescaled: bool,
                  seed: int) -> None:
    """No arithmetic but where the scale changes."""
    one = qdq(seed=seed)
    x = one.requantized(one.input("x", 4, 6, 5, 7), 0.05, 7, dtype)
    y = sliced(one, x, [1, 0], [5, 4], [1, 2]) if slices else resized(one, x, (2, 3))
    model = one.model(one.requantized(y, 0.0617 if rescaled else 0.05, 7, dtype))
    graph = optimize(convert(model))
    assert graph.notes == ()
    assert [node.op for node in graph.nodes] == [
        "quantize", "slice" if slices else "upsample", *["qrescale"] * rescaled, "dequantize"]
    feeds = {"x": (2 * one.rng.normal(size=(4, 6, 5, 7))).astype(np.float32)}
    for layer in layer_differences(model, feeds):
        assert layer.largest <= (1 if rescaled else 0) and layer.equal >= 0.99, layer


def test_a_slice_of_everything_leaves_no_operator(qdq) -> None:
    one = qdq()
    y = sliced(one, one.requantized(one.input("x", 1, 2, 3, 4)), [0, 0], [9, 9], [1, 2])
    z = resized(one, y, (1, 1))
    graph = optimize(convert(one.model(one.requantized(z))))
    assert [node.op for node in graph.nodes] == ["quantize", "dequantize"]
