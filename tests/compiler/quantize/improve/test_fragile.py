"""What would lose too much in 8 bits: roots of sums of squares, and parts of very different ranges.
"""

import numpy as np
import pytest

from compiler.quantize import quantize

ROOT = "in int8 it would have "


def spectrum(one, power: float):
    """The magnitude of pairs of products, as the front ends of audio networks have it."""
    x = one.input("x", 1, 8)
    squares = [one.add("Pow", one.dense(x, 8, 8, name=f"part{i}"), one.constant(np.float32(2)),
                       name=f"square{i}") for i in range(2)]
    y = one.add("Pow", one.add("Add", *squares, name="sum"), one.constant(np.float32(power)),
                name="root")
    return one.model(one.dense(y, 8, 4, name="last"))


@pytest.fixture
def quiet_and_loud(rng):
    return (rng.normal(size=(32, 8)) * np.geomspace(0.003, 1, 32)[:, None]).astype(np.float32)


def test_roots_of_sums_of_squares_stay_in_float(float_model, quiet_and_loud) -> None:
    """With the squares, but not with the products."""
    made = quantize(spectrum(float_model(), 0.125), quiet_and_loud)
    reasons = {layer.name: layer.reason for layer in made.layers if not layer.quantized}
    assert reasons.pop("root").startswith(ROOT)
    assert reasons == dict.fromkeys(
        ("square0", "square1", "sum"), "no quantized layer computes from its result")
    assert made.decibels is not None and made.decibels > 20


def test_functions_that_lose_little_are_tables(float_model, quiet_and_loud) -> None:
    made = quantize(spectrum(float_model(), 1.0), quiet_and_loud)
    assert all(layer.quantized for layer in made.layers)


def states(one, outputs: int = 1):
    """A state of numbers up to 1, and up to 50; both are computed and given back together."""
    state = one.input("state", 1, 16)
    parts = [one.add("Slice", state, *(one.constant(np.array([n], np.int64)) for n in ends),
                     name=name) for name, ends in (("hidden", (0, 8, 1)), ("cell", (8, 16, 1)))]
    made = [one.dense(part, 8, 8, name=f"{name}.product")
            for part, name in zip(parts, ("hidden", "cell"), strict=True)]
    joined = one.add("Concat", *made, name="joined", axis=1)
    return one.model(joined if outputs == 1 else one.dense(joined, 16, 4, name="last"))


@pytest.fixture
def unequal(rng):
    return (rng.uniform(-1, 1, size=(32, 16)) * ([1] * 8 + [50] * 8)).astype(np.float32)


def test_parts_of_what_is_in_float_have_scales_of_their_own(float_model, unequal,
                                                            onnx_runtime) -> None:
    model = states(float_model())
    made = quantize(model, unequal)
    reasons = {layer.name: layer.reason for layer in made.layers if not layer.quantized}
    assert {*reasons} == {"hidden", "joined"}
    assert reasons["hidden"].startswith("its part of what is in float has a scale of its own")
    found, wanted = (onnx_runtime(each, {"state": unequal[:1]})[0][:, :8]
                     for each in (made.model, model))
    assert np.abs(found - wanted).max() < 0.02 * np.abs(wanted).max()


def test_what_products_read_is_joined_in_integers(float_model, unequal) -> None:
    made = quantize(states(float_model(), 2), unequal)
    assert [layer.name for layer in made.layers if not layer.quantized] == ["hidden"]


def test_positions_are_no_number(float_model, rng) -> None:
    """A function may add a constant of many elements to what another makes."""
    one = float_model()
    y = one.add("Exp", one.add("MatMul", one.input("x", 1, 5, 8), one.random(8, 8)))
    y = one.add("MatMul", one.add("Add", y, one.random(5, 8)), one.random(8, 4))
    made = quantize(one.model(y), rng.standard_normal((8, 5, 8), np.float32))
    assert all(layer.quantized for layer in made.layers)
