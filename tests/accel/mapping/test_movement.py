"""Slices and repeated pixels: right to the bit, or refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.mapping.target import AccelTarget
from compiler.graph import Graph
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import MACHINES, TINY

names = st.sampled_from(("tiny-1x4x4", "2x8x8", "1x32x16", "short", "short-batch"))
channels = st.integers(1, 40)
size = st.tuples(st.integers(1, 4), st.integers(1, 4))


def begun(machine: str, channels: int, size: tuple[int, int], images: int,
          plain: bool) -> tuple[Net, str]:
    net = Net(channels)
    few = machine.startswith("short")
    x = net.input(images, min(channels, 9) if few else channels, *size)
    return net, x if plain else net.rescale(x)


@settings(max_examples=tries(10))
@given(names, channels, size, st.integers(1, 2), st.booleans(), st.integers(1, 3),
       st.integers(1, 3))
def test_upsample(machine, channels, size, images, plain, rows, columns) -> None:
    net, x = begun(machine, channels, size, images, plain)
    assert_right(MACHINES[machine], net.graph(net.upsample(x, rows, columns)), net.samples())


def test_a_repeated_pixel_is_loaded_once() -> None:
    net = Net(3)
    graph = net.graph(net.upsample(net.rescale(net.input(1, 8, 4, 4)), 2, 2))
    program = assert_right(TINY, graph, net.samples())
    moved = {"load": 0, "store": 0}
    begin = program.layers[0][1]
    for instruction in program.instructions(TINY)[begin:program.layers[1][1]]:
        if instruction.unit in moved:
            runs = 1
            for loop in instruction.fields["loops"]:
                runs *= loop["extent"]
            moved[instruction.unit] += runs * instruction.fields["run"]
    assert moved == {"load": 4 * 4 * 8, "store": 8 * 8 * 8}


@settings(max_examples=tries(15))
@given(names, channels, size, st.integers(1, 2), st.booleans(), st.data())
def test_slices(machine, channels, size, images, plain, data) -> None:
    """A convolution reads what lies in the lanes of padding, where it fits."""
    net, x = begun(machine, channels, size, images, plain)
    sides = [(0, images, 1)]
    for axis, extent in enumerate(net.values[x].shape[1:]):
        begin = data.draw(st.integers(0, extent - 1))
        sides.append((begin, data.draw(st.integers(begin + 1, extent)),
                      1 if axis == 0 else data.draw(st.integers(1, 3))))
    y = net.slice(x, *sides)
    z = y if machine.startswith("short") else net.conv(y, 3, (1, 1))
    graph = net.graph(y, z) if z != y else net.graph(y)
    assert_right(MACHINES[machine], graph, net.samples())


def test_slices_of_a_matrix() -> None:
    net = Net(4)
    y = net.slice(net.rescale(net.input(3, 21)), (0, 3, 1), (5, 18, 1))
    assert_right(TINY, net.graph(net.dense(y, 6)), net.samples())


ROWS: list[tuple[tuple[int, ...], list[tuple[int, int, int]]]] = [
    ((1, 9, 16), [(0, 1, 1), (0, 1, 1)]), ((1, 9, 16), [(0, 1, 1), (8, 9, 1)]),
    ((1, 9, 16), [(0, 1, 1), (2, 7, 1)]), ((1, 9, 10), [(0, 1, 1), (0, 9, 2)]),
    ((1, 9, 16), [(0, 1, 1), (0, 9, 1), (4, 12, 1)]), ((3, 5, 12), [(1, 2, 1)]),
    ((3, 5, 12), [(0, 3, 2), (1, 4, 1), (3, 10, 2)]), ((6, 12), [(1, 4, 1)]),
    ((6, 12), [(1, 6, 3), (0, 12, 5)]), ((2, 2, 3, 4, 5), [(0, 2, 1), (1, 2, 1)])]


@pytest.mark.one_in(47)
@pytest.mark.parametrize("machine, shape, sides, before, after", [
    (machine, *case, before, after) for machine in ("tiny-1x4x4", "2x8x8", "1x32x16")
    for case in ROWS for before in ("input", "rescale", "product")
    for after in ("product", "matrices", "reshape", "output", "slice")])
def test_slices_of_rows(machine: str, shape, sides, before: str, after: str) -> None:
    """Along any axis, of what lies in memory in every way, for all kinds of readers."""
    net = Net(len(sides))
    x = net.input(*shape)
    x = net.rescale(x) if before == "rescale" else (
        net.dense(x, shape[-1]) if before == "product" else x)
    y = net.slice(x, *sides)
    *leading, rows, width = net.values[y].shape
    if after == "matrices" and leading:
        turned = net.transpose(y, *range(len(leading)), len(leading) + 1, len(leading))
        z = net.matmul(net.dense(y, width), turned)
    elif after == "reshape":
        z = net.dense(net.reshape(y, int(np.prod(leading)) * rows, width), 6)
    elif after == "slice" and rows > 1:
        again = net.slice(y, *((0, extent, 1) for extent in leading), (1, rows, 1))
        z = net.add(again, net.dense(again, width))
    else:
        z = net.dense(y, 5)
    graph = net.graph(*((z, y) if after == "output" else (z,)))
    assert_right(MACHINES[machine], graph, net.samples())


def test_a_token_is_no_layer() -> None:
    """Nor are the parts of a product's channels that products of matrices read."""
    net = Net(3)
    x = net.dense(net.input(1, 9, 16), 16)
    token = net.reshape(net.slice(x, (0, 1, 1), (0, 1, 1)), 1, 16)
    program = assert_right(TINY, net.graph(net.dense(token, 5)), net.samples())
    assert len(program.layers) == 2
    net = Net(3)
    x = net.dense(net.input(1, 9, 8), 24)
    q, k = (net.slice(x, (0, 1, 1), (0, 9, 1), (first, first + 8, 1)) for first in (0, 8))
    y = net.matmul(q, net.transpose(k, 0, 2, 1))
    program = assert_right(TINY, net.graph(y), net.samples())
    assert len(program.layers) == 2


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("machine", ["tiny-1x4x4", "2x8x8"])
def test_what_a_slice_shows_is_an_output(machine: str, made: bool) -> None:
    """It lies among the elements of what it was cut from."""
    net = Net(5)
    x = net.input(1, 6, 8)
    y = net.dense(x, 8) if made else x
    cut = net.reshape(net.slice(y, (0, 1, 1), (2, 4, 1)), 2, 8)
    assert_right(MACHINES[machine], net.graph(net.dense(y, 3), cut), net.samples())
    assert_right(MACHINES[machine], net.graph(cut, net.dense(y, 3)), net.samples())


def refusal(graph: Graph) -> str | None:
    return AccelTarget(TINY).refusal(graph, graph.nodes[-1])


def test_slices_that_are_refused() -> None:
    net = Net(4)
    assert refusal(net.graph(net.slice(net.input(3, 8, 2, 2), (0, 3, 1), (0, 8, 2)))) == (
        "it takes one of 2 channels; the accelerator takes neighbours")
    graph = net.graph(net.slice(net.rescale(net.input(3, 8, 2, 2)), (1, 3, 1)))
    assert AccelTarget(MACHINES["2x8x8"]).refusal(graph, graph.nodes[-1]) == (
        "it takes 2 of 3 images; with batches of 2 the accelerator takes them all")


@pytest.mark.one_in(5)
@pytest.mark.parametrize("machine, size, side, plain, moved", [
    (machine, size, side, plain, moved) for machine in ("tiny-1x4x4", "1x32x16")
    for size in ((3, 4), (1, 1)) for side in ((1, 3, 1), (0, 4, 2), (3, 4, 1))
    for plain in (True, False) for moved in (True, False)])
def test_slices_of_images(machine: str, size, side, plain: bool, moved: bool) -> None:
    """Read where they lie, or cut out; by a convolution and element by element."""
    net = Net(7)
    x = net.input(4, 9, *size)
    y = net.slice(x if plain else net.rescale(x), side, (0, 8, 1))
    z = net.add(net.conv(y, 8, (1, 1)), y)
    assert_right(MACHINES[machine], net.graph(*((z, y) if moved else (z,))), net.samples())


def test_floats_are_refused() -> None:
    net = Net(4)
    x = net.input(1, 3, 2, 2, dtype="float32")
    assert refusal(net.graph(net.upsample(x, 2, 2))) == (
        "its input is float32; the accelerator takes int8")


@pytest.mark.parametrize("plain", [True, False])
def test_reshapes_that_keep_the_channels_copy_nothing(plain: bool) -> None:
    """Rows and columns of the same pixels; a matrix as images of one pixel, and back."""
    net = Net(4)
    x = net.input(3, 5, 4, 6)
    y = net.add_node("reshape", x if plain else net.rescale(x), shape=(3, 5, 2, 12))
    pooled = net.average(net.max_pool(y, (2, 3)))
    back = net.add_node("reshape", net.dense(net.flatten(pooled), 7), shape=(3, 7, 1, 1))
    program = assert_right(TINY, net.graph(y, back, net.conv(back, 4, (1, 1))), net.samples())
    assert not any("reshape" in name for name, _ in program.layers)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("machine, plain, images", [
    (machine, plain, images) for images in (1, 2) for plain in (True, False)
    for machine in ("tiny-1x4x4", "2x8x8", "1x32x16", "short-batch")])
def test_pads(machine: str, plain: bool, images: int) -> None:
    """A value around images, read by a convolution too."""
    net = Net(images)
    x = net.input(images, 5, 3, 4)
    x = x if plain else net.rescale(x)
    y = net.add_node("pad", x, net.constant(np.int8(-77)), mode="constant", before=(0, 0, 1, 2),
                     after=(0, 0, 3, 0))
    few = machine.startswith("short")
    assert_right(MACHINES[machine], net.graph(y) if few else net.graph(y, net.conv(y, 3)),
                 net.samples())


@pytest.mark.parametrize("attrs", [
    {"mode": "constant", "before": (0, 1, 0, 0), "after": (0, 0, 0, 0)},
    {"mode": "constant", "before": (0, 0, -1, 0), "after": (0, 0, 0, 0)},
    {"mode": "constant", "before": (0, 0, 0, 0), "after": (0, 0, 0, 0), "between": (0, 0, 1, 1)},
    {"mode": "reflect", "before": (0, 0, 1, 0), "after": (0, 0, 0, 0)}])
def test_pads_that_are_refused(attrs: dict) -> None:
    net = Net(4)
    value = [net.constant(np.int8(3))] if attrs["mode"] == "constant" else []
    assert refusal(net.graph(net.add_node("pad", net.input(1, 3, 4, 4), *value, **attrs))) == (
        "it is no pad of rows and columns with one number; the accelerator has no other")
