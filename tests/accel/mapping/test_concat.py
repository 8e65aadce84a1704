"""Concatenation along channels, at any channel: right to the bit, or refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from compiler.graph import Graph, evaluate
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import MACHINES, TINY, machine
from tests.support.slow_cases import each_once

TWO = machine("2x8x8")


def joined(net: Net, channels: list[int], size: tuple[int, ...], images: int = 1) -> str:
    """Inputs in turns plain and blocked."""
    parts = [net.input(images, c, *size, name=f"x{which}") for which, c in enumerate(channels)]
    return net.concat(*(net.rescale(x) if which % 2 else x for which, x in enumerate(parts)))


@settings(max_examples=tries(12))
@given(st.sampled_from(("tiny-1x4x4", "2x8x8", "1x32x16", "short", "short-batch")),
       st.lists(st.integers(1, 40), min_size=1, max_size=3), st.integers(1, 3), st.integers(1, 2),
       st.integers(1, 2), st.booleans())
def test_any_channels(machine: str, channels, height, width, images, blocked) -> None:
    """A convolution reads what the concatenation leaves in the lanes of padding."""
    few = machine.startswith("short")
    net = Net(sum(channels))
    channels = [min(c, 9) for c in channels] if few else channels
    y = joined(net, channels[blocked:] or channels, (height, width), images)
    z = net.conv(y, 5, (1, 1)) if net.values[y].shape[1] < 20 or not few else y
    assert_right(MACHINES[machine], net.graph(y, z) if y != z else net.graph(y), net.samples())


def test_matrices() -> None:
    net = Net(4)
    y = joined(net, [3, 10, 1], (), images=3)
    assert_right(TINY, net.graph(net.dense(y, 6)), net.samples())


def test_an_input_twice_and_one_that_is_used_elsewhere() -> None:
    net = Net(5)
    x = net.rescale(net.input(1, 3, 4, 4))
    assert_right(TINY, net.graph(net.concat(x, net.max_pool(x, (1, 1), (1, 1)), x), x),
                 net.samples())


def test_a_layer_for_each_input() -> None:
    net = Net(5)
    graph = net.graph(joined(net, [5, 3], (2, 2)))
    program = assert_right(TINY, graph, net.samples())
    assert [name for name, _ in program.layers] == ["qrescale_0", "qconcat_1:0", "qconcat_1:1"]


def stores(machine: Machine, graph: Graph, layer: str) -> int:
    program = AccelTarget(machine).compile(graph).program
    return sum(label.startswith(layer) and instruction.unit == "store" for label, instruction
               in zip(program.labels, program.instructions(machine), strict=True))


def test_only_the_last_block_is_stored_apart() -> None:
    """Channels that end within a block keep the tiles of whole blocks."""
    def count(channels: int) -> int:
        net = Net(5)
        return stores(TWO, net.graph(joined(net, [channels, 4], (1, 1))), "qconcat_1:0")
    assert [count(channels) for channels in (7, 25, 27, 31)] == [1, *[count(32) + 1] * 3]


AXES = [((1, 9, 10), 1, 1), ((2, 5, 16), 1, 3), ((2, 5, 16), 2, 3), ((2, 5, 16), 0, 1),
        ((3, 7), 0, 2), ((2, 3, 4, 9), 2, 1), ((2, 3, 4, 9), 3, 2), ((2, 3, 4, 9), 0, 2),
        ((2, 2, 3, 4, 5), 4, 6)]
"""A shape, an axis, and the extent of what is joined there."""


@pytest.mark.one_in(11)
@pytest.mark.parametrize("machine, first, shape, axis, extent", [
    (machine, first, *axis) for first in ("input", "constant") for axis in AXES
    for machine in ("tiny-1x4x4", "2x8x8", "1x32x16")])
def test_any_axis(machine: str, first: str, shape: tuple[int, ...], axis: int,
                  extent: int) -> None:
    """Behind a layer and read by one, with scales that change and that do not."""
    net = Net(axis)
    other = (*shape[:axis], extent, *shape[axis + 1:])
    k = (net.input(*other, name="k") if first == "input" else
         net.constant(net.rng.integers(-128, 128, other).astype(np.int8)))
    x = net.input(*shape)
    rows = len(shape) != 4
    x = net.dense(x, shape[-1]) if rows else net.conv(x, shape[1], (1, 1))
    y = net.add_node("qconcat", k, x, axis=axis, bias=(-3, 11), mult=(1 << 15, 54321),
                     shift=(15, 16), zp=3, lo=-128, hi=127)
    z = net.dense(y, 5) if rows else net.conv(y, 5, (1, 1))
    assert_right(MACHINES[machine], net.graph(y, z), net.samples())


def test_images_within_a_batch_are_refused() -> None:
    net = Net(12)
    parts = [net.input(images, 3, 4, 4, name=name) for images, name in ((1, "a"), (2, "b"))]
    graph = net.graph(net.add_node("qconcat", *parts, axis=0, bias=(0, 0), mult=(40000, 50000),
                                   shift=(15, 15), zp=0, lo=-128, hi=127))
    assert AccelTarget(TWO).refusal(graph, graph.nodes[-1]) == (
        "image 1 of its result does not begin a batch of 2")
    assert_right(TINY, graph, net.samples())


def test_rows_beside_images_are_refused() -> None:
    """Whichever input it is."""
    net = Net(5)
    x, a, b = (net.input(1, 3, 4, 4, name=name) for name in "xab")
    graph = net.graph(together(net, net.rescale(x), net.matmul(a, b, trans_b=True)))
    assert AccelTarget(TINY).refusal(graph, graph.nodes[-1]) == (
        "its input lies in memory as rows of matrices, not as images")


def test_results_spread() -> None:
    net = Net(5)
    (found,) = evaluate(net.graph(joined(net, [9, 8, 3], (5, 5))), net.samples()).values()
    assert len(np.unique(found)) > 60
    assert all(len(np.unique(found[:, c])) > 5 for c in range(20))


def together(net: Net, *parts: str) -> str:
    """A concatenation that changes no scale."""
    count = len(parts)
    return net.add_node("qconcat", *parts, bias=[-3] * count, mult=[1 << 15] * count,
                        shift=[15] * count, zp=3, lo=-128, hi=127)


@each_once("machine, channels", ["tiny-1x4x4", "2x8x8", "1x32x16"],
           [(8, 16), (5, 8), (8, 5), (3, 2)])
def test_parts_are_written_and_read_in_place(machine: str, channels: tuple[int, int]) -> None:
    """Within another one, by transposed convolutions, beside other readers, and sliced."""
    net = Net(2)
    a = net.conv(net.input(2, 6, 6, 6), channels[0], pads=(1, 1, 1, 1))
    b = net.conv(net.max_pool(a, (3, 3), (1, 1), (1, 1, 1, 1)), channels[1], (1, 1))
    c = together(net, a, b)
    e = together(net, c, net.conv(c, 8, (1, 1)))
    u = together(net, net.conv_transpose(net.max_pool(e), 8), c)
    z = net.slice(u, (0, 2, 1), (0, 8, 1), (1, 5, 2))
    graph = net.graph(net.conv(e, 5), u, net.conv(z, 7, (1, 1)))
    assert_right(MACHINES[machine], graph, net.samples())


def test_parts_need_no_layer() -> None:
    """Nor does the slice of whole blocks; what changes its scale, or is read as a view, does."""
    net = Net(2)
    x = net.input(1, 6, 6, 6)
    a, b = net.conv(x, 5, (1, 1)), net.conv(x, 7, (1, 1))
    y = net.slice(together(net, a, b), (0, 1, 1), (4, 8, 1))
    program = assert_right(TINY, net.graph(net.conv(y, 4, (1, 1))), net.samples())
    assert [name for name, _ in program.layers] == ["qconv2d_0", "qconv2d_1", "qconv2d_4"]
    y = net.concat(net.conv(x, 8, (1, 1)), net.conv(x, 8, (1, 1)))
    names = [name for names, _ in AccelTarget(TINY).compile(net.graph(y)).program.layers
             for name in names.split(" + ")]
    assert names[-2:] == ["qconcat_7:0", "qconcat_7:1"]


def remembered(axis: int, whole: bool = False, zp: int = 0) -> tuple[Graph, Net]:
    """A cache [6, 3, 8] whose last place a row takes; perhaps others read the `whole` cache."""
    net, shape = Net(axis), [6, 3, 8]
    cache = net.input(*shape, name="cache")
    row = net.rescale(net.input(*(1 if i == axis else n for i, n in enumerate(shape)), name="row"))
    end = tuple(n - (i == axis) for i, n in enumerate(shape))
    before = net.add_node("slice", cache, begin=(0, 0, 0), end=end, step=(1, 1, 1))
    y = net.add_node("qconcat", before, row, axis=axis, bias=(0, 0), mult=(1 << 15,) * 2,
                     shift=(15, 15), zp=zp, lo=-128, hi=127)
    return net.graph(net.rescale(y), *([net.rescale(cache)] if whole else [])), net


@pytest.mark.parametrize("axis", [0, 2])
def test_a_cache_takes_a_row_where_it_lies(axis: int) -> None:
    graph, net = remembered(axis)
    program = assert_right(TINY, graph, net.samples())
    assert [name for name, _ in program.layers if "qconcat" in name] == ["qconcat_2:1"]


@pytest.mark.parametrize("changes", [{"whole": True}, {"zp": 3}], ids=str)
def test_a_cache_that_others_read_is_copied(changes) -> None:
    """Nor does it lie there in another scale."""
    graph, net = remembered(0, **changes)
    program = assert_right(TINY, graph, net.samples())
    assert [name for name, _ in program.layers if "qconcat" in name] == ["qconcat_2:0",
                                                                         "qconcat_2:1"]
