"""Depthwise convolutions by a declared instruction of vector that multiplies and accumulates."""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine
from accel.mapping.memory.weights import multipliers_of
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from compiler import te
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.machines import MACHINES, TINY, example

WIDE = Machine(replace(TINY.config, name="1x4x16", block_out=16, wgt_bytes=4096, acc_bytes=8192,
                       out_bytes=4096, res_bytes=4096, par_bytes=8192))
"""gemm takes four products for a tap of 16 channels, vector one."""


def block(net: Net, channels: int = 16, size: int = 7) -> str:
    """Depthwise and pointwise convolutions in turns, as MobileNet has them."""
    x = net.conv(net.input(2, channels, size, size), channels, (1, 1))
    x = net.conv(x, channels, (3, 3), pads=(1, 1, 1, 1), group=channels, pad_value=3)
    x = net.conv(x, 2 * channels, (1, 1))
    return net.conv(x, 2 * channels, (3, 3), strides=(2, 2), pads=(1, 0, 1, 1),
                    group=2 * channels)


def notes(machine: Machine, graph) -> list[str]:
    return [layer.note for layer in AccelTarget(machine).compile(graph).layers]


def test_a_block_of_mobilenet() -> None:
    machine, net = example("depthwise", WIDE), Net(2)
    graph = net.graph(block(net))
    assert notes(machine, graph) == ["", "by mac", "", "by mac"]
    program = assert_right(machine, graph, net.samples())
    plain = AccelTarget(WIDE).compile(graph).program
    assert (cycle.simulate(machine, program, values=False).cycles
            < cycle.simulate(WIDE, plain, values=False).cycles)


def test_dilations_and_channels_that_end_within_a_block() -> None:
    machine, net = example("depthwise", WIDE), Net(3)
    x = net.input(1, 21, 9, 8)
    graph = net.graph(net.conv(x, 21, (3, 2), pads=(2, 1, 1, 0), group=21, pad_value=-7,
                               dilations=(2, 1)))
    assert notes(machine, graph) == ["by mac"]
    assert_right(machine, graph, net.samples())


@pytest.mark.parametrize("name", [
    "tiny-1x4x4", pytest.param("2x8x8", marks=pytest.mark.slow)])
def test_gemm_where_it_is_cheaper(name: str) -> None:
    net = Net(4)
    graph = net.graph(block(net, 8))
    machine = example("depthwise", MACHINES[name])
    assert "by mac" not in notes(machine, graph)
    assert_right(machine, graph, net.samples())


def test_what_multiplies() -> None:
    def found(*declared):
        return [body.name for body in multipliers_of(Machine(TINY.config, (*SHIPPED, *declared)))]

    def mac(name, value, **options):
        return vector_op(name, value, **({"update": "sum", "a": ("res",), "b": ("par",)} | options))

    assert found(mac("mac", lambda a, b: a * b.astype("int8").astype("int32"))) == ["mac"]
    assert found(mac("wide", lambda a, b: b * a)) == ["wide"]
    assert found(mac("shifted", lambda a, b: te.minimum(a, 1 << 20) * (b << 1) >> 1)) == ["shifted"]
    assert found(mac("largest", lambda a, b: a * b, update="max")) == []
    assert found(mac("other", lambda a, b: a * b + 1)) == []
    assert found(mac("nearly", lambda a, b: te.select((a * b).equal(127 * 127), 0, a * b))) == []
    assert found(mac("elsewhere", lambda a, b: a * b, b=("res",))) == []


@pytest.mark.slow
def test_the_simulators_agree() -> None:
    machine, net = example("depthwise", WIDE), Net(2)
    graph = net.graph(block(net))
    program = AccelTarget(machine).compile(graph).program
    assert_simulators_agree(machine, program, net.samples())


def test_weights_of_all_sizes(rng) -> None:
    """The least and the greatest weight, and pixels alike."""
    machine, net = example("depthwise", WIDE), Net(6)
    graph = net.graph(net.conv(net.input(1, 16, 5, 5), 16, (3, 3), group=16))
    weights = graph.nodes[0].inputs[1]
    extreme = rng.choice(np.array([-128, 127, 0], np.int8), graph.constants[weights].shape)
    graph = replace(graph, constants=graph.constants | {weights: extreme})
    assert_right(machine, graph, {"x": rng.choice(np.array([-128, 127], np.int8), (1, 16, 5, 5))})
