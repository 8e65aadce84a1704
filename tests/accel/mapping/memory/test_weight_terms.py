"""Weights of more bits than gemm takes: a sum of terms, each a pass over the same inputs."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from accel.mapping.lowering import LoweringError
from accel.mapping.memory.weights import in_entries
from accel.mapping.operators.blocked import Blocks
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from compiler.ops.records.weights import terms_of
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.machines import MACHINES, HALVED, TINY, example

PRODUCTS = {
    "convolution": lambda net, x: net.conv(x, 9, (3, 2), pads=(1, 0, 1, 2), pad_value=5),
    "rows": lambda net, x: net.conv(net.slice(x, (0, 1, 1), (0, 3, 1)), 8, strides=(2, 2)),
    "blocks": lambda net, x: net.conv(x, 16, (3, 3), group=2),
    "depthwise": lambda net, x: net.conv(x, 8, (3, 3), group=8),
    "transposed": lambda net, x: net.conv_transpose(x, 6, (2, 3), (2, 2), pad_value=-4),
    "dense": lambda net, x: net.dense(net.flatten(x), 11),
}


def wide_graph(name: str, least: int = -255, most: int = 254):
    """A layer whose weights are differences of bytes."""
    net = Net(len(name), 9)
    graph = net.graph(PRODUCTS[name](net, net.rescale(net.input(1, 8, 6, 5))))
    weights = graph.nodes[-1].inputs[1]
    clipped = graph.constants[weights].clip(least, most)
    return replace(graph, constants={**graph.constants, weights: clipped}), net.samples()


def notes(machine, graph) -> set[str]:
    return {layer.note.rpartition("; ")[2]
            for layer in AccelTarget(machine).compile(graph).layers[-1:]}


def test_terms(rng) -> None:
    for dtype in ("int8", "int16"):
        end = np.iinfo(dtype).max
        for least, most, count in ((-end - 1, end, 1), (0, end + 1, 2), (-2 * end - 2, 0, 2),
                                   (0, 2 * end + 1, 3)):
            weights = np.append(rng.integers(least, most, 50), (least, most))
            terms = terms_of(weights, dtype, 3)
            assert terms is not None
            assert len(terms) == count and {term.dtype.name for term in terms} == {dtype}
            np.testing.assert_array_equal(sum(term.astype(int) for term in terms), weights)


def test_more_terms_than_three_are_refused() -> None:
    with pytest.raises(LoweringError) as error:
        in_entries(np.array([[-20, 382]]), Blocks(1, 2, 1))
    assert str(error.value) == "its weights must be sums of 3 int8, not reach -20 and 382"


@pytest.mark.one_in(7)
@pytest.mark.parametrize("name, machine", [*product(PRODUCTS, MACHINES)])
def test_differences_of_bytes(name: str, machine: str) -> None:
    graph, samples = wide_graph(name)
    assert_right(MACHINES[machine], graph, samples)
    assert notes(MACHINES[machine], graph) == {"in 2 passes"}


def test_the_greatest_difference_takes_a_third_pass() -> None:
    graph, samples = wide_graph("convolution", most=255)
    assert_right(TINY, graph, samples)
    assert notes(TINY, graph) == {"in 3 passes"}


def test_sparse_products_take_each_term_in_passes_of_its_own() -> None:
    graph, samples = wide_graph("convolution")
    assert_right(HALVED, graph, samples)
    assert notes(HALVED, graph) == {"by sparse in 4 passes"}


def test_an_instruction_of_bytes_takes_no_differences() -> None:
    graph, samples = wide_graph("depthwise")
    machine = example("depthwise", MACHINES["1x32x16"])
    assert_right(machine, graph, samples)
    assert notes(machine, graph) == {"in 2 passes"}


def test_cycles_grow_by_the_second_pass() -> None:
    """The array's work doubles; what is around a product stays."""
    graph, samples = wide_graph("convolution")
    _, narrow = (wide_graph("convolution", *ends)[0] for ends in ((-255, 254), (-128, 127)))
    one, two = (cycle.simulate(TINY, AccelTarget(TINY).compile(each).program, values=False)
                for each in (narrow, graph))
    assert one.cycles < two.cycles < 2 * one.cycles


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["tiny-1x4x4", "2x8x8"])
def test_every_simulator_computes_them(machine: str) -> None:
    graph, samples = wide_graph("convolution")
    machine_ = MACHINES[machine]
    assert_simulators_agree(machine_, assert_right(machine_, graph, samples), samples)


TWO = "in 2 passes"


@pytest.mark.parametrize("machine, product, notes", [
    ("tiny-1x4x4", lambda net, x: net.conv(x, 30, (3, 3), pads=(1, 1, 1, 1), pad_value=5),
     ["", TWO, "", TWO, ""]),
    ("2x8x8", lambda net, x: net.dense(net.flatten(x), 30), ["", TWO, ""])])
def test_blocks_of_channels_without_differences_take_one_pass(machine: str, product, notes
                                                              ) -> None:
    """Two channels of all have weights beyond int8: their blocks are layers of their own."""
    net = Net(7, 9)
    graph = _with_few(net, product(net, net.rescale(net.input(2, 16, 6, 5))))
    layers = AccelTarget(MACHINES[machine]).compile(graph).layers
    assert [layer.note for layer in layers][-len(notes):] == notes
    assert_right(MACHINES[machine], graph, net.samples())


def _with_few(net: Net, result: str):
    """The graph in which two channels of the only weights have some beyond int8."""
    graph = net.graph(result)
    value, = (name for name, array in graph.constants.items() if array.ndim > 1)
    weights = graph.constants[value].clip(-128, 127)
    weights[9].flat[3], weights[18].flat[0] = 200, -200
    return replace(graph, constants={**graph.constants, value: weights})


def test_what_reads_channels_that_several_layers_write() -> None:
    """A pool, which may run beside the last of them, and a concatenation, whose parts are whole."""
    net = Net(7, 9)
    x = net.rescale(net.input(1, 16, 8, 8))
    y = net.conv(x, 32, (3, 3), pads=(1, 1, 1, 1))
    graph = _with_few(net, net.concat(net.max_pool(y), net.max_pool(x)))
    assert_right(TINY, graph, net.samples())
    net = Net(7, 9)
    x = net.rescale(net.input(1, 16, 6, 6))
    graph = _with_few(net, net.concat(net.conv(x, 32, (3, 3), pads=(1, 1, 1, 1)), x))
    assert_right(TINY, graph, net.samples())
