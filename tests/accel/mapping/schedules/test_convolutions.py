"""Dilation, groups and transposed convolution on the accelerator: right to the bit."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accel.machine.program import AccelProgram
from accel.mapping.lowering import LoweringError
from accel.mapping.plans.work import block_products
from accel.mapping.target import AccelTarget
from accel.sim.timed.cycle import simulate
from compiler.graph import evaluate
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right, run_program
from tests.support.machines import MACHINES, SHORT, TINY
from tests.support.slow_cases import each_once

pairs = st.tuples(st.integers(1, 7), st.integers(1, 7))
threes = st.tuples(st.integers(1, 3), st.integers(1, 3))
pads = st.tuples(*[st.integers(0, 3)] * 4)


@st.composite
def groups(draw) -> tuple[int, int, int]:
    """Groups, and input and output channels of each: at most 70 in all."""
    kind = draw(st.sampled_from(("one", "depthwise", "small", "whole", "odd")))
    if kind == "one":
        return 1, draw(st.integers(1, 70)), draw(st.integers(1, 70))
    if kind == "depthwise":
        return draw(st.integers(1, 70)), 1, draw(st.sampled_from((1, 1, 2)))
    if kind == "small":
        return draw(st.integers(2, 30)), 2, 2
    if kind == "whole":
        return draw(st.integers(2, 4)), 4 * draw(st.integers(1, 4)), 4 * draw(st.integers(1, 4))
    return draw(st.integers(2, 5)), draw(st.integers(1, 9)), draw(st.integers(1, 9))


def network(seed: int, blocked: bool, channels: int, size: tuple[int, int],
            images: int = 1) -> tuple[Net, str]:
    """An input, plain or in the accelerator's layout."""
    net = Net(seed)
    x = net.input(images, channels, *size)
    return net, net.rescale(x) if blocked else x


def assert_taken(machine, net: Net, y: str, threads: int) -> None:
    graph = net.graph(y)
    assert AccelTarget(machine, threads).refusal(graph, graph.nodes[-1]) is None
    assert_right(machine, graph, net.samples(), threads)


@settings(max_examples=tries(20))
@given(st.integers(0, 1 << 16), st.booleans(), groups(), pairs, threes, threes, pads,
       st.tuples(st.integers(1, 11), st.integers(1, 11)), st.integers(-128, 127),
       st.sampled_from((1, 2)))
def test_convolutions(seed, blocked, group, kernel, strides, dilations, pads, size, pad_value,
                      threads) -> None:
    assume(all(n + pads[axis] + pads[axis + 2] > (k - 1) * d for axis, (n, k, d)
               in enumerate(zip(size, kernel, dilations))))
    count, inward, outward = group
    net, x = network(seed, blocked, count * inward, size)
    y = net.conv(x, count * outward, kernel, strides, pads, pad_value, count, dilations=dilations)
    assert_taken(TINY, net, y, threads)


@settings(max_examples=tries(12))
@given(st.integers(0, 1 << 16), st.booleans(), groups(), pairs, threes, threes, pads,
       st.tuples(st.integers(0, 2), st.integers(0, 2)),
       st.tuples(st.integers(1, 5), st.integers(1, 5)), st.integers(-128, 127),
       st.sampled_from((1, 2)))
def test_transposed_convolutions(seed, blocked, group, kernel, strides, dilations, pads, more,
                                 size, pad_value, threads) -> None:
    assume(all((n - 1) * s + (k - 1) * d + 1 + m > pads[axis] + pads[axis + 2]
               for axis, (n, s, k, d, m) in enumerate(zip(size, strides, kernel, dilations, more))))
    count, inward, outward = group
    assume(count * outward <= 40 and np.prod(kernel) <= 16)
    net, x = network(seed, blocked, count * inward, size)
    y = net.conv_transpose(x, count * outward, kernel, strides, pads, pad_value, count,
                           dilations=dilations, output_padding=more)
    assert_taken(TINY, net, y, threads)


LAYERS = {
    "dilated": (8, lambda net, x: net.conv(x, 6, (3, 3), pads=(2, 2, 2, 2), dilations=(2, 2))),
    "depthwise": (12, lambda net, x: net.conv(x, 12, (3, 3), (2, 2), (1, 1, 1, 1), 5, 12)),
    "two groups": (16, lambda net, x: net.conv(x, 32, (3, 3), group=2)),
    "a pair of pixels": (8, lambda net, x: net.conv_transpose(x, 6, pad_value=9)),
    "phases apart": (8, lambda net, x: net.conv_transpose(
        x, 8, (3, 3), (2, 2), (1, 1, 1, 1), -9, 8, output_padding=(1, 1))),
}


@pytest.mark.parametrize("name", LAYERS)
def test_in_the_cycle_simulator(name: str) -> None:
    channels, build = LAYERS[name]
    net, x = network(1, True, channels, (6, 7))
    graph = net.graph(build(net, x))
    inputs, program = net.samples(), AccelTarget(TINY).compile(graph).program
    found = run_program(TINY, program, inputs, simulate)
    for value, array in evaluate(graph, inputs).items():
        np.testing.assert_array_equal(found[value], array)


@each_once("name, machine", ["depthwise", "two groups", "phases apart"],
           [name for name, one in MACHINES.items() if one != TINY])
def test_other_geometries(name: str, machine: str) -> None:
    """Batches of two, blocks in and out of different size, buffers of a few entries."""
    channels, build = LAYERS[name]
    net, x = network(2, True, channels, (5, 4), images=3)
    assert_taken(MACHINES[machine], net, build(net, x), 2)


def products(build, channels: int, size: tuple[int, int] = (6, 6)) -> list[int]:
    """Block products of each layer on 1x4x4."""
    net, x = network(0, True, channels, size)
    layers = AccelTarget(TINY).compile(net.graph(build(net, x))).layers
    return [block_products(layer) for layer in layers[1:]]


@pytest.mark.parametrize(("channels", "build", "wanted"), [
    (12, lambda net, x: net.conv(x, 12, (3, 3), group=12), 3 * 9),      # a tap, a block: one
    (8, lambda net, x: net.conv(x, 8, (3, 3), group=4), 2 * 9),
    (8, lambda net, x: net.conv(x, 16, (3, 3), group=8), 4 * 9),
    (16, lambda net, x: net.conv(x, 24, (3, 3), group=2), 6 * 2 * 9),
    (12, lambda net, x: net.conv(x, 12, (3, 3), group=2), 3 * 3 * 9),   # as dense
])
def test_products_of_groups(channels: int, build, wanted: int) -> None:
    assert products(build, channels) == [16 * wanted]


def test_products_of_transposed_convolutions() -> None:
    """There is a product for each pair of pixel and tap, except for padding and rounding at edges.
    """
    assert products(lambda net, x: net.conv_transpose(x, 4, (2, 2)), 8) == [36 * 4 * 2]
    assert products(lambda net, x: net.conv_transpose(
        x, 4, (4, 4), pads=(1, 1, 1, 1)), 8) == [36 * 4 * 2] * 4
    assert products(lambda net, x: net.conv_transpose(
        x, 4, (3, 3), pads=(1, 1, 1, 1), output_padding=(1, 1)), 8) == [
        36 * taps * 2 for taps in (1, 2, 2, 4)]


def program(build, channels: int) -> AccelProgram:
    net, x = network(0, True, channels, (6, 6))
    return AccelTarget(TINY).compile(net.graph(build(net, x))).program


def test_parts_are_named_after_their_first_phases() -> None:
    made = program(LAYERS["phases apart"][1], 8)
    assert [name for name, _ in made.layers][1:] == [
        f"qconvtranspose2d_1:{part}" for part in ("0,0", "0,1", "1,0", "1,1")]
    assert [name for name, _ in program(LAYERS["a pair of pixels"][1], 8).layers][1:] == [
        "qconvtranspose2d_1"]


def test_groups_that_are_no_blocks_are_noted() -> None:
    net, x = network(0, True, 12, (6, 6))
    graph = net.graph(net.conv(x, 12, (3, 3), group=2))
    assert [layer.note for layer in AccelTarget(TINY).compile(graph).layers] == ["", (
        "2 groups of 6 to 6 channels are computed as one, with zero weights between them: they "
        "are no whole blocks")]


def test_useful_products_are_counted_without_zeros() -> None:
    net, x = network(0, True, 12, (6, 6))
    graph = net.graph(net.conv_transpose(net.conv(x, 12, (3, 3), group=2), 8, (2, 2), group=4))
    assert [layer.macs for layer in AccelTarget(TINY).compile(graph).layers] == [
        0, 16 * 12 * 6 * 9, 16 * 4 * 8 * 3]


def test_a_phase_whose_bias_leaves_int32_is_refused() -> None:
    net, x = network(0, True, 4, (3, 3))
    y = net.conv_transpose(x, 4, (2, 2), pad_value=-128)
    graph = net.graph(y)
    bias = graph.nodes[-1].inputs[2]
    net.constants[bias] = np.full(4, -(1 << 31), np.int32)
    net.constants[graph.nodes[-1].inputs[1]] = np.full((4, 4, 2, 2), 127, np.int8)
    graph = net.graph(y)
    target = AccelTarget(TINY)
    assert target.refusal(graph, graph.nodes[-1]) == "Bias of every phase must fit int32"
    with pytest.raises(LoweringError, match=r"^qconvtranspose2d_1: Bias of every phase must fit"):
        target.compile(graph)


def test_a_window_of_far_taps_is_loaded_tap_by_tap() -> None:
    """It reaches over 49 pixels, of which the buffer holds 16."""
    net, x = network(0, True, 4, (9, 9))
    graph = net.graph(net.conv(x, 4, (3, 3), dilations=(3, 3)))
    program = assert_right(SHORT, graph, net.samples())
    assert max(i.fields["loops"][-1]["extent"] for i in program.instructions(SHORT)
               if i.name == "gemm") <= 9


@pytest.mark.slow
@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_phases_that_do_not_fit_are_fewer_at_a_time(threads: int) -> None:
    """64 phases see one window; par holds the parameters of 4."""
    net, x = network(3, True, 5, (3, 2))
    graph = net.graph(net.conv_transpose(x, 5, (8, 8), (8, 8)))
    compiled = AccelTarget(SHORT, threads).compile(graph)
    assert len(compiled.layers) > 2
    assert len(AccelTarget(TINY).compile(graph).layers) == 5        # four of 4x4 phases
    assert_right(SHORT, graph, net.samples(), threads)
