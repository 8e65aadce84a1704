"""Layers of any legal shape, on machines of many shapes: right to the bit."""

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.mapping.target import AccelTarget
from compiler.graph import Graph
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import MACHINES, SHORT, TINY

PYNQ = Machine(preset("pynq-1x16x16"))

pairs = st.tuples(st.integers(1, 5), st.integers(1, 5))
strides = st.tuples(st.integers(1, 3), st.integers(1, 3))
pads = st.tuples(*[st.integers(0, 2)] * 4)
threads = st.sampled_from((1, 2))


@st.composite
def nets(draw) -> tuple[Machine, Net, str]:
    """A machine, and a network so far: an input, plain or (after a layer) blocked."""
    machine = MACHINES[draw(st.sampled_from(sorted(MACHINES)))]
    few = machine.config.name.startswith("short")
    size = st.integers(1, 6 if few else 12)
    channels = st.integers(1, 12) if few else st.sampled_from((1, 2, 3, 4, 7, 8, 16, 20, 33, 40))
    net = Net(draw(st.integers(0, 1 << 16)))
    x = net.input(draw(st.integers(1, 3)), draw(channels), draw(size), draw(size))
    return machine, net, net.rescale(x) if draw(st.booleans()) else x


def assert_taken(machine: Machine, net: Net, graph: Graph, threads: int) -> None:
    """The target takes every node, whatever the buffers."""
    target = AccelTarget(machine, threads)
    assert not any(target.refusal(graph, node) for node in graph.nodes)
    assert_right(machine, graph, net.samples(), threads)


@settings(max_examples=tries(30))
@given(nets(), st.integers(1, 40), pairs, strides, pads, st.integers(-128, 127), threads)
def test_convolutions(net, channels, kernel, strides, pads, pad_value, threads) -> None:
    machine, net, x = net
    h, w = net.values[x].shape[2:]
    assume(h + pads[0] + pads[2] >= kernel[0] and w + pads[1] + pads[3] >= kernel[1])
    few = machine.config.name.startswith("short")
    y = net.conv(x, min(channels, 10) if few else channels, kernel, strides, pads, pad_value)
    assert_taken(machine, net, net.graph(y), threads)


@settings(max_examples=tries(12))
@given(nets(), pairs, strides, pads, threads)
def test_max_pools(net, kernel, strides, pads, threads) -> None:
    machine, net, x = net
    h, w = net.values[x].shape[2:]
    pads = tuple(min(pad, kernel[side % 2] - 1) for side, pad in enumerate(pads))
    assume(h + pads[0] + pads[2] >= kernel[0] and w + pads[1] + pads[3] >= kernel[1])
    y = net.max_pool(x, kernel, strides, pads)
    assert_taken(machine, net, net.graph(y), threads)


@settings(max_examples=tries(8))
@given(nets(), threads)
def test_global_averages(net, threads) -> None:
    machine, net, x = net
    assert_taken(machine, net, net.graph(net.average(x)), threads)


@settings(max_examples=tries(10))
@given(nets(), st.sampled_from(("other", "itself", "input", "rescaled")), threads)
def test_sums(net, which, threads) -> None:
    machine, net, x = net
    y = {"other": lambda: net.rescale(x), "itself": lambda: x,
         "input": lambda: net.input(*net.values[x].shape, name="z"),
         "rescaled": lambda: net.rescale(net.input(*net.values[x].shape, name="z"))}[which]()
    pair = (x, y) if net.seed % 2 else (y, x)
    assert_taken(machine, net, net.graph(net.add(*pair)), threads)


@settings(max_examples=tries(15))
@given(nets(), st.integers(1, 40), st.sampled_from(("matrix", "image", "pooled")), threads)
def test_dense_layers(net, channels, kind, threads) -> None:
    machine, net, x = net
    if kind == "pooled":
        x = net.average(x)
    if kind == "matrix":
        net = Net(net.seed)
        x = net.input(1 + net.seed % 3, channels)
        x = net.rescale(x) if net.seed % 2 else x
    else:
        x = net.flatten(x)
    assert_taken(machine, net, net.graph(net.dense(x, channels)), threads)


def test_steps_of_depth_accumulate() -> None:
    """Buffers that hold one tap's block of a few pixels: every tile takes several steps."""
    net = Net(5)
    x = net.input(1, 40, 4, 4)
    graph = net.graph(net.conv(x, 8, (2, 2)))
    for threads in (1, 2):
        program = assert_right(SHORT, graph, net.samples(), threads)
        gemms = [i for i in program.instructions(SHORT) if i.name == "gemm"]
        assert {i.fields["reset"] for i in gemms} == {0, 1}


def test_a_layer_that_fits_once_is_computed_by_one_thread() -> None:
    """A kernel of eight taps fits wgt, but not twice."""
    net = Net(6)
    graph = net.graph(net.conv(net.input(1, 4, 6, 6), 8, (2, 4)))
    two, one = (assert_right(SHORT, graph, net.samples(), threads) for threads in (2, 1))
    np.testing.assert_array_equal(two.words, one.words)


@pytest.mark.parametrize("build", [
    lambda net, x: net.conv(x, 4, (5, 5)), lambda net, x: net.dense(net.flatten(x), 4)])
@pytest.mark.parametrize("threads", [1, 2])
def test_windows_that_do_not_fit_come_in_pieces(build, threads: int) -> None:
    """25 or 36 taps, where wgt holds 8."""
    net = Net()
    graph = net.graph(build(net, net.input(1, 4, 6, 6)))
    program = assert_right(SHORT, graph, net.samples(), threads)
    gemms = [i for i in program.instructions(SHORT) if i.name == "gemm"]
    assert {i.fields["reset"] for i in gemms} == {0, 1}


LARGE = {
    "3x3 at 7x7": ((1, 512, 7, 7), lambda net, x: net.conv(x, 512, (3, 3), pads=(1, 1, 1, 1))),
    "3x3 at 56x56": ((1, 64, 56, 56), lambda net, x: net.conv(x, 64, (3, 3), pads=(1, 1, 1, 1))),
    "7x7 of 3 channels": ((1, 3, 224, 224), lambda net, x: net.conv(
        x, 64, (7, 7), (2, 2), (3, 3, 3, 3), -20)),
    "pool": ((1, 64, 112, 112), lambda net, x: net.max_pool(x, (3, 3), (2, 2), (1, 1, 1, 1))),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if slow else ())
                                  for name, slow in (("3x3 at 7x7", True), ("3x3 at 56x56", False),
                                                     ("7x7 of 3 channels", True),
                                                     ("pool", False))])
def test_large_layers(name: str) -> None:
    shape, build = LARGE[name]
    net = Net(7)
    graph = net.graph(build(net, net.input(*shape)))
    program = assert_right(PYNQ, graph, net.samples())
    assert program.count < 3000


def loads_per_tile(machine: Machine, program: AccelProgram) -> float:
    names = [one.name for one in program.instructions(machine)]
    return names.count("load") / names.count("gemm")


def test_odd_channels_of_a_plain_input_are_not_moved_pixel_by_pixel() -> None:
    """Borders of the image are unrolled; what lies between them is one instruction."""
    net = Net(8)
    graph = net.graph(net.conv(net.input(1, 20, 28, 28), 16, (3, 3), pads=(1, 1, 1, 1)))
    assert loads_per_tile(PYNQ, assert_right(PYNQ, graph, net.samples())) < 14
    net = Net(8)
    graph = net.graph(net.conv(net.input(3, 5, 9, 9), 4, (3, 3)))
    assert loads_per_tile(TINY, assert_right(TINY, graph, net.samples())) < 8


def test_windows_of_few_channels_are_packed() -> None:
    """27 bytes of a window are two blocks, not nine; its rows are loaded as they lie in memory."""
    net = Net(9)
    graph = net.graph(net.conv(net.input(1, 3, 13, 17), 20, (3, 3), (2, 1), (1, 1, 0, 2), -7))
    program = assert_right(PYNQ, graph, net.samples())
    instructions = program.instructions(PYNQ)
    products = sum(prod(loop["extent"] for loop in one.fields["loops"])
                   for one in instructions if one.name == "gemm")
    assert products == 6 * 18 * 2 * 2
    assert 9 in {one.fields["run"] for one in instructions if one.name == "load"}
