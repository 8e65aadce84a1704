"""Leaky relu: two requantizations in acc and their maximum, right to the bit."""

from hypothesis import given, settings
from hypothesis import strategies as st

from accel.mapping.schedules.tiles import choose, shape_of
from accel.mapping.target import AccelTarget
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import MACHINES, TINY


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


def test_both_sums_fit_acc() -> None:
    """A tile that would fill acc by itself is cut: there are two of it."""
    net = Net(2)
    graph = net.graph(net.leaky_relu(net.rescale(net.input(1, 16, 24, 24))))
    compiled = AccelTarget(TINY).compile(graph)
    shape = shape_of(compiled.layers[1].operator)
    tiles = choose(TINY.config, shape, 2)
    assert 4 * tiles.rows * tiles.columns * tiles.channels <= TINY.config.buffers["acc"].depth
    assert_right(TINY, graph, net.samples())
