"""Gradients of quantization in training, against their definition in NumPy."""

import numpy as np

from compiler.gradients import grad
from compiler.graph import evaluate
from tests.compiler.gradients.test_kinks import gradients
from tests.compiler.gradients.test_rules import SHAPES, network
from tests.support.gradient_cases import CASES


def test_straight_through_and_learned_step_sizes(rng: np.random.Generator) -> None:
    """Random shapes: what is clipped does not pass; step sizes of channels, and of tensors."""
    for _ in range(SHAPES):
        drawn = CASES["fake_quantize"](rng)
        graph, inputs, names = network("fake_quantize", drawn, rng)
        x, scale = inputs.values()
        axis, low, high = (drawn.attrs[name] for name in ("axis", "lo", "hi"))
        given = graph.constants["factors"]
        real = x / (scale.reshape(-1, *(1,) * (x.ndim - axis - 1)) if scale.ndim else scale)
        steps = np.rint(real).clip(low, high)
        inside = np.rint(real) == steps
        others = tuple(place for place in range(x.ndim) if not scale.ndim or place != axis)
        wanted = (given * inside).astype(np.float32), (
            given * (steps - real * inside)).sum(axis=others)
        made = list(evaluate(grad(graph, "loss", names), inputs).values())[1:]
        np.testing.assert_array_equal(made[0], wanted[0])
        np.testing.assert_allclose(made[1], wanted[1], rtol=1e-5, atol=1e-5)


def test_what_rounds_to_a_bound_passes() -> None:
    x, scale = gradients("fake_quantize", [-2.5, -2.125, 1, 1.625, 1.75], 0.5, axis=0, lo=-4, hi=3)
    assert x == [0, 1, 1, 1, 0]
    assert scale == -4 + (-4 + 4.25) + 0 + (3 - 3.25) + 3
