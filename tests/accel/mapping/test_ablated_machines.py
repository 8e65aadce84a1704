"""Machines without one of the shipped instructions: what they cannot compute, the host does."""

import pytest

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED
from accel.machine.machine import Machine
from accel.machine.rules import DeclarationError
from accel.mapping.target import AccelTarget
from compiler.graph import Graph
from compiler.ops.families.row_functions import RECIPROCALS, exponentials
from tests.support.divided import assert_divided_right
from tests.support.integer_graphs import Net

UNITS = ("load", "store", "gemm")
QUICK = ("requantize", "reduce_max")        # which most layers need


def without(name: str) -> Machine:
    return Machine(preset("tiny-1x4x4"), tuple(one for one in SHIPPED if one.name != name))


def network() -> tuple[Net, Graph]:
    """Layers of all kinds: products, pools, element-wise operators, places, functions of rows."""
    net = Net(5, slopes=True)
    x = net.conv(net.input(1, 4, 6, 6), 8, pads=(1, 1, 1, 1))
    y = net.concat(net.max_pool(x), net.average_pool(net.leaky_relu(x)))
    z = net.add(net.rescale(y), net.affine(y, factors=(-3, 3)))
    place = net.add_node("qargmax", z, axis=1)
    rows = net.transpose(net.reshape(net.conv(z, 4, (1, 1), group=4), 1, 4, 9), 0, 2, 1)
    attention = softmax(net, net.matmul(net.dense(rows, 4), rows, True))
    return net, net.graph(net.dense(net.flatten(net.average(z)), 10), attention, place)


def softmax(net: Net, x: str) -> str:
    high, low = exponentials(0.03)
    return net.add_node("qsoftmax", net.add_node("qbelow_max", x),
                        *map(net.constant, (high, low, RECIPROCALS)),
                        mult=40000, shift=36, zp=-120, lo=-128, hi=127)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", [
    pytest.param(one.name, marks=() if one.name in QUICK else pytest.mark.slow)
    for one in SHIPPED if one.name not in UNITS])
def test_without_an_instruction_the_host_computes_what_needs_it(name: str) -> None:
    net, graph = network()
    parts = assert_divided_right(without(name), graph, net.samples())
    assert not any("defect" in reason for reason in parts.stay.values())


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_without_an_instruction_is_no_machine(name: str) -> None:
    with pytest.raises(DeclarationError):
        without(name)


@pytest.mark.parametrize("name, build, reason", [
    ("requantize", lambda net, x: net.conv(x, 4),
     "no instruction of the machine computes its result from what acc holds"),
    ("reduce_add", lambda net, x: net.average(x),
     "no instruction of the machine computes its sum in acc"),
    ("reduce_max", lambda net, x: net.max_pool(x),
     "no instruction of the machine computes its max in acc")])
def test_the_reason_says_what_is_missing(name: str, build, reason: str) -> None:
    net = Net(3)
    graph = net.graph(build(net, net.input(1, 4, 5, 5)))
    assert AccelTarget(without(name)).refusal(graph, graph.nodes[0]) == reason


@pytest.mark.slow
def test_a_machine_with_all_instructions_computes_the_network() -> None:
    """All but what no shipped instruction computes: places."""
    net, graph = network()
    parts = assert_divided_right(Machine(preset("tiny-1x4x4")), graph, net.samples())
    assert {node.op for node in graph.nodes if node.name in parts.stay} == {"qargmax"}
