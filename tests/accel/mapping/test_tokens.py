"""A vision transformer around its blocks: patches, a class token, positions, a mean or a token."""

import pytest

from compiler.graph import Graph
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.machines import MACHINES, TINY


def transformer(classified: str) -> tuple[Net, Graph]:
    """Tokens [1,10,C] of nine patches and a constant one, and their class."""
    net = Net(8)
    x, channels = net.conv(net.input(1, 3, 6, 6), 12, (2, 2), (2, 2)), 12
    x = net.transpose(net.reshape(x, 1, channels, 9), 0, 2, 1)
    token, position = (net.constant(net.rng.integers(-128, 128, (1, count, 12)).astype("int8"))
                       for count in (1, 10))
    x = net.add_node("qconcat", token, x, axis=1, bias=(7, -3), mult=(45678, 1 << 15),
                     shift=(15, 15), zp=3, lo=-128, hi=127)
    x = net.add(net.add(x, position), net.dense(x, channels))
    if classified == "token":
        y = net.reshape(net.slice(x, (0, 1, 1), (0, 1, 1)), 1, channels)
    else:
        y = net.add_node("qmean", x, axes=(1,), keepdims=0, bias=-30, mult=52429, shift=19, zp=0,
                         lo=-128, hi=127)
    return net, net.graph(net.dense(y, 5))


@pytest.mark.parametrize(("machine", "classified"), [("tiny-1x4x4", "token"), ("2x8x8", "mean")])
def test_tokens(machine: str, classified: str) -> None:
    net, graph = transformer(classified)
    assert_right(MACHINES[machine], graph, net.samples())


@pytest.mark.slow
@pytest.mark.parametrize("classified", ["token", "mean"])
def test_tokens_on_all_simulators(classified: str) -> None:
    net, graph = transformer(classified)
    samples = net.samples()
    assert_simulators_agree(TINY, assert_right(TINY, graph, samples), samples)
