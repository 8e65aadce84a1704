"""Products whose sums meet a residual in acc, right to the bit."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.machine.intrinsics import SHIPPED, instructions
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.machines import HALVED, MACHINES, TINY


def rows(net: Net, _: str) -> str:
    y = net.dense(net.input(3, 7, 8, name="r"), 8)
    return net.dense(y, 8, met=y)


PRODUCTS = {
    "convolution": lambda net, x: net.conv(x, 8, (3, 3), pads=(1, 1, 1, 1), pad_value=5, met=x),
    "strides": lambda net, x: net.conv(x, 8, (3, 2), (2, 3),
                                       met=net.max_pool(x, (3, 2), (2, 3))),
    "blocks": lambda net, x: net.conv(x, 16, (1, 3), pads=(0, 1, 0, 1), group=2,
                                      met=net.conv(x, 16, (1, 1))),
    "depthwise": lambda net, x: net.conv(x, 8, (3, 3), pads=(1, 1, 1, 1), group=8, met=x),
    "given": lambda net, x: net.conv(x, 5, (1, 1), met=net.input(3, 5, 6, 5, name="r")),
    "image": lambda net, x: net.dense(net.flatten(x), 11, net.input(3, 11, name="r")),
    "rows": rows,
}


def graph_of(name: str, **options):
    net = Net(len(name), **options)
    return net.graph(PRODUCTS[name](net, net.rescale(net.input(3, 8, 6, 5)))), net.samples()


@pytest.mark.one_in(7)
@pytest.mark.parametrize("name, machine", [*product(PRODUCTS, MACHINES)])
def test_products_meet_residuals(name: str, machine: str) -> None:
    graph, samples = graph_of(name)
    for threads in (1, 2):
        program = assert_right(MACHINES[machine], graph, samples, threads)
        names = [i.name for i in program.instructions(MACHINES[machine])]
        assert names.count("mul") == names.count("add") > 0


@settings(max_examples=tries(10))
@given(st.sampled_from(("tiny-1x4x4", "1x32x16")), st.integers(1, 3), st.integers(1, 20),
       st.integers(1, 9), st.booleans())
def test_any_extents(machine: str, images: int, channels: int, size: int, plain: bool) -> None:
    net = Net(channels)
    x = net.input(images, channels, size, 4)
    x = x if plain else net.rescale(x)
    graph = net.graph(net.conv(x, channels, (3, 3), pads=(1, 1, 1, 1), met=x))
    assert_right(MACHINES[machine], graph, net.samples())


def test_weights_of_two_terms_meet_a_residual() -> None:
    graph, samples = graph_of("convolution", weight_bits=9)
    assert_right(TINY, graph, samples)
    assert_right(HALVED, graph, samples)


@pytest.mark.parametrize("accumulator", ["int24", "int40"])
def test_other_accumulators(accumulator: str) -> None:
    graph, samples = graph_of("convolution")
    assert_right(Machine(TINY.config, instructions(accumulator=accumulator)), graph, samples)


def test_a_pool_beside_it_has_buffers_of_its_own() -> None:
    """Two layers at the same time, both with tensors in res."""
    net = Net(5)
    x = net.rescale(net.input(1, 16, 12, 12))
    graph = net.graph(net.max_pool(net.conv(x, 16, pads=(1, 1, 1, 1), met=x)))
    assert_right(TINY, graph, net.samples())


def test_a_machine_without_products_of_elements_leaves_it_to_the_host() -> None:
    graph, _ = graph_of("convolution")
    machine = Machine(TINY.config, tuple(one for one in SHIPPED if one.name != "mul"))
    node = graph.nodes[-1]
    reason = AccelTarget(machine).refusal(graph, node)
    assert reason == "no vector instruction computes r * factor"


def test_cycles_beside_an_addition_of_its_own() -> None:
    """One store and two loads of an image less, for two passes of vector more."""
    net = Net(3)
    x = net.rescale(net.input(1, 16, 12, 12))
    met = net.graph(net.conv(x, 16, pads=(1, 1, 1, 1), met=x))
    net = Net(3)
    x = net.rescale(net.input(1, 16, 12, 12))
    apart = net.graph(net.add(net.conv(x, 16, pads=(1, 1, 1, 1)), x))
    one, two = (cycle.simulate(TINY, AccelTarget(TINY).compile(graph).program, values=False).cycles
                for graph in (met, apart))
    assert one < two


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["tiny-1x4x4", "2x8x8"])
def test_every_simulator_computes_them(machine: str) -> None:
    graph, samples = graph_of("convolution")
    assert_simulators_agree(MACHINES[machine], assert_right(MACHINES[machine], graph, samples),
                            samples)
