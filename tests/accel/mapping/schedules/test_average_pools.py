"""Average pools with windows: right to the bit, or refused."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.graph import evaluate
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import MACHINES, SHORT, TINY

pairs = st.tuples(st.integers(1, 4), st.integers(1, 4))
strides = st.tuples(st.integers(1, 3), st.integers(1, 3))
pads = st.tuples(*[st.integers(0, 3)] * 4)


@settings(max_examples=tries(15))
@given(st.sampled_from(("tiny-1x4x4", "2x8x8", "short")), st.integers(1, 40), pairs, pairs,
       strides, pads, st.integers(-128, 127), st.booleans(), st.booleans())
def test_average_pools(machine, channels, size, kernel, strides, pads, pad_value, pixelwise,
                       plain) -> None:
    pads = tuple(min(pad, kernel[side % 2] - 1) for side, pad in enumerate(pads))
    assume(all(extent + pads[i] + pads[i + 2] >= kernel[i] for i, extent in enumerate(size)))
    net = Net(channels)
    x = net.input(1 + channels % 3, min(channels, 12) if machine == "short" else channels, *size)
    y = net.average_pool(x if plain else net.rescale(x), kernel, strides, pads, pad_value,
                         pixelwise)
    assert_right(MACHINES[machine], net.graph(y), net.samples())


def test_every_pixel_has_its_own_parameters() -> None:
    """Tiles of several rows and columns, the parameters of each loaded once for all channels."""
    net = Net(3)
    x = net.input(1, 24, 7, 6)
    graph = net.graph(net.average_pool(x, (3, 3), (1, 1), (1, 1, 1, 1), 5, pixelwise=True))
    program = assert_right(TINY, graph, net.samples())
    assert program.weights.size == -(-7 * 6 * 4 * 8 // 64) * 64
    for threads in (1, 2):
        assert_right(SHORT, graph, net.samples(), threads)


def test_results_spread() -> None:
    """Data that would not notice a wrong divisor is no test."""
    net = Net(3)
    graph = net.graph(net.average_pool(net.input(2, 9, 6, 6), (2, 3), (1, 1), pixelwise=True))
    (found,) = evaluate(graph, net.samples()).values()
    assert len(np.unique(found)) > 60
