"""Training of the digits network by Lockstep: its step lowers the loss, in the reference too."""

import numpy as np
import pytest

import lockstep
from compiler.frontend.models import graph_of
from compiler.gradients.steps import training_step
from compiler.graph import evaluate
from examples.digits.data import held_out
from examples.digits.export import float_model
from examples.digits.from_scratch import (NAMES, PEAK_RATE, accuracy, folded, random_parameters,
                                          rates, shifted, train, training_model)


def test_steps_lower_the_loss(rng: np.random.Generator) -> None:
    images, labels = (array[:16] for array in held_out())
    network = lockstep.cross_entropy(training_model(random_parameters(rng), 16), "logits")
    step = training_step(network, "loss", NAMES, lockstep.Adam())
    values, losses = dict(step.first), []
    for time in range(4):
        made = evaluate(step.graph, {
            "image": shifted(images, rng), "labels": labels, **values,
            step.time: np.array(time), step.rate: np.array(5e-3, np.float32)})
        values = {name: made[output] for name, output in step.next.items()}
        losses.append(float(made["loss"]))
    assert losses[0] > 1.5 and losses[-1] < 0.7 * losses[0]


def test_the_rate_goes_up_and_down() -> None:
    drawn = list(rates(30))
    assert drawn.index(max(drawn)) in (8, 9) and max(drawn) <= PEAK_RATE
    assert 0 < drawn[0] < 0.2 * PEAK_RATE and 0 < drawn[-1] < 0.01 * PEAK_RATE


def test_norms_are_folded(rng: np.random.Generator) -> None:
    """The network with norms folded gives what it gave on the images that these were taken from."""
    parameters, images = random_parameters(rng), held_out()[0][:8]
    for name in NAMES:
        parameters[name] = parameters[name] + 0.1 * rng.random(parameters[name].shape, np.float32)
    together = evaluate(graph_of(training_model(parameters, 8)), {"image": images})
    alone = graph_of(float_model(folded(parameters, together)))
    for row, image in zip(together["logits"], images, strict=True):
        np.testing.assert_allclose(evaluate(alone, {"image": image[None]})["logits"][0], row,
                                   rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_it_learns_to_read() -> None:
    pytest.importorskip("sklearn.datasets")
    from examples.digits.data import training

    assert accuracy(train(*training())) >= 0.975
