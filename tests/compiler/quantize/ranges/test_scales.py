"""Scales of activations, weights and biases."""

import numpy as np
import pytest

from compiler.quantize.ranges.scales import BIAS_LIMIT, Scale, quantized_bias, quantized_weight


@pytest.mark.parametrize(("low", "high"), [(-1, 3), (0, 7), (2, 5), (-5, -1), (0, 0), (-3e38, 1)])
def test_zero_is_exact_and_ends_are_near(low, high) -> None:
    one = Scale.of(low, high)
    ends = np.array([0.0, low, high])
    assert one.rounded(ends)[0] == 0
    np.testing.assert_allclose(one.rounded(ends), ends, atol=0.51 * float(one.scale) + 1e-6)


def test_symmetric() -> None:
    one = Scale.of(-1, 2.54, symmetric=True)
    assert (one.zero, one.scale) == (128, np.float32(0.02))


@pytest.mark.parametrize(("span", "bounds", "reached"), [
    ((0, 5), (0, np.inf), False), ((0, 5), (0, 6), False), ((0, 6), (0, 6), False),
    ((0, 7), (0, 6), True), ((-0.1, 5), (0, np.inf), True), ((-1, 1), (-np.inf, np.inf), False)])
def test_bounds_that_change_nothing(span, bounds, reached) -> None:
    assert Scale.of(*span).reaches(*bounds) == reached


@pytest.mark.parametrize("axis", [0, 1])
def test_weights_and_biases(rng, axis) -> None:
    weight = rng.standard_normal((4, 4, 3, 3), np.float32)
    bias = rng.standard_normal(4).astype(np.float32)
    steps, scale = quantized_weight(weight, axis, bias, np.float32(0.1))
    rows = np.abs(np.moveaxis(steps.astype(int), axis, 0)).reshape(4, -1).max(axis=1)
    assert rows.tolist() == [127] * 4 and steps.dtype == np.int8
    wide = scale.reshape([-1 if i == axis else 1 for i in range(4)])
    assert np.abs(steps * wide - weight).max() <= 0.51 * scale.max()
    both = np.float32(0.1) * scale
    assert np.abs(quantized_bias(bias, both) * both - bias).max() <= 0.51 * both.max()


def test_a_large_bias_makes_a_coarser_weight() -> None:
    """Else its steps would not fit the accumulator."""
    weight, bias = np.full((1, 2), 1e-9, np.float32), np.ones(1, np.float32)
    steps, scale = quantized_weight(weight, 0, bias, np.float32(0.01))
    assert quantized_bias(bias, np.float32(0.01) * scale)[0] == pytest.approx(BIAS_LIMIT, rel=1e-6)
    assert not steps.any()


def test_a_channel_without_weights_keeps_its_bias() -> None:
    bias = np.array([0.003, 0], np.float32)
    steps, scale = quantized_weight(np.zeros((2, 3), np.float32), 0, bias, np.float32(0.02))
    both = np.float32(0.02) * scale
    np.testing.assert_allclose(quantized_bias(bias, both) * both, bias, rtol=1e-5)
    assert not steps.any() and (scale > 0).all()


@pytest.mark.parametrize("activations, accumulators", [(16, 32), (16, 40), (16, 48), (8, 24),
                                                       (8, 16)])
def test_weights_are_as_coarse_as_sums_need(rng, activations, accumulators) -> None:
    """Sums stay within; wide accumulators leave the weights as they are."""
    for inputs in (9, 72, 3000):
        weight = rng.standard_normal((4, inputs)).astype(np.float32)
        bias = np.zeros(4, np.float32)
        steps, scale = quantized_weight(weight, 0, bias, np.float32(0.01), 8, activations,
                                        accumulators)
        _, whole = quantized_weight(weight, 0, bias, np.float32(0.01))
        reached = np.abs(steps.astype(int)).sum(axis=1) << activations - 1
        if accumulators > 32:
            assert (scale == whole).all()
        elif (scale == whole).all():        # it fits as it is, or would need too few steps
            fitting = np.abs(weight).sum(axis=1) * 2.0**(activations + 16 - accumulators) / 48000
            assert (reached < 1 << accumulators - 1).all() or (fitting > 8 * whole).any()
        else:
            assert (reached < 1 << accumulators - 1).all() and (scale <= 8 * whole).all()


def test_layers_that_would_keep_too_few_steps_keep_them_all(rng) -> None:
    weight = rng.standard_normal((4, 576)).astype(np.float32)
    arguments = weight, 0, np.zeros(4, np.float32), np.float32(0.01), 8, 8
    for one, other in zip(quantized_weight(*arguments, 16), quantized_weight(*arguments)):
        assert (one == other).all()
