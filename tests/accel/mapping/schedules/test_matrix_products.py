"""Products of computed matrices, the second loaded as weights: right to the bit, or refused."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.mapping.target import AccelTarget
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import MACHINES, TINY

extent = st.integers(1, 40)


@settings(max_examples=tries(12))
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


leading = st.sampled_from((((2,), (2,)), ((3,), ()), ((), (3,)), ((2, 3), (2, 3)),
                           ((2, 3), (3,)), ((2, 1), (1, 3)), ((1, 3, 1, 2), (2, 1, 2, 1))))
zero = st.sampled_from((0, 0, 3, -20, 127, -128))


@settings(max_examples=tries(14))
@given(st.sampled_from(("tiny-1x4x4", "2x8x8", "1x32x16", "short", "short-batch")), leading,
       st.tuples(*[st.integers(1, 12)] * 3), st.booleans(), st.booleans(), st.tuples(zero, zero))
def test_any_rank_and_any_zero_points(machine, leading, sizes, trans_b, plain, zeros) -> None:
    (rows, depth, columns), (before, behind) = sizes, leading
    net = Net(rows)
    a = net.input(*before, rows, depth)
    b = net.input(*behind, *((columns, depth) if trans_b else (depth, columns)), name="b")
    y = net.matmul(a if plain else net.rescale(a), b if plain else net.rescale(b), trans_b, zeros)
    assert_right(MACHINES[machine], net.graph(y), net.samples())


def products(zeros: tuple[int, int], shapes=((16, 16), (16, 16))) -> int:
    """Block products of one product of matrices."""
    net = Net(4)
    a, b = (net.input(*shape, name=name) for name, shape in zip("ab", shapes, strict=True))
    program = AccelTarget(TINY).compile(net.graph(net.matmul(a, b, True, zeros))).program
    return sum(math.prod(loop.get("extent", 1) for loop in one.fields["loops"])
               for one in program.instructions(TINY) if one.unit == "gemm")


def test_what_zero_points_cost() -> None:
    """The depth once more for each operand that has one, twice for -128: 128 fits no int8."""
    assert [products(zeros) // 256 for zeros in (
        (0, 0), (3, 0), (0, -7), (3, -7), (-128, 0), (-128, -128))] == [1, 2, 2, 3, 3, 5]


def test_a_depth_that_could_wrap_is_refused() -> None:
    net = Net(4)
    graph = net.graph(net.matmul(net.input(1, 70_000), net.input(1, 70_000, name="b"), True,
                                 (3, 5)))
    assert AccelTarget(TINY).refusal(graph, graph.nodes[0]) == (
        "its accumulator could reach 3440640000 with the zero points 3 and 5, beyond 2147483647")


def test_batches_that_share_a_matrix_are_one() -> None:
    net = Net(4)
    y = net.matmul(net.input(2, 3, 16, 8), net.input(1, 8, 8, name="b"), True)
    program = assert_right(TINY, net.graph(y), net.samples())
    assert program.count < 40


def test_too_many_leading_dimensions_are_refused() -> None:
    net = Net(4)
    shape = (2,) * 7 + (3, 3)
    graph = net.graph(net.matmul(net.input(*shape), net.input(*shape, name="b")))
    assert AccelTarget(TINY).refusal(graph, graph.nodes[0]) == (
        "it has 7 leading dimensions; the accelerator takes 6")


@pytest.mark.parametrize("plain", [True, False])
def test_rows_of_a_dense_layer_share_its_weights(plain: bool) -> None:
    """The first of two layers reads the network's input as it is."""
    net = Net(4)
    y = net.dense(net.input(40, 8), 8)
    y = y if plain else net.dense(y, 8)
    compiled = AccelTarget(TINY).compile(net.graph(y))
    assert_right(TINY, net.graph(y), net.samples())
    layer = compiled.layers[-1]
    assert layer.macs == 40 * 8 * 8
    begin = dict(compiled.program.layers).get("qdense_0", 0) if not plain else 0
    assert compiled.program.layers[-1][1] - begin < 30
