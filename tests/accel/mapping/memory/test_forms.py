"""Reshapes and transposes: views where strides can say them, else copies; attention without any."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.mapping.memory.deciding import decided
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.views import View
from accel.mapping.operators.blocked import Activation, Blocks
from accel.mapping.target import AccelTarget
from compiler.graph import Graph
from tests.support.divided import assert_divided_right
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import LONG, MACHINES, TINY

names = st.sampled_from(("tiny-1x4x4", "2x8x8", "1x32x16", "short-batch"))


def heads(net: Net, x: str, count: int) -> str:
    """[B,T,C] as [B,heads,T,C/heads]."""
    batch, tokens, channels = net.values[x].shape
    return net.transpose(net.reshape(x, batch, tokens, count, channels // count), 0, 2, 1, 3)


def attention(net: Net, x: str, count: int, width: int) -> str:
    batch, tokens, channels = net.values[x].shape
    q, k, v = (heads(net, net.dense(x, width), count) for _ in range(3))
    p = net.matmul(q, net.transpose(k, 0, 1, 3, 2), False, (3, -2))
    y = net.transpose(net.matmul(net.rescale(p), v, False, (-128, 1)), 0, 2, 1, 3)
    return net.add(x, net.dense(net.reshape(y, batch, tokens, width), channels))


@settings(max_examples=tries(6))
@given(names, st.integers(1, 2), st.integers(1, 9), st.integers(1, 3), st.integers(1, 9))
def test_attention(machine, batch, tokens, count, depth) -> None:
    """Heads of any depth, written as channels and read as heads."""
    net = Net(tokens)
    y = attention(net, net.input(batch, tokens, 12), count, count * depth)
    assert_right(MACHINES[machine], net.graph(y), net.samples())


@pytest.mark.parametrize("depth", [4, 6])
def test_attention_moves_nothing(depth: int) -> None:
    net = Net(3)
    y = attention(net, net.input(1, 8, 12), 2, 2 * depth)
    names = {name for name, _ in AccelTarget(TINY).compile(net.graph(y)).program.layers}
    assert not any("reshape" in name or "transpose" in name for name in names)


def test_images_become_tokens_and_images_again() -> None:
    net = Net(3)
    x = net.conv(net.input(1, 3, 8, 8), 12, (2, 2), (2, 2))
    tokens = net.transpose(net.reshape(x, 1, 12, 16), 0, 2, 1)
    y = net.add(tokens, net.dense(tokens, 12))
    back = net.reshape(net.transpose(y, 0, 2, 1), 1, 12, 4, 4)
    program = assert_right(TINY, net.graph(net.conv(back, 4)), net.samples())
    assert len(" + ".join(name for name, _ in program.layers).split(" + ")) == 4


@settings(max_examples=tries(12))
@given(names, st.lists(st.integers(1, 4), min_size=2, max_size=4), st.booleans(), st.data())
def test_random_views(machine, shape, made, data) -> None:
    """Views of an input or of a result are right, or refused beforehand."""
    net = Net(len(shape))
    x = net.input(*shape)
    y = net.rescale(x) if made else x
    for _ in range(data.draw(st.integers(1, 3))):
        extents = net.values[y].shape
        if data.draw(st.booleans()):
            y = net.transpose(y, *data.draw(st.permutations(range(len(extents)))))
        else:
            cut = data.draw(st.integers(0, len(extents) - 2)) if len(extents) > 2 else 0
            merged = extents[cut] * extents[cut + 1]
            part = data.draw(st.sampled_from([d for d in range(1, merged + 1) if merged % d == 0]))
            kept = len(extents) > 2 and data.draw(st.booleans())
            y = net.reshape(y, *extents[:cut], *((merged,) if kept else (part, merged // part)),
                            *extents[cut + 2:])
    graph = net.graph(net.rescale(y))
    target = AccelTarget(MACHINES[machine])
    if all(target.refusal(graph, node) is None for node in graph.nodes):
        assert_right(MACHINES[machine], graph, net.samples())


def graph_of(build) -> tuple[Graph, Forms]:
    net = Net(3)
    graph = net.graph(build(net))
    return graph, decided(graph, Blocks(1, 4, 4), ("qrescale", "qmatmul"))


def test_an_input_is_rows_where_all_readers_want_rows() -> None:
    _, forms = graph_of(lambda net: net.matmul(net.input(1, 2, 3, 4), net.input(4, 4, name="b")))
    assert forms["x"] == Activation(6, 4, 1, 1, True)
    _, forms = graph_of(lambda net: net.rescale(net.input(1, 2, 3, 4)))
    assert forms["x"] == Activation(1, 2, 3, 4, True)


def test_a_view_that_operators_cannot_read_is_a_copy() -> None:
    graph, forms = graph_of(lambda net: net.rescale(net.transpose(net.input(5, 4), 1, 0)))
    copy = forms.values["transpose_0.out"]
    assert copy.copy == (View((4, 5), (1, 4), 20), View((4, 5), (5, 1), 20))
    assert copy.owner == "transpose_0.out"


def test_a_copy_that_only_leaves_is_rows() -> None:
    """Heads as the host reads them: an image of the same elements would be one byte a run."""
    graph, forms = graph_of(lambda net: heads(net, net.rescale(net.input(1, 6, 8)), 2))
    assert forms[graph.outputs[0]] == Activation(1 * 2 * 6, 4, 1, 1, True)
    assert AccelTarget(TINY).borders(graph)[graph.outputs[0]] == "NCHW"

    def pooled(net: Net) -> str:
        return net.max_pool(heads(net, net.rescale(net.input(1, 6, 8)), 2))
    _, forms = graph_of(pooled)
    assert forms["transpose_2.out"] == Activation(1, 2, 6, 4, True)


@pytest.mark.parametrize("shape", [(1, 3, 4, 10), (1, 12, 5, 2), (1, 5, 4, 6)])
@pytest.mark.parametrize("machine", ["tiny-1x4x4", "2x8x8"])
def test_an_image_that_leaves_with_other_extents(machine: str, shape: tuple[int, ...]) -> None:
    """No strides show it as an image, so it leaves as rows."""
    net = Net(5)
    y = net.reshape(net.conv(net.input(1, 6, 4, 5), 6, (1, 1)), *shape)
    assert_right(MACHINES[machine], net.graph(y), net.samples())


def test_vectors_are_refused() -> None:
    net = Net(3)
    graph = net.graph(net.reshape(net.input(2, 3), 6))
    assert AccelTarget(TINY).refusal(graph, graph.nodes[0]) == (
        "the accelerator takes tensors of 2 dimensions and more")


def test_images_are_no_rows() -> None:
    net = Net(3)
    scores = net.matmul(net.input(1, 4, 3, 5), net.input(1, 4, 5, 6, name="b"))
    graph = net.graph(net.max_pool(scores))
    assert AccelTarget(TINY).refusal(graph, graph.nodes[-1]) == (
        "its input lies in memory as rows of matrices, not as images")


def together(net: Net, *parts: str, axis: int = 1) -> str:
    """A concatenation that changes no value."""
    return net.add_node("qconcat", *parts, bias=(0,) * len(parts), mult=(1 << 15,) * len(parts),
                        shift=(15,) * len(parts), zp=0, lo=net.limits.min, hi=net.limits.max,
                        axis=axis)


@pytest.mark.parametrize("channels", [4, 6])
@pytest.mark.parametrize("machine", ["tiny-1x4x4", "1x32x16"])
def test_joined_channels_that_are_read_as_rows(machine: str, channels: int) -> None:
    """Its parts are no images among those of the result, which lies as rows."""
    net = Net(channels)
    x = net.input(1, 4, 3, 2)
    joined = together(net, net.conv(x, channels, (1, 1)), net.conv(x, channels, (1, 1)))
    tokens = net.transpose(net.reshape(joined, 1, 2 * channels, 6), 0, 2, 1)
    assert_right(MACHINES[machine], net.graph(net.rescale(tokens)), net.samples())


@pytest.mark.parametrize("shape", [(3, 8), (1, 4, 3, 3)])
def test_joined_channels_of_another_type_are_refused(shape: tuple[int, ...]) -> None:
    net = Net(3, element="int16")
    graph = net.graph(together(net, x := net.rescale(net.input(*shape)), x))
    assert AccelTarget(TINY).refusal(graph, graph.nodes[-1]) == (
        "its input is int16; the accelerator takes int8; a machine as examples/machines/int16.py "
        "takes int16")
    assert_right(LONG, graph, net.samples())


@pytest.mark.parametrize("shape", [(1, 6), (1, 6, 1, 1)])
def test_what_was_a_vector_is_read_as_an_input(shape: tuple[int, ...]) -> None:
    """The host makes it of one dimension."""
    net = Net(3)
    x = net.reshape(net.rescale(net.input(6)), *shape)
    y = net.conv(x, 5, (1, 1)) if len(shape) == 4 else net.dense(x, 5)
    parts = assert_divided_right(TINY, net.graph(y), net.samples())
    assert [segment.target for segment in parts.segments] == ["host", "accel"]


@pytest.mark.parametrize("machine", ["tiny-1x4x4", "1x32x16"])
@pytest.mark.parametrize("channels", [2, 10])
def test_the_last_row_without_its_axis(machine: str, channels: int) -> None:
    """Rows that are plain have no padding behind them, even where the distance looks like it."""
    net = Net(channels)
    x = net.slice(net.input(1, 2, 2, channels), (0, 1, 1), (0, 2, 1), (1, 2, 1))
    y = net.rescale(net.reshape(x, 1, 2, channels))
    assert_right(MACHINES[machine], net.graph(y), net.samples())


@pytest.mark.parametrize("axis", [1, 3])
def test_a_vector_along_channels_or_along_rows(axis: int) -> None:
    """Where no reader wants images, constants decide how an input lies."""
    net = Net(axis)
    assert_right(TINY, net.graph(net.affine(net.input(1, 3, 4, 5), axis)), net.samples())


def test_a_vector_along_rows_before_a_layer_of_images() -> None:
    """The image wins: the host computes what needs rows."""
    net = Net(3)
    graph = net.graph(net.conv(net.affine(net.input(1, 3, 4, 5), 3), 4, (1, 1)))
    assert [*assert_divided_right(TINY, graph, net.samples()).stay] == ["qaffine_0"]


def test_channels_last_are_rows_for_a_layer_of_images() -> None:
    """A transpose to channels first is no copy where its input lies as rows."""
    net = Net(3)
    x = net.transpose(net.input(1, 5, 1, 5), 0, 3, 1, 2)
    program = assert_right(TINY, net.graph(net.conv(x, 2, (3, 1))), net.samples())
    assert [name for name, _ in program.layers] == ["qconv2d_1"]


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [(2, 3), (1, 2)])
def test_means_that_keep_dimensions(axes: tuple[int, ...], keepdims: int) -> None:
    net = Net(sum(axes))
    x = net.rescale(net.input(1, 6, 2, 3))
    y = net.add_node("qmean", x, axes=axes, keepdims=keepdims, bias=3, mult=40000, shift=18, zp=0,
                     lo=-128, hi=127)
    assert_divided_right(TINY, net.graph(y), net.samples())


def test_a_slice_of_rows_of_what_could_be_joined() -> None:
    """It sees its source where that lies, so the source stays there."""
    net = Net(3)
    x = net.rescale(net.input(8, 8))
    y = together(net, net.rescale(net.input(8, 4, name="b")), x)
    assert_right(TINY, net.graph(net.rescale(net.slice(x, (2, 6, 1))), y), net.samples())


@pytest.mark.parametrize("put", [False, True])
def test_a_cache_with_a_new_row_is_no_part_of_another_value(put: bool) -> None:
    """It lies in the memory of its input."""
    net = Net(3)
    cache, row = net.input(8, 8), net.rescale(net.input(1, 8, name="row"))
    if put:
        x = net.add_node("qput", cache, row, net.input(1, name="position", dtype="int64"), axis=0)
    else:
        x = together(net, net.slice(cache, (0, 7, 1)), row, axis=0)
    graph = net.graph(together(net, net.rescale(net.input(8, 4, name="b")), x))
    assert_right(TINY, graph, net.samples() | ({"position": np.zeros(1, np.int64)} if put else {}))


def test_a_constant_that_a_view_reads_stays_as_the_view_sees_it() -> None:
    """As images for the sum it would be other bytes for the product: the host computes the sum."""
    net = Net(3)
    x = net.input(1, 4, 3, 5)
    constant = net.constant(net.rng.integers(-128, 128, (1, 4, 3, 5)).astype(np.int8))
    seen = net.transpose(constant, 0, 1, 3, 2)
    y = net.matmul(net.add(x, constant), seen)
    graph = net.graph(net.conv(x, 4), y)
    assert [*assert_divided_right(TINY, graph, net.samples()).stay] == ["qadd_1"]


def test_a_view_of_a_constant_that_no_layer_reads_itself() -> None:
    net = Net(3)
    constant = net.constant(net.rng.integers(-128, 128, (3, 4)).astype(np.int8))
    y = net.matmul(net.input(2, 4), net.transpose(constant, 1, 0))
    assert_right(TINY, net.graph(y), net.samples())


def test_a_product_that_becomes_a_number() -> None:
    net = Net(3)
    product = net.matmul(net.input(1, 4), net.input(4, 1, name="y"))
    graph = net.graph(net.reshape(product))
    assert [AccelTarget(TINY).refusal(graph, node) for node in graph.nodes] == [
        None, "the accelerator takes tensors of 2 dimensions and more"]
