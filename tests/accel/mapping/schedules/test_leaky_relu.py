"""Leaky relu: two requantizations in acc and their maximum, right to the bit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.machine.intrinsics import instructions
from accel.machine.machine import Machine
from accel.mapping.schedules.ranking import choose
from accel.mapping.schedules.tiles import shape_of
from accel.mapping.target import AccelTarget
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.machines import LONG, MACHINES, TINY
from tests.support.slow_cases import each_once


@settings(max_examples=tries(8))
@given(st.sampled_from(("tiny-1x4x4", "2x8x8", "1x32x16", "short", "short-batch")),
       st.integers(1, 40), st.integers(1, 5), st.integers(1, 2), st.booleans(),
       st.sampled_from((1, 2)))
def test_leaky_relu(machine, channels, size, images, plain, threads) -> None:
    net = Net(channels)
    few = machine.startswith("short")
    x = net.input(images, min(channels, 12) if few else channels, size, 3)
    y = net.leaky_relu(x if plain else net.rescale(x))
    assert_right(MACHINES[machine], net.graph(y), net.samples(), threads)


PRODUCTS = {
    "convolution": lambda net, x: net.conv(x, 9, (3, 2), pads=(1, 0, 1, 2)),
    "blocks": lambda net, x: net.conv(x, 16, (3, 3), group=2),
    "depthwise": lambda net, x: net.conv(x, 8, (3, 3), group=8),
    "transposed": lambda net, x: net.conv_transpose(x, 6, (2, 3), (2, 2)),
    "phases": lambda net, x: net.conv_transpose(x, 6, (2, 2)),
    "dense": lambda net, x: net.dense(net.flatten(x), 11),
    "after": lambda net, x: net.rescale(net.conv(x, 9, (1, 1))),
}


@pytest.mark.one_in(17)
@pytest.mark.parametrize("name, machine, plain", [
    (name, machine, plain) for name in PRODUCTS for machine in MACHINES for plain in (False, True)])
def test_products_with_a_slope(name: str, machine: str, plain: bool) -> None:
    """Two requantizations of the sums in acc, and their maximum."""
    net = Net(len(name), slopes=True)
    x = net.input(1 if name == "dense" else 3, 8, 6, 5)
    graph = net.graph(PRODUCTS[name](net, x if plain else net.rescale(x)))
    for threads in (1, 2):
        program = assert_right(MACHINES[machine], graph, net.samples(), threads)
        names = [i.name for i in program.instructions(MACHINES[machine])]
        assert "max" in names and 2 * names.count("max") <= names.count("requantize")


def test_activations_of_16_bits_with_a_slope() -> None:
    net = Net(3, element="int16", slopes=True)
    graph = net.graph(net.conv(net.rescale(net.input(1, 8, 5, 5)), 9))
    assert_right(LONG, graph, net.samples())


@each_once("name, accumulator", ["convolution", "depthwise", "after"], ["int40", "int48"])
def test_wide_accumulators_with_a_slope(name: str, accumulator: str) -> None:
    """What is computed on the way to the greater is as wide as acc."""
    net = Net(len(name), element="int16", slopes=True)
    graph = net.graph(PRODUCTS[name](net, net.input(1, 8, 4, 4)))
    deep = Machine(TINY.config, instructions("int16", "int8", "int16", accumulator))
    assert_right(deep, graph, net.samples())


@pytest.mark.slow
def test_every_simulator_computes_products_with_a_slope() -> None:
    net = Net(5, slopes=True)
    graph = net.graph(net.conv(net.rescale(net.input(1, 8, 6, 5)), 9))
    samples = net.samples()
    assert_simulators_agree(TINY, assert_right(TINY, graph, samples), samples)


def test_both_sums_fit_acc() -> None:
    """A tile that would fill acc by itself is cut: there are two of it."""
    net = Net(2)
    graph = net.graph(net.leaky_relu(net.rescale(net.input(1, 16, 24, 24))))
    compiled = AccelTarget(TINY).compile(graph)
    shape = shape_of(compiled.layers[1].operator)
    tiles = choose(TINY.config, shape, 2)
    assert 4 * tiles.rows * tiles.columns * tiles.channels <= TINY.config.buffers["acc"].depth
    assert_right(TINY, graph, net.samples())
