"""Products of two computed matrices, the second loaded as weights: right to the bit, or refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.target import AccelTarget
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import MACHINES, TINY

extent = st.integers(1, 40)


@settings(max_examples=12)
@given(st.sampled_from(("tiny-1x4x4", "2x8x8", "1x32x16", "short", "short-batch")), extent, extent,
       extent, st.booleans(), st.booleans(), st.sampled_from((1, 2)))
def test_products(machine, rows, depth, columns, trans_b, plain, threads) -> None:
    if machine.startswith("short"):
        rows, depth, columns = (min(size, 9) for size in (rows, depth, columns))
    net = Net(rows)
    a = net.input(rows, depth)
    b = net.input(*((columns, depth) if trans_b else (depth, columns)), name="b")
    y = net.matmul(a, b if plain else net.rescale(b), trans_b)
    assert_right(MACHINES[machine], net.graph(y), net.samples(), threads)


@pytest.mark.parametrize("trans_b", [False, True])
def test_both_come_from_layers_before(trans_b: bool) -> None:
    """And padding lanes of both hold what those left there."""
    net = Net(4)
    x = net.input(6, 5)
    a, b = net.dense(x, 7), net.dense(x, 7 if trans_b else 9)
    y = net.matmul(a, b, trans_b) if trans_b else net.matmul(net.dense(x, 6), b)
    assert_right(TINY, net.graph(net.dense(y, 3)), net.samples())


def test_rows_share_the_second_matrix() -> None:
    """Weights are loaded for tiles of many rows, not for each row."""
    net = Net(4)
    y = net.matmul(net.input(40, 8), net.input(8, 8, name="b"), True)
    program = assert_right(TINY, net.graph(y), net.samples())
    assert program.count < 30


def test_batches_are_refused() -> None:
    net = Net(4)
    graph = net.graph(net.matmul(net.input(1, 2, 3, 4), net.input(1, 2, 4, 5, name="b")))
    assert AccelTarget(TINY).refusal(graph, graph.nodes[0]) == (
        "its inputs have 4 and 4 dimensions; the accelerator takes products of matrices")


@pytest.mark.parametrize("plain", [True, False])
def test_rows_of_a_dense_layer_share_its_weights(plain: bool) -> None:
    """The first of two layers reads the network's input as it is."""
    net = Net(4)
    y = net.dense(net.input(40, 8), 8)
    y = y if plain else net.dense(y, 8)
    compiled = AccelTarget(TINY).compile(net.graph(y))
    assert_right(TINY, net.graph(y), net.samples())
    layer = compiled.layers[-1]
    assert (layer.macs, layer.result.n) == (40 * 8 * 8, 40)
    begin = dict(compiled.program.layers).get("qdense_0", 0) if not plain else 0
    assert compiled.program.layers[-1][1] - begin < 30
