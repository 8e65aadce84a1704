"""Weights seen alike: factors of channels go into them, whatever the operator."""

import numpy as np
import pytest

from compiler.ops.registry import OPERATORS, find

WINDOW = {"strides": (1, 1), "pads": (0, 0, 0, 0)}
IMAGE, ROWS = (2, 6, 5, 4), (3, 6)
CASES = [
    ("conv2d", {**WINDOW}, IMAGE, (4, 6, 2, 3)),
    ("conv2d", {**WINDOW, "group": 2}, IMAGE, (4, 3, 2, 3)),
    ("convtranspose2d", {**WINDOW}, IMAGE, (6, 4, 2, 3)),
    ("convtranspose2d", {**WINDOW, "group": 2}, IMAGE, (6, 2, 2, 3)),
    ("dense", {"trans_b": 0}, ROWS, (6, 4)),
    ("dense", {"trans_b": 1}, ROWS, (4, 6)),
    ("matmul", {}, ROWS, (6, 4)),
]
OUTWARD = np.array([2, 0.5, 4, 1], np.float32)
INWARD = np.array([1, 2, 0.25, 8, 0.5, 4], np.float32)
each_case = pytest.mark.parametrize(("op", "attrs", "data", "weight"), CASES,
                                    ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)])


def test_every_operator_with_weights_has_a_case() -> None:
    assert {op for op, *_ in CASES} == {name for name, one in OPERATORS.items() if one.weights}


@each_case
def test_factors_of_channels(op, attrs, data, weight, rng) -> None:
    """Powers of two, so that all is equal to the bit."""
    operator = find(op)
    weights = operator.weights
    assert weights is not None
    x, w = (rng.normal(size=shape).astype(np.float32) for shape in (data, weight))
    plain = operator.meaning(attrs, x, w)
    along = [1] * plain.ndim
    along[weights.axis] = -1
    np.testing.assert_array_equal(
        operator.meaning(attrs, x, weights.scaled(attrs, w, outward=OUTWARD)),
        plain * OUTWARD.reshape(along))
    np.testing.assert_array_equal(
        operator.meaning(attrs, x, weights.scaled(attrs, w, inward=INWARD)),
        operator.meaning(attrs, x * INWARD.reshape(along), w))


@each_case
def test_a_view_is_restored(op, attrs, data, weight, rng) -> None:
    weights = find(op).weights
    assert weights is not None
    w = rng.normal(size=weight).astype(np.float32)
    view = weights.alike(attrs, w)
    assert np.shares_memory(view, w) and view.shape[0] == attrs.get("group", 1)
    assert weights.outputs(attrs, w) == 4
    assert weight[weights.scale_axis(attrs)] in (4, view.shape[1])
    np.testing.assert_array_equal(weights.restored(attrs, view, w.shape), w)
