"""A product and the operator that alone reads it, by one instruction from the sums."""

from dataclasses import replace

import pytest

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from compiler.graph import Graph
from examples.machines.published.array_128 import requantize_add
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.slow_cases import each_once

SMALL = Machine(replace(preset("ecp5-1x8x8"), name="joins"), (*SHIPPED, requantize_add))
PAIRS = Machine(replace(SMALL.config, name="pairs", batch=2), SMALL.declarations)
NARROW = Machine(replace(SMALL.config, name="narrow", res_bytes=64, out_bytes=64, par_bytes=512,
                         acc_bytes=512, inp_bytes=256, wgt_bytes=2048), SMALL.declarations)
WITHOUT = Machine(SMALL.config)


def bounded(net: Net, x: str, zero: int = 3, low: int = -128) -> str:
    """The result of the last node, with these bounds."""
    net.nodes[-1] = replace(net.nodes[-1], attrs={
        **net.nodes[-1].attrs, "zp": zero, "lo": low, "hi": 127})
    return x


def conv(net: Net, x: str, channels: int, kernel: int = 1, stride: int = 1, zero: int = 3) -> str:
    pad = kernel // 2
    return bounded(net, net.conv(x, channels, (kernel, kernel), (stride, stride), (pad,) * 4),
                     zero)


def block(channels: int, size: int, images: int = 1, swapped: bool = False) -> Net:
    """A bottleneck whose residual others read, then one that changes channels."""
    net = Net(channels + size)
    x = net.conv(net.input(images, channels, size, size), channels)
    x = net.add(*(conv(net, x, channels, 3), x)[::-1 if swapped else 1])
    y = conv(net, net.conv(x, 8, (1, 1)), 2 * channels, 3, 2, zero=-7)
    return with_output(net, net.conv(net.add(conv(net, x, 2 * channels, 1, 2), y), 5, (1, 1)))


def with_output(net: Net, *values: str) -> Net:
    net.outputs = values                                            # type: ignore[attr-defined]
    return net


def graph_of(net: Net) -> Graph:
    return net.graph(*net.outputs)                                  # type: ignore[attr-defined]


def layers(machine: Machine, graph: Graph) -> list[str]:
    """The operators that the layers of a program compute, ``+`` for both at once."""
    found = []
    for group in AccelTarget(machine).compile(graph).way.layers:
        found += [f"{one.node.op}+" if "requantize_add" in one.note else one.node.op
                  for one in group]
    return found


@each_once("machine, shape", [SMALL, PAIRS, NARROW], [
    (8, 9, 1, False), (20, 7, 1, True), (3, 10, 2, False)],
    ids=lambda one: one.config.name if isinstance(one, Machine) else str(one))
def test_residual_blocks(machine: Machine, shape: tuple[int, int, int, bool]) -> None:
    net = block(*shape)
    graph = graph_of(net)
    assert layers(machine, graph).count("qadd+") == 2
    assert "qadd" not in layers(machine, graph)
    assert_right(machine, graph, net.samples())


@pytest.mark.parametrize("why", ["others read it", "it is a result", "it has bounds", "one tensor"])
def test_what_is_computed_apart(why: str) -> None:
    """A product that others need, or that no instruction computes with the sum."""
    net = Net(2)
    x = net.input(1, 8, 6, 6)
    y = bounded(net, conv(net, x, 8), low=-128 + 100 * (why == "it has bounds"))
    total = net.add(y, y if why == "one tensor" else x)
    ends = [total, *[y] * (why == "it is a result")]
    if why == "others read it":
        ends = [net.conv(total, 4, (1, 1)), net.max_pool(y)]
    graph = net.graph(*ends)
    assert not [op for op in layers(SMALL, graph) if "+" in op]
    assert_right(SMALL, graph, net.samples())


def test_an_instruction_takes_a_tile_of_a_block_of_channels() -> None:
    """Its record's address is moved by no loop, so channels are outside: pixels are inside."""
    net = Net(3)
    x = net.input(1, 32, 12, 12)
    graph = net.graph(net.add(conv(net, x, 32), x))
    program = AccelTarget(SMALL).compile(graph).program
    code = SMALL.opcodes["requantize_add"]
    assert 4 <= (program.words[:, 0] == code).sum() <= 48


def test_a_machine_without_the_instruction_makes_the_program_that_it_made() -> None:
    graph = graph_of(block(8, 9))
    assert layers(WITHOUT, graph).count("qadd") == 2


def test_rows_of_a_dense_layer() -> None:
    net = Net(4)
    x = net.input(5, 24)
    y = bounded(net, net.dense(net.rescale(x), 24))
    graph = net.graph(net.add(x, y))
    assert "qadd+" in layers(SMALL, graph)
    assert_right(SMALL, graph, net.samples())


def test_the_larger_of_two_products_is_joined() -> None:
    """Both are read by the sum alone: one stays a layer, and what it wrote is the residual."""
    net = Net(6)
    x = net.input(1, 16, 8, 8)
    small, large = conv(net, x, 16), conv(net, x, 16, 3)
    graph = net.graph(net.add(small, large))
    assert layers(SMALL, graph) == ["qconv2d", "qadd+"]
    assert_right(SMALL, graph, net.samples())


@pytest.mark.slow
def test_in_rtl() -> None:
    net = block(20, 6)
    graph = graph_of(net)
    assert_simulators_agree(SMALL, assert_right(SMALL, graph, net.samples()), net.samples())
