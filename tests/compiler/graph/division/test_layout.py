"""Layouts of what the host has: the fewest bytes to convert, the same values."""

from collections.abc import Collection, Mapping
from itertools import product

import numpy as np
import pytest

from compiler.graph import Graph, Node, divide, evaluate, partition
from compiler.graph.division.channels_last import FROM_LAST, TO_LAST
from compiler.graph.division.cheapest_orders import (NCHW, NHWC, Order, OrderedTensor,
                                                     bytes_to_convert, cheapest_orders)
from compiler.graph.division.layout import RELAYOUT, Borders, Layout, lay_out, plain
from compiler.graph.division.partition import ACCEL, HOST, Partition, Segment
from compiler.graph.verify import verify
from tests.support.border_graphs import random_images, samples
from tests.support.effort import tries
from tests.support.integer_graphs import Net

LAYERS = ("qconv2d", "qadd", "qrescale")


def takes(node: Node) -> str | None:
    return None if node.op in LAYERS else "an operator of the host"


def in_nhwc(segment: Segment) -> Mapping[str, Order | None] | None:
    values = (*segment.inputs, *segment.outputs)
    return None if segment.target == HOST else dict.fromkeys(values, NHWC)


def laid_out(graph: Graph, borders: Borders = in_nhwc, **options) -> Layout:
    return lay_out(partition(graph, takes), borders, **options)


def total(layout: Layout) -> int:
    return sum(one.size_bytes for one in layout.conversions)


def every_choice(tensors: Collection[OrderedTensor]):
    points = sorted({point for one in tensors for point in (one.maker, *one.readers)}
                    - {NCHW, NHWC})
    for orders in product((NCHW, NHWC), repeat=len(points)):
        yield dict(zip(points, orders, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_no_orders_convert_fewer_bytes(seed: int) -> None:
    """Against all orders of random problems of up to 9 free points."""
    rng = np.random.default_rng(seed)
    for _ in range(5):
        points = [NCHW, NHWC, *(f"p{i}" for i in range(int(rng.integers(1, 10))))]
        tensors = [OrderedTensor(str(rng.choice(points)),
                                 frozenset(map(str, rng.choice(points, int(rng.integers(1, 4))))),
                                 int(rng.integers(0, 9))) for _ in range(int(rng.integers(1, 14)))]
        found = cheapest_orders(tensors)
        best = min(bytes_to_convert(tensors, orders) for orders in every_choice(tensors))
        assert bytes_to_convert(tensors, found) == best


def random_borders(seed: int) -> Borders:
    """Images in one order or the other, or in neither."""
    def borders(segment: Segment) -> Mapping[str, Order | None] | None:
        if segment.target == HOST:
            return None
        found: dict[str, Order | None] = {}
        for value in (*segment.inputs, *segment.outputs):
            kinds = (NHWC, NHWC, NCHW, None) if value in segment.outputs else (NHWC, NHWC, NCHW)
            place = int.from_bytes(f"{seed} {value} {segment.nodes[0].name}".encode()) % 1000003
            found[value] = kinds[place % len(kinds)]
        return found
    return borders


def chain_of(parts: Partition) -> list[tuple[str, list[str]]]:
    """Targets and nodes of the network's own."""
    return [(one.target, [node.name for node in one.nodes]) for one in parts.segments]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(tries(100)))
def test_random_networks(seed: int) -> None:
    """No choice of orders converts fewer bytes; each gives a graph of the same values."""
    graph, borders = random_images(seed), random_borders(seed)
    given = samples(graph)
    wanted = evaluate(graph, given)
    before = chain_of(partition(graph, takes))
    found = laid_out(graph, borders)
    problem: list[OrderedTensor] = []
    laid_out(graph, borders, choose=lambda tensors: problem.extend(tensors) or cheapest_orders(
        tensors))
    choices = list(every_choice(problem))
    rng = np.random.default_rng(seed)
    some = [choices[int(place)] for place in rng.integers(len(choices), size=6)]
    for one in (found, *(laid_out(graph, borders, choose=lambda _, c=c: c) for c in some)):
        verify(one.partition.graph)
        for name, array in evaluate(one.partition.graph, given).items():
            np.testing.assert_array_equal(array, wanted[name])
        own = {node.name for node in graph.nodes}
        kept = [(target, [name for name in names if name in own])
                for target, names in chain_of(one.partition)]
        assert [run for run in kept if run[1]] == before
        assert total(found) <= total(one)
    assert total(found) <= sum(one.size_bytes for one in found.everywhere)
    if len(choices) <= 64:
        assert total(found) == min(
            total(laid_out(graph, borders, choose=lambda _, c=c: c)) for c in choices)


def on_three(graph: Graph, seed: int) -> Partition:
    """Layers on the accelerator, the rest on the host, and some of both on a third target."""
    rng = np.random.default_rng(seed)
    return divide(graph, {node.name: "third" if rng.random() < 0.4
                          else HOST if takes(node) else ACCEL for node in graph.nodes}, {})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(tries(100)))
def test_random_networks_on_three_targets(seed: int) -> None:
    """The third has NCHW at its borders. The fewest bytes are converted, and values stay."""
    graph, of_layers = random_images(seed), random_borders(seed)
    parts = on_three(graph, seed)

    def borders(segment: Segment) -> Mapping[str, Order | None] | None:
        return plain(segment) if segment.target == "third" else of_layers(segment)

    given, problem = samples(graph), list[OrderedTensor]()
    found = lay_out(parts, borders, lambda some: problem.extend(some) or cheapest_orders(some))
    made = evaluate(verify(found.partition.graph), given)
    for name, array in evaluate(graph, given).items():
        np.testing.assert_array_equal(made[name], array)
    own = {node.name for node in graph.nodes}
    kept = [(target, [name for name in names if name in own])
            for target, names in chain_of(found.partition)]
    assert [run for run in kept if run[1]] == chain_of(parts)
    assert all(one.target == HOST for one in found.partition.segments
               if own.isdisjoint(node.name for node in one.nodes))
    assert RELAYOUT not in {node.op for one in found.partition.segments if one.target == "third"
                            for node in one.nodes}
    choices = list(every_choice(problem))[:64]
    assert total(found) <= min(total(lay_out(parts, borders, lambda _, c=c: c)) for c in choices)


def test_what_others_exchange_is_converted_by_the_home_where_no_free_segment_stands() -> None:
    """A layer gives NHWC, the third reads NCHW, the next layer NHWC again."""
    net = Net(4)
    made = net.conv(net.input(1, 4, 6, 6), 4, (1, 1))
    other = net.add_node("upsample", made, factors=(1, 1))
    graph = net.graph(net.add(made, other))
    parts = divide(graph, {node.name: "third" if node.op == "upsample" else ACCEL
                           for node in graph.nodes}, {})
    found = lay_out(parts, lambda one: plain(one) if one.target == "third" else in_nhwc(one))
    assert [str(step) for step in found.partition.steps] == [
        "copy x: host -> accel",
        "accel(x) -> (qconv2d_0.out.nhwc): qconv2d_0, qconv2d_0.out.nhwc",
        "copy qconv2d_0.out.nhwc: accel -> host",
        "host(qconv2d_0.out.nhwc) -> (qconv2d_0.out): qconv2d_0.out",
        "copy qconv2d_0.out: host -> third",
        "third(qconv2d_0.out) -> (upsample_1.out): upsample_1",
        "copy upsample_1.out: third -> host",
        "copy upsample_1.out: host -> accel",
        "accel(qconv2d_0.out.nhwc, upsample_1.out) -> (qadd_2.out): "
        "qconv2d_0.out.inside_1, qadd_2",
        "copy qadd_2.out: accel -> host"]
    assert [str(one) for one in found.conversions] == [
        "convert x: 144 bytes, copied to the segment of qconv2d_0",
        "convert upsample_1.out: 144 bytes, copied to the segment of qadd_2",
        "convert qadd_2.out: 144 bytes, copied from the segment of qadd_2",
        "convert qconv2d_0.out: 144 bytes, by qconv2d_0.out"]


def swish(net: Net, x: str) -> str:
    """In float: x tanh(x)."""
    real = net.add_node("dequantize", x, scale=0.25, zp=-3)
    return net.add_node("quantize", net.add_node("mul", real, net.add_node("tanh", real)),
                        scale=0.25, zp=3)


def test_an_activation_between_layers_is_in_nhwc() -> None:
    net = Net(1)
    x = net.input(1, 4, 6, 6)
    for _ in range(3):
        x = swish(net, net.conv(x, 8, (1, 1)))
    graph = net.graph(net.conv(x, 8, (1, 1)))
    found = laid_out(graph)
    assert [str(one) for one in found.conversions] == [
        "convert x: 144 bytes, copied to the segment of qconv2d_0",
        f"convert {graph.outputs[0]}: 288 bytes, copied from the segment of qconv2d_15"]
    assert len(found.everywhere) == 8 and sum(one.size_bytes for one in found.everywhere) == 2160
    assert found.partition.graph.values["mul_3.out.nhwc"].shape == (1, 6, 6, 8)
    assert RELAYOUT not in {node.op for segment in found.partition.segments
                            if segment.target == HOST for node in segment.nodes}
    assert str(found).startswith(
        "2 conversions, 432 bytes; with one at every border 8 conversions, 2160 bytes\n"
        "convert x: 144 bytes, copied to the segment of qconv2d_0\n")


def test_what_is_converted_anyway_is_converted_where_it_is_small() -> None:
    """Two int8 results of layers are joined in float: converted before, not after."""
    net = Net(2)
    x = net.input(1, 4, 6, 6)
    first, second = (net.add_node("dequantize", net.conv(x, 8, (1, 1)), scale=0.5, zp=0)
                     for _ in range(2))
    graph = net.graph(net.add_node("upsample", net.add_node("add", first, second),
                                   factors=(2, 2)))
    found = laid_out(graph)
    assert [one.size_bytes for one in found.conversions] == [144, 288, 288]


def test_one_sum_is_converted_and_not_what_it_is_of() -> None:
    """Five results of layers are added in float, 4 times as large: then one conversion of the sum
    costs less than those at every border, which looking at single borders does not find.
    """
    net = Net(3)
    x = net.input(1, 4, 6, 6)
    parts = [net.add_node("dequantize", net.conv(x, 8, (1, 1)), scale=0.5, zp=0)
             for _ in range(5)]
    y = parts[0]
    for part in parts[1:]:
        y = net.add_node("add", y, part)
    graph = net.graph(net.add_node("upsample", y, factors=(2, 2)))
    found = laid_out(graph)
    assert [str(one) for one in found.conversions] == [
        "convert x: 144 bytes, copied to the segment of qconv2d_0",
        f"convert {y}: 1152 bytes, by {y}"]
    assert sum(one.size_bytes for one in found.everywhere) == 144 + 5 * 288


def test_a_value_is_converted_once_for_all_who_read_it() -> None:
    net = Net(4)
    x = net.add_node("upsample", net.input(1, 4, 6, 6), factors=(1, 1))
    made = net.conv(x, 4, (1, 1))
    other = net.add_node("upsample", made, factors=(1, 1))
    graph = net.graph(net.add(net.conv(other, 4, (1, 1)), net.add(x, x)))
    found = laid_out(graph)
    assert [one.value for one in found.conversions].count(x) == 1
    assert [one.value for one in found.everywhere].count(x) == 1


def test_an_input_that_two_segments_read_is_converted_once() -> None:
    """By a segment of the host before the first."""
    net = Net(4)
    x = net.input(1, 4, 6, 6)
    other = net.add_node("upsample", net.conv(x, 4, (1, 1)), factors=(1, 1))
    graph = net.graph(net.add(other, x))
    found = laid_out(graph)
    first, *_ = found.partition.segments
    assert (first.target, [str(node) for node in first.nodes]) == (
        HOST, [f"relayout(x) {{perm={str(TO_LAST).replace(' ', '')}}}  # x.nhwc"])
    assert found.partition.reasons["x.nhwc"] == "it changes the layout"
    assert [one.value for one in found.conversions].count("x") == 1
    assert [one.value for one in found.everywhere].count("x") == 2


def test_transposes_of_the_network_are_spared() -> None:
    """A layer, NHWC for operators of the host, back, a layer: nothing is moved between."""
    net = Net(5)
    x = net.add_node("dequantize", net.conv(net.input(1, 4, 6, 6), 8, (1, 1)), scale=0.5, zp=0)
    y = net.transpose(x, *TO_LAST)
    y = net.add_node("add", y, net.add_node("reduce_sum", y, axes=(3,), keepdims=1))
    y = net.transpose(net.transpose(y, 0, 1, 2, 3), *FROM_LAST)
    graph = net.graph(net.conv(net.add_node("quantize", y, scale=0.5, zp=0), 4, (1, 1)))
    found = laid_out(graph)
    assert len(found.conversions) == 2 and len(found.everywhere) == 6
    ops = [node.op for one in found.partition.segments if one.target == HOST for node in one.nodes]
    assert ops == ["dequantize", "reshape", "reduce_sum", "add", "transpose", "reshape",
                   "quantize"]


def test_images_whose_orders_are_one_cost_nothing() -> None:
    """One channel, or one pixel."""
    for shape in ((2, 1, 6, 6), (2, 5, 1, 1)):
        net = Net(6)
        graph = net.graph(swish(net, net.rescale(net.input(*shape))))
        found = laid_out(graph)
        assert found.conversions == found.everywhere == ()


def test_one_target_alone_stays_as_it_is() -> None:
    net = Net(7)
    x = net.add_node("dequantize", net.input(1, 4, 6, 6), scale=0.5, zp=0)
    parts = partition(net.graph(net.transpose(x, *TO_LAST)), takes)
    assert lay_out(parts, in_nhwc).partition is parts


def test_sums_keep_their_order() -> None:
    """Another layout would change the order of a sum over channels and pixels."""
    net = Net(8)
    x = net.add_node("dequantize", net.conv(net.input(1, 4, 6, 6), 8, (1, 1)), scale=0.5, zp=0)
    graph = net.graph(net.add_node("reduce_sum", x, axes=(1, 2, 3), keepdims=1))
    found = laid_out(graph)
    made, = (node for one in found.partition.segments if one.target == HOST for node in one.nodes
             if node.op == "reduce_sum")
    assert made.attrs["axes"] == (1, 2, 3)


def test_names_that_are_taken_are_not_given() -> None:
    net = Net(9)
    x = net.conv(net.input(1, 4, 6, 6, name="qconv2d_0.out.nhwc"), 8, (1, 1))
    graph = net.graph(net.conv(swish(net, x), 8, (1, 1)))
    given = samples(graph)
    made = evaluate(laid_out(graph).partition.graph, given)
    for name, array in evaluate(graph, given).items():
        np.testing.assert_array_equal(made[name], array)


def test_segments_of_the_accelerator_say_what_crosses() -> None:
    net = Net(10)
    graph = net.graph(net.conv(swish(net, net.conv(net.input(1, 4, 6, 6), 8, (1, 1))), 8, (1, 1)))
    found = laid_out(graph)
    said = [str(node) for one in found.partition.segments if one.target == ACCEL
            for node in one.nodes if node.op == RELAYOUT]
    assert said == [
        "relayout(qconv2d_0.out.inside) {perm=(0,2,3,1)}  # qconv2d_0.out.nhwc",
        "relayout(quantize_4.out.nhwc) {perm=(0,3,1,2)}  # quantize_4.out.inside"]
