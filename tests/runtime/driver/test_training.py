"""Steps of training are those of the books, to float32; and the same again to the bit."""

import re

import numpy as np
import pytest

import lockstep
from compiler.errors import ArgumentError
from compiler.gradients.steps import Optimizer, training_step
from compiler.graph import Builder, Graph, TensorType, evaluate

ROWS, WIDTH, RESULTS = 4, 3, 2


def linear(rows: int = ROWS) -> Graph:
    """x w + b, with weights that are drawn."""
    rng, net = np.random.default_rng(1), Builder("linear")
    net.add_input("x", TensorType((rows, WIDTH), "float32"))
    net.add_constant("w", rng.standard_normal((WIDTH, RESULTS)).astype(np.float32))
    net.add_constant("b", rng.standard_normal(RESULTS).astype(np.float32))
    net.emit("dense", "dense", ["x", "w", "b"], "y", trans_b=0)
    return net.finish(["y"])


def some_batches(rng: np.random.Generator, count: int) -> list[dict[str, np.ndarray]]:
    return [{"x": rng.standard_normal((ROWS, WIDTH)).astype(np.float32),
             "target": rng.standard_normal((ROWS, RESULTS)).astype(np.float32)}
            for _ in range(count)]


def slopes(w: np.ndarray, b: np.ndarray, batch: dict) -> list[np.ndarray]:
    """The gradients of the mean squared error, as algebra has them."""
    apart = 2 * (batch["x"] @ w + b - batch["target"]) / (ROWS * RESULTS)
    return [batch["x"].T @ apart, apart.sum(0)]


def by_sgd(values: list, batches: list[dict]) -> list:
    velocity = [np.zeros_like(value) for value in values]
    for batch in batches:
        for k, slope in enumerate(slopes(values[0], values[1], batch)):
            velocity[k] = 0.8 * velocity[k] + slope + 0.01 * values[k]
        values = [value - 0.1 * each for value, each in zip(values, velocity, strict=True)]
    return values


def by_adam(values: list, batches: list[dict]) -> list:
    mean, square = ([np.zeros_like(value) for value in values] for _ in "ms")
    for time, batch in enumerate(batches, 1):
        for k, slope in enumerate(slopes(values[0], values[1], batch)):
            mean[k] = 0.9 * mean[k] + 0.1 * slope
            square[k] = 0.99 * square[k] + 0.01 * slope ** 2
        values = [value - 0.1 * (m / (1 - 0.9 ** time)) / np.sqrt(s / (1 - 0.99 ** time))
                  for value, m, s in zip(values, mean, square, strict=True)]
    return values


SGD = lockstep.Sgd(rate=0.1, momentum=0.8, decay=0.01)
ADAM = lockstep.Adam(rate=0.1, square=0.99, epsilon=0.0)


@pytest.mark.parametrize(("optimizer", "formula"), [(SGD, by_sgd), (ADAM, by_adam)],
                         ids=["sgd", "adam"])
def test_steps_are_those_of_the_formula(optimizer: Optimizer, formula,
                                        rng: np.random.Generator) -> None:
    graph, given = linear(), some_batches(rng, 5)
    step = training_step(lockstep.mean_squared_error(graph, "y"), "loss", ["w", "b"], optimizer)
    values = dict(step.first)
    for time, batch in enumerate(given):
        made = evaluate(step.graph, {**batch, **values, step.time: np.array(time),
                                     step.rate: np.array(optimizer.rate, np.float32)})
        values = {name: made[output] for name, output in step.next.items()}
    wanted = formula([graph.constants[name].astype(np.float64) for name in "wb"], given)
    for name, value in zip("wb", wanted, strict=True):
        np.testing.assert_allclose(values[name], value, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def trainers() -> list[lockstep.Trainer]:
    """Two of the same network, compiled once."""
    graph = lockstep.mean_squared_error(linear(), "y")
    return [lockstep.Trainer(graph, parameters=["w", "b"], optimizer=SGD) for _ in range(2)]


def test_a_repetition_gives_the_same_bits(trainers: list[lockstep.Trainer]) -> None:
    """And what was to be found is found: the weights behind the targets."""
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((32, WIDTH)).astype(np.float32), np.array([[1, 2], [3, 4], [5, 6]])
    arrays = {"x": x, "target": (x @ w - 1).astype(np.float32)}
    first, second = (trainer.fit(lockstep.batches(arrays, ROWS, epochs=30, seed=3))
                     for trainer in trainers)
    assert first == second and first[-1] < 0.01 * first[0]
    for name, array in trainers[0].parameters.items():
        assert array.tobytes() == trainers[1].parameters[name].tobytes()
    made = trainers[0].network(linear(rows=1))
    found = evaluate(made, {"x": np.array([[1, 0, 0]], np.float32)})["y"]
    np.testing.assert_allclose(found, [[0, 1]], atol=0.2)


def test_a_step_that_ends_in_no_number_changes_nothing(trainers: list[lockstep.Trainer]) -> None:
    trainer = trainers[0]
    before, steps = trainer.parameters, trainer.steps
    batch = {"x": np.full((ROWS, WIDTH), np.nan, np.float32),
             "target": np.zeros((ROWS, RESULTS), np.float32)}
    message = (f"step {steps}: the loss must be a number, not nan; the input 'x' has NaN; a lower "
               "rate than 0.1 may help")
    with pytest.raises(lockstep.TrainingError, match=f"^{message}$"):
        trainer.step(batch)
    assert trainer.steps == steps
    for name, array in trainer.parameters.items():
        np.testing.assert_array_equal(array, before[name])


def test_a_rate_that_is_given_takes_the_place(trainers: list[lockstep.Trainer],
                                              rng: np.random.Generator) -> None:
    before = trainers[1].parameters
    trainers[1].step(*some_batches(rng, 1), rate=0.0)
    np.testing.assert_array_equal(trainers[1].parameters["w"], before["w"])


def test_what_the_trainer_has_is_not_given(trainers: list[lockstep.Trainer],
                                           rng: np.random.Generator) -> None:
    batch, = some_batches(rng, 1)
    for name in ("w", "b.velocity", "rate"):
        with pytest.raises(lockstep.InputError,
                           match=f"^Input {name} must not be given: the trainer has it$"):
            trainers[0].step({**batch, name: np.zeros(1)})


def test_batches_are_drawn_without_repetition() -> None:
    rows = np.arange(10)
    drawn = list(lockstep.batches({"a": rows, "b": rows * 2}, 3, epochs=2, seed=1))
    assert len(drawn) == 6
    for batch in drawn:
        np.testing.assert_array_equal(batch["b"], batch["a"] * 2)
    for epoch in (drawn[:3], drawn[3:]):
        assert len({int(row) for batch in epoch for row in batch["a"]}) == 9
    again = list(lockstep.batches({"a": rows}, 3, epochs=2, seed=1))
    assert all(np.array_equal(one["a"], other["a"])
               for one, other in zip(drawn, again, strict=True))


def test_wrong_requests_are_refused() -> None:
    graph = lockstep.mean_squared_error(linear(), "y")
    with pytest.raises(lockstep.GradientRefused, match=re.escape(
            "linear: a parameter must be a constant of floats, not 'x'; there are w, b")):
        lockstep.Trainer(graph, parameters=["x"])
    with pytest.raises(ArgumentError, match=re.escape(
            "arrays must have as many rows each, at least the 3 of a batch, not {'a': 2}")):
        lockstep.batches({"a": np.zeros(2)}, 3)
    with pytest.raises(ArgumentError, match=re.escape(
            "Sgd: momentum must be a number of at least 0, below 1, not 1")):
        lockstep.Sgd(momentum=1)
    with pytest.raises(ArgumentError, match=re.escape(
            "Adam: rate must be a number of at least 0, not nan")):
        lockstep.Adam(rate=float("nan"))


def test_an_accelerator_that_computes_nothing_of_a_step_is_refused() -> None:
    with pytest.raises(ArgumentError, match="^target must be a processor or GPU, not "
                                            "'accel:tiny-1x4x4': no part of the step runs on the "
                                            "accelerator$"):
        lockstep.Trainer(lockstep.mean_squared_error(linear(), "y"), parameters="w",
                         target="accel:tiny-1x4x4")


def test_another_network_must_have_the_parameters(trainers: list[lockstep.Trainer]) -> None:
    with pytest.raises(lockstep.GradientRefused, match=re.escape(
            "other: 'w' must be a constant float32[3,2], not none")):
        trainers[0].network(Builder("other").finish([]))
