"""Convolutions and dense layers of floats on machines that sum in float32."""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine.machine import Machine
from accel.mapping.layers import forms_of
from accel.mapping.memory.layout import blocks_of
from accel.mapping.schedules.demands import BETWEEN
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from compiler.graph import Graph, evaluate
from compiler.ops.records.stored_floats import numbers_of, stored_array
from examples.machines.fp8 import instructions
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.machines import SHORT, TINY, example

FP8 = example("fp8")
WIDE = Machine(replace(TINY.config, name="fp8-2x8x4", batch=2, block_in=8, stage_depth=4,
                       vector_beats=2), instructions("float8_e5m2", "float8_e4m3fn"))
BRAIN = Machine(TINY.config, instructions("bfloat16"))
NARROW = Machine(SHORT.config, instructions("float8_e4m3fn"))


class Floats(Net):
    """Writes products of random numbers, of many magnitudes."""

    def __init__(self, machine: Machine, seed: int = 1):
        super().__init__(seed)
        self.config = machine.config

    def stored(self, shape, dtype: str):
        values = self.rng.normal(size=shape) * 2.0 ** self.rng.integers(-4, 3, shape)
        return stored_array(values.astype(np.float32), dtype)

    def x(self, *shape: int) -> str:
        self.given = self.stored(shape, self.config.operand)
        return self.input(*shape, dtype=self.given.dtype.name)

    def product(self, op: str, x: str, *shape: int, relu: int = 0, **attrs) -> str:
        scale = (self.rng.random(shape[0]) * 0.2 + 0.05).astype(np.float32)
        offset = self.rng.normal(size=shape[0]).astype(np.float32)
        return self.add_node(
            op, x, *map(self.constant, (self.stored(shape, self.config.weight), scale, offset)),
            relu=relu, element=self.config.operand, weight=self.config.weight,
            lanes=self.config.block_in, **attrs)

    def conv(self, x: str, *shape: int, relu: int = 0, strides=(1, 1), pads=(1, 1, 1, 1), **attrs):
        return self.product("fconv2d", x, *shape, relu=relu, strides=strides, pads=pads, **attrs)


def network(machine: Machine) -> tuple[Graph, dict[str, np.ndarray]]:
    """Two convolutions, with and without Relu."""
    net = Floats(machine)
    x = net.x(3, 6, 7, 6)
    y = net.conv(net.conv(x, 10, 6, 3, 3, relu=1), 5, 10, 3, 2, strides=(2, 1), pads=(1, 0, 0, 1))
    return net.graph(y), {"x": net.given}


@pytest.mark.parametrize("machine", [FP8, WIDE, BRAIN], ids=["e4m3fn", "e5m2", "bfloat16"])
def test_convolutions_are_those_of_the_meaning_to_the_bit(machine):
    graph, inputs = network(machine)
    assert [AccelTarget(machine).refusal(graph, node) for node in graph.nodes] == [None, None]
    assert_right(machine, graph, inputs)


@pytest.mark.parametrize("machine", [FP8, WIDE, BRAIN], ids=["e4m3fn", "e5m2", "bfloat16"])
def test_dense_layers_are_those_of_the_meaning_to_the_bit(machine):
    """More rows of matrices than a tile has."""
    net = Floats(machine)
    x = net.x(2, 5, 19)
    graph = net.graph(net.product("fdense", net.product("fdense", x, 9, 19, relu=1), 6, 9))
    assert [AccelTarget(machine).refusal(graph, node) for node in graph.nodes] == [None, None]
    assert_right(machine, graph, {"x": net.given})


def test_rows_of_four_dimensions_lie_as_rows():
    """An image, or more matrices: results are rows of the last dimension, as what they read is."""
    net = Floats(FP8)
    x = net.x(2, 3, 2, 8)
    graph = net.graph(net.product("fdense", net.product("fdense", x, 5, 8, relu=1), 6, 5))
    assert [AccelTarget(FP8).refusal(graph, node) for node in graph.nodes] == [None, None]
    assert_right(FP8, graph, {"x": net.given})


def test_small_buffers_and_threads_keep_the_order_of_sums():
    """Layers are cut along every axis but those of the window: pieces of that would be summed in
    another order."""
    net = Floats(NARROW)
    x = net.x(1, 17, 5, 6)
    y = net.conv(x, 9, 17, 1, 2, relu=1, pads=(0, 1, 0, 0))
    graph = net.graph(y)
    for threads in (1, 2):
        assert_right(NARROW, graph, {"x": net.given}, threads)
    large = net.graph(net.conv(y, 3, 9, 3, 3))
    assert AccelTarget(NARROW).refusal(large, large.nodes[-1]) == (
        "its window does not fit buffers at once, and the order in which floats are summed is part "
        "of what it means")


def test_the_order_of_sums_is_seen():
    """Beside 448 * 448, float32 has no room for 2**-9: neighbours are summed first, then blocks of
    channels, in each the pixels of a window."""
    tiny, most, one = stored_array(np.float32([2.0 ** -9, 448, 1]), "float8_e4m3fn").tolist()
    net = Floats(FP8)
    x = net.x(1, 8, 1, 3)
    net.given[...] = 0
    for (channel, pixel), code in {(0, 0): most, (1, 0): tiny, (2, 0): most | 128, (3, 0): tiny,
                                   (0, 1): most, (0, 2): most | 128, (4, 1): tiny}.items():
        net.given[0, channel, 0, pixel] = code
    weights = np.full((4, 8, 1, 3), one, np.uint8)
    weights[:, [0, 2]] = most
    scales = np.full(4, 512, np.float32), np.zeros(4, np.float32)
    graph = net.graph(net.add_node(
        "fconv2d", x, *map(net.constant, (weights, *scales)), strides=(1, 1), pads=(0, 0, 0, 0),
        relu=0, element="float8_e4m3fn", weight="float8_e4m3fn", lanes=4))
    assert_right(FP8, graph, {"x": net.given})
    made = evaluate(graph, {"x": net.given})[graph.outputs[0]].reshape(-1)
    other = evaluate(replace(graph, nodes=(replace(graph.nodes[0], attrs={
        **graph.nodes[0].attrs, "lanes": 8}),)), {"x": net.given})[graph.outputs[0]].reshape(-1)
    assert (numbers_of(made, "float8_e4m3fn") == 1).all()
    assert (numbers_of(other, "float8_e4m3fn") == 0).all()


def test_infinities_are_multiplied_and_results_saturate():
    """e5m2 has them: only a conversion makes the greatest number of one."""
    net = Floats(WIDE)
    x = net.x(1, 3)
    net.given[...] = [[0x7c, 0, 0]]
    parameters = (np.full((2, 3), 8, np.uint8), np.ones(2, np.float32), np.zeros(2, np.float32))
    graph = net.graph(net.add_node(
        "fdense", x, *map(net.constant, parameters), relu=0, element="float8_e5m2",
        weight="float8_e4m3fn", lanes=8))
    assert_right(WIDE, graph, {"x": net.given})
    made, = evaluate(graph, {"x": net.given}).values()
    assert (numbers_of(made, "float8_e5m2") == 57344).all()


def test_a_sum_into_one_entry_waits_for_the_one_before():
    """A tile of few outputs takes `BETWEEN` cycles for each product, and is priced so."""
    net = Floats(FP8)
    few = net.graph(net.product("fdense", net.x(1, 400), 4, 400))
    program = AccelTarget(FP8).compile(few).program
    run = cycle.simulate(FP8, program, program.image())
    (part,), = AccelTarget(FP8)._groups(few, forms_of(few, blocks_of(FP8.config)))
    assert part.cost.cycles == pytest.approx(run.cycles, rel=0.25)
    assert run.cycles > 100 * BETWEEN


@pytest.mark.slow
@pytest.mark.parametrize("machine", [FP8, WIDE, BRAIN], ids=["e4m3fn", "e5m2", "bfloat16"])
def test_simulators_and_rtl_agree(machine):
    graph, inputs = network(machine)
    assert_simulators_agree(machine, assert_right(machine, graph, inputs), inputs)


def test_what_a_machine_cannot_have_is_refused():
    graph, _ = network(FP8)
    first = graph.nodes[0]
    assert [AccelTarget(one).refusal(graph, first) for one in (WIDE, BRAIN, TINY)] == [
        "its elements are float8_e4m3fn; gemm of the machine takes float8_e5m2",
        "its elements are float8_e4m3fn; gemm of the machine takes bfloat16",
        "its elements are float8_e4m3fn; gemm of the machine takes int8"]
    wider = Machine(replace(TINY.config, block_in=8), FP8.declarations)
    assert AccelTarget(wider).refusal(graph, first) == (
        "it sums 4 products at once; gemm of the machine sums 8, and the order of sums is part of "
        "what it means")
    plain = Machine(TINY.config, tuple(one for one in FP8.declarations
                                       if "affine" not in one.name))
    assert AccelTarget(plain).refusal(graph, first) == (
        "no instruction of the machine computes a load of affine into par")
