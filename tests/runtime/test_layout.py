"""Layouts of what the host has, on devices: values, cycles, reports, files, profiles."""

import json

import numpy as np
import pytest

from accel.machine.machine import Machine
from accel.mapping.lowering import LoweringError
from accel.mapping.memory.borders import core, with_borders
from accel.mapping.memory.layout import (BLOCKED, BLOCKED_LAST, BLOCKED_ROWS, PLAIN, PLAIN_ROWS,
                                         from_memory)
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from accel.sim.meaning.functional import simulate
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.graph import Graph, subgraph
from compiler.graph.division.channels_last import TO_LAST
from compiler.graph.division.layout import RELAYOUT, lay_out
from compiler.graph.division.partition import ACCEL
from runtime import Module, SimulatedDevice, compile_graph, load, report
from runtime.driver.auto import greedy
from runtime.driver.costs import CopyPrice, Pricing
from runtime.pricing.prices import AccelPrices
from runtime.driver.targets import Placed, Targets, accelerator
from tests.support.border_graphs import random_images, samples
from tests.support.integer_graphs import Net
from tests.support.machines import MACHINES, TINY, machine
from tests.support.slow_cases import each_once

PAIRS = machine("2x8x8")            # two images in a block, eight channels


def swish(net: Net, x: str) -> str:
    real = net.add_node("dequantize", x, scale=0.0625, zp=-3)
    return net.add_node("quantize", net.add_node("mul", real, net.add_node("tanh", real)),
                        scale=0.0625, zp=3)


def network(images: int = 1, channels: int = 6) -> Graph:
    """A layer, an activation of the host, a layer; channels that fill no block."""
    net = Net(3)
    x = net.conv(net.input(images, 5, 6, 6), channels, (3, 3))
    return net.graph(net.conv(swish(net, x), 7, (1, 1)))


def module_of(graph: Graph, on: Machine, run=simulate) -> Module:
    return compile_graph(graph, AccelTarget(on), SimulatedDevice(on, run))


def assert_right(module: Module, graph: Graph, seed: int = 0) -> None:
    """To the bit what the host makes of the network alone, all in NCHW."""
    given = samples(graph, seed)
    made = module(given)
    for name, array in CpuTarget().compile(graph)(given).items():
        np.testing.assert_array_equal(made[name], array)
        assert made[name].tobytes() == array.tobytes()


@each_once("name, images", ["tiny-1x4x4", "2x8x8", "1x32x16", "short-batch"], [1, 3])
def test_values_are_those_of_the_network(name: str, images: int) -> None:
    graph = network(images)
    module = module_of(graph, MACHINES[name])
    assert any(node.op == RELAYOUT for node in module.graph.nodes)
    assert_right(module, graph)


@pytest.mark.parametrize("seed", range(3))
def test_random_networks(seed: int) -> None:
    graph = random_images(100 + seed, 12)
    assert_right(module_of(graph, (TINY, PAIRS)[seed % 2]), graph, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 100))
def test_many_random_networks(seed: int) -> None:
    test_random_networks(seed)


def test_programs_are_those_of_before() -> None:
    """Instructions, weights and memory: so are cycles."""
    for graph, on in ((network(), TINY), (network(3), PAIRS), (random_images(104, 14), TINY)):
        target = AccelTarget(on)
        before = greedy(graph, Targets([Placed(target)]))
        after = lay_out(before, Targets([Placed(target)]).borders(graph)).partition
        pairs = zip(*([subgraph(parts.graph, one) for one in parts.segments
                       if one.target == ACCEL] for parts in (before, after)), strict=True)
        for one, two in pairs:
            first, second = target.compile(one).program, target.compile(two).program
            np.testing.assert_array_equal(first.words, second.words)
            np.testing.assert_array_equal(first.weights, second.weights)
            assert first.io_bytes == second.io_bytes
            assert [slot.offset for slot in first.inputs] == [
                slot.offset for slot in core_order(one, two, second.inputs)]


def core_order(before: Graph, after: Graph, slots) -> list:
    """Slots in the order of the inputs of before."""
    inside = core(after)
    assert len(inside.nodes) == len(before.nodes)
    outside = {node.outputs[0]: node.inputs[0] for node in after.nodes if node.op == RELAYOUT}
    known = {slot.name: slot for slot in slots}
    return [known[outside.get(name, name)] for name in inside.inputs]


def test_padding_lanes_do_not_reach_the_host() -> None:
    """Two images of two to a block, 3 channels of 8: all other lanes are poison."""
    image = np.arange(3 * 2 * 2 * 3, dtype=np.int8).reshape(3, 2, 2, 3)
    stored = np.full((2, 2, 2, 2, 8), 99, np.int8)
    for n in range(3):
        stored[n // 2, :, :, n % 2, :3] = image[n]
    np.testing.assert_array_equal(from_memory(stored, BLOCKED_LAST, image.shape), image)


def test_orders_of_borders() -> None:
    """Images are NHWC, interleaved ones neither; rows are as they are."""
    net = Net(4)
    x = net.conv(net.input(2, 5, 6, 6), 6, (1, 1))
    pooled = net.average(x)
    graph = net.graph(x, pooled, net.dense(net.flatten(pooled), 4))
    for on, order in ((TINY, "NHWC"), (PAIRS, None)):
        found = AccelTarget(on).borders(graph)
        assert [found[value] for value in (*graph.inputs, *graph.outputs)] == [
            "NHWC", order, "NHWC", "NCHW"]


def test_an_image_that_is_flattened_for_the_host_is_converted_on_the_way() -> None:
    net = Net(5)
    graph = net.graph(net.add_node("dequantize", net.flatten(
        net.conv(net.input(1, 4, 6, 6), 6, (1, 1))), scale=0.5, zp=0))
    module = module_of(graph, TINY)
    assert_right(module, graph)
    assert module.layout is not None
    assert module.layout["count"] == module.layout["at_every_border"]["count"]


def test_layouts_of_tensors_that_cross() -> None:
    found = [(slot.layout, slot.logical) for segment in module_of(network(), TINY).accelerated
             for slot in (*segment.program.inputs, *segment.program.outputs)]
    assert found == [(PLAIN, (1, 5, 6, 6)), (BLOCKED_LAST, (1, 4, 4, 6)),
                     (PLAIN_ROWS, (1, 4, 4, 6)), (BLOCKED, (1, 7, 4, 4))]


def test_rows_cannot_cross_with_channels_last() -> None:
    net = Net(6)
    x = net.dense(net.input(1, 5, 6, 6), 8)
    graph = net.graph(net.add_node(RELAYOUT, x, perm=TO_LAST))
    target = AccelTarget(TINY)
    assert BLOCKED_ROWS in {slot.layout for slot in target.compile(core(graph)).program.outputs}
    with pytest.raises(LoweringError, match="^relayout_1.out must be an image to have its channels "
                                            "last, and it lies in memory as rows/b, b, C$"):
        target.compile(graph)


def test_the_report_counts_conversions() -> None:
    module = module_of(network(), TINY)
    for name, array in samples(network()).items():
        module.set_input(name, array)
    figures = json.loads(json.dumps(report(module, module.run(), TINY, 0.0)))
    assert figures["layout"] == {
        "count": 2, "bytes": 180 + 112,
        "at_every_border": {"count": 4, "bytes": 180 + 96 * 2 + 112},
        "conversions": [
            {"value": "x", "bytes": 180, "where": "copied to the segment of qconv2d_0"},
            {"value": "qconv2d_5.out", "bytes": 112,
             "where": "copied from the segment of qconv2d_5"}]}


def test_the_profile_has_conversions() -> None:
    module = module_of(network(), TINY, cycle.simulate)
    rows = module.profile(samples(network()))
    assert [row["name"] for row in rows if row["op"] == RELAYOUT] == ["x", "qconv2d_5.out"]
    assert all(row["seconds"] > 0 for row in rows)


def test_a_saved_module_has_its_layout(tmp_path) -> None:
    graph = network(3)
    module = module_of(graph, PAIRS)
    module.save(tmp_path / "m.lockstep")
    again = load(tmp_path / "m.lockstep")
    assert again.layout == module.layout and str(again.partition) == str(module.partition)
    assert_right(again, graph)


def test_auto_prices_what_is_left_of_conversions() -> None:
    """Segments are compiled once, whatever crosses; copies of NHWC change nothing."""
    graph = network(1, 8)

    def measure(what: str, run) -> float:
        run()
        return 0.0 if what.startswith(("segment", "call")) else 1.0 if "NHWC" not in what else 0.5
    pricing = Pricing(graph, Targets([accelerator(TINY)]), measure)
    price = pricing.division(greedy(graph, pricing.placed))
    layouts = [step.layout_seconds for step in price.steps if isinstance(step, CopyPrice)]
    assert layouts == [1.0, 0.5, 0.5, 1.0]
    module = compile_graph(graph, AccelTarget(TINY), SimulatedDevice(TINY, simulate),
                           pricing=pricing)
    assert_right(module, graph)
    prices = pricing.prices[ACCEL]
    assert isinstance(prices, AccelPrices) and len(prices.simulated) == 2


def test_a_program_takes_other_names_and_layouts() -> None:
    """What was compiled for one layout serves another."""
    target = AccelTarget(TINY)
    graph = network()
    parts = greedy(graph, Targets([Placed(target)]))
    laid = lay_out(parts, Targets([Placed(target)]).borders(graph)).partition
    plain, last = (next(subgraph(one.graph, segment) for segment in one.segments
                        if segment.target == ACCEL) for one in (parts, laid))
    for made, wanted in ((last, plain), (plain, last)):
        program = with_borders(target.compile_core(core(made)).program, wanted)
        direct = target.compile(wanted).program
        assert (program.inputs, program.outputs) == (direct.inputs, direct.outputs)
