"""Products that a node sums, counted in its loops."""

import pytest

from compiler.cpu_gpu_backends.multiplications import multiplications
from tests.support.integer_graphs import Net


@pytest.mark.parametrize(("build", "count"), [
    (lambda net, x: net.conv(x, 8, (3, 3), pads=(1, 1, 1, 1)), 8 * 36 * 4 * 9),
    (lambda net, x: net.conv(x, 8, (1, 1), strides=(2, 2)), 8 * 9 * 4),
    (lambda net, x: net.conv_transpose(x, 8, (2, 2), strides=(2, 2)), 4 * 36 * 8 * 4),
    (lambda net, x: net.add(x, x), 0),
    (lambda net, x: net.add_node("dequantize", x, scale=0.1, zp=0), 0)])
def test_products_of_a_node(build, count: int) -> None:
    net = Net(1)
    graph = net.graph(build(net, net.input(1, 4, 6, 6)))
    assert multiplications(graph, graph.nodes[-1]) == count
