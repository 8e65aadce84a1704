"""An instruction that a machine has more costs no layer its integers."""

from random import Random

import numpy as np
import pytest

from compiler import te
from compiler.ops.patterns import Pattern
from compiler.quantize import quantize
from tests.support.matched_networks import TWO_INPUTS, lost, random_network, random_patterns
from tests.compiler.quantize.networks.test_functions import SHAPE, samples

X, Y = te.Var("x", "float32"), te.Var("y", "float32")
X0, X1 = te.Var("x0", "int32"), te.Var("x1", "int32")
ADDRELU = Pattern("addrelu", (X, Y), TWO_INPUTS["addrelu"], te.clamp(X0 + X1, -128, 127), (),
                  lambda *quantized: {})


def residual(float_model, activation: str, *slope: float):
    """A sum of a convolution and of what an activation leaves of another; relu; a pool."""
    one = float_model()
    x = one.conv(one.input("x", 1, *SHAPE[1:]), SHAPE[1], 8)
    more = [one.constant(np.full((8, 1, 1), number, np.float32)) for number in slope]
    y = one.add(activation, x, *more)
    total = one.add("Add", one.conv(y, 8, 8), y, name="total")
    return one.model(one.add("GlobalAveragePool", one.add("Relu", total), name="pool"))


def test_operators_of_a_match_are_tried_alone(float_model, rng) -> None:
    """Slopes of channels leave a prelu in float, so that the sum behind it is no match."""
    model = residual(float_model, "PRelu", 0.25)
    with_it, without = (quantize(model, samples(rng), patterns=some) for some in ([ADDRELU], []))
    assert [layer.quantized for layer in with_it.layers] == [
        layer.quantized for layer in without.layers]
    (layer,) = (layer for layer in with_it.layers if layer.declined)
    assert layer.name == "total" and layer.quantized and not layer.by
    assert layer.declined.startswith("addrelu is not used: it reads 'prelu")
    assert layer.declined.endswith("', which is not quantized")


def test_without_the_hindrance_it_is_a_match(float_model, rng) -> None:
    made = quantize(residual(float_model, "Relu"), samples(rng), patterns=[ADDRELU])
    assert [layer.by for layer in made.layers if layer.by] == ["addrelu"]


def test_a_match_that_takes_another_layer_apart_is_dropped(float_model, rng) -> None:
    """An exponential inside a gate leaves a quotient of two values, which has no integer form."""
    one = float_model()
    x = one.conv(one.input("x", 1, *SHAPE[1:]), SHAPE[1], 8, name="first")
    power = one.add("Exp", one.add("Neg", x))
    gated = one.add("Div", x, one.add("Add", power, one.constant(np.float32(1))), name="gated")
    own = Pattern("power", (X,), te.exp(-X), te.clamp(X0, -128, 127), (), lambda *quantized: {})
    made = quantize(one.model(one.conv(gated, 8, 8)), samples(rng), patterns=[own])
    assert all(layer.quantized for layer in made.layers)
    assert [layer.declined for layer in made.layers if layer.declined] == [
        "power is not used: with it gated (div) would stay in float"]


@pytest.mark.parametrize("seeds", [(9,), pytest.param(range(500), marks=pytest.mark.slow)])
def test_no_instruction_loses_a_layer(seeds) -> None:
    """Random networks with random instructions: what is of integers without them is so with them.
    """
    for seed in seeds:
        rng = Random(seed)
        graph, patterns = random_network(rng), random_patterns(rng)
        assert not lost(graph, patterns), f"seed {seed}"
